"""The source as trees: each file is read once for all the tests that look at it. No test is here."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

#: The mark of tests that look at the source, by which one process runs all of them.
TOGETHER = "the source"


@cache
def parsed(path: Path) -> ast.Module:
    """Read a file as Python; nobody changes what comes of it, for others read it too."""
    collects = gc.isenabled()
    gc.disable()  # a tree has no cycles: to look for garbage among all trees takes longer than to make one
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        if collects:
            gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, from the outside in."""
    return tuple(ast.walk(parsed(path)))


def forget() -> None:
    """Let go of all trees: they take 400 MB."""
    parsed.cache_clear()
    nodes.cache_clear()
