"""Programs that others start, stood in for: `uv run X` runs X, `npx` and `uvx` are MCP servers with a few tools.

They are written into a folder that comes first on the PATH, so that nothing is fetched.
"""

from __future__ import annotations

import sys
from pathlib import Path

_UV = """#!/bin/sh
shift
exec "{python}" "$@"
"""
_SERVER = """#!/bin/sh
exec "{python}" "{module}" "$@"
"""
_TOOLS = '''
import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("stand-in")
root = next((Path(each) for each in sys.argv[1:] if Path(each).is_absolute()), Path.cwd())


@server.tool()
def list_directory(path: str = "") -> str:
    """List the files of the folder."""
    return "\\n".join(sorted(each.name for each in root.iterdir()))


@server.tool()
def read_file(path: str = "") -> str:
    """Read a file; the first of the folder unless the path names one."""
    files = sorted(each for each in root.iterdir() if each.is_file())
    named = [each for each in files if each.name in path]
    return (named or files)[0].read_text(encoding="utf-8")


@server.tool()
def write_file(path: str, content: str) -> str:
    """Say what would be written."""
    return f"{len(content)} characters"


server.run()
'''


def write_stand_ins(folder: Path, python: str = sys.executable) -> Path:
    """Write the programs into a folder, to be run by this Python."""
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / "stand_in.py"
    module.write_text(_TOOLS, encoding="utf-8")
    for name, text in (("uv", _UV), ("npx", _SERVER), ("uvx", _SERVER)):
        program = folder / name
        program.write_text(text.format(python=python, module=module), encoding="utf-8")
        program.chmod(0o755)
    return folder
