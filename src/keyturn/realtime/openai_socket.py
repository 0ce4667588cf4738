"""Open, write and read one websocket to OpenAI's realtime endpoint, frame by frame.

What is said stands elsewhere. Here is the only import of `websockets`, and it is made when a connection is. Its queue
and its limit on a message's size bound what an unread flood costs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, TypedDict

from .._version import __version__
from ..core.errors import UserError
from .model import RealtimeDisconnected

# An image that the user sent comes back in one frame; audio comes in small ones.
_MAX_SIZE = 32 * 2**20
_MAX_QUEUE = 16
_CLEAN = (1000, 1001)
# How long the other side may take to say that it has ended, too.
_CLOSING = 5.0

log = logging.getLogger("keyturn.realtime")


class TransportConfig(TypedDict, total=False):
    """How the websocket is kept: pings, the time for the handshake, the largest message in bytes; times in seconds.

    >>> transport: TransportConfig = {"ping_interval": 20.0, "handshake_timeout": 10.0}
    """

    ping_interval: float | None
    ping_timeout: float | None
    handshake_timeout: float
    max_size: int | None


_OPTIONS = {
    "ping_interval": "ping_interval",
    "ping_timeout": "ping_timeout",
    "handshake_timeout": "open_timeout",
    "max_size": "max_size",
}


class OpenAISocket:
    """Holds one open connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, url: str, headers: Mapping[str, str], transport: Mapping[str, Any]) -> OpenAISocket:
        """Connect; a refusal or a handshake that takes too long is a `RealtimeDisconnected`."""
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import InvalidHandshake, InvalidURI, WebSocketException
        except ModuleNotFoundError as error:
            raise UserError(
                f"a realtime model needs the package {error.name!r}: pip install 'keyturn[realtime]'"
            ) from error

        class Direct(connect):
            """Follows no redirect: the key, by whatever header it goes, is for the address that was given."""

            def process_redirect(self, exc: Exception) -> Exception | str:
                return exc

        own = any(name.lower() == "user-agent" for name in headers)
        agent = None if own else f"Keyturn/{__version__}"
        options: dict[str, Any] = {"max_size": _MAX_SIZE, "max_queue": _MAX_QUEUE, "close_timeout": _CLOSING}
        options |= {_OPTIONS[name]: value for name, value in transport.items()}
        try:
            return cls(await Direct(url, additional_headers=dict(headers), user_agent_header=agent, **options))
        except InvalidURI as error:
            raise UserError("url is no websocket address: it must begin with ws:// or wss://") from error
        except (InvalidHandshake, WebSocketException, OSError, TimeoutError) as error:
            raise RealtimeDisconnected(f"the realtime model could not be connected: {error}") from error

    @property
    def ended(self) -> bool:
        """Return whether the connection has ended, even if nobody has noticed."""
        return self._connection.protocol.close_code is not None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Write one message, waiting while the socket is full; raise where it was not handed over."""
        from websockets.exceptions import ConnectionClosed

        text = json.dumps(message, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        try:
            await self._connection.send(text)
        except (ConnectionClosed, OSError) as error:
            raise RealtimeDisconnected(
                f"{message.get('type')} was not sent, because the connection has ended: {error}; connect again"
            ) from error

    async def frames(self) -> AsyncIterator[str | bytes]:
        """Return each frame as it comes; end where the connection ends cleanly, raise where it breaks."""
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                frame = await self._connection.recv()
            except ConnectionClosed as error:
                received = error.rcvd.code if error.rcvd is not None else None
                if received in _CLEAN and error.sent is not None:
                    return
                raise
            yield frame

    async def close(self, *, unread: bool = False) -> None:
        """End the connection, however it stands; `unread` says that nobody else reads what still comes.

        The other side's last word stands behind everything that it has sent before.
        """
        closing = asyncio.ensure_future(self._connection.close())
        try:
            if unread:
                async for _ in self.frames():
                    pass
        except Exception:  # the connection broke: it has ended all the same
            log.debug("the connection broke while it was closed", exc_info=True)
        with suppress(OSError):
            await closing


def check_transport(config: Any) -> dict[str, Any]:
    """Return a copy of a transport config; names that it does not have are refused."""
    if config is None:
        return {}
    unknown = set(config) - set(_OPTIONS)
    if unknown:
        raise UserError(f"transport_config has no {sorted(unknown)}; it has {sorted(_OPTIONS)}")
    return dict(config)
