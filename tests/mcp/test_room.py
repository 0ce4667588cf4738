"""The room's door: every name is there, also for type checkers, and the protocol's package waits until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import keyturn
from keyturn import mcp as room


def test_every_name_is_there_once() -> None:
    for name in room.__all__:
        assert getattr(room, name).__name__ == name
        assert getattr(keyturn, name, getattr(room, name)) is getattr(room, name)
    tree = ast.parse(Path(room.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    stubbed = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(map(str, stubbed)) == room.__all__


DECLARING = """
import sys
from keyturn.mcp import *
from keyturn import Agent
servers = [
    MCPServerStdio({"command": "x"}, require_approval="always"),
    MCPServerSse({"url": "http://127.0.0.1:1/sse"}),
    MCPServerStreamableHttp({"url": "http://127.0.0.1:1/mcp"}),
]
Agent("clerk", mcp_servers=servers)
"""

WITHOUT = """
import importlib.abc

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mcp", "mcp_types", "httpx2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

sys.meta_path.insert(0, Missing())
"""

USING = """
import asyncio
from keyturn import UserError, Runner
from keyturn.testing import ScriptedModel

for server in servers:
    try:
        asyncio.run(server.connect())
    except UserError as error:
        print(error)
try:
    Runner.run_sync(Agent("clerk", model=ScriptedModel(["hi"]), mcp_servers=servers[:1]), "go")
except MCPServerError as error:
    print(error)
"""


def said_by(*parts: str) -> list[str]:
    command = [sys.executable, "-c", "\n".join(parts)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


@pytest.mark.trial
def test_the_protocols_package_waits_until_a_server_is_connected() -> None:
    assert said_by(DECLARING, "print({'mcp', 'mcp_types', 'httpx2', 'anyio'} & set(sys.modules))") == ["set()"]


@pytest.mark.trial
def test_without_the_extra_everything_can_be_imported_and_connecting_says_what_to_install() -> None:
    everything = "from keyturn import MCPServerStdio, MCPServerSse, MCPServerStreamableHttp, MCPServerManager, MCPTool"
    *connecting, running = said_by("import sys", WITHOUT, everything, DECLARING, USING)
    assert connecting == ["an MCP server needs the package 'mcp': pip install 'keyturn[mcp]'"] * 3
    assert "is not connected" in running
