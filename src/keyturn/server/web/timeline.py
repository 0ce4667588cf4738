"""Lay the log of a run out as a timeline: each line with its number, who did what, and in which lane.

A lane is an agent at work: the root has the first, a nested agent the next that is free while it works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core import events as ev
from ...core.call_ids import ROOT, frame_of
from ...core.codec import Log
from ...core.folding import fold
from ...core.records import BY_GRANT
from ...core.run import Run, new_run, request_id
from ...presenting.event_words import Teller
from ...render.escape import escape, quote
from .shown import VisibleHtml, ready

PAGE = 100
LANES = 6

# What an event is, for the mark that stands at it.
_KINDS: dict[type[Any], str] = {
    ev.ReplyRecorded: "model",
    ev.ReplyRefused: "bad",
    ev.CallDecided: "decided",
    ev.VoteCast: "decided",
    ev.VoteWithdrawn: "decided",
    ev.ApprovalWithdrawn: "decided",
    ev.GrantGiven: "decided",
    ev.GrantRevoked: "decided",
    ev.CallNeeds: "asks",
    ev.CallAskedAgain: "asks",
    ev.CallStarted: "started",
    ev.CallFinished: "ended",
    ev.CallLost: "bad",
    ev.RunFailed: "bad",
    ev.RunCancelled: "bad",
    ev.RunRestored: "bad",
    ev.FrameOpened: "agent",
    ev.FrameClosed: "agent",
    ev.HandedOff: "agent",
}
_ASKED = (ev.CallScreened, ev.CallDecided, ev.VoteCast, ev.VoteWithdrawn, ev.CallNeeds, ev.CallAskedAgain, ev.CallLost)


class Who(NamedTuple):
    """Says who did something: what they are, in our word, and their name."""

    what: str
    name: str = ""


class TimelineEntry(NamedTuple):
    """Holds one thing that happened; `lanes` are the marks of all lanes, `request` is the id of its request."""

    kind: str
    who: Who
    words: VisibleHtml
    lanes: tuple[str, ...]
    lane: int
    request: str = ""


class TimelineLine(NamedTuple):
    """Holds one line of the log."""

    number: int
    at: int
    entries: tuple[TimelineEntry, ...]


class Timeline(NamedTuple):
    """Holds one page of a timeline: its lines, how many there are in all, and which agents are at work after it."""

    lines: list[TimelineLine]
    total: int
    first: int
    last: int
    lanes: int

    @property
    def before(self) -> int:
        """Return the first line of the page before; 0 where there is none."""
        return max(1, self.first - PAGE) if self.first > 1 else 0

    @property
    def after(self) -> int:
        """Return the first line of the page after; 0 where there is none."""
        return self.last + 1 if self.last < self.total else 0


def timeline(log: Log, first: int | None = None) -> Timeline:
    """Return a page of the timeline of a log that begins with a line, counted from 1; by default the last page."""
    total = len(log.steps)
    begin = min(max(first if first is not None else total - PAGE + 1, 1), max(total, 1))
    end = min(begin + PAGE - 1, total)
    lines = list(_lines(log.steps[:end], begin))
    wide = max((len(entry.lanes) for line in lines for entry in line.entries), default=1)
    return Timeline(lines, total, begin, end, wide)


def _lines(steps: list[ev.Step], begin: int) -> Iterator[TimelineLine]:
    run = new_run()
    teller = Teller()
    lanes = _Lanes()
    for number, step in enumerate(steps, 1):
        fold(run, [step])
        if number >= begin:
            told = [entry for event in step.events for entry in _entries(run, teller, lanes, event)]
            yield TimelineLine(number, step.at, tuple(told))
            continue
        for event in step.events:
            lanes.take(event)
            teller.read(event)
            lanes.leave(event)


def _entries(run: Run, teller: Teller, lanes: _Lanes, event: Any) -> Iterator[TimelineEntry]:
    lanes.take(event)
    drawn, lane = lanes.drawn(event)
    words = [*teller.rows(run, event)] or [_quiet(event)]
    who, kind = who_did(run, event), _kind(event)
    request = _request(run, event)
    for each in words:
        said = who._replace(name="") if who.name and quote(who.name) in each else who
        yield TimelineEntry(kind, said, ready(each), drawn, lane, request)
        request = ""
    lanes.leave(event)


def _kind(event: object) -> str:
    kind = _KINDS.get(event.__class__, "quiet")
    if isinstance(event, ev.CallScreened):
        return {"ask": "asks", "deny": "bad"}.get(event.action, kind)
    if getattr(event, "failed", False) or (isinstance(event, ev.FrameClosed) and event.error):
        return "bad"
    return kind


def _quiet(event: object) -> str:
    """Return what an event was that needs no sentence of its own: no line is left out.

    >>> _quiet(ev.ContextSaved(None)), _quiet(ev.SessionWritten("r", 2))
    ('context saved', 'session written')
    """
    if isinstance(event, ev.GuardrailReported):
        names = [f"{each.name} {'stopped it' if each.tripped else 'let it pass'}" for each in event.reports]
        return escape(f"guardrail {', '.join(names)}" if names else "guardrails reported", keep="")
    return " ".join(re.findall(r"[A-Z][a-z]*", type(event).__name__)).lower()


def _request(run: Run, event: object) -> str:
    if not isinstance(event, _ASKED) or (isinstance(event, ev.CallScreened) and event.action != "ask"):
        return ""
    call = event.decision.call if isinstance(event, ev.CallDecided | ev.VoteCast | ev.VoteWithdrawn) else event.call
    return request_id(run, call)


def who_did(run: Run, event: object) -> Who:
    """Return who did what an event says: a person, a model, a policy, a tool, a worker, the clock, a program.

    >>> who_did(new_run(), ev.CallScreened("r/1.0", "ask", by="policy:2"))
    Who(what='policy', name='rule 2')
    """
    match event:
        case ev.CallDecided() | ev.VoteCast() | ev.VoteWithdrawn() | ev.DrillEnded():
            made = event.decision
            return _by(made.by) if made.decider is None else Who("person", made.decider.named)
        case ev.RunCancelled() | ev.GrantRevoked() | ev.CallMarked() | ev.ApprovalWithdrawn():
            return Who("program") if event.decider is None else Who("person", event.decider.named)
        case ev.GrantGiven():
            return Who("person", event.grant.by or "")
        case ev.CallScreened():
            return _by(event.by or "tool")
        case ev.ReplyRecorded() | ev.ReplyRefused() | ev.HistoryCompacted():
            return Who("model", event.model)
        case ev.CallStarted():
            return Who("worker", event.by)
        case ev.CallFinished() | ev.CallNeeds():
            return Who("tool", event_tool(run, event.call))
        case ev.RunStarted():
            return Who("person", event.requester) if event.requester else Who("program")
        case ev.CallAskedAgain() | ev.ExpiryNear():
            return Who("deadline")
        case ev.GrantUsed() | ev.GrantLent() | ev.GrantBorrowed():
            return Who("grant")
        case _:
            return Who("run")


def event_tool(run: Run, call: str) -> str:
    """Return the name of a call's tool, while the run knows it."""
    found = run.calls.get(call)
    return "" if found is None else found.proposal.name


def _by(word: str | None) -> Who:
    text = word or ""
    if text.startswith(BY_GRANT):
        return Who("grant", text.removeprefix(BY_GRANT))
    if text.startswith("policy"):
        rest = text.removeprefix("policy").removeprefix(":")
        return Who("policy", f"rule {rest}" if rest.isdigit() else rest)
    known = {"tool": "tool", "clock": "deadline", "probe": "tool", "on_approval": "tool", "": "program"}
    return Who(known[text]) if text in known else Who("program", text)


class _Lanes:
    """Gives each agent at work a lane of its own, the first that is free."""

    def __init__(self) -> None:
        self._of = dict[str, int]()

    def take(self, event: object) -> None:
        if isinstance(event, ev.FrameOpened) and event.frame not in self._of:
            used = set(self._of.values())
            self._of[event.frame] = next(lane for lane in range(len(used) + 1) if lane not in used)

    def leave(self, event: object) -> None:
        if isinstance(event, ev.FrameClosed):
            self._of.pop(event.frame, None)

    def drawn(self, event: object) -> tuple[tuple[str, ...], int]:
        """Return the mark of each lane at an event, and in which lane it stands, counted from 1."""
        own = min(self._of.get(_frame(event), 0), LANES - 1)
        wide = min(max([own, *self._of.values()]) + 1, LANES)
        busy = set(self._of.values())
        marks = ["pass" if lane in busy else "free" for lane in range(wide)]
        here = "here" if own in busy else "dot"
        marks[own] = "open" if isinstance(event, ev.FrameOpened) else here
        if isinstance(event, ev.FrameClosed):
            marks[own] = "close"
        return tuple(marks), own + 1


def _frame(event: object) -> str:
    frame = getattr(event, "frame", None)
    if isinstance(frame, str):
        return frame
    decision = getattr(event, "decision", None)
    call = getattr(event, "call", None) or getattr(decision, "call", None) or getattr(event, "on", None)
    return frame_of(call) if isinstance(call, str) and "/" in call else ROOT
