"""OpenAI's realtime API on 127.0.0.1: a websocket server that plays a script, checks its client and remembers it.

    async with RealtimeServer(["Hello.", [Call("pay", {"to": "ann"}, "c1")], "Done."]) as server:
        await model.connect({"url": server.url, "api_key": "k"})
        ...
        await server.received("conversation.item.create")
    server.outputs["c1"]

Each response plays the next turn of the script (`realtime_script.py` has the parts). A client message that the real
server would refuse gets an `error` event and is in `errors`. `received` and `sent` wait for something to happen, so
that no test sleeps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, Self, cast
from urllib.parse import parse_qs, urlsplit

from .realtime_line import RealtimeLine
from .realtime_rules import BadClientMessage
from .realtime_script import (
    AskApproval,
    Call,
    Event,
    Frame,
    Gate,
    HangUp,
    Say,
    ServerError,
    SessionExpires,
    Turn,
    UserSpeaks,
    Write,
    silence,
    tone,
    turn_of,
)

__all__ = [
    "AskApproval",
    "Call",
    "Event",
    "Frame",
    "Gate",
    "HangUp",
    "RealtimeLine",
    "RealtimeServer",
    "Say",
    "ServerError",
    "SessionExpires",
    "Turn",
    "UserSpeaks",
    "Write",
    "silence",
    "tone",
]

Match = str | Callable[[dict[str, Any]], bool]


class RealtimeServer:
    """Serves a script over the realtime protocol.

    `script` is a list of turns, or a function of the `RealtimeLine` that returns one. `heard` is what the user is
    transcribed to have said, utterance by utterance. `keys` are the keys that are accepted; without them every key is.

    `lines` are the connections in their order; `messages`, `errors`, `outputs` and `approvals` are those of all lines.
    """

    def __init__(
        self,
        script: Iterable[Any] | Callable[[RealtimeLine], Any] = (),
        *,
        heard: Iterable[str] = (),
        keys: Iterable[str] | None = None,
    ) -> None:
        self.lines: list[RealtimeLine] = []
        self.refused: list[Mapping[str, str]] = []
        self.played = 0
        self._respond = script if callable(script) else None
        self._turns: deque[Any] = deque(() if callable(script) else script)
        self._heard = [*heard]
        self._keys = None if keys is None else {*keys}
        self._changed = asyncio.Condition()
        self._server: Any = None
        self._notices: set[asyncio.Task[None]] = set()
        self._conversations: set[asyncio.Task[Any]] = set()

    # What happened.

    @property
    def line(self) -> RealtimeLine:
        """Return the newest connection."""
        if not self.lines:
            raise RuntimeError("nobody has connected yet: wait with `await server.connected()`")
        return self.lines[-1]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return everything that clients sent, line by line."""
        return [message for line in self.lines for message in line.messages]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Return the `error` events that were sent, line by line."""
        return [error["error"] for line in self.lines for error in line.errors]

    @property
    def outputs(self) -> dict[str, list[str]]:
        """Return the results of function calls by call id, in the order in which they came."""
        return _joined(line.outputs for line in self.lines)

    @property
    def approvals(self) -> dict[str, list[bool]]:
        """Return the answers to approval requests by the request's id."""
        return _joined(line.approvals for line in self.lines)

    async def connected(self, count: int = 1, timeout: float = 5) -> RealtimeLine:
        """Wait until so many connections were made, and return the last of them."""
        await self._until(lambda: len(self.lines) >= count, timeout, f"{count} connections")
        return self.lines[count - 1]

    async def disconnected(self, timeout: float = 5) -> None:
        """Wait until no connection is open."""
        await self._until(lambda: not any(line.open for line in self.lines), timeout, "the end of all connections")

    async def received(self, match: Match, count: int = 1, timeout: float = 5) -> list[dict[str, Any]]:
        """Wait until clients have sent so many messages of a type, or that a function says yes to; return them."""
        return await self._found(lambda: self.messages, match, count, timeout)

    async def sent(self, match: Match, count: int = 1, timeout: float = 5) -> list[dict[str, Any]]:
        """Wait until so many events of a type, or that a function says yes to, were sent; return them."""
        return await self._found(lambda: [event for line in self.lines for event in line.events], match, count, timeout)

    async def answered(self, call_id: str, timeout: float = 5) -> str:
        """Wait until a function call has its result, and return it."""
        await self._until(lambda: call_id in self.outputs, timeout, f"the result of {call_id}")
        return self.outputs[call_id][0]

    async def idle(self, timeout: float = 5) -> None:
        """Wait until no response is playing."""
        await self._until(lambda: not any(line.response for line in self.lines), timeout, "the end of the response")

    # What the test lets happen.

    async def speak(self, turn: object) -> None:
        """Begin a response that nobody asked for, on the newest connection."""
        await self.line.respond(turn_of(turn))

    async def user_says(self, text: str) -> None:
        """Let the user say something on the newest connection, as turn detection hears it."""
        line = self.line
        line.heard.insert(0, text)
        await line.ear.begin()
        await self.idle()
        await line.ear.stop()

    async def send(self, data: Any) -> None:
        """Send a frame, or an event as it is, on the newest connection."""
        await self.line.send_as_is(data)

    async def hang_up(self, code: int = 1000, reason: str = "", *, abrupt: bool = False) -> None:
        """End the newest connection; `abrupt` drops the line without a word."""
        await self.line.hang_up(code, reason, abrupt=abrupt)

    # The server itself.

    @property
    def url(self) -> str:
        """Return the address of the websocket."""
        return f"ws://127.0.0.1:{self._port}/v1/realtime?model=gpt-realtime-2.1"

    @property
    def base_url(self) -> str:
        """Return the address that OpenAI's own client is given."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def _port(self) -> int:
        if self._server is None:
            raise RuntimeError("the server is not running: enter it with `async with`")
        return next(iter(self._server.sockets)).getsockname()[1]

    async def __aenter__(self) -> Self:
        try:
            from websockets.asyncio.server import serve
        except ModuleNotFoundError as error:
            raise ImportError(
                f"RealtimeServer needs the package {error.name!r}: pip install 'keyturn[realtime]'"
            ) from error
        self._server = await serve(
            self._line, "127.0.0.1", 0, process_request=self._refuse, max_size=32 * 2**20, close_timeout=1
        )
        return self

    async def __aexit__(self, *_raised: object) -> None:
        for line in self.lines:
            await line.end()
        for task in self._conversations:
            task.cancel()
        self._server.close()
        await self._server.wait_closed()

    async def _refuse(self, connection: Any, request: Any) -> Any:
        """Refuse a handshake that the real server would refuse."""
        target = urlsplit(str(request.path))
        query = parse_qs(target.query)
        key = request.headers.get("Authorization", "")
        refusal = None
        if target.path != "/v1/realtime":
            refusal = (HTTPStatus.NOT_FOUND, "Invalid URL")
        elif not key.startswith("Bearer ") or (self._keys is not None and key[7:] not in self._keys):
            refusal = (HTTPStatus.UNAUTHORIZED, "Incorrect API key provided")
        elif not query.get("model") and not query.get("call_id"):
            refusal = (HTTPStatus.BAD_REQUEST, "Missing required parameter: 'model'.")
        if refusal is None:
            return None
        self.refused.append(dict(request.headers.raw_items()))
        return connection.respond(refusal[0], f"{refusal[1]}\n")

    async def _line(self, socket: object) -> None:
        from websockets.exceptions import ConnectionClosed

        line = RealtimeLine(socket, len(self.lines) + 1, self._next_turn, self._notice)
        line.heard = self._heard
        self.lines.append(line)
        self._notice()
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        try:
            await line.converse()
        except ConnectionClosed:
            pass
        finally:
            self._conversations.discard(task)
            await line.end()

    async def _next_turn(self, line: RealtimeLine) -> Turn:
        if self._respond is not None:
            given = self._respond(line)
            given = await cast("Any", given) if isawaitable(given) else given
        elif self._turns:
            given = self._turns.popleft()
        else:
            raise BadClientMessage(f"the script has {self.played} turns and was asked for one more", "script_ended")
        self.played += 1
        return turn_of(given)

    def _notice(self) -> None:
        task = asyncio.get_running_loop().create_task(self._announce())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, there: Callable[[], bool], timeout: float, what: str) -> None:
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(there)
        except TimeoutError:
            last = [message.get("type") for message in self.messages][-10:]
            raise AssertionError(
                f"waited {timeout} s for {what}; clients last sent {last}, errors were {self.errors[-3:]}"
            ) from None

    async def _found(
        self, look: Callable[[], list[dict[str, Any]]], match: Match, count: int, timeout: float
    ) -> list[dict[str, Any]]:
        def fits(message: dict[str, Any]) -> bool:
            return match(message) if callable(match) else message.get("type") == match

        def found() -> list[dict[str, Any]]:
            return [message for message in look() if fits(message)]

        await self._until(lambda: len(found()) >= count, timeout, f"{count} of {match}")
        return found()


def _joined(tables: Iterable[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    joined: dict[str, list[Any]] = {}
    for table in tables:
        for name, values in table.items():
            joined.setdefault(name, []).extend(values)
    return joined
