"""A run by its id, whoever moves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from ..engine.result import RunResult
from ..engine.views.event_stream import StreamEvent
from ..journal.rows import RunRow


class Runs(Protocol):
    """Finds runs by their ids: an app."""

    async def get(self, run_id: str, /) -> RunRow:
        """Return the run's row."""
        ...

    async def wait(self, run_id: str, timeout: float | None = None, /) -> RunRow:
        """Wait until the run is over or requires a decision."""
        ...

    async def result(self, run_id: str, timeout: float | None = None, /) -> RunResult:
        """Return the result of the run."""
        ...

    def stream(self, run_id: str, /) -> AsyncIterator[StreamEvent]:
        """Stream what happens in the run."""
        ...


class RunHandle:
    """Refers to a run by its id; `App.start` returns one.

    It holds nothing but the id and the app.

    >>> from keyturn import Agent, App
    >>> App([Agent(name="ops")], "memory://").run("5e1f")
    RunHandle('5e1f')
    """

    __slots__ = ("__weakref__", "_app", "id")

    def __init__(self, app: Runs, id: str) -> None:
        self._app = app
        self.id = id

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def get(self) -> RunRow:
        """Return the run's row."""
        return await self._app.get(self.id)

    async def wait(self, timeout: float | None = None) -> RunRow:
        """Wait until the run is over or requires a decision, and return its row."""
        return await self._app.wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> RunResult:
        """Wait until the run is over or requires a decision, and return its result."""
        return await self._app.result(self.id, timeout)

    def stream(self) -> AsyncIterator[StreamEvent]:
        """Stream what happens in the run, from its beginning to its end."""
        return self._app.stream(self.id)
