"""Whoever judges a call of a file tool sees the path that will be opened, however its model spelled it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    ApplyPatchTool,
    LocalShellTool,
    Policy,
    Rule,
    ToolGuardrailFunctionOutput,
    WorkspaceEditor,
    filesystem_tools,
    function_tool,
    tool_input_guardrail,
)
from keyturn.core.events import CallDecided
from keyturn.deep import FilesystemBackend, StateBackend, create_deep_agent
from keyturn.models.scripted.model import function_call
from keyturn.tools.processes.command import LocalExecutor
from tests.playing import Run, call, events, model, script, state_of
from tests.table import each

SPELLINGS = (".env", "./.env", ".//.env", "././.env")
DEEP = ("/.env", ".env", "./.env", "/./.env", "//.env")
FILE_CALLS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "write_file": {"content": "x"},
    "edit_file": {"old_string": "KEY", "new_string": "NO"},
    "grep": {"pattern": "KEY", "output_mode": "content"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".env").write_text("KEY=hunter2\n")
    (tmp_path / "docs").mkdir()
    return tmp_path


def exactly(path: str) -> Any:
    """The rule that a user writes: it asks about this one file."""
    return lambda _context, params, _call_id: params["path"] == path


@each("name", FILE_CALLS)
async def test_a_callable_is_given_the_path_that_is_opened(root: Path, run: Run, name: str) -> None:
    for spelling in (*SPELLINGS, *((".env/",) if name == "grep" else ())):
        tools = filesystem_tools(root, needs_approval={name: exactly(".env")})
        asks = call(name, "c1", path=spelling, **FILE_CALLS[name])
        [item] = (await run(Agent("a", model=script([asks], "done"), tools=tools), "go")).interruptions
        assert item.params["path"] == ".env", spelling


@each("judge", ["policy", "when", "rule", "guardrail"])
async def test_every_judge_is_given_the_path_that_is_opened(root: Path, run: Run, judge: str) -> None:
    @tool_input_guardrail
    def guards(data: Any) -> ToolGuardrailFunctionOutput:
        decided = ToolGuardrailFunctionOutput.allow()
        path = json.loads(data.context.tool_arguments)["path"]
        return decided if path != ".env" else ToolGuardrailFunctionOutput.reject_content("no")

    policies: dict[str, Any] = {
        "policy": lambda seen, _context: "deny" if seen.params["path"] == ".env" else None,
        "when": Policy(Rule("deny", when=lambda seen, _context: seen.params["path"] == ".env")),
        "rule": Policy(Rule("deny", where={"path": {"eq": ".env"}})),
        "guardrail": None,
    }
    for spelling in SPELLINGS:
        tools = filesystem_tools(root)
        if judge == "guardrail":
            tools[1].tool_input_guardrails = [guards]
        agent = Agent("a", model=script([call("read_file", "c1", path=spelling)], "done"), tools=tools)
        result = await run(agent, "go", policy=policies[judge])
        assert "hunter2" not in str(result.to_input_list()), spelling


async def test_what_is_judged_is_shown_recorded_and_run(root: Path, run: Run, saved: bool) -> None:
    """One spelling from the gate to the log; an edit of a person is put into it as well."""
    tools = filesystem_tools(root)
    asks = call("write_file", "c1", path="docs/.//new.txt", content="x")
    agent = Agent("a", model=script([asks], "done"), tools=tools)
    state = await state_of(await run(agent, "go"), agent, saved)
    [item] = state.get_interruptions()
    assert item.params == {"path": "docs/new.txt", "content": "x"}
    state.approve(item, edit={"path": "./docs/./other.txt", "content": "y"})
    result = await run(agent, state)
    while result.interruptions:
        state = await state_of(result, agent, saved)
        state.approve(state.get_interruptions()[0])
        result = await run(agent, state)
    assert [path.name for path in (root / "docs").iterdir()] == ["other.txt"]
    decided = [event.decision.args for event in events(result, CallDecided) if event.decision.args]
    assert [json.loads(text)["path"] for text in decided] == ["docs/other.txt"]


async def test_a_link_is_not_another_name_of_a_file(root: Path, run: Run) -> None:
    """A link is refused by whoever opens: no spelling of a file leads to another one."""
    (root / "notes").symlink_to(root / ".env")
    (root / "here").symlink_to(root)
    for path in ("notes", "here/.env", "docs/../.env", str(root / ".env")):
        agent = Agent("a", model=script([call("read_file", "c1", path=path)], "done"), tools=filesystem_tools(root))
        assert "hunter2" not in str((await run(agent, "go")).to_input_list()), path


@each("kind", ["in memory", "folder"])
async def test_a_deep_agents_rule_is_given_the_path_from_the_root_of_its_files(root: Path, kind: str) -> None:
    for spelling in (*DEEP, *((str(root / ".env"),) if kind == "folder" else ())):
        for name, rest in FILE_CALLS.items():
            backend: Any = FilesystemBackend(root) if kind == "folder" else StateBackend({"/.env": "KEY=hunter2\n"})
            scripted = model([call(name, "c1", path=spelling, **rest)], "done")
            agent = create_deep_agent(scripted, backend=backend, interrupt_on={name: exactly("/.env")})
            waits = await agent.run("go")
            assert [part.args["path"] for part in waits.output.approvals] == ["/.env"], (spelling, name)


async def test_a_patch_is_judged_by_the_paths_that_its_editor_gets(root: Path, run: Run) -> None:
    """For an editor of one's own too, which is given the same path as whoever judged it."""
    given: list[str] = []

    class Own:
        def update_file(self, operation: Any) -> str:
            given.append(operation.path)
            return "done"

        create_file = delete_file = update_file

    def asks(_context: Any, operation: Any, _call_id: str) -> bool:
        return operation.path == ".env"

    (root / "x").write_text("x\n")
    for editor, spelling in (
        *((WorkspaceEditor(root), spelling) for spelling in SPELLINGS),
        *((Own(), spelling) for spelling in (*SPELLINGS, "docs/../.env", "docs//..//.env")),
    ):
        for patch in (
            f"*** Begin Patch\n*** Update File: {spelling}\n-KEY=hunter2\n+x\n*** End Patch",
            f"*** Begin Patch\n*** Update File: x\n*** Move to: {spelling}\n-x\n+y\n*** End Patch",
        ):
            tool = ApplyPatchTool(editor, needs_approval=asks)
            agent = Agent("a", model=script([call("apply_patch", "c1", patch=patch)], "done"), tools=[tool])
            assert (await run(agent, "go")).interruptions, (editor, patch)
    assert given == []


async def test_a_program_is_judged_by_the_directory_that_it_runs_in(root: Path, run: Run) -> None:
    (root / "link").symlink_to(root / "docs")

    def asks(_context: Any, action: Any, _call_id: str) -> bool:
        return action.working_directory == "docs"

    for spelling in ("docs", "./docs", "docs/", "docs/../docs", str(root / "docs"), "link"):
        action = {"type": "exec", "command": ["ls"], "env": {}, "working_directory": spelling}
        item = {"type": "local_shell_call", "call_id": "c1", "id": "l1", "status": "completed", "action": action}
        tool = LocalShellTool(LocalExecutor(root), needs_approval=asks)
        result = await run(Agent("a", model=script([item], "done"), tools=[tool]), "go")
        assert [item.params["working_directory"] for item in result.interruptions] == ["docs"], spelling


async def test_a_function_is_given_the_path_that_its_callable_saw(root: Path, run: Run) -> None:
    """Arguments that `files=` names are paths: one file has one spelling for rule, approval and function."""
    ran: list[Any] = []

    def deploy(path: str, others: list[str]) -> str:
        ran.append((path, others))
        return "ok"

    for spelling in ("run.sh", "./run.sh", "docs/../run.sh"):
        asks = exactly("run.sh")
        tool = function_tool(deploy, files=("path", "others"), needs_approval=asks)
        agent = Agent("a", model=script([call("deploy", "c1", path=spelling, others=["./a"])], "done"), tools=[tool])
        [item] = (await run(agent, "go")).interruptions
        assert item.params == {"path": "run.sh", "others": ["a"]}
    assert ran == []


async def test_a_skills_file_is_named_by_the_path_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: csv\ndescription: Reads.\n---\nRead.")
    (tmp_path / "more.md").write_text("hunter2")
    for spelling in ("more.md", "./more.md", "x/../more.md"):
        scripted = model([function_call("read_skill_resource", {"name": "csv", "path": spelling})], "done")
        agent = create_deep_agent(scripted, skills=[tmp_path], interrupt_on={"read_skill_resource": exactly("more.md")})
        waits = await agent.run("go")
        assert [part.args["path"] for part in waits.output.approvals] == ["more.md"]
