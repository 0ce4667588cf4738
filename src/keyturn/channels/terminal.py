"""A terminal as a channel: a bell and one line on stderr."""

from __future__ import annotations

import sys
from typing import TextIO

from ..core.settable import Sealed
from ..support.daemon_threads import DaemonThreads
from .base import CHANNEL_RULES, Channel, Message, channel_name


class TerminalChannel(Channel, Sealed):
    """Writes one line for each message, and rings the bell where that is a terminal.

    >>> from keyturn.channels.base import Recipient
    >>> TerminalChannel().name
    'terminal'
    """

    _rules = CHANNEL_RULES

    def __init__(self, stream: TextIO | None = None, *, name: str = "terminal", bell: bool = True) -> None:
        self.name = channel_name(name)
        self.timeout = 5.0
        self.at_once = 1
        self._stream, self._bell = stream, bell
        self._threads = DaemonThreads(1)

    async def send(self, message: Message) -> None:
        stream = self._stream if self._stream is not None else sys.stderr
        ring = "\a" if self._bell and stream.isatty() else ""
        opens = f"  {message.link}" if message.link else ""
        named = f"  [{message.request[:8]}]" if message.request else ""
        line = f"{ring}keyturn: {message.title}{named}{opens}\n"

        def write() -> None:
            stream.write(line)
            stream.flush()

        await self._threads.run(write)  # whoever reads the other end of a pipe may have stopped reading
