"""The room's door: every name is there, also for type checkers, and the protocol's package waits until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import keyturn
from keyturn import mcp as room


def test_every_name_is_there_once() -> None:
    for name in room.__all__:
        assert getattr(room, name).__name__ == name
        assert getattr(keyturn, name, getattr(room, name)) is getattr(room, name)
    tree = ast.parse(Path(room.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    stubbed = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(map(str, stubbed)) == room.__all__


def test_the_protocols_package_waits_until_it_is_used() -> None:
    script = "import sys, keyturn, keyturn.mcp; keyturn.create_static_tool_filter(); print('mcp' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert said.stdout == "False\n"
