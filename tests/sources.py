"""The source as trees: each file is read once for all the tests that look at it. No test is here."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Read a file as Python; nobody changes what comes of it, for others read it too."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, from the outside in."""
    return tuple(ast.walk(parsed(path)))
