"""The realtime example behind a real server on the loopback, with a model that plays a script. No test is here."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect

from examples.realtime.app import COOKIE, Calls, served
from examples.realtime.support import HEARD, scripted
from keyturn.testing.loopback.realtime import RealtimeServer

TOKEN = "the-token-of-these-tests"
SECONDS = 20


class Page:
    """Talks as the page does, and remembers what it was told."""

    def __init__(self, line: ClientConnection) -> None:
        self.line = line
        self.told: list[dict[str, Any]] = []
        self.sound = b""

    async def says(self, kind: str, **more: Any) -> None:
        await self.line.send(json.dumps({"type": kind, **more}))

    async def until(self, kind: str, words: str = "") -> dict[str, Any]:
        """Read until the page is told something of a kind that has these words in it."""
        async with asyncio.timeout(SECONDS):
            while True:
                frame = await self.line.recv()
                if isinstance(frame, bytes):
                    self.sound += frame
                    continue
                self.told.append(json.loads(frame))
                if self.told[-1]["type"] == kind and words in json.dumps(self.told[-1], ensure_ascii=False):
                    return self.told[-1]

    async def decides(self, kind: str, asked: dict[str, Any], **more: Any) -> None:
        await self.says(kind, request=asked["request"], digest=asked["digest"], **more)


class Office:
    """Serves the example in a thread with a loop of its own; `model` is what plays the model."""

    def __init__(self, journal: Path, script: Any = scripted) -> None:
        self.model = RealtimeServer(script, heard=HEARD)
        self.calls = Calls(f"sqlite:///{journal}", TOKEN)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"http://{self.host}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with self.model as model:
            self.calls.model = {"url": model.url, "api_key": "none"}
            config = uvicorn.Config(served(self.calls), log_level="error", timeout_graceful_shutdown=1)
            self._server = uvicorn.Server(config)
            self._ready.set()
            await self._server.serve([self._socket])

    def does(self, work: Any) -> Any:
        """Run a coroutine in the server's loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    @asynccontextmanager
    async def page(self, run: str | None = None, **headers: str) -> AsyncGenerator[Page]:
        """Open a call as a page of ours does."""
        address = f"ws://{self.host}/call" + (f"?run={run}" if run else "")
        shown = {"Cookie": f"{COOKIE}={TOKEN}", "Origin": self.url, **headers}
        async with connect(address, additional_headers=shown, proxy=None, open_timeout=SECONDS) as line:
            yield Page(line)


@contextmanager
def office(journal: Path, script: Any = scripted) -> Generator[Office]:
    made = Office(journal, script)
    made._thread.start()
    assert made._ready.wait(SECONDS)
    try:
        yield made
    finally:
        made._server.should_exit = True
        made._thread.join(SECONDS)
