"""The events of what people say beside their decisions: marks on a request, and an approval taken back.

They decide nothing by themselves. What follows from one of them, such as a call that asks anew, is an event of its own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .people import Decider

Mark = Literal["claim", "snooze"]


class BesideEvent(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="e", gc=False):
    """The base of these events."""


class CallMarked(BesideEvent, frozen=True):
    """Somebody marked a request for others or for themselves; a mark restricts nobody.

    "claim" says that they are on it, "snooze" that they do not want to see it, each until a time; without one the mark
    is taken off.
    """

    call: str
    mark: Mark
    decider: Decider
    until: int | None = None


class ApprovalWithdrawn(BesideEvent, frozen=True):
    """Somebody took back what let a call run that had not started; it asks anew, or is in doubt, in the same step."""

    call: str
    decider: Decider
    note: str | None = None
