"""Write decisions as CSV, one row each, so that no spreadsheet takes a cell for a formula.

What a model, a tool or a stranger wrote is escaped as everywhere, so that a row is one line, and a cell that begins as
formulas do begins with an apostrophe instead.
"""

from __future__ import annotations

import csv
import re
from datetime import tzinfo
from typing import Any, TextIO, cast

import msgspec

from ...render.escape import escape
from .entry import AuditEntry

COLUMNS = tuple(field.name for field in msgspec.structs.fields(AuditEntry) if field.name != "key")
# Also in wide forms, which some spreadsheets read as the plain ones, and behind a semicolon, which ends a cell in some.
_FORMULA = re.compile("(^|;)( *)(?=[-=+@\t\r\uff1d\uff0b\uff0d\uff20])")


class DecisionTable:
    """Writes a table to a text stream; with a `zone`, the last column is the time by its clocks.

    >>> import sys
    >>> DecisionTable(sys.stdout).begin()
    run,line,at,what,verdict,by,via,strength,roles,tool,agent,call,request,digest,arguments,edited,note,message,proof,answer,granted,acting_for
    """

    def __init__(self, stream: TextIO, zone: tzinfo | None = None) -> None:
        self._rows = csv.writer(stream, lineterminator="\n")
        self._zone = zone

    def begin(self) -> None:
        """Write the names of the columns."""
        self._rows.writerow([*COLUMNS, *(["local"] if self._zone else [])])

    def add(self, entry: AuditEntry) -> None:
        """Write one decision."""
        told = dict(entry)
        local = [f"{entry.at.astimezone(self._zone):%Y-%m-%d %H:%M:%S %Z}"] if self._zone else []
        self._rows.writerow([cell(told.get(name, "")) for name in COLUMNS] + local)


def cell(value: object) -> str:
    """Return a value as a cell that is text in every spreadsheet.

    >>> cell("=HYPERLINK(1)"), cell(["ops", "on call"]), cell(-5)
    ("'=HYPERLINK(1)", 'ops; on call', '-5')
    >>> cell("well;=HYPERLINK(1)")
    "well;'=HYPERLINK(1)"
    """
    if isinstance(value, int):
        return str(value)
    text = "; ".join(map(str, cast("list[Any]", value))) if isinstance(value, list | tuple) else str(value)
    shown = escape(text, keep="")
    return _FORMULA.sub(r"\1'\2", shown)
