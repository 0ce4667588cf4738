"""Make session events of a run's log: what waits, what runs, what came of it, who is at work now.

Each step is read after it is recorded, whoever wrote it: the session, an inbox, or the clock. What it says goes into
one queue, which only the session reads: a commit runs no code of the session that makes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core import events as ev
from ..core.call_ids import ROOT
from ..core.preview import hidden_text
from ..core.request import waiting_calls
from ..core.run import Call, Run, request_id
from ..engine.driving.drive import Drive
from ..engine.views.event_stream import Feed
from ..engine.views.items import ToolApprovalItem
from ..engine.views.projection import approval_item
from .session_events import (
    RealtimeEventInfo,
    RealtimeHandoffEvent,
    RealtimeSessionEvent,
    RealtimeToolApprovalDecided,
    RealtimeToolApprovalRequired,
    RealtimeToolEnd,
    RealtimeToolStart,
)


class Answer(NamedTuple):
    """Holds the result of a call, by the id that its model gave it."""

    call_id: str
    output: Any


class Telling(Feed):
    """Queues what a run's steps say, for one reader."""

    def __init__(self, drive: Drive, info: RealtimeEventInfo) -> None:
        self._drive, self._info = drive, info
        self._queue: deque[RealtimeSessionEvent | Answer] = deque()
        self._moved = asyncio.Event()
        self._agent = ""
        # The calls of the model itself that have no result yet, and what waits of all: digest of each asking.
        self._open: dict[str, Call] = {}
        self._waiting: dict[str, tuple[int, ToolApprovalItem]] = {}

    @property
    def _run(self) -> Run:
        return self._drive.run

    def begin(self) -> None:
        """Queue what waits where a session begins."""
        self._agent = self._run.frames[ROOT].agent
        self._open = self._calls()
        self._tell_waiting()
        self._moved.set()

    def waiting(self) -> list[ToolApprovalItem]:
        """Return what waits now."""
        return [self._item(call) for call in waiting_calls(self._run)]

    async def follow(self, moved: Callable[[], None]) -> None:
        """Call a function after each step, or several of them."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            moved()

    def read(self, tell: Callable[[RealtimeSessionEvent], None], answered: Callable[[str, Any], None]) -> None:
        """Take what is queued, in its order."""
        while self._queue:
            said = self._queue.popleft()
            if isinstance(said, Answer):
                answered(*said)
            else:
                tell(said)

    def step(self, step: ev.Step) -> None:
        """Queue what a step says."""
        calls = {**self._open, **self._calls()}
        self._tell_decided()
        for event in step.events:
            if isinstance(event, ev.ReplyRecorded) and event.frame == ROOT:
                refused = [made for made in event.proposals if made.refused is not None]
                self._queue += [Answer(made.label, (made.refused or {}).get("output")) for made in refused]
            elif isinstance(event, ev.CallStarted) and event.call in calls:
                self._started(calls[event.call])
            elif isinstance(event, ev.CallFinished) and event.call in calls:
                self._finished(calls[event.call], event.item)
        for call in calls.values():  # what was refused at once has its result in its proposal
            if call.id not in self._run.calls and call.item is not None and call.item is call.proposal.refused:
                self._finished(call, call.item)
        if ROOT in self._run.frames and (agent := self._run.frames[ROOT].agent) != self._agent:
            before, self._agent = self._agent, agent
            agents = self._drive.agent(before), self._drive.agent(agent)
            self._queue.append(RealtimeHandoffEvent(*agents, self._info))
        self._open = self._calls()
        self._tell_waiting()
        self._moved.set()

    def _calls(self) -> dict[str, Call]:
        frame = self._run.frames.get(ROOT)
        return {} if frame is None else {call: self._run.calls[call] for call in frame.calls}

    def _started(self, call: Call) -> None:
        tool = self._drive.looked_up(call)
        if getattr(tool, "announced", True):
            agent = self._drive.agent(call.agent)
            self._queue.append(RealtimeToolStart(agent, tool, _shown(call), self._info, call.proposal.label))

    def _finished(self, call: Call, item: Any) -> None:
        label, output = call.proposal.label, item.get("output")
        tool = self._drive.looked_up(call)
        self._queue.append(Answer(label, output))
        if getattr(tool, "announced", True):
            agent = self._drive.agent(call.agent)
            self._queue.append(RealtimeToolEnd(agent, tool, _shown(call), output, self._info, label))

    def _tell_decided(self) -> None:
        now = self._run.groups["wait"]
        for name, (asks, item) in list(self._waiting.items()):
            if name not in now or now[name].asks != asks:
                del self._waiting[name]
                self._queue.append(RealtimeToolApprovalDecided(item.call_id or "", item.request_id, self._info))

    def _tell_waiting(self) -> None:
        for call in waiting_calls(self._run):
            name = call.id
            if name not in self._waiting:
                item = self._item(call)
                self._waiting[name] = call.asks, item
                shown = item.call_id or request_id(self._run, name)
                self._queue.append(
                    RealtimeToolApprovalRequired(item.agent, item.tool, shown, item.arguments or "", self._info, item)
                )

    def _item(self, call: Call) -> ToolApprovalItem:
        return approval_item(self._run, call, self._drive.agent(call.agent), self._drive.looked_up(call))


def _shown(call: Call) -> str:
    return hidden_text(call.text, call.proposal.secrets)
