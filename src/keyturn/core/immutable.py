"""Say what to do where an immutable object is assigned to: make a changed copy of it.

The classes are frozen by what makes them, `dataclass` or `msgspec`; only the error is made here.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, TypeVar

from .settable import did_you_mean, is_ours

_T = TypeVar("_T")


def immutable(kind: type[_T]) -> type[_T]:
    """Decorate a frozen class, so that an assignment raises with the remedy, or with the near names.

    >>> from dataclasses import dataclass
    >>> @immutable
    ... @dataclass(frozen=True)
    ... class Lamp:
    ...     watts: int = 40
    >>> Lamp().watts = 60
    Traceback (most recent call last):
    ...
    dataclasses.FrozenInstanceError: a Lamp is immutable: use a copy made by dataclasses.replace(..., watts=...)
    """
    loose: Any = kind
    loose.__setattr__ = loose.__delattr__ = _refuse
    return kind


def _refuse(self: object, name: str, value: object = None) -> None:
    kind: type[Any] = self.__class__
    loose: Any = kind
    fields: tuple[str, ...] = tuple(getattr(kind, "__dataclass_fields__", ())) or loose.__struct_fields__
    if name not in fields:
        if not is_ours(kind):  # a user's subclass has what attributes it likes
            return object.__setattr__(self, name, value)
        raise FrozenInstanceError(f"a {kind.__name__} has no attribute {name!r}{did_you_mean(name, fields)}")
    how = "dataclasses.replace" if hasattr(kind, "__dataclass_fields__") else "msgspec.structs.replace"
    copy = f"its clone({name}=...)" if hasattr(kind, "clone") else f"{how}(..., {name}=...)"
    raise FrozenInstanceError(f"a {kind.__name__} is immutable: use a copy made by {copy}")
