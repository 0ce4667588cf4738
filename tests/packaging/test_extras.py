"""Each extra installs what some member imports, nothing else, and the member says its name where a package is missing.

Read from the sources and from pyproject.toml in both directions, so that neither can fall behind the other.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.effort import AT_LENGTH
from tests.sources import TOGETHER, nodes

# Each file is parsed once, by whichever of them comes first.
pytestmark = [pytest.mark.together(TOGETHER), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "keyturn"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Extras that are no member's: the union of the others, and what this repository's own site is built with. LiteLLM is in
# none of the others, since it brings 200 MB: its bridge is tested against a double of its public function.
NO_MEMBER = {"all", "docs", "litellm"}

# Which extra a file's packages are in, by its path below src/keyturn. A file that members share is in all of theirs.
OWNERS: dict[str, tuple[str, ...]] = {
    "channels/apprise.py": ("apprise",),
    "channels/slack.py": ("slack",),
    "channels/webhook.py": ("webhooks",),
    "channels/webpush.py": ("webpush",),
    "chat/": ("chat",),
    "inbox_screen/": ("chat",),
    "screens/": ("chat",),
    "cli/gate.py": ("mcp",),
    "client/": ("server",),
    "fleet/dbos.py": ("dbos",),
    "fleet/temporal.py": ("temporal",),
    "audit/evidence/": ("audit",),
    "adapters/migrating/": ("migrate",),
    "journal/postgres.py": ("postgres",),
    "journal/postgres_listener.py": ("postgres",),
    "mcp/": ("mcp",),
    "langgraph/": ("langgraph",),
    "mcp_gate/": ("mcp",),
    "models/anthropic/": ("anthropic",),
    "models/google/": ("google",),
    "models/openai/": ("openai",),
    "models/prices.py": ("prices",),
    "models/per_loop.py": ("anthropic", "google", "openai"),
    "proofs/passkey.py": ("passkeys",),
    "proofs/ssh.py": ("ssh",),
    "realtime/": ("realtime",),
    "server/": ("server",),
    "sessions/encrypted.py": ("encrypt",),
    "sessions/sqlalchemy": ("sqlalchemy",),
    "testing/loopback/realtime_rules": ("openai",),
    "testing/loopback/realtime": ("realtime",),
    "testing/": ("testing",),
    "tracing/otel.py": ("otel",),
}
# What is imported under another name than that of what is installed.
MODULES = {"google-genai": "google", "genai-prices": "genai_prices",
           "docstring-parser": "docstring_parser", "typing-extensions": "typing_extensions",
           "pytest-asyncio": "pytest_asyncio", "opentelemetry-api": "opentelemetry", "slack-sdk": "slack_sdk",
           "py-vapid": "py_vapid", "argon2-cffi": "argon2", "python-multipart": "python_multipart",
           "prometheus-client": "prometheus_client"}  # fmt: skip
# Packages that no module of ours imports and an extra names all the same.
NAMED_FOR_A_REASON = {
    "python-multipart": "FastAPI reads forms with it",
    "cryptography": "keys of people and of providers are verified with it, by packages that do without",
    "webauthn": "proofs/passkey.py is of another extra, and the server has passkeys",
    "aiosqlite": "the driver that SQLAlchemy loads for the URL sqlite:///...",
    "opentelemetry-sdk": "a program makes its tracer provider of it (docs/tracing.md); the API alone traces nothing",
}
# Modules that come with a package that is named: the pair is released together.
COMES_WITH = {"pydantic_core": "pydantic", "starlette": "fastapi", "h11": "uvicorn", "markupsafe": "jinja2"}
COMES_WITH |= {"mcp_types": "mcp"}


def name_of(requirement: str) -> str:
    """The package of a requirement.

    >>> name_of("psycopg[binary]>=3.2")
    'psycopg'
    """
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return found[0]


def modules_of(requirements: list[str]) -> set[str]:
    return {MODULES.get(name, name) for name in map(name_of, requirements)}


def foreign_imports() -> Iterator[tuple[str, str]]:
    """Every module that a file of ours imports and that is neither Python's nor ours."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "keyturn":
                    yield path.relative_to(PACKAGE).as_posix(), COMES_WITH.get(top, top)


CORE = modules_of(PROJECT["dependencies"])


@cache
def optional() -> list[tuple[str, str]]:
    """What a file of ours imports that is not installed with Keyturn itself."""
    return sorted({(file, module) for file, module in foreign_imports() if module not in CORE})


def extras_of(file: str) -> tuple[str, ...]:
    return next((extras for place, extras in OWNERS.items() if file.startswith(place)), ())


def test_each_package_that_is_imported_is_in_the_extra_of_its_member() -> None:
    assert len(optional()) > 15
    found = [f"{file} imports {module}: no extra is its owner's" for file, module in optional() if not extras_of(file)]
    found += [
        f"{file} imports {module}, which the extra {extra!r} does not name"
        for file, module in optional()
        for extra in extras_of(file)
        if module not in modules_of(EXTRAS[extra])
    ]
    assert not found, "\n".join(found)


def test_each_package_of_an_extra_is_imported_by_its_member() -> None:
    found: list[str] = []
    for extra in sorted({*EXTRAS} - NO_MEMBER):
        used = {module for file, module in optional() if extra in extras_of(file)}
        assert used, f"the extra {extra!r} does nothing: no member imports what it installs"
        named = [name_of(requirement) for requirement in EXTRAS[extra]]
        needless = [name for name in named if MODULES.get(name, name) not in used and name not in NAMED_FOR_A_REASON]
        found += [f"{extra} names {name}, which its member does not import" for name in needless]
    assert not found, "\n".join(found)


def test_each_package_that_is_always_installed_is_imported() -> None:
    assert {module for _, module in foreign_imports()} >= CORE


def test_all_is_all() -> None:
    [line] = EXTRAS["all"]
    assert set(line.removeprefix("keyturn[").removesuffix("]").split(",")) == {*EXTRAS} - NO_MEMBER


def test_the_readme_names_each_extra() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("| extra |") :].partition("\n\n")[0]
    first = " ".join(line.split("|")[1] for line in table.split("\n")[2:])
    assert set(re.findall(r"`(\w+)`", first)) == {*EXTRAS} - {"docs"}


def test_what_is_told_to_install_is_an_extra() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(PACKAGE.rglob("*.py"))]
    told = {
        (page.name, extra)
        for page in pages
        for extras in re.findall(r"keyturn\[([a-z, ]+)\]", page.read_text(encoding="utf-8"))
        for extra in re.split(r", ?", extras)
    }
    assert len(told) > 10
    assert not [(page, extra) for page, extra in sorted(told) if extra not in EXTRAS]


@cache
def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in sorted({name_of(one) for one in requirements()})}


def requirements() -> list[str]:
    inner = [one for extra, ones in EXTRAS.items() if extra not in NO_MEMBER for one in ones]
    return [*PROJECT["dependencies"], *inner]


def test_what_the_tests_run_with_is_new_enough() -> None:
    """The pins of the tests fulfil what the package asks for, so what is tested is what it says it runs with."""
    for requirement in requirements():
        least = re.search(r">=([\d.]+)", requirement)
        assert least, f"{requirement}: from which version on is it known to work?"
        have = [int(part) for part in re.findall(r"\d+", versions()[name_of(requirement)])]
        assert have >= [int(part) for part in least[1].split(".")], requirement


# What a program does first with a member, and the packages that are hidden from it then.
FIRST_USE = {
    "openai": "Runner.run_sync(Agent('a', model='gpt-5.6-luna'), 'hi')",
    "anthropic": "Runner.run_sync(Agent('a', model='anthropic:claude-x'), 'hi')",
    "google": "Runner.run_sync(Agent('a', model='google:gemini-x'), 'hi')",
    "prices": "keyturn.known_prices('openai:gpt-5')",
    "mcp": "asyncio.run(keyturn.MCPServerStdio(params={'command': 'x'}).connect())",
    "sqlalchemy": "keyturn.SQLAlchemySession.from_url('ada', url='sqlite:///sessions.db')",
    "postgres": "Runner.run_sync(scripted, 'hi', journal='postgresql://nobody@127.0.0.1/x')",
    "dbos": "from keyturn.fleet import engine_named; engine_named('dbos', 'postgresql://127.0.0.1/x')",
    "temporal": "from keyturn.fleet import engine_named; engine_named('temporal', 'postgresql://127.0.0.1/x')",
    "encrypt": "keyturn.EncryptedSession('ada', keyturn.MemorySession('ada'), 'a key that nobody knows')",
    "ssh": "from keyturn.proofs import scheme; scheme('ssh').enrol('ssh-ed25519 AAAA')",
    "passkeys": "from keyturn.proofs import scheme; scheme('passkey').enrol('')",
    "audit": "asyncio.run(keyturn.App([], 'memory://').audit.checkpoint('x'))",
    "otel": "Runner.run_sync(scripted, 'hi', run_config=keyturn.RunConfig(tracing=Provider()))",
    "migrate": "Path('old.py').write_text('import agents'); main(['migrate', '.'])",
    "webhooks": "from keyturn.channels.webhook import WebhookChannel",
    "slack": "from keyturn.channels.slack import SlackChannel",
    "apprise": "from keyturn.channels.apprise import AppriseChannel",
    "webpush": "from keyturn.channels.webpush import WebPushChannel",
    "chat": "main(['chat'])",
    "langgraph": "from keyturn.langgraph import Mirror",
    "server": "main(['serve', 'desk:app'])",
    "realtime": "from keyturn.realtime import OpenAIRealtimeWebSocketModel as M; asyncio.run(M().connect({}))",
    "testing": "from keyturn.testing import JournalSuite",
}
# One process imports what every member may; each extra is then used first in a fork of it, from which its packages are
# hidden before anything has imported them.
WITHOUT = """
import asyncio, json, os, sys
import keyturn
from keyturn import Agent, Runner
from keyturn.cli.main import main
from keyturn.testing import ScriptedModel
from pathlib import Path
class Provider:
    def get_tracer(self, *names): ...
scripted = Agent('a', model=ScriptedModel(['x']))
for extra, (hidden, program) in json.loads(sys.stdin.read()).items():
    assert not set(hidden) & set(sys.modules), (extra, set(hidden) & set(sys.modules))
    os.makedirs(extra)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    os.chdir(extra)
    out = os.open('said', os.O_CREAT | os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.modules.update(dict.fromkeys(hidden))
    try:
        exec(program)
    except (keyturn.UserError, ImportError) as error:
        print(error)
    sys.exit()
"""
EVERY_NAME = """
for name in keyturn.__all__:
    getattr(keyturn, name)
print('every name is there')
"""


def test_each_extra_has_a_first_use() -> None:
    assert set(FIRST_USE) == {*EXTRAS} - NO_MEMBER


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each first use printed without the packages of its extra, and what all names did without any of them."""
    folder = tmp_path_factory.mktemp("without")
    uses = {extra: (_hidden(extra), program) for extra, program in FIRST_USE.items()}
    everything = sorted({name for hidden, _ in uses.values() for name in hidden} - {"pytest"})
    uses = uses if AT_LENGTH else dict([*uses.items()][::4])
    uses["names"] = (everything, EVERY_NAME)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        input=json.dumps(uses),
        capture_output=True,
        text=True,
        timeout=150,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "KEYTURN_SECRET": "s", "OPENAI_API_KEY": "k"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {extra: (folder / extra / "said").read_text() for extra in uses}


def _hidden(extra: str) -> list[str]:
    return sorted(modules_of(EXTRAS[extra]) | ({"google.genai"} if extra == "google" else set()))


@pytest.mark.sweep
@pytest.mark.timeout(400)  # the machine may be busy
def test_a_member_whose_package_is_missing_names_the_extra(said: dict[str, str]) -> None:
    for extra in said.keys() - {"names"}:
        assert f"pip install 'keyturn[{extra}" in said[extra], said[extra]
        assert "Traceback" not in said[extra], said[extra]


def test_every_public_name_is_there_without_the_packages_of_any_extra(said: dict[str, str]) -> None:
    assert said["names"] == "every name is there\n"


def test_the_oldest_apsw_has_a_sound_sqlite() -> None:
    from keyturn.journal.sqlite import SOUND

    [least] = [one.partition(">=")[2] for one in PROJECT["dependencies"] if name_of(one) == "apsw"]
    assert tuple(map(int, least.split("."))) == SOUND
