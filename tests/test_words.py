"""The house's words: a sentence for every module, class and public function, and a word for every field that many read.

CONTRIBUTING.md says how it should read. A test can tell that a sentence is there, not that it is a good one; of what
users read, the manual and the command line, it can tell that no word of a riddle came back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import strings
from tests.sources import TOGETHER, kept, parsed

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "keyturn"

# What users read says these in the trade's words: a user, an approver, a pending request, sign in, is valid, snooze.
RIDDLES = re.compile(
    r"\b(somebody|anybody|everybody|nobody|whoever|what waits|that waits|comes? in(?! (?:one|pages))|let in|any more"
    r"|counts no more|counts for nothing|put off|talked to|of ours|of yours|lets? run)\b",
    re.IGNORECASE,
)
# What the source says to users is free of these as well, which the manual may need for what a file or a clock does.
SAID = re.compile(
    r"\b((?:was|were) let run|br(?:oke|eaks?) the glass|says of itself|asked anew|decided before"
    r"|on the word of|time is up|ran out of time|what came of it|it takes (?:a person|somebody|\d)"
    r"|put away|puts them away|let (?:it )?go|is away|had it on the screen|taken up|took (?:it|the run) up"
    r"|brought back from a copy|the first decision stands|says? who decides|waits? for (?:you|people|nobody))\b",
    re.IGNORECASE,
)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
# Pages that a test or a tool writes, and those for whoever works on Keyturn.
NOT_YET = {"design", "doors", "findings", "inside", "kinds", "previews", "probes"}
# Rooms whose texts are still to be rewritten.
ROOMS_NOT_YET = ("server/", "channels/")
# Those of their rooms that are rewritten: sign-in, accounts, users, provisioning.
REWRITTEN = ("server/identity/", "server/scim/", "server/host_identity.py", "server/web/people.py")
# Texts that are kept in stores, or compared with what is: a row of a review has its reason in this form.
KEPT = {"somebody broke the glass and approved it alone; say whether that was right"}

Named = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# (path, name): reason. A method that the seam or the base class of its room documents needs no words of its own, and
# neither has a test of a shared suite, whose name is a sentence. A private name may do without, if it is plain.
EXCEPTIONS: dict[tuple[str, str], str] = {}

# The classes whose every field has a word, because half of the package reads them.
DESCRIBED = {"core/run.py": ("Call", "Frame", "Run"), "tools/base.py": ("Tool",)}


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def named(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Named]]:
    """Every class and function of a module and of its classes; what stands inside a function is the function's own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from named(child, f"{prefix}{child.name}.")


@cache
def documented(room: str) -> frozenset[str]:
    """The names of the methods that some class of a room documents: a seam, a base class."""
    return frozenset(
        name.rpartition(".")[2]
        for path in modules()
        if relative(path).partition("/")[0] == room
        for name, node in named(parsed(path))
        if "." in name and ast.get_docstring(node)
    )


def may_do_without(path: Path, name: str, node: Named) -> bool:
    if isinstance(node, ast.Module | ast.ClassDef):
        return False
    last = name.rpartition(".")[2]
    if last.startswith("_") or any(part.startswith("_") for part in name.split(".")):
        return True
    if any(ast.unparse(each).endswith("overload") for each in node.decorator_list):
        return True
    of_suite = relative(path).startswith("testing/suites/") and last.startswith("test_")
    return of_suite or ("." in name and last in documented(relative(path).partition("/")[0]))


@kept
def everything() -> tuple[tuple[Path, str, Named], ...]:
    return tuple(
        (path, name, node) for path in modules() for name, node in [("module", parsed(path)), *named(parsed(path))]
    )


def sentences(line: str) -> int:
    """How many sentences a line holds; a full stop within a name, a version or an abbreviation ends none."""
    return len(re.findall(r"(?<!e\.g)(?<!i\.e)[.!?][\"')`]*(?= [A-Z`\"(]|$)", line))


def test_all_that_is_public_has_words() -> None:
    found = [
        f"{relative(path)}:{getattr(node, 'lineno', 1)} {name}"
        for path, name, node in everything()
        if not ast.get_docstring(node)
        and not may_do_without(path, name, node)
        and (relative(path), name) not in EXCEPTIONS
    ]
    assert not found, "\n".join(["", *found, "", "Say in one sentence what it does, with a verb."])


def test_a_first_line_is_one_sentence() -> None:
    found = [
        f"{relative(path)}:{getattr(node, 'lineno', 1)} {name}: {line}"
        for path, name, node in everything()
        for line in (ast.get_docstring(node) or "").split("\n")[:1]
        if line and (not line.endswith(".") or sentences(line) != 1) and (relative(path), name) not in EXCEPTIONS
    ]
    assert not found, "\n".join(["", *found, "", "One sentence with a full stop; the rest goes below an empty line."])


def test_every_field_has_a_word() -> None:
    found: list[str] = []
    for file, classes in DESCRIBED.items():
        path = PACKAGE / file
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and node.name in classes:
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                assert fields
                found += [f"{file} {node.name}.{ast.unparse(each.target)}" for each in fields if not word(lines, each)]
    assert not found, "\n".join(["", *found, "", "A comment behind the field, or above it, says what it holds."])


def word(lines: list[str], field: ast.AnnAssign) -> str:
    """The comment behind a field, else the one right above it."""
    behind = lines[(field.end_lineno or field.lineno) - 1][field.end_col_offset or 0 :].strip()
    above = lines[field.lineno - 2].strip()
    return (behind or above).removeprefix("#").strip() if (behind or above).startswith("#") else ""


def test_exceptions_are_still_needed() -> None:
    known = {(relative(path), name) for path, name, _ in everything()}
    assert set(EXCEPTIONS) <= known


def manual() -> Iterator[tuple[str, str]]:
    """The pages of the manual, without their code."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if page.stem not in NOT_YET:
            yield page.name, CODE.sub("", page.read_text(encoding="utf-8"))


def said() -> Iterator[tuple[str, str]]:
    """What the source says to users: the command line, terminals, errors, requests."""
    for each in strings.texts():
        new = each.place.startswith(REWRITTEN) or not each.place.startswith(ROOMS_NOT_YET)
        if new and each.text not in KEPT:
            yield each.place, each.text


def test_what_users_read_is_in_the_words_of_the_trade() -> None:
    found = [f"{place}: {word[0]}" for place, text in manual() for word in RIDDLES.finditer(text)]
    found += [
        f"{place}: {word[0]}" for place, text in said() for words in (RIDDLES, SAID) for word in words.finditer(text)
    ]
    assert not found, "\n".join(["", *found, "", "Say who or what it is: a user, an approver, a pending request."])


def test_the_texts_of_the_source_are_found() -> None:
    kinds = {each.kind: each.text for each in strings.texts()}
    assert set(kinds) == set(strings.KINDS.values())
    written = {each.text for each in strings.texts()}
    assert "approve a request, or every identical one with --alike: keyturn approve REQUEST" in written
    assert "No pending requests." in written


def test_a_riddle_is_found_out() -> None:
    hostile = "Whoever comes in is told what waits; the key counts no more."
    assert [word[0] for word in RIDDLES.finditer(hostile)] == ["Whoever", "comes in", "what waits", "counts no more"]


# The pages on which requests are listed and decided, and what must not come back to them.
PAGES_OF_REQUESTS = (
    *("inbox", "request_alone", "edit", "grant", "grants", "alike", "alike_done", "run", "runs", "refused"),
    *("_request", "_actions", "_answer", "_answered", "_changes", "_outcome_inner", "_row", "_thread", "_doubt"),
    *("_change", "_covers", "_signing", "_looking", "_seen"),
)
OF_PAGES = re.compile(
    r"\b(for the record|is on it|asked anew|does not wait|its time is up|takes (?:a|your) signature|unasked"
    r"|have it back|stands below|in force|not ours|what came of|died|the predicate|approve calls like this)\b",
    re.IGNORECASE,
)


def test_the_pages_of_requests_are_in_the_words_of_the_trade() -> None:
    templates = PACKAGE / "server/web/templates"
    found = list[str]()
    for name in PAGES_OF_REQUESTS:
        text = re.sub(r"{#.*?#}|{%.*?%}", " ", (templates / f"{name}.html").read_text(encoding="utf-8"))
        found += [f"{name}: {word[0]}" for words in (RIDDLES, OF_PAGES) for word in words.finditer(text)]
    assert not found, "\n".join(["", *found, "", "Write it as GitHub and Stripe do."])
