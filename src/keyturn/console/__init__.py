"""The console, where a person at the keyboard decides about the calls that wait; only names are exported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .decisions import Undecided, decide

__all__ = ["Undecided", "decide"]
__getattr__, __dir__ = lazy_names(globals(), {"Undecided": "decisions", "decide": "decisions"})
