"""Import each public name of a package when it is first used, so that what is not used need not be installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(
    package: dict[str, Any], homes: Mapping[str, str], root: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package whose names are at home in the modules of a table.

    `package` is the package's `globals()`; the modules are named below `root`, or below the package itself.
    """

    def getter(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        value = package[name] = getattr(import_module(f"{root or package['__name__']}.{home}"), name)
        return value

    def lister() -> list[str]:
        return sorted({*package, *homes})

    return getter, lister


def is_installed(package: str) -> bool:
    """Return whether a package is there, without importing it."""
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # its parent is not there, or somebody put None in its place
        return False
