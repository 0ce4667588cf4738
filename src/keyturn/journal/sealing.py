"""Seal rows when they are written, and verify them whenever they are read.

A seal covers every column of a row and the tenant it is of. It says that the row was written by somebody with the key,
not that it is the newest one: who decides goes by the log. A row that does not verify is never shown as it is, and
never hides the others of its page: it comes back marked as damaged, with nothing in it but its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import astuple, fields, replace

from ..core.errors import UserError
from ..core.seal import Ring
from .base import RESERVED
from .rows import Changes, Closing, GrantRow, Notice, Query, RequestRow, RunRow, Tally

Row = TypeVar("Row", RunRow, RequestRow, GrantRow)
DAMAGED = "damaged"
_ROW = "row"
_WHY = "this row is not the one that was written; `keyturn check` says what is wrong with its run"
# Whether a grant is damaged is no column of it, and comes last.
_COLUMNS: dict[type[Any], tuple[str, ...]] = {
    kind: tuple(name for name in kind.__struct_fields__ if name != DAMAGED) for kind in (RunRow, RequestRow, GrantRow)
}
# Columns that earlier versions did not have: a row with nothing in one of them is sealed as they sealed it.
_LATER = {GrantRow: GrantRow.__struct_fields__.index("reach"), RequestRow: RequestRow.__struct_fields__.index("shape")}
_encoder = msgspec.msgpack.Encoder()


def columns(row: RunRow | RequestRow | GrantRow) -> tuple[Any, ...]:
    """Return the values of a row, in the order of its columns and as databases keep them."""
    values = astuple(row)
    return values if type(row) is not GrantRow else (*values[:-2], int(row.revoked))


def seal_row(keys: Ring, tenant: str, row: RunRow | RequestRow | GrantRow) -> str:
    """Return the seal of a row as it stands.

    >>> from ..support.keys import own_ring
    >>> keys, row = own_ring(), GrantRow("g1", "run", "pay", "desk")
    >>> seal = seal_row(keys, "default", row)
    >>> verified(keys, "default", GrantRow, columns(row), seal) == row
    True
    >>> verified(keys, "another", GrantRow, columns(row), seal).damaged
    True
    """
    return keys.mac(_ROW, _covered(tenant, type(row), columns(row)))


def _covered(tenant: str, kind: type[Any], values: Sequence[Any]) -> bytes:
    """Return what a seal covers, with the type of each value: a number is not its text, nor a text its bytes.

    A grant that reaches no further than its run, and a request without a shape in its column, are sealed as they were
    before there were such columns. A value that is put there, or taken away, is another number of values.
    """
    place = _LATER.get(kind)
    if place is not None and values[place] == "":
        values = [*values[:place], *values[place + 1 :]]
    return _encoder.encode((tenant, kind.__name__, values))


def verified(keys: Ring, tenant: str, kind: type[Row], values: Sequence[Any], seal: object) -> Row:
    """Make a row of what a store has in its columns, or one that is marked as damaged."""
    try:
        if isinstance(seal, str) and keys.fits(_ROW, seal, _covered(tenant, kind, tuple(values))):
            return cast("Row", _MADE[kind](*values))
    except (msgspec.MsgspecError, UnicodeError, OverflowError, TypeError):
        pass
    return marked(kind, dict(zip(_COLUMNS[kind], values, strict=True)))


def _grant(*values: Any) -> GrantRow:
    return replace(GrantRow(*values), revoked=bool(values[-1]))


_MADE: dict[type[Any], Callable[..., RunRow | RequestRow | GrantRow]] = {
    RunRow: RunRow,
    RequestRow: RequestRow.kept,
    GrantRow: _grant,
}


def marked(kind: type[Row], given: dict[str, Any]) -> Row:
    """Make the row shown in place of one that does not verify: its key, and that it is damaged."""
    row: RunRow | RequestRow | GrantRow
    if kind is RunRow:
        at = given["started_at"]
        row = RunRow(given["run"], "", DAMAGED, at, at, error=_WHY)
    elif kind is RequestRow:
        run = given["run"] if isinstance(given["run"], str) else ""
        row = RequestRow(given["id"], run, "", "", "", "", "", given["asked_at"], reason=_WHY, state=DAMAGED)
    else:
        row = GrantRow(given["id"], given["run"], "", "", damaged=True)
    return cast("Row", row)


# Texts --------------------------------------------------------------------------------------------------------------


def fits_a_store(name: str) -> bool:
    """Return whether every store can keep this text as it is: without NUL and lone surrogates."""
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            return False
    return "\0" not in name


def check_name(what: str, name: str) -> str:
    """Refuse a name that not every store can keep: names are compared, and so are never altered."""
    if not fits_a_store(name):
        raise UserError(f"{what} must be text without NUL and without lone surrogates")
    return name


def check_erasable(run: str) -> None:
    """Refuse to erase what is no run: who decided what is told by it for as long as anything is."""
    if run.startswith(RESERVED):
        raise UserError(f"{run!r} is no run, and is never erased")


def askable(query: Query) -> bool:
    """Return whether any row can have what a query asks for."""
    given = [query.id, query.run, query.state, query.agent, query.tool, query.kind, query.shape]
    given += query.reaches or ()
    given += [] if query.after is None else [query.after[1]]
    return all(fits_a_store(text) for text in given if text is not None)


def plain(changes: Changes) -> Changes:
    """Return the changes in texts that every store can keep: "?" for each lone surrogate and each NUL."""
    return replace(
        changes,
        run=_plain(changes.run),
        opened=list(map(_plain, changes.opened)),
        closed=list(map(_plain, changes.closed)),
        grants=list(map(_plain, changes.grants)),
        notices=list(map(_plain, changes.notices)),
        tallies=list(map(_plain, changes.tallies)),
    )


Plain = TypeVar("Plain", RunRow, RequestRow, GrantRow, Closing, Notice, Tally)


_TEXTS: dict[type[Any], tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.type in (str, "str"))
    for kind in (RunRow, RequestRow, GrantRow, Closing, Notice, Tally)
}

_TEXTS_OF: dict[type[Any], Callable[[Any], tuple[str, ...]]] = {
    kind: attrgetter(*names) for kind, names in _TEXTS.items()
}


def _plain(row: Plain) -> Plain:
    if fits_a_store("".join(_TEXTS_OF[type(row)](row))):  # nearly every row
        return row
    odd = {name: text for name in _TEXTS[type(row)] if not fits_a_store(text := getattr(row, name))}
    return replace(row, **{name: plain_text(text) for name, text in odd.items()}) if odd else row


def plain_notice(notice: Notice) -> Notice:
    """Return a notice in texts that every store can keep."""
    return _plain(notice)


def plain_text(text: str) -> str:
    """Return a text as every store can keep it.

    >>> plain_text("a\\0b\\ud800c")
    'a?b?c'
    """
    return text.encode("utf-8", "replace").decode().replace("\0", "?")
