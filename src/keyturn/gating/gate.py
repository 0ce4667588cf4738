"""The decorator: a gate is where its functions ask, and `gated` is the one that the environment names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from ..core.approval import Approval
from .context import GatedRun, entered
from .door import Door
from .gated_function import GatedFunction, Options

P = ParamSpec("P")
R = TypeVar("R")


class Gated:
    """Makes functions wait for approval: at a server, by its URL, or in a journal that is kept in this process.

    Without an argument the environment says where: KEYTURN_SERVER with KEYTURN_TOKEN, or KEYTURN_JOURNAL. `policy` is
    that of a journal; a server has its own.

    >>> gate = Gated("memory://")
    >>> @gate
    ... def delete_backup(name: str) -> None:
    ...     "Delete a backup."
    >>> delete_backup.name
    'delete_backup'
    """

    def __init__(self, place: str | None = None, *, token: str | None = None, policy: Any = None) -> None:
        self._door = Door(place, token, policy)

    @overload
    def __call__(self, function: Callable[P, R], /) -> GatedFunction[P, R]: ...

    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        approval: Approval | None = None,
        expires: str | float | None = None,
        execute_by: str | float | None = None,
        risk: str | None = None,
        key: Callable[[dict[str, Any]], object] | None = None,
        editable: bool = True,
    ) -> Callable[[Callable[P, R]], GatedFunction[P, R]]: ...

    def __call__(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        approval: Approval | None = None,
        expires: str | float | None = None,
        execute_by: str | float | None = None,
        risk: str | None = None,
        key: Callable[[dict[str, Any]], object] | None = None,
        editable: bool = True,
    ) -> Any:
        """Make a function one that runs once its call is approved.

        `approval` states the terms, `expires` how long a decision is possible, in each step of a chain, and
        `execute_by` how long an approval is valid. `key` returns what names a call, such as an order number: the same
        key is the same request, and runs once. `editable` says whether approvers may change the arguments.
        """
        timed = expires is not None or execute_by is not None
        terms = _timed(approval or Approval(), expires, execute_by) if timed else approval
        options = Options(name, terms, risk, key, editable)

        def decorate(function: Callable[P, R]) -> GatedFunction[P, R]:
            return GatedFunction(function, self._door, options)

        return decorate if function is None else decorate(function)

    def context(
        self, *, run: str | None = None, requester: str | None = None, wait: float | bool = True
    ) -> AbstractContextManager[GatedRun]:
        """Make the calls within a block those of a run, for a requester; see `CallWaiting` for `wait`."""
        return entered(run, requester, wait)

    def close(self) -> None:
        """Close the connection, or the journal; the next call opens it anew."""
        self._door.close()


def _timed(terms: Approval, expires: str | float | None, execute_by: str | float | None) -> Approval:
    """Return terms with other times: each step of a chain has a deadline, and its last one says what is executed by."""
    steps = [step if expires is None else replace(step, expires=expires) for step in terms.in_turn]
    steps[-1] = steps[-1] if execute_by is None else replace(steps[-1], execute_by=execute_by)
    return steps[0] if len(steps) == 1 else Approval(steps=tuple(steps))


#: The gate that the environment names.
gated = Gated()
