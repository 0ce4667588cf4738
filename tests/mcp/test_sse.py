"""A real server over SSE: called and asking. What all transports survive is in test_transports.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import MCPServerError, MCPServerSse
from tests.mcp.conftest import calling, log
from tests.playing import play


async def test_a_server_is_called_and_asks(programs: Any, shop: Path) -> None:
    params: Any = {"url": programs("sse").url}
    async with MCPServerSse(params, name="shop", client_session_timeout_seconds=20) as server:
        agent = calling(server, calls=[("picture", {}), ("broken", {}), ("asks", {"amount": 5})])
        result = await play(agent)
        [item] = result.interruptions
        assert (item.name, item.kind) == ("asks", "external")
        state = result.to_state()
        state.answer(item, {"ok": True})
        result = await play(agent, state, streamed=True)
        outputs = {each["call_id"]: each["output"] for each in result.to_input_list() if "output" in each}
        assert (outputs["c1"][0]["type"], outputs["c2"]) == ("input_image", "Error executing tool broken")
        assert outputs["c3"] == "accept: ok=True reason=''"
        assert log(shop) == ["asks 5 accept"]


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MCPServerError, match="could not be connected: ConnectError"):
        await MCPServerSse({"url": "http://127.0.0.1:1/sse"}).connect()


class Events:
    """The older transport in a few lines; the first call cannot be delivered."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.calls = answer, 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            self.events = writer
            start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n"
            writer.write(start)
            return
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        message = json.loads(await reader.readexactly(length))
        self.calls += message["method"] == "tools/call"
        failing = message["method"] == "tools/call" and self.calls == 1
        writer.write(self.answer if failing else b"HTTP/1.1 202 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        result = self._result(message)
        if result is not None and not failing:
            said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            self.events.write(f"event: message\ndata: {said}\n\n".encode())

    def _result(self, message: Any) -> Any:
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}
        version = message.get("params", {}).get("protocolVersion")
        return {
            "initialize": {"protocolVersion": version, **about},
            "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "said"}]},
        }.get(message["method"])


@asynccontextmanager
async def events(answer: bytes) -> AsyncGenerator[tuple[Events, str]]:
    it = Events(answer)
    served = await asyncio.start_server(it, "127.0.0.1", 0)
    try:
        yield it, f"http://127.0.0.1:{served.sockets[0].getsockname()[1]}/sse"
    finally:
        served.close()


UNDELIVERED = {
    "500": b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n",
    "nothing at all": b"",
    "a redirect": b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.2:9/messages\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("how", UNDELIVERED)
async def test_a_message_that_the_older_transport_did_not_deliver(how: str) -> None:
    """The call is in doubt at once, not when its time is over, and the next one finds a new connection."""
    async with events(UNDELIVERED[how]) as (it, url):
        params: Any = {"url": url}
        async with MCPServerSse(params, name="shop", client_session_timeout_seconds=300) as server:
            [item] = (await play(calling(server, calls=("say", {})))).interruptions
            assert (item.kind, it.calls) == ("in_doubt", 1)
            assert (await play(calling(server, calls=("say", {})))).final_output == "said"
            assert it.calls == 2
