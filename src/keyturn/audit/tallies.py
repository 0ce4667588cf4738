"""Count from the logs what a store's tallies count, a second time, and compare.

A run that was erased, or cannot be read, is counted and says nothing any more: then the store may have more than the
logs say, never less. Runs go on while they are read, so a number has to be between those before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ..core import events as ev
from ..core.records import Decision
from ..journal.rows import COUNTED_FROM, EDGES, RequestRow, Tally

_DAY = 24 * 3_600_000
_Key = tuple[int, tuple[str, ...]]


def drill_word(event: ev.DrillEnded) -> str:
    """Return what becomes of the request of a drill."""
    if event.passed is None:
        return "expire"
    return "drill_passed" if event.passed else "drill_failed"


class Recount:
    """Counts what became of requests, as logs say it; `whole` is False once a log could not be read."""

    def __init__(self) -> None:
        self.whole = True
        self._found: dict[_Key, list[int]] = defaultdict(lambda: [0] * (len(EDGES) + 3))

    def closed(self, row: RequestRow, event: ev.AnyEvent | None, at: int, looks: Mapping[str, int]) -> None:
        """Count the end of an asking: by a decision, by a new asking, or because nobody can decide it any more."""
        if isinstance(event, ev.CallDecided):
            said = event.decision
            decides = said.via in ("person", "clock")
            word = "asked_back" if said.asks_back else said.verdict
            self._decision(row, said, word if decides else said.via, looks)
        elif isinstance(event, ev.DrillEnded):
            self._add(row, drill_word(event), event.decision.at, event.decision.by or "")
        else:
            self._add(row, event.why if isinstance(event, ev.CallAskedAgain) else "void", at, "")

    def voted(self, row: RequestRow, event: ev.VoteCast, looks: Mapping[str, int]) -> None:
        """Count a decision that did not settle a call."""
        if not event.replaced:
            self._decision(row, event.decision, "vote " + event.decision.verdict, looks)

    def reviewed(self, row: RequestRow, event: ev.ReviewGiven, at: int) -> None:
        """Count what somebody said of a call that was let run."""
        self._add(row, event.verdict, at, event.decider.id)

    def looked(self, row: RequestRow, event: ev.CallLooked, at: int) -> None:
        """Count that somebody looked at a request, the first of all."""
        self._add(row, "look", at, event.decider.id)

    def take(self, other: Recount) -> None:
        """Take over what another one counted."""
        for key, numbers in other._found.items():
            self._found[key] = [one + more for one, more in zip(self._found[key], numbers, strict=True)]

    def _decision(self, row: RequestRow, said: Decision, what: str, looks: Mapping[str, int]) -> None:
        person = said.decider.id if said.decider is not None else ""
        self._add(row, what, said.at, person)
        if person and said.via == "person" and said.verdict in ("approve", "edit", "retry"):
            self._add(row, "read", said.at, person, looks.get(person))

    def _add(self, row: RequestRow, what: str, at: int, person: str, since: int | None = None) -> None:
        took = max(0, min(at - (row.asked_at if since is None else since), 1 << 40))
        names = tuple(_kept(name) for name in (what, row.tool, row.agent, row.kind, row.risk, person))
        numbers = self._found[max(0, min(at // _DAY, 1 << 30)), names]
        numbers[0] += 1
        numbers[1] += took
        numbers[2 + sum(1 for edge in EDGES if edge <= took)] += 1

    def faults(self, before: Iterable[Tally], after: Iterable[Tally]) -> Iterator[str]:
        """Return on which days a store counts other than the logs say."""
        least, most = _by_key(before), _by_key(after)
        begun = [numbers[1] for (_, names), numbers in most.items() if names[0] == COUNTED_FROM]
        zero = [0] * (len(EDGES) + 3)
        days = set[int]()
        for key in least.keys() | most.keys() | self._found.keys():
            if key[0] <= max(begun, default=-1) or key[1][0] == COUNTED_FROM:
                continue
            counted = self._found.get(key, zero)
            over = any(one > more for one, more in zip(counted, most.get(key, zero), strict=True))
            under = any(one < more for one, more in zip(counted, least.get(key, zero), strict=True))
            if over or (under and self.whole):
                days.add(key[0])
        return (
            f"what was decided on day {day} since 1970 is counted otherwise than the logs say" for day in sorted(days)
        )


def _by_key(tallies: Iterable[Tally]) -> dict[_Key, list[int]]:
    return {(each.day, each.names): [each.count, each.ms, *each.times] for each in tallies}


def _kept(name: str) -> str:
    return name.encode("utf-8", "replace").decode().replace("\0", "?")
