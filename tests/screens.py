"""What tests of screens share. No test is here."""

from __future__ import annotations

import math

from textual.screen import Screen

from keyturn.screens.asking import KeyDialog
from keyturn.screens.call_view import CallView


def drawn(top: Screen[object]) -> bool:
    """Return whether what takes keys can be seen: before that a dialog of one key, and a call, take none."""
    if isinstance(top, KeyDialog):
        return top._quiet._until < math.inf
    return all(view.request is None or view._quiet._until < math.inf for view in top.query(CallView))
