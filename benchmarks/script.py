"""What the model says and what the tools count: the same for every subject, and nothing of any library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

ARGUMENTS = '{"x": 1}'
FINAL = "done"
PROMPT = "go"
UNLIMITED = 1_000_000  # turns; the rows measure the cost of a turn, not the limit


class WorkNotDone(Exception):
    """A figure was fast because the work was not done, or slow because it was done twice."""


class Call(NamedTuple):
    """One call that the model asks for."""

    id: str
    tool: str
    arguments: str


def words(count: int) -> list[str]:
    """The deltas of a streamed text."""
    return [f"word{i % 10} " for i in range(count)]


class Script:
    """The model's replies in order (a reply is the tools it calls; an empty one is the final text), and the counters.

    The tools are `noop`, which nobody gates, and `gated`, which a person must approve.
    """

    def __init__(
        self, replies: Iterable[Iterable[str]], *, sync_tool: bool = False, deltas: int = 0, suspend: bool = False
    ) -> None:
        self.replies = [
            [Call(f"call_{turn}_{place}", tool, ARGUMENTS) for place, tool in enumerate(reply)]
            for turn, reply in enumerate(replies)
        ]
        self.gates = any(call.tool == "gated" for reply in self.replies for call in reply)
        self.deltas = words(deltas)
        self.suspend = suspend
        self.sync_tool = sync_tool
        self.models_called = 0
        self.tools_called = 0

    def reply(self) -> list[Call]:
        """The model's next reply."""
        reply = self.replies[self.models_called]
        self.models_called += 1
        return reply

    def tools(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The two tools as plain functions, for each library to wrap."""

        async def noop(x: int) -> str:
            """Count one call."""
            self.tools_called += 1
            return "ok"

        async def gated(x: int) -> str:
            """Count one call that a person approved."""
            self.tools_called += 1
            return "ok"

        def noop_sync(x: int) -> str:
            """Count one call."""
            self.tools_called += 1
            return "ok"

        noop_sync.__name__ = noop_sync.__qualname__ = "noop"
        return (noop_sync if self.sync_tool else noop), gated

    def check(self, *, models: int, tools: int) -> None:
        """Refuse the figure unless exactly this much was done."""
        done = (self.models_called, self.tools_called)
        if done != (models, tools):
            raise WorkNotDone(
                f"{models} model calls and {tools} tool calls were due, {done[0]} and {done[1]} were made"
            )


def require(held: bool, what: str) -> None:
    """Refuse the figure unless this holds."""
    if not held:
        raise WorkNotDone(what)
