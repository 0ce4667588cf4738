"""Ask a person at the keyboard: `decide` takes a paused result and returns a state with the person's decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import KeyturnError
from ..engine.result import RunResult
from ..engine.states.state import RunState
from ..engine.stream import RunResultStreaming
from ..engine.views.item_texts import ItemHelpers
from ..engine.views.items import MessageOutputItem, ToolApprovalItem
from ..render.plural import plural
from .desk import ConsoleDesk
from .screen import Terminal, TooNarrow


class Undecided(KeyturnError):
    """Raised where nobody decided.

    Nothing that waits was approved; `state` is the paused run, to be saved or resumed.

    What was decided before somebody left is kept on it.

    >>> from keyturn import Agent
    >>> Undecided(RunState(None, "hi", Agent("a"))).state.get_interruptions()
    []
    """

    def __init__(self, state: RunState[Any]) -> None:
        self.state = state
        decided = len(state.undelivered.decisions)
        said = f"only {plural(decided, 'call')} decided" if decided else "nothing was decided"
        super().__init__(
            f"{said}, and no pending call has run; save the run and its decisions with error.state.to_string(), and "
            "resume it once the rest is decided"
        )


def decide(
    waiting: RunResult | RunResultStreaming | RunState[Any],
    *,
    by: str | None = None,
    ask: Callable[[str], str] | None = None,
    show: Callable[[str], object] | None = None,
    colour: bool | None = None,
    width: int | None = None,
) -> RunState[Any]:
    """Ask the person at the keyboard about each waiting call; return the state that holds the decisions.

    Give it to the runner. Raises `Undecided` at Ctrl-C, at the end of the input, and when nothing was decided. `ask`
    and `show` stand for `input` and `print`.

    >>> from keyturn import Agent, Runner, function_tool
    >>> from keyturn.models.scripted.model import ScriptedModel, function_call
    >>> @function_tool(needs_approval=True)
    ... def rotate(service: str) -> str:
    ...     return f"{service} has a new key"
    >>> model = ScriptedModel([[function_call("rotate", {"service": "api"})], "Done."])
    >>> agent = Agent("ops", model=model, tools=[rotate])
    >>> state = decide(Runner.run_sync(agent, "rotate"), ask=lambda prompt: "a", width=100)
    <BLANKLINE>
      Call 1 of 1
      agent: ops
      wants to run: rotate
    <BLANKLINE>
      arguments
      | service: "api"
    <BLANKLINE>
      -- Your decision ---------------------------------------------------------------------------------
      a approve  e edit  r reject  w write its result  g grant  l later  q quit  ? explain
      Approved.
    >>> Runner.run_sync(agent, state).final_output
    'Done.'
    """
    state = waiting if isinstance(waiting, RunState) else waiting.to_state()
    desk = ConsoleDesk(state, Terminal.here(ask, show, colour, width), by)
    items = state.get_interruptions()
    try:
        if not isinstance(waiting, RunState):
            _show_words(desk.screen, waiting)
        desk.settle_all(items)
    except (EOFError, KeyboardInterrupt) as left:
        if not isinstance(left, TooNarrow):
            desk.leave()
        raise Undecided(state) from None
    if items and not state.undelivered.decisions:
        raise Undecided(state)
    return state


def _show_words(screen: Terminal, result: Any) -> None:
    """Show what the model said last, marked as its own words."""
    made = [item for item in result.new_items if not isinstance(item, ToolApprovalItem)]
    last = next((item for item in reversed(made) if isinstance(item, MessageOutputItem)), None)
    words = "" if last is None else ItemHelpers.text_message_output(last)
    if words:
        screen.say()
        screen.quote("written by the model, not verified", words)
