"""An answer that is not read is in memory: it is given up after a while, and its reader has few of them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvicorn

from keyturn import MemoryJournal
from keyturn.application.app import App
from keyturn.server import running
from keyturn.server.asgi import face, limited
from keyturn.server.settings import ServerSettings
from keyturn.server.turns import AT_ONCE
from tests.server.programs import agents, peopled
from tests.waiting import turns_of_the_loop, until


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer with more than any socket takes by itself."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": bytes(32 << 20), "more_body": False})


@pytest.mark.parametrize("read", [0, 1])
async def test_a_connection_that_does_not_read_its_answer_is_ended(monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    monkeypatch.setattr(running, "_TAKEN_WITHIN", 0.1)
    config = uvicorn.Config(large, http=running.PatientProtocol, ws="none", log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as reader:
        serving = asyncio.ensure_future(server.serve([listening]))
        await until(lambda: server.started)
        reader.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(reader, listening.getsockname())
        await loop.sock_sendall(reader, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: len(server.server_state.connections) == 1)
        if read:  # a byte now and then is no reading
            await loop.sock_recv(reader, read)
        await until(lambda: not server.server_state.connections)
        server.should_exit = True
        await serving


async def test_a_person_who_reads_no_answer_has_few_of_them_and_holds_up_nobody_else() -> None:
    app = App(agents(), MemoryJournal(), worker=False)
    async with app:
        tokens = await peopled(app)
        made = face(app, ServerSettings())
        made.state.settings = ServerSettings()
        served = limited(made)
        started: list[str] = []
        unread = asyncio.Event()

        async def asked(who: str) -> None:
            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    started.append(who)
                elif not message.get("more_body", False):
                    await unread.wait()

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {tokens[who]}".encode())]
            scope = {"type": "http", "method": "GET", "path": "/v1/openapi.json", "raw_path": b"", "query_string": b""}
            scope |= {"headers": headers, "client": ("192.0.2.7", 5), "scheme": "http", "server": ("localhost", 80)}
            await served(scope | {"root_path": "", "app": made, "state": {}}, receive, send)

        readers = [asyncio.ensure_future(asked("ben")) for _ in range(AT_ONCE + 5)]
        await until(lambda: len(started) >= AT_ONCE)
        await turns_of_the_loop(50)
        assert started == ["ben"] * AT_ONCE
        readers.append(asyncio.ensure_future(asked("bea")))
        await until(lambda: "bea" in started)
        unread.set()
        await asyncio.gather(*readers)
        assert started.count("ben") == AT_ONCE + 5
