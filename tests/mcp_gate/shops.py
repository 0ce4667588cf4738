"""A shop behind a gate, over stdio or HTTP, and the person who decides. No test is here."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests import forked
from tests.server.programs import Port
from tests.waiting import until

SHOP = """
import os, sys
from mcp.server import MCPServer
shop = MCPServer("shop", log_level="ERROR", instructions="Sells things.")
assert "KEYTURN_TOKEN" not in os.environ, "the server behind the gate could claim what was approved"

words = open(sys.argv[1] + ".words").read()

@shop.tool(description=words)
def buy(item: str, count: int = 1) -> str:
    with open(sys.argv[1], "a") as stream:
        stream.write(f"{count} {item}\\n")
    if item == "bomb":
        os._exit(1)
    if item == "gold":
        raise ValueError("sold out")
    return f"bought {count} {item}"

@shop.tool()
def read_price(item: str) -> int:
    "Tell a price."
    return 3

if "more" in words:
    @shop.tool()
    def sell(item: str) -> str:
        return f"sold {item}"

@shop.resource("shop://terms")
def terms() -> str:
    return "no refunds"

@shop.prompt()
def greet(name: str) -> str:
    return f"Hello {name}"

shop.run("stdio")
"""


class Shop:
    """A shop behind a gate, and the person who decides."""

    def __init__(self, port: Port, folder: Path) -> None:
        self.port, self.log = port, folder / "bought.txt"
        self.script = folder / "shop.py"
        self.script.write_text(SHOP)
        self.describe("Buy an item.")
        port.does(port.app.people.add("editor", kind="machine", by="ada"))
        self.token: str = port.does(port.app.people.issue_token("editor", ["ask"], by="ada"))

    def program(self, *options: str) -> list[str]:
        self.log.write_text("")
        shop = [] if "--http" in options else ["--", forked.python(), str(self.script), str(self.log)]
        return ["-m", "keyturn", "gate", *options, *shop]

    def environment(self, **more: str) -> dict[str, str]:
        ours = {"KEYTURN_SERVER": self.port.url, "KEYTURN_TOKEN": self.token, "PYTHONPATH": os.pathsep.join(sys.path)}
        return {**os.environ, **ours, **more}

    @asynccontextmanager
    async def client(self, *options: str, mode: Any = "auto", **more: str) -> AsyncGenerator[Client]:
        at = StdioServerParameters(command=forked.python(), args=self.program(*options), env=self.environment(**more))
        async with Client(stdio_client(at, errlog=sys.__stderr__ or sys.stderr), mode=mode) as client:
            yield client

    def describe(self, words: str) -> None:
        """Let the shop describe what it sells in other words from its next start on."""
        self.log.with_suffix(".txt.words").write_text(words)

    async def there(self, made: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made, self.port.loop))

    async def pending(self) -> Any:
        async def listed() -> Any:
            return await self.there(self.port.app.inbox.list())

        return (await until(listed))[0]

    async def decided(self, verdict: str, **words: Any) -> Any:
        row = await self.pending()
        await self.there(getattr(self.port.app.inbox, verdict)(row, **{"by": "ada"} | words))
        return row

    @property
    def bought(self) -> list[str]:
        return self.log.read_text().splitlines()

    @asynccontextmanager
    async def listening(self, *options: str) -> AsyncGenerator[str]:
        """Run a gate that listens, and return its URL."""
        program = self.program("--listen", "127.0.0.1:0", *options)
        gate = forked.Program(program, stderr=forked.PIPE, text=True, env=self.environment(KEYTURN_TOKEN=""))
        stream = gate.stderr
        assert stream is not None
        try:
            line = ""
            while "serving " not in line:
                line = await asyncio.to_thread(stream.readline)
                assert line, "the gate ended"
            yield line.split()[-1]
        finally:
            gate.terminate()
            await asyncio.to_thread(gate.wait, 30)
            stream.close()

    @asynccontextmanager
    async def over_http(self, url: str, mode: Any = "auto", token: str = "") -> AsyncGenerator[Client]:
        headers = {"authorization": f"Bearer {token or self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client


async def pending_are(shop: Shop, number: int) -> bool:
    """Return whether so many requests are pending."""
    return len(await shop.there(shop.port.app.inbox.list())) == number


async def none_pending(shop: Shop) -> bool:
    """Return whether no request is pending."""
    return await pending_are(shop, 0)


def text_of(result: Any) -> str:
    """Return the text of a result."""
    return result.content[0].text
