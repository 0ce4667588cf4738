"""Say whether what takes the keys of a screen in the terminal was drawn: before that no key is an answer to it.

No test is here.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from keyturn.screens.asking import KeyDialog
from keyturn.screens.call_view import CallView


def is_drawn(app: Any) -> bool:
    """Return whether a key that is pressed now is taken, by a call or by the dialog over it."""
    if not app.screen_stack:  # it was left
        return True
    top: Any = app.screen_stack[-1]
    if len(app.screen_stack) > 1:
        return not isinstance(top, KeyDialog) or isfinite(top._quiet._until)
    return all(view.request is None or isfinite(view._quiet._until) for view in top.query(CallView))
