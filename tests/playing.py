"""How tests play a run: the ways to run, carry and decide it, tools that write down what they did, scripted models.

Whatever a run can do is tried plain and streamed (`run`, or `streamed` where a test needs to know), and where a pause
lies between, with the state in hand and through its text (`carry`, or `saved`): those names are fixtures of
`tests/conftest.py`, and a test that takes one is tried both ways. Here is only what tests of several rooms use, on the
public interface; what one room needs stands in that room. No test is here, and no promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keyturn import Agent, FunctionTool, Runner, RunState, ToolContext, Usage, function_tool
from keyturn.engine.run.log_cache import forget
from keyturn.engine.run.used_states import UsedStates
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.testing import approve_all

Run = Callable[..., Awaitable[Any]]
Carry = Callable[[Agent[Any], RunState[Any]], Awaitable[RunState[Any]]]

KEY = "the-secret-of-these-tests"
HOUR = 3_600_000

# ----------------------------------------------------------------------------------------------------- the ways to run


async def plain(agent: Agent[Any], given: Any, **options: Any) -> Any:
    """Run to the end or to a pause."""
    return await Runner.run(agent, given, **options)


async def streamed(agent: Agent[Any], given: Any, **options: Any) -> Any:
    """Run to the end or to a pause, every event read; the stream is the result."""
    return await read(Runner.run_streamed(agent, given, **options))


async def play(agent: Agent[Any], given: Any = "go", streamed: bool = False, **options: Any) -> Any:
    """Run to the end or to a pause, plain or streamed."""
    if streamed:
        return await read(Runner.run_streamed(agent, given, **options))
    return await plain(agent, given, **options)


async def read(stream: Any) -> Any:
    """Read a stream to its end, and give it back."""
    async for _event in stream.stream_events():
        pass
    assert stream.is_complete
    return stream


async def cut_off(agent: Agent[Any], given: Any, begun: Callable[[], Awaitable[Any]], streamed: bool, **o: Any) -> Any:
    """Run, and cancel the task or the stream once something has begun; give back what knows the run's state."""
    if streamed:
        stream = Runner.run_streamed(agent, given, **o)
        await asyncio.wait_for(begun(), 30)
        stream.cancel()
        return await read(stream)
    task = asyncio.ensure_future(Runner.run(agent, given, **o))
    await asyncio.wait_for(begun(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    stopped: Any = raised.value
    return stopped.run_data


# ------------------------------------------------------------------------------------------- a pause, and what follows


async def in_hand(_agent: Agent[Any], state: RunState[Any]) -> RunState[Any]:
    """Take a state as it is."""
    return state


async def through_text(agent: Agent[Any], holder: Any, **load: Any) -> RunState[Any]:
    """Save the state of a result, or a state, and load it as a process does that remembers nothing."""
    state = holder if isinstance(holder, RunState) else holder.to_state()
    text = state.to_string()
    forget()
    return await RunState.from_string(agent, text, **load)


async def state_of(result: Any, agent: Agent[Any], saved: bool, **load: Any) -> RunState[Any]:
    """Take the state of a result: in hand, or written down and read again."""
    return await through_text(agent, result, **load) if saved else result.to_state()


async def approved(result: Any, agent: Agent[Any], saved: bool = False, **load: Any) -> RunState[Any]:
    """Take the state of a result, and approve everything that waits."""
    return approve_all(await state_of(result, agent, saved, **load))


async def go_on(journal: Any, run: str, agent: Agent[Any], **options: Any) -> Any:
    """Take a run up from its journal, as any process may."""
    return await Runner.run(agent, await RunState.load(journal, run, agent), **options)


def fresh(agent: Agent[Any], given: Any = "go", *, clock: Clock | None = None) -> RunState[Any]:
    """Make a run that has not started, in hand, with a clock of the test's own."""
    state: RunState[Any] = RunState(None, given, agent)
    if clock is not None:
        state.live.clock = clock
    return state


def in_another_process(state: RunState[Any]) -> RunState[Any]:
    """Return the state as another process has it, which knows nothing of this one's runs."""
    state.live.used = UsedStates()
    forget()
    return state


class Clock:
    """A time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds


# --------------------------------------------------------------------------------- tools that write down what they did


class Effects(list[Any]):
    """What the tools did to the world, in order; one entry for each time a tool was really run."""


class World:
    """What really happened: tools write their effects here, and tests count them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tool(self, name: str, **options: Any) -> FunctionTool:
        """Make a tool of one number that says in the world that it ran."""

        async def act(context: ToolContext[Any], x: int = 0) -> str:
            self.done.append(f"{name}({x})")
            return f"{name}({x})"

        return function_tool(act, name_override=name, **options)

    def count(self, what: str) -> int:
        """Count how often that happened."""
        return self.done.count(what)


def pay_tool(effects: list[Any], name: str = "pay", **options: Any) -> FunctionTool:
    """Make a tool that moves money: it asks unless it is told otherwise, and the model can leave the amount out."""

    async def pay(to: str, amount: int = 5) -> str:
        """Pay somebody."""
        effects.append((name, to, amount))
        return f"{name}: {amount} to {to}"

    terms: dict[str, Any] = {"needs_approval": True, **options}
    return function_tool(pay, name_override=name, **terms)


def look_tool(effects: list[Any], **options: Any) -> FunctionTool:
    """Make a tool that asks nobody."""

    async def look(at: str = "sky") -> str:
        """Look at something."""
        effects.append(("look", at))
        return f"saw {at}"

    return function_tool(look, **options)


class Desk:
    """An agent that pays an amount once it may, with what it paid and under which idempotency keys.

    Its model says the given replies in turn, or asks for one payment of 5 and says "done"; `model` is one of the test's
    own. Further options are those of the tool.
    """

    def __init__(self, *replies: Any, model: ScriptedModel | None = None, **terms: Any) -> None:
        self.paid: list[int] = []
        self.keys: list[str] = []

        settings: dict[str, Any] = {"needs_approval": True, **terms}

        @function_tool(**settings)
        async def pay(context: ToolContext[Any], amount: int) -> str:
            self.keys.append(context.idempotency_key)
            self.paid.append(amount)
            return f"paid {amount}"

        steps = list(replies) or [[call("pay", "c1", amount=5)], "done"]
        self.agent: Agent[Any] = Agent("desk", model=model or ScriptedModel(steps), tools=[pay])


# ---------------------------------------------------------------------------------------------------- models and agents


def call(name: str, label: str, **arguments: Any) -> Any:
    """Make a call as the model makes it."""
    return function_call(name, arguments, call_id=label)


def user(words: Any) -> Any:
    """Say something as the user does."""
    return {"role": "user", "content": words}


def raw_call(name: str, label: str, arguments: Any) -> Any:
    """Make a call whose arguments are a text of the test's own."""
    return {"type": "function_call", "call_id": label, "name": name, "arguments": arguments}


def model(*steps: Any, **options: Any) -> ScriptedModel:
    """Make a model that says these replies in turn, whatever it is asked."""
    return ScriptedModel(list(steps), **options)


def script(*replies: Any) -> ScriptedModel:
    """Make a model that gives its n-th reply when the conversation holds n - 1, as one in another process would."""

    def answer(request: ModelRequest) -> Any:
        return replies[replies_in(request.input)]

    return ScriptedModel(answer)


def replies_in(items: list[Any]) -> int:
    """Count the replies of a model in a conversation: runs of items that a model made."""
    count, inside = 0, False
    for item in items:
        made = item.get("type") in ("function_call", "reasoning") or item.get("role") == "assistant"
        count += made and not inside
        inside = made
    return count


def payer(effects: Effects, *replies: Any, name: str = "a", **options: Any) -> Agent[Any]:
    """Make an agent that makes one payment, unless it is told what else to say."""
    first = replies or ([call("pay", "c1", to="ada")],)
    return Agent(name, model=script(*first, "done"), tools=[pay_tool(effects, **options)])


def payer_of_two(effects: Effects, *replies: Any, **options: Any) -> Agent[Any]:
    """Make an agent that makes two payments in one reply, unless it is told what else to say."""
    return payer(effects, *(replies or ([call("pay", "c1", to="ada"), call("pay", "c2", to="bob")],)), **options)


async def paused(effects: Effects, *replies: Any) -> tuple[Agent[Any], RunState[Any]]:
    """Make a payer, and a state of its run that waits."""
    agent = payer(effects, *replies)
    return agent, (await plain(agent, "go")).to_state()


def asking(world: World, *rounds: Any, **settings: Any) -> Agent[Any]:
    """Make an agent with one tool that asks and one that does not."""
    return asking_as(world, "a", *rounds, **settings)


def asking_as(world: World, name: str, *rounds: Any, **settings: Any) -> Agent[Any]:
    """Make the same under a name of its own, and with more tools."""
    tools = [world.tool("ask", needs_approval=True), world.tool("free"), *settings.pop("more", [])]
    return Agent(name, model=model(*rounds), tools=tools, **settings)


def outer(*calls: Any, tools: list[Any], then: Any = "done", **settings: Any) -> Agent[Any]:
    """Make an agent that makes these calls of its tools, which are other agents."""
    return Agent("outer", model=model(list(calls), then), tools=tools, **settings)


def counted(number: int) -> Usage:
    """Make a usage that can be told from others."""
    return Usage(requests=1, input_tokens=10 * number, output_tokens=number, total_tokens=11 * number)


# --------------------------------------------------------------------------------------------------- what came of it


def asked(agent: Agent[Any]) -> list[ModelRequest]:
    """List every request that an agent's scripted model got."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.calls


def told(model: ScriptedModel) -> list[tuple[str, Any]]:
    """List the results that the model read at its last turn: (call id, output), in order."""
    return [(item["call_id"], item["output"]) for item in _results(model.calls[-1].input)]


def outputs(items: list[Any]) -> dict[str, Any]:
    """Find the results among input items, by call id."""
    return {item["call_id"]: item["output"] for item in _results(items)}


def _results(items: list[Any]) -> list[Any]:
    return [item for item in items if str(item.get("type", "")).endswith("_output")]


def interruptions(holder: Any) -> list[Any]:
    """List the calls that wait, of a result or of a state."""
    return holder.get_interruptions() if isinstance(holder, RunState) else holder.interruptions


def labels(holder: Any) -> list[str]:
    """List the provider's ids of the calls that wait, of a result or of a state."""
    return [item.call_id for item in interruptions(holder)]


def item_of(holder: Any, label: str) -> Any:
    """Find the waiting call of that label."""
    return next(item for item in interruptions(holder) if item.call_id == label)


def events(holder: Any, kind: type[Any]) -> list[Any]:
    """List what the log of a result or a state says, of one kind."""
    state = holder if isinstance(holder, RunState) else holder.to_state()
    return [event for step in state.live.log.steps for event in step.events if isinstance(event, kind)]


def shape(items: list[Any]) -> list[str]:
    """Say input items in short: what each is, and of which call."""
    return [_short(item) for item in items]


def _short(item: Any) -> str:
    kind = item.get("type", "message")
    if kind == "function_call":
        return f"call {item['call_id']}"
    if kind == "function_call_output":
        return f"output {item['call_id']}"
    return str(item.get("role", kind))
