"""What insights say: times, figures, and the report of a number of days."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..journal.rows import EDGES, Tally


class Times(msgspec.Struct, frozen=True):
    """Describes how long things took, in seconds: None where there were none; `q1_s` and `q3_s` are quartiles.

    >>> Times().median_s is None
    True
    """

    count: int = 0
    mean_s: float | None = None
    median_s: float | None = None
    p90_s: float | None = None
    q1_s: float | None = None
    q3_s: float | None = None

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Times:
        """Add tallies up."""
        found = list(tallies)
        count = sum(each.count for each in found)
        if not count:
            return cls()
        times = [sum(column) for column in zip(*(each.times for each in found), strict=True)]
        mean = sum(each.ms for each in found) / count / 1_000
        shares = [quantile(times, share) for share in (0.5, 0.9, 0.25, 0.75)]
        return cls(count, round(mean, 3), *shares)


class Figures(msgspec.Struct, frozen=True):
    """Tells how requests ended of one tool, one person, one kind, or of all.

    `decided` counts decisions of approvers, and so each vote: two on a request that requires two approvals. `ended`
    counts requests that closed: decided, expired, asked again, or settled without a person. The rates of verdicts are
    of `decided`, those of time of `ended`;
    None where there is nothing to divide by. `words` counts everything by its word. `read` counts what people let run,
    and `hurried` those of it that were surely let run before the floor of their risk. `reviewed` counts what others
    said of calls that had been let run, and `disagreement_rate` is the share of it that was "wrong". `drills` counts
    the drills that were answered, and `drills_passed` is the share of them that was not approved.
    """

    name: str
    decided: int
    ended: int
    approval_rate: float | None
    edit_rate: float | None
    rejection_rate: float | None
    expiry_rate: float | None
    escalation_rate: float | None
    to_decide: Times
    first_look: Times
    read: int
    hurried: int
    words: dict[str, int]
    reviewed: int = 0
    disagreement_rate: float | None = None
    drills: int = 0
    drills_passed: float | None = None


class InsightsReport(msgspec.Struct, frozen=True):
    """Tells of a number of days how people decided.

    `counted_from` is the first whole day that is counted, where there were decisions before there were counters.
    `floors` are the reading floors in seconds, by risk; "" is for every risk that is not named.
    """

    since: str
    until: str
    counted_from: str | None
    floors: dict[str, float]
    total: Figures
    tools: list[Figures]
    people: list[Figures]
    kinds: list[Figures]

    @property
    def decided(self) -> int:
        """Return how many decisions approvers made, votes included."""
        return self.total.decided


def quantile(times: list[int], share: float) -> float | None:
    """Return below which time, in seconds, a share of what is in buckets lies; within a bucket it is divided evenly.

    Of the last bucket, which is open, it is where it begins.

    >>> quantile([0, 4] + [0] * 18, 0.5)
    1.5
    """
    whole = sum(times)
    before = 0
    for place, count in enumerate(times):
        if count and before + count >= share * whole:
            low = EDGES[place - 1] if place else 0
            high = EDGES[place] if place < len(EDGES) else low
            return round((low + (high - low) * (share * whole - before) / count) / 1_000, 3)
        before += count
    return None
