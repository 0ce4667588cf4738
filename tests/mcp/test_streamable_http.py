"""Real servers over streamable HTTP: called, not there, hostile. Beside it, test_transports.py kills and floods."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import MCPServerError, MCPServerSse, MCPServerStreamableHttp
from keyturn.testing import approve_all
from tests.mcp.conftest import Program, calling, log
from tests.playing import play, through_text
from tests.table import each


def server_at(url: str, seconds: float = 20, **options: Any) -> MCPServerStreamableHttp:
    return MCPServerStreamableHttp({"url": url}, name="shop", client_session_timeout_seconds=seconds, **options)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One server for all tests that leave it as it is."""
    shop = tmp_path_factory.mktemp("shop")
    (shop / "log").touch()
    with Program("streamable-http", shop) as program:
        yield program


async def test_pictures_errors_and_structures_come_over(streamed: bool, running: Program) -> None:
    async with server_at(running.url, use_structured_content=True) as server:
        calls = [("weather", {"city": "Rome"}), ("picture", {}), ("broken", {}), ("flood", {"size": 20_000_000})]
        result = await play(calling(server, calls=calls), streamed=streamed)
        [item] = result.interruptions
        assert (item.name, item.kind) == ("flood", "in_doubt"), "20 MB are not read"
        outputs = {each["call_id"]: each["output"] for each in result.to_input_list() if "output" in each}
        assert json.loads(outputs["c1"]) == {"city": "Rome", "degrees": 21.5}
        assert outputs["c2"][0]["type"] == "input_image"
        assert outputs["c3"].startswith("Error executing tool broken")


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    with pytest.raises(MCPServerError, match=r"could not be connected: it cannot be reached") as raised:
        await server_at(url).connect()
    assert not raised.value.may_have_acted


class Answers:
    """A server of a few lines that says what it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        message = json.loads(await reader.readexactly(length) or b"{}")
        result = self._result(message)
        if isinstance(result, bytes):
            writer.write(result)
        else:
            body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **result}).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
        try:
            await writer.drain()
        except ConnectionError:
            return
        writer.close()

    def _result(self, message: Any) -> Any:
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}
            return {"result": {"protocolVersion": params["protocolVersion"], **about}}
        if method == "tools/list":
            return {"result": {"tools": [{"name": "say", "description": "Says.", "inputSchema": {"type": "object"}}]}}
        if method == "tools/call":
            self.calls += 1
            return self.answer
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" if "id" in message else _status(202)


def _status(code: int, kind: str = "", body: bytes = b"") -> bytes:
    about = f"Content-Type: {kind}\r\n" if kind else ""
    return f"HTTP/1.1 {code} X\r\n{about}Content-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def answering(answer: Any) -> AsyncIterator[tuple[Answers, str]]:
    answers = Answers(answer)
    served = await asyncio.start_server(answers, "127.0.0.1", 0)
    try:
        yield answers, f"http://127.0.0.1:{served.sockets[0].getsockname()[1]}/mcp"
    finally:
        served.close()


LOST: dict[str, Any] = {
    "500": _status(500),
    "502 of a gateway": _status(502, "text/html", b"<h1>bad gateway</h1>"),
    "202 without an answer": _status(202),
    "another content type": _status(200, "text/html", b"<h1>hi</h1>"),
    "no JSON": _status(200, "application/json", b"{"),
    "half an answer": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"json',
    "nothing at all": b"",
    "an endless body": _status(200, "application/json", b"x" * 20_000_000),
    "an internal error": {"error": {"code": -32603, "message": "oops"}},
    "a claim that nothing was sent": {"error": {"code": -32000, "message": "unsent", "data": "guess"}},
    "no result": {"result": {"nonsense": 1}},
    "events without an answer": _status(200, "text/event-stream", b": nothing\n\n"),
    "an event that is too long": _status(200, "text/event-stream", b"data: " + b"x" * 20_000_000 + b"\n\n"),
    "a redirect": b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.2:9/mcp\r\nContent-Length: 0\r\n\r\n",
}


@each("how", LOST)
async def test_an_answer_that_says_nothing_is_in_doubt(how: str) -> None:
    async with answering(LOST[how]) as (answers, url), server_at(url, mode="legacy", max_retry_attempts=3) as server:
        [item] = (await play(calling(server, calls=("say", {})))).interruptions
        assert (item.kind, answers.calls) == ("in_doubt", 1)


async def test_a_refusal_is_a_result() -> None:
    refusal = {"error": {"code": -32602, "message": "no such tool"}}
    async with answering(refusal) as (answers, url), server_at(url, mode="legacy") as server:
        result = await play(calling(server, calls=("say", {})))
        assert (result.final_output, answers.calls) == (
            "The tool returned no result. MCP server 'shop': no such tool",
            1,
        )


@pytest.mark.trial
async def test_approval_in_one_process_and_call_in_another(running: Program) -> None:
    async with server_at(running.url, require_approval="always") as server:
        agent = calling(server, calls=("pay", {"to": "ada", "amount": 9}))
        state = approve_all(await play(agent))
    async with server_at(running.url, require_approval="always") as server:
        agent = calling(server, calls=("pay", {"to": "ada", "amount": 9}))
        assert (await play(agent, await through_text(agent, state))).final_output == "paid 9 to ada"
    assert log(running.shop).count("pay ada 9") == 1


async def test_a_server_that_is_down_when_an_approval_is_used_keeps_it_for_later(
    streamed: bool, programs: Any, shop: Path
) -> None:
    """Nobody answers: nothing ran, it is an error and no result, and the decision stands."""
    program = programs("streamable-http")
    async with server_at(program.url, require_approval="always") as server:
        agent = calling(server, calls=("pay", {"to": "ada", "amount": 9}))
        state = approve_all(await play(agent, streamed=streamed))
        program.kill()
        server.client_session_timeout_seconds = server.connect_timeout_seconds = 1
        with pytest.raises(MCPServerError) as raised:
            await play(agent, state, streamed=streamed)
        assert not raised.value.may_have_acted
    program.start()
    async with server_at(program.url, require_approval="always") as server:
        agent = calling(server, calls=("pay", {"to": "ada", "amount": 9}))
        state = await through_text(agent, state)
        assert (await play(agent, state, streamed=streamed)).final_output == "paid 9 to ada"
    assert log(shop) == ["pay ada 9"]


@pytest.mark.parametrize("kind", [MCPServerStreamableHttp, MCPServerSse])
def test_servers_without_a_name_are_told_apart_by_all_of_their_address(kind: Any) -> None:
    plain, first, second = (kind({"url": f"https://x.example/mcp{rest}"}) for rest in ("", "?to=staging", "?to=prod"))
    assert plain.name == first.name == second.name
    assert len({server._origin for server in (plain, first, second)}) == 3
