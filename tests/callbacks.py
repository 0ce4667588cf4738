"""Every callback that a user can give, each with what the manual states of it, and what it may raise.

No test is here: `tests/behaviour/test_user_code.py` calls them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, field_validator

from keyturn import (
    Agent,
    AgentHooks,
    CustomTool,
    FallbackModel,
    InputGuardrail,
    MemorySession,
    Model,
    ModelProvider,
    OutputGuardrail,
    Policy,
    RunConfig,
    RunHooks,
    ShellTool,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    function_tool,
    handoff,
)
from keyturn.agents.reviewer import Reviewer
from keyturn.deep import create_deep_agent
from keyturn.policies.rule import allow
from tests.playing import call, model
from tests.waiting import turns_of_the_loop


class Odd(BaseException):
    """An exception that is no `Exception`."""


def _endless() -> None:
    _endless()


class Unreadable(Exception):
    """An error that ends whoever asks it for its words or its notes."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(3)


def _caused_by(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


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
    "Unreadable": Unreadable,
    "from Unreadable": lambda: _caused_by(SystemExit(2), Unreadable()),
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
        await turns_of_the_loop(1)
        return plain()

    return later if waits else plain


def an_agent(*, given: Any = None, **options: Any) -> Agent[Any]:
    """Make an agent with a tool that asks nobody, and whose model calls it once."""
    tool = given or function_tool(lambda x=0: "ran", name_override="act")
    return Agent("desk", **{"model": model([call("act", "c1")], "done"), "tools": [tool], **options})


def a_tool(bad: Any = None, **options: Any) -> Any:
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

    async def stream_response(self, *args: Any, **given: Any) -> Any:
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
        model=model([call("act", "c1")], "done"), tools=[a_tool()], interrupt_on={"act": bad}
    ).core_agent()


Case = tuple[Agent[Any], dict[str, Any]]

#: What is called, where, by name: the callback in place, and the outcome. "asks": the call waits for a person. "fails":
#: the run stops and raises. "goes on": the model is told, or nothing but a log line tells of it. Names end in " plain"
#: where the callback cannot be async.
CALLBACKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "needs_approval": ("asks", lambda bad: an_agent(given=a_tool(needs_approval=bad))),
    "policy": ("asks", lambda bad: (an_agent(), {"policy": bad})),
    "when plain": ("asks", lambda bad: (an_agent(), {"policy": Policy(allow(when=bad))})),
    "reviewer": ("asks", lambda bad: (an_agent(), {"policy": Reviewer(_Model(bad), "Let it run.", may="allow")})),
    "interrupt_on": ("asks", lambda bad: _deep(bad)),
    "preview plain": ("asks", lambda bad: an_agent(given=a_tool(needs_approval=True, preview=bad))),
    "files plain": ("asks", lambda bad: an_agent(given=a_tool(needs_approval=True, files=bad))),
    "on_approval": (
        "asks",
        lambda bad: _calls_custom(on_approval=bad, needs_approval=True),
    ),
    "is_enabled": ("fails", lambda bad: an_agent(given=a_tool(is_enabled=bad))),
    "instructions": ("fails", lambda bad: an_agent(instructions=_takes(bad, 2))),
    "prompt": ("fails", lambda bad: an_agent(prompt=bad)),
    "input_guardrail": ("fails", lambda bad: an_agent(input_guardrails=[InputGuardrail(bad)])),
    "input_guardrail first": (
        "fails",
        lambda bad: an_agent(input_guardrails=[InputGuardrail(bad, run_in_parallel=False)]),
    ),
    "output_guardrail": ("fails", lambda bad: an_agent(output_guardrails=[OutputGuardrail(bad)])),
    "tool_input_guardrail": (
        "fails",
        lambda bad: an_agent(given=a_tool(tool_input_guardrails=[ToolInputGuardrail(bad)])),
    ),
    "tool_output_guardrail": (
        "fails",
        lambda bad: an_agent(given=a_tool(tool_output_guardrails=[ToolOutputGuardrail(bad)])),
    ),
    "tool_use_behavior": ("fails", lambda bad: an_agent(tool_use_behavior=bad)),
    "output_type plain": ("fails", lambda bad: an_agent(output_type=_validated(bad), model=model('{"x": 1}'))),
    "call_model_input_filter": (
        "fails",
        lambda bad: (an_agent(), {"run_config": RunConfig(call_model_input_filter=bad)}),
    ),
    "session_input_callback": (
        "fails",
        lambda bad: (
            an_agent(),
            {"session": MemorySession("s"), "run_config": RunConfig(session_input_callback=bad)},
        ),
    ),
    "session get_items": ("fails", lambda bad: (an_agent(), {"session": _Session("get_items", bad)})),
    "session add_items": ("fails", lambda bad: (an_agent(), {"session": _Session("add_items", bad)})),
    "handoff_input_filter": ("fails", lambda bad: _handing(bad, input_filter=bad)),
    "handoff is_enabled": ("fails", lambda bad: _handing(bad, is_enabled=bad)),
    "on_handoff": ("goes on", lambda bad: _handing(bad, on_handoff=_takes(bad, 1))),
    "model": ("fails", lambda bad: an_agent(model=_Model(bad))),
    "fallback hop plain": (
        "fails",
        lambda bad: an_agent(model=FallbackModel(_Model(_ordinary), model("done"), hop=bad)),
    ),
    "model_provider plain": (
        "fails",
        lambda bad: (an_agent(model="x"), {"run_config": RunConfig(model_provider=_Provider(bad))}),
    ),
    "error_handlers": ("fails", lambda bad: (an_agent(), {"max_turns": 1, "error_handlers": {"max_turns": bad}})),
    "failure_error_function": (
        "fails",
        lambda bad: an_agent(given=a_tool(_ordinary_tool, failure_error_function=bad)),
    ),
    "tool that stops the run": (
        "fails",
        lambda bad: an_agent(given=a_tool(_wrapped(bad), failure_error_function=None)),
    ),
    "tool": ("goes on", lambda bad: an_agent(given=a_tool(_wrapped(bad)))),
    "parameter plain": ("goes on", lambda bad: an_agent(given=_parameter(bad), model=_calls_parameter())),
    "custom tool": ("goes on", lambda bad: _calls_custom(bad)),
    "input_builder": ("goes on", lambda bad: _nested(bad, input_builder=bad)),
    "custom_output_extractor": ("goes on", lambda bad: _nested(bad, custom_output_extractor=bad)),
    "on_stream": ("goes on", lambda bad: _nested(bad, on_stream=bad)),
    "shell executor": (
        "goes on",
        lambda bad: _calls_shell(bad),
    ),
    **{
        f"RunHooks.{name}": ("fails", lambda bad, name=name: (an_agent(), {"hooks": _hooks(RunHooks, name, bad)}))
        for name in ("on_llm_start", "on_llm_end", "on_agent_start", "on_agent_end", "on_tool_start", "on_tool_end")
    },
    **{
        f"AgentHooks.{name}": ("fails", lambda bad, name=name: an_agent(hooks=_hooks(AgentHooks, name, bad)))
        for name in ("on_llm_start", "on_llm_end", "on_start", "on_end", "on_tool_start", "on_tool_end")
    },
    "RunHooks.on_handoff": ("fails", lambda bad: (_handing(bad), {"hooks": _hooks(RunHooks, "on_handoff", bad)})),
    "RunHooks.on_tool_error": (
        "fails",
        lambda bad: (an_agent(given=a_tool(_ordinary_tool)), {"hooks": _hooks(RunHooks, "on_tool_error", bad)}),
    ),
    "tool_error_formatter": (
        "fails",
        lambda bad: (an_agent(given=a_tool(_ordinary_tool)), {"run_config": RunConfig(tool_error_formatter=bad)}),
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
    return an_agent(given=_custom(bad, **options), model=model([call("act", "c1", input="x")], "done"))


def _calls_shell(bad: Any) -> Agent[Any]:
    asked = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}
    return an_agent(given=ShellTool(executor=bad, needs_approval=False), model=model([asked], "done"))
