"""User code ends no process: what a callback raises is an error of its own call, with the outcome the manual states.

Each callback is called with each poison, plain and async, in a plain and a streamed run, and by a worker that moves
another run afterwards. The last test walks the public names: a callback that no table names fails it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    HostedMCPTool,
    MemoryJournal,
    Runner,
    add_trace_processor,
)
from keyturn.mcp.filters import ToolFilterContext, lets_through
from keyturn.support.user_code import RaisedByUser, contained, run_callback
from keyturn.tracing.processing import remove_trace_processor
from tests.callbacks import CALLBACKS, POISONED, POISONS, Case, a_tool, an_agent, poisoned
from tests.effort import AT_LENGTH, part
from tests.playing import call, model, play
from tests.table import each


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no tracebacks of a thousand frames: what is logged is another test's."""
    for name in ("keyturn.tools", "keyturn.engine", "keyturn.worker", "keyturn.tracing"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


def _made(name: str, bad: Any) -> Case:
    made = CALLBACKS[name][1](bad)
    return made if isinstance(made, tuple) else (made, {})


async def _outcome(agent: Agent[Any], options: dict[str, Any], streamed: bool) -> str:
    try:
        result = await play(agent, "go", streamed, **options)
    except Exception:
        return "fails"
    return "asks" if result.interruptions else "goes on"


def _cases(name: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield what this callback raises and how; in `make test` every fourth, others for each callback."""
    cases = [case for case in POISONED if not (case[1] and name.endswith(" plain"))]
    yield from cases if AT_LENGTH else cases[len(name) % 4 :: 4]


@pytest.mark.sweep
@each("name", CALLBACKS)
async def test_what_a_callback_raises_has_the_outcome_that_the_manual_states(name: str) -> None:
    wrong: list[Any] = []
    for poison, waits, streamed in part(_cases(name), 2):
        agent, options = _made(name, poisoned(poison, waits))
        found = await asyncio.wait_for(_outcome(agent, options, streamed), 30)
        if found != CALLBACKS[name][0]:
            wrong.append((poison, "async" if waits else "plain", "streamed" if streamed else "plain", found))
    assert not wrong


@pytest.mark.trial
async def test_a_worker_outlives_every_callback_and_moves_the_next_run() -> None:
    agents: dict[str, str] = {}
    for name, (outcome, _) in CALLBACKS.items():
        for poison in ("SystemExit", "CancelledError", "Odd"):
            agents[f"{name} {poison}"] = outcome
    for key, outcome in agents.items():
        name, poison = key.rsplit(" ", 1)
        agent, options = _made(name, poisoned(poison))
        if options.keys() - {"policy", "hooks", "run_config"}:  # an app makes its sessions by id, and has no handlers
            continue
        good = Agent("good", model=model("done"))
        async with App([agent, good], MemoryJournal(), worker=False, **options) as app:
            run = await app.start(agent.name, "go")
            working = asyncio.ensure_future(app.work())
            row = await app.wait(run.id, 30)
            assert {"waiting": "asks", "failed": "fails", "finished": "goes on"}[row.status] == outcome, key
            if not options:
                after = await app.start("good", "go")
                assert (await app.wait(after.id, 30)).status == "finished", key
            assert not working.done(), key
            await app.stop()
            await working


class _Context:
    pass


@each("poison", POISONS)
async def test_what_an_app_calls_ends_no_worker(poison: str) -> None:
    """Serializers, the session of an id and a lifespan: the start is refused, or the run is left and tried again."""
    bad = poisoned(poison)
    agent = an_agent()

    def context(data: Any) -> Any:
        return None if data is None else {}

    for options, given in (
        ({"context_serializer": bad, "context_deserializer": context}, {"context": _Context()}),
        ({"sessions": bad}, {"session_id": "s"}),
        ({"lifespan": bad}, {}),
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011  # any `Exception`: no poison is one
            async with App([agent], MemoryJournal(), **options) as app:
                await app.start("desk", "go", **given)
    journal = MemoryJournal()
    asking = Agent("desk", model=model([call("act", "c1")], "done"), tools=[a_tool(needs_approval=True)])
    kept = {"context_serializer": context, "context_deserializer": context}
    async with App([asking], journal, **kept) as app:
        run = await app.start("desk", "go", context=_Context())
        await app.wait(run.id, 30)
    async with App(
        [asking, Agent("good", model=model("done"))], journal, **{**kept, "context_deserializer": bad}
    ) as app:
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ann")
        after = await app.start("good", "go")
        assert (await app.wait(after.id, 30)).status == "finished"
        assert app.trouble is None


@each("poison", POISONS)
async def test_what_is_called_beside_a_run_is_contained(poison: str) -> None:
    for bad in (poisoned(poison), poisoned(poison, waits=True)):
        about = ToolFilterContext(None, None, "server")
        assert await lets_through(bad, about, "pay", None) is False
        tool = HostedMCPTool(_HOSTED, on_approval_request=bad)
        agent = Agent("desk", model=model([_ASKED], "done"), tools=[tool])
        assert await _outcome(agent, {}, streamed=False) == "asks"
    processor = type("Poisoned", (), dict.fromkeys(_HEARS, poisoned(poison)))()
    add_trace_processor(processor)
    try:
        assert await _outcome(an_agent(), {}, streamed=False) == "goes on"
    finally:
        remove_trace_processor(processor)


_HEARS = ("on_trace_start", "on_trace_end", "on_span_start", "on_span_end", "shutdown", "force_flush")
_HOSTED = {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example", "require_approval": "always"}
_ASKED = {"type": "mcp_approval_request", "id": "m1", "server_label": "s", "name": "pay", "arguments": "{}"}


# ------------------------------------------------------------------------------------------------------------ the seam


def test_a_signal_still_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = signal.signal(signal.SIGTERM, lambda *_: _exit())
    try:
        for number, ends in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)):
            with pytest.raises(ends):
                run_callback(signal.raise_signal, number)
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, other)


def _exit() -> None:
    raise SystemExit(0)


async def test_a_cancelled_run_is_cancelled_within_a_callback() -> None:
    begun = asyncio.Event()

    async def slow(*_args: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def in_a_group(*_args: Any) -> Any:
        begun.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())

    for callback in (slow, in_a_group):
        begun.clear()
        task = asyncio.ensure_future(Runner.run(an_agent(given=a_tool(needs_approval=callback)), "go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_callback_that_is_closed_ends() -> None:
    async def slow() -> None:
        with contained:
            await asyncio.Event().wait()

    work = slow()
    work.send(None)
    work.close()
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_the_error_says_what_was_raised() -> None:
    with pytest.raises(RaisedByUser, match="a callback raised SystemExit: 2") as raised:
        run_callback(poisoned("SystemExit"))
    assert isinstance(raised.value.__cause__, SystemExit)
