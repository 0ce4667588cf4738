"""The rows of a run derived anew from its log, and compared with those that its store has.

What people are shown of a call that only its tool can say (a preview made on the spot) is not in the log and
cannot be compared; all else can.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from msgspec.structs import replace

from ..core import events as ev
from ..core.codec import as_text
from ..core.effects import waiting
from ..core.preview import REDACTED
from ..core.run import Run
from ..journal.rows import GrantRow, RequestRow, RunRow
from .calls import WAITING, Call, canonical_text, request_name, value_of
from .log import LogAutomaton

_KINDS = {"asked": "approval", "doubt": "in_doubt", "asking": "external"}
_OPENING = (ev.CallScreened, ev.CallNeeds, ev.CallLost)
_SWEEPING = (ev.FrameClosed, ev.RunCancelled)
_COMPARED = ("run", "call", "kind", "tool", "agent", "digest", "asked_at", "expires_at", "reason")
_CLOSED = ("state", "closed_at", "by")
# What a wrong field of a row breaks, where that is not just the record.
_BREAKS = {"digest": "I4", "state": "I6", "waiting": "I6", "uses": "I1", "revoked": "I1"}

Fault = tuple[str, str]


class DerivedRows:
    """The rows that a log means. `feed` takes each step after the automaton has."""

    def __init__(self, automaton: LogAutomaton) -> None:
        self._log = automaton
        self.requests: dict[str, RequestRow] = {}
        self.grants: dict[str, GrantRow] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._open: dict[str, str] = {}

    def feed(self, step: ev.Step) -> None:
        """Take in what a step changes."""
        for event in step.events:
            self._close(event)
            self._grant(event)
        if any(isinstance(event, _SWEEPING) for event in step.events):
            for call in [name for name in self._open if self._log.over or not self._waits(name)]:
                self._end(call, "void", self._log.now, "")
        for event in step.events:
            if isinstance(event, _OPENING) and self._waits(event.call):
                self._begin(self._log.calls[event.call])
                if self._log.over:
                    self._end(event.call, "void", self._log.now, "")

    def _waits(self, name: str) -> bool:
        call = self._log.calls.get(name)
        return call is not None and call.place in WAITING

    def _close(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.CallDecided):
            made = event.decision
            self._end(made.call, made.verdict, made.at, made.by or "")
        elif isinstance(event, ev.CallVoided):
            self._end(event.call, "void", self._log.now, "")

    def _end(self, call: str, state: str, at: int, by: str) -> None:
        name = self._open.pop(call, None)
        if name is not None:
            self.requests[name] = replace(self.requests[name], state=state, closed_at=at, by=by)

    def _begin(self, call: Call) -> None:
        name = request_name(self._log.salt, call.id)
        if not self._log.over:
            self._open[call.id] = name
        self._shown[name] = {"params": value_of(call.args), "label": call.proposal.label}
        self.requests[name] = RequestRow(
            id=name,
            run=self._log.run,
            call=call.id,
            kind=_KINDS[call.place],
            tool=call.proposal.name,
            agent=call.agent,
            digest=call.digest(self._log.run),
            asked_at=call.asked_at or self._log.now,
            expires_at=call.expires_at,
            reason=call.reason,
            # What was in flight when its run ended is in doubt for good: shown, and past deciding.
            state="void" if self._log.over else "open",
            closed_at=self._log.now if self._log.over else None,
        )

    def _grant(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.GrantGiven):
            made = event.grant
            body = as_text(made)
            self.grants[made.id] = GrantRow(made.id, self._log.run, made.tool, made.agent, body)
        elif isinstance(event, ev.GrantUsed):
            row = self.grants[event.grant]
            self.grants[row.id] = replace(row, uses=row.uses + 1)
        elif isinstance(event, ev.GrantRevoked):
            self.grants[event.grant] = replace(self.grants[event.grant], revoked=True)

    # What the store has --------------------------------------------------------------------------------------------

    def compare_requests(self, rows: list[RequestRow]) -> Iterator[Fault]:
        """How the rows of requests differ from what the log says."""
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
            if not _shows(row.body, self._shown[name]):
                yield "I4", f"the request of call {wanted.call} shows other arguments than would run"
        for row in stored.values():
            yield "I8", f"a request of call {row.call} has a row and was never asked"

    def compare_grants(self, rows: list[GrantRow]) -> Iterator[Fault]:
        """How the rows of grants differ from what the log says."""
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
            for field in ("agent", "body", "uses", "revoked"):
                if getattr(row, field) != _kept(getattr(wanted, field)):
                    yield _BREAKS.get(field, "I8"), f"grant {name} has another {field} in its row"
            if row.tool not in tools:
                yield "I8", f"grant {name} has another tool in its row"
        for name in stored:
            yield "I1", f"grant {name} has a row and was never given"


def compare_run(run: Run, started_at: int, row: RunRow | None) -> Iterator[Fault]:
    """How the row of a run differs from what its log folds to."""
    if row is None:
        yield "I6", "the run has no row"
        return
    if row.status == "damaged":
        yield "I8", "the row of the run is not the one that was written"
        return
    over = run.status in ("finished", "cancelled")
    wanted: dict[str, Any] = {
        "agent": run.root_agent,
        "status": "waiting" if run.status == "running" and waiting(run) else run.status,
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


def _kept(value: Any) -> Any:
    """A value as every store keeps it: text without half characters and without NUL."""
    return value.encode("utf-8", "replace").decode().replace("\0", "?") if isinstance(value, str) else value


def _shows(body: str, wanted: dict[str, Any]) -> bool:
    """Whether what people were shown is what would run; a secret may be hidden, and nothing else."""
    try:
        shown: Any = json.loads(body)
    except ValueError:
        return False
    if not isinstance(shown, dict):
        return False
    seen = cast("dict[str, Any]", shown)
    params = wanted["params"]
    given = seen.get("params") if params is not None else None
    return seen.get("label") == wanted["label"] and _alike(given, params)


def _alike(shown: Any, true: Any) -> bool:
    if shown == REDACTED:
        return True
    if isinstance(shown, dict) and isinstance(true, dict):
        one, other = cast("dict[str, Any]", shown), cast("dict[str, Any]", true)
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(shown, list) and isinstance(true, list):
        first, second = cast("list[Any]", shown), cast("list[Any]", true)
        return len(first) == len(second) and all(map(_alike, first, second))
    return canonical_text(shown) == canonical_text(true)
