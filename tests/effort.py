"""How much is tried where chance decides what: some in `make test`, all of it in `make sweep` and `make trials`.

No test is here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

#: How many cases a test marked `sweep` tries: few in `make test`, COUNT in `make sweep COUNT=...`.
SWEEP = int(os.environ.get("KEYTURN_SWEEP", "3"))
AT_LENGTH = "KEYTURN_SWEEP" in os.environ


def some(all_of_it: int) -> int:
    """Return how many of so many examples are tried here: a twentieth of them in `make test`."""
    return all_of_it if AT_LENGTH else max(all_of_it // 20, 3)


def part(cases: Iterable[Case], of: int = 3) -> list[Case]:
    """Return the cases that are tried here: each third of them in `make test`, or one of so many as is said."""
    return list(cases)[:: 1 if AT_LENGTH else of]
