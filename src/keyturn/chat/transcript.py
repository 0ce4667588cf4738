"""Fold the log of a run into what a person reads: words, calls and what became of them, agents at work, todos.

Data only, as it was recorded: nothing is escaped or drawn here, and nothing is decided. It is fed steps in order, so a
run that goes on now and one of last week are read by the same code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, LiteralString, cast

from ..core import events as ev
from ..core.call_ids import call_id
from ..core.errors import BadJson
from ..core.items import Item
from ..core.preview import Preview, redact
from ..core.run import Call, Run
from ..core.strict import parse
from ..render.verdicts import STATES, verdict_of

_SETTLED = ("finished", "failed")
_GRANTED: LiteralString = "an earlier grant"


@dataclass(eq=False)
class TranscriptEntry:
    """Holds one piece of the conversation; `version` counts its changes."""

    frame: str = ev.ROOT
    lane: str = ""  # the name of the subagent, "" for the assistant itself
    version: int = 0


@dataclass(eq=False)
class Words(TranscriptEntry):
    """Holds what somebody said: "you" or "assistant"."""

    who: LiteralString = "assistant"
    text: str = ""


@dataclass(eq=False)
class Note(TranscriptEntry):
    """Holds an event: words of ours, and data that they are about."""

    words: LiteralString = ""
    data: str = ""


@dataclass(eq=False)
class CallEntry(TranscriptEntry):
    """Holds one call: what it is, how far it came, who decided, and its result."""

    id: str = ""
    tool: str = ""
    arguments: Any = None
    preview: Preview | None = None
    state: str = "proposed"
    before: Any = None  # the arguments that the model gave, where a person gave others
    verdict: str = ""  # how it was decided
    decided: LiteralString = ""  # the same in words
    by: str = ""  # who decided
    reason: str = ""  # what was said with it
    result: str | None = None


@dataclass(eq=False)
class SubagentLane:
    """Holds a subagent at work: its name, its task, and what it does now."""

    name: str
    task: str = ""
    doing: LiteralString = "thinks"
    tool: str = ""
    over: bool = False


@dataclass
class Transcript:
    """Holds one run as a person reads it.

    >>> Transcript().entries
    []
    """

    entries: list[TranscriptEntry] = field(default_factory=list[TranscriptEntry])
    lanes: dict[str, SubagentLane] = field(default_factory=dict[str, SubagentLane])
    todos: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _calls: dict[str, CallEntry] = field(default_factory=dict[str, CallEntry])
    _turns: dict[str, int] = field(default_factory=dict[str, int])

    def feed(self, run: Run, step: ev.Step) -> None:
        """Take in one step; `run` is the run after it."""
        for event in step.events:
            read = _READ.get(type(event))
            if read is not None:
                read(self, run, event)
        for entry in self._calls.values():
            self._follow(run, entry)
        for frame, lane in self.lanes.items():
            lane.doing, lane.tool = _doing(run, frame)
            lane.over = lane.over or run.status in ("finished", "cancelled")

    @property
    def turns(self) -> int:
        """Return how many replies the assistant itself has given."""
        return self._turns.get(ev.ROOT, 0)

    @property
    def at_work(self) -> list[SubagentLane]:
        """Return the subagents that are at work now."""
        return [lane for lane in self.lanes.values() if not lane.over]

    def _add(self, entry: TranscriptEntry) -> None:
        lane = self.lanes.get(entry.frame)
        entry.lane = "" if lane is None else lane.name
        self.entries.append(entry)

    def started(self, run: Run, event: ev.RunStarted) -> None:
        """Add what the run was begun with."""
        given: Any = event.input
        items = cast("list[Any]", given) if isinstance(given, list) else [{"role": "user", "content": given}]
        for text in _said(items):
            self._add(Words(who="you", text=text))

    def added(self, run: Run, event: ev.InputAdded) -> None:
        """Add what was said while the run went on."""
        for text in _said(event.items):
            self._add(Words(event.frame, who="you", text=text))

    def opened(self, run: Run, event: ev.FrameOpened) -> None:
        """Note that a subagent begins."""
        if event.frame == ev.ROOT:
            return
        call = run.calls.get(event.frame)
        given: Any = {} if call is None else _arguments(call)
        task: Any = cast("dict[str, Any]", given).get("description") if isinstance(given, dict) else None
        self.lanes[event.frame] = SubagentLane(event.agent.rpartition("/")[2], task if isinstance(task, str) else "")

    def closed(self, run: Run, event: ev.FrameClosed) -> None:
        """Note that a subagent ended."""
        lane = self.lanes.get(event.frame)
        if lane is not None:
            lane.over = True

    def replied(self, run: Run, event: ev.ReplyRecorded) -> None:
        """Add a model's words and calls, in their order."""
        turn = self._turns[event.frame] = self._turns.get(event.frame, 0) + 1
        calls = {proposal.item: index for index, proposal in enumerate(event.proposals)}
        for place, item in enumerate(event.output):
            if place in calls:
                index = calls[place]
                self._called(run, event.frame, call_id(event.frame, turn, index), event.proposals[index], item)
            elif item.get("type", "message") == "message":
                text = _content(item.get("content"))
                if text:
                    self._add(Words(event.frame, text=text))

    def _called(self, run: Run, frame: str, name: str, proposal: ev.Proposal, item: Item) -> None:
        call = run.calls.get(name)
        given: Any = "" if proposal.secrets else item.get("arguments", "")
        given = given if call is None else _arguments(call)
        entry = CallEntry(frame, id=name, tool=proposal.name, arguments=given)
        if proposal.refused is not None:
            entry.state = "failed"
            entry.result = _text_of(proposal.refused)
        self._calls[name] = entry
        self._add(entry)

    def decided(self, run: Run, event: ev.CallDecided) -> None:
        """Note how a call was decided, and by whom."""
        entry = self._calls.get(event.decision.call)
        if entry is None:
            return
        decision = event.decision
        entry.verdict = verdict_of(decision)
        entry.decided = _DECIDED.get(entry.verdict) or f"{STATES[entry.verdict]} by"
        if decision.args is not None:
            entry.before = entry.arguments
        entry.by = _GRANTED if decision.via == "grant" else decision.by or ""
        entry.reason = decision.message or ""
        entry.version += 1

    def finished(self, run: Run, event: ev.CallFinished) -> None:
        """Note the result of a call."""
        entry = self._calls.get(event.call)
        if entry is not None:
            entry.result = _text_of(event.item)
            entry.state = "failed" if event.failed else "finished"
            entry.version += 1

    def granted(self, run: Run, event: ev.GrantGiven) -> None:
        """Note that a grant was given, with what it compares."""
        terms = event.grant
        where = "any arguments at all" if terms.where is None else json.dumps(terms.where, ensure_ascii=False)
        self._add(Note(words="granted, for calls with", data=where))

    def covered(self, run: Run, event: ev.GrantUsed) -> None:
        """Note that an earlier grant decided a call."""
        entry, terms = self._calls.get(event.call), run.grants.get(event.grant)
        if entry is not None:
            entry.verdict = "approve" if terms is None else terms.verdict
            entry.decided = f"{STATES[entry.verdict]} by"
            entry.by = _GRANTED
            entry.version += 1

    def saved(self, run: Run, event: ev.ContextSaved) -> None:
        """Take in the todos."""
        self.todos = todos_of(event.context)

    def failed(self, run: Run, event: ev.RunFailed) -> None:
        """Note that the run stopped on an error."""
        self._add(Note(words="stopped", data=event.error))

    def cancelled(self, run: Run, event: ev.RunCancelled) -> None:
        """Note that a person cancelled the run, or that the program ended it, and why."""
        if event.decider is None:
            self._add(Note(words="ended", data=event.why or "by the program"))
        else:
            self._add(Note(words="cancelled by", data=event.decider.id))

    def compacted(self, run: Run, event: ev.HistoryCompacted) -> None:
        """Note that the older part of the conversation was summarised."""
        self._add(Note(event.frame, words="the older part of the conversation was summarised"))

    def _follow(self, run: Run, entry: CallEntry) -> None:
        """Take over what the run knows of a call while it is open."""
        call = run.calls.get(entry.id)
        if entry.state in _SETTLED or call is None:
            return
        preview = call.preview or call.proposal.preview
        if (call.state, preview) != (entry.state, entry.preview):
            entry.state, entry.preview = call.state, preview
            entry.arguments = _arguments(call)
            entry.version += 1


_DECIDED: dict[str, LiteralString] = {
    "asked_back": "question, not a decision, by",
    "expire": "expired",
    "ran": "it ran, according to",
    "did_not_run": "it did not run, according to",
    "retry": "run again by",
}
_READ: dict[type[Any], Callable[[Transcript, Run, Any], None]] = {
    ev.RunStarted: Transcript.started,
    ev.InputAdded: Transcript.added,
    ev.FrameOpened: Transcript.opened,
    ev.FrameClosed: Transcript.closed,
    ev.ReplyRecorded: Transcript.replied,
    ev.CallDecided: Transcript.decided,
    ev.CallFinished: Transcript.finished,
    ev.GrantGiven: Transcript.granted,
    ev.GrantUsed: Transcript.covered,
    ev.ContextSaved: Transcript.saved,
    ev.RunFailed: Transcript.failed,
    ev.RunCancelled: Transcript.cancelled,
    ev.HistoryCompacted: Transcript.compacted,
}


def todos_of(saved: object) -> list[dict[str, Any]]:
    """Return the todos in a context that a run saved.

    >>> todos_of({"kind": "typed", "data": {"todos": [{"content": "Look", "status": "pending"}]}})
    [{'content': 'Look', 'status': 'pending'}]
    """
    data: Any = cast("dict[str, Any]", saved).get("data") if isinstance(saved, dict) else None
    found: Any = cast("dict[str, Any]", data).get("todos") if isinstance(data, dict) else None
    return [todo for todo in cast("list[Any]", found) if isinstance(todo, dict)] if isinstance(found, list) else []


def _doing(run: Run, frame_id: str) -> tuple[LiteralString, str]:
    """Return what an agent does now, and with which tool."""
    frame = run.frames.get(frame_id)
    if frame is None or frame.phase == "closed":
        return "done", ""
    opened = [call for name in frame.calls if (call := run.calls.get(name)) is not None]
    waits = next((call for call in opened if call.state in ("asked", "needs", "in_doubt")), None)
    if waits is not None:
        return "pending", waits.proposal.name
    runs = next((call for call in opened if call.state == "started"), None)
    return ("thinks", "") if runs is None else ("runs", runs.proposal.name)


def _arguments(call: Call) -> Any:
    """Return the arguments of a call, its secrets redacted."""
    if call.proposal.refused is not None and call.proposal.secrets:
        return {}
    try:
        return redact(parse(call.text or "{}"), call.proposal.secrets)
    except BadJson:
        return {} if call.proposal.secrets else call.text


def _said(items: list[Any]) -> Iterator[str]:
    """Yield the texts of a user's messages."""
    for item in items:
        if isinstance(item, dict) and cast("Item", item).get("role") == "user":
            text = _content(cast("Item", item).get("content"))
            if text:
                yield text


def _content(content: object) -> str:
    """Return the text of a message, with a mark where it has a picture or a file."""
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    given = [cast("Item", part) for part in parts if isinstance(part, dict)]
    return "".join(str(part.get("text") or part.get("refusal") or f"({part.get('type')})") for part in given)


def _text_of(item: Item) -> str:
    """Return the result of a call as a text."""
    output: Any = item.get("output")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
