"""Detect whether a store was restored from a copy: a backup, a promoted standby.

What ran after the copy was made is not in the copy, and would run again. So a store has an id and a generation, sealed
like its rows, and how far it had come is known outside of it (`marks.py`); PostgreSQL has its server's identity and
timeline beside. A store that is behind, or whose notes on itself do not verify, is not worked on until every call that
may have run was put in doubt. Once that was noticed, a process forgets it only on a sealed settlement.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import StorageError, StoreMoved, StoreRestored
from ..support.keys import ring
from . import statements as say
from .marks import HighWaterMark, is_template, known, mark_of, noticed, replace_marks
from .pages import rows_of
from .store_thread import StoreConnection

ID = "id"
GENERATION = "generation"
RESTORED = "restored"
PLACE = "place"
MOVED = "moved"
FILLING = "filling"
SEAL, COUNT = "seal", "count"
_PURPOSE, _COUNTING = "store", "count of a store"
_ALTERED = (
    "cannot be told from a copy: what it notes of itself was altered, or is sealed with a key that this process does "
    "not have"
)
_SEALED_ELSEWHERE = (
    "this store is sealed with key {}, which this process does not have: nothing is written to it and nothing is "
    "started from it; set the KEYTURN_SECRET of the other processes, or put the secret of that key into "
    "KEYTURN_SECRETS_OLD (`keyturn keys list` names the keys that this process has)"
)
# How a seal looks: another key's is one that was made elsewhere, and anything else was altered.
_SEALED = re.compile(r"([\w-]{6})\.[\w-]{32}", re.ASCII)
_HOW = (
    "what it shows as approved may have run already, so nothing is started from it; `keyturn restored URL` marks "
    "every such call as in doubt, and so does a worker at its start"
)


@dataclass(frozen=True)
class Meta:
    """Holds a store's notes on itself; `sound` says that their seals verify, `key` is the id of the key of the seal."""

    notes: dict[str, str]
    sound: bool
    key: str = ""

    @property
    def missing_key(self) -> str | None:
        """Return the id of the key that seals the notes, where this process does not have it."""
        return self.key if self.key and self.key not in ring() else None

    @property
    def generation(self) -> int:
        """Return how often the store was begun anew."""
        known = self.notes.get(GENERATION, "")
        return int(known) if known.isascii() and known.isdecimal() and len(known) < 18 else 0

    def check_whole(self) -> None:
        """Refuse a copy that was not finished: what is missing in it would look as if it had never been."""
        if self.sound and FILLING in self.notes:
            raise StoreMoved(f"this store {_shut(self)}")


@dataclass
class Origin:
    """Tracks where a store comes from; all views of the store in this process share it.

    `why` says why the store is taken for a restored one, as long as it is not settled, and `noted` whether that stands
    in it already; `shut` that it was moved, or is a copy that was not finished. `at` is the place that its marks are
    of, a file or a database. `always` says that it is looked at before each claim.
    """

    at: str = ""
    always: bool = False
    why: str | None = None
    noted: bool = True
    shut: str | None = None
    missing_key: str | None = None
    key: str = ""
    mark: HighWaterMark | None = None
    generation: int = 0
    store: str = ""
    _resealed: str = ""
    _settled: tuple[str, int] = ("", 0)
    _read: list[Any] = field(default_factory=list[Any])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def unnoted(self) -> bool:
        """Return whether the store is taken for a restored one, and that does not stand in it yet."""
        return self.why is not None and not self.noted

    def check_open(self) -> None:
        """Refuse any write to a store that is not in use, or whose key is missing."""
        if self.missing_key is not None:
            raise StorageError(_SEALED_ELSEWHERE.format(self.missing_key))
        if self.shut is not None:
            raise StoreMoved(f"this store {self.shut}")

    def check_store(self, store: str) -> None:
        """Refuse what was named by the id that the store had before it was restored and settled."""
        if store != self.store:
            raise StoreRestored("this store was restored, and settled since this process looked at it: try again")

    def check(self) -> None:
        """Refuse any start in a store that was restored and is not settled, or is not in use."""
        self.check_open()
        if self.why is not None:
            raise StoreRestored(f"this store {self.why}: {_HOW}")

    def look(self, db: StoreConnection) -> None:
        """Check where the store comes from, as it is now; nothing is written."""
        with self._lock:
            self._look(db)

    def _look(self, db: StoreConnection) -> None:
        self._read = rows_of(db, say.META, 100)
        meta = _meta(self._read)
        if self._sealed_elsewhere(meta):
            return
        settled = meta.sound and RESTORED not in meta.notes and meta.generation > self.generation
        if self.why is not None and not settled:  # whatever else it says by now
            return
        self._settled = (meta.notes.get(ID, ""), meta.generation)
        seen = self._seen(meta)  # before the store is asked, so that what others commit meanwhile is no doubt
        row = db.reached() if meta.sound else None
        self.shut = _shut(meta)
        self.why = meta.notes.get(RESTORED) if meta.sound else _ALTERED
        self.noted = meta.sound
        self.generation = max(self.generation, meta.generation)
        if meta.sound:
            doubt = _ALTERED if row is None else _elsewhere(meta, db) or noticed(row, *seen)
            self.noted = doubt is None
            self.why = doubt or self.why
        self._follow(meta, row)

    def glance(self, notes: Iterable[tuple[Any, Any]], db: StoreConnection) -> None:
        """Read the store's notes again: another process may have moved it, or settled it as a restored one."""
        meta = _meta(notes)
        with self._lock:
            if meta.sound and self.why is None and (meta.notes[ID], meta.generation) != self._settled:
                self._look(db)
            elif not self._sealed_elsewhere(meta) and self.why is None:
                self.shut = _shut(meta)
                self.why = meta.notes.get(RESTORED) if meta.sound else _ALTERED
                self.noted = meta.sound

    def has_changed(self, db: StoreConnection) -> bool:
        """Return whether the store says other things of itself than it did, or has come less far than it had."""
        if rows_of(db, say.META, 100) != self._read:
            return True
        if self.mark is None:
            return False
        row = db.reached()
        return row is None or row < self.mark.now()

    def reseal(self, db: StoreConnection) -> None:
        """Seal the store's notes with the newest key, once after each change of keys."""
        newest = ring().ids[0]
        if self.key in ("", newest) or self._resealed == newest:
            return
        self._resealed = newest  # while keys are changed one process after the other, they do not do this in turns
        meta = read_meta(db)
        if meta.sound:
            write_meta(db, meta.notes)
            self.key = newest

    def _sealed_elsewhere(self, meta: Meta) -> bool:
        self.key, self.missing_key = meta.key, meta.missing_key
        return self.missing_key is not None

    def taken(self, why: str) -> None:
        """Treat the store as a restored one; its notes say so now."""
        self.missing_key = None
        self.why = why
        self.noted = True
        self.shut = None
        self.mark = None

    def noted_in(self, meta: Meta) -> bool:
        """Return whether the store's notes say that it was restored, since this process noticed it."""
        return meta.sound and RESTORED in meta.notes and meta.generation > self.generation

    def _seen(self, meta: Meta) -> tuple[int, bool]:
        store = meta.notes.get(ID, "")
        if self.mark is not None and store == self.store:
            return self.mark.now(), False
        return known(store, self.at)

    def _follow(self, meta: Meta, row: int | None) -> None:
        """Raise the mark of the store, as long as nothing speaks against it."""
        if self.why is not None or row is None:
            self.mark = None
            return
        before, self.store = self.store, meta.notes[ID]
        store = self.store
        if not self.at:
            self.mark = None
        elif self.mark is None or before != store:
            self.mark = mark_of(store, self.at)
            if self.mark is not None:
                self.mark.reached(row)


def _elsewhere(meta: Meta, db: StoreConnection) -> str | None:
    """Return why a store is on another server than it was, where it has a place."""
    known, place = meta.notes.get(PLACE), db.place()
    if None in (known, place) or known == place:
        return None
    return "was restored or promoted: it is on another server, timeline or database than it was"


def _shut(meta: Meta) -> str | None:
    if not meta.sound:
        return None
    if FILLING in meta.notes:
        return "is a copy that was not finished (keyturn copy was interrupted): delete it and copy once more"
    if MOVED in meta.notes:
        return (
            "was moved to another database by `keyturn copy`, and its runs go on there; if that copy is not used, "
            "`keyturn restored URL --anyway` takes this one up again, with every call in doubt"
        )
    return None


# What is written ----------------------------------------------------------------------------------------------------


def read_meta(db: StoreConnection) -> Meta:
    """Read a store's notes on itself."""
    return _meta(rows_of(db, say.META, 100))


def _meta(found: Iterable[tuple[Any, Any]]) -> Meta:
    notes = {name: value for name, value in found if isinstance(name, str) and isinstance(value, str)}
    seal = notes.pop(SEAL, "")
    sealed = _SEALED.fullmatch(seal)
    return Meta(
        notes, ID in notes and ring().fits(_PURPOSE, seal, _covered(notes)), "" if sealed is None else sealed[1]
    )


def _covered(notes: dict[str, str]) -> bytes:
    return json.dumps(sorted(notes.items())).encode()


def write_meta(db: StoreConnection, notes: dict[str, str]) -> None:
    """Write and seal a store's notes on itself, all of them."""
    for name in (ID, GENERATION, RESTORED, PLACE, MOVED, FILLING):
        if name not in notes:
            db.execute(say.DROP_META, name)
    for name, value in (notes | {SEAL: ring().mac(_PURPOSE, _covered(notes))}).items():
        db.execute(say.SET_META, name, value)


def begin(db: StoreConnection) -> None:
    """Give a new store its id and its first generation."""
    _begin(db, 1, 0, {})


def _begin(db: StoreConnection, generation: int, row: int, more: dict[str, str]) -> str:
    place, store = db.place(), secrets.token_hex(16)
    notes = {ID: store, GENERATION: str(generation)} | ({} if place is None else {PLACE: place})
    write_meta(db, notes | more)
    db.execute(say.SET_META, COUNT, counted(store, row))
    return store


def next_generation(db: StoreConnection, origin: Origin, why: str | None = None) -> None:
    """Give a store a new id, so that it has nothing more to do with what it was copied from.

    With `why` it is not settled yet, and its id is what is new in all that is asked about again. Whatever had the old
    id is a copy from now on, if it is brought back to this place.
    """
    meta = read_meta(db)
    row = db.reached() or 1
    generation = max(meta.generation, origin.generation) + 1
    _begin(db, generation, row, {} if why is None else {RESTORED: why})
    replace_marks(origin.at)


def note_restore(db: StoreConnection, origin: Origin, still: str) -> None:
    """Note what was noticed of a store, under its newest key, unless it was settled since: then it is no copy."""
    if origin.unnoted:
        if still:
            db.execute(still)
        origin.look(db)
    if origin.unnoted and not origin.noted_in(read_meta(db)):
        next_generation(db, origin, origin.why)
    origin.reseal(db)


def settle_restored(db: StoreConnection, origin: Origin, still: str) -> None:
    """End a restore, and all claims of before it: their holders know other logs than the store has.

    Where another process has ended it, the claims are those of the store as it is now.
    """
    if still:
        db.execute(still)
    if RESTORED in read_meta(db).notes:
        next_generation(db, origin)
        db.execute(say.END_CLAIMS, db.now())


def set_note(db: StoreConnection, name: str, value: str | None) -> None:
    """Note that a store was moved, or is being filled, or that it is no longer so."""
    meta = read_meta(db)
    if not meta.sound:
        raise StoreRestored(f"this store {_ALTERED}: {_HOW}")
    notes = {key: text for key, text in meta.notes.items() if key != name}
    write_meta(db, notes if value is None else notes | {name: value})


def settle_template(db: StoreConnection, origin: Origin) -> None:
    """Make a copy of an empty store a store of its own."""
    if is_unsettled_template(db, origin):
        _begin(db, read_meta(db).generation + 1, 0, {})


def is_unsettled_template(db: StoreConnection, origin: Origin) -> bool:
    """Return whether a store is a copy of an empty one, and not yet a store of its own."""
    meta = read_meta(db)
    if not meta.sound or _shut(meta) is not None:
        return False
    elsewhere = _elsewhere(meta, db) is not None and not any(db.execute(each) for each in say.ANY)
    return elsewhere or is_template(meta.notes[ID], origin.at, db.reached() or 0)


# How far a file has come --------------------------------------------------------------------------------------------


def counted(store: str, row: int) -> str:
    """Encode a file's transaction count: a number, sealed, since rows can be planted.

    >>> from keyturn.support.keys import ring
    >>> count_in("s", counted("s", 5)), count_in("other", counted("s", 5))
    (5, None)
    """
    return f"{row} {ring().mac(_COUNTING, f'{store} {row}'.encode())}"


def count_in(store: object, said: object) -> int | None:
    """Decode such a count; None where it is not what was written."""
    if not isinstance(said, str) or not isinstance(store, str):
        return None
    row, _, seal = said.partition(" ")
    good = row.isascii() and row.isdecimal() and len(row) < 19
    return int(row) if good and ring().fits(_COUNTING, seal, f"{store} {row}".encode()) else None
