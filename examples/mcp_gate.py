"""An MCP gate: a client of any kind calls a tool of an MCP server, and the call waits in the inbox.

`keyturn gate -- COMMAND` is a proxy before the server: tools pass unchanged, and approved calls are forwarded, once.

Prints:
the client sees: buy
bought 2 tea
Not run: the call of 'buy' was rejected by ada: Once is enough.
"""

import asyncio
import os
import socket
import sys

import uvicorn
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import TextContent

from keyturn import App, ExternalAgent

SHOP = """
from mcp.server import MCPServer
shop = MCPServer("shop", log_level="ERROR")
@shop.tool(description="Buy an item.")
def buy(item: str, count: int = 1) -> str:
    return f"bought {count} {item}"
shop.run("stdio")
"""


async def main() -> None:
    async with App([ExternalAgent()], "memory://") as app:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app.asgi(), lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve([listening]))
        await app.people.start("ada")
        await app.people.add("editor", kind="machine", by="ada")
        token = await app.people.issue_token("editor", ["ask"], by="ada")
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        args = ["-m", "keyturn", "gate", "--server", url, "--", sys.executable, "-c", SHOP]
        at = StdioServerParameters(command=sys.executable, args=args, env={**os.environ, "KEYTURN_TOKEN": token})
        async with Client(stdio_client(at, errlog=sys.__stderr__ or sys.stderr)) as client:
            print("the client sees:", *[tool.name for tool in (await client.list_tools()).tools])
            for count in (2, 3):
                buying = asyncio.create_task(client.call_tool("buy", {"item": "tea", "count": count}))
                while not (rows := await app.inbox.list()):
                    await asyncio.sleep(0.01)
                if count == 2:
                    await app.inbox.approve(rows[0], by="ada")
                else:
                    await app.inbox.reject(rows[0], by="ada", message="Once is enough.")
                print(*[part.text for part in (await buying).content if isinstance(part, TextContent)])
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
