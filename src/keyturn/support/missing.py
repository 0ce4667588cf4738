"""What an import of a name or a path that is not there raises: an `ImportError` that says what to use instead.

It stands last among the finders of this process, so that nothing is asked here that exists. What is absent on purpose,
and what to use in its place, is the table in `adapters/openai_agents/absent.py`, which is read on such an import.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_OURS = __name__.partition(".")[0]


class MissingPaths:
    """A finder that finds nothing, and says so in words where the path is one of ours."""

    @staticmethod
    def find_spec(fullname: str, _path: object = None, _target: object = None) -> None:
        """Refuse a path below this package; every other one is somebody else's."""
        package, _, path = fullname.partition(".")
        if package != _OURS or not path or path.rpartition(".")[2].startswith("__"):
            return
        # Without a name of its own it is not taken for a name that the statement may look for elsewhere.
        raise ModuleNotFoundError(_said(path))


def install() -> None:
    """Stand last among the finders of this process, once."""
    if not any(getattr(finder, "__name__", "") == MissingPaths.__name__ for finder in sys.meta_path):
        sys.meta_path.append(MissingPaths)


def speaks(module: str) -> None:
    """Let a module say what to use instead of a name that it does not have."""
    path = module.partition(".")[2]

    def missing(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(_said(f"{path}.{name}"), name=module)

    vars(sys.modules[module])["__getattr__"] = missing


def _said(path: str) -> str:
    return import_module(f"{_OURS}.adapters.openai_agents.absent").said(path)
