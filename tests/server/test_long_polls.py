"""A long poll ends with its client: the place that it holds is free for the next one."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from keyturn import App, ExternalAgent
from tests.server.programs import HOST, peopled
from tests.waiting import until


async def test_a_client_that_hangs_up_holds_no_place_for_the_rest_of_its_wait() -> None:
    async with App([ExternalAgent()], "memory://") as app:
        await peopled(app)
        await app.people.add("ci", kind="machine", by="ada")
        token = f"Bearer {await app.people.issue_token('ci', ['ask'], by='ada')}"
        served: Any = app.asgi()
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=served), base_url=HOST) as http:
            call = {"key": "order-7", "tool": "pay"}
            asked = await http.post("/v1/asks", json=call, headers={"authorization": token})
        received, gone = [{"type": "http.request", "body": b"", "more_body": False}], asyncio.Event()

        async def receive() -> Any:
            if received:
                return received.pop()
            waits.set()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            pass

        waits, path = asyncio.Event(), f"/v1/asks/{asked.json()['id']}"
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode(), "query_string": b"wait=60", "root_path": ""}
        scope |= {"headers": [(b"host", b"localhost"), (b"authorization", token.encode())]}
        scope |= {"client": ("127.0.0.1", 1), "server": ("localhost", 80)}
        polling = asyncio.ensure_future(served(scope, receive, send))
        await waits.wait()
        gone.set()
        await until(polling.done)
        polling.result()
