"""Who watches claims, and every start: none is while it can be undone, after its time, or on a word that was used."""

from __future__ import annotations

from collections.abc import Callable

from keyturn.core import events as ev

from . import chains
from .made import journal_time
from .seen import RunSeen, Seen

Wrong = Callable[[str], None]
# The outcomes that callers report, on their way: the run, who holds the claim, what it says.
Reports = set[tuple[str, str, str]]
_LATE = "did not report"


def started(seen: RunSeen, call: Seen, event: ev.CallStarted, wrong: Wrong) -> None:
    """A call is started, or claimed."""
    made = [each for each in (call.decision, call.retry) if each is not None]
    if any(seen.now < each.at + each.undo_ms for each in made):
        wrong(f"{call.id} was started while its approval could be undone")
    limit = chains.lasts(call)
    if limit is not None and made and seen.now > call.let_at + limit:
        wrong(f"{call.id} was started after its approval was stale")
    if event.until is None:
        return
    if seen.over:
        wrong(f"{call.id} was claimed in a run that is over")
    if call.spent:
        wrong(f"{call.id} was claimed by {event.by}, and on the same word by {call.claimed_by}")
    call.spent, call.claimed_by, call.held = True, event.by, event.until


def finished(
    seen: RunSeen, call: Seen, event: ev.CallFinished, reports: set[tuple[str, str, str]], wrong: Wrong
) -> None:
    """A call has a result: of one that is claimed its caller reported it."""
    if not call.claimed_by or not call.started:
        return
    outcome = "failed" if event.failed else "succeeded"
    if (seen.id, call.claimed_by, outcome) not in reports:
        wrong(f"{call.id} {outcome}, and {call.claimed_by}, which claimed it, never said so")
    seen.reported.add(outcome)


def lost(seen: RunSeen, call: Seen, event: ev.CallLost, wrong: Wrong) -> None:
    """A call is in doubt: not before the time until which its caller has it."""
    if not call.claimed_by:
        return
    seen.reported.add("unknown")
    if _LATE in event.why and seen.now <= call.held:
        wrong(f"{call.id} was put in doubt {call.held - seen.now} ms before its claim ran out")


def overdue(runs: dict[str, RunSeen]) -> list[str]:
    """Claims whose time is over and that are not in doubt."""
    calls = [(run, call) for run in runs.values() for call in run.calls.values()]
    return [
        f"run {run.id[:4]}: {call.claimed_by} did not report, and {call.id} is not in doubt"
        for run, call in calls
        if call.claimed_by and call.started and not run.copying and journal_time() > call.held
    ]


def account_of(event: ev.RunStarted) -> str:
    """The account whose call a run asks for; "" for a run of another kind."""
    items = event.input if isinstance(event.input, list) else []
    return str(items[1].get("account", "")) if len(items) > 1 else ""
