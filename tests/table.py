"""A table of cases that one test goes through: for cases so small that a test of its own would cost more than they do.

No test is here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., Any]
Names = Iterable[str] | Callable[[Any], Any]


def each(names: str | tuple[str, ...], cases: Iterable[Any], ids: Names | None = None) -> Callable[[Test], Test]:
    """Call a test once for each case, as `pytest.mark.parametrize` would; every case is tried, a failure names its own.

    What else the test takes are fixtures, and all cases share them: a case leaves a fixture as it found it.

    >>> @each("number, square", [(2, 4), (3, 8), (4, 16)])
    ... def test_squares(number, square):
    ...     assert number * number == square
    >>> try:
    ...     test_squares()
    ... except AssertionError as error:
    ...     error.__notes__
    ['in the case number=3, square=8']
    """
    wanted = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    rows = [tuple(case) if len(wanted) > 1 else (case,) for case in cases]
    assert rows, "a table without a case tests nothing"
    names_of_rows = None if ids is None or callable(ids) else list(ids)
    told = [
        names_of_rows[place] if names_of_rows else _named(dict(zip(wanted, row, strict=True)), ids)
        for place, row in enumerate(rows)
    ]

    def made(test: Test) -> Test:
        @wraps(test)
        def goes_through(*own: Any, **fixtures: Any) -> None:
            failed: list[BaseException] = []
            for row, case in zip(rows, told, strict=True):
                with _noted(case, failed):
                    test(*own, **dict(zip(wanted, row, strict=True)), **fixtures)
            _say(failed)

        @wraps(test)
        async def awaits(*own: Any, **fixtures: Any) -> None:
            failed: list[BaseException] = []
            for row, case in zip(rows, told, strict=True):
                with _noted(case, failed):
                    await test(*own, **dict(zip(wanted, row, strict=True)), **fixtures)
            _say(failed)

        signature = inspect.signature(test)
        rest = [given for name, given in signature.parameters.items() if name not in wanted]
        loop: Any = awaits if inspect.iscoroutinefunction(test) else goes_through
        loop.__signature__ = signature.replace(parameters=rest)
        return loop

    return made


@contextmanager
def _noted(case: str, failed: list[BaseException]) -> Generator[None]:
    try:
        yield
    except pytest.skip.Exception as skipped:  # it would skip those after it as well, unseen
        raise AssertionError(f"a case of a table cannot be skipped: {case}") from skipped
    except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:
        error.add_note(f"in the case {case}")
        failed.append(error)


def _say(failed: list[BaseException]) -> None:
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise BaseExceptionGroup("several cases", failed)


def _named(case: dict[str, Any], name_of: Names | None) -> str:
    said = {name: name_of(value) if callable(name_of) else None for name, value in case.items()}
    return ", ".join(f"{name}={said[name] or repr(value)}" for name, value in case.items())
