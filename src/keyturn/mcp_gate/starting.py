"""Put a gate together and serve it: over stdio for one client, or over HTTP for each account that shows its token."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from mcp import Client

from ..client.client import AsyncClient
from ..core.errors import UserError
from ..server.running import ListeningAddress, Running
from .changes import ListChanges
from .exchanges import Exchanges
from .holding import Holding
from .listening import PATH, Callers, ListeningGate
from .pins import Pins
from .proxy import McpGate
from .records import GateRecords, records_file

_GRACE = 10.0
_ANSWERED = 0.5  # seconds in which the last answers are written
_ENDED = "the MCP server ended: start the gate again"
_CHANGED = "its calls wait until a person accepts the definition"


class GateSettings(NamedTuple):
    """Says before which MCP server a gate stands, and what it does with calls.

    `server` is the URL of the Keyturn server, `known` what the MCP server is the same by, at every start; `name` is
    what policies know it by.
    """

    server: str
    known: str
    name: str
    hold: float
    keep: float
    ungated: tuple[str, ...]

    def holding(self, account: str, keyturn: AsyncClient) -> Holding:
        """Return how the calls of one account are held."""
        return Holding(keyturn.asks, self.hold, GateRecords(records_file(self.server, self.known, account)), self.keep)

    @asynccontextmanager
    async def gate(self, at: Any, holding: Holding | None, tell: Callable[[str], None]) -> AsyncGenerator[McpGate]:
        """Connect to a server, begin a gate before it, and tell what it changed since the last start."""
        pins = Pins(GateRecords(records_file(self.server, self.known)))
        exchanges, changes = Exchanges(), ListChanges()
        async with Client(at, elicitation_callback=exchanges.elicited, message_handler=changes.received) as up:
            named: Any = {"ungated": self.ungated, "name": self.name, "remote": isinstance(at, str)}
            made = McpGate(up, exchanges, changes, pins, holding, **named)
            try:
                for change in await made.begin():
                    tell(f"{change}: {_CHANGED}")
                yield made
            finally:
                await made.end()


async def serve_stdio(at: Any, settings: GateSettings, token: str, tell: Callable[[str], None]) -> None:
    """Serve on stdin and stdout until the client hangs up."""
    async with (
        AsyncClient(settings.server, token) as keyturn,
        settings.gate(at, settings.holding("", keyturn), tell) as gate,
    ):
        ending = asyncio.ensure_future(_ended_with(gate, tell))
        try:
            await gate.serve()
        finally:
            ending.cancel()


async def _ended_with(gate: McpGate, tell: Callable[[str], None]) -> None:
    """End the process once its MCP server has ended, so that its client starts both anew."""
    await gate.lost.wait()
    tell(_ENDED)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(gate.end(), _GRACE)  # which reports calls that are in doubt
    await asyncio.sleep(_ANSWERED)
    os._exit(1)  # no read of stdin can be cancelled


async def serve_http(at: Any, settings: GateSettings, address: ListeningAddress, tell: Callable[[str], None]) -> None:
    """Serve over streamable HTTP until the process is stopped."""
    callers = Callers(settings.server, settings.holding)
    with address.bound() as listening:
        try:
            async with settings.gate(at, None, tell) as gate:
                listening.listen()  # who reads the URL may connect
                tell(f"serving {replace(address, port=listening.getsockname()[1]).url}{PATH}")
                served = ListeningGate(gate, callers, address.known_hosts)
                running = Running(served, address, grace=_GRACE)
                lost = asyncio.ensure_future(gate.lost.wait())
                lost.add_done_callback(lambda done: None if done.cancelled() else running.stop())
                await running.serve([listening])
                ended = not lost.cancel()
        finally:
            await callers.close()
    if ended:
        raise UserError(_ENDED)


def listening_address(given: str, hosts: tuple[str, ...], *, secure: bool) -> ListeningAddress:
    """Return where to listen: on this machine alone, or behind a reverse proxy that encrypts.

    >>> listening_address("127.0.0.1:8322", (), secure=False).url
    'http://localhost:8322'
    """
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"--listen is an address and a port, such as 127.0.0.1:8322, not {given!r}")
    address = ListeningAddress(host=host, port=int(port), hosts=hosts, secure=secure)
    if address.public and not address.encrypted:
        raise UserError(
            f"{host} is reachable from the network and the connection would not be encrypted: pass --secure if a "
            "reverse proxy in front terminates TLS"
        )
    return address
