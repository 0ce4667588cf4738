"""What a realtime server plays: a turn for each response, made of parts that are played one after another.

A part says, calls, waits or goes wrong. Plain texts and `function_call(...)` of `keyturn.testing` are parts, too.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...core.immutable import immutable

RATE = 24_000

Arrange = Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]]


def tone(milliseconds: int, hertz: int = 440) -> bytes:
    """Return so much of a tone as PCM16, mono, 24 kHz.

    >>> len(tone(100))
    4800
    """
    count = RATE * milliseconds // 1000
    samples = (int(9000 * math.sin(2 * math.pi * hertz * each / RATE)) for each in range(count))
    return struct.pack(f"<{count}h", *samples)


def silence(milliseconds: int) -> bytes:
    """Return so much silence as PCM16, mono, 24 kHz.

    >>> len(silence(100))
    4800
    """
    return bytes(RATE * milliseconds // 1000 * 2)


@immutable
@dataclass(frozen=True)
class Say:
    """Says a text aloud: its transcript in words, and so many milliseconds of a tone for each."""

    text: str
    word_ms: int = 40


@immutable
@dataclass(frozen=True)
class Write:
    """Writes a text."""

    text: str


@immutable
@dataclass(frozen=True)
class Call:
    """Calls a function; `arguments` that are no text become JSON.

    Without a `call_id` it gets the next one. `cut_off` leaves the arguments half said and the item incomplete.
    """

    name: str
    arguments: Any = "{}"
    call_id: str | None = None
    cut_off: bool = False

    def text(self) -> str:
        """Return the arguments as the model wrote them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@immutable
@dataclass(frozen=True)
class AskApproval:
    """Asks whether a tool of a hosted MCP server may be called."""

    server_label: str
    name: str
    arguments: str = "{}"
    id: str | None = None


@immutable
@dataclass(frozen=True)
class Gate:
    """Waits until the test opens it: `gate.open()`; `await gate.reached()` waits until the server stands before it."""

    _opened: asyncio.Event = field(default_factory=asyncio.Event)
    _reached: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        """Let the server go on."""
        self._opened.set()

    async def reached(self, timeout: float = 5) -> None:
        """Wait until the server stands before the gate."""
        async with asyncio.timeout(timeout):
            await self._reached.wait()

    async def passed(self) -> None:
        """Stand before the gate until it is open."""
        self._reached.set()
        await self._opened.wait()


@immutable
@dataclass(frozen=True)
class Event:
    """Sends an event as it is, whatever the protocol says of it."""

    event: Mapping[str, Any]


@immutable
@dataclass(frozen=True)
class Frame:
    """Sends a frame as it is: garbage, or bytes."""

    data: str | bytes


@immutable
@dataclass(frozen=True)
class ServerError:
    """Sends an `error` event."""

    message: str = "scripted"
    code: str | None = None
    type: str = "server_error"


@immutable
@dataclass(frozen=True)
class HangUp:
    """Ends the connection: with a close code, or, where `abrupt`, by dropping the line."""

    code: int = 1000
    reason: str = ""
    abrupt: bool = False


@immutable
@dataclass(frozen=True)
class SessionExpires:
    """Says that the session has run out of time, and ends the connection."""


@immutable
@dataclass(frozen=True)
class UserSpeaks:
    """Lets the user begin to speak, which cancels the response if the session says so."""


Part = Say | Write | Call | AskApproval | Gate | Event | Frame | ServerError | HangUp | SessionExpires | UserSpeaks


@immutable
@dataclass(frozen=True)
class Turn:
    """Is one response: parts, what it used, its status.

    `twice` sends each event a second time; `arrange` gets all events of the turn and says in which order they go.
    """

    parts: tuple[Part, ...]
    usage: Mapping[str, Any] | None = None
    status: str = "completed"
    twice: bool = False
    arrange: Arrange | None = None

    def __init__(
        self,
        *parts: Any,
        usage: Mapping[str, Any] | None = None,
        status: str = "completed",
        twice: bool = False,
        arrange: Arrange | None = None,
    ) -> None:
        object.__setattr__(self, "parts", tuple(map(part_of, parts)))
        object.__setattr__(self, "usage", usage)
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "twice", twice)
        object.__setattr__(self, "arrange", arrange)


def turn_of(given: object) -> Turn:
    """Return what a script has as a turn: a turn, one part, or a list of parts.

    >>> turn_of("hi").parts
    (Say(text='hi', word_ms=40),)
    """
    if isinstance(given, Turn):
        return given
    return Turn(*cast("list[Any]", given)) if isinstance(given, list | tuple) else Turn(given)


def part_of(given: object) -> Part:
    """Return a part; a text is said, and an item of type function_call is a call."""
    if isinstance(given, str):
        return Say(given)
    if isinstance(given, Mapping):
        item = cast("Mapping[str, Any]", given)
        if item.get("type") != "function_call":
            raise ValueError(f"a realtime script has no item of type {item.get('type')!r}; wrap an event in Event(...)")
        return Call(item["name"], item["arguments"], item.get("call_id"))
    if not isinstance(given, Part):
        raise ValueError(f"a realtime script cannot play {given!r}")
    return given
