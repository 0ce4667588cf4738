"""Keep what has been played of the model's voice, so that an interruption can say what was heard."""

from __future__ import annotations

from typing import Any, TypedDict

from ..core.settable import Sealed
from .audio_formats import milliseconds, to_realtime_audio_format
from .config import RealtimeAudioFormat


class RealtimePlaybackState(TypedDict):
    """What is being played, and how much of it has been played; None where nothing is."""

    current_item_id: str | None
    current_item_content_index: int | None
    elapsed_ms: float | None


class RealtimePlaybackTracker(Sealed):
    """Keeps what your program has played, in place of the guess that everything is played as it comes.

    Give it as `playback_tracker` of the model's config and tell it of every piece that was played.

    >>> tracker = RealtimePlaybackTracker()
    >>> tracker.on_play_bytes("item_1", 0, bytes(4800))
    >>> tracker.get_state()
    {'current_item_id': 'item_1', 'current_item_content_index': 0, 'elapsed_ms': 100.0}
    """

    def __init__(self) -> None:
        self._format: Any = None
        self._item: tuple[str, int] | None = None
        self._elapsed: float | None = None

    def on_play_bytes(self, item_id: str, item_content_index: int, bytes: bytes) -> None:
        """Count a piece of audio that was played."""
        self.on_play_ms(item_id, item_content_index, milliseconds(len(bytes), self._format))

    def on_play_ms(self, item_id: str, item_content_index: int, ms: float) -> None:
        """Count so many milliseconds that were played."""
        if self._item != (item_id, item_content_index):
            self._item = (item_id, item_content_index)
            self._elapsed = ms
        else:
            self._elapsed = (self._elapsed or 0) + ms

    def on_interrupted(self) -> None:
        """Forget what was played: the model tells this where its voice was cut off."""
        self._item = self._elapsed = None

    def set_audio_format(self, format: RealtimeAudioFormat) -> None:
        """Set the format of the bytes; the model tells this when it connects."""
        to_realtime_audio_format(format)
        self._format = format

    def get_state(self) -> RealtimePlaybackState:
        """Return what is being played."""
        item, index = self._item or (None, None)
        return {"current_item_id": item, "current_item_content_index": index, "elapsed_ms": self._elapsed}
