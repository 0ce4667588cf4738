"""The engine of an app, or of the apps of several tenants: what carries wakes to other processes, and how it is."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from ..core.errors import UserError
from ..core.settable import Constructed, own_of
from ..engine.engine_line import EngineLine
from ..fleet import Engine, asked_engine, engine_named


class OnEngine(Constructed):
    """Has an engine, by a line that is opened when it is first needed."""

    journal: Any
    _line: EngineLine
    _of_tenants: ClassVar[bool] = False

    @property
    def engine(self) -> Any:
        """Return what carries wakes to other processes; None where workers ask the journal."""
        return self._line.engine

    @engine.setter
    def engine(self, given: Engine | str | None) -> None:
        if given is None or isinstance(given, str):
            name, url = asked_engine(given)
            given = engine_named(name, getattr(self.journal, "url", ""), url)
        elif not isinstance(cast("object", given), Engine):
            raise UserError(
                f'the engine of {self._described()} is the name of one, such as "dbos", or an Engine, not {given!r}'
            )
        line = own_of(self).setdefault("_line", EngineLine(self.journal, of_tenants=self._of_tenants))
        line.engine = given

    @property
    def engine_deaf(self) -> int:
        """Return how many runs this process moved itself, since its engine did not hand them over in time."""
        return self._line.deaf

    @property
    def engine_error(self) -> Exception | None:
        """Return why its engine cannot be used now; runs are moved later meanwhile, and decisions go on."""
        return self._line.error

    async def engine_backlog(self) -> int:
        """Return how many wakes its engine holds; 0 where there is none, or it does not say."""
        return await self._line.backlog()
