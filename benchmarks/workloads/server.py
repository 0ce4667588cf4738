"""The server over HTTP on this machine: its overhead per request, a decision to its resumed run, many who watch.

`kind` 0 measures microseconds of CPU of one request that a token makes, beside a bare FastAPI route in the same process
(`bare_us`). 1 measures milliseconds from a decision's request to the end of its run, p99. 2 measures in how many
milliseconds a decision is shown to `n` streams, the last of them. 3 measures milliseconds of the inbox's page over `n`
open requests, p99, and its KB with all that a browser loads for it the first time.
"""

import asyncio
import re
import socket
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ..sampling import median_seconds
from ..script import require
from ..subjects import Subject
from .inbox import NOW, fill


def measure(subject: Subject, n: int, kind: int = 0) -> dict[str, Any]:
    """The figures of one kind."""
    if subject.name != "keyturn":
        return {"missing": "it has no server"}
    return asyncio.run((_request, _decide, _watch, _page)[kind](n))


def _app(journal: Any = "memory://") -> Any:
    from keyturn import Agent, App, function_tool
    from keyturn.testing import ScriptedModel, function_call

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        return f"paid {to}"

    def says(request: Any) -> Any:
        over = any(item.get("type") == "function_call_output" for item in request.input)
        return "Done." if over else [function_call("pay", {"to": "ann"})]

    return App([Agent("desk", model=ScriptedModel(says), tools=[pay])], journal)


async def _tokens(app: Any) -> tuple[str, str]:
    await app.people.start("ada")
    await app.people.add("bot", kind="machine", by="ada")
    decides = await app.people.issue_token("ada", ["decide", "read"], by="ada")
    return decides, await app.people.issue_token("bot", ["run", "read"], by="ada")


async def _request(n: int) -> dict[str, float]:
    import httpx2
    from fastapi import FastAPI

    app, bare = _app(), FastAPI()

    @bare.get("/v1/me")
    async def me() -> dict[str, str]:
        return {"person": "ada"}

    token, _ = await _tokens(app)

    async def cost(served: Any) -> float:
        headers = {"authorization": f"Bearer {token}"}
        transport = httpx2.ASGITransport(app=served)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:

            async def many() -> float:
                begun = time.process_time()
                for _ in range(n):
                    require((await http.get("/v1/me")).status_code == 200, "an answer")
                return time.process_time() - begun

            await many()
            return await median_seconds(many) / n * 1e6

    async with app:
        whole, alone = await cost(app.asgi()), await cost(bare)
    return {"us": whole - alone, "bare_us": alone}


@asynccontextmanager
async def _served(app: Any) -> Any:
    """The app on a port; the server runs in this loop."""
    import uvicorn

    from keyturn.server.running import PatientProtocol

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    served = app.asgi()
    config = uvicorn.Config(served, http=PatientProtocol, ws="none", log_config=None, backlog=2_048)
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://localhost:{listening.getsockname()[1]}"
    finally:
        served.end()
        server.should_exit = True
        await running


async def _decide(n: int) -> dict[str, float]:
    from keyturn.client import AsyncClient

    app = _app()
    token, runs = await _tokens(app)
    times = list[float]()
    async with _served(app) as url, AsyncClient(url, token) as ada, AsyncClient(url, runs) as bot:
        for _ in range(n):
            run = await bot.start("desk", "Pay.")
            await bot.wait(run)
            [asked] = await ada.inbox.list(run=run)
            over = asyncio.ensure_future(app.result(run))
            begun = time.perf_counter()
            await ada.inbox.approve(asked)
            await over
            times.append((time.perf_counter() - begun) * 1e3)
    return {"ms": sorted(times)[max(-2, -len(times))]}


async def _watch(n: int) -> dict[str, float]:
    from keyturn.client import AsyncClient

    app = _app()
    token, runs = await _tokens(app)
    people = [f"p{number}" for number in range(-(-n // 20))]
    for person in people:
        await app.people.add(person, by="ada")
    tokens = [await app.people.issue_token(person, ["read"], by="ada") for person in people]
    async with _served(app) as url, AsyncClient(url, token) as ada, AsyncClient(url, runs) as bot:
        run = await bot.start("desk", "Pay.")
        await bot.wait(run)
        [asked] = await ada.inbox.list(run=run)
        lines = await asyncio.gather(*[_stream(url, tokens[number // 20]) for number in range(n)])
        for reader, _ in lines:
            await reader.readuntil(asked.id.encode())
        begun = time.perf_counter()
        await ada.inbox.reject(asked)
        await asyncio.gather(*[reader.readuntil(b'"requests":[],') for reader, _ in lines])
        spent = (time.perf_counter() - begun) * 1e3
        for _, writer in lines:
            writer.close()
    return {"ms": spent}


async def _page(n: int) -> dict[str, float]:
    import httpx2

    from keyturn.journal.sqlite import SQLiteJournal
    from keyturn.server.visitor import COOKIE

    with tempfile.TemporaryDirectory() as folder:
        journal = SQLiteJournal(Path(folder) / "runs.db", clock=lambda: NOW)
        await fill(journal, n, 0)
        app = _app(journal)
        await _tokens(app)
        session = await app.people.begin_session("ada", "password", lasts="1d")
        times = list[float]()
        async with _served(app) as url, httpx2.AsyncClient(base_url=url, cookies={COOKIE: session}) as http:
            await http.get("/")  # the templates are compiled once
            for _ in range(100):
                begun = time.perf_counter()
                page = await http.get("/")
                times.append((time.perf_counter() - begun) * 1e3)
                require(page.status_code == 200 and "tool_" in page.text, "a page with requests on it")
            size = page.num_bytes_downloaded
            for path in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)):
                size += (await http.get(path)).num_bytes_downloaded
        await journal.close()
    return {"ms": sorted(times)[-2], "kb": page.num_bytes_downloaded / 1e3, "first_kb": size / 1e3}


async def _stream(url: str, token: str) -> Any:
    port = int(url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = f"GET /v1/requests/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    return reader, writer
