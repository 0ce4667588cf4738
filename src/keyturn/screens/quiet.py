"""Tell the keys that were pressed for what is on the screen from those that were being typed as it came up.

A key counts by the time at which it was pressed, not by the time at which it is looked at: a screen that is being drawn
looks at none, and finds a sentence in the queue afterwards.
"""

from __future__ import annotations

import math
from typing import ClassVar


class Quiet:
    """Says whether a key may be an answer: after something was drawn, and a while without any key.

    >>> quiet = Quiet()
    >>> quiet.answers(10.0)
    False
    >>> quiet.drawn(11.0)
    >>> quiet.answers(11.5), quiet.answers(12.0), quiet.answers(12.7)
    (False, False, True)
    """

    grace: ClassVar[float] = 0.6  # seconds

    def __init__(self) -> None:
        self._until = math.inf

    def begin(self) -> None:
        """Take no key until what comes up now was drawn."""
        self._until = math.inf

    def drawn(self, now: float) -> None:
        """Begin the while: it is on the screen now."""
        self._until = now + self.grace

    def answers(self, pressed_at: float) -> bool:
        """Return whether a key that was pressed then may be an answer; one that may not begins the while anew."""
        if pressed_at >= self._until:
            return True
        self._until = max(self._until, pressed_at + self.grace)
        return False
