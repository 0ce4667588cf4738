"""A real server for the tests: `python shop.py stdio`, or `sse` or `streamable-http` with the number of an open socket.

The file `log` in the directory SHOP gets one line for each effect.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from mcp.types import ToolAnnotations
from pydantic import BaseModel

SHOP = Path(os.environ["SHOP"])
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa7\x9a\xa0\xa0\x00\x00\x00\x00IEND\xaeB`\x82"
)
server = MCPServer("shop", request_state_security=RequestStateSecurity(keys=["k" * 40], ttl=3600), log_level="ERROR")


class Weather(BaseModel):
    city: str
    degrees: float


class Confirm(BaseModel):
    ok: bool
    reason: str = ""


def note(line: str) -> None:
    with (SHOP / "log").open("a") as log:
        log.write(line + "\n")


@server.tool()
async def pay(to: str, amount: int, ctx: Context[Any, Any]) -> str:
    """Pays somebody."""
    note(f"pay {to} {amount}")
    return f"paid {amount} to {to}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def weather(city: str) -> Weather:
    """Tells the weather."""
    return Weather(city=city, degrees=21.5)


@server.tool()
async def picture() -> Image:
    """Draws a picture."""
    return Image(data=PNG, format="png")


@server.tool()
async def swap(amount: int, ctx: Context[Any, Any]) -> str:
    """Asks two things within its open call."""
    give, take = await ctx.elicit(f"Give {amount}?", Confirm), await ctx.elicit(f"Take {amount}?", Confirm)
    told = [each.data.reason if each.action == "accept" else each.action for each in (give, take)]
    note(f"swap {amount} {' '.join(told)}")
    return "swapped"


@server.tool()
async def broken() -> str:
    """Fails."""
    raise ValueError("the shop is closed")


@server.tool()
async def slow(seconds: float = 60) -> str:
    """Takes its time."""
    note("slow began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("slow was cancelled")
        raise
    return "done at last"


@server.tool()
async def flood(size: int) -> str:
    """Says a lot."""
    note("flood")
    return "x" * size


@server.tool()
async def secrets() -> str:
    """Tells what it knows of its world."""
    return ",".join(sorted(os.environ))


def sure(amount: int) -> Elicit[Confirm]:
    return Elicit(f"Refund {amount}?", Confirm)


@server.tool()
async def refund(amount: int, sure: Annotated[Confirm, Resolve(sure)]) -> str:
    """Refunds, when somebody says so."""
    note(f"refund {amount} {sure.ok}")
    return f"refunded {amount}: {sure.ok} {sure.reason}".strip()


@server.tool()
async def asks(amount: int, ctx: Context[Any, Any]) -> str:
    """Asks within its open call, as older servers do."""
    answer = await ctx.elicit(f"Really {amount}?", Confirm)
    note(f"asks {amount} {answer.action}")
    return f"{answer.action}: {getattr(answer, 'data', None)}"


def main() -> None:
    transport, socket = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if transport == "stdio":
        server.run("stdio")
        return
    import uvicorn

    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    uvicorn.run(app, fd=socket, log_level="error", timeout_graceful_shutdown=0)


if __name__ == "__main__":
    main()
