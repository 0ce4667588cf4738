"""The lines of a record of reads: who read which arguments, when and how."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..core.people import Decider

#: How the names of these logs begin; the month follows.
READS = "@reads-"
How = Literal["request", "list", "log", "search", "export", "secrets"]


class Read(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Records that somebody read arguments: when, who (None for the program itself), how, and of what.

    `how` is a "request" that was opened, a "list" of them, a run's "log", a "search", an "export", or one with
    "secrets". `requests` are their ids, and `what` is the run, or what was searched for.

    >>> Read(5, None, "request", ("5e1f",)).requests
    ('5e1f',)
    """

    at: int
    by: Decider | None
    how: How
    requests: tuple[str, ...] = ()
    what: str = ""


_decoder = msgspec.json.Decoder(Read)


def read_of(body: bytes) -> Read:
    """Read the body of a line, or raise `ValueError`.

    >>> read_of(msgspec.json.encode(Read(5, None, "list"))).how
    'list'
    """
    return _decoder.decode(body)
