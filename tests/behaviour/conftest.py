"""What the tests of behaviour share: agents whose tools count what they do, models that answer from the conversation.

Each promise is tested plain and streamed (`run`), and where a pause lies between, with the state in hand and through
its text (`carry`). A model made by `script` looks only at what it is asked, as a model in another process would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from keyturn import Agent, FunctionTool, Runner, RunState, function_tool
from keyturn.engine.run.log_cache import forget
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call

Run = Callable[..., Awaitable[Any]]
Carry = Callable[[Agent[Any], RunState[Any]], Awaitable[RunState[Any]]]
SECRET = "the-secret-of-the-behaviour-tests"
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or makes the user's own key, and none remembers another's logs."""
    monkeypatch.setenv("KEYTURN_SECRET", SECRET)
    yield
    forget()


@pytest.fixture
def effects() -> Effects:
    """What the tools of this test did."""
    return Effects()


@pytest.fixture(params=["plain", "streamed"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run or resume an agent, in both ways that there are."""
    return plainly if request.param == "plain" else streaming


@pytest.fixture(params=["in hand", "saved"])
def carry(request: pytest.FixtureRequest) -> Carry:
    """Bring a state to where it is resumed: as it is, or through its text and a reader that remembers nothing."""
    return in_hand if request.param == "in hand" else through_text


async def plainly(agent: Agent[Any], given: Any, **options: Any) -> Any:
    return await Runner.run(agent, given, **options)


async def streaming(agent: Agent[Any], given: Any, **options: Any) -> Any:
    result = Runner.run_streamed(agent, given, **options)
    async for _event in result.stream_events():
        pass
    return result


async def in_hand(_agent: Agent[Any], state: RunState[Any]) -> RunState[Any]:
    return state


async def through_text(agent: Agent[Any], state: RunState[Any]) -> RunState[Any]:
    text = state.to_string()
    forget()
    return await RunState.from_string(agent, text, context_override=state.context.context)


class Effects(list[Any]):
    """What the tools did to the world, in order; one entry for each time a tool was really run."""


class Clock:
    """A time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds


def pay_tool(effects: list[Any], name: str = "pay", **options: Any) -> FunctionTool:
    """A tool that moves money: it asks unless it is told otherwise, and has a default that the model can leave out."""

    async def pay(to: str, amount: int = 5) -> str:
        """Pay somebody."""
        effects.append((name, to, amount))
        return f"{name}: {amount} to {to}"

    return function_tool(pay, name_override=name, **{"needs_approval": True, **options})


def look_tool(effects: list[Any], **options: Any) -> FunctionTool:
    """A tool that asks nobody."""

    async def look(at: str = "sky") -> str:
        """Look at something."""
        effects.append(("look", at))
        return f"saw {at}"

    return function_tool(look, **options)


def call(name: str, label: str, **arguments: Any) -> Any:
    """A call as the model makes it."""
    return function_call(name, arguments, call_id=label)


def raw_call(name: str, label: str, arguments: Any) -> Any:
    """A call whose arguments are a text of the test's own."""
    return {"type": "function_call", "call_id": label, "name": name, "arguments": arguments}


def script(*replies: Any) -> ScriptedModel:
    """A model that gives its n-th reply when the conversation holds n - 1 of them."""

    def answer(request: ModelRequest) -> Any:
        return replies[replies_in(request.input)]

    return ScriptedModel(answer)


def replies_in(items: list[Any]) -> int:
    """How many replies of a model a conversation holds: runs of items that a model made."""
    count, inside = 0, False
    for item in items:
        made = item.get("type") in ("function_call", "reasoning") or item.get("role") == "assistant"
        count += made and not inside
        inside = made
    return count


def told(model: ScriptedModel) -> list[tuple[str, Any]]:
    """The results that the model read at its last turn: (call id, output), in order."""
    items = model.calls[-1].input
    return [(item["call_id"], item["output"]) for item in items if str(item.get("type")).endswith("_output")]


def labels(holder: Any) -> list[str]:
    """The provider's ids of the calls that wait, of a result or of a state."""
    items = holder.get_interruptions() if isinstance(holder, RunState) else holder.interruptions
    return [item.call_id for item in items]


def item_of(holder: Any, label: str) -> Any:
    """The waiting call of that label."""
    items = holder.get_interruptions() if isinstance(holder, RunState) else holder.interruptions
    return next(item for item in items if item.call_id == label)


def events(holder: Any, kind: type[Any]) -> list[Any]:
    """What the log of a result or a state says, of one kind."""
    state = holder if isinstance(holder, RunState) else holder.to_state()
    return [event for step in state.live.log.steps for event in step.events if isinstance(event, kind)]


def fresh(agent: Agent[Any], given: Any = "go", *, clock: Clock | None = None) -> RunState[Any]:
    """A run that has not started, in hand, with a clock of the test's own."""
    state: RunState[Any] = RunState(None, given, agent)
    if clock is not None:
        state.live.clock = clock
    return state


def payer(effects: Effects, *replies: Any, name: str = "a", **options: Any) -> Agent[Any]:
    """An agent that makes one payment, unless it is told what else to say."""
    first = replies or ([call("pay", "c1", to="ada")],)
    return Agent(name, model=script(*first, "done"), tools=[pay_tool(effects, **options)])


async def paused(effects: Effects, *replies: Any) -> tuple[Agent[Any], RunState[Any]]:
    """That agent, and a state of its run that waits."""
    agent = payer(effects, *replies)
    return agent, (await plainly(agent, "go")).to_state()


def payer_of_two(effects: Effects, *replies: Any, **options: Any) -> Agent[Any]:
    """An agent that makes two payments in one reply, unless it is told what else to say."""
    first = replies or ([call("pay", "c1", to="ada"), call("pay", "c2", to="bob")],)
    return Agent("a", model=script(*first, "done"), tools=[pay_tool(effects, **options)])
