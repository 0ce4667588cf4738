"""Follow a run from its journal: stream events made of verified lines as they come, whoever moves it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core import events as ev
from .run.open_run import OpenRun
from .states.loading import waiting_tools
from .views.event_stream import AgentUpdatedStreamEvent, ApprovalRequestedStreamEvent, EventFeed, StreamEvent
from .views.projection import approval_item
from .views.rows import opened_by


class Follower:
    """Folds a run line by line and returns its events; the log of `live` has a chain."""

    def __init__(self, live: OpenRun) -> None:
        self._live = live
        self._told: list[StreamEvent] = []
        self._feed = EventFeed(live.graph, ev.ROOT, self._told.append)
        self._agent = ""

    async def told_by(self, line: bytes) -> list[StreamEvent]:
        """Return the events of one line, or raise `LogDamaged`."""
        self._told.clear()
        [made] = self._live.log.extend([line])
        run = self._live.run
        root = run.frames.get(ev.ROOT)
        if root is not None and root.agent != self._agent:
            self._agent = root.agent
            self._told.append(AgentUpdatedStreamEvent(self._live.graph.agent(root.agent)))
        self._feed.step(made)
        if opened_by(run, made.events):
            tools = await waiting_tools(self._live)
            self._told.extend(self._asked(made, tools))
        return self._told.copy()

    def _asked(self, made: ev.Step, tools: dict[str, Any]) -> Iterator[StreamEvent]:
        for call in opened_by(self._live.run, made.events):
            agent = self._live.graph.agent(call.agent)
            yield ApprovalRequestedStreamEvent(approval_item(self._live.run, call, agent, tools.get(call.id)))
