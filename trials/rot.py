"""`python -m trials.rot --n 10000`: real stores altered behind their backs, tried in every way, and what came of it.

Many alterations are made of one prepared store: its files are copied for each, or its rows put back. A case is its
seed, its store and its number, and nothing else: `--case` plays one again and tells it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from keyturn.engine.run import log_cache
from keyturn.journal.generation import mark_of
from keyturn.journal.moving import copy_store
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing.postgres import PostgresMissing

from .crew import Say, crew
from .places import Places, places
from .rot_case import Found, Swallowed, served, tried
from .rot_kinds import COLUMNS, FILES, KEYS, KINDS, TAIL, Alteration, Victim, sqlite_victim, without_rules
from .rot_store import Secrets, Truth, World, control, filled, made_world
from .table import Tally

STORES = ("sqlite", "postgresql")
SHARES = {"sqlite": 0.8, "postgresql": 0.2}
ANEW = 500
ALARM = 200


class Hung(BaseException):
    """Something went on without ever waiting: the loop itself stood still."""


@contextmanager
def bounded(seconds: int = ALARM) -> Generator[None]:
    """End what blocks the loop."""

    def hung(_number: int, _frame: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Files:
    """SQLite stores: a prepared one, at rest and with its WAL, copied for each case."""

    kinds = KINDS | FILES

    def __init__(self, folder: Path) -> None:
        self.folder, self.truth, self.before = folder, Truth(), None
        self._store, self._row = "", 0

    async def prepare(self, dice: random.Random) -> None:
        """Fill a store, keep it with its WAL and at rest, and play a copy to its end."""
        whole = self.folder / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        store = SQLiteJournal(whole / "runs.db", clock=World.clock)
        self.truth = await filled(store, dice)
        self.before = await served(store, self.truth.runs.values(), Found())
        for suffix in ("", "-wal"):
            shutil.copy(whole / f"runs.db{suffix}", whole / f"wal.db{suffix}")
        found = await store.whole(lambda db: db.execute("SELECT value FROM meta WHERE name = 'id'"))
        self._row = await store.whole(lambda db: db.reached())
        self._store = found[0][0]
        await store.close()
        shutil.copy(whole / "runs.db", whole / "rest.db")
        shutil.copy(whole / "rest.db", whole / "loose.db")
        without_rules(whole / "loose.db")
        async with self.altered("none", lambda _victim, _dice: "nothing", dice) as store:
            await control(store, self.truth)

    def altered(self, name: str, alteration: Alteration, dice: random.Random) -> Any:
        """A copy that was altered, opened; with what was altered as `said`."""
        return _Case(self, name, alteration, dice)

    def copied(self, name: str) -> Path:
        """Copy the prepared store to where the next case is, with the mark of how far it had come."""
        place, whole = self.folder / "case", self.folder / "whole"
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(self.folder / "home" / "keyturn", ignore_errors=True)
        place.mkdir()
        source = "wal.db" if name.startswith("WAL") else "loose.db" if "NULL" in name else "rest.db"
        for suffix in ("", "-wal") if source == "wal.db" else ("",):
            shutil.copy(whole / f"{source}{suffix}", place / f"runs.db{suffix}")
        mark = mark_of(self._store, os.path.realpath(place / "runs.db"))
        assert mark is not None
        mark.reached(self._row)
        return place / "runs.db"


class _Case:
    """One altered file, open for as long as the block lasts."""

    def __init__(self, files: Files, name: str, alteration: Alteration, dice: random.Random) -> None:
        self._files, self._name, self._alteration, self._dice = files, name, alteration, dice
        self.said, self.touched = "", set[str]()

    async def __aenter__(self) -> Any:
        file = self._files.copied(self._name)
        runs = list(self._files.truth.runs.values())
        if self._name in FILES:
            self.said = self._alteration(Victim(_nobody, runs, file), self._dice)
        else:
            db, victim = sqlite_victim(file, runs)
            try:
                self.said, self.touched = self._alteration(victim, self._dice), victim.touched
            finally:
                db.close()
        self._store = SQLiteJournal(file, clock=World.clock)
        return self._store

    async def __aexit__(self, *_error: Any) -> None:
        await self._store.close()


def _nobody(*_asked: Any) -> list[Any]:
    return []


class Schema:
    """A PostgreSQL store: a prepared one, whose rows are put back after each case."""

    kinds = KINDS

    def __init__(self, url: str) -> None:
        self._url, self.truth, self.before = url, Truth(), None
        self._db: Any = psycopg.connect(url, autocommit=True)
        self._journal: Any = None
        self._count = 0

    async def prepare(self, dice: random.Random) -> None:
        """Fill the store, keep its rows, and play it to its end."""
        if self._journal is None:
            self._journal = PostgresJournal(self._url, clock=World.clock)
            for table, columns in COLUMNS.items():
                for column in [column for column in columns if column not in KEYS[table]]:
                    self._db.execute(f"ALTER TABLE {table} ALTER {column} DROP NOT NULL")
            self._db.execute("ALTER TABLE events ALTER line DROP NOT NULL")
        self._empty()
        self.truth = await filled(self._journal, dice)
        self.before = await served(self._journal, self.truth.runs.values(), Found())
        for table in KEYS:
            self._db.execute(f"DROP TABLE IF EXISTS kept_{table}")
            self._db.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        async with self.altered("none", lambda _victim, _dice: "nothing", dice) as store:
            await control(store, self.truth)

    def _empty(self) -> None:
        self._db.execute("; ".join(f"DELETE FROM {table}" for table in KEYS if table != "meta"))

    def altered(self, name: str, alteration: Alteration, dice: random.Random) -> Any:
        """The prepared rows, altered."""
        return _Rows(self, alteration, dice)

    def put_back(self) -> None:
        """Put the prepared rows back. What was deleted before is swept out now and then: it is gone through as well."""
        self._count += 1
        self._empty()
        if self._count % 20 == 0:
            self._db.execute(f"VACUUM {', '.join(KEYS)}")
        back = [
            f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM kept_{table}"
            for table in KEYS
            if table != "meta"
        ]
        self._db.execute("; ".join(["DELETE FROM meta", "INSERT INTO meta SELECT * FROM kept_meta", *back]))

    def execute(self, sql: str, *values: Any) -> list[Any]:
        """Ask the database, in the words that all alterations use."""
        cursor = self._db.execute(sql.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []

    @property
    def journal(self) -> Any:
        """The store."""
        return self._journal

    async def close(self) -> None:
        """End the connections."""
        if self._journal is not None:
            await self._journal.close()
        self._db.close()


class _Rows:
    def __init__(self, schema: Schema, alteration: Alteration, dice: random.Random) -> None:
        self._schema, self._alteration, self._dice = schema, alteration, dice
        self.said, self.touched = "", set[str]()

    async def __aenter__(self) -> Any:
        self._schema.put_back()
        self._schema.journal._origin.why = None
        victim = Victim(self._schema.execute, list(self._schema.truth.runs.values()))
        self.said, self.touched = self._alteration(victim, self._dice), victim.touched
        return self._schema.journal

    async def __aexit__(self, *_error: Any) -> None:
        """Nothing is to be closed: the rows are put back before the next case."""


# One case after another ---------------------------------------------------------------------------------------------


class Rotting:
    """One worker's cases on one store."""

    def __init__(self, store: str, prepared: Files | Schema, folder: Path, seed: int) -> None:
        self._store, self._prepared, self._folder, self._seed = store, prepared, folder, seed
        self._swallowed = Swallowed()
        logging.getLogger("keyturn").addHandler(self._swallowed)
        logging.getLogger("keyturn").propagate = False

    async def case(self, number: int) -> tuple[str, str, Found]:
        """Play a case; its kind, what was altered, and what came of it."""
        dice = random.Random(f"{self._seed}/{self._store}/{number}")
        kinds: dict[str, Alteration] = self._prepared.kinds
        name = list(kinds)[number % len(kinds)]
        log_cache.forget()
        case = self._prepared.altered(name, kinds[name], dice)
        found = Found()
        try:
            async with case as store:
                self._swallowed.found = found = Found()
                if isinstance(store, SQLiteJournal) and dice.random() < 0.05:
                    await self._copied(store, found)
                after = await tried(store, self._prepared.truth, self._prepared.before, case.touched, dice)
                after.reported += found.reported
                after.broken += found.broken
                found = after
        except Exception as error:
            found.error("open", error)
        if name == TAIL:  # by design only the check with heads tells: that it did is all that is asked of it here
            kept = [broken for broken in found.broken if not broken.startswith("altered effect")]
            found.again = len(found.broken) - len(kept)
            found.broken = kept
        return name, case.said, found

    async def _copied(self, store: SQLiteJournal, found: Found) -> None:
        """Copy the whole store to an empty one."""
        target = SQLiteJournal(self._folder / "copy.db", clock=World.clock)
        try:
            await copy_store(store, target)
        except Exception as error:
            found.error("copy", error)
        finally:
            await target.close()
            for left in self._folder.glob("copy.db*"):
                left.unlink()

    async def prepare(self, number: int) -> None:
        """Prepare the store of the cases from this number on."""
        Secrets.dice = random.Random(f"{self._seed}/ids/{number // ANEW}")
        await self._prepared.prepare(random.Random(f"{self._seed}/runs/{number // ANEW}"))

    async def play(self, numbers: range, tell: Callable[[str, dict[str, int], list[str], str], None]) -> None:
        """Play cases one after another."""
        block = None
        for number in numbers:
            if number // ANEW != block:
                block = number // ANEW
                await self.prepare(number)
            try:
                with bounded():
                    name, said, found = await self.case(number)
            except Hung:
                tell(f"{self._store}: hung", {}, [f"hangs: the loop stood still for {ALARM} s"], self._named(number))
                continue
            met = {"refused or reported": bool(found.reported), "changed nothing": not found.reported}
            met["done again"] = found.again
            for broken in ("altered effect", "lost silently", "untyped error", "hangs"):
                met[broken] = sum(each.startswith(broken) for each in found.broken)
            tell(f"{self._store}: {name}", met, [f"{said}: {each}" for each in found.broken], self._named(number))

    def _named(self, number: int) -> str:
        return f"--seed {self._seed} --case {self._store}/{number}"


def prepared_for(store: str, ours: Places) -> tuple[Files | Schema, Path]:
    """Where a worker's stores are."""
    place = ours.new(store, fresh=True)
    return (Files(place.folder) if store == "sqlite" else Schema(place.url)), place.folder


async def cases(store: str, ours: Places, seed: int, numbers: range, tell: Any) -> None:
    """Play cases on one store."""
    prepared, folder = prepared_for(store, ours)
    with made_world(str(folder / "home")):
        await Rotting(store, prepared, folder, seed).play(numbers, tell)
        if isinstance(prepared, Schema):
            await prepared.close()


def series(n: int, seed: int, jobs: int, stores: list[str]) -> Tally:
    """Play all cases; what they came to."""
    tally = Tally(f"Rot, seed {seed}")
    whole = sum(SHARES[store] for store in stores)
    todo = {store: round(n * SHARES[store] / whole) for store in stores}
    with places(stores) as all_places:

        def work(number: int, say: Say) -> None:
            ours = all_places.of(number)
            for store in stores:
                numbers = range(todo[store] * number // jobs, todo[store] * (number + 1) // jobs)
                asyncio.run(cases(store, ours, seed, numbers, say))

        crew(jobs, work, tally, sum(todo.values()))
    return tally


def again(seed: int, case: str) -> int:
    """Play one case again and tell it."""
    store, _, number = case.partition("/")
    at = int(number)

    def tell(name: str, met: dict[str, int], broken: list[str], trial: str) -> None:
        print(f"{name}: {met}", *broken, trial, sep="\n  ")

    with places([store]) as all_places:
        asyncio.run(cases(store, all_places.of(0), seed, range(at, at + 1), tell))
    return 0


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m trials.rot", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000, metavar="N", help="alterations (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: another each time")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once (default %(default)s)")
    parser.add_argument("--stores", default=",".join(STORES), metavar="A,B", help="default: %(default)s")
    parser.add_argument("--case", metavar="STORE/N", help="play this one again and tell it")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the counts there too")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Alter, try, print the table, and fail if a promise was broken."""
    args = arguments(argv)
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    if args.case:
        return again(seed, args.case)
    begun = time.monotonic()
    try:
        tally = series(args.n, seed, args.jobs, args.stores.split(","))
    except PostgresMissing as missing:
        print(f"only SQLite: {missing}", file=sys.stderr)
        tally = series(args.n, seed, args.jobs, ["sqlite"])
    seconds = time.monotonic() - begun
    rate = f"{tally.tried / seconds:.0f} a second"
    print(tally.text(f"{tally.tried:,} alterations in {seconds:.0f} s with {args.jobs} processes: {rate}."))
    if args.json:
        tally.save(args.json)
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
