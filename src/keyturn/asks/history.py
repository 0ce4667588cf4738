"""Say what became of the request of an external caller, and when: its first outcome, its claim and its report.

A caller that is told an outcome keeps to it. So the first one is the outcome here, whatever the journal asks of people
later; what holds for a claim is looked at when it is claimed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..core import events as ev
from ..core.codec import Log
from ..core.evolve import evolve
from ..core.gate.expiry import approved_at, stale, stale_at
from ..core.run import Call, Run, allowed_by, new_run, request_id, undo_until
from ..core.states import OVER, READY
from .ask import AskedBy
from .standing import CALL, asked_by

Word = Literal["approved", "rejected", "answered", "expired", "withdrawn"]
_WORDS: dict[str, Word] = {"denied": "rejected", "rejected": "rejected", "expired": "expired", "answered": "answered"}


class FirstOutcome(NamedTuple):
    """Holds how a request was decided first, when, and by whom; times are in milliseconds since 1970.

    It was recorded at `recorded` and is settled at `since`: until then an approval can be undone. An approval may be
    claimed until `until`, if it has such a time. `policy` says that no person decided; `message` is what is said to the
    caller's model.
    """

    word: Word
    at: int
    recorded: int
    since: int
    until: int | None = None
    by: str = ""
    policy: bool = False
    message: str = ""
    output: Any = None


class AskReport(NamedTuple):
    """Holds what a caller reported of its call, and when."""

    outcome: Literal["succeeded", "failed"]
    at: int
    words: str = ""


class AskHistory(NamedTuple):
    """Holds what became of a request, as far as its log goes; `request` is the id of its approval request.

    `decided` are the times at which it was decided: more than one where its approval ran out, or was void, and people
    were asked again.
    """

    id: str
    asked: AskedBy
    begun_at: int
    first: FirstOutcome | None = None
    request: str = ""
    claimed_at: int | None = None
    claimed_by: str = ""
    report: AskReport | None = None
    decided: tuple[int, ...] = ()


def history_of(log: Log) -> AskHistory:
    """Return what became of a request."""
    run, call = new_run(), None
    stands: FirstOutcome | None = None
    decided = dict[int, int]()
    made = AskHistory(log.run.id, asked_by(log), log.steps[0].at)
    for step in log.steps:
        run.now = max(run.now, step.at)
        for event in step.events:
            made = _claimed(made, call, event, run.now)
            evolve(run, event)
            call = run.calls.get(CALL, call)
            before, stands = stands, _outcome(run, call)
            if made.first is None or run.now < made.first.since:
                made = made._replace(first=stands)
            _note(decided, call, before, stands, run.now)
    request = "" if call is None else request_id(run, CALL)
    return made._replace(request=request, decided=tuple(decided.values()))


def _note(
    decided: dict[int, int], call: Call | None, before: FirstOutcome | None, stands: FirstOutcome | None, now: int
) -> None:
    """Note when each asking was decided first, after another event; what was undone in time was no decision."""
    lapsed = call is not None and call.state == "denied" and call.by == "clock"
    if stands is not None and not (decided and lapsed):  # an approval that lapses for good was told
        decided.setdefault(0 if call is None else call.asks, stands.recorded)
    elif stands is None and before is not None and now < before.since:
        decided.popitem()


def _claimed(made: AskHistory, call: Call | None, event: ev.AnyEvent, now: int) -> AskHistory:
    """Note a claim, and what its caller reported; a person who settles a doubt reports nothing."""
    if isinstance(event, ev.CallStarted) and made.claimed_at is None:
        return made._replace(claimed_at=now, claimed_by=event.by)
    if isinstance(event, ev.CallFinished) and call is not None and call.state == "started":
        report = AskReport("failed" if event.failed else "succeeded", now, str(event.item.get("output", "")))
        return made._replace(report=report)
    return made


def _outcome(run: Run, call: Call | None) -> FirstOutcome | None:
    """Return how a request stands decided after an event; None while it is pending."""
    state = "proposed" if call is None else call.state
    if run.status in OVER and state in ("proposed", "asked", *READY):
        return FirstOutcome("withdrawn", run.now, run.now, run.now)
    if call is None or call.recheck or stale(run, call):
        return None
    if state in (*READY, "started"):
        return _approval(run, call)
    return _refusal(run, call, _WORDS[state]) if state in _WORDS else None


def _approval(run: Run, call: Call) -> FirstOutcome:
    decision, at = allowed_by(call), approved_at(call) or run.now
    person = decision is not None and decision.decider is not None
    by = call.by if decision is None else decision.by or ""
    said = "" if decision is None else decision.message or ""
    since = max(run.now, undo_until(call) or 0)
    return FirstOutcome("approved", at, run.now, since, stale_at(call), by, not person, said)


def _refusal(run: Run, call: Call, word: Word) -> FirstOutcome:
    made = call.decision
    if made is None:
        return FirstOutcome(word, run.now, run.now, run.now, by=call.by, policy=True, message=call.reason)
    by, policy = made.by or "", made.decider is None
    return FirstOutcome(word, made.at, run.now, run.now, None, by, policy, made.message or "", made.output)
