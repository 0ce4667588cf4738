"""Add tallies up in a database, in the transaction of the lines that they count, and read them.

All of a transaction are written last and in one order, whoever writes: they are what many runs have in common, and two
writers that met in two orders would wait for each other. Tallies are not sealed: nobody decides by them, and
`keyturn check` counts them again from the logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from . import statements as say
from .rows import Period, Tally, summed
from .store_thread import StoreConnection

_COLUMNS = ("tenant", "day", "name", *say.TALLY_NAMES, *say.TALLY_NUMBERS)
_ADD = (
    f"INSERT INTO tallies ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    "ON CONFLICT (tenant, day, name) DO UPDATE SET "
    + ", ".join(f"{each} = tallies.{each} + excluded.{each}" for each in say.TALLY_NUMBERS)
)
_WHERE = "FROM tallies WHERE tenant = ? AND day >= ? AND day <= ?"
_NAMES = ", ".join(say.TALLY_NAMES)
_SUMS = ", ".join(f"CAST(sum({each}) AS BIGINT)" for each in say.TALLY_NUMBERS)
# By the digest, which is short: a name has one set of names.
_SUMMED = f"SELECT {', '.join(f'min({each})' for each in say.TALLY_NAMES)}, 0, {_SUMS} {_WHERE} GROUP BY name"
_DAILY = f"SELECT {_NAMES}, day, {', '.join(say.TALLY_NUMBERS)} {_WHERE}"
_FOR_EVER = 1 << 40


def add(db: StoreConnection, tallies: Iterable[tuple[str, Tally]]) -> None:
    """Add tallies of tenants to what is there."""
    parts = dict[str, list[Tally]]()
    for tenant, tally in tallies:
        parts.setdefault(tenant, []).append(tally)
    rows = [(tenant, each.day, _name(each), each) for tenant in parts for each in summed(parts[tenant])]
    for tenant, day, name, each in sorted(rows, key=lambda row: row[:3]):
        db.tell(_ADD, tenant, day, name, *each.names, each.count, each.ms, *each.times)


def read(db: StoreConnection, tenant: str, period: Period) -> list[Tally]:
    """Return what was counted in a period; what is no tally any more is left out."""
    until = _FOR_EVER if period.until is None else period.until
    try:
        found = db.execute(_DAILY if period.daily else _SUMMED, tenant, period.since or 0, until)
    except UnicodeDecodeError:  # somebody wrote what is no text: nothing of it can be believed
        return []
    return [tally for row in found if (tally := _tally(*row)) is not None]


def _tally(*row: Any) -> Tally | None:
    size = len(say.TALLY_NAMES)
    count, ms, *times = row[size + 1 :]
    try:
        return msgspec.convert([*row[: size + 1], count, ms, times], _Row).tally
    except msgspec.ValidationError:
        return None


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """Checks the types of a row."""

    what: str
    tool: str
    agent: str
    kind: str
    risk: str
    person: str
    day: int
    count: int
    ms: int
    times: tuple[int, ...]

    @property
    def tally(self) -> Tally:
        return Tally(*msgspec.structs.astuple(self))


def _name(tally: Tally) -> str:
    return blake2b("\0".join(tally.names).encode(), digest_size=16).hexdigest()
