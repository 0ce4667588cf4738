"""The console: a person at the keyboard decides about the calls that wait. Nothing is defined here."""

from __future__ import annotations

from .decisions import Undecided, decide

__all__ = ["Undecided", "decide"]
