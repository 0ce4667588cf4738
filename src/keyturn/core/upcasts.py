"""Upcast retired versions of events to the current one: one function per retired version.

Each line says which version wrote it, and so does the header of a state. `UPCASTS` maps a version to the version that
followed it and the function that rewrites one event, as a plain dict, between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

VERSION = "2"
#: The same as a number, by which stores compare: no line that this Keyturn reads has a higher one.
FORMAT = int(VERSION)

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTS: dict[str, tuple[str, Upcast]] = {}


def readable(upcasts: Mapping[str, tuple[str, Upcast]] = UPCASTS) -> list[str]:
    """Return the versions that can be read, the current one last."""
    return [*upcasts, VERSION]


def upcast(event: dict[str, Any], version: str, upcasts: Mapping[str, tuple[str, Upcast]] = UPCASTS) -> dict[str, Any]:
    """Convert one event of an older version to this one."""
    while version != VERSION:
        version, rewrite = upcasts[version]
        event = rewrite(event)
    return event
