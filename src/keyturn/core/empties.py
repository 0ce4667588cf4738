"""One empty dict and one empty list that all runs share, for the members that most of them never fill."""

from __future__ import annotations

from typing import Any, NoReturn, Self


def _refuse(*_given: object) -> NoReturn:
    raise TypeError("this one is shared and stays empty: take your own to put something in")


class _EmptyDict(dict[Any, Any]):
    """Refuses whatever would put something in."""

    __slots__ = ()
    __setitem__ = __ior__ = setdefault = update = _refuse  # type: ignore[assignment]  # nothing is ever in it

    def copy(self) -> Self:
        return self


class _EmptyList(list[Any]):
    """Refuses whatever would put something in."""

    __slots__ = ()
    __iadd__ = append = extend = insert = _refuse

    def copy(self) -> Self:
        return self


#: The empty dict that all share.
NONE: dict[Any, Any] = _EmptyDict()
#: The empty list that all share.
NOTHING_YET: list[Any] = _EmptyList()


def owned(holder: Any, name: str) -> Any:
    """Return a member to put something in: from now on it is the holder's own.

    >>> from keyturn.core.run import new_run
    >>> run = new_run()
    >>> owned(run, "named")["once"] = "digest"
    >>> run.named, new_run().named
    ({'once': 'digest'}, {})
    """
    held: Any = getattr(holder, name)
    if held is NONE or held is NOTHING_YET:
        held = dict[str, Any]() if held is NONE else list[Any]()
        setattr(holder, name, held)
    return held
