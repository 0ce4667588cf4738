"""The priorities of runs: in which order those of a tenant that are due are claimed.

What is claimed first is no promise of what may run, so that a store keeps a priority beside the row that it seals.
"""

from __future__ import annotations

from typing import Any, Literal

from .errors import UserError

#: Before others where a user waits at a screen, as any other run, or once no other is due.
Priority = Literal["interactive", "normal", "batch"]
#: The same in their order; stores and engines keep the place here.
PRIORITIES: tuple[Priority, ...] = ("interactive", "normal", "batch")
NORMAL = PRIORITIES.index("normal")


def place_of(priority: Any) -> int:
    """Return the place of a priority; of one that is not known here, the normal one.

    >>> place_of("interactive"), place_of("someday")
    (0, 1)
    """
    return PRIORITIES.index(priority) if priority in PRIORITIES else NORMAL


def check_priority(priority: Any) -> Priority:
    """Refuse what is no priority."""
    if priority not in PRIORITIES:
        raise UserError(f"the priority of a run is one of {', '.join(PRIORITIES)}, not {priority!r}")
    return priority
