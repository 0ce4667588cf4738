"""How these tests run a deferred agent: plain and streamed, with messages in hand and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyturn.deferred import Agent, DeferredToolRequests, messages_from_json, messages_to_json
from keyturn.engine.run.log_cache import forget
from keyturn.engine.run.used_states import THIS_PROCESS
from keyturn.testing import ScriptedModel, function_call

TEXT_OR_REQUESTS = [str, DeferredToolRequests]


async def plain(agent: Agent[Any], prompt: Any = None, **options: Any) -> Any:
    """Run to the end or to a pause."""
    return await agent.run(prompt, **options)


async def streamed(agent: Agent[Any], prompt: Any = None, **options: Any) -> Any:
    """The same, streamed and read to the end."""
    async with agent.run_stream(prompt, **options) as stream:
        await stream.get_output()
        return stream.result()


async def as_events(agent: Agent[Any], prompt: Any = None, **options: Any) -> Any:
    """The same, event by event."""
    events = [event async for event in agent.run_stream_events(prompt, **options)]
    return events[-1].result


def elsewhere(messages: list[Any]) -> list[Any]:
    """Carry messages as JSON to a process that remembers nothing."""
    text = messages_to_json(messages)
    forget()
    THIS_PROCESS.forget()
    return messages_from_json(text)


def call(name: str, label: str = "c1", **args: Any) -> Any:
    """Make a call of a model."""
    return function_call(name, args, call_id=label)


class Bank:
    """An agent that pays, and what it paid; `ran` is what its tools did."""

    def __init__(self, *steps: Any, output_type: Any = TEXT_OR_REQUESTS, **options: Any) -> None:
        self.ran: list[Any] = []
        self.model = ScriptedModel([*(steps or ([call("pay", amount=10)], "Paid."))])
        self.agent: Agent[Any] = Agent(self.model, output_type=output_type, **options)
        ran = self.ran

        @self.agent.tool_plain(requires_approval=True)
        def pay(amount: int) -> str:
            ran.append(("pay", amount))
            return f"paid {amount}"

        @self.agent.tool_plain(requires_approval=True)
        def wipe() -> str:
            ran.append("wipe")
            return "wiped"

        @self.agent.tool_plain
        def look() -> str:
            ran.append("look")
            return "seen"


def tampered(messages: list[Any], change: Callable[[Any], None]) -> list[Any]:
    """Change the last call of a history in place."""
    [part] = [part for message in messages for part in message.parts if part.part_kind == "tool-call"][-1:]
    change(part)
    return messages
