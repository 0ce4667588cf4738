"""An SMTP server on 127.0.0.1: it takes mail, or fails in each way that mail servers fail."""

from __future__ import annotations

import asyncio
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

from .lines import LoopbackListener

_RECIPIENT = {"fails": b"451 4.3.0 try again later", "refuses": b"550 5.1.1 no such user"}
_OK = b"250 2.0.0 OK"


class MailboxServer(LoopbackListener):
    """Takes mail; `mood` says how it answers: takes, fails, refuses or hangs.

    `envelopes` are the recipients of what it took, `raw` the bytes as they came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mood = "takes"
        self.envelopes, self.raw = list[str](), list[bytes]()

    @property
    def mails(self) -> list[EmailMessage]:
        """Return the mails that it took, parsed."""
        parser = BytesParser(policy=policy.default)
        return [parser.parsebytes(each) for each in self.raw]

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mood == "hangs":
            await asyncio.Event().wait()
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
