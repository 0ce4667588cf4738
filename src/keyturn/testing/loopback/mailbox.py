"""An SMTP server on 127.0.0.1: it takes mail, or fails in each way that mail servers fail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

_RECIPIENT = {"fails": b"451 4.3.0 try again later", "refuses": b"550 5.1.1 no such user"}
_OK = b"250 2.0.0 OK"


class MailboxServer:
    """Takes mail; `mood` says how it answers: takes, fails, refuses or hangs.

    `envelopes` are the recipients of what it took, `raw` the bytes as they came.
    """

    def __init__(self) -> None:
        self.mood = "takes"
        self.envelopes, self.raw = list[str](), list[bytes]()
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> MailboxServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        assert self._server is not None
        self._server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    @property
    def port(self) -> int:
        """Return its port."""
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    @property
    def mails(self) -> list[EmailMessage]:
        """Return the mails that it took, parsed."""
        parser = BytesParser(policy=policy.default)
        return [parser.parsebytes(each) for each in self.raw]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        try:
            if self.mood == "hangs":
                await asyncio.Event().wait()
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test is over
        finally:
            self._lines.discard(line)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to = ""
        writer.write(b"220 loopback\r\n")
        while command := await reader.readline():
            word = command[:4].upper()
            answer = _RECIPIENT.get(self.mood, _OK) if word == b"RCPT" else _OK
            if word == b"RCPT":
                to = command.decode("ascii").partition("<")[2].partition(">")[0]
            if word == b"DATA":
                writer.write(b"354 go on\r\n")
                self.raw.append((await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n."))
                self.envelopes.append(to)
            if word == b"QUIT":  # without a word, as some servers do
                return
            writer.write(answer + b"\r\n")
            await writer.drain()
