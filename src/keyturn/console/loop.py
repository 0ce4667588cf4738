"""A conversation with an agent at the keyboard, for trying one out: what is said, what it calls, and what waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..agents.agent import Agent
from ..agents.limits import DEFAULT_MAX_TURNS
from ..core.items import Item
from ..engine.result import RunResult
from ..engine.runner import Runner
from ..engine.states.state import RunState
from ..engine.stream import RunResultStreaming
from ..engine.views.event_stream import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent
from ..render.escape import escape
from .decisions import Undecided, decide

_OVER = frozenset({"exit", "quit"})


async def run_demo_loop(
    agent: Agent[Any],
    *,
    stream: bool = True,
    context: object = None,
    max_turns: int | None = DEFAULT_MAX_TURNS,
    ask: Callable[[str], str] = input,
    show: Callable[[str], object] | None = None,
) -> None:
    """Talk to an agent at the keyboard until `exit`, `quit`, Ctrl-D or Ctrl-C; calls that wait are asked about there.

    The conversation goes on from turn to turn, with whichever agent it was handed to. `ask` and `show` stand for
    `input` and for writing to the terminal.

    >>> import asyncio
    >>> from keyturn import Agent
    >>> from keyturn.testing import ScriptedModel
    >>> said = iter(["Hi.", "exit"])
    >>> agent = Agent(name="a", model=ScriptedModel(["Hello."]))
    >>> asyncio.run(run_demo_loop(agent, ask=lambda prompt: next(said), show=lambda text: print(text, end="")))
    Hello.
    """
    talk = _Talk(agent, context, max_turns, ask, show or _shown, stream=stream)
    while True:
        try:
            said = ask("> ").strip()
        except (EOFError, KeyboardInterrupt):
            talk.show("\n")
            return
        if said.lower() in _OVER:
            return
        if said:
            await talk.turn(said)


class _Talk:
    """The conversation as it stands."""

    def __init__(
        self,
        agent: Agent[Any],
        context: Any,
        max_turns: int | None,
        ask: Callable[[str], str],
        show: Callable[[str], object],
        *,
        stream: bool,
    ) -> None:
        self.agent, self.items = agent, list[Item]()
        self.context, self.max_turns = context, max_turns
        self.ask, self.show = ask, show
        self.stream = stream

    async def turn(self, said: str) -> None:
        """Say something, and hear the agent out, with whatever it must be asked about in between."""
        given: list[Item] | RunState[Any] = [*self.items, {"role": "user", "content": said}]
        result = await self._run(given)
        while result.interruptions:
            try:
                state = decide(result, ask=None if self.ask is input else self.ask, show=self._line)
            except Undecided:
                self.show("Nothing was decided: no pending call has run, and the turn is discarded.\n")
                return
            result = await self._run(state)
        self.agent, self.items = result.last_agent, result.to_input_list()

    async def _run(self, given: list[Item] | RunState[Any]) -> RunResult | RunResultStreaming:
        context = None if isinstance(given, RunState) else self.context  # a state keeps the one it has
        if not self.stream:
            result = await Runner.run(self.agent, given, context=context, max_turns=self.max_turns)
            if result.final_output is not None:
                self._line(escape(str(result.final_output)))
            return result
        streamed = Runner.run_streamed(self.agent, given, context=context, max_turns=self.max_turns)
        async for event in streamed.stream_events():
            self._hear(event)
        self.show("\n")
        return streamed

    def _hear(self, event: object) -> None:
        if isinstance(event, RawResponsesStreamEvent):
            if getattr(event.data, "type", "") == "response.output_text.delta":
                self.show(escape(event.data.delta))
        elif isinstance(event, AgentUpdatedStreamEvent):
            if event.new_agent is not self.agent:
                self._line(f"\n[agent: {escape(event.new_agent.name)}]")
        elif isinstance(event, RunItemStreamEvent):
            if event.item.type == "tool_call_item":
                self._line(f"\n[calls {escape(event.item.tool_name or event.item.raw_item['type'])}]")
            elif event.item.type == "tool_call_output_item":
                self._line(f"[result: {escape(str(event.item.output))}]")

    def _line(self, text: str) -> None:
        self.show(f"{text}\n")


def _shown(text: str) -> None:
    print(text, end="", flush=True)
