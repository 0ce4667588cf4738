"""The console, where a person at the keyboard decides about the calls that wait; only names are exported here."""

from __future__ import annotations

from .decisions import Undecided, decide

__all__ = ["Undecided", "decide"]
