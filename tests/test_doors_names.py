"""The door of names: a program of the OpenAI Agents SDK changes one word in its imports.

`openai_agents_names.json` holds that SDK's public names, by module, and nothing else of it. Each is there under the
same path, or absent with a reason in `keyturn.adapters.openai_agents.absent`, which is also what its import says.
"""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import keyturn
from keyturn.adapters.openai_agents import absent
from tests.sources import TOGETHER, nodes, parsed
from tests.table import each

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "keyturn"
THEIRS: dict[str, list[str]] = json.loads((ROOT / "tests" / "openai_agents_names.json").read_text("utf-8"))["modules"]

# What programs import most, by the number of public programs that do.
USED = """
TResponseInputItem TContext InputItem HandoffInputFilter ToolsToFinalOutputFunction RunErrorData RunErrorDetails
RunErrorHandler RunErrorHandlers Prompt DynamicPromptFunction GenerateDynamicPromptData ModelTracing ShellExecutor
LocalShellExecutor MCPToolApprovalFunction MCPToolChoice ShellOnApprovalFunctionResult MCPUtil Button Environment
AgentToolStreamEvent AgentToolInvocation ToolErrorFormatter ModelTimeoutError ModelRetrySettings retry_policies
TracingProcessor add_trace_processor set_trace_processors Trace Span get_current_span function_span agent_span
generation_span flush_traces set_tracing_export_api_key enable_verbose_stdout_logging run_demo_loop __version__
"""


def is_absent(path: str) -> bool:
    parts = path.split(".")
    return any(".".join(parts[:count]) in absent.PATHS for count in range(1, len(parts) + 1))


PRESENT = [path for path in THEIRS if path and not is_absent(path)]


def has(path: str, name: str) -> bool:
    try:
        exec(f"from keyturn{'.' if path else ''}{path} import {name}", {})
    except ImportError:
        return False
    return True


def test_the_names_that_programs_use_are_public() -> None:
    missing = [name for name in USED.split() if name not in keyturn.__all__]
    assert not missing, f"`from keyturn import ...` of {missing} stops a program at its first line"


@each("path", ["", *PRESENT])
def test_each_name_is_there_or_absent_with_a_reason(path: str) -> None:
    lost = [name for name in THEIRS[path] if not has(path, name) and name not in absent.NAMES and not is_absent(name)]
    assert not lost, f"keyturn.{path} lacks {lost}: add them, or a row each in keyturn/adapters/openai_agents/absent.py"


@each("path", PRESENT)
def test_a_name_under_a_path_is_the_public_one(path: str) -> None:
    module = importlib.import_module(f"keyturn.{path}")
    shared = [name for name in THEIRS[path] if name in keyturn.__all__]
    other = [name for name in shared if getattr(module, name) is not getattr(keyturn, name)]
    assert not other, f"keyturn.{path} has other objects than keyturn: {other}"


def test_what_is_called_absent_is_absent() -> None:
    there = [name for name in absent.NAMES if name in keyturn.__all__]
    there += [f"{path}.{name}" for path in PRESENT for name in THEIRS[path] if name in absent.NAMES and has(path, name)]
    there += [path for path in absent.PATHS if has(*path.rpartition(".")[::2])]
    assert not [each for each in there if each != "apply_diff"], f"rows of absent.py that are not so: {there}"


def test_what_is_called_absent_was_there() -> None:
    known = {name for names in THEIRS.values() for name in names}
    unknown = [name for name in absent.NAMES if name not in known]
    assert not unknown, f"rows of keyturn/adapters/openai_agents/absent.py for what that SDK never had: {unknown}"


def test_reasons_say_what_to_do() -> None:
    short = [name for name, why in {**absent.NAMES, **absent.PATHS}.items() if len(why.split()) < 2]
    assert not short, f"too short to help anybody: {short}"


@each(
    ("statement", "said"),
    [
        ("from keyturn import sandbox", "sandbox agents"),
        ("from keyturn import set_trace_provider", "opentelemetry.trace.set_tracer_provider"),
        ("import keyturn.voice", "voice pipeline"),
        ("from keyturn.extensions.models.any_llm_model import AnyLLMModel", "name the provider, as in 'openrouter"),
        ("from keyturn.extensions.memory import RedisSession", "subclass SessionABC: it has four methods"),
        ("from keyturn.extensions.memory import AdvancedSQLiteSession", "a run has, see RunState.fork"),
        ("from keyturn.tool import ToolCaller", "leave out allowed_callers"),
        ("from keyturn.items import Agent", "from keyturn import Agent"),
        ("from keyturn import Runer", "it has 'Runner'"),
        ("from keyturn import quite_unknown_thing", "docs/migrating.md"),
        ("import keyturn.quite_unknown_path", "docs/migrating.md"),
        ("from keyturn.mcp import MCPToolCancellationError", "MCPServerError"),
    ],
)
def test_an_import_of_what_is_absent_says_what_to_use(statement: str, said: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert said in str(caught.value)


def test_asking_whether_a_name_is_there_is_no_error() -> None:
    assert not hasattr(keyturn, "sandbox")
    assert getattr(keyturn, "no_such_name", 5) == 5
    assert importlib.import_module("keyturn.items").__doc__


def test_paths_and_names_do_not_hide_one_another() -> None:
    paths = {path.partition(".")[0] for path in PRESENT}
    assert not paths & set(keyturn.__all__), "importing such a path would put a module in place of the public name"


PATHS = sorted(path for path in PACKAGE.rglob("*.py") if "speaks(__name__)" in path.read_text("utf-8"))


def test_a_path_defines_nothing_and_nobody_here_imports_it() -> None:
    """So that it costs nobody anything, and what is where can be seen in the rooms."""
    assert len(PATHS) > 40
    for path in PATHS:
        found = [node for node in parsed(path).body if not plain(node)]
        assert not found, f"{path.name}:{found[0].lineno} is more than names from elsewhere"
    modules = {".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__") for path in PATHS}
    for path in PACKAGE.rglob("*.py"):
        if path in PATHS:
            continue
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom):
                assert imported(path, node) not in modules, f"{path.name}:{node.lineno} imports a path, not a room"


def plain(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.Name)
    return isinstance(node, ast.ImportFrom | ast.Expr)


def imported(path: Path, node: ast.ImportFrom) -> str:
    parts = path.relative_to(PACKAGE).parent.parts
    above = parts[: len(parts) - node.level + 1] if node.level else ()
    return ".".join([*above, *(node.module or "").split(".")]).removeprefix("keyturn.").strip(".")


LIGHT = """
import sys, keyturn
from keyturn.models.openai_responses import OpenAIResponsesModel
from keyturn.mcp.server import MCPServerStdio
from keyturn import items, run, tool, tracing, memory, extensions
from keyturn.tracing import processors
print(sorted({name.split(".")[0] for name in sys.modules} & {"openai", "anthropic", "google", "mcp", "sqlalchemy"}))
"""


@pytest.mark.trial
def test_no_path_imports_a_provider() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=50, cwd=ROOT / "src", check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
