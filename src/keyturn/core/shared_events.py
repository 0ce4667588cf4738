"""The events by which one run has to do with others: what it lends, borrows, counts for all of them, or is a copy of.

`events.py` names them among the events of a run.
"""

from __future__ import annotations

import msgspec

from .people import Decider
from .records import GrantTerms


class SharedEvent(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="e", gc=False):
    """The base of these events, alike to that of all others."""


class RunQueued(SharedEvent, frozen=True):
    """The run waits for its turn on its session: `agent` begins, with `max_turns`, once the runs before it are over."""

    agent: str
    max_turns: int | None = None


class GrantLent(SharedEvent, frozen=True):
    """A call of another run used a standing decision of this one."""

    grant: str
    run: str
    call: str


class GrantBorrowed(SharedEvent, frozen=True):
    """A standing decision of another run, its `home`, was taken over for one call of this one."""

    grant: GrantTerms
    home: str


class GrantRevoked(SharedEvent, frozen=True):
    """A standing decision was revoked."""

    grant: str
    decider: Decider | None = None


class QuotaTaken(SharedEvent, frozen=True):
    """A call of another run took part of what this log counts; `of` is the digest of its arguments.

    `amount` is an exact number as a text. `most` is what the sum was held to, None where the call was let run whatever
    the sum: somebody approved it over the limit. `beside` is what the log before this one still counted then. `epoch`
    is that of the claim under which it was taken: a later holder of the run takes it over.
    """

    run: str
    call: str
    of: str
    amount: str
    most: str | None = None
    beside: str = "0"
    epoch: int = 0


class QuotaReturned(SharedEvent, frozen=True):
    """A call did not run, and what it took counts no more: in the log that counts, and in the log of its own run.

    What was taken under a later claim than that of `epoch` is not returned.
    """

    run: str
    call: str
    of: str
    epoch: int = 0


class QuotaClosed(SharedEvent, frozen=True):
    """The log counts no new calls: its time is over, and they are counted in the next one."""


class RunRestored(SharedEvent, frozen=True):
    """The run's store was restored from a copy: nothing that may have run goes on without a decision."""

    why: str
    nonce: str = ""


class RunForked(SharedEvent, frozen=True):
    """The run `run` begins here as a fork: the `at` lines before this one are copied from the run `origin`.

    What is decided from here on is bound to `run`. Nothing that was open in `origin` is open here in the same asking.
    """

    run: str
    origin: str
    at: int
