"""A verb: what a command that decides does with a request, as data."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, LiteralString, NamedTuple

from ...inbox.personal import Verdict

Words = dict[str, Any]
#: The exit code where somebody said no.
NOT_DONE = 3
#: How much of a digest somebody must give.
SHORTEST_DIGEST = 12


class Verb(NamedTuple):
    """Describes a command that decides: its verdict, its options, and the details that it makes of them.

    `done` is the word for a decision that settled the request.
    """

    name: LiteralString
    done: str
    describe: Callable[[argparse.ArgumentParser], None]
    words: Callable[[argparse.Namespace], Words]
    verdict: Callable[[argparse.Namespace], Verdict]
    signs: bool = True
