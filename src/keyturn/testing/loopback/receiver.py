"""A receiver of messages on 127.0.0.1: it takes what is posted, or fails in each way that receivers fail."""

from __future__ import annotations

import asyncio

from .lines import LoopbackListener
from .wire import HttpReply, HttpRequest, receive

_REPLIES = {
    "takes": HttpReply.json({"ok": True}),
    "fails": HttpReply.json({"ok": False, "error": "internal_error"}, 503),
    "refuses": HttpReply.json({"ok": False, "error": "channel_not_found"}, 410),
}


class ReceiverServer(LoopbackListener):
    """Takes posts; `mood` says how it answers: takes, fails, refuses, hangs, trickles or floods.

    `replies` overrides what it answers in a mood. `requests` are those that came, `taken` those that it took.
    """

    def __init__(self, replies: dict[str, HttpReply] | None = None) -> None:
        super().__init__()
        self.requests, self.taken = list[HttpRequest](), list[HttpRequest]()
        self.mood = "takes"
        self.read_at_most = 0
        self._replies = _REPLIES | (replies or {})

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await receive(reader)
        if request is not None:
            self.requests.append(request)
            await self._answer(request, writer)

    async def _answer(self, request: HttpRequest, writer: asyncio.StreamWriter) -> None:
        if self.mood == "hangs":
            await asyncio.Event().wait()
        if self.mood == "trickles":
            for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 4_096:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)
        if self.mood in ("takes", "floods"):
            self.taken.append(request)
        reply = self._replies["takes" if self.mood == "floods" else self.mood]
        fields = {**reply.headers, "connection": "close"}
        fields["content-length"] = str(10**10 if self.mood == "floods" else len(reply.body))
        head = f"HTTP/1.1 {reply.status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(head.encode("latin-1") + b"\r\n" + reply.body)
        await writer.drain()
        while self.mood == "floods":
            writer.write(b"x" * 65_536)
            await writer.drain()
            self.read_at_most += 65_536
