"""Attributes of a part, as attributes of the whole: read where they are now, without a Python function in between.

What is read at each step of a run (`drive.run`, `live.run`) is read some hundred times a cycle.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any


def forwarded(path: str) -> Any:
    """Return a property that reads an attribute of a part.

    >>> class Whole:
    ...     real: float = forwarded("number.real")
    ...     def __init__(self, number: complex) -> None:
    ...         self.number = number
    >>> Whole(2 + 3j).real
    2.0
    """
    return property(attrgetter(path))
