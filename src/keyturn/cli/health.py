"""Answer health checks of a worker over HTTP: 200 while it works, 503 while its journal cannot be worked on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..application.app import App
from ..application.tenants import Tenants
from ..application.workers import oldest_due_seconds
from ..core.errors import KeyturnError

_LONGEST = 8_192
_SECONDS = 5.0


@asynccontextmanager
async def health_checks(app: App | Tenants, port: int | None, host: str = "127.0.0.1") -> AsyncGenerator[int | None]:
    """Serve health checks meanwhile, where a port is given; the port that it is (0 takes a free one)."""
    if port is None:
        yield None
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                await reader.readuntil(b"\r\n\r\n")
                error = await app.check_health(_SECONDS - 1)
                oldest = None if error else await oldest_due_seconds(app.journal)
                writer.write(_answer(app, error, oldest))
                await writer.drain()
        except (TimeoutError, OSError, KeyturnError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, or asked for nothing
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=_LONGEST)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _answer(app: App | Tenants, error: str | None, oldest: float | None) -> bytes:
    told: dict[str, object] = {"ok": error is None, "busy": app.busy, "oldest_due_seconds": oldest, "error": error}
    if app.engine is not None:
        told |= {"engine_deaf": app.engine_deaf, "engine_well": app.engine_error is None}
    body = json.dumps(told).encode()
    status = "200 OK" if error is None else "503 Service Unavailable"
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
    return head.encode() + b"\r\n\r\n" + body
