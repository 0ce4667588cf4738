"""An MCP gate: a client of any kind calls a tool of an MCP server, and the call waits in the inbox.

`keyturn gate -- COMMAND` stands before the server: tools pass unchanged, and a call is forwarded once it was approved,
with the arguments that were approved.

Prints:
the client sees: buy
bought 2 tea
Not run: the call of 'buy' was rejected by ada: Once is enough.
"""

import asyncio
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import TextContent

from examples.coding_agent_hook import served
from keyturn import App, ExternalAgent

SHOP = """
from mcp.server import MCPServer
shop = MCPServer("shop", log_level="ERROR")
@shop.tool()
def buy(item: str, count: int = 1) -> str:
    "Buy an item."
    return f"bought {count} {item}"
shop.run("stdio")
"""


async def main() -> None:
    async with App([ExternalAgent()], "memory://") as app, served(app) as url:
        await app.people.start("ada")
        await app.people.add("editor", kind="machine", by="ada")
        token = await app.people.issue_token("editor", ["ask"], by="ada")
        environment = {**os.environ, "KEYTURN_SERVER": url, "KEYTURN_TOKEN": token}
        gate = ["-m", "keyturn", "gate", "--", sys.executable, "-c", SHOP]
        at = StdioServerParameters(command=sys.executable, args=gate, env=environment)
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
                for part in (await buying).content:
                    print(part.text if isinstance(part, TextContent) else part)


if __name__ == "__main__":
    asyncio.run(main())
