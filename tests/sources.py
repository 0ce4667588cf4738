"""The source as trees: each file is read once for all the tests that look at it. No test is here."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

#: The mark of tests that look at the source, by which one process runs all of them.
TOGETHER = "the source"

Made = TypeVar("Made")


_forgets: list[Callable[[], None]] = []


def kept(function: Callable[..., Made]) -> Callable[..., Made]:
    """Keep what a function makes of trees for as long as the trees are kept."""
    made = cache(function)
    _forgets.append(made.cache_clear)
    return made


@kept
def parsed(path: Path) -> ast.Module:
    """Read a file as Python; nobody changes what comes of it, for others read it too."""
    collects = gc.isenabled()
    gc.disable()  # a tree has no cycles: to look for garbage among all trees takes longer than to make one
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        if collects:
            gc.enable()


@kept
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, from the outside in."""
    return tuple(ast.walk(parsed(path)))


def forget() -> None:
    """Let go of all trees: they take 400 MB, and each collection of garbage looks at them for two seconds."""
    for forget_made in _forgets:
        forget_made()
