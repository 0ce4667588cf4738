"""What tests of screens share. No test is here."""

from __future__ import annotations

import math

from textual.screen import Screen

from keyturn.screens.asking import KeyDialog


def drawn(top: Screen[object]) -> bool:
    """Return whether a dialog that is answered by one key can be seen: before that it takes none."""
    return not isinstance(top, KeyDialog) or top._quiet._until < math.inf
