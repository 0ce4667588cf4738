"""Derive the rows of a run again from its log, and compare them with those that its store has.

All that people are shown of a call is made of its log, so all of it is compared: as it would run, and without what the
call's proposal marks as secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ..core import events as ev
from ..core.codec import as_text
from ..core.effects import waiting
from ..core.request import ASKED, asked_text
from ..core.run import Run
from ..journal.rows import GrantRow, RequestRow, RunRow
from .calls import WAITING, AuditedCall, Broken, canonical_text, request_name, value_of
from .deciders import two_steps
from .laws import chains
from .laws.beside import step_of
from .laws.steps import confirmed
from .run import AuditedRun
from .shown import REVIEW, chain_body, hidden_in, mark_of, preview_of, review_row, said_of
from .tallies import Recount, drill_word

_KINDS = {"asked": "approval", "doubt": "in_doubt", "asking": "external"}
_VERDICTS = {
    "asked": ("approve", "edit", "reject", "answer"),
    "doubt": ("ran", "did_not_run", "retry"),
    "asking": ("answer", "reject"),
}
_OPENING = (ev.CallScreened, ev.CallNeeds, ev.CallLost, ev.CallAskedAgain, ev.CallMarked, ev.CallLooked)
_SWEEPING = (ev.FrameClosed, ev.RunCancelled)
_ENDS = (ev.CallDecided, ev.CallVoided, ev.CallAskedAgain, ev.ReviewAsked, ev.DrillEnded)
_COMPARED = ("run", "call", "kind", "tool", "agent", "digest", "asked_at", "expires_at", "reason", "risk")
_CLOSED = ("state", "closed_at", "by")
# What of a request stands in the body of its row where it differs from this.
_USUAL: dict[str, Any] = {
    "revision": 1,
    "tool_kind": "function",
    "label": "",
    "votes": [],
    "secrets": [],
    "description": "",
    "path": "",
    "started_by": "",
    "snoozed": [],
    "waits_for": "",
    "looked": [],
    "withdrawn": [],
    "reviews": "",
    "not_for": [],
    "step": 0,
    "steps": 0,
    "met": [],
}
# What the rows of earlier versions do not say, none of it; every later row says at least how its call came about.
_SINCE = ("description", "path", "started_at", "started_by", "former")
# What a wrong field of a row breaks, where that is not just the record.
_SHOWN = dict.fromkeys(("params", "arguments", "preview", "requests", "difference", "label"), "I4")
_BREAKS = _SHOWN | {"digest": "I4", "state": "I6", "waiting": "I6", "uses": "I1", "revoked": "I1"}

Fault = tuple[str, str]


class DerivedRows:
    """Derives the rows that a log means; `feed` takes each step after `read_step` has."""

    def __init__(self, audited: AuditedRun) -> None:
        self._log = audited
        self.requests: dict[str, RequestRow] = {}
        self.grants: dict[str, GrantRow] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._open: dict[str, str] = {}
        self.tallies = Recount()
        self._names = False  # a start named its process, as those of earlier versions do not
        self._new: set[str] = set()  # requests that were written after that

    def feed(self, step: ev.Step) -> None:
        """Apply what a step changes."""
        for event in step.events:
            self._count(event)
            self._close(event)
            self._grant(event)
            self._names = self._names or (isinstance(event, ev.CallStarted) and bool(event.by))
        if any(isinstance(event, _SWEEPING) for event in step.events):
            waits = [name for name in self._open if not name.startswith(REVIEW)]
            for call in [name for name in waits if self._log.over or not self._waits(name)]:
                self._count(None, call)
                self._end(call, "void", self._log.now, "")
        for name in dict.fromkeys(_opened(step)):
            if self._waits(name):
                self._begin(self._log.calls[name])
        for event in step.events:
            if isinstance(event, ev.ReviewAsked):
                self._ask_others(event.call)

    def _waits(self, name: str) -> bool:
        call = self._log.calls.get(name)
        return call is not None and call.place in WAITING

    def _count(self, event: ev.AnyEvent | None, swept: str = "") -> None:
        """Count what is said of an open request, unless a fork copied it: there it was counted before."""
        origin: Any = self._log.about.get("forked_from") or {"at": 0}
        call = swept if event is None else _named(event)
        if call not in self._open or self._log.line <= max(origin["at"], self._log.forked_in):
            return
        row = self.requests[self._open[call]]
        if isinstance(event, ev.VoteCast):
            self.tallies.voted(row, event, self._looks(call, met=event.decision.confirms))
        elif isinstance(event, ev.ReviewGiven):
            self.tallies.reviewed(row, event, self._log.now)
        elif isinstance(event, ev.CallLooked):
            if next(iter(self._looks(call))) == event.decider.id:
                self.tallies.looked(row, event, self._log.now)
        elif event is None or isinstance(event, _ENDS):
            self.tallies.closed(row, event, self._log.now, self._looks(call))

    def _looks(self, name: str, *, met: bool = False) -> dict[str, int]:
        """Return since when people looked at a call; in the step that a vote `met`, where the next is due by now."""
        call = self._log.calls.get(name)
        if call is None:
            return {}
        return call.met[-1].looks if met and call.met else call.looks

    def _close(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.CallDecided):
            made = event.decision
            self._end(made.call, "asked_back" if made.asks_back else made.verdict, made.at, made.by or "")
        elif isinstance(event, ev.DrillEnded):
            made = event.decision
            self._end(made.call, drill_word(event), made.at, made.by or "")
        elif isinstance(event, ev.ReviewGiven):
            self._end(_named(event), event.verdict, self._log.now, event.decider.id)
        elif isinstance(event, ev.CallVoided | ev.CallAskedAgain | ev.ReviewAsked):
            self._end(_named(event), "void", self._log.now, "")
        elif isinstance(event, ev.RunForked):
            for review in [name for name in self._open if name.startswith(REVIEW)]:
                self._end(review, "void", self._log.now, "")

    def _end(self, call: str, state: str, at: int, by: str) -> None:
        name = self._open.pop(call, None)
        if name is not None:
            self.requests[name] = replace(self.requests[name], state=state, closed_at=at, by=by)

    def _begin(self, call: AuditedCall) -> None:
        name = request_name(self._log.salt, call.id)
        if not self._log.over:
            self._open[call.id] = name
        self._shown[name] = self._body(call)
        if self._names:
            self._new.add(name)
        self.requests[name] = RequestRow(
            id=name,
            run=self._log.run,
            call=call.id,
            kind=_KINDS[call.place],
            tool=call.proposal.name,
            agent=call.agent,
            digest=call.digest(self._log.bound_to),
            asked_at=call.asked_at,
            expires_at=call.expires_at,
            reason=call.reason,
            risk=call.proposal.risk or "",
            shape=call.shape(),
            # What was in flight when its run ended is in doubt for good: shown, and past deciding.
            state="void" if self._log.over else "open",
            closed_at=self._log.now if self._log.over else None,
        )

    def _ask_others(self, call: str) -> None:
        row, shown = review_row(self._log, self._log.reviews[call])
        self._open[row.call] = row.id
        self._new.add(row.id)
        self.requests[row.id], self._shown[row.id] = row, shown

    def _body(self, call: AuditedCall) -> dict[str, Any]:
        """Return what people are shown of a waiting call beside the columns of its row."""
        made = call.proposal
        params = hidden_in(value_of(call.args), made.secrets)
        fixed = made.fixed or two_steps(call.terms) or chains.in_chain(call)
        first = two_steps(call.terms) and not confirmed(self._log, call)
        first = first or (call.terms is not None and call.terms.then is not None)
        without = {"edit": fixed, "answer": made.elsewhere or first} if call.place == "asked" else {}
        sure = call.confirmed
        return {
            "revision": call.revision,
            "tool_kind": made.kind,
            "label": made.label,
            "arguments": canonical_text(params) if made.secrets else call.args,
            "params": params,
            "preview": preview_of(call, params),
            "terms": None if call.terms is None else msgspec.to_builtins(call.terms),
            "waits_for": step_of(self._log, call),
            "confirmed": None if sure is None else said_of(sure.by or "", sure, made.secrets),
            "verdicts": [word for word in _VERDICTS[call.place] if not without.get(word, False)],
            "votes": [said_of(by, vote, made.secrets) for by, vote in call.votes.items()],
            "requests": call.question.requests if call.place == "asking" and call.question is not None else None,
            "difference": self._difference(call),
            "requester": self._log.requester,
            "secrets": list(made.secrets),
            "description": str(self._log.tools.get(made.tool, {}).get("description") or ""),
            "path": self._path(call),
            "claim": None if call.claim is None else mark_of(call.claim),
            "snoozed": [mark_of(mark) for mark in call.snoozes.values()],
            "looked": [{"by": by, "at": at} for by, at in call.looks.items()],
            "withdrawn": [said_of(made.by or "", made, call.proposal.secrets) for made in call.withdrawn],
            **self._start(call),
            **chain_body(call),
        }

    def _start(self, call: AuditedCall) -> dict[str, Any]:
        """Say when, by which process and on whose word a call was started."""
        if not self._log.starts.get(call.id):
            return {"started_at": None, "started_by": "", "former": None}
        by_probe = call.decision is not None and call.decision.via == "probe"
        lets = call.approval if by_probe else call.decision
        former = None if lets is None else said_of(lets.by or "", lets, call.proposal.secrets)
        return {"started_at": call.started_at, "started_by": call.started_by, "former": former}

    def _path(self, call: AuditedCall) -> str:
        """Say how the run came to the agent of a call, and what the last one was asked."""
        parts = call.id.split("/")
        above = ["/".join(parts[:end]) for end in range(2, len(parts))]
        outer = [self._log.calls[name] for name in above if name in self._log.calls]
        root = before = self._log.root
        words = [root]
        for place, agent in enumerate([*(each.agent for each in outer), call.agent]):
            if place or agent != root:
                words += agent.removeprefix(f"{before}/").removeprefix(f"{root}/").split("/")
            before = agent
        named = " > ".join(words)
        if not outer:
            return named
        text = asked_text(hidden_in(value_of(outer[-1].args), outer[-1].proposal.secrets))
        return f"{named}, asked: {text if len(text) <= ASKED else text[:ASKED] + '[...]'}"

    def _difference(self, call: AuditedCall) -> Any:
        before, after = call.former_tool, call.proposal.tool
        tools = self._log.tools
        return {"before": tools.get(before), "after": tools.get(after)} if before not in ("", after) else None

    def _grant(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.GrantGiven):
            made = event.grant
            body = as_text(made)
            self.grants[made.id] = GrantRow(made.id, self._log.run, made.tool, made.agent, body, made.reach)
        elif not isinstance(event, ev.GrantUsed | ev.GrantLent | ev.GrantRevoked) or event.grant not in self.grants:
            return  # what is borrowed has its row at home
        elif not isinstance(event, ev.GrantRevoked):
            row = self.grants[event.grant]
            self.grants[row.id] = replace(row, uses=row.uses + 1)
        else:
            self.grants[event.grant] = replace(self.grants[event.grant], revoked=True)

    # What the store has --------------------------------------------------------------------------------------------

    def compare_requests(self, rows: list[RequestRow]) -> Iterator[Fault]:
        """Return how the rows of requests differ from what the log says."""
        stored = {row.id: row for row in rows}
        for name, wanted in self.requests.items():
            row = stored.pop(name, None)
            if row is None:
                yield "I6", f"the request of call {wanted.call} has no row"
                continue
            if row.state == "damaged":
                yield "I8", f"the row of the request of call {wanted.call} is not the one that was written"
                continue
            for field in (*_COMPARED, *_CLOSED):
                if getattr(row, field) != _kept(getattr(wanted, field)):
                    yield _BREAKS.get(field, "I8"), f"the request of call {wanted.call} has another {field} in its row"
            if row.shape not in ("", wanted.shape):  # earlier versions wrote none, and nothing is decided by it
                yield "I8", f"the request of call {wanted.call} has another shape in its row"
            shown = self._shown[name] | {"shape": wanted.shape}
            for field in _unlike(row.body, shown, older=name not in self._new):
                yield _BREAKS.get(field, "I8"), f"the request of call {wanted.call} shows another {field} than its log"
        for row in stored.values():
            yield "I8", f"a request of call {row.call} has a row and was never asked"

    def compare_grants(self, rows: list[GrantRow]) -> Iterator[Fault]:
        """Return how the rows of grants differ from what the log says."""
        stored = {row.id: row for row in rows}
        for name, wanted in self.grants.items():
            row = stored.pop(name, None)
            if row is None:
                yield "I8", f"grant {name} has no row"
                continue
            if row.damaged:
                yield "I8", f"the row of grant {name} is not the one that was written"
                continue
            tools = (wanted.tool, self._log.tools.get(wanted.tool, {}).get("name"))
            for field in ("agent", "body", "reach", "uses", "revoked"):
                if getattr(row, field) != _kept(getattr(wanted, field)):
                    yield _BREAKS.get(field, "I8"), f"grant {name} has another {field} in its row"
            if row.tool not in tools:
                yield "I8", f"grant {name} has another tool in its row"
        for name in stored:
            yield "I1", f"grant {name} has a row and was never given"


def compare_run(run: Run, started_at: int, row: RunRow | None) -> Iterator[Fault]:
    """Return how the row of a run differs from what its log folds to."""
    if row is None:
        yield "I6", "the run has no row"
        return
    if row.status == "damaged":
        yield "I8", "the row of the run is not the one that was written"
        return
    over = run.status in ("finished", "cancelled")
    wanted: dict[str, Any] = {
        "agent": run.root_agent,
        "status": _status(run),
        "started_at": started_at,
        "updated_at": run.now,
        "waiting": 0 if over else len(run.groups["wait"]),
        "turns": run.turns,
        "workflow": str(run.about.get("workflow", "")),
        "error": run.error,
    }
    for field, value in wanted.items():
        if getattr(row, field) != _kept(value):
            yield _BREAKS.get(field, "I8"), f"the run has another {field} in its row"


def _status(run: Run) -> str:
    """Return what people are told of a run that goes on."""
    if run.status == "running" and run.queued:
        return "queued"
    if run.status == "failed" and run.lost:
        return "set_aside"
    return "waiting" if run.status == "running" and waiting(run) else run.status


def _kept(value: object) -> Any:
    """Return a value as every store keeps it: text without lone surrogates and without NUL."""
    return value.encode("utf-8", "replace").decode().replace("\0", "?") if isinstance(value, str) else value


def _named(event: ev.AnyEvent) -> str:
    """Return which call an event is about, or which review."""
    if isinstance(event, ev.CallDecided | ev.VoteCast | ev.VoteWithdrawn | ev.DrillEnded):
        return event.decision.call
    name: str = getattr(event, "call", "")
    return REVIEW + name if isinstance(event, ev.ReviewAsked | ev.ReviewGiven) else name


def _opened(step: ev.Step) -> Iterator[str]:
    """Return the calls whose requests a step may have opened or changed."""
    for event in step.events:
        if isinstance(event, _OPENING):
            yield event.call
    for event in step.events:
        if isinstance(event, ev.VoteCast | ev.VoteWithdrawn):
            yield event.decision.call


def _unlike(body: str, wanted: dict[str, Any], *, older: bool) -> list[str]:
    """Return the fields in which the body of a row differs from what people are to be shown.

    `older` says that an earlier version may have written it.
    """
    try:
        told: Any = value_of(body)
        if not isinstance(told, dict):
            return ["body"]
        if older and not any(name in told for name in _SINCE):
            wanted = {name: value for name, value in wanted.items() if name not in _SINCE}
        if "shape" not in told:  # it has a column of its own
            wanted = {name: value for name, value in wanted.items() if name != "shape"}
        usual = {name: value for name, value in _USUAL.items() if name in wanted}
        shown = dict.fromkeys(wanted) | usual | cast("dict[str, Any]", told)
        if canonical_text(shown) == canonical_text(wanted):
            return []
        return [name for name in shown if canonical_text(shown[name]) != canonical_text(wanted.get(name))] or ["body"]
    except (Broken, ValueError, RecursionError):
        return ["body"]
