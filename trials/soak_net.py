"""What is between the processes of a soak and their servers: a relay that loses replies, and pgbouncer.

A relay passes bytes on. Told to, it lets the next COMMIT of any connection through and cuts that connection before the
answer comes, so that its client cannot know whether it is committed. Whom it leads to can change meanwhile.
"""
# pyright: reportPrivateUsage=false
# A free port, as the server of tests finds one.

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from keyturn.testing.postgres import _free_port

COMMIT = b"COMMIT"
_PIECE = 65_536


class Relay:
    """Listens on loopback, in a thread of its own, and leads to a port of loopback.

    >>> Relay(5432).lost
    0
    """

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.lost = 0
        self._armed = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def lose_commits(self, count: int) -> None:
        """Lose the answers to the next COMMITs."""
        self._armed += count

    @contextmanager
    def open(self) -> Generator[int]:
        """Listen; yield the port."""
        self._thread.start()
        self._ready.wait()
        try:
            yield self.port
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._passed, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, to = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        ways = [asyncio.ensure_future(self._sent(reader, to, writer)), asyncio.ensure_future(_copied(back, writer))]
        with suppress(asyncio.CancelledError):  # as the relay ends
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for end in (to, writer):
                end.close()
            await asyncio.wait(ways)

    async def _sent(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, client: asyncio.StreamWriter) -> None:
        """Pass on what a client sends; after a COMMIT whose answer is to be lost, close its end first."""
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                loses = self._armed > 0 and COMMIT in data
                if loses:
                    self._armed -= 1
                    self.lost += 1
                    client.transport.abort()
                to.write(data)
                await to.drain()
                if loses:
                    await asyncio.sleep(1.0)  # while the server commits
                    return


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()


@contextmanager
def pooled(url: str, folder: Path, port: int) -> Generator[int]:
    """Start pgbouncer in transaction mode, which leads to a port; yield its own."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")
    if program is None:
        raise SystemExit("there is no pgbouncer here: apt-get install pgbouncer")
    to, own = conninfo_to_dict(url), _free_port()
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\n{to['dbname']} = host=127.0.0.1 port={port} dbname={to['dbname']} user={to['user']} "
        f"password={to['password']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\n"
        "pool_mode = transaction\nauth_type = any\nmax_client_conn = 400\ndefault_pool_size = 10\n"
    )
    folder.chmod(0o711)
    ini.chmod(0o644)
    as_nobody = ["-u", "nobody"] if os.geteuid() == 0 else []
    with subprocess.Popen([program, "-q", *as_nobody, ini], stderr=subprocess.DEVNULL) as running:
        try:
            _until_it_answers(url, own)
            yield own
        finally:
            running.kill()


def through(url: str, port: int) -> str:
    """Return the URL by another port of loopback.

    >>> through("postgresql://ann:x@127.0.0.1:5432/a", 7)
    'postgresql://ann:x@127.0.0.1:7/a'
    """
    head, _, tail = url.rpartition(":")
    return f"{head}:{port}/{tail.partition('/')[2]}"


def port_of(url: str) -> int:
    """Return the port of a URL of loopback.

    >>> port_of("temporal://127.0.0.1:7233/default")
    7233
    """
    return int(url.rpartition(":")[2].partition("/")[0])


def _until_it_answers(url: str, port: int) -> None:
    ends = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(through(url, port), connect_timeout=5).close()
        except psycopg.OperationalError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)
        else:
            return


@asynccontextmanager
async def served(engine: str, folder: Path) -> AsyncGenerator[tuple[str, Callable[[], Any] | None]]:
    """Yield the URL of the engine's server, where it has one of its own, and what starts that anew."""
    if engine != "temporal":
        yield "", None
        return
    from tests.fleet.temporal_server import temporal_server

    names = count()

    async def begun(servers: AsyncExitStack) -> str:
        here = folder / f"engine{next(names)}"
        here.mkdir()
        return await servers.enter_async_context(temporal_server(here))

    async with AsyncExitStack() as servers:
        url = await begun(servers)
        relay = Relay(port_of(url))

        async def anew() -> None:
            await servers.pop_all().aclose()
            relay.target = port_of(await begun(servers))

        with relay.open() as port:
            yield through(url, port), anew
