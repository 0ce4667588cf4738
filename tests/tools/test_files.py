"""The filesystem tools in runs: which of them ask, what people see, and what the model is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, Diff, Json, RunResult, UserError, Workspace, filesystem_tools
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.testing import approve_all
from tests.playing import Run, state_of
from tests.waiting import turns_of_the_loop

NOTES = "one\ntwo\nthree\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text(NOTES)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("print('two')\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "x.log").write_text("two\n")
    return tmp_path


def agent(root: Path, *calls: dict[str, Any], **asking: Any) -> Agent[Any]:
    made = [
        function_call(call["tool"], {k: v for k, v in call.items() if k != "tool"}, call_id=f"c{n}")
        for n, call in enumerate(calls)
    ]
    return Agent("desk", model=ScriptedModel([made, "done"]), tools=filesystem_tools(root, needs_approval=asking))


def told(result: RunResult) -> list[str]:
    return [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]


async def test_reading_asks_nobody(root: Path, run: Run) -> None:
    calls = [
        {"tool": "ls"},
        {"tool": "ls", "path": "src"},
        {"tool": "read_file", "path": "notes.txt", "offset": 1, "limit": 1},
        {"tool": "glob", "pattern": "**/*.py"},
        {"tool": "grep", "pattern": "two"},
        {"tool": "grep", "pattern": "t.o", "output_mode": "content", "glob_pattern": "*.txt"},
        {"tool": "grep", "pattern": "nowhere", "path": "src"},
    ]
    result = await run(agent(root, *calls), "go")
    assert result.interruptions == []
    assert told(result) == [
        ".gitignore (6 bytes)\nnotes.txt (14 bytes)\nsrc/\nx.log (4 bytes)",
        "app.py (13 bytes)",
        "     2\ttwo\n(1 line shown; the file goes on: offset=2 shows more)",
        "src/app.py\n(passed by: 1 hidden, 1 ignored)",
        "notes.txt\nsrc/app.py\n(passed by: 1 hidden, 1 ignored)",
        "notes.txt:2:two\n(passed by: 1 hidden, 1 ignored)",
        "Nothing was found.",
    ]


async def test_writing_asks_and_shows_the_file_before_and_after(root: Path, run: Run, saved: bool) -> None:
    desk = agent(
        root,
        {"tool": "write_file", "path": "new/list.txt", "content": "milk\n"},
        {"tool": "edit_file", "path": "notes.txt", "old_string": "two", "new_string": "2"},
    )
    state = await state_of(await run(desk, "go"), desk, saved)
    new, changed = state.get_interruptions()
    assert new.preview.blocks == (Diff("", "milk\n", "new/list.txt", "a new file"),)
    assert new.preview.basis == {"new/list.txt": ""}
    assert changed.preview.blocks == (Diff(NOTES, "one\n2\nthree\n", "notes.txt"),)
    state.approve(new)
    state.reject(changed)
    result = await run(desk, state)
    assert (root / "new" / "list.txt").read_text() == "milk\n"
    assert (root / "notes.txt").read_text() == NOTES
    assert told(result)[0] == "Created 'new/list.txt'."


async def test_a_file_that_changed_after_it_was_shown_asks_again(root: Path, run: Run, saved: bool) -> None:
    desk = agent(root, {"tool": "edit_file", "path": "notes.txt", "old_string": "two", "new_string": "2"})
    state = await state_of(await run(desk, "go"), desk, saved)
    state.approve(state.get_interruptions()[0])
    (root / "notes.txt").write_text("zero\n" + NOTES)
    result = await run(desk, state)
    [item] = result.interruptions
    assert item.preview.blocks == (Diff("zero\n" + NOTES, "zero\none\n2\nthree\n", "notes.txt"),)
    assert (root / "notes.txt").read_text() == "zero\n" + NOTES
    state = await state_of(result, desk, saved)
    state.approve(state.get_interruptions()[0])
    assert told(await run(desk, state)) == ["Edited 'notes.txt'."]
    assert (root / "notes.txt").read_text() == "zero\none\n2\nthree\n"


async def test_two_changes_of_one_file_are_shown_one_after_the_other(root: Path, run: Run) -> None:
    """Both are approved together, but the second was shown a file that the first one changes."""
    first, second = (
        {"tool": "edit_file", "path": "notes.txt", "old_string": old, "new_string": new}
        for old, new in (("one", "1"), ("three", "3"))
    )
    desk = agent(root, first, second)
    state = approve_all(await run(desk, "go"))
    result = await run(desk, state)
    while result.interruptions:
        [item] = result.interruptions
        assert "two" in item.preview.blocks[0].before
        assert ("1" in item.preview.blocks[0].before) or ("3" in item.preview.blocks[0].before)
        state = result.to_state()
        state.approve(item)
        result = await run(desk, state)
    assert result.final_output == "done"
    text = (root / "notes.txt").read_text()
    done = [said.startswith("Edited") for said in told(result)]
    assert text == f"{'1' if done[0] else 'one'}\ntwo\n{'3' if done[1] else 'three'}\n", (
        "what was said is what was done"
    )


async def test_changes_that_ask_nobody_do_not_lose_each_other(root: Path, run: Run) -> None:
    (root / "list.txt").write_text("".join(f"<{number}>\n" for number in range(12)))
    calls = [
        {"tool": "edit_file", "path": "list.txt", "old_string": f"<{number}>", "new_string": str(number)}
        for number in range(12)
    ]
    result = await run(agent(root, *calls, edit_file=False), "go")
    assert told(result) == ["Edited 'list.txt'."] * 12
    assert (root / "list.txt").read_text() == "".join(f"{number}\n" for number in range(12))


async def test_what_cannot_be_done_is_told_in_words(root: Path, run: Run) -> None:
    (root / "blob").write_bytes(b"\0")
    calls = [
        {"tool": "read_file", "path": "none.txt"},
        {"tool": "read_file", "path": "blob"},
        {"tool": "read_file", "path": "../x"},
        {"tool": "edit_file", "path": "notes.txt", "old_string": "nine", "new_string": "9"},
        {"tool": "edit_file", "path": "src/app.py", "old_string": "'", "new_string": '"'},
        {"tool": "write_file", "path": "notes.txt/x", "content": ""},
        {"tool": "write_file", "path": ".git/hooks/pre-commit", "content": "rm -rf /"},
        {"tool": "ls", "path": "notes.txt"},
        {"tool": "glob", "pattern": "../*"},
        {"tool": "grep", "pattern": "("},
    ]
    result = await run(agent(root, *calls, write_file=False, edit_file=False), "go")
    words = [
        "There is no 'none.txt'",
        "'blob' is a binary file",
        "invalid: The path '../x' is refused",
        "not in the file",
        "several places: lines 1",
        "not a directory",
        "may be read, not changed",
        "not a directory",
        "relative",
        "not a regular expression",
    ]
    assert [word for word, said in zip(words, told(result), strict=True) if word not in said] == []
    assert (root / "notes.txt").read_text() == NOTES


async def test_a_change_that_does_not_fit_is_shown_as_such(root: Path, run: Run) -> None:
    desk = agent(root, {"tool": "edit_file", "path": "notes.txt", "old_string": "nine", "new_string": "9"})
    [item] = (await run(desk, "go")).interruptions
    note, arguments = item.preview.blocks
    assert note.label == "this change does not fit"
    assert "not in the file" in note.text
    assert arguments == Json(item.params)


async def test_each_tool_asks_as_it_is_told(root: Path, run: Run) -> None:
    def outside_src(_context: Any, params: dict[str, Any], _call_id: str) -> bool:
        return not params["path"].startswith("src/")

    calls = [
        {"tool": "write_file", "path": "src/new.py", "content": ""},
        {"tool": "write_file", "path": "new.py", "content": ""},
        {"tool": "read_file", "path": "notes.txt"},
    ]
    result = await run(agent(root, *calls, write_file=outside_src, read_file=True), "go")
    assert [item.params["path"] for item in result.interruptions] == ["new.py", "notes.txt"]
    assert (root / "src" / "new.py").exists()


def test_a_tool_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(UserError, match="'rm'"):
        filesystem_tools(root, needs_approval={"rm": True})


def test_they_share_a_workspace_and_say_which(root: Path) -> None:
    files = Workspace(root)
    tools = filesystem_tools(files)
    assert [tool.name for tool in tools] == ["ls", "read_file", "write_file", "edit_file", "glob", "grep"]
    assert {tool.spec()["root"] for tool in tools} == {files.root}
    assert [tool.read_only for tool in tools] == [True, True, False, False, True, True]
    assert all(tool.description for tool in tools)


async def test_a_long_list_is_cut_in_plain_sight(root: Path) -> None:
    (root / "many").mkdir()
    for number in range(1005):
        (root / "many" / f"{number:04}").touch()
    ls = filesystem_tools(root)[0]
    shown = await ls.invoke(None, ls.prepare({"arguments": '{"path": "many"}'}))
    assert shown.endswith("0999 (0 bytes)\n(and 5 more)")


async def test_nothing_else_waits_while_files_are_searched(root: Path) -> None:
    (root / "evil.txt").write_text("a" * 40 + "!\n")
    grep = filesystem_tools(root)[5]
    grep.files.search = lambda path, query, real=grep.files.search: real(path, type(query)(query.pattern, seconds=0.1))  # type: ignore[attr-defined]  # less patience for a test
    task = asyncio.create_task(grep.invoke(None, grep.prepare({"arguments": '{"pattern": "(a+)+$"}'})))
    ticks = 0
    while not task.done():
        await turns_of_the_loop()
        ticks += 1
    assert ticks > 20
    with pytest.raises(Exception, match="longer than"):
        await task
