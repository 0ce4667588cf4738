"""What an attack on the gate of the file tools found: each way round it is closed, and stays closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, ApplyPatchTool, RunHooks, RunResult, Workspace, WorkspaceEditor, filesystem_tools
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.tools.filesystem.problems import FileTooLarge, PathRefused
from keyturn.tools.filesystem.workspace import MOST_LINES
from keyturn.tools.patches.hunks import InvalidPatch
from keyturn.tools.patches.v4a import apply_diff
from tests.playing import Run, state_of

CALLS: dict[str, dict[str, Any]] = {
    "edit_file": {"path": "a.txt", "old_string": "two", "new_string": "2"},
    "write_file": {"path": "a.txt", "content": "all new\n"},
    "apply_patch": {"patch": "*** Begin Patch\n*** Update File: a.txt\n-two\n+2\n*** End Patch"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path


def agent(root: Path, name: str, arguments: dict[str, Any], **settings: Any) -> Agent[Any]:
    tools = [*filesystem_tools(root), ApplyPatchTool(WorkspaceEditor(root), **settings)]
    call = function_call(name, arguments, call_id="c1")
    return Agent("desk", model=ScriptedModel([[call], "done"]), tools=tools)


def told(result: RunResult) -> str:
    [said] = [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]
    return said


class Meanwhile(RunHooks):
    """Writes a file after the engine has looked for the last time and before the tool is called."""

    def __init__(self, path: Path, text: str | None) -> None:
        self.path, self.text = path, text

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        if self.text is None:
            self.path.unlink()
        else:
            self.path.write_text(self.text)


@pytest.mark.parametrize("text", ["one\ntwo\nthree\n", "", None], ids=["changed", "emptied", "deleted"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_file_that_changes_after_the_last_look_is_left_alone(
    root: Path, run: Run, name: str, text: str | None
) -> None:
    desk = agent(root, name, CALLS[name])
    result = await run(desk, "go")
    state = await state_of(result, desk, True)
    state.approve(state.get_interruptions()[0])
    result = await run(desk, state, hooks=Meanwhile(root / "a.txt", text))
    assert result.final_output == "done"
    assert any(word in told(result) for word in ("changed since", "no 'a.txt'", "not in the file", "does not fit"))
    assert [path.read_text() for path in root.iterdir()] == ([] if text is None else [text])


@pytest.mark.each
@pytest.mark.parametrize("name", ["edit_file", "apply_patch"])
async def test_what_did_not_fit_when_it_was_shown_is_not_done_when_it_fits(root: Path, run: Run, name: str) -> None:
    """Who approved saw that it would change nothing; so it changes nothing, though the file was made to fit."""
    (root / "a.txt").write_text("something else\n")
    desk = agent(root, name, CALLS[name])
    state = (await run(desk, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = await run(desk, state, hooks=Meanwhile(root / "a.txt", "one\ntwo\n"))
    assert "did not fit" in told(result)
    assert (root / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("name", ["edit_file", "apply_patch"])
async def test_who_mends_what_did_not_fit_gets_it_done(root: Path, run: Run, name: str) -> None:
    wrong = {
        "edit_file": {"path": "a.txt", "old_string": "three", "new_string": "3"},
        "apply_patch": {"patch": "*** Begin Patch\n*** Update File: a.txt\n-three\n+3\n*** End Patch"},
    }
    desk = agent(root, name, wrong[name])
    state = (await run(desk, "go")).to_state()
    [item] = state.get_interruptions()
    state.approve(item, edit=CALLS[name])
    result = await run(desk, state)
    while result.interruptions:  # it was mended unseen: the diff may be shown first
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await run(desk, state)
    assert (root / "a.txt").read_text() == "one\n2\n"


async def test_a_move_is_asked_about_where_it_goes_too(root: Path, run: Run) -> None:
    """A rule that lets through what is in drafts/ lets nothing be moved out of it."""

    def outside_drafts(_context: Any, operation: Any, _call_id: str) -> bool:
        return not operation.path.startswith("drafts/")

    (root / "drafts").mkdir()
    (root / "drafts" / "x.py").write_text("x\n")
    for to, waits in (("drafts/y.py", False), ("main.py", True)):
        patch = f"*** Begin Patch\n*** Update File: drafts/x.py\n*** Move to: {to}\n-x\n+y\n*** End Patch"
        result = await run(agent(root, "apply_patch", {"patch": patch}, needs_approval=outside_drafts), "go")
        assert bool(result.interruptions) == waits
        assert not (root / "main.py").exists()
        (root / "drafts" / "x.py").write_text("x\n")


async def test_lines_in_an_envelope_are_not_the_head_of_another_patch(root: Path, run: Run) -> None:
    """A file that holds a diff can be changed, and no file is changed that only that diff names."""
    (root / "change.diff").write_text("-- a/a.txt\nkeep\n")
    patch = "*** Begin Patch\n*** Update File: change.diff\n--- a/a.txt\n+++ b/a.txt\n keep\n*** End Patch"
    result = await run(agent(root, "apply_patch", {"patch": patch}, needs_approval=False), "go")
    assert "Updated 'change.diff'" in told(result)
    assert (root / "change.diff").read_text() == "++ b/a.txt\nkeep\n"
    assert (root / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [("a/a.txt", "a/a.txt", "a/a.txt"), ("a/a.txt", "b/a.txt", "a.txt"), ("b/a.txt", "b/a.txt", "b/a.txt")],
)
async def test_a_directory_named_a_is_one(root: Path, run: Run, old: str, new: str, changed: str) -> None:
    for name in "ab":
        (root / name).mkdir()
        (root / name / "a.txt").write_text("one\ntwo\n")
    patch = f"--- {old}\n+++ {new}\n@@ -2 +2 @@\n-two\n+2\n"
    result = await run(agent(root, "apply_patch", {"patch": patch}, needs_approval=False), "go")
    assert told(result) == f"Updated '{changed}'."
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.txt")}
    assert [name for name, text in texts.items() if text != "one\ntwo\n"] == [changed]


def test_more_lines_than_can_be_shown_are_refused_at_once(root: Path) -> None:
    """A few megabytes of line breaks took a minute and a gigabyte to compare."""
    files, lines = Workspace(root), "\n" * (MOST_LINES + 1)
    with pytest.raises(FileTooLarge, match="lines"):
        files.write("a.txt", lines.encode())
    (root / "a.txt").write_text(lines)
    for change in (lambda: files.write("a.txt", b""), lambda: files.delete("a.txt")):
        with pytest.raises(FileTooLarge, match="lines"):
            change()
    with pytest.raises(InvalidPatch, match="lines"):
        apply_diff(lines, "-x\n+y\n")


@pytest.mark.parametrize("path", [".git/config", ".hg/hgrc", ".jj/config", "GIT~1/hooks/pre-commit", ".Hg/hgrc"])
def test_what_other_programs_run_is_not_changed(root: Path, path: str) -> None:
    files = Workspace(root)
    with pytest.raises(PathRefused, match="not changed"):
        files.write(path, b"[hooks]\n")


async def test_a_name_that_is_kept_from_reading_is_kept_from_searching(root: Path, run: Run) -> None:
    """As the page of the file tools does it: grep shows what is in files, so it is asked as well."""

    def secret(_context: Any, params: Any, _call_id: str) -> bool:
        return ".env" in params["path"] or params.get("ignore_hidden") is False

    (root / ".env").write_text("PASSWORD=hunter2\n")
    ways: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": ".env"}),
        ("read_file", {"path": "./.env"}),
        ("grep", {"pattern": ".", "path": ".env", "output_mode": "content"}),
        ("grep", {"pattern": "PASS", "output_mode": "content", "ignore_hidden": False}),
        ("grep", {"pattern": "PASS", "output_mode": "content", "glob_pattern": ".env"}),
        ("grep", {"pattern": "PASS", "output_mode": "content"}),
    ]
    for name, arguments in ways:
        call = function_call(name, arguments, call_id="c1")
        tools = filesystem_tools(root, needs_approval={"read_file": secret, "grep": secret})
        result = await run(Agent("desk", model=ScriptedModel([[call], "done"]), tools=tools), "go")
        assert result.interruptions or "hunter2" not in told(result), arguments
