"""Hold a run while it is taken over from openai-agents: its log so far, its tools, the decisions that come along."""

from __future__ import annotations

import warnings
from typing import Any

from ...agents.handoff import handoffs_of
from ...agents.settings import RunConfig
from ...core import commands as cm
from ...core import events as ev
from ...core.call_ids import ROOT
from ...core.decide import step
from ...core.items import Item, input_items, own_copy
from ...engine.run.frame_settings import FrameSettings, Toolset
from ...engine.run.open_run import OpenRun
from ...sessions.history import history_address
from .decisions import CallKey, TakenOverDecision, agents_at_work
from .items import reports_of
from .saved_state import SavedState

Begins = tuple[list[Item | int], str | None, ev.Guarded]


class Takeover:
    """Holds a run while it is taken over, and the decisions on the calls that wait in it."""

    def __init__(self, live: OpenRun, saved: SavedState) -> None:
        self.live = live
        self.now = live.clock()
        self.settings = FrameSettings(RunConfig(), live.context, inbox=live.journal is not None)
        self.words: dict[str, TakenOverDecision] = {}
        self._at_work = agents_at_work(saved)
        self._standing: set[Any] = set()
        self._toolsets: dict[str, Toolset] = {}

    def do(self, *commands: cm.RunCommand) -> None:
        """Decide commands and append their events as one step."""
        events = [event for command in commands for event in step(self.live.run, command, self.now)]
        if events:
            self.live.log.append(ev.Step(self.now, events))

    async def toolset(self, path: str) -> Toolset:
        """Return what an agent may call now."""
        if path not in self._toolsets:
            agent = self.live.graph.agent(path)
            tools = await agent.get_all_tools(self.live.context)
            self._toolsets[path] = Toolset(path, tools, handoffs_of(agent))
        return self._toolsets[path]

    def for_good(self, frame: str, key: CallKey, verdict: str) -> bool:
        """Return whether a standing decision there covers here what it covered there, and nothing else.

        There it is of one run of an agent, here of the agent for the whole run: for a nested one that would be more.
        An approval ends where a run goes on in another place, as it does in a fork and in a store that was restored.
        """
        first = (frame, *key.alike) not in self._standing
        self._standing.add((frame, *key.alike))
        if verdict == "reject" and frame == ROOT and self._at_work[key.agent] == 1:
            return first
        if first:
            self.warn(f"what was decided for good of {key.tool!r} of {key.agent!r} applies to the pending calls")
        return False

    def warn(self, text: str) -> None:
        """Tell the caller of a decision that is not taken over as it was; its calls ask again."""
        warnings.warn(f"{text}; later calls ask again", stacklevel=2)

    def begins(self, saved: SavedState) -> Begins:
        """Return the items that a frame starts with, its session's history if it wrote to one, and its guardrails."""
        given = own_copy(input_items(saved.original_input))
        guarded: ev.Guarded = "before" if reports_of(saved) else ""
        if not saved.current_turn_persisted_item_count:
            return list(given), None, guarded
        return list(range(len(given))), history_address(given), guarded
