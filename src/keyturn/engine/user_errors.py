"""Raise what a tool or a hook raised so that `except AgentsException` catches it, and so does `except` of its class.

Programs written for the OpenAI Agents SDK expect the first, everybody else the second. The error raised is therefore
of both classes; it has the words and attributes of the original, which is its `__cause__`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import GetSetDescriptorType, MemberDescriptorType, new_class
from typing import Any, cast

from ..core.errors import KeyturnError, UserError

# A coroutine cannot raise these, and no class can be one of these and of ours.
_ALONE = (StopIteration, StopAsyncIteration)


class RaisedByUser(UserError):
    """The class of every error that a tool or a hook of the user raised; `__cause__` is that error."""

    def __str__(self) -> str:
        return str(self.__cause__) if self.args_are_of_cause else super().__str__()

    #: Whether its words are those of the original; else they are ours, and quote it.
    args_are_of_cause = False

    def __reduce__(self) -> tuple[Any, ...]:  # its class is made when needed: no other process knows it by name
        return as_user_error, (self.__cause__, "")


def as_user_error(error: Exception, source: str) -> KeyturnError:
    """Return an error as one of ours, of its own class as well where Python allows; `source` says what raised it.

    >>> made = as_user_error(ValueError("no such account"), "tool 'pay'")
    >>> isinstance(made, UserError), isinstance(made, ValueError), made
    (True, True, ValueError('no such account'))
    """
    if isinstance(error, KeyturnError):
        return error
    try:
        made = _twin(error)
    except Exception:  # its class allows no other beside it, as pydantic's ValidationError
        made = RaisedByUser(f"{source} raised {type(error).__name__}: {_said(error)}")
    BaseException.__setattr__(made, "__cause__", error)  # its class may refuse attributes
    if source:
        made.__dict__["__notes__"] = [*getattr(error, "__notes__", []), f"raised by {source}"]
    return made


@contextmanager
def raised_by(source: str) -> Generator[None]:
    """Raise what is raised inside as one of ours.

    >>> with raised_by("on_start of the hooks"):
    ...     raise LookupError("gone")
    Traceback (most recent call last):
    ...
    LookupError: gone
    raised by on_start of the hooks
    """
    try:
        yield
    except Exception as error:
        made = as_user_error(error, source)
        if made is error:
            raise
        raise made from error


def original(error: BaseException) -> BaseException:
    """Return what a tool or a hook raised, as it raised it; every other error as it is."""
    return error.__cause__ if isinstance(error, RaisedByUser) and error.__cause__ is not None else error


def _twin(error: Exception) -> RaisedByUser:
    """Make an error of both classes with the same words and attributes, without asking the constructor of either."""
    both = _both(type(error))
    made = cast("RaisedByUser", both.__new__(both, *error.args))
    made.__dict__.update(vars(error))
    members = [pair for base in type(error).__mro__[:-2] for pair in vars(base).items()]
    for name, member in members:  # what is no attribute of a dict, such as the number of an OSError
        if isinstance(member, MemberDescriptorType | GetSetDescriptorType) and not name.startswith("__"):
            with suppress(Exception):
                BaseException.__setattr__(made, name, getattr(error, name))
    return made


@lru_cache(maxsize=256)
def _both(kind: type[Exception]) -> type[Any]:
    if issubclass(kind, _ALONE):
        raise TypeError
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return new_class(kind.__name__, (RaisedByUser, kind), {}, lambda space: space.update(names, args_are_of_cause=True))


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # an error of anybody's may fail to say what it is
        return ""
