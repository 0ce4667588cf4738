"""What the tests of servers share: a server inside this process, programs beside it, and that none is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcp.client._memory import InMemoryTransport

from keyturn import Agent, MCPServerStdio
from keyturn.mcp import pipes
from keyturn.mcp.options import settings
from keyturn.mcp.protocol_server import ProtocolServer
from keyturn.testing import ScriptedModel, assistant_message, function_call
from tests import forked
from tests.waiting import until, until_now

SERVERS = Path(__file__).parent / "servers"
ROOT = Path(__file__).resolve().parents[2]


class Inside(ProtocolServer):
    """A member of a test's own: a server in this process, in either protocol."""

    def __init__(self, server: Any, name: str = "shop", seconds: float | None = 60, **options: Any) -> None:
        super().__init__(name, settings(bool(options.pop("cache_tools_list", False)), seconds, options))
        self.server = server

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        return InMemoryTransport(self.server)


@cache
def shops() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A process that makes shops, and the line to it; it lasts as long as this one."""
    here, there = socket.socketpair()
    path = os.pathsep.join([*map(str, (ROOT, ROOT / "src")), os.environ.get("PYTHONPATH", "")])
    maker = subprocess.Popen(
        [sys.executable, str(SERVERS / "shops.py"), str(there.fileno())],
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=[there.fileno()],
    )
    there.close()
    return here, maker


class Program:
    """shop.py behind a socket of ours, so that it can be killed and started again at the same address."""

    def __init__(self, transport: str, shop: Path) -> None:
        self.transport, self.shop = transport, shop
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/{'sse' if transport == 'sse' else 'mcp'}"
        self.process: int | None = None

    def start(self) -> None:
        line, _maker = shops()
        socket.send_fds(line, [f"{self.transport} {self.shop}".encode()], [self.socket.fileno()])
        self.process = int(line.recv(64))

    def kill(self) -> None:
        if self.process is not None:
            os.kill(self.process, signal.SIGKILL)
            until_now(lambda: not Path(f"/proc/{self.process}").exists(), 10)
            self.process = None

    def __enter__(self) -> Program:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
        self.socket.close()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Where shop.py writes down what it does."""
    (tmp_path / "log").touch()
    return tmp_path


@pytest.fixture
def programs(shop: Path) -> Iterator[Any]:
    """Start shop.py on a transport; all of them end with the test."""
    with ExitStack() as stack:
        yield lambda transport: stack.enter_context(Program(transport, shop))


@pytest.fixture(autouse=True)
def own_world(own_key: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A key of the test's own, and at the end no process of a server."""
    monkeypatch.setattr(pipes, "STOP_SECONDS", 0.2)
    yield
    assert not pipes._GROUPS, "a server's process was left behind"


def over_stdio(shop: Path, seconds: float = 20, **options: Any) -> MCPServerStdio:
    program, *words = forked.launcher(str(SERVERS / "shop.py"), "stdio")
    command = {"command": program, "args": words, "env": {"SHOP": str(shop)}}
    return MCPServerStdio(command, name="shop", client_session_timeout_seconds=seconds, **options)


def liar(how: str, *more: str, seconds: float = 5, **options: Any) -> MCPServerStdio:
    command = {"command": sys.executable, "args": ["-S", str(SERVERS / "liar.py"), how, *more]}
    return MCPServerStdio(command, name="liar", client_session_timeout_seconds=seconds, mode="legacy", **options)


def log(shop: Path) -> list[str]:
    return (shop / "log").read_text().splitlines()


def calling(*servers: Any, calls: Any, **settings: Any) -> Agent[Any]:
    """An agent whose model makes these calls once, and then says what it read."""
    several = calls if isinstance(calls, list) else [calls]
    made = [function_call(name, arguments, call_id=f"c{place}") for place, (name, arguments) in enumerate(several, 1)]

    def answer(request: Any) -> Any:
        results = [item for item in request.input if str(item.get("type")).endswith("_output")]
        return [assistant_message(" | ".join(said(item) for item in results))] if results else made

    return Agent("desk", model=ScriptedModel(answer), mcp_servers=list(servers), **settings)


def said(item: dict[str, Any]) -> str:
    output = item["output"]
    return output if isinstance(output, str) else ", ".join(part.get("text", part["type"]) for part in output)


async def logged(shop: Path, line: str) -> None:
    """Wait until the shop has written a line."""
    await until(lambda: line in log(shop))
