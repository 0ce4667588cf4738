"""The tables of the manual are whole: each variable that the source reads, each error that is caught, each page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import keyturn
from tests.sources import TOGETHER, nodes

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "keyturn"

# Names in capitals that stand in a file that reads the environment, and are no variables of it.
NO_VARIABLES = {
    "AF_UNIX": "of the module socket",
    "ALL": "an argument of bubblewrap",
    "DIR": "what the help of a command calls an argument",
    "DISPLAY": "of the system: whether there is a screen",
    "WAYLAND_DISPLAY": "of the system: whether there is a screen",
    "KEYTURN_DEMO_HOME": "what the demo tells its own worker",
    "FILE": "what the help of a command calls an argument",
    "ID": "what the help of a command calls an argument",
    "NETWORK": "what the help of a command calls an argument",
    "NAME": "what the help of a command calls an argument",
    "PATTERN": "what the help of a command calls an argument",
    "PERSON": "what the help of a command calls an argument",
    "SECONDS": "what the help of a command calls an argument",
    "TOOLS": "what the help of a command calls an argument",
    "URL": "what the help of a command calls an argument",
    "O_NOFOLLOW": "of the module os",
    "O_NONBLOCK": "of the module os",
    "POST": "a method of HTTP",
    "UTF8": "an encoding of PostgreSQL",
    "PG": "what the variables begin with that the PostgreSQL of the tests must not see",
}
# Errors that no caller of the public interface meets.
INSIDE = {
    # Of hooks and the gate, which print their words.
    "BadSettings", "HookEnded", "NoPlace", "NotForwarded", "ServerRefused",
    "BadGlob", "BatchFailed", "Broken", "CallRefused", "CannotTell", "Lost", "LostRace", "NotWritten", "OutcomeUnknown",
    "SearchFailed", "TooNarrow", "Unclear", "Unfit", "Unreached", "Unreadable", "Unsent", "Malformed", "Misplaced",
    "NoRoom", "BadBody", "Barred", "Elsewhere", "Refusal", "TooLong", "TooMany", "TooManyStreams", "TooSlow",
    "TooManyOpen", "AapRefused",
    "AtWork", "TooManyAtOnce", "FormRefused", "NotSent", "Occupied", "MovedMeanwhile", "NotAccepted", "WrongField",
    "UnknownRole",
}  # fmt: skip


def rows(page: str, heading: str = "") -> list[list[str]]:
    """The cells of every row of a page's tables, below a heading if one is given."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


@cache
def read_by_source() -> frozenset[str]:
    """Every text in capitals in a file that reads the environment, except what docstrings say."""
    return frozenset(_read_by_source())


def _read_by_source() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        if not re.search("environ|getenv", path.read_text(encoding="utf-8")):
            continue
        if not any(getattr(node, "attr", getattr(node, "id", "")) in ("environ", "getenv") for node in nodes(path)):
            continue
        for node in nodes(path):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and re.fullmatch(r"[A-Z][A-Z0-9_]+", value):
                yield value


def test_every_variable_that_the_source_reads_is_in_the_table() -> None:
    told = {name for row in rows("configuration.md") for name in named(row[0] + row[1]) if name.isupper()}
    missing = read_by_source() - told - NO_VARIABLES.keys()
    assert not missing, f"docs/configuration.md does not tell of {sorted(missing)}"


def test_the_table_names_no_variable_that_nobody_reads() -> None:
    first = {name for row in rows("configuration.md") for name in named(row[0]) if name.isupper()}
    assert "KEYTURN_SECRET" in first
    assert not first - read_by_source()


def errors_of_ours() -> set[str]:
    """Every class of an error or a warning in the source, but those of the tests' helpers."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if "testing" in path.parts:
            continue
        module = ".".join(["keyturn", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
        if not re.search(r"^class \w+\(.*\):", path.read_text(encoding="utf-8"), re.MULTILINE):
            continue
        found |= {name for name, value in vars(import_module(module)).items() if _is_error(value)}
    return found


def _is_error(value: Any) -> bool:
    if not isinstance(value, type) or not issubclass(value, BaseException):
        return False
    return value.__module__.startswith("keyturn.") and not value.__name__.startswith("_")


def test_every_error_is_in_the_table_with_what_to_do() -> None:
    table = [row for row in rows("failures.md", "Error reference") if len(row) == 3]
    told = {name for row in table for name in named(row[0])}
    public = {name for name in keyturn.__all__ if _is_error(getattr(keyturn, name))}
    assert public <= told, f"docs/failures.md does not tell of {sorted(public - told)}"
    missing = errors_of_ours() - told - INSIDE
    assert not missing, f"docs/failures.md does not tell of {sorted(missing)}"
    assert all(cell.strip() for row in table for cell in row)


def test_the_table_of_errors_names_no_other() -> None:
    told = {name for row in rows("failures.md", "Error reference") for name in named(row[0])}
    assert len(told) > 40
    assert not told - errors_of_ours() - {"AgentsException"}


def test_every_logger_is_in_the_table() -> None:
    used: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        used |= set(re.findall(r'^\w+ = logging\.getLogger\("(keyturn\.\w+)"\)', path.read_text(), re.MULTILINE))
    told = {name for row in rows("failures.md", "Loggers") for name in re.findall(r"`(keyturn\.\w+)`", row[0])}
    assert len(used) > 4
    assert used == told


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)[)#]", index))
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} == linked
