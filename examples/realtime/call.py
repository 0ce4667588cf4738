"""One call: what its session tells goes to a page, and what the page says goes to the session, checked."""

import asyncio
import contextlib
import json
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from keyturn import App, Conflict, NotPending, ToolApprovalItem
from keyturn.core.errors import KeyturnError
from keyturn.realtime import RealtimePlaybackTracker, RealtimeSession
from keyturn.render.escape import escape
from keyturn.render.layout import preview_lines

PIECE = 48_000  # a second of sound: more at once is no microphone
LETTERS = 4_000
LONGEST = 60_000.0  # milliseconds that a page may say it played

Voice = tuple[str, int]


class BadMessage(ValueError):
    """Raised for what no page of ours says; the call goes on."""


class LiveCall:
    """Joins one page with one session."""

    def __init__(self, app: App, session: RealtimeSession, socket: WebSocket, tracker: RealtimePlaybackTracker) -> None:
        self._app, self._session, self._socket = app, session, socket
        # What the page plays, as far as it says so, and the voice that it was sent last.
        self._tracker = tracker
        self._voice: Voice | None = None
        self._left = False
        self._drawn: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, ToolApprovalItem] = {}
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[Any] | None = None
        self.ended = asyncio.Event()

    async def talk(self) -> None:
        """Talk until the page leaves, the session ends, or `leave` is called."""
        if self._left:
            return
        self._task = asyncio.ensure_future(self._both())
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect):
            await self._task

    async def leave(self, words: str) -> None:
        """End this call, since another page takes it over."""
        self._left = True
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await self._tell("over", words=words)
        if self._task is not None:
            self._task.cancel()
        await self.ended.wait()

    async def _both(self) -> None:
        await self._tell("call", run=self._session.run_id)
        await self._draw()
        ways = {asyncio.ensure_future(self._to_the_page()), asyncio.ensure_future(self._from_the_page())}
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)

    # To the page.

    async def _to_the_page(self) -> None:
        async for event in self._session:
            match event.type:
                case "audio":
                    await self._play((event.item_id, event.content_index), event.audio.data)
                case "audio_interrupted":
                    self._voice = None  # what the page played of it does not count any more
                    await self._tell("hush")
                case "history_added" | "history_updated" | "tool_end":
                    await self._draw()
                case "tool_approval_required":
                    await self._ask(event.item)
                case "tool_approval_decided":
                    await self._decided(event.request_id)
                case "error":
                    await self._tell("told", words=escape(f"The line had a fault: {event.error}"))
                case _:
                    pass

    async def _play(self, voice: Voice, sound: bytes) -> None:
        """Send a piece of sound; the page is told whose it is where that changes, and says it of what it played."""
        if voice != self._voice:
            self._voice = voice
            await self._tell("voice", item=voice[0], part=voice[1])
        async with self._sending:
            await self._socket.send_bytes(sound)

    async def _tell(self, kind: str, **more: Any) -> None:
        async with self._sending:
            await self._socket.send_text(json.dumps({"type": kind, **more}))

    async def _draw(self) -> None:
        """Send the lines of the transcript that are new or have changed."""
        for item in self._session.history:
            line = _line(item)
            if line is not None and self._drawn.get(line["id"]) != line:
                self._drawn[line["id"]] = line
                await self._tell("line", **line)

    async def _ask(self, item: ToolApprovalItem) -> None:
        """Show a call whole, as the inbox does: everything escaped, secrets redacted, nothing cut."""
        request = item.request
        self._asked[request.id] = item
        blocks = [
            [{"lead": line.lead, "text": line.text} for line in lines] for lines in preview_lines(request.preview)
        ]
        names = {"request": request.id, "digest": request.digest}
        await self._tell("asks", **names, tool=escape(request.tool), agent=escape(request.agent), blocks=blocks)

    async def _decided(self, request: str) -> None:
        self._asked.pop(request, None)
        row = await self._app.inbox.get(request)
        words = {"approve": "approved", "reject": "rejected"}.get(row.state, row.state)
        await self._tell("decided", request=request, words=escape(f"This was {words} by {row.by or 'nobody'}."))

    # From the page.

    async def _from_the_page(self) -> None:
        while True:
            frame = await self._socket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            try:
                await self._hear(frame)
            except BadMessage as error:
                await self._tell("told", words=escape(f"That was not understood: {error}."))
            except (Conflict, NotPending) as error:
                await self._tell("told", words=escape(f"Nothing was decided: {error}"))
            except KeyturnError as error:
                await self._tell("told", words=escape(str(error)))

    async def _hear(self, frame: Any) -> None:
        sound = frame.get("bytes")
        if sound is not None:
            if len(sound) > PIECE or len(sound) % 2:
                raise BadMessage("sound comes as PCM16, at most a second at once")
            await self._session.send_audio(sound)
            return
        said = _object(frame.get("text") or "")
        match said.get("type"):
            case "say":
                await self._session.send_message(_text(said, "text"))
            case "interrupt":
                await self._session.interrupt()
            case "played":
                self._played(said)
            case "approve":
                await self._session.approve_tool_call(self._shown(said), always=said.get("always") is True, by="caller")
            case "reject":
                words = _text(said, "words", empty=True) or None
                always = said.get("always") is True
                await self._session.reject_tool_call(
                    self._shown(said), always=always, rejection_message=words, by="caller"
                )
            case _:
                raise BadMessage("a message says, interrupts, tells what was played, approves or rejects")

    def _played(self, said: dict[str, Any]) -> None:
        """Count what the page played of the voice that it was sent last."""
        item, part, ms = _text(said, "item"), _number(said, "part"), _number(said, "ms")
        if (item, part) == self._voice:
            self._tracker.on_play_ms(item, int(part), ms)

    def _shown(self, said: dict[str, Any]) -> ToolApprovalItem:
        """Return what this page was shown; its digest says that it still shows that."""
        item = self._asked.get(_text(said, "request"))
        if item is None or item.digest != _text(said, "digest"):
            raise NotPending("it does not wait as it was shown here")
        return item


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text) if len(text) <= 4 * LETTERS else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise BadMessage("a message is a JSON object")
    return said  # pyright: ignore[reportUnknownVariableType]  # any JSON object


def _text(said: dict[str, Any], name: str, *, empty: bool = False) -> str:
    value = said.get(name, "")
    if not isinstance(value, str) or len(value) > LETTERS or not (value or empty):
        raise BadMessage(f"{name} is a text of at most {LETTERS} letters")
    return value


def _number(said: dict[str, Any], name: str) -> float:
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        raise BadMessage(f"{name} is a number from 0 to {LONGEST:.0f}")
    return value


def _line(item: Any) -> dict[str, Any] | None:
    """Return an item of the history as a line of the transcript, escaped; None where there is nothing to read yet."""
    if item.type == "function_call":
        words = "…" if item.output is None else item.output  # its arguments may hold what a tool marks as secret
        return {"id": item.item_id, "who": "tool", "name": escape(item.name), "words": escape(words)}
    who = {"user": "you", "assistant": "agent"}.get(item.role)
    words = " ".join(getattr(part, "text", None) or getattr(part, "transcript", None) or "" for part in item.content)
    return {"id": item.item_id, "who": who, "words": escape(words)} if who and words.strip() else None
