"""The rows of an export and of a checkpoint: one JSON object a line, in one form for each thing that can be said.

An export is a first row, then for each run its lines and its head, then a statement and a signature on that row. A
checkpoint is the same without the lines. Runs come in the order of their ids. A row is written in one way only, so that
whoever reads a file can compare every byte of it with what it says.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Literal

import msgspec

from ...core.errors import UserError

#: No row is longer: a line of a log is far shorter, and somebody may hand us a file without an end.
LONGEST = 256 * 1024 * 1024
What = Literal["export", "checkpoint"]


class FileRow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Describes one row: the base of all of them."""


class FileStart(FileRow, frozen=True, tag_field="keyturn", tag="audit 1"):
    """Begins a file: says what it is, and of which store and tenant."""

    what: What
    tenant: str
    store: str = ""


class LogLine(FileRow, frozen=True):
    """Holds one line of a run's log: its place, the head of the run after it, its seal, and what it says.

    Of a line that was erased, or that is withheld because it holds a secret, the digest stands there instead.
    """

    run: str
    n: int
    hash: str
    seal: str
    line: str | None = None
    erased: str | None = None
    withheld: str | None = None


class RunHead(FileRow, frozen=True):
    """Says how far a run had come: the number of the run in the file, of its lines, and the head they come to.

    `erased` says that the run was erased, `withheld` counts the lines that are withheld, and `damaged` says why
    nothing is said of the lines that come after.
    """

    run: str
    number: int
    lines: int
    head: str
    erased: bool = False
    withheld: int = 0
    damaged: str = ""


class Statement(FileRow, frozen=True, tag_field="keyturn", tag="audit statement 1"):
    """Says what is signed: of which store, when, how many runs and lines, and the SHA-256 of the rows of the heads.

    `key` is the id of the key that signs, `follows` the SHA-256 of the statement of the checkpoint before this one.
    """

    what: What
    tenant: str
    store: str
    at: int
    runs: int
    lines: int
    heads: str
    key: str
    follows: str = ""


class UnreadableRow(msgspec.Struct, frozen=True):
    """Stands for a row that cannot be read, and says why."""

    why: str


_encoder = msgspec.json.Encoder()
encode = _encoder.encode
_first: Any = msgspec.json.Decoder(FileStart)
_line: Any = msgspec.json.Decoder(LogLine)
_head: Any = msgspec.json.Decoder(RunHead)
_statement: Any = msgspec.json.Decoder(Statement)
_NOT_OURS = "the row is none that this version writes"
_OTHER = "the row is not written as it was: a byte of it was changed"

AnyRow = FileStart | LogLine | RunHead | Statement


def read_row(raw: bytes) -> AnyRow | UnreadableRow:
    """Read a row, which must be written exactly as it would be today.

    >>> read_row(b'{"keyturn":"audit 1","what":"export","tenant":"default"}').tenant
    'default'
    >>> read_row(b'{"run":"a", "n":0}').why
    'the row is none that this version writes'
    """
    decoder = _decoder_of(raw)
    try:
        row: AnyRow = decoder.decode(raw)
        return row if _encoder.encode(row) == raw else UnreadableRow(_OTHER)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return UnreadableRow(_NOT_OURS)


def _decoder_of(raw: bytes) -> Any:
    if raw.startswith(b'{"keyturn":'):
        return _first if raw.startswith(b'{"keyturn":"audit 1"') else _statement
    place = raw.find(b'","n') if raw.startswith(b'{"run":"') else -1
    return _head if raw[place : place + 10] == b'","number"' else _line


class FileRows:
    """Reads a file row by row, with constant memory; `number` is that of the row read last, from 1.

    >>> from io import BytesIO
    >>> rows = FileRows(BytesIO(b"{}\\n{}"))
    >>> rows.read(), rows.read(), rows.read(), rows.number
    (b'{}', b'{}', None, 2)
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.number = 0
        self.ended = True

    def read(self) -> bytes | None:
        """Return the next row without its newline, None at the end."""
        raw = self._stream.readline(LONGEST + 1)
        if not raw:
            return None
        self.number += 1
        if len(raw) > LONGEST:
            raise UserError(f"row {self.number} is longer than {LONGEST} bytes: this is no export of Keyturn's")
        self.ended = raw.endswith(b"\n")
        return raw[:-1] if self.ended else raw
