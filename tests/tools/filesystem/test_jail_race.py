"""Somebody swaps directories and files for links while the tools run: nothing outside is ever read or written."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import ApplyPatchTool, ToolContext, WorkspaceEditor, filesystem_tools
from keyturn.tools.base import ToolProblem
from keyturn.tools.filesystem.search import SearchQuery
from keyturn.tools.filesystem.workspace import Workspace
from tests.effort import AT_LENGTH

SECRET = "the-secret-outside"
# What a model may call in a place that is now a directory and now a link.
CALLS: dict[str, dict[str, Any]] = {
    "ls": {"path": "a/swap"},
    "read_file": {"path": "a/swap/f.txt"},
    "write_file": {"path": "a/swap/new/deep.txt", "content": "pwned"},
    "edit_file": {"path": "a/swap/f.txt", "old_string": "word", "new_string": "drow"},
    "glob": {"pattern": "**", "path": "a/swap"},
    "grep": {"pattern": "e", "path": "a", "output_mode": "content"},
    "apply_patch": {
        "patch": "*** Begin Patch\n*** Update File: a/swap/f.txt\n-word\n+drow\n*** Add File: a/swap/p.txt\n+pwned\n"
        "*** Delete File: a/swap/g.txt\n*** End Patch"
    },
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for place in (tmp_path / "root" / "a" / "swap", tmp_path / "outside"):
        place.mkdir(parents=True)
        (place / "f.txt").write_text(f"word {SECRET}\nword\n" if place.name == "outside" else "word\n")
        (place / "g.txt").write_text("going\n")
    (tmp_path / "outside" / SECRET).write_text("even its name\n")
    return tmp_path / "root"


@contextmanager
def swapping(place: Path, outside: Path) -> Iterator[None]:
    """As fast as they can, somebody exchanges a directory for a link to another one, and back; there is always one."""
    link = place.parent.parent / "link"
    link.symlink_to(outside)
    names = (-100, os.fsencode(place), -100, os.fsencode(link), 2)  # in the working directory, both; exchange
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None or exchange(*names) or exchange(*names):
        pytest.skip("this system cannot exchange two names")
    stop, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            swaps += not exchange(*names)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert swaps


def state(outside: Path) -> dict[str, tuple[int, bytes]]:
    """A directory's own time changes with every name that is made in it, for however short a moment."""
    known = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in outside.iterdir()}
    return {**known, ".": (outside.stat().st_mtime_ns, b"")}


TURNS = 250 if AT_LENGTH else 50


def tried(action: Callable[[], Any]) -> str:
    try:
        return str(action())
    except ToolProblem as refused:
        return str(refused)


@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_stays_inside(root: Path, tmp_path: Path, name: str) -> None:
    tools = {tool.name: tool for tool in [*filesystem_tools(root), ApplyPatchTool(WorkspaceEditor(root))]}
    tool, place, outside = tools[name], root / "a" / "swap", tmp_path / "outside"
    item = {"type": "function_call", "call_id": "c1", "name": name, "arguments": json.dumps(CALLS[name])}
    prepared, before = tool.prepare(item), state(outside)
    context = ToolContext(None, tool_name=name, tool_call_id="c1", tool_arguments=prepared.text)
    said: set[str] = set()
    with swapping(place, outside):
        for turn in range(3000):
            if (
                turn > (250 if AT_LENGTH else 50) and len(said) > 1
            ):  # it has met both; on a busy machine that may take longer
                break
            try:
                said.add(str(await tool.invoke(context, prepared)))
                shown: Any = tool.preview(prepared.params)
                said.add(str(await shown if asyncio.iscoroutine(shown) else shown))
            except ToolProblem as refused:
                said.add(str(refused))
    assert state(outside) == before
    assert [text for text in said if SECRET in text] == []
    assert len(said) > 1


def test_a_search_stays_inside(root: Path, tmp_path: Path) -> None:
    """For text, for names, by regular expression, from above and in the very file."""
    files, outside = Workspace(root), tmp_path / "outside"
    before, said = state(outside), set[str]()
    (root / ".gitignore").write_text("nothing\n")
    with swapping(root / "a" / "swap", outside):
        for turn in range(TURNS):
            for path in (".", "a/swap", "a/swap/f.txt"):
                said.add(tried(lambda path=path: files.search(path, SearchQuery("e"))))  # type: ignore[misc]  # called at once
                if path != "a/swap/f.txt":
                    said.add(tried(lambda path=path: files.search(path, SearchQuery(None, glob="**"))))  # type: ignore[misc]  # at once
            if turn % 25 == 0:
                said.add(tried(lambda: files.search("a/swap", SearchQuery("[es]"))))
    assert [text for text in said if SECRET in text] == []
    assert state(outside) == before


def test_rules_of_what_to_ignore_are_not_read_through_links(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside" / "rules").write_text("*.txt\n")
    (root / ".gitignore").symlink_to(tmp_path / "outside" / "rules")
    found = Workspace(root).search(".", SearchQuery("word")).lines
    assert found == ["a/swap/f.txt:1:word"]


def test_a_root_that_is_swapped_itself_leads_nowhere(root: Path, tmp_path: Path) -> None:
    files, outside = Workspace(root), tmp_path / "outside"
    before, said = state(outside), set[str]()
    place = tmp_path / "x" / "y"
    place.mkdir(parents=True)
    files = Workspace(place)
    (place / "f.txt").write_text("word\n")
    with swapping(place, outside):
        for _ in range(300):
            said.add(tried(lambda: files.read("f.txt").text))
            said.add(tried(lambda: files.search(".", SearchQuery("e"))))
            said.add(tried(lambda: files.write("new.txt", b"pwned")))
            said.add(tried(files.entries))
    assert state(outside) == before
    assert [text for text in said if SECRET in text] == []
