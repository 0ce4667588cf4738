"""A circuit breaker: after so many rejections, denials or failures in a stretch of time, calls ask or are denied.

It closes by itself once they are that old. Those of one run are read from the run, those of several from a log that
they share; what cannot be counted keeps it open. What a breaker denies is no trouble that would keep it open for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast, get_args

from ..core.durations import milliseconds
from ..core.encodable import moment
from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.policy import CallView, Past, Share, Trouble
from .limits import About, Whose, check_count, check_reach, named_count, stretch

EVERY: tuple[Trouble, ...] = ("rejected", "denied", "failed")


@immutable
@dataclass(frozen=True)
class Breaker:
    """Opens once `most` calls were rejected, denied or failed within `per`, and closes when they are that old.

    It stands in a rule that asks or denies, and counts the calls that the rule is about; `after` says what of them is
    counted. `of` counts those of several runs: of a "session", of a "requester", of an "agent", or of the whole
    "tenant". Rules with the same `name` share one count. What a person has approved is not held back by it.

    >>> Breaker(3, per="10m", after=["failed"]).over
    'over the limit of 3 calls that failed in 10m in this run'
    """

    most: int
    per: str | float
    after: Sequence[Trouble] = EVERY
    of: Whose = "run"
    name: str | None = None

    def __post_init__(self) -> None:
        check_count("troubles", self.most, least=1)
        if cast("object", self.per) is None:
            raise UserError("per= says within which time a breaker counts, such as '10m'")
        after: object = self.after
        if isinstance(after, str) or not isinstance(after, Sequence) or not after:
            raise UserError(f"after= is a list of what a breaker counts: {', '.join(EVERY)}; not {after!r}")
        wrong = [each for each in cast("Sequence[object]", after) if each not in get_args(Trouble)]
        if wrong:
            raise UserError(f"after= lists what a breaker counts: {', '.join(EVERY)}; not {wrong[0]!r}")
        object.__setattr__(self, "after", tuple(each for each in EVERY if each in self.after))
        check_reach(self)

    @property
    def over(self) -> str:
        """Return the reason for a call while it is open."""
        return f"over the limit of {self.most} calls that {self._what}{stretch(self)}{self._where}"

    @property
    def _what(self) -> str:
        words = {"rejected": "were rejected", "denied": "were denied", "failed": "failed"}
        *others, last = [words[each] for each in self.after]
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def _where(self) -> str:
        return " in this run" if self.of == "run" else ""

    def exceeded(self, call: CallView, past: Past, about: About) -> bool:
        """Return whether it is open for a call."""
        if call.approved:
            return False
        times = self._times(call, past, about)
        return times is None or len(times) >= self.most

    def closes(self, call: CallView, about: About) -> str:
        """Return when it closes again, in words; "" where nobody can tell."""
        times = None if call.past is None else self._times(call, call.past, about)
        if times is None or len(times) < self.most:
            return "they cannot be counted, so it stays open"
        last = sorted(times)[-self.most]  # once this one is too old, there are fewer than it takes
        return f"it closes again at {moment(last + milliseconds(self.per)):%Y-%m-%d %H:%M:%S} UTC"

    def share(self, call: CallView, about: About) -> Share:
        """Return what is counted of several runs."""
        name = named_count(self, f"breaker:{','.join(self.after)}", about)
        after = tuple(self.after)
        return Share(name, self.of, milliseconds(self.per), Fraction(1), Fraction(self.most), after)

    def _times(self, call: CallView, past: Past, about: About) -> list[int] | None:
        """Return when the calls were in trouble that are counted now; None where nobody knows."""
        since = call.at - milliseconds(self.per) + 1
        if self.of == "run":
            return [other.at for other in past.troubled(self.after, since) if about.fits(other)]
        shared = past.shared_times(self.share(call, about))
        return None if shared is None else [at for at in shared if at >= since]
