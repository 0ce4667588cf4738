"""The public names: listed once, loaded when first used, seen by type checkers, each with an example that runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import openai_paths
from tests.table import each

ROOT = Path(__file__).resolve().parents[1]
INIT = ROOT / "src" / "keyturn" / "__init__.py"

keyturn = importlib.import_module("keyturn")
NAMES: list[str] = list(getattr(keyturn, "__all__", ()))

# Names that are no class, function or module and so cannot carry a docstring (aliases, constants): why not.
TYPE = "a type for annotations; what it is made of has examples"
WITHOUT_EXAMPLE: dict[str, str] = {
    "StreamEvent": "a union of the four event classes, each of which has one",
    "RunItem": "a union of the classes of items, each of which has one",
    "Button": TYPE,
    "DynamicPromptFunction": TYPE,
    "Environment": TYPE,
    "HandoffInputFilter": TYPE,
    "LocalShellExecutor": TYPE,
    "MCPToolApprovalFunction": TYPE,
    "OutputGuardrailBlockedMessageFormatter": TYPE,
    "ReasoningItemIdPolicy": TYPE,
    "RetryPolicy": TYPE,
    "RunErrorHandler": TYPE,
    "ShellExecutor": TYPE,
    "ShellToolContainerNetworkPolicy": TYPE,
    "ShellToolContainerSkill": TYPE,
    "ShellToolEnvironment": TYPE,
    "ShellToolHostedEnvironment": TYPE,
    "TContext": TYPE,
    "TResponseInputItem": TYPE,
    "ToolErrorFormatter": TYPE,
    "ToolNameCollisionPolicy": TYPE,
    "ToolNotFoundBehavior": TYPE,
    "ToolsToFinalOutputFunction": TYPE,
    "retry_policies": "the one object of its class, RetryPolicies, which has an example",
}


def test_the_paths_of_the_openai_agents_sdk_are_written_from_their_table() -> None:
    stale = [path.name for path, text in openai_paths.written().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"write them anew with `python -m tests.openai_paths`: {stale}"


def test_names_are_listed_once() -> None:
    assert NAMES, "src/keyturn/__init__.py lists the public names in __all__"
    twice = sorted({name for name in NAMES if NAMES.count(name) > 1})
    assert not twice, f"listed twice in keyturn.__all__: {twice}"
    private = [name for name in NAMES if name.startswith("_") and name != "__version__"]
    assert not private, f"private names in keyturn.__all__: {private}"


@each("name", NAMES or ["__all__"])
def test_name_can_be_imported(name: str) -> None:
    assert getattr(keyturn, name) is getattr(keyturn, name), f"keyturn.{name} is another object each time"
    assert name in dir(keyturn), f"dir(keyturn) hides {name}: define __dir__ beside __getattr__"


def test_each_name_has_an_example() -> None:
    """That it runs is tested with the examples of all modules (`test_examples_in_the_source.py`)."""
    things = {name: getattr(keyturn, name) for name in {*NAMES} - {"__version__", *WITHOUT_EXAMPLE}}
    silent = sorted(name for name, thing in things.items() if ">>> " not in (_own_docstring(thing) or ""))
    assert not silent, f"without a docstring with an example (or list them in WITHOUT_EXAMPLE): {silent}"


def _own_docstring(thing: object) -> str | None:
    return thing.__doc__ if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing) else None


def test_names_without_example_say_why() -> None:
    unknown = sorted(set(WITHOUT_EXAMPLE) - set(NAMES))
    assert not unknown, f"WITHOUT_EXAMPLE names what is not public: {unknown}"
    assert all(len(reason.split()) >= 3 for reason in WITHOUT_EXAMPLE.values()), "say why, in words"


def test_type_checkers_see_the_same_names() -> None:
    """A type checker does not run `__getattr__`: the stub beside it repeats the list as imports."""
    stub = INIT.with_suffix(".pyi")
    assert stub.exists(), (
        "src/keyturn/__init__.pyi is missing: one `from .core.errors import Conflict as Conflict` each"
    )
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imports = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    stubbed = {alias.asname for alias in imports if alias.asname}
    stubbed |= {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign | ast.AugAssign)}
    stubbed.discard("__all__")
    missing, extra = sorted(set(NAMES) - stubbed), sorted(stubbed - set(NAMES))
    assert (missing, extra) == ([], []), "the names that __init__.pyi lacks, and those it has beyond keyturn.__all__"


ROOMS = ("", ".channels", ".client", ".console", ".deep", ".deferred", ".mcp", ".realtime", ".testing")


def test_the_types_of_every_public_callable_can_be_looked_up() -> None:
    """As a framework of the user's does that is given one of them: what an annotation names must be there."""
    rooms = [importlib.import_module(f"keyturn{room}") for room in ROOMS]
    names = [(room, name) for room in rooms for name in getattr(room, "__all__", dir(room)) if name[0].isalpha()]
    things = [getattr(room, name) for room, name in names]
    untold = list[str]()
    for thing in things:
        for each_of_it in [thing, *_methods(thing)] if inspect.isclass(thing) else [thing]:
            if not (inspect.isclass(each_of_it) or inspect.isfunction(each_of_it)):
                continue
            try:
                typing.get_type_hints(each_of_it)
            except NameError as error:
                untold.append(f"{each_of_it.__module__}.{each_of_it.__qualname__}: {error}")
    assert not untold
    assert typing.get_type_hints(keyturn.Runner.run)["return"] is keyturn.RunResult


def _methods(thing: type) -> Iterator[Any]:
    """Yield our own functions that users call of a class."""
    for name in dir(thing):
        found = inspect.getattr_static(thing, name)
        made = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        ours = inspect.isfunction(made) and made.__module__.startswith("keyturn")
        if ours and (not name.startswith("_") or name in ("__init__", "__call__")):
            yield made


LAZY = """
import json, sys
import keyturn
early = sorted(name for name in sys.modules if name.startswith("keyturn."))
try:
    keyturn.no_such_name
    missing = "no error"
except AttributeError as error:
    missing = str(error)
first = next(name for name in keyturn.__all__ if name != "__version__")
keyturn.__getattr__(first)
scope = {}
exec("from keyturn import *", scope)
print(json.dumps({"early": early, "missing": missing, "star": sorted(set(scope) - {"__builtins__"})}))
"""


def test_names_are_loaded_when_first_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=50, cwd=ROOT / "src", check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert set(seen["early"]) <= {
        "keyturn._version",
        "keyturn.support",
        "keyturn.support.missing",
        "keyturn.support.lazy",
    }, f"`import keyturn` already loads {seen['early']}"
    assert "no_such_name" in seen["missing"], "an unknown name is an AttributeError that says which"
    assert set(seen["star"]) == set(NAMES), "`from keyturn import *` gives the public names and no others"


def test_init_is_the_list_and_nothing_else() -> None:
    tree = ast.parse(INIT.read_text(encoding="utf-8")) if INIT.exists() else ast.parse("")
    assert tree.body, "src/keyturn/__init__.py is empty"
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert not classes, f"__init__.py only lists public names; move {classes} into their room"
