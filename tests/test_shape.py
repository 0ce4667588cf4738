"""The house's measures: what a file, a function and a nesting may come to before it is two things.

`docs/` and CONTRIBUTING.md say why. An exception is a row in EXCEPTIONS with its reason; a row that is no
longer needed fails as well, so the table tells the truth.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sources import TOGETHER, nodes, parsed

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[1]

FILE_LINES, FILE_LINES_AT_MOST = 400, 600
FUNCTION_LINES, FUNCTION_LINES_AT_MOST = 40, 60
PARAMETERS = 8
DEPTH = 3
SEAM_METHODS = 8
FOLDERS = 2
VAGUE = {"common", "helper", "helpers", "internal", "internals", "manager", "managers", "misc", "util", "utils"}

# Paths of the OpenAI Agents SDK, which programs import as they are.
OTHERS_NAMES = {
    "src/keyturn/mcp/manager.py",
    "src/keyturn/mcp/util.py",
    "src/keyturn/memory/util.py",
    "src/keyturn/tracing/util.py",
}

# (path, name): reason. The name is "file", or the function as "function", "Class.method" or "outer.inner".
# Good reasons: a public signature that the contract fixes; a table that is one thing. "Not enough time" is none.
SIGNATURE = "the signature is a contract: users call it, or implement it, as it stands"
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("src/keyturn/application/app.py", "App.__init__"): SIGNATURE,
    ("src/keyturn/deferred/agent.py", "Agent.__init__"): SIGNATURE,
    ("src/keyturn/deferred/agent.py", "Agent.run"): SIGNATURE,
    ("src/keyturn/models/base.py", "Model.get_response"): SIGNATURE,
    ("src/keyturn/models/base.py", "Model.stream_response"): SIGNATURE,
    ("src/keyturn/agents/agent.py", "Agent.as_tool"): SIGNATURE,
    ("src/keyturn/engine/runner.py", "Runner.run"): SIGNATURE,
    ("src/keyturn/engine/runner.py", "Runner.run_sync"): SIGNATURE,
    ("src/keyturn/engine/runner.py", "Runner.run_streamed"): SIGNATURE,
    ("src/keyturn/realtime/agent.py", "RealtimeAgent.__init__"): SIGNATURE,
    ("src/keyturn/tools/context.py", "ToolContext.__init__"): SIGNATURE,
    ("src/keyturn/tools/custom.py", "CustomTool.__init__"): SIGNATURE,
    ("src/keyturn/tools/function_tool.py", "FunctionTool.__init__"): SIGNATURE,
}


@dataclass(frozen=True)
class Measure:
    """One thing that was too big: where, what, how much, and what to do about it."""

    path: str
    name: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name}: {self.what}"


@cache
def sources() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def everything() -> list[Path]:
    others = (sorted((ROOT / part).rglob("*.py")) for part in ("tests", "benchmarks", "examples"))
    return [*sources(), *(path for part in others for path in part)]


@cache
def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


Function = ast.FunctionDef | ast.AsyncFunctionDef


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a node and may hold statements: no expression does."""
    return (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function below a node, with its name as a reader would say it."""
    for child in statements(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if isinstance(child, Function):
                yield name, child
            yield from functions(child, f"{name}.")
        else:
            yield from functions(child, prefix)


def length(function: Function) -> int:
    """Lines of signature and body. The docstring is free: nobody should have to choose between short and explained."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def parameters(function: Function) -> int:
    """Named parameters; `self`, `cls`, `*args` and `**kwargs` are not counted."""
    positional = [*function.args.posonlyargs, *function.args.args]
    if positional and positional[0].arg in ("self", "cls"):
        positional = positional[1:]
    return len(positional) + len(function.args.kwonlyargs)


BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def depth(node: ast.AST) -> int:
    """How many control blocks stand inside one another. `elif` is no deeper than its `if`; a function starts anew."""
    deepest = 0
    for child in statements(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and node.orelse == [child] and child.col_offset == node.col_offset
        step = 1 if isinstance(child, BLOCKS) and not is_elif else 0
        deepest = max(deepest, step + depth(child))
    return deepest


def overlong_files() -> Iterator[Measure]:
    for path in sources():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            what = f"{lines} lines, {FILE_LINES} are enough; split it by noun, one file each"
            yield Measure(relative(path), "file", 1, what)


class Counted(NamedTuple):
    """What was counted of a function, or of what a file has outside of functions."""

    path: str
    name: str
    line: int
    lines: int
    parameters: int
    depth: int

    def measure(self, what: str) -> Measure:
        return Measure(self.path, self.name, self.line, what)


@cache
def counted() -> list[Counted]:
    """Every file and every function of the source."""
    found: list[Counted] = []
    for path in sources():
        module, where = parsed(path), relative(path)
        found.append(Counted(where, "file", 1, 0, 0, depth(module)))
        for name, function in functions(module):
            overload = any(ast.unparse(d).endswith("overload") for d in function.decorator_list)
            taken = 0 if overload else parameters(function)
            found.append(Counted(where, name, function.lineno, length(function), taken, depth(function)))
    return found


def overlong_functions(limit: int) -> Iterator[Measure]:
    for each in counted():
        if each.lines > limit:
            yield each.measure(f"{each.lines} lines without its docstring, {limit} are enough; name a step of it")


def crowded_signatures() -> Iterator[Measure]:
    for each in counted():
        if each.parameters > PARAMETERS:
            what = f"{each.parameters} parameters, {PARAMETERS} are enough; some are one thing: make it a struct"
            yield each.measure(what)


def deep_nests() -> Iterator[Measure]:
    for each in counted():
        if each.depth > DEPTH:
            what = f"{each.depth} levels deep, {DEPTH} are enough; return early, or name the inner part"
            yield each.measure(what)


RULES = {
    "files": overlong_files,
    "functions": lambda: overlong_functions(FUNCTION_LINES_AT_MOST),
    "signatures": crowded_signatures,
    "nests": deep_nests,
}


def report(found: list[object], remedy: str) -> str:
    return "\n".join(["", *(f"  {item}" for item in found), "", remedy])


@pytest.mark.parametrize("rule", RULES)
def test_measures(rule: str) -> None:
    found = [m for m in RULES[rule]() if (m.path, m.name) not in EXCEPTIONS]
    remedy = (
        "Mend it; or, if it is right as it is, add a row (path, name): reason to EXCEPTIONS in tests/test_shape.py."
    )
    assert not found, report(found, remedy)


def test_no_file_is_beyond_excuse() -> None:
    sizes = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in everything()}
    found = [f"{path}: {lines} lines" for path, lines in sizes.items() if lines > FILE_LINES_AT_MOST]
    assert not found, report(
        found, f"No file, test or not, has more than {FILE_LINES_AT_MOST} lines. Split it by noun."
    )


def test_long_functions_are_listed() -> None:
    """Above 40 lines is allowed, and said aloud each time."""
    listed = [m for m in overlong_functions(FUNCTION_LINES) if (m.path, m.name) not in EXCEPTIONS]
    if listed:
        warnings.warn(report(listed, "These pass, but would read better shorter."), stacklevel=1)


def test_exceptions_are_still_needed() -> None:
    needed = {(m.path, m.name) for rule in RULES.values() for m in rule()}
    stale = sorted(set(EXCEPTIONS) - needed)
    assert not stale, report(stale, "These are within the measures now: remove their rows from EXCEPTIONS.")
    unexplained = [key for key, reason in EXCEPTIONS.items() if len(reason.split()) < 3]
    assert not unexplained, report(unexplained, "An exception says why it is right, in words.")


def test_names_say_what_is_inside() -> None:
    found = [
        f"{relative(path)}: {word!r}"
        for path in everything()
        for part in path.relative_to(ROOT).with_suffix("").parts
        for word in part.lower().split("_")
        if word in VAGUE and relative(path) not in OTHERS_NAMES
    ]
    assert not found, report(found, "Such names collect anything. Name the file after the one noun that lives in it.")


def test_folders_are_shallow() -> None:
    package = ROOT / "src" / "keyturn"
    found = [relative(path) for path in sources() if len(path.relative_to(package).parent.parts) > FOLDERS]
    assert not found, report(found, f"At most {FOLDERS} folders below src/keyturn: move it up.")


def test_each_file_opens_with_its_law() -> None:
    found = [relative(path) for path in sources() if not ast.get_docstring(parsed(path))]
    assert not found, report(found, "Begin the file with a docstring: what must live here, and what must not.")


def seams() -> Iterator[tuple[Path, ast.ClassDef]]:
    """The classes of a room's base.py that members implement."""
    for path in sources():
        for node in parsed(path).body if path.name == "base.py" else ():
            if isinstance(node, ast.ClassDef) and any(
                re.search(r"\b(ABC|Protocol)\b", ast.unparse(b)) for b in node.bases
            ):
                yield path, node


def test_seams_are_small() -> None:
    found: list[object] = []
    for path, node in seams():
        methods = [f.name for f in node.body if isinstance(f, Function) and not f.name.startswith("_")]
        if len(methods) > SEAM_METHODS:
            found.append(f"{relative(path)}:{node.lineno} {node.name}: {len(methods)} methods: {', '.join(methods)}")
    assert not found, report(found, f"A seam has at most {SEAM_METHODS} methods, or nobody writes a second member.")


SILENCED = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)\b(?P<rest>.*)")
WHICH_AND_WHY = re.compile(r"(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[\w, -]+\])\W*(?:\w+\W+){2,}")


def test_silenced_checks_say_which_and_why() -> None:
    found: list[object] = []
    for path in everything():
        text = path.read_text(encoding="utf-8")
        if not SILENCED.search(text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            silenced = SILENCED.search(token.string) if token.type == tokenize.COMMENT else None
            if silenced and not WHICH_AND_WHY.match(silenced["rest"] + " "):
                found.append(f"{relative(path)}:{token.start[0]} {token.string}")
    remedy = "Mend it; or name the rule and give the reason: `# pyright: ignore[rule]  # why it is right here`."
    assert not found, report(found, remedy)


# path: (how many, reason). A test waits for a thing, and `tests/waiting.py` knows how; here time itself is meant.
SLEEPS: dict[str, tuple[int, str]] = {
    "tests/waiting.py": (3, "the waiting itself: a condition looked at again, and others let go first"),
    "tests/behaviour/durable_worker.py": (1, "a process of its own, which looks for the file that lets all of them go"),
    "tests/mcp/servers/liar.py": (3, "a server that hangs, and ends by itself should nobody end it"),
    "tests/mcp/servers/shop.py": (1, "a server's slow tool, whose seconds the test says"),
    "tests/mcp/test_elicitation.py": (1, "more time passes than the library of the protocol gives a call"),
    "tests/models/servers/independent.py": (1, "a program that others wrote, and that says nowhere when it listens"),
    "tests/channels/test_killed.py": (1, "a process is killed at another moment each time"),
    "tests/tools/filesystem/test_staging.py": (
        1,
        "a process is killed at another moment each time, and tells nobody where it is",
    ),
}


def sleeps(path: Path) -> int:
    """How often a file waits for time."""
    if "sleep" not in path.read_text(encoding="utf-8"):
        return 0
    calls = (node for node in nodes(path) if isinstance(node, ast.Call))
    return sum("sleep" in (getattr(call.func, "attr", ""), getattr(call.func, "id", "")) for call in calls)


def test_tests_wait_for_things_and_not_for_time() -> None:
    found = {relative(path): sleeps(path) for path in sorted((ROOT / "tests").rglob("*.py"))}
    wrong = [
        f"{path}: {found.get(path, 0)} sleeps, {SLEEPS.get(path, (0, ''))[0]} are listed"
        for path in sorted(found | SLEEPS)
        if found.get(path, 0) != SLEEPS.get(path, (0, ""))[0]
    ]
    remedy = (
        "Wait for what you wait for: `until`, `never` and `turns_of_the_loop` of tests/waiting.py, a Clock, an Event."
    )
    assert not wrong, report(wrong, remedy)


CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |$)", re.MULTILINE)


def test_no_file_holds_both_sides_of_a_merge() -> None:
    texts = [path for top in ("src", "tests", "trials", "docs", "benchmarks", "examples") for path in texts_under(top)]
    found = [relative(path) for path in [*texts, *ROOT.glob("*.*"), ROOT / "Makefile"] if has_conflict(path)]
    assert not found, report(found, "Take one side, or write what both mean.")


def texts_under(top: str) -> list[Path]:
    kinds = {".py", ".pyi", ".md", ".toml", ".txt", ".json", ".html", ".css", ".js", ".svg"}
    return [path for path in (ROOT / top).rglob("*") if path.suffix in kinds and "__pycache__" not in path.parts]


def has_conflict(path: Path) -> bool:
    return path.is_file() and CONFLICT.search(path.read_text(encoding="utf-8", errors="replace")) is not None


def test_one_statement_says_one_fact() -> None:
    found: list[object] = []
    for path in everything():
        if not relative(path).startswith("src/"):
            continue
        most = 1 if relative(path).startswith("src/keyturn/core/") else 2
        for node in nodes(path):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                targets = [target for target in node.targets if isinstance(target, ast.Tuple)]
                packed = [target for target in targets if len(target.elts) > most and _names(target)]
                found += [f"{relative(path)}:{node.lineno} {len(target.elts)} facts" for target in packed]
    assert not found, report(found, "A tuple on both sides packs facts that do not belong together: a line for each.")


def _names(target: ast.Tuple) -> bool:
    """Whether each value goes to a name of its own; `[row], [other] = ...` takes values apart, and is no packing."""
    return all(isinstance(each, ast.Name | ast.Attribute) for each in target.elts)
