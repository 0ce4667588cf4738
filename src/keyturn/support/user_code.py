"""The one seam through which user code is called: whatever it raises is an error of that call, and ends nothing else.

Callbacks run in the process that moves everybody's runs. `SystemExit`, `KeyboardInterrupt`, `GeneratorExit`, a
`CancelledError` that nobody asked for, any other `BaseException`, a group that holds one of them, and the
`StopIteration` that no coroutine can raise are turned into `RaisedByUser`, an `Exception`, so that each caller's
`except Exception` gives the outcome that the manual promises. Ordinary exceptions pass as they are, but for one that
cannot be read: where its words, its attributes or its class raise such a thing in their turn, only its class is kept.

Three things are not the callback's, and pass: the cancellation of the task, the end of a coroutine that is closed, and
what a signal raised. A Ctrl-C that reaches a callback in the main thread therefore ends the program still. It is told
from `raise KeyboardInterrupt` by where it was raised: the former not at a `raise`, or within the signal's handler.

`raised_by(source)` also gives an ordinary exception a class of ours beside its own. Programs written for the OpenAI
Agents SDK expect `except AgentsException` to catch what a tool or a hook raised, everybody else `except` of its class.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from inspect import isawaitable
from opcode import opmap
from traceback import TracebackException
from types import CodeType, CoroutineType, GetSetDescriptorType, MemberDescriptorType, TracebackType, new_class
from typing import Any, cast

from ..core.errors import KeyturnError, UserError

# A coroutine cannot raise these, and no class can be one of these and of ours.
_ALONE = (StopIteration, StopAsyncIteration)
_RAISE = opmap["RAISE_VARARGS"]
_kind: Callable[[object], object] = type


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
        made = _contained(error, source or "a callback")
    BaseException.__setattr__(made, "__cause__", error)  # its class may refuse attributes
    if source:
        made.__dict__["__notes__"] = [*getattr(error, "__notes__", []), f"raised by {source}"]
    return made


class Contained:
    """Calls user code: what is raised inside and is no ordinary exception becomes `RaisedByUser`.

    >>> with contained:
    ...     raise SystemExit(2)
    Traceback (most recent call last):
    ...
    keyturn.support.user_code.RaisedByUser: a callback raised SystemExit: 2
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if error is not None:
            contain(error)


def contain(error: BaseException) -> None:
    """Raise what user code raised as `RaisedByUser`, unless it passes as it is: then whoever caught it raises it on.

    For where each step of a run comes by: a `with` costs two calls where nothing is raised.
    """
    ordinary = isinstance(error, Exception) and not isinstance(error, _ALONE)
    if ordinary and _readable(error):
        return
    _check_own(error)
    raise _contained(error, "a callback") from _kept(error)


#: The seam, for a callback whose answer is awaited, iterated or entered in more than one step.
contained = Contained()


class raised_by(Contained):  # noqa: N801  # it reads as the function that it was
    """Calls user code, and raises every exception of it as one of ours that names the source.

    >>> try:
    ...     with raised_by("on_start of the hooks"):
    ...         raise LookupError("gone")
    ... except LookupError as error:
    ...     print(error, error.__notes__)
    gone ['raised by on_start of the hooks']
    """

    __slots__ = ("_source",)

    def __init__(self, source: str) -> None:
        self._source = source

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if error is None:
            return
        if isinstance(error, Exception) and _readable(error):
            made = as_user_error(error, self._source)
            if made is not error:
                raise made from error
            return
        _check_own(error)
        raise _contained(error, self._source) from _kept(error)


def run_callback(function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Call a plain callback of the user, and return what it returns.

    >>> run_callback(max, 1, 2)
    2
    """
    with contained:
        return function(*args, **given)


async def answer_of(function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Call a callback of the user, plain or async, and return its answer.

    >>> import asyncio
    >>> asyncio.run(answer_of(max, 1, 2))
    2
    """
    try:
        answer: Any = function(*args, **given)
        return await answer if _kind(answer) is CoroutineType or isawaitable(answer) else answer
    except BaseException as error:
        contain(error)
        raise


async def awaited(answer: object) -> Any:
    """Return the answer of a callback that was called already, awaiting it where that is needed."""
    with contained:
        return await answer if isawaitable(answer) else answer


def being_cancelled() -> bool:
    """Return whether somebody cancels this task, as against code that raised `CancelledError` by itself."""
    import asyncio  # here, because declaring an agent needs no event loop and loading it is slow

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


def words_of(error: BaseException) -> str:
    """Return what an error says; "" where it fails to, however it fails.

    >>> words_of(ValueError("no such account"))
    'no such account'
    """
    try:
        return run_callback(str, error)
    except Exception:  # an error of anybody's may fail to say what it is
        return ""


def class_name(error: BaseException) -> str:
    """Return the name of the class of what user code raised.

    >>> class_name(KeyError("x"))
    'KeyError'
    """
    return type(original(error)).__name__


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
    if issubclass(kind, _ALONE) or not issubclass(kind, Exception):
        raise TypeError
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return new_class(kind.__name__, (RaisedByUser, kind), {}, lambda space: space.update(names, args_are_of_cause=True))


def _contained(error: BaseException, source: str) -> RaisedByUser:
    words = words_of(error)
    name = type(error).__name__
    return RaisedByUser(f"{source} raised {name}: {words}" if words else f"{source} raised {name}")


def _check_own(error: BaseException) -> None:
    """Raise, as it is, what is not the callback's own doing: of a group, that part of it."""
    for each in _leaves(error):
        if _passes(each):
            if each is error:
                raise error
            raise each from error


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in cast("BaseExceptionGroup[BaseException]", error).exceptions for leaf in _leaves(each)]


def _passes(error: BaseException) -> bool:
    import asyncio  # as above

    if isinstance(error, asyncio.CancelledError):
        return being_cancelled()
    if isinstance(error, GeneratorExit):
        return error.__traceback__ is not None and not _at_a_raise(error)
    return isinstance(error, KeyboardInterrupt | SystemExit) and _of_a_signal(error)


def _of_a_signal(error: BaseException) -> bool:
    """Return whether the handler of a signal raised an error, wherever in the main thread that interrupted code."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt) and error.__traceback__ is not None and not _at_a_raise(error):
        return True  # of `signal.default_int_handler`, which has no frame of its own
    codes = _handlers()
    return any(trace.tb_frame.f_code in codes for trace in _frames(error))


def _handlers() -> set[CodeType]:
    found: set[CodeType] = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, partial):
            handler = cast("partial[Any]", handler).func
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if isinstance(code, CodeType):
            found.add(code)
    return found


def _at_a_raise(error: BaseException) -> bool:
    """Return whether an error began at a `raise` in Python, and not at whatever a signal or a `close` interrupted."""
    last = _frames(error)[-1]
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _frames(error: BaseException) -> list[TracebackType]:
    found: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _kept(error: BaseException) -> BaseException | None:
    """Return what an error is raised from: it, unless nobody can read it."""
    return error if _readable(error) else None


def _readable(error: BaseException) -> bool:
    """Return whether an error, and what it was raised from, can be written down without ending who writes it."""
    try:
        str(error)
        _twin(error) if isinstance(error, Exception) else None
        TracebackException(type(error), error, error.__traceback__, limit=0)
    except Exception:  # whoever reads it copes with that
        return True
    except BaseException as other:
        _check_own(other)
        return False
    return True
