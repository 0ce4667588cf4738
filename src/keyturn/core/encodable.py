"""Data that others encode as it is: the hooks by which pydantic and FastAPI read a struct of ours, and its times.

Nothing is imported for them: a schema of pydantic's is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


def moment(at: int) -> datetime:
    """Return milliseconds since 1970 as a datetime in UTC, the last there is for what lies beyond it.

    >>> moment(1_500).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + timedelta(0, 0, 0, at if 0 <= at <= _LAST else min(max(at, 0), _LAST))


def timestamp(at: int) -> str:
    """Return milliseconds since 1970 as a timestamp of RFC 3339 in UTC, as protocols of others write it.

    >>> timestamp(1_789_560_121_250)
    '2026-09-16T12:02:01.250Z'
    """
    return moment(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_milliseconds(at: datetime) -> int:
    """Return a datetime as milliseconds since 1970.

    >>> in_milliseconds(moment(1_500))
    1500
    """
    return (at - _EPOCH) // _MILLISECOND


class Encodable(msgspec.Struct, frozen=True):
    """Makes a struct readable by `dict(...)`, pydantic and FastAPI, for programs that send it on.

    >>> class Point(Encodable, frozen=True):
    ...     x: int
    >>> dict(Point(1))
    {'x': 1}
    """

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield each field with its value as plain JSON data, so that `dict(...)` is all of it."""
        for name in self.__struct_fields__:
            yield name, msgspec.to_builtins(getattr(self, name))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> dict[str, Any]:
        """Tell pydantic to take an object of this class, and to write it as `dict(...)` does."""
        written = {
            "type": "function-plain",
            "function": dict,
            "return_schema": {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": {"type": "any"}},
        }
        return {"type": "is-instance", "cls": cls, "serialization": written}
