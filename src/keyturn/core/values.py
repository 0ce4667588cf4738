"""What kind of value something is: the checks that the rules of `settable.py` and the tables of options are made of.

Python has True and False among its whole numbers; as a number of seconds or of attempts they are mistakes.
"""

from __future__ import annotations

from typing import Any, TypeGuard, cast


def is_flag(value: object) -> TypeGuard[bool]:
    """Return whether a value is True or False.

    >>> is_flag(False), is_flag(0)
    (True, False)
    """
    return isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number.

    >>> is_whole(3), is_whole(True), is_whole(3.0)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number.

    >>> is_number(0.5), is_number(False), is_number("3")
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive(value: object) -> bool:
    """Return whether a value is a number greater than 0.

    >>> is_positive(0.5), is_positive(0)
    (True, False)
    """
    return is_number(value) and value > 0


def is_callback(value: object) -> bool:
    """Return whether a value can be called, or is None.

    >>> is_callback(print), is_callback(None), is_callback("print")
    (True, True, False)
    """
    return value is None or callable(value)


def is_entries(value: object) -> bool:
    """Return whether a value is a list or a tuple, or is None.

    >>> is_entries([]), is_entries(None), is_entries("ab")
    (True, True, False)
    """
    return value is None or isinstance(value, list | tuple)


def as_object(value: object) -> dict[str, Any]:
    """Return an object; an empty one where something else stands in its place."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list; an empty one where something else stands in its place."""
    return cast("list[Any]", value) if isinstance(value, list) else []
