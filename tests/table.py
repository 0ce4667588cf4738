"""A table of cases that one test goes through: for cases so small that a test of its own would cost more than they do.

No test is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Call a test once for each case, as `pytest.mark.parametrize` would; a failure names its case.

    >>> @each(("number", "square"), [(2, 4), (3, 8)])
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

    def made(test: Callable[..., None]) -> Callable[[], None]:
        def test_each() -> None:
            for row in rows:
                case = dict(zip(wanted, row, strict=True))
                try:
                    test(**case)
                except BaseException as error:
                    error.add_note("in the case " + ", ".join(f"{name}={value!r}" for name, value in case.items()))
                    raise

        test_each.__name__ = test.__name__
        test_each.__qualname__ = test.__qualname__
        test_each.__module__ = test.__module__
        test_each.__doc__ = test.__doc__
        return test_each

    return made
