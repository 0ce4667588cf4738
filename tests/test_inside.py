"""The map for maintainers, docs/inside.md, names what is there: files, modules, functions, classes, fields and words.

Everything in backticks is looked up in the sources, parsed and not imported. In a table of places a name must stand in
one of the files of its row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import TOGETHER, parsed

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "inside.md"
PACKAGE = ROOT / "src" / "keyturn"
FILES = re.compile(r"[\w./-]+\.(?:py|pyi|toml|md)|[\w./-]+/")
NAMES = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")
# What is named there and stands elsewhere.
ELSEWHERE = {"OWNERS": "the table of packages in tests/test_architecture.py", "await": "a word of Python's"}
NOT_BUILT = {"channels/", "server/", "adapters/"}
EXAMPLES = {"cli/NAME.py"}


def spoken() -> list[tuple[int, str]]:
    """What stands in backticks outside code blocks, with its line."""
    found: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").split("\n"), 1):
        fenced ^= line.startswith("```")
        if not fenced:
            found += [(number, word) for word in re.findall(r"`([^`]+)`", line)]
    return found


def place_of(path: str) -> Path | None:
    """The file or folder that a path of the map means; what is named before says where a shorter one begins."""
    if (ROOT / path).exists() or (PACKAGE / path).exists():
        return ROOT / path if (ROOT / path).exists() else PACKAGE / path
    return next(PACKAGE.rglob(path.rstrip("/")), None)


@cache
def sources() -> list[Path]:
    return [path for top in ("src", "trials") for path in sorted((ROOT / top).rglob("*.py"))]


@cache
def defined(path: Path) -> frozenset[str]:
    """Every name that a file gives to something: also `Class.method`, fields, attributes, and the core's own words."""
    module = parsed(path)
    words: set[str] = set()
    if path.is_relative_to(PACKAGE / "core"):  # states, phases, verdicts
        words = {
            node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return frozenset(words.union(*_named(module)))


def _named(module: ast.Module) -> Iterator[tuple[str, ...]]:
    left: list[tuple[ast.AST, str]] = [(module, "")]
    for node, within in left:
        inner = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, within + node.name
            inner = f"{node.name}." if isinstance(node, ast.ClassDef) else within
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id, within + node.id
            continue
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, within + node.attr
        elif isinstance(node, ast.arg):
            yield (node.arg,)
            continue
        elif isinstance(node, ast.expr) and not isinstance(node, ast.Tuple | ast.List | ast.Starred):
            continue  # it gives no names but those of a comprehension
        left += [(child, inner) for child in ast.iter_child_nodes(node)]


@cache
def everything() -> frozenset[str]:
    """All names of the sources, with those of modules, and `module.name`."""
    found: set[str] = set()
    for path in sources():
        names = defined(path)
        found |= names | {path.stem, path.parent.name} | {f"{path.stem}.{name}" for name in names}
    return frozenset(found)


def known(name: str) -> bool:
    """Whether a dotted name is there: as it stands, or as the module that it is."""
    if name in everything() or name in ELSEWHERE:
        return True
    first, _, rest = name.partition(".")  # of a thing in somebody's hand: `drive.begun`, `tool.invoke`
    return first.islower() and first in everything() and rest in everything()


def test_the_map_names_files_that_are_there() -> None:
    paths = [(line, word) for line, word in spoken() if FILES.fullmatch(word) and word not in NOT_BUILT | EXAMPLES]
    assert len(paths) > 100
    found = [f"docs/inside.md:{line} {word}" for line, word in paths if place_of(word) is None]
    assert not found, "\n".join(found)


def test_the_map_names_what_is_there() -> None:
    words = [(line, word) for line, word in spoken() if not FILES.fullmatch(word)]
    names = [(line, match["name"]) for line, word in words if (match := NAMES.fullmatch(word))]
    assert len(names) > 200
    found = [f"docs/inside.md:{line} {name}" for line, name in names if not known(name)]
    assert not found, "\n".join(found)


def rows() -> Iterator[tuple[int, list[str], list[str]]]:
    """The rows of "Where to find what": their files, and the names that are said to stand there."""
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    begin = lines.index("| where is ... | file | function |") + 2
    for number, line in enumerate(lines[begin:], begin + 1):
        if not line.startswith("|"):
            return
        _, _, files, names, _ = line.split("|")
        yield number, re.findall(r"`([\w/]+\.py)`", files), re.findall(r"`([\w.]+)", names)


def trade_rows() -> Iterator[tuple[int, str, str, list[str]]]:
    """The rows of "In the words of the trade": the word, the file that does it, and its names."""
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    begin = lines.index("| where is ... done? | searched for by | file | function |") + 2
    for number, line in enumerate(lines[begin:], begin + 1):
        if not line.startswith("|"):
            return
        _, _, word, file, names, _ = (each.strip() for each in line.split("|"))
        yield number, word, file.strip("`"), re.findall(r"`([\w.]+)", names)


def test_a_word_of_the_trade_leads_to_the_file_that_does_it() -> None:
    """Two hops at most: the row of the page, or a search of first lines, and the function that the row names."""
    every = list(trade_rows())
    assert len(every) >= 20
    found: list[str] = []
    for number, word, file, names in every:
        first = ast.get_docstring(parsed(PACKAGE / file)) or ""
        if word.lower() not in " ".join(first.lower().split()):
            found.append(f"docs/inside.md:{number} {word!r} is not in the first lines of {file}")
        missing = [name for name in names if name not in defined(PACKAGE / file)]
        found += [f"docs/inside.md:{number} {name} is not in {file}" for name in missing]
    assert not found, "\n".join(found)


def test_what_is_said_to_stand_in_a_file_stands_there() -> None:
    found: list[str] = []
    for number, files, names in rows():
        places = [place for file in files if (place := place_of(file)) is not None]
        there = {name for place in places for name in defined(place)}
        for name in names:
            if name not in there and known(name) and not name.startswith("Drive."):
                found.append(f"docs/inside.md:{number} {name} is not in {', '.join(files)}")
    assert not found, "\n".join(found)


def test_a_name_that_is_nowhere_is_found_out() -> None:
    assert known("Writer.commit")
    assert known("drive.begun")
    assert not known("Writer.comit")
    assert not known("no_such_function")
    assert place_of("engine/no_such_file.py") is None
