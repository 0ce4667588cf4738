"""The apply_patch tool in runs: what people see, what a stale approval does, and what the model is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    ApplyPatchOperation,
    ApplyPatchResult,
    ApplyPatchTool,
    Diff,
    Grant,
    Preview,
    Runner,
    RunResult,
    Text,
    UserError,
    WorkspaceEditor,
)
from keyturn.core.items import Item
from keyturn.deferred import ApprovalRequired
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.tools.base import OutcomeUnknown
from tests.playing import Run, state_of

README = "# Title\n\nhello\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def call(kind: str, path: str, diff: str | None = None, label: str = "c1") -> Item:
    operation = {"type": kind, "path": path, "diff": diff}
    return {"type": "apply_patch_call", "call_id": label, "operation": operation, "status": "completed"}


def agent(tool: ApplyPatchTool, *rounds: list[Item]) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([*rounds, "done"]), tools=[tool])


def outputs(result: RunResult) -> list[Item]:
    return [item for item in result.to_input_list() if str(item.get("type")).endswith("call_output")]


CHANGE = call("update_file", "README.md", " # Title\n \n-hello\n+goodbye\n")


async def test_people_see_the_file_as_it_is_and_as_it_would_be(root: Path, run: Run, saved: bool) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [CHANGE])
    result = await run(desk, "go")
    state = await state_of(result, desk, saved)
    [item] = state.get_interruptions()
    assert item.name == "apply_patch"
    assert item.preview.blocks == (Diff(README, "# Title\n\ngoodbye\n", "README.md"),)
    assert item.preview.summary == "update 'README.md'"
    assert list(item.preview.basis) == ["README.md"]
    state.approve(item)
    result = await run(desk, state)
    assert result.final_output == "done"
    assert (root / "README.md").read_text() == "# Title\n\ngoodbye\n"
    assert outputs(result) == [
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "Updated 'README.md'."}
    ]


async def test_a_file_that_changed_after_it_was_shown_asks_again(root: Path, run: Run, saved: bool) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [CHANGE])
    state = await state_of(await run(desk, "go"), desk, saved)
    state.approve(state.get_interruptions()[0])
    (root / "README.md").write_text("# Title\n\nhello\n\nand more\n")
    result = await run(desk, state)
    [item] = result.interruptions
    assert "has changed since it was shown" in item.reason
    assert item.preview.blocks == (
        Diff("# Title\n\nhello\n\nand more\n", "# Title\n\ngoodbye\n\nand more\n", "README.md"),
    )
    assert (root / "README.md").read_text() == "# Title\n\nhello\n\nand more\n", "nothing was done"
    state = await state_of(result, desk, saved)
    state.approve(state.get_interruptions()[0])
    assert (await run(desk, state)).final_output == "done"
    assert (root / "README.md").read_text() == "# Title\n\ngoodbye\n\nand more\n"


async def test_a_file_that_appeared_after_it_was_shown_asks_again(root: Path, run: Run) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [call("create_file", "new.txt", "+mine\n")])
    state = (await run(desk, "go")).to_state()
    assert state.get_interruptions()[0].preview.basis == {"new.txt": ""}
    state.approve(state.get_interruptions()[0])
    (root / "new.txt").write_text("theirs")
    result = await run(desk, state)
    [item] = result.interruptions
    assert "is there already" in item.preview.blocks[0].text
    state = result.to_state()
    state.approve(item)
    [output] = outputs(await run(desk, state))
    assert (output["status"], (root / "new.txt").read_text()) == ("failed", "theirs")
    assert "is there already" in output["output"]


async def test_a_change_of_other_files_matters_to_nobody(root: Path, run: Run) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [CHANGE])
    state = (await run(desk, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    (root / "other.txt").write_text("new")
    assert (await run(desk, state)).final_output == "done"


async def test_an_edited_patch_is_compared_by_the_files_of_both(root: Path, run: Run) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [CHANGE])
    state = (await run(desk, "go")).to_state()
    edit = {"type": "update_file", "path": "README.md", "diff": "-hello\n+good evening\n"}
    state.approve(state.get_interruptions()[0], edit=edit)
    result = await run(desk, state)
    assert (root / "README.md").read_text() == "# Title\n\ngood evening\n"
    [output] = outputs(result)
    assert output["status"] == "completed"
    assert "A person changed the arguments" in output["output"]


async def test_a_patch_that_does_not_fit_is_told_to_people_and_to_the_model(root: Path, run: Run) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [call("update_file", "README.md", "-farewell\n+goodbye\n")])
    result = await run(desk, "go")
    [item] = result.interruptions
    note, diff = item.preview.blocks
    assert note.label == "this patch does not fit"
    assert "'farewell' is nowhere in the file" in note.text
    assert diff == Text("-farewell\n+goodbye\n", label="update file README.md")
    state = result.to_state()
    state.approve(item)
    [output] = outputs(await run(desk, state))
    assert output["status"] == "failed"
    assert "'farewell' is nowhere" in output["output"]
    assert (root / "README.md").read_text() == README


async def test_a_rejection_is_a_failed_result(root: Path, run: Run) -> None:
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [CHANGE])
    state = (await run(desk, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="not today")
    [output] = outputs(await run(desk, state))
    assert output == {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "not today"}


async def test_as_a_function_it_takes_a_patch_of_several_files(root: Path, run: Run) -> None:
    body = "*** Begin Patch\n*** Update File: README.md\n-hello\n+bye\n*** Add File: b.txt\n+b\n*** End Patch"
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), [function_call("apply_patch", {"patch": body}, call_id="c1")])
    result = await run(desk, "go")
    [item] = result.interruptions
    assert [type(block) for block in item.preview.blocks] == [Diff, Diff]
    assert [one["path"] for one in item.params["operations"]] == ["README.md", "b.txt"]
    state = result.to_state()
    state.approve(item)
    [output] = outputs(await run(desk, state))
    assert output == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "Updated 'README.md'. Created 'b.txt'.",
    }
    assert (root / "b.txt").read_text() == "b\n"


async def test_a_callable_is_asked_about_each_operation(root: Path, run: Run) -> None:
    """A patch of which only the last file needs somebody's word waits as a whole, whatever it says of the first."""
    asked: list[str] = []

    async def needs(_context: Any, operation: ApplyPatchOperation, _call_id: str) -> bool:
        asked.append(operation.path)
        return not operation.path.endswith(".md")

    body = "*** Begin Patch\n*** Update File: README.md\n-hello\n+bye\n*** Add File: setup.py\n+b\n*** End Patch"
    tool = ApplyPatchTool(WorkspaceEditor(root), needs_approval=needs)
    result = await run(agent(tool, [function_call("apply_patch", {"patch": body}, call_id="c1")]), "go")
    assert [item.call_id for item in result.interruptions] == ["c1"]
    assert asked == ["README.md", "setup.py"]
    assert (await run(agent(tool, [CHANGE]), "go")).interruptions == []


async def test_a_grant_may_be_about_a_path(root: Path, run: Run) -> None:
    (root / "docs").mkdir()
    rounds = [
        [call("create_file", path, "+x\n", label)]
        for path, label in (("docs/a", "c1"), ("docs/b", "c2"), ("src/c", "c3"))
    ]
    desk = agent(ApplyPatchTool(WorkspaceEditor(root)), *rounds)
    state = (await run(desk, "go")).to_state()
    state.approve(state.get_interruptions()[0], grant=Grant(where={"path": {"under": "docs"}}))
    [item] = (await run(desk, state)).interruptions
    assert (item.call_id, (root / "docs" / "b").read_text()) == ("c3", "x\n")


async def test_on_approval_decides_at_once(root: Path, run: Run) -> None:
    seen: list[str] = []

    def decide(_context: Any, item: Any) -> dict[str, Any]:
        seen.append(item.raw_item["operation"]["path"])
        return {"approve": True}

    tool = ApplyPatchTool(WorkspaceEditor(root), on_approval=decide)
    assert (await run(agent(tool, [CHANGE]), "go")).final_output == "done"
    assert (seen, (root / "README.md").read_text()) == (["README.md"], "# Title\n\ngoodbye\n")


class Own:
    """A user's own editor: one operation after another, sync and async, with answers of every kind."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []

    def create_file(self, operation: ApplyPatchOperation) -> str:
        self.done.append((operation.path, operation.ctx_wrapper.context))
        return f"made {operation.path}"

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        self.done.append((operation.path, operation.ctx_wrapper.context))
        return ApplyPatchResult("failed", "it is locked")

    def delete_file(self, operation: ApplyPatchOperation) -> None:
        raise RuntimeError("password=hunter2")


async def test_an_editor_of_ones_own_is_called_with_the_context(run: Run) -> None:
    own = Own()
    tool = ApplyPatchTool(own, needs_approval=False)
    rounds = [
        call("create_file", "/anywhere/x", "+x", "c1"),
        call("update_file", "y", "-y", "c2"),
        call("delete_file", "z", None, "c3"),
    ]
    result = await run(agent(tool, rounds), "go", context={"user": "ann"})
    assert own.done == [("/anywhere/x", {"user": "ann"}), ("y", {"user": "ann"})]
    made, locked, broken = outputs(result)
    assert (made["status"], made["output"]) == ("completed", "made /anywhere/x")
    assert (locked["status"], locked["output"]) == ("failed", "it is locked")
    assert broken["status"] == "failed"
    assert "hunter2" not in json.dumps(result.to_input_list())


class OnlyUpdates:
    """An editor that does one of the three things."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def update_file(self, operation: ApplyPatchOperation) -> str:
        self.done.append(operation.path)
        return "updated"


@pytest.mark.parametrize("kind", ["create_file", "delete_file"])
async def test_an_editor_need_not_have_every_method_and_refuses_the_others(run: Run, saved: bool, kind: str) -> None:
    editor = OnlyUpdates()
    desk = agent(ApplyPatchTool(editor), [call(kind, "a", "+x\n"), call("update_file", "b", "-a\n+b\n", label="c2")])
    result = await run(desk, "go")
    assert [item.call_id for item in result.interruptions] == ["c2"]  # nobody is asked about what cannot be done
    state = await state_of(result, desk, saved)
    state.approve(state.get_interruptions()[0])
    refused, done = outputs(await run(desk, state))
    assert (refused["status"], done["status"], editor.done) == ("failed", "completed", ["b"])
    assert f"{kind} is not possible here" in refused["output"]


async def test_a_patch_that_needs_a_method_which_is_not_there_is_refused_as_a_whole(run: Run) -> None:
    editor = OnlyUpdates()
    patch = "*** Begin Patch\n*** Update File: b\n@@\n-a\n+b\n*** Delete File: c\n*** End Patch\n"
    desk = agent(ApplyPatchTool(editor, needs_approval=False), [function_call("apply_patch", {"patch": patch})])
    result = await run(desk, "go")
    assert "delete_file is not possible here" in outputs(result)[0]["output"]
    assert editor.done == []


async def test_an_editor_that_loses_a_method_while_a_call_waits_does_nothing(run: Run) -> None:
    class Changing(OnlyUpdates):
        delete_file: Any = lambda self, operation: self.done.append(operation.path)

    editor = Changing()
    desk = agent(ApplyPatchTool(editor), [call("delete_file", "a")])
    state = await state_of(await run(desk, "go"), desk, False)
    state.approve(state.get_interruptions()[0])
    Changing.delete_file = None
    [output] = outputs(await run(desk, state))
    assert (output["status"], editor.done) == ("failed", [])


async def test_of_an_editor_that_cannot_look_people_see_the_patch(run: Run) -> None:
    result = await run(agent(ApplyPatchTool(Own()), [call("update_file", "y", "-y\n+z\n")]), "go")
    assert result.interruptions[0].preview == Preview((Text("-y\n+z\n", label="update file y"),))


async def test_a_patch_that_ends_midway_says_how_far_it_came(run: Run) -> None:
    body = "*** Begin Patch\n*** Add File: a\n+a\n*** Delete File: b\n*** Add File: c\n+c\n*** End Patch"
    own = Own()
    tool = ApplyPatchTool(own, needs_approval=False)
    result = await run(agent(tool, [function_call("apply_patch", {"patch": body}, call_id="c1")]), "go")
    [output] = outputs(result)
    assert output["output"].split("\n") == [
        "create_file a: completed. made a",
        "delete_file b: failed. An error occurred.",
        "create_file c: not done",
    ]
    assert [path for path, _ in own.done] == ["a"]


def test_two_roots_are_two_tools(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    one, two = (ApplyPatchTool(WorkspaceEditor(tmp_path / name)) for name in "ab")
    assert one.spec() != two.spec()
    assert one.spec() == ApplyPatchTool(WorkspaceEditor(tmp_path / "a")).spec()
    assert one.provider_tool() == {"type": "apply_patch"}


@pytest.mark.each
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"editor": object()}, "create_file"),
        ({"name": ""}, "name"),
        ({"needs_approval": "always"}, "needs_approval"),
        ({"on_approval": True}, "on_approval"),
    ],
)
def test_a_wrong_option_is_refused_when_the_tool_is_made(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        ApplyPatchTool(**{"editor": Own(), **settings})


@pytest.mark.each
@pytest.mark.parametrize("error", [OutcomeUnknown("the line broke"), ApprovalRequired()], ids=["unknown", "asks"])
async def test_a_patch_whose_later_operation_has_no_known_end_is_in_doubt(error: Exception) -> None:
    class Editor:
        def create_file(self, operation: Any) -> str:
            if operation.path == "b":
                raise error
            return "made"

    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch"
    script = ScriptedModel([function_call("apply_patch", {"patch": patch}), "done"])
    tool: Any = ApplyPatchTool(Editor(), needs_approval=False)  # type: ignore[arg-type]  # it makes files alone
    result = await Runner.run(Agent("a", model=script, tools=[tool]), "go")
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
