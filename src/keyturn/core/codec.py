"""Encode steps as lines of text and decode them: the only place that knows the format of a log.

A line is one step, one commit. It says which version of the format wrote it. Lines are kept as they were written and
never written twice; where they are kept in a journal each carries its seal (see `seal.py`), and nothing of a line is
believed before that was verified. Reading is closed: only the events of `events.py` with their own fields can come out,
and what does not fit is refused by name of the fault, never by quoting it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar, cast

import msgspec

from .errors import KeyturnError, LogDamaged, StateRejected
from .events import RunStarted, Step
from .folding import fold, folding
from .run import Run, copy_run, new_run
from .seal import Chain, body_of
from .upcasts import FORMAT, UPCASTS, upcast

_Read = TypeVar("_Read")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Step, strict=True)
_BEGINNING = b'{"v":%d,' % FORMAT
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


_NOT_A_STEP = "the state's log has a line that is not a step of a run; use the state as it was saved"
_NOT_A_RUN = "the state's log cannot have been written by a run; use the state as it was saved"
_OLDER = "the log holds a line that was written by an older format; finish its run with the Keyturn that wrote it"
_NEWER = "the log holds a line that was written by a newer Keyturn; upgrade to read it"


class WrittenByNewer(LogDamaged):
    """Raised where a line of a run's log was written by a newer Keyturn: the run is whole, and not for this process.

    >>> str(WrittenByNewer("5e1f", 3)).partition(";")[0]
    "line 3 of run '5e1f' was written by a newer Keyturn"
    """

    _remedy = "upgrade this process to read it, and leave the run to newer ones until then"

    def __init__(self, run: str, line: int) -> None:
        super().__init__(run, line, "was written by a newer Keyturn")


class _NewerFormat(StateRejected):
    """Raised for a line of a format that came after this Keyturn."""


def encode(step: Step) -> bytes:
    """Write one step as a line, without its newline and its seal."""
    return _written(step)


def as_text(value: object) -> str:
    """Write a value as JSON, whatever texts it holds."""
    return _written(value).decode()


def _written(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half a character, as in a text that was cut: no reason to lose the run
        whole: Any = _whole(msgspec.to_builtins(value))
        return _encoder.encode(whole)


def _encode_lines(steps: Sequence[Step]) -> bytes:
    try:
        return _encoder.encode_lines(steps)[:-1]
    except UnicodeEncodeError:
        return b"\n".join(encode(step) for step in steps)


def _whole(value: object) -> Any:
    """Return the same value with "?" for each lone surrogate, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(entry) for key, entry in cast("dict[Any, Any]", value).items()}
    return [_whole(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else value


def decode(line: bytes | str) -> Step:
    """Decode the step of a line, or raise `StateRejected`; its seal, if it has one, is not verified."""
    body = body_of(line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line)
    try:
        return _decoder.decode(body) if body.startswith(_BEGINNING) else _decode_older(body)
    except StateRejected as refused:
        raise refused from None
    except _UNREADABLE:
        raise StateRejected(_NOT_A_STEP) from None


def _decode_older(body: bytes) -> Step:
    """Decode a line of a retired version, or raise for one that cannot be read."""
    old: Any = msgspec.json.decode(body)
    version: Any = old.pop("v", 1)
    if type(version) is not int:
        raise StateRejected(_NOT_A_STEP)
    if str(version) not in UPCASTS:
        fields: set[str] = set(old)
        known = {"at", "events"} <= fields and version != FORMAT
        if known and version > FORMAT:
            raise _NewerFormat(_NEWER)
        raise StateRejected(_OLDER if known else _NOT_A_STEP)
    events = [upcast(event, str(version)) for event in old.pop("events")]
    return msgspec.convert({**old, "events": events}, Step)


class Log:
    """Holds a run's steps in order, the run they fold to, and their encoded lines, made when first needed.

    A log that a journal keeps has a `chain`, which says how far its lines were verified: as far as it goes.
    """

    __slots__ = ("_lines", "_text", "chain", "run", "steps")

    def __init__(
        self,
        steps: list[Step] | None = None,
        lines: list[bytes] | None = None,
        run: Run | None = None,
        chain: Chain | None = None,
    ) -> None:
        self.steps: list[Step] = steps if steps is not None else []
        self._lines: list[bytes] = lines if lines is not None else []
        self._text: tuple[int, str] = (0, "")
        self.chain = chain
        self.run = run if run is not None else fold(new_run(), self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def append(self, step: Step, line: bytes | None = None) -> None:
        """Add a step whose events are folded into `run` already, with its line where it was written."""
        if line is not None:
            self.lines().append(body_of(line) if self.chain is None else self.chain.kept(line))
        self.steps.append(step)
        self.run.seq += 1

    def sealed(self, step: Step) -> bytes:
        """Write the line of a step that comes next, for the journal that keeps this log."""
        body = encode(step)
        return body if self.chain is None else self.chain.seal(body)

    def sealed_anew(self, chain: Chain) -> list[bytes]:
        """Seal the whole log again for another place, and go on from there; return its lines."""
        lines = list[bytes]()
        for body in self.lines():
            line = chain.seal(body)
            chain.kept(line)
            lines.append(line)
        self.chain = chain
        return lines

    def lines(self, count: int | None = None) -> list[bytes]:
        """Return the bodies of the first `count` lines; all by default."""
        if len(self._lines) < len(self.steps):
            self._lines.extend(encode(step) for step in self.steps[len(self._lines) :])
        return self._lines if count is None else self._lines[:count]

    def extend(self, lines: Sequence[bytes]) -> list[Step]:
        """Verify and fold what somebody else appended, and nothing else; what was only decided was dropped before.

        Where the log has a chain, the lines are verified first; what is refused leaves the log as it was.
        """
        chain = None if self.chain is None else self.chain.copy()
        bodies = [body_of(line) if chain is None else chain.open(line) for line in lines]
        theirs = [_at(chain, len(self) + place, decode, body) for place, body in enumerate(bodies)]
        if chain is not None and not self.steps:
            _check_beginning(chain, theirs)
        try:
            _at(chain, len(self), lambda steps: _folded(steps, self.run), theirs)
        except (StateRejected, LogDamaged):
            self.refold()
            raise
        self._lines = [*self.lines(), *bodies]
        self.steps += theirs
        self.chain = chain
        return theirs

    def copy(self) -> Log:
        """Copy the log for somebody else, who may go on with it."""
        chain = None if self.chain is None else self.chain.copy()
        made = Log(self.steps.copy(), self._lines.copy(), copy_run(self.run), chain)
        made._text = self._text
        return made

    def refold(self) -> None:
        """Drop what was folded but not appended."""
        self.run = fold(new_run(), self.steps)

    def text(self, count: int) -> str:
        """Return the first `count` lines as one text; a shorter log's text is reused."""
        known, text = self._text
        if count < known:
            return "\n".join(text.split("\n")[:count])
        if count > known:
            fresh = _encode_lines(self.steps[known:count]).decode()
            text = f"{text}\n{fresh}" if known else fresh
            self._text = (count, text)
        return text

    def says(self, text: str) -> bool:
        """Return whether this text is known to be the whole of the log."""
        return self._text == (len(self.steps), text)

    @property
    def size(self) -> int:
        """Return how many characters of the log were written down."""
        return len(self._text[1])

    @classmethod
    def of(cls, text: str) -> Log:
        """Read the log that a text holds, or raise `StateRejected`."""
        return _whole_of(cls.reading(text))

    @classmethod
    def reading(cls, text: str) -> Generator[None, None, Log]:
        """Read a log like `of`, and pause within a long one."""
        beginning = _BEGINNING.decode()
        try:
            steps = _decoder.decode_lines(text)
        except _UNREADABLE:
            steps = None
        if steps is None or text.count("\n" + beginning) + text.startswith(beginning) != len(steps):
            return cls.read(text.encode("utf-8", "surrogatepass").split(b"\n"))  # it says what is wrong, line by line
        log = cls(steps, None, (yield from _folding(steps)))
        log._text = (len(steps), text)
        return log

    @classmethod
    def read(cls, lines: Sequence[bytes]) -> Log:
        """Read the log that these lines are, on trust, or raise `StateRejected`: for what a state's MAC covers."""
        steps = [decode(line) for line in lines]
        same = all(body_of(line).startswith(_BEGINNING) for line in lines)
        return cls(steps, [body_of(line) for line in lines] if same else None, _folded(steps))

    @classmethod
    def opened(cls, lines: Sequence[bytes], chain: Chain) -> Log:
        """Read the log that these sealed lines are, each verified before it is read, or raise `LogDamaged`."""
        return _whole_of(cls.opening(lines, chain))

    @classmethod
    def opening(cls, lines: Sequence[bytes], chain: Chain) -> Generator[None, None, Log]:
        """Read a log like `opened`, and pause within a long one."""
        chain = chain.copy()
        bodies = [chain.open(line) for line in lines]
        steps = [_at(chain, place, decode, body) for place, body in enumerate(bodies)]
        _check_beginning(chain, steps)
        try:
            run = yield from _folding(steps)
        except StateRejected as error:
            raise _damaged(chain, max(len(steps) - 1, 0), error) from None
        return cls(steps, bodies, run, chain)


def _check_beginning(chain: Chain, steps: Sequence[Step]) -> None:
    """Check that a log begins with the start of its own run."""
    first = steps[0].events[0] if steps and steps[0].events else None
    if steps and not (isinstance(first, RunStarted) and first.run == chain.run):
        raise LogDamaged(chain.run, 0, "is not the start of that run")


def _at(chain: Chain | None, place: int, read: Callable[[Any], Any], given: object) -> Any:
    """Run a reader of a log; where the log is a journal's, name the place of what cannot be read."""
    try:
        return read(given)
    except StateRejected as error:
        if chain is None:
            raise
        raise _damaged(chain, place, error) from None


def _damaged(chain: Chain, place: int, error: StateRejected) -> LogDamaged:
    if isinstance(error, _NewerFormat):
        return WrittenByNewer(chain.run, place)
    return LogDamaged(chain.run, place, f"cannot be read ({error})")


def _folded(steps: Sequence[Step], run: Run | None = None) -> Run:
    return _whole_of(_folding(steps, run))


def _folding(steps: Sequence[Step], run: Run | None = None) -> Generator[None, None, Run]:
    made = run or new_run()
    try:
        yield from folding(made, steps)
    except _UNREADABLE:
        raise StateRejected(_NOT_A_RUN) from None
    return made


def _whole_of(reading: Generator[None, None, _Read]) -> _Read:
    """Return what a reader comes to, without a pause."""
    while True:
        try:
            next(reading)
        except StopIteration as read:
            return read.value
