"""What every test may rely on: how hard Hypothesis tries, how long a sweep is, a store of each kind, each way to run.

Fixtures for agents, models and journals are in `keyturn.testing`, where users find them too.
"""

import gc
import importlib
import os
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from keyturn import Agent, MemoryJournal, RunState
from keyturn.engine.run import open_run
from keyturn.engine.run.log_cache import forget
from keyturn.engine.run.used_states import THIS_PROCESS
from keyturn.journal import open_journal
from tests import forked, sources
from tests.databases import Databases, server
from tests.effort import SWEEP, some
from tests.forking import pytest_addoption, pytest_runtestloop  # noqa: F401 - hooks of this conftest
from tests.needs import counted, missing
from tests.playing import KEY, Carry, Clock, Effects, Run, World, in_hand, plain, streamed, through_text
from tests.ways import is_of_another_kind, left_to_the_trials, on_other_stores

A_BROWSER = "a browser"

settings.register_profile("dev", deadline=None, max_examples=some(100))
settings.register_profile("ci", deadline=None, max_examples=some(100), derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "sweep", deadline=None, max_examples=SWEEP, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among modules and tests: there is none, and looking for it takes a quarter of the time.

    What is there afterwards stays until the end, so no later collection looks at it either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: Of each kind of tool the last of these sweeps is in `make test`, in which calls are approved, and one of the others.
SWEEPS = ("approve", "reject", "edit", "answer", "never asks", "two at once")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the trials what `make test` tries in another way, and most sweeps of each kind of tool."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.together(A_BROWSER))
        if _is_swept_otherwise(item) or is_of_another_kind(item):
            item.add_marker(pytest.mark.trial)
    for left in (on_other_stores, left_to_the_trials):
        for item in left(item for item in items if item.get_closest_marker("trial") is None):
            item.add_marker(pytest.mark.trial)


def _is_swept_otherwise(item: pytest.Item) -> bool:
    """Whether this is a sweep of a tool that is left to the trials."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    if not {"how", "way"} <= given.keys():
        return False
    kind = item.nodeid.rpartition("::")[0]
    return given["how"] not in {SWEEPS[-1], SWEEPS[crc32(kind.encode()) % (len(SWEEPS) - 1)]}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Let go of what tests share that follow one another after the last of them: trees of the source, and a browser.

    A browser keeps a loop at work in this thread, in which no other can be.
    """
    try:
        return (yield)
    finally:
        if _shares(item, sources.TOGETHER) and not _shares(nextitem, sources.TOGETHER):
            sources.forget()
        if _shares(item, A_BROWSER) and not _shares(nextitem, A_BROWSER):
            importlib.import_module("tests.server.browsing").ONE.close()


def _shares(item: pytest.Item | None, what: str) -> bool:
    mark = None if item is None else item.get_closest_marker("together")
    return mark is not None and mark.args == (what,)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last what was skipped and why, one line for each reason."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    for line in counted(str(report.longrepr[2]) for report in reporter.stats.get("skipped", ())):
        reporter.write_line(line)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A time that passes when a test says so, of this process too: for a journal of its own."""
    made = Clock()
    counted = {"clock_gettime": lambda _clock: made.now / 1_000, "monotonic": lambda: made.now / 1_000}
    monkeypatch.setattr(open_run, "time", SimpleNamespace(time_ns=time.time_ns, **counted))
    return made


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep keys, and marks of stores, in a place of these tests' own and never in the user's."""
    os.environ["KEYTURN_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True, scope="session")
def certificates_are_read_once() -> Generator[None]:
    """Each client of an SDK reads them anew, for 0.1 s, and few lines of these tests are encrypted."""
    whole = ssl.create_default_context
    ssl.create_default_context = cache(whole)
    yield
    ssl.create_default_context = whole


@pytest.fixture(autouse=True, scope="session")
def endpoints_are_read_once() -> Generator[None]:
    """Each app of FastAPI reads anew what the functions of its routes ask for, which are the same in all apps."""
    routing: Any = sys.modules.get("fastapi.routing")
    if routing is None:
        yield
        return
    whole = routing._build_dependant_with_parameterless_dependencies
    known = dict[Any, Any]()

    def read(*, path: str, call: Callable[..., Any], dependencies: Sequence[Any]) -> Any:
        asked = (path, call, *dependencies)
        if asked not in known:
            known[asked] = whole(path=path, call=call, dependencies=dependencies)
        return known[asked]

    routing._build_dependant_with_parameterless_dependencies = read
    yield
    routing._build_dependant_with_parameterless_dependencies = whole


@pytest.fixture
def garbage_of_its_own() -> None:
    """Have `gc.collect()` look at what the test makes, and not for half a second at all that was imported."""
    gc.freeze()


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork what the test starts by `sys.executable`, as `tests.forked` does."""
    monkeypatch.setattr(sys, "executable", forked.python())


@pytest.fixture
def own_key(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A key of the test's own, and no log remembered from one test to the next; some rooms have it for every test."""
    monkeypatch.setenv("KEYTURN_SECRET", KEY)
    yield
    forget()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory of the test's own: its keys, and the marks of its stores."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def another_process() -> Callable[[], None]:
    """Forget what this process knows of its runs, as another one would; said again, it is yet another."""

    def forget_all() -> None:
        THIS_PROCESS.forget()
        forget()

    return forget_all


@pytest.fixture(params=[plain, streamed], ids=["plain", "streamed"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run or resume an agent, in both ways that there are."""
    return request.param


@pytest.fixture(name="streamed", params=[False, True], ids=["plain", "streamed"])
def is_streamed(request: pytest.FixtureRequest) -> bool:
    """Whether somebody listens to the run, for tests that need to know it."""
    return request.param


@pytest.fixture(params=["in hand", "saved"])
def carry(request: pytest.FixtureRequest) -> Carry:
    """Bring a state to where it is resumed: as it is, or through its text and a reader that remembers nothing."""

    async def through_text_with_its_context(agent: Agent[Any], state: RunState[Any]) -> RunState[Any]:
        return await through_text(agent, state, context_override=state.context.context)

    return in_hand if request.param == "in hand" else through_text_with_its_context


@pytest.fixture(name="saved", params=[False, True], ids=["live", "saved"])
def is_saved(request: pytest.FixtureRequest) -> bool:
    """Whether a state is written down and read again where a pause lies, for tests that need to know it."""
    return request.param


@pytest.fixture(scope="session")
def css_is_parsed_once() -> Generator[None]:
    """Parse the CSS of screens once for all that are opened here, since that takes longer than most tests."""
    from textual.css.stylesheet import Stylesheet

    whole, known = Stylesheet._parse_rules, dict[Any, Any]()

    def parsed(sheet: Stylesheet, css: str, read_from: Any, *how: Any, **more: Any) -> Any:
        named = (css, read_from, how, tuple(more.items()), tuple(sheet._variables.items()))
        if named not in known:
            known[named] = whole(sheet, css, read_from, *how, **more)
        return known[named]

    Stylesheet._parse_rules = parsed
    yield
    Stylesheet._parse_rules = whole


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing for a terminal that is not there: half of what a screen costs. What a test reads is still drawn."""
    from textual._compositor import Compositor

    def nothing(compositor: Compositor, *_how: object, **_more: object) -> None:
        compositor._dirty_regions.clear()

    monkeypatch.setattr(Compositor, "render_update", nothing)


@pytest.fixture
def effects() -> Effects:
    """What the tools of this test did, in order."""
    return Effects()


@pytest.fixture
def world() -> World:
    """A world in which nothing has happened yet."""
    return World()


@pytest.fixture(scope="session")
def sweep_size() -> int:
    """How many cases a test marked `sweep` tries: few in `make test`, COUNT in `make sweep`."""
    return SWEEP


@pytest.fixture(scope="session")
def postgres_server() -> Generator[str | None]:
    """The URL of a PostgreSQL of the tests' own, where there is one to start."""
    with server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_door(postgres_server: str | None) -> Generator[psycopg.Connection[Any] | None]:
    """A connection to that PostgreSQL, which makes and drops the databases of tests."""
    if postgres_server is None:
        yield None
        return
    with psycopg.connect(postgres_server, autocommit=True) as db:
        yield db


@pytest.fixture(scope="session")
def databases(postgres_server: str | None, postgres_door: psycopg.Connection[Any] | None) -> Databases | None:
    """The databases of that PostgreSQL."""
    return Databases(postgres_server, postgres_door) if postgres_server and postgres_door else None


@pytest.fixture
def new_database(databases: Databases | None) -> Generator[Callable[[], str]]:
    """Make an empty PostgreSQL database, and say its URL; without a server to start, the test is skipped."""
    if databases is None:
        pytest.skip(missing("PostgreSQL"))
    made: list[str] = []

    def new() -> str:
        made.append(databases.new())
        return made[-1]

    yield new
    for url in made:
        databases.give_back(url)


@pytest.fixture
def database(new_database: Callable[[], str]) -> str:
    """The URL of an empty PostgreSQL database."""
    return new_database()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of each kind that comes with Keyturn."""
    if request.param != "postgresql":
        return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db"}[request.param]
    return request.getfixturevalue("database")


@pytest.fixture
async def store(store_url: str) -> AsyncGenerator[Any]:
    """An empty store of each kind."""
    journal: Any = open_journal(store_url)
    yield journal
    if not isinstance(journal, MemoryJournal):
        await journal.close()
