"""Know whether a SQL store is the one it was: a restored copy, one that was moved, one that is being filled.

What was noticed is written down before anything else is, and nothing is claimed in a store that is not settled.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.errors import UserError
from .generation import FILLING, ID, MOVED, Origin, next_generation, note_restore, read_meta, set_note, settle_restored
from .statements import SqlDialect
from .store_thread import StoreConnection, StoreThread


class RestorableStore:
    """Implements, for SQL journals, the questions about where the store comes from; two threads ask the database."""

    def __init__(self, dialect: SqlDialect, threads: tuple[StoreThread, StoreThread], origin: Origin) -> None:
        self._dialect, self._origin = dialect, origin
        self._writer, self._reader = threads

    async def restored(self) -> str | None:
        """Return why the store is taken for a restored copy, as long as it is not settled."""
        if self._origin.why is not None:
            await self._reader.ask(self._origin.look)
        return self._origin.why

    @property
    def identity(self) -> str:
        """Return the store's id as it was last seen; it has another after each restore that was settled."""
        return self._origin.store

    async def looked_at(self) -> str | None:
        """Check again whether the store is a restored copy, and return why."""
        await self._reader.ask(self._origin.look)
        return self._origin.why

    def moved(self) -> None:
        """Raise `StoreMoved` where the store was moved elsewhere, or `StorageError` where other keys seal it."""
        self._origin.check_open()

    async def taken_for_restored(self, why: str | None = None) -> str:
        """Note that the store is a restored copy, as was noticed or somebody knows; return the restore's id."""
        given = why if why is not None else self._origin.why

        def note(db: StoreConnection) -> str:
            read_meta(db).check_whole()
            if why is not None:
                next_generation(db, self._origin, why)
            else:
                self._note(db)
            return read_meta(db).notes[ID]

        if given is None:
            raise UserError("this store was not restored: there is nothing to settle")
        nonce = await self._writer.ask(note)
        self._origin.taken(given)
        return nonce

    async def settled(self) -> None:
        """Note that all runs of a restored store were put in doubt where needed: it may be worked on, by new claims."""
        await self._writer.ask(lambda db: settle_restored(db, self._origin, self._dialect.still))
        await self._writer.ask(self._origin.look)

    def _note(self, db: StoreConnection) -> None:
        """Write down what was noticed before anything else is written, since that may hide it."""
        note_restore(db, self._origin, self._dialect.still)

    async def note_filling(self, *, begins: bool) -> None:
        """Note that the store is being filled, or is no more."""
        await self._writer.ask(lambda db: set_note(db, FILLING, "yes" if begins else None))
        await self._writer.ask(self._origin.look)

    async def leave(self, check: Callable[[StoreConnection], None]) -> None:
        """Note that the store was moved, unless `check` raises; between the two no line is written to any run."""

        def leave(db: StoreConnection) -> None:
            if self._dialect.still:
                db.execute(self._dialect.still)
            check(db)
            set_note(db, MOVED, "yes")

        await self._writer.ask(leave)
        await self._writer.ask(self._origin.look)

    def _look(self, db: StoreConnection) -> None:
        """Check whether the store is the one it was, where its connection does not as a transaction begins."""
        if self._origin.always:
            self._origin.look(db)

    def _look_if_changed(self, db: StoreConnection) -> None:
        """Refuse what was claimed in a store that was restored or moved since: others may have done it meanwhile."""
        if self._origin.always and self._origin.has_changed(db):
            self._origin.look(db)
        self._origin.check()

    async def _check_origin(self) -> None:
        if self._origin.why is not None or self._origin.shut is not None or self._origin.missing_key is not None:
            await self.looked_at()
        self._origin.check()
