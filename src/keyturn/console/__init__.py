"""The console, where a person at the keyboard decides about the calls that wait; only names are exported here.

Each name is imported when first used: the command line draws on the console's screen without an engine.
"""

from __future__ import annotations

from ..support.lazy import lazy_names

_HOMES = {"Undecided": "decisions", "decide": "decisions"}
__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
