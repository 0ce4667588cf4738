"""Check the laws of limits that several runs share: a log that counts holds its sums, and forgets nobody's part."""

from __future__ import annotations

from fractions import Fraction

from ..core import events as ev
from ..core.policy import Trouble
from .calls import AuditedCall, Broken, need
from .frames import Frames


class Counting(Frames):
    """Tracks what calls of other runs count for in one log, and where the calls of this run are counted.

    `ever_taken` are the calls that were ever counted here, `counted_in` the logs that this run says count its calls,
    with the lines that say so, and `told_of` the counts of breakers that it says it told of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ever_taken: set[tuple[str, str]] = set()
        self.counted_in: list[tuple[str, str, int]] = []
        self.told_of: list[tuple[ev.Watch, str, int]] = []
        self.line: int = 0
        self._to_tell: dict[str, list[ev.Watch]] = {}
        self._taken: dict[tuple[str, str, str], Fraction] = {}
        self._sum = Fraction(0)
        self._closed = False

    def taken(self, event: ev.QuotaTaken) -> None:
        """Check that a call is counted once, while the log counts, and that the sum is at most what it was held to."""
        place = (event.run, event.call, event.of)
        need(not self._closed, "I1", f"call {event.call} of run {event.run} was counted after the log was closed")
        need(place not in self._taken, "I1", f"call {event.call} of run {event.run} was counted twice")
        amount, beside = _number(event.amount), _number(event.beside)
        need(
            amount >= 0 and beside >= 0, "I1", f"call {event.call} of run {event.run} was counted as less than nothing"
        )
        self._taken[place] = amount
        self._sum += amount
        self.ever_taken.add((event.run, event.call))
        held = event.most is None or self._sum + beside <= _number(event.most)
        need(held, "I1", f"with call {event.call} of run {event.run} the limit had been passed")

    def given_back(self, event: ev.QuotaReturned, own: str) -> None:
        """Check that only what was counted is counted no more."""
        if event.run != own:
            gone = self._taken.pop((event.run, event.call, event.of), None)
            if gone is None:
                raise Broken("I8", f"call {event.call} of run {event.run} was not counted, and is no more")
            self._sum -= gone
            return
        self.told_of += [(watch, event.call, self.line) for watch in self._to_tell.pop(event.call, ())]

    def troubled(self, call: AuditedCall, trouble: Trouble) -> None:
        """Note that counts are to be told of a call that did not go well."""
        told = [watch for watch in call.watched if trouble in watch.after]
        self._to_tell.setdefault(call.id, []).extend(told)

    def tells_nothing(self) -> None:
        """Forget which counts were to be told of calls: what a fork copied is told by the run in which it was."""
        self._to_tell = {}

    def closed_for_new(self, _event: ev.QuotaClosed) -> None:
        """Record that no new calls are counted here."""
        self._closed = True


def _number(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Broken("I8", "an amount is no number") from None
