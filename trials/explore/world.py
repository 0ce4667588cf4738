"""A small world at one moment: its runs, what the oracle knows of them, the clock, and what was shown to people.

A world is never changed; what happens in it makes another one. Runs are copied only where something was decided of
them, all else is shared.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from keyturn.core.effects import pending
from keyturn.core.events import Step
from keyturn.core.run import Run, call_digest
from keyturn.core.states import OVER, WAITING

from .book import Book, Place, need

UNIT = 1_000

# What a world has left of each: which policy is next, forks, copies and restores.
POLICIES, FORKS, COPIES, RESTORES = range(4)

PLACES: dict[str, Place] = {
    "proposed": "new",
    "asked": "asked",
    "started": "started",
    **dict.fromkeys(("allowed", "approved", "edited", "supplied"), "ready"),
    **dict.fromkeys(("denied", "rejected", "expired", "answered", "ran", "did_not_run"), "dead"),
    **dict.fromkeys(("finished", "failed"), "done"),
    "needs": "question",
    "in_doubt": "doubt",
}


class Shown(NamedTuple):
    """One asking of a call, as whoever looked at it saw it."""

    run: int
    call: str
    asking: int
    digest: str


class Copy(NamedTuple):
    """A store as it was when it was copied."""

    run: Run
    book: Book
    log: tuple[Step, ...]


class World(msgspec.Struct, frozen=True):
    """Everything there is at one moment; `left` says how often each rare thing may still happen."""

    runs: tuple[Run, ...]
    books: tuple[Book, ...]
    logs: tuple[tuple[Step, ...], ...]
    clock: int
    policy: int
    left: tuple[int, ...]
    shown: tuple[Shown, ...] = ()
    copy: Copy | None = None
    still: tuple[Copy | None, ...] = ()  # each run as it was when it could last be forked
    unsettled: bool = False

    def now_shown(self, run: int, call: str, back: int = 0) -> Shown | None:
        """Return what is shown of a call, or what was shown of it before that."""
        for each in reversed(self.shown):
            if each.call == call and each.run == run:
                if not back:
                    return each
                back -= 1
        return None


def shown_after(shown: tuple[Shown, ...], place: int, run: Run, book: Book) -> tuple[Shown, ...]:
    """Return what has been shown once this is the run: two askings of each call that is open, and no more."""
    for call in run.groups["wait"].values():
        seen = [each for each in shown if (each.run, each.call) == (place, call.id)]
        asking = book.calls[call.id].asking
        if seen and seen[-1].asking == asking:
            continue
        made = Shown(place, call.id, asking, call_digest(run, call))
        kept = [each for each in shown if (each.run, each.call) != (place, call.id)]
        shown = (*kept, *seen[-1:], made)
    gone = [each for each in shown if each.run == place and each.call not in run.calls]
    return tuple(each for each in shown if each not in gone) if gone else shown


def at_rest(run: Run) -> bool:
    """Whether nothing of a run was let run or is under way: there it can be forked."""
    groups = run.groups
    asks_only = all(call.state == "asked" for call in groups["wait"].values())
    return not groups["run"] and not groups["started"] and asks_only and run.status not in OVER


def check(run: Run, book: Book) -> None:
    """Check a run as it stands against what the oracle knows: nothing is lost, and there is always a way on."""
    for name, told in book.calls.items():
        call = run.calls.get(name)
        if call is None:
            need(told.place == "done" or book.over, "I6", f"{name} is gone, and has no result")
            continue
        place = PLACES[call.state]
        need(book.over or place == told.place, "I6", f"{name} is {call.state} in its run, and was left {told.place}")
        if call.state in WAITING and run.status not in OVER:
            need(call.id in run.groups["wait"], "I6", f"{name} waits, and is in nobody's inbox")
    if book.troubles is not None:
        _counted(run, book)
    if run.status == "running" and run.drill is None:
        groups = run.groups
        goes_on = groups["wait"] or groups["started"] or pending(run) or run.queued
        need(goes_on, "I6", "the run is open, and nothing is pending")


def _counted(run: Run, book: Book) -> None:
    kinds = (("rejected", run.rejected), ("denied", run.denied), ("failed", run.failed))
    counted = sorted((each.call, kind, each.at) for kind, lets in kinds for each in lets)
    need(counted == sorted(book.troubles or ()), "I8", "what breakers count is not what did not go well")
    owed = sorted({each.call for each in run.owed.values() if each.watched})
    need(owed == sorted(book.owed), "I6", "a count of several runs is not told what became of a call, or twice")
