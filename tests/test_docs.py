"""The README and the manual tell the truth: their code runs, their output is real, their pictures are current.

The Python blocks of one page are one program, read from top to bottom; on the pages in ALONE each block is a program of
its own. A `text` block right after a Python block is what that block prints. `python -m tests.test_docs` writes the
generated parts anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from keyturn.core.states import FRAME_MOVES, MOVES, RUN_MOVES, diagram
from tests.table import each

ROOT = Path(__file__).resolve().parents[1]
STATES = ROOT / "docs" / "states.md"
# Pages on which each block runs alone, so that a reader can copy any of them.
ALONE = {
    f"docs/{name}.md"
    for name in ("agents-as-tools", "context", "differences", "handoffs", "output-types", "running", "streaming")
}
PICTURES = ROOT / "docs" / "img"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # "python no-run" is no "python"
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


class Block(NamedTuple):
    language: str
    text: str
    line: int


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = FENCE.finditer(text)
    return [Block(one[1], one[2], text.count("\n", 0, one.start(2)) + 1) for one in found]


def programs(page: Path) -> Iterator[tuple[Block, str | None]]:
    """Each Python block, and what the page says it prints, if it says so."""
    all_blocks = blocks(page)
    for block, after in zip_longest(all_blocks, all_blocks[1:]):
        if block.language == "python":
            told = after is not None and after.language == "text" and after.line == _end(block) + 3
            yield block, after.text if told else None


def _end(block: Block) -> int:
    return block.line + block.text.count("\n")


@pytest.fixture
def page_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Where a page's program runs: a module of its own, an empty directory, a key of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-these-tests")
    return new_module(monkeypatch)


def new_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    return module


@pytest.mark.each
@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_runs_and_prints_what_it_says(
    page: Path, page_module: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for block, expected in programs(page):
        if name_of(page) in ALONE:
            page_module = new_module(monkeypatch)
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, name_of(page), "exec"), page_module.__dict__)
        printed = capsys.readouterr().out
        if expected is not None:
            assert printed == expected, f"{name_of(page)}:{block.line}"


@each("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [one or other for one, other in LINK.findall(text)]
    missing = [
        target
        for target in targets
        if "://" not in target and not target.startswith("#") and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert not missing


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).lower() for line in lines)
    return {re.sub(r"[^\w\- ]", "", line).replace(" ", "-") for line in plain}


@each("page", PAGES, ids=name_of)
def test_links_lead_to_a_heading(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    wanted = [target.partition("#") for target, _ in LINK.findall(text) if "#" in target and "://" not in target]
    places = [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in wanted]
    assert not [anchor for place, anchor in places if place.suffix == ".md" and anchor not in headings(place)]


@each("page", PAGES, ids=name_of)
def test_what_make_is_asked_for_is_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = set(re.findall(r"(?:^|`|\s)make ([a-z][a-z-]+)(?=[`\s]|$)", _code(page), re.MULTILINE))
    assert asked <= targets


def _code(page: Path) -> str:
    """What is set as code: blocks without a language of ours, and `inline`."""
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"`(make [^`\n]+)`", FENCE.sub("", text))
    return "\n".join([*inline, *(block.text for block in blocks(page) if block.language in ("", "sh"))])


def test_pages_whose_blocks_run_alone_say_so() -> None:
    said = {name_of(page) for page in PAGES if "runs alone" in " ".join(page.read_text(encoding="utf-8").split())}
    assert said == ALONE


def test_there_are_pages_and_they_hold_programs() -> None:
    assert len(PAGES) > 5
    assert sum(1 for page in PAGES for _ in programs(page)) > 20


# The tables that the manual draws, in its order, and the first state of each.
TABLES = ((MOVES, "proposed"), (FRAME_MOVES, "model"), (RUN_MOVES, "new"))


def drawn_tables() -> list[str]:
    return [f"{diagram(moves, first)}\n" for moves, first in TABLES]


def test_the_diagrams_are_the_tables() -> None:
    drawn = [block.text for block in blocks(STATES) if block.language == "mermaid"]
    assert drawn == drawn_tables(), "a table of states changed: run `python -m tests.test_docs`"


def test_every_state_is_explained_where_it_is_drawn() -> None:
    sections = STATES.read_text(encoding="utf-8").split("\n```mermaid\n")[1:]
    for (moves, _first), text in zip(TABLES, sections, strict=True):
        states = {state for state, _ in moves} | set(moves.values())
        assert not [state for state in sorted(states) if f"| `{state}` |" not in text]


def drawn_pictures() -> dict[str, str]:
    """The pictures as docs/img/draw.py draws them now, by file name."""
    spec = spec_from_file_location("draw", PICTURES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pictures()


def test_the_pictures_are_as_drawn() -> None:
    for name, text in drawn_pictures().items():
        assert (PICTURES / name).read_text(encoding="utf-8") == text, (
            f"{name} is stale: run `python -m tests.test_docs`"
        )


def write_anew() -> None:
    """Write the generated parts of the manual."""
    text = STATES.read_text(encoding="utf-8")
    drawn = iter(drawn_tables())
    STATES.write_text(
        re.sub(r"(?s)```mermaid\n.*?```", lambda _: f"```mermaid\n{next(drawn)}```", text), encoding="utf-8"
    )
    for name, picture in drawn_pictures().items():
        (PICTURES / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    write_anew()
