"""Keep how much of the model's voice has come and been heard, so that an interruption can name what was cut off.

Without a tracker of the caller's it is taken that audio is played as fast as it lasts, from when it first came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .audio_formats import milliseconds
from .playback import RealtimePlaybackTracker

_REMEMBERED = 64
# How far a player may be behind: so long after its end, a voice can still be cut off.
_BEHIND_MS = 1000.0

Part = tuple[str, int]


@dataclass(frozen=True)
class CutOff:
    """Says which part of which item was cut off; `heard_ms` is None where all of it was heard."""

    item_id: str
    content_index: int
    heard_ms: float | None


class Voice:
    """Follows the audio of one connection."""

    def __init__(self, tracker: RealtimePlaybackTracker | None, clock: Callable[[], float]) -> None:
        self._tracker = tracker
        self._clock = clock
        self._format: Any = None
        self._came: OrderedDict[Part, float] = OrderedDict()
        self._current: tuple[Part, float] | None = None
        self._whole = True
        self._cut: OrderedDict[Part, None] = OrderedDict()

    def set_format(self, given: Any) -> None:
        """Set the format of the audio that comes."""
        self._format = given
        if self._tracker is not None and given is not None:
            self._tracker.set_audio_format(given)

    def hear(self, part: Part, size: int) -> bool:
        """Count a piece of audio; return False where its part was cut off and is not to be played any more."""
        if part in self._cut:
            return False
        if self._current is None or self._current[0] != part:
            self._current = (part, self._clock())
        self._whole = False
        self._came[part] = self._came.pop(part, 0.0) + milliseconds(size, self._format)
        if len(self._came) > _REMEMBERED:
            self._came.popitem(last=False)
        return True

    def finish(self, part: Part) -> None:
        """Note that all audio of a part has come."""
        if self._current is not None and self._current[0] == part:
            self._whole = True

    def cut(self) -> CutOff | None:
        """Stop what is being played and return what that is, None where nothing is."""
        part, heard = self._playing()
        if part is None:
            return None
        came = self._came.get(part)
        over = self._whole and came is not None and heard >= came
        if over and self._tracker is None and heard > (came or 0) + _BEHIND_MS:
            self._current = None
            return None
        if came is not None:
            heard = min(heard, came)
        self._current = None
        self._cut[part] = None
        if len(self._cut) > _REMEMBERED:
            self._cut.popitem(last=False)
        if self._tracker is not None:
            self._tracker.on_interrupted()
        return CutOff(*part, None if over else heard)

    def _playing(self) -> tuple[Part | None, float]:
        if self._tracker is not None:
            state = self._tracker.get_state()
            item = state.get("current_item_id")
            return (
                (None, 0.0)
                if item is None
                else (
                    (item, state.get("current_item_content_index") or 0),
                    float(state.get("elapsed_ms") or 0),
                )
            )
        if self._current is None:
            return None, 0.0
        part, since = self._current
        return part, (self._clock() - since) * 1000
