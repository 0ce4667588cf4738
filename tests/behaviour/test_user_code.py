"""User code ends no process: what a callback raises is an error of its own call, with the outcome the manual states.

Each callback is called with each poison, plain and async, in a plain and a streamed run, and by a worker that moves
another run afterwards. The last test walks the public names: a callback that no table names fails it.
"""

from __future__ import annotations

import asyncio
import collections.abc
import importlib
import inspect
import logging
import signal
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from keyturn import (
    Agent,
    AgentHooks,
    App,
    CustomTool,
    FallbackModel,
    HostedMCPTool,
    InputGuardrail,
    MemoryJournal,
    MemorySession,
    Model,
    ModelProvider,
    OutputGuardrail,
    Policy,
    RunConfig,
    RunHooks,
    Runner,
    ShellTool,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    add_trace_processor,
    function_tool,
    handoff,
)
from keyturn.agents.reviewer import Reviewer
from keyturn.deep import create_deep_agent
from keyturn.mcp.filters import ToolFilterContext, lets_through
from keyturn.policies.rule import allow
from keyturn.tracing.processing import remove_trace_processor
from keyturn.user_code import RaisedByUser, contained, run_callback
from tests.playing import call, model, play
from tests.table import each


class Odd(BaseException):
    """An exception that is no `Exception`."""


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no tracebacks of a thousand frames: what is logged is another test's."""
    for name in ("keyturn.tools", "keyturn.engine", "keyturn.worker", "keyturn.tracing"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


def _endless() -> None:
    _endless()


POISONS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(2),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [SystemExit(2), ValueError()]),
    "StopIteration": lambda: StopIteration(5),
    "StopAsyncIteration": StopAsyncIteration,
    "RecursionError": RecursionError,
    "Odd": lambda: Odd("odd"),
    "ValueError": ValueError,  # what all of these are to be like
}
# Poison, whether the callback is async, and whether the run is streamed: all of them plain, the worst in every way.
POISONED = [(name, False, False) for name in POISONS] + [
    (name, waits, streamed)
    for name in ("SystemExit", "CancelledError", "BaseExceptionGroup")
    for waits, streamed in ((False, True), (True, False), (True, True))
]


def poisoned(name: str, waits: bool = False) -> Any:
    """Make a callback that raises, at once or once it is awaited."""

    def plain(*_args: Any, **_given: Any) -> Any:
        if name == "RecursionError":
            _endless()
        raise POISONS[name]()

    async def later(*_args: Any, **_given: Any) -> Any:
        await asyncio.sleep(0)
        return plain()

    return later if waits else plain


def _agent(*, given: Any = None, **options: Any) -> Agent[Any]:
    """Make an agent with a tool that asks nobody, and whose model calls it once."""
    tool = given or function_tool(lambda x=0: "ran", name_override="act")
    return Agent("desk", **{"model": model([call("act", "c1")], "done"), "tools": [tool], **options})


def _tool(bad: Any = None, **options: Any) -> Any:
    return function_tool(bad or (lambda x=0: "ran"), name_override="act", **options)


def _hooks(kind: type[Any], name: str, bad: Any) -> Any:
    async def hook(*args: Any, **given: Any) -> None:
        answer = bad()
        if inspect.isawaitable(answer):
            await answer

    return type("Own", (kind,), {name: hook})()


def _takes(bad: Any, count: int) -> Any:
    return (lambda a: bad()) if count == 1 else lambda a, b: bad()


class _Session(MemorySession):
    def __init__(self, method: str, bad: Any) -> None:
        super().__init__("s")
        self._bad = method, bad

    async def get_items(self, limit: int | None = None) -> Any:
        return await self._or("get_items", limit)

    async def add_items(self, items: Any) -> Any:
        return await self._or("add_items", items)

    async def _or(self, name: str, given: Any) -> Any:
        method, bad = self._bad
        if name == method:
            answer = bad()
            return await answer if inspect.isawaitable(answer) else answer
        return await getattr(super(), name)(given)


class _Model(Model):
    def __init__(self, bad: Any) -> None:
        self._bad = bad

    async def get_response(self, *args: Any, **given: Any) -> Any:
        answer = self._bad()
        return await answer if inspect.isawaitable(answer) else answer

    async def stream_response(self, *args: Any, **given: Any) -> Any:  # type: ignore[override]
        answer = self._bad()
        yield await answer if inspect.isawaitable(answer) else answer


class _Provider(ModelProvider):
    def __init__(self, bad: Any) -> None:
        self._bad = bad

    def get_model(self, model_name: str | None) -> Any:
        return self._bad()


def _validated(bad: Any) -> Any:
    class Answer(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, value: int) -> int:
            bad()
            return value

    return Answer


def _parameter(bad: Any) -> Any:
    kind = _validated(bad)

    def act(given: Any) -> str:
        return "ran"

    act.__annotations__ = {"given": kind, "return": str}
    return function_tool(act, name_override="act")


def _nested(bad: Any, **options: Any) -> Agent[Any]:
    inner = Agent("inner", model=model("inner answer"))
    tool = inner.as_tool("act", "asks", **options)
    return Agent("desk", model=model([call("act", "c1", input="go")], "done"), tools=[tool])


def _handing(bad: Any, **options: Any) -> Agent[Any]:
    other = Agent("other", model=model("done"))
    way = handoff(other, tool_name_override="act", **options)
    return Agent("desk", model=model([call("act", "c1")], "done"), handoffs=[way])


def _deep(bad: Any) -> Any:
    return create_deep_agent(
        model=model([call("act", "c1")], "done"), tools=[_tool()], interrupt_on={"act": bad}
    ).core_agent()


Case = tuple[Agent[Any], dict[str, Any]]

#: What is called, where, by name: the callback in place, and the outcome. "asks": the call waits for a person. "fails":
#: the run stops and raises. "goes on": the model is told, or nothing but a log line tells of it. Names end in " plain"
#: where the callback cannot be async.
CALLBACKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "needs_approval": ("asks", lambda bad: _agent(given=_tool(needs_approval=bad))),
    "policy": ("asks", lambda bad: (_agent(), {"policy": bad})),
    "when plain": ("asks", lambda bad: (_agent(), {"policy": Policy(allow(when=bad))})),
    "reviewer": ("asks", lambda bad: (_agent(), {"policy": Reviewer(_Model(bad), "Let it run.", may="allow")})),
    "interrupt_on": ("asks", lambda bad: _deep(bad)),
    "preview plain": ("asks", lambda bad: _agent(given=_tool(needs_approval=True, preview=bad))),
    "files plain": ("asks", lambda bad: _agent(given=_tool(needs_approval=True, files=bad))),
    "on_approval": (
        "asks",
        lambda bad: _calls_custom(on_approval=bad, needs_approval=True),
    ),
    "is_enabled": ("fails", lambda bad: _agent(given=_tool(is_enabled=bad))),
    "instructions": ("fails", lambda bad: _agent(instructions=_takes(bad, 2))),
    "prompt": ("fails", lambda bad: _agent(prompt=bad)),
    "input_guardrail": ("fails", lambda bad: _agent(input_guardrails=[InputGuardrail(bad)])),
    "input_guardrail first": (
        "fails",
        lambda bad: _agent(input_guardrails=[InputGuardrail(bad, run_in_parallel=False)]),
    ),
    "output_guardrail": ("fails", lambda bad: _agent(output_guardrails=[OutputGuardrail(bad)])),
    "tool_input_guardrail": ("fails", lambda bad: _agent(given=_tool(tool_input_guardrails=[ToolInputGuardrail(bad)]))),
    "tool_output_guardrail": (
        "fails",
        lambda bad: _agent(given=_tool(tool_output_guardrails=[ToolOutputGuardrail(bad)])),
    ),
    "tool_use_behavior": ("fails", lambda bad: _agent(tool_use_behavior=bad)),
    "output_type plain": ("fails", lambda bad: _agent(output_type=_validated(bad), model=model('{"x": 1}'))),
    "call_model_input_filter": (
        "fails",
        lambda bad: (_agent(), {"run_config": RunConfig(call_model_input_filter=bad)}),
    ),
    "session_input_callback": (
        "fails",
        lambda bad: (
            _agent(),
            {"session": MemorySession("s"), "run_config": RunConfig(session_input_callback=bad)},
        ),
    ),
    "session get_items": ("fails", lambda bad: (_agent(), {"session": _Session("get_items", bad)})),
    "session add_items": ("fails", lambda bad: (_agent(), {"session": _Session("add_items", bad)})),
    "handoff_input_filter": ("fails", lambda bad: _handing(bad, input_filter=bad)),
    "handoff is_enabled": ("fails", lambda bad: _handing(bad, is_enabled=bad)),
    "on_handoff": ("goes on", lambda bad: _handing(bad, on_handoff=_takes(bad, 1))),
    "model": ("fails", lambda bad: _agent(model=_Model(bad))),
    "fallback hop plain": (
        "fails",
        lambda bad: _agent(model=FallbackModel(_Model(_ordinary), model("done"), hop=bad)),
    ),
    "model_provider plain": (
        "fails",
        lambda bad: (_agent(model="x"), {"run_config": RunConfig(model_provider=_Provider(bad))}),
    ),
    "error_handlers": ("fails", lambda bad: (_agent(), {"max_turns": 1, "error_handlers": {"max_turns": bad}})),
    "failure_error_function": (
        "fails",
        lambda bad: _agent(given=_tool(_ordinary_tool, failure_error_function=bad)),
    ),
    "tool that stops the run": ("fails", lambda bad: _agent(given=_tool(_wrapped(bad), failure_error_function=None))),
    "tool": ("goes on", lambda bad: _agent(given=_tool(_wrapped(bad)))),
    "parameter plain": ("goes on", lambda bad: _agent(given=_parameter(bad), model=_calls_parameter())),
    "custom tool": ("goes on", lambda bad: _calls_custom(bad)),
    "input_builder": ("goes on", lambda bad: _nested(bad, input_builder=bad)),
    "custom_output_extractor": ("goes on", lambda bad: _nested(bad, custom_output_extractor=bad)),
    "on_stream": ("goes on", lambda bad: _nested(bad, on_stream=bad)),
    "shell executor": (
        "goes on",
        lambda bad: _calls_shell(bad),
    ),
    **{
        f"RunHooks.{name}": ("fails", lambda bad, name=name: (_agent(), {"hooks": _hooks(RunHooks, name, bad)}))
        for name in ("on_llm_start", "on_llm_end", "on_agent_start", "on_agent_end", "on_tool_start", "on_tool_end")
    },
    **{
        f"AgentHooks.{name}": ("fails", lambda bad, name=name: _agent(hooks=_hooks(AgentHooks, name, bad)))
        for name in ("on_llm_start", "on_llm_end", "on_start", "on_end", "on_tool_start", "on_tool_end")
    },
    "RunHooks.on_handoff": ("fails", lambda bad: (_handing(bad), {"hooks": _hooks(RunHooks, "on_handoff", bad)})),
    "RunHooks.on_tool_error": (
        "fails",
        lambda bad: (_agent(given=_tool(_ordinary_tool)), {"hooks": _hooks(RunHooks, "on_tool_error", bad)}),
    ),
    "tool_error_formatter": (
        "fails",
        lambda bad: (_agent(given=_tool(_ordinary_tool)), {"run_config": RunConfig(tool_error_formatter=bad)}),
    ),
}


def _ordinary(*_args: Any, **_given: Any) -> Any:
    raise ValueError("an ordinary error")


def _ordinary_tool(x: int = 0) -> str:
    raise ValueError("an ordinary error")


def _wrapped(bad: Any) -> Any:
    """Make a tool's function of a callback; an async one where that is one."""

    async def later(x: int = 0) -> Any:
        return await bad()

    return later if inspect.iscoroutinefunction(bad) else (lambda x=0: bad())


def _custom(bad: Any = None, **options: Any) -> CustomTool:
    return CustomTool("act", "acts", bad or (lambda context, text: "ran"), **options)


def _calls_parameter() -> Any:
    return model([call("act", "c1", given={"x": 1})], "done")


def _calls_custom(bad: Any = None, **options: Any) -> Agent[Any]:
    return _agent(given=_custom(bad, **options), model=model([call("act", "c1", input="x")], "done"))


def _calls_shell(bad: Any) -> Agent[Any]:
    asked = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}
    return _agent(given=ShellTool(executor=bad, needs_approval=False), model=model([asked], "done"))


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
    return (case for case in POISONED if not (case[1] and name.endswith(" plain")))


@each("name", CALLBACKS)
async def test_what_a_callback_raises_has_the_outcome_that_the_manual_states(name: str) -> None:
    wrong: list[Any] = []
    for poison, waits, streamed in _cases(name):
        agent, options = _made(name, poisoned(poison, waits))
        found = await asyncio.wait_for(_outcome(agent, options, streamed), 30)
        if found != CALLBACKS[name][0]:
            wrong.append((poison, "async" if waits else "plain", "streamed" if streamed else "plain", found))
    assert not wrong


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
    agent = _agent()

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
    asking = Agent("desk", model=model([call("act", "c1")], "done"), tools=[_tool(needs_approval=True)])
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
        assert await _outcome(_agent(), {}, streamed=False) == "goes on"
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
        task = asyncio.ensure_future(Runner.run(_agent(given=_tool(needs_approval=callback)), "go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_callback_that_is_closed_ends() -> None:
    async def slow() -> None:
        with contained:
            await asyncio.sleep(60)

    work = slow()
    work.send(None)
    work.close()
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_the_error_says_what_was_raised() -> None:
    with pytest.raises(RaisedByUser, match="a callback raised SystemExit: 2") as raised:
        run_callback(poisoned("SystemExit"))
    assert isinstance(raised.value.__cause__, SystemExit)


# ---------------------------------------------------------------------------------------------- whatever can be called

#: Each parameter of a public name that is a callback, and each public class whose methods users write: the case of
#: `CALLBACKS` that calls it, or in parentheses what else does.
TAKEN = {
    "needs_approval": "needs_approval",
    "requires_approval": "needs_approval",
    "asks": "needs_approval",
    "policy": "policy",
    "when": "when plain",
    "interrupt_on": "interrupt_on",
    "preview": "preview plain",
    "files": "files plain",
    "on_approval": "on_approval",
    "on_approval_request": "(test_what_is_called_beside_a_run_is_contained)",
    "on_safety_check": "on_approval",
    "is_enabled": "is_enabled",
    "instructions": "instructions",
    "prompt": "prompt",
    "guardrail_function": "input_guardrail",
    "func": "tool",
    "function": "tool",
    "tools": "tool",
    "on_invoke_tool": "custom tool",
    "tool_use_behavior": "tool_use_behavior",
    "call_model_input_filter": "call_model_input_filter",
    "session_input_callback": "session_input_callback",
    "output_guardrail_blocked_message": "(engine.session.sync._withheld)",
    "handoff_input_filter": "handoff_input_filter",
    "handoff_history_mapper": "handoff_input_filter",
    "history_mapper": "handoff_input_filter",
    "input_filter": "handoff_input_filter",
    "on_invoke_handoff": "on_handoff",
    "on_handoff": "on_handoff",
    "hop": "fallback hop plain",
    "failure_error_function": "failure_error_function",
    "timeout_error_function": "failure_error_function",
    "tool_error_formatter": "tool_error_formatter",
    "input_builder": "input_builder",
    "custom_output_extractor": "custom_output_extractor",
    "on_stream": "on_stream",
    "executor": "shell executor",
    "check": "(engine.effects.recover._probe)",
    "context_serializer": "(test_what_an_app_calls_ends_no_worker)",
    "context_deserializer": "(test_what_an_app_calls_ends_no_worker)",
    "sessions": "(test_what_an_app_calls_ends_no_worker)",
    "lifespan": "(test_what_an_app_calls_ends_no_worker)",
    "tool_filter": "(test_what_is_called_beside_a_run_is_contained)",
    "message_handler": "(mcp.protocol_server.noticed)",
    "elicitation_callback": "(mcp.protocol_server._in_line)",
    "require_approval": "needs_approval",
    "tool_meta_resolver": "(mcp.tool._meta)",
    "handle_deferred": "(deferred.prepare.decided_inline)",
    "recipients": "(tests/channels)",
    "secret": "(tests/channels)",
    "model": "model",
    "key": "(realtime.model.get_api_key)",
    "steps": "model",
    "responder": "model",
    "stream_events": "model",
    "delay": "model",
    # What only our own code or a program's own foreground calls: a clock, a console, the driver of a test.
    **dict.fromkeys(("clock", "now", "ask", "show", "how", "decide", "known", "keep_server", "begin", "send_if"), "()"),
    "AgentOutputSchemaBase": "output_type plain",
    "AsyncComputer": "(tools.computer)",
    "Computer": "(tools.computer)",
    "MCPServer": "is_enabled",
    "Model": "model",
    "ModelProvider": "model_provider plain",
    "SessionABC": "session get_items",
    "SpanData": "()",
    "Tool": "tool",
    "TracingProcessor": "(test_what_is_called_beside_a_run_is_contained)",
    "TracingExporter": "(tracing.processors._drain)",
    "RealtimeModel": "(realtime.connections)",
    "RealtimeModelListener": "(realtime.openai_websocket._tell)",
    "Backend": "tool",
    "Channel": "(tests/channels)",
}

_ROOMS = ("", ".realtime", ".deep", ".deferred", ".channels", ".tracing", ".testing", ".mcp", ".console")


def test_every_callback_that_can_be_given_is_in_the_table() -> None:
    found = {name for room in _ROOMS for name in _callbacks_of(importlib.import_module(f"keyturn{room}"))}
    assert not found - TAKEN.keys(), "say what the manual states for it, add a case to CALLBACKS, and name it here"
    assert not {case for case in TAKEN.values() if not case.startswith("(")} - CALLBACKS.keys()


def _callbacks_of(room: Any) -> Iterator[str]:
    for name in dir(room):
        made = getattr(room, name)
        if name.startswith("_") or not callable(made) or not getattr(made, "__module__", "").startswith("keyturn"):
            continue
        yield from _parameters(made)
        if inspect.isclass(made) and not issubclass(made, BaseException):
            methods = [each for key, each in vars(made).items() if not key.startswith("_") and inspect.isfunction(each)]
            yield from (found for method in methods for found in _parameters(method))
            if getattr(made, "__abstractmethods__", ()):
                yield name


def _parameters(made: Any) -> list[str]:
    """Return the parameters that are callbacks, those that come as a `TypedDict` of options included."""
    try:
        hints = typing.get_type_hints(made.__init__ if inspect.isclass(made) else made, include_extras=True)
    except (NameError, TypeError):  # an annotation that only a type checker can read
        return [name for name in ("executor",) if name in inspect.signature(made).parameters]
    found: list[str] = []
    for name, kind in hints.items():
        if typing.get_origin(kind) is typing.Unpack:
            options = typing.get_type_hints(typing.get_args(kind)[0])
            found += [option for option, each in options.items() if _is_callback(each)]
        elif name != "return" and _is_callback(kind):
            found.append(name)
    return found


def _is_callback(kind: Any) -> bool:
    if kind is collections.abc.Callable or typing.get_origin(kind) is collections.abc.Callable:
        return True
    if inspect.isclass(kind) and getattr(kind, "_is_protocol", False) and "__call__" in vars(kind):
        return True
    return any(map(_is_callback, typing.get_args(kind)))
