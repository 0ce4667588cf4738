"""Steps as lines of text and back: the only place that knows how a log is written down.

A line is one step, one commit. Lines are kept as they were written and never written twice. Reading is
closed: only the events of `events.py` can come out, and what does not fit is refused by name of the fault,
never by quoting it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from .errors import KeyturnError, StateRejected
from .events import Step
from .evolve import fold
from .run import Run, new_run, twin
from .upcasts import VERSION, upcast

GENESIS = "0" * 64
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Step, strict=True)
_UNREADABLE = (
    msgspec.MsgspecError,
    KeyturnError,
    RecursionError,
    LookupError,
    AttributeError,
    TypeError,
    ValueError,
    ArithmeticError,
)


_NOT_A_STEP = "the state's log holds a line that is no step of a run; use the state as it was saved"


def encode(step: Step) -> bytes:
    """One step as a line, without its newline."""
    try:
        return _encoder.encode(step)
    except UnicodeEncodeError:  # half a character, as in a text that was cut: no reason to lose the run
        return _encoder.encode(_whole(msgspec.to_builtins(step)))


def _encode_lines(steps: Sequence[Step]) -> bytes:
    try:
        return _encoder.encode_lines(steps)[:-1]
    except UnicodeEncodeError:
        return b"\n".join(encode(step) for step in steps)


def _whole(value: Any) -> Any:
    """The same value with "?" for each half of a character, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(entry) for key, entry in cast("dict[Any, Any]", value).items()}
    return [_whole(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else value


def decode(line: bytes | str, version: str = VERSION) -> Step:
    """The step that a line holds."""
    try:
        if version == VERSION:
            return _decoder.decode(line)
        old = msgspec.json.decode(line)
        events = [upcast(event, version) for event in old["events"]]
        return msgspec.convert({"at": old["at"], "events": events}, Step)
    except _UNREADABLE:
        raise StateRejected(_NOT_A_STEP) from None


def link(before: str, line: bytes) -> str:
    """The hash of a line in its chain: what stands after it can only stand after all before it."""
    return link_digest(before, line_digest(line))


def line_digest(line: bytes) -> str:
    """The digest of a line by itself. It stays when the line is erased, so that its chain can still be verified."""
    return hashlib.sha256(line).hexdigest()


def link_digest(before: str, digest: str) -> str:
    """The same link made of a line's digest."""
    return hashlib.sha256(f"{before}\n{digest}".encode()).hexdigest()


class Log:
    """A run's steps in order, with the run they fold to and their lines, written when first asked for."""

    __slots__ = ("_lines", "_text", "run", "steps")

    def __init__(
        self, steps: list[Step] | None = None, lines: list[bytes] | None = None, run: Run | None = None
    ) -> None:
        self.steps: list[Step] = steps if steps is not None else []
        self._lines: list[bytes] = lines if lines is not None else []
        self._text: tuple[int, str] = (0, "")
        self.run = run if run is not None else fold(new_run(), self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def append(self, step: Step, line: bytes | None = None) -> None:
        """Add a step whose events are folded into `run` already, with its line where it was written."""
        if line is not None:
            self.lines().append(line)
        self.steps.append(step)
        self.run.seq += 1

    def lines(self, count: int | None = None) -> list[bytes]:
        """The first `count` lines; all by default."""
        if len(self._lines) < len(self.steps):
            self._lines.extend(encode(step) for step in self.steps[len(self._lines) :])
        return self._lines if count is None else self._lines[:count]

    def extend(self, lines: Sequence[bytes]) -> list[Step]:
        """Fold what somebody else appended, and nothing else. What was only decided must have been forgotten."""
        theirs = [decode(line) for line in lines]
        try:
            _folded(theirs, self.run)
        except StateRejected:
            self.refold()
            raise
        self._lines = [*self.lines(), *lines]
        self.steps += theirs
        return theirs

    def copy(self) -> Log:
        """The same log for somebody else, who may go on with it."""
        made = Log(self.steps.copy(), self._lines.copy(), twin(self.run))
        made._text = self._text
        return made

    def refold(self) -> None:
        """Forget what was folded but not appended."""
        self.run = fold(new_run(), self.steps)

    def text(self, count: int) -> str:
        """The first `count` lines as one text; what was made for a shorter log is not made again."""
        known, text = self._text
        if count < known:
            return "\n".join(text.split("\n")[:count])
        if count > known:
            fresh = _encode_lines(self.steps[known:count]).decode()
            text = f"{text}\n{fresh}" if known else fresh
            self._text = (count, text)
        return text

    def says(self, text: str) -> bool:
        """Whether this text is known to be the whole of the log."""
        return self._text == (len(self.steps), text)

    @property
    def size(self) -> int:
        """How many characters of the log were written down."""
        return len(self._text[1])

    @classmethod
    def of(cls, text: str, version: str = VERSION) -> Log:
        """The log that a text holds, or `StateRejected`."""
        if version != VERSION:
            return cls.read(text.encode().split(b"\n") if text else [], version)
        try:
            steps = _decoder.decode_lines(text)
        except _UNREADABLE:
            raise StateRejected(_NOT_A_STEP) from None
        log = cls(steps, None, _folded(steps))
        log._text = (len(steps), text)
        return log

    @classmethod
    def read(cls, lines: Sequence[bytes], version: str = VERSION) -> Log:
        """The log that these lines are, or `StateRejected`."""
        steps = [decode(line, version) for line in lines]
        return cls(steps, list(lines) if version == VERSION else None, _folded(steps))


def _folded(steps: Sequence[Step], run: Run | None = None) -> Run:
    try:
        return fold(run or new_run(), steps)
    except _UNREADABLE:
        raise StateRejected(
            "the state's log cannot have been written by a run; use the state as it was saved"
        ) from None
