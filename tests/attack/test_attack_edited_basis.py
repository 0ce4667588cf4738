"""What an attack found, held since: an edit that names another file is bound to it until the tool's last look."""

import json

import pytest

from keyturn import (
    Agent,
    ApplyPatchTool,
    RunHooks,
    Runner,
    ToolContext,
    WorkspaceEditor,
    filesystem_tools,
    function_tool,
    read_approved,
)
from keyturn.console import decide
from keyturn.testing import ScriptedModel, function_call

WORK = "what Ada wrote meanwhile\n"


@pytest.mark.each
@pytest.mark.parametrize("kind", ["write_file", "apply_patch", "bound"])
def test_another_file_that_changes_in_a_hook_is_left_alone(kind, tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    other = tmp_path / "b.txt"
    other.write_text("b\n")
    read = []

    @function_tool(needs_approval=True, files=("path",))
    def deploy(context: ToolContext, path: str) -> str:
        read.append(read_approved(context, path))
        return "ran"

    class Hooks(RunHooks):
        async def on_tool_start(self, context, agent, tool):
            other.write_text(WORK)

    if kind == "write_file":
        call, tools = function_call(kind, {"path": "a.txt", "content": "new\n"}), filesystem_tools(tmp_path)
        edit = {"path": "b.txt", "content": "new\n"}
    elif kind == "apply_patch":
        call = {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a.txt"}}
        tools, edit = [ApplyPatchTool(WorkspaceEditor(tmp_path))], {"type": "delete_file", "path": "b.txt"}
    else:
        call, tools = function_call("deploy", {"path": str(tmp_path / "a.txt")}), [deploy]
        edit = {"path": str(other)}
    agent = Agent(name="A", model=ScriptedModel([[call], "done"]), tools=tools)
    typed = iter(["e", json.dumps(edit), "a"])
    state = decide(Runner.run_sync(agent, "go"), ask=lambda _: next(typed), show=lambda _: None, width=100)
    Runner.run_sync(agent, state, hooks=Hooks())
    assert read == []
    assert other.exists()
    assert other.read_text() == WORK
