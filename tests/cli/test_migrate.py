"""`keyturn migrate`: imports are rewritten, nothing else is touched, and what differs on purpose is listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyturn.adapters.migrating.deferred_imports import rewrite_deferred
from keyturn.adapters.migrating.differences import (
    ASKS,
    CALLABLE,
    DECIDED,
    FOR_GOOD,
    GONE,
    LABEL,
    NAMES,
    NEW_ITEMS,
    ONCE,
    OWN_SERVER,
    SIGNED,
    SPANS,
    TRACES,
    UNLISTED,
    differences,
)
from keyturn.adapters.migrating.imports import Unreadable, rewrite
from keyturn.cli.main import main
from tests.table import each

# A program: `@` is "agents" before and "keyturn" after, `&` is "agents" before and "keyturn as agents" after.
REWRITTEN = {
    "names": "from @ import Agent, Runner as R\n",
    "a list over lines": "from @ import (  # why\n    Agent,\n)\n",
    "everything": "from @ import *\n",
    "a path": "from @.memory.session import X\n",
    "a module by another name": "import @ as a\na.Agent\n",
    "a path by another name": "import @.mcp as m\n",
    "dotted use": "import @\n@.Runner.run(@.Agent())\n",
    "a path and its use": "import @.memory\n@.memory.X\n",
    "among others": "import os, @, sys\n@.x\n",
    "in a function": "def f():\n    import @\n    return @.Agent\n",
    "for types": "if TYPE_CHECKING:\n    from @ import Agent\n",
    "if it is there": "try:\n    from @ import mcp\nexcept ImportError:\n    mcp = None\n",
    "a variable of that name": "from @ import A\nagents = [A()]\nagents.x\n",
    "a parameter of that name": "import @\ndef f(agents): agents.x\n@.y\n",
    "a name that is bound twice": "try:\n    import &\nexcept ImportError:\n    agents = None\n",
    "a name that is taken": "import &\nkeyturn = 1\nagents.x\n",
    "a name in an annotation": 'import &\ndef f(a: "agents.Agent"): ...\n',
    "a name that is exported": 'import &\n__all__ = ["agents"]\n',
    "a name that is deleted": "import &\ndel agents\n",
    "strings and comments": '"""from agents import X"""\nx = "import agents"  # import agents\n',
    "a relative import": "from .agents import X\nfrom . import agents\n",
    "other modules": "import agents_of_mine, my.agents\nfrom agentsx import y\n",
    "other line ends": "from @ import A\r\nif A:\r\n\tpass\r\n",
    "no line end": "from @ import A",
}


@each("name", REWRITTEN)
def test_what_becomes_of_imports(name: str) -> None:
    program = REWRITTEN[name]
    before = program.replace("@", "agents").replace("&", "agents")
    made = rewrite(before.encode())
    assert made.text.decode() == program.replace("@", "keyturn").replace("&", "keyturn as agents")
    assert rewrite(made.text).text == made.text, "again, nothing changes"


def test_a_path_keeps_its_root_where_a_use_is_in_doubt() -> None:
    made = rewrite(b'import agents.memory\nx: "agents.Agent"\n')
    assert made.text == b'import keyturn as agents, keyturn.memory\nx: "agents.Agent"\n'


@pytest.mark.parametrize("codec", ["utf-8-sig", "latin-1", "utf-8"])
def test_the_encoding_stays(codec: str) -> None:
    head = "" if codec == "utf-8-sig" else f"# -*- coding: {codec} -*-\n"
    source = f'{head}import agents\nagents.x = "café"\n'
    assert rewrite(source.encode(codec)).text == source.replace("agents", "keyturn").encode(codec)


@pytest.mark.each
@pytest.mark.parametrize("source", [b"from agents import A\nprint 'x'\n", b"agents\0", b"from agents import \xff\n"])
def test_what_is_no_python_is_refused(source: bytes) -> None:
    with pytest.raises(Unreadable):
        rewrite(source)


PROGRAM = """\
import agents
from agents import ShellTool, function_tool, trace
from agents.extensions.models.any_llm_model import AnyLLMModel
from agents.mcp import MCPServerStdio

shell = ShellTool(executor=run)
quiet = ShellTool(executor=run, needs_approval=False)
server = MCPServerStdio({}, require_approval={"never": {"tool_names": ["a"]}})

@function_tool
def plain() -> str: ...

@function_tool(needs_approval=decide, failure_error_function=None)
def asked() -> str: ...

with trace("w"):
    result = agents.Runner.run_sync(agent, "x", run_config=agents.RunConfig(tool_name_collision_policy="raise"))
state = result.to_state()
state.approve(result.interruptions[0], always_approve=True)
text = state.to_string()
state = agents.RunState.from_string(agent, text)
print(result.interruptions[0].call_id, agents.set_trace_provider, patch("agents.Runner.run"))
"""


def test_what_differs_is_listed_where_the_program_touches_it() -> None:
    made = rewrite(PROGRAM.encode())
    notes = {(note.line, note.text) for note in differences(made.module, made.imported)}
    assert {
        (6, ASKS.format("ShellTool")),
        (8, UNLISTED),
        (13, CALLABLE),
        (16, TRACES),
        (17, NAMES),
        (18, ONCE),
        (19, DECIDED),
        (19, FOR_GOOD),
        (20, SIGNED),
        (21, SIGNED),
        (21, GONE),
        (22, LABEL),
    } <= notes
    others = sorted((line, text) for line, text in notes if line in (3, 22) and text != LABEL)
    assert [line for line, _text in others] == [3, 22, 22]
    assert "keyturn has no 'extensions.models.any_llm_model'" in others[0][1]
    assert "a string names 'agents.Runner.run'" in others[1][1]
    assert "keyturn has no 'set_trace_provider'" in others[2][1]
    assert not any(line in (7, 11, 14) for line, _text in notes)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("from agents import Agent\n")
    (tmp_path / "other.py").write_text("import os\n")
    (tmp_path / "broken.py").write_text("from agents import Agent\nprint 'x'\n")
    (tmp_path / "requirements.txt").write_text("openai-agents>=0.20\n")
    own = tmp_path / "service" / "agents"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("class Agent: ...\n")
    (own.parent / "main.py").write_text("from agents import Agent\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "x.py").write_text("import agents\n")
    return tmp_path


def test_the_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chmod(project / "app.py", 0o751)
    assert main(["migrate", str(project)]) == 2, "one file does not parse"
    shown = capsys.readouterr()
    assert "-from agents import Agent\n+from keyturn import Agent\n" in shown.out
    assert "broken.py: not touched: it does not parse: line 2" in shown.err
    assert "`agents` is this program's own module" in shown.out
    assert "requirements.txt:1" in shown.out
    assert (project / "app.py").read_text() == "from agents import Agent\n", "nothing is written unasked"
    assert main(["migrate", str(project / "app.py"), "--check"]) == 1
    assert main(["migrate", str(project), "--write"]) == 2
    assert (project / "app.py").read_text() == "from keyturn import Agent\n"
    assert (project / "app.py").stat().st_mode & 0o777 == 0o751
    assert (project / "service" / "main.py").read_text() == "from agents import Agent\n"
    assert (project / ".venv" / "x.py").read_text() == "import agents\n"
    assert main(["migrate", str(project / "app.py"), "--check"]) == 0
    assert not list(project.rglob("*.tmp"))


def test_a_module_of_a_package_is_not_what_its_imports_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bot = tmp_path / "bot"
    (bot / "agents").mkdir(parents=True)
    for folder in (bot, bot / "agents"):
        (folder / "__init__.py").write_text("")
    (bot / "agents" / "writer.py").write_text("from agents import Agent\n")
    (bot / "main.py").write_text("from agents import Runner\n")
    assert main(["migrate", str(tmp_path), "--write"]) == 0
    assert (bot / "main.py").read_text() == "from agents import Runner\n", "main.py may be run by its path"
    (bot / "start.py").write_text("from .main import Runner\n")
    assert main(["migrate", str(tmp_path), "--write"]) == 0
    assert (bot / "main.py").read_text() == "from keyturn import Runner\n"
    assert (bot / "agents" / "writer.py").read_text() == "from keyturn import Agent\n"
    assert "`agents` is this program's own module" in capsys.readouterr().out


def test_a_check_for_a_type_of_openai_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        "from agents import Runner\n"
        "from openai.types.responses import ResponseFunctionToolCall as Called, ResponseOutputMessage\n"
        "def calls(items): return [x for x in items if isinstance(x, (Called, ResponseOutputMessage))]\n"
        "def texts(items): return [x for x in items if isinstance(x, str)]\n"
    )
    assert main(["migrate", str(program)]) == 0
    told = capsys.readouterr().out
    for name in ("Called", "ResponseOutputMessage"):
        assert f"isinstance(item, {name}) is False of items" in told
    assert "app.py:3" in told
    assert "app.py:4" not in told


def test_a_program_of_blank_lines_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each blank line was the beginning of a search through all behind it: half an hour for 200 KB."""
    (tmp_path / "__init__.py").write_text("\n" * 200_000)
    (tmp_path / "agents.py").write_text("")
    (tmp_path / "main.py").write_text("# agents\n" + "\n" * 200_000)
    assert main(["migrate", str(tmp_path), "--check"]) == 0
    (tmp_path / "main.py").write_text("if x:\n\timport  agents\n")
    assert main(["migrate", str(tmp_path), "--check"]) == 0
    assert "`agents` is this program's own module" in capsys.readouterr().out


def test_links_are_not_followed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "far.py").write_text("from agents import Agent\n")
    (project / "link.py").symlink_to(outside / "far.py")
    (project / "folder").symlink_to(outside, target_is_directory=True)
    main(["migrate", str(project), "--write"])
    assert (outside / "far.py").read_text() == "from agents import Agent\n"
    assert (project / "link.py").is_symlink()


def test_bad_use(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(project / "nowhere")]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err
    assert main(["migrate", str(project), "--check", "--write"]) == 2
    assert "--check writes nothing" in capsys.readouterr().err


def test_a_file_that_changed_meanwhile_is_left(project: Path) -> None:
    from keyturn.adapters.migrating import files

    source = files.read(project / "app.py")
    (project / "app.py").write_text("from agents import Runner\n")
    with pytest.raises(files.NotWritten, match="changed"):
        files.write(source, b"from keyturn import Agent\n")
    assert (project / "app.py").read_text() == "from agents import Runner\n"
    assert not list(project.glob(".*.tmp"))


@pytest.mark.trial
def test_without_its_package_it_says_so(project: Path) -> None:
    code = "import sys; sys.modules['libcst'] = None\nfrom keyturn.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "migrate", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'keyturn[migrate]'" in done.stderr


# A program, what becomes of it, and what is noted.
OTHERS = {
    "names": (
        "from pydantic_ai import Agent, RunContext as C\n",
        "from keyturn.deferred import Agent, RunContext as C\n",
        [],
    ),
    "a path": ("from pydantic_ai.tools import RunContext\n", "from keyturn.deferred import RunContext\n", []),
    "deep": ("from pydantic_deep.agent import create_deep_agent\n", "from keyturn.deep import create_deep_agent\n", []),
    "a plain import": ("import pydantic_ai\n", "import pydantic_ai\n", ["left as it is"]),
    "of the program's own": ("from .pydantic_ai import Agent\n", "from .pydantic_ai import Agent\n", []),
    "a name that is absent": (
        "from pydantic_ai.models.test import TestModel\n",
        "from keyturn.deferred import TestModel\n",
        ["ScriptedModel"],
    ),
    "an option": (
        "from pydantic_ai import Agent\na = Agent(retries=2)\n",
        "from keyturn.deferred import Agent\na = Agent(retries=2)\n",
        ["raise ModelRetry"],
    ),
    "a method": (
        "from pydantic_ai import Agent\nx = Agent().iter('go')\n",
        "from keyturn.deferred import Agent\nx = Agent().iter('go')\n",
        ["run_stream_events"],
    ),
}


@each("name", OTHERS)
def test_imports_of_pydantic_ai_and_pydantic_deep(name: str) -> None:
    before, after, noted = OTHERS[name]
    text, notes = rewrite_deferred(before.encode())
    assert text.decode() == after
    assert len(notes) == len(noted)
    assert all(part in note.text for part, note in zip(noted, notes, strict=True))
    assert rewrite_deferred(text)[0] == text, "again, nothing changes"


def test_own_servers_spans_and_new_items_are_noted() -> None:
    source = (
        b"from agents.mcp import MCPServer\nfrom agents.tracing import TracingProcessor\n"
        b"class Mine(MCPServer): ...\nclass Spans(TracingProcessor): ...\nfor item in result.new_items: ...\n"
    )
    made = rewrite(source)
    noted = [(note.line, note.text) for note in differences(made.module, made.imported)]
    assert noted == [(3, OWN_SERVER), (4, SPANS), (5, NEW_ITEMS)]


def test_a_program_of_two_sdks_is_rewritten_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "app.py"
    program.write_text("from agents import Runner\nfrom pydantic_ai import Agent\n")
    (tmp_path / "requirements.txt").write_text("pydantic-ai-slim==2\n")
    assert main(["migrate", "--write", str(tmp_path)]) == 0
    assert program.read_text() == "from keyturn import Runner\nfrom keyturn.deferred import Agent\n"
    assert "the requirement pydantic-ai-slim becomes keyturn" in capsys.readouterr().out
