"""The house's laws that a test can see: purity, open kinds, who may import whom, and a quick front door.

The direction between rooms is in pyproject.toml as import contracts (`make imports`); here is what those cannot say.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.sources import TOGETHER, nodes, parsed
from tests.table import each

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "keyturn"

# What the core may import: modules that only compute. No clock, no dice, no disk, no network, no thread, no log.
PURE = {
    "__future__", "abc", "ast", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "decimal", "difflib", "dis", "enum", "fnmatch", "fractions", "functools", "hashlib", "heapq", "hmac",
    "html", "itertools", "json", "keyword", "math", "msgspec", "numbers", "operator", "posixpath", "re", "reprlib",
    "shlex", "statistics", "string", "struct", "textwrap", "types", "typing", "typing_extensions", "unicodedata",
    "warnings",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"}
# Methods of pure modules that ask the world after all.
IMPURE_METHODS = {"now", "utcnow", "today", "abspath", "realpath", "expanduser", "expandvars", "exists"}

# Tool kinds, as they are said in code: the core must be able to do without every one of them.
KINDS = ("shell", "mcp", "apply_patch", "computer", "local_shell", "hosted", "web_search")

# Who may import which package that is not ours, by path below src/keyturn. All else is standard library or msgspec.
# A new member with a package of its own is one row here and one extra in pyproject.toml.
OWNERS: dict[str, tuple[str, ...]] = {
    "aiosqlite": ("sessions/", "journal/"),
    "anthropic": ("models/anthropic",),
    "anyio": ("mcp/",),
    "apprise": ("channels/apprise",),
    "apsw": ("journal/sqlite", "sessions/sqlite"),
    "argon2": ("server/",),
    "cryptography": ("audit/evidence/", "channels/webpush", "sessions/encrypt", "journal/", "proofs/"),
    "dbos": ("fleet/dbos",),
    "docstring_parser": ("tools/",),
    "fastapi": ("server/",),
    "genai_prices": ("models/prices.py",),
    "google": ("models/google",),
    "h11": ("server/running",),
    "httpx2": ("client", "channels/", "mcp/", "models/", "server/"),
    "hypothesis": ("testing/",),
    "jinja2": ("server/",),
    "joserfc": ("server/",),
    "langgraph": ("langgraph/",),
    "libcst": ("adapters/migrating/",),
    "limits": ("server/",),
    "markupsafe": ("server/",),
    "mcp": ("mcp/", "mcp_gate/", "cli/gate", "adapters/mcp"),
    "mcp_types": ("mcp/", "mcp_gate/", "adapters/mcp"),
    "msgspec": ("",),
    "openai": ("models/openai", "sessions/conversations", "testing/loopback/realtime_rules"),
    "opentelemetry": ("tracing",),
    "prometheus_client": ("server/api/health",),
    "psycopg": ("journal/postgres",),
    "psycopg_pool": ("journal/postgres",),
    "py_vapid": ("channels/webpush",),
    "pywebpush": ("channels/webpush",),
    "segno": ("server/", "cli/"),
    "slack_sdk": ("channels/slack",),
    "standardwebhooks": ("channels/webhook",),
    "pydantic": (
        "deferred/",
        "agents/",
        "tools/",
        "mcp/",
        "mcp_gate/",
        "deep/",
        "realtime/items",
        "server/",
        "adapters/",
    ),
    "pydantic_core": ("agents/", "tools/", "deep/"),
    "pytest": ("testing/",),
    "pytest_asyncio": ("testing/",),
    "sqlalchemy": ("sessions/sqlalchemy", "fleet/dbos"),
    "sqlite3": ("sessions/sqlite", "journal/sqlite"),
    "starlette": ("server/",),
    "temporalio": ("fleet/temporal",),
    "textual": ("chat/screen", "chat/deciding", "chat/widgets/", "screens/", "inbox_screen/"),
    "typing_extensions": ("",),
    "uvicorn": ("server/", "cli/"),
    "webauthn": ("proofs/passkey",),
    "websockets": ("realtime/openai_socket", "testing/loopback/realtime"),
}


def sources(below: str = "") -> list[Path]:
    return sorted((PACKAGE / below).rglob("*.py"))


@cache
def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def report(found: list[str], remedy: str) -> str:
    return "\n".join(["", *(f"  {item}" for item in found), "", remedy])


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, wherever the import stands; a relative import is one of ours."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "" if node.level == 0 else "keyturn"


def docstrings(module: ast.Module) -> set[int]:
    """The strings that only explain: an expression statement that is nothing but text."""
    statements = (node for node in ast.walk(module) if isinstance(node, ast.Expr))
    return {id(statement.value) for statement in statements if isinstance(statement.value, ast.Constant)}


def words(text: str) -> list[str]:
    """`ShellCall`, `shell_call` and "shell call" are the same two words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", text)]


def says(text: str, kind: str) -> bool:
    return f" {kind.replace('_', ' ')} " in f" {' '.join(words(text))} "


def spoken(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Every identifier and every string that is data, with its line."""
    silent = docstrings(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in silent:
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for field in ("id", "attr", "name", "asname", "arg", "module", "tag"):
            if isinstance(value := getattr(node, field, None), str):
                yield getattr(node, "lineno", 0), value


def test_the_core_is_there() -> None:
    assert len(sources("core")) > 5, "the tests below look at src/keyturn/core: it has moved, or is empty"


def test_the_core_only_computes() -> None:
    found = [
        f"core/{path.name}:{line} imports {module}"
        for path in sources("core")
        for line, module in imported(path)
        if module.split(".")[0] not in PURE and not (module == "keyturn" or module.startswith("keyturn.core"))
    ]
    remedy = "The core computes and nothing else: take what you need as an argument. PURE lists what it may import."
    assert not found, report(found, remedy)


def test_the_core_asks_nothing_of_the_world() -> None:
    found: list[str] = []
    for path in sources("core"):
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name in IMPURE_CALLS or (isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS):
                found.append(f"core/{path.name}:{node.lineno} calls {name}")
    assert not found, report(found, "Time, ids, text and files come into the core as arguments.")


def test_the_core_never_waits() -> None:
    waiting = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    found = [
        f"core/{path.name}:{getattr(node, 'lineno', 0)} {type(node).__name__}"
        for path in sources("core")
        for node in nodes(path)
        if isinstance(node, waiting) or (isinstance(node, ast.comprehension) and node.is_async)
    ]
    assert not found, report(found, "Waiting is the engine's work: say what should happen as an effect.")


def test_the_core_knows_no_kind_of_tool() -> None:
    found = [
        f"core/{path.name}:{line} {text!r} says {kind!r}"
        for path in sources("core")
        for line, text in spoken(parsed(path))
        for kind in KINDS
        if says(text, kind)
    ]
    remedy = "Call.kind is an open string. What only one kind needs lives in that kind's file under tools/ or mcp/."
    assert not found, report(found, remedy)


# What only annotations name, in modules whose imports are late on purpose; the contracts read these imports too.
ANNOTATIONS = {"engine/runner.py": "an agent is declared, by names of the root, without the engine"}


def test_no_import_hides_from_the_contracts() -> None:
    found = [
        f"{relative(path)}:{line}"
        for path in sources()
        if relative(path) not in ANNOTATIONS and "TYPE_CHECKING" in path.read_text(encoding="utf-8")
        for line, text in spoken(parsed(path))
        if text == "TYPE_CHECKING"
    ]
    remedy = "TYPE_CHECKING hides a cycle. Move the shared word down a room, or type it by what it can do (a Protocol)."
    assert not found, report(found, remedy)


# Rooms in which a public function's name stands once, so that a search for it finds one thing.
ONE_NAME_ROOMS = ("engine", "tools", "models", "mcp")
# Names that stand twice all the same, with the reason.
TWICE_FOR_A_REASON = {
    ("tools", "main"): "each begins a process of its own, `python -m`, and nobody calls it",
    ("tools", "operations_of"): "the one thing that each format of patches does; it is called by its module's name",
}


def public_functions(room: str) -> dict[str, list[str]]:
    """The public functions of a room's modules, with the files that have one of that name."""
    places: dict[str, list[str]] = {}
    for path in sources(room):
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                files = places.setdefault(node.name, [])
                if relative(path) not in files:  # overloads and versions of one function are one
                    files.append(relative(path))
    return places


def test_a_public_function_has_a_name_of_its_own_in_its_room() -> None:
    twice = {
        (room, name): files
        for room in ONE_NAME_ROOMS
        for name, files in public_functions(room).items()
        if len(files) > 1
    }
    found = [f"{name} of {room}: {', '.join(files)}" for (room, name), files in twice.items()]
    found = [line for line, key in zip(found, twice, strict=True) if key not in TWICE_FOR_A_REASON]
    assert not found, report(found, "Name it by what only it does; or add it to TWICE_FOR_A_REASON with the reason.")
    needless = [f"{name} of {room}" for room, name in TWICE_FOR_A_REASON if (room, name) not in twice]
    assert not needless, report(needless, "It stands once by now: take it out of TWICE_FOR_A_REASON.")


def test_each_foreign_package_has_one_owner() -> None:
    found: list[str] = []
    for path in sources():
        for line, module in imported(path):
            top = module.split(".")[0]
            if top == "keyturn" or (top in sys.stdlib_module_names and top not in OWNERS):
                continue
            if not relative(path).startswith(OWNERS.get(top, ())):
                owners = ", ".join(OWNERS.get(top, ())) or "nobody yet"
                found.append(f"{relative(path)}:{line} imports {module}; its owner is {owners}")
    remedy = "A package is imported by its own member only. A new member adds a row to OWNERS in this file."
    assert not found, report(found, remedy)


def contracts() -> dict[str, dict[str, list[str]]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"]: contract for contract in config["tool"]["importlinter"]["contracts"]}


def is_path(module: Path) -> bool:
    """Whether it only repeats names under a path of the OpenAI Agents SDK; tests/test_doors_names.py sees to that."""
    source = module / "__init__.py" if module.is_dir() else module
    return source.exists() and "speaks(__name__)" in source.read_text(encoding="utf-8")


def test_every_room_has_its_place() -> None:
    placed = set(re.findall(r"keyturn\.\w+", " ".join(contracts()["layers"]["layers"])))
    tops = [p for p in PACKAGE.iterdir() if (p.is_dir() and any(p.rglob("*.py"))) or p.suffix == ".py"]
    tops = [p for p in tops if not is_path(p)]
    found = sorted(p.name for p in tops if not p.name.startswith("_") and f"keyturn.{p.stem}" not in placed)
    assert not found, report(found, 'Say where it stands: one word in the contract "layers" in pyproject.toml.')


def test_every_seam_is_kept_apart() -> None:
    apart = {*contracts()["rooms"]["modules"], "keyturn.agents"}
    found = sorted(room for base in PACKAGE.glob("*/base.py") if (room := f"keyturn.{base.parent.name}") not in apart)
    assert not found, report(found, 'A room with a base.py is one word in the contract "rooms" in pyproject.toml.')


def in_a_new_process(code: str) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FRONT_DOOR = """
import sys, json
before = set(sys.modules)
calls = 0
def note(frame, event, about):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(note)
import keyturn
sys.setprofile(None)
new = set(sys.modules) - before
print(json.dumps({"calls": calls, "modules": len(new), "loaded": sorted({m.split(".")[0] for m in new}),
                  "where": keyturn.__file__}))
"""

DECLARING = """
import sys, json
from keyturn import Agent, Runner, function_tool
ours = sorted(m for m in sys.modules if m.startswith("keyturn"))
from keyturn import RunState
print(json.dumps({"ours": ours, "loaded": sorted({m.split(".")[0] for m in sys.modules})}))
"""

AT_A_SERVER = """
import contextlib, io, json, sys
from keyturn.cli.main import main
with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
    main(["approve", "5e1f", "--digest", "ab12cd34", "--server", "http://127.0.0.1:1"])
print(json.dumps({"loaded": sorted(m for m in sys.modules if m.startswith("keyturn"))}))
"""

SDKS = {"openai", "anthropic", "google", "mcp", "sqlalchemy", "psycopg", "apsw", "fastapi", "textual", "dbos", "pytest"}


def test_a_command_at_a_server_imports_no_engine() -> None:
    """It had 357 of our modules loaded before it asked the server."""
    code = f"import os\nos.environ['KEYTURN_TOKEN'] = 'kt_1_2'\n{AT_A_SERVER}"
    loaded: Any = in_a_new_process(code)["loaded"]
    assert "keyturn.client.client" in loaded
    assert not {"keyturn.application.app", "keyturn.engine.execution", "keyturn.engine.run.open_run"} & {*loaded}
    assert len(loaded) <= 172


def test_a_result_is_made_an_item_in_one_place() -> None:
    """What a call's model reads has passed its tool's output guardrails: nobody else in the engine renders a result."""
    rooms = [PACKAGE / "engine", PACKAGE / "adapters"]
    renders = {
        str(path.relative_to(room))
        for room in rooms
        for path in room.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "output"
    }
    before_any_call = {"facts/proposals.py", "effects/proposals.py"}  # a call that is refused as it is proposed
    assert renders - before_any_call == {"effects/result_words.py", "openai_agents/replay.py"}


def test_the_front_door_is_light() -> None:
    seen: dict[str, Any] = in_a_new_process(FRONT_DOOR)
    assert seen["where"] == str(PACKAGE / "__init__.py"), "another keyturn than this tree's was imported"
    heavy = {"openai", "anthropic", "google", "mcp", "pydantic", "sqlite3"} & set(seen["loaded"])
    assert not heavy, f"`import keyturn` loads {sorted(heavy)}: public names are loaded when first used (PEP 562)"


def test_the_front_door_is_quick() -> None:
    """The benchmarks measure the time; here it is what takes the time: modules that are loaded, and calls they make."""
    seen = in_a_new_process(FRONT_DOOR)
    assert int(str(seen["modules"])) < 60, "`import keyturn` loads more than its names need"
    assert int(str(seen["calls"])) < 30_000, "`import keyturn` does more than make its names known"


def test_declaring_an_agent_loads_no_provider_and_no_engine() -> None:
    seen: Any = in_a_new_process(DECLARING)
    loaded = SDKS & {*seen["loaded"]}
    assert not loaded, f"declaring an agent loads {sorted(loaded)}: a member loads its package when it is used"
    assert "keyturn.engine.execution" not in seen["ours"]
    assert len(seen["ours"]) <= 69


@each(
    ("text", "kind", "expected"),
    [("ShellCall", "shell", True), ("MCPServer", "mcp", True), ("apply_patch_call", "apply_patch", True),
     ("local_shell", "shell", True), ("shelled", "shell", False), ("WebSearch", "web_search", True),
     ("compute", "computer", False)],
)  # fmt: skip
def test_words_are_found_however_they_are_written(text: str, kind: str, expected: bool) -> None:
    assert says(text, kind) is expected
