"""The records of what policies count: calls that were let run, what other runs took, and what is owed to their logs."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from . import events as ev


class CountedCall(msgspec.Struct, frozen=True, gc=False):
    """Records a call that was let run, or rejected; with a sign of -1, one that is known not to have run."""

    call: str
    agent: str
    proposal: ev.Proposal
    text: str
    at: int
    sign: int = 1


class QuotaUse(msgspec.Struct, frozen=True, gc=False):
    """Holds what a call of another run counts for, since when, and under which claim on that run it was taken."""

    at: int
    amount: Fraction
    epoch: int = 0


class OwedReturn(msgspec.Struct, frozen=True, gc=False):
    """Names a call, by its arguments, the logs that still count it though it did not run, and those to tell of it."""

    call: str
    of: str
    quotas: tuple[str, ...] = ()
    watched: tuple[ev.Watch, ...] = ()
