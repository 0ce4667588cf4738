"""Names of audio formats: as settings say them and as the wire has them, and how long a piece of audio lasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.errors import UserError

PCM_RATE = 24_000
_PCM: dict[str, Any] = {"type": "audio/pcm", "rate": PCM_RATE}
_BY_NAME: dict[str, dict[str, Any]] = {
    "pcm16": _PCM,
    "pcm": _PCM,
    "audio/pcm": _PCM,
    "g711_ulaw": {"type": "audio/pcmu"},
    "audio/pcmu": {"type": "audio/pcmu"},
    "pcmu": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
    "audio/pcma": {"type": "audio/pcma"},
    "pcma": {"type": "audio/pcma"},
}
# Telephone audio is 8000 bytes a second; PCM is 24000 samples of two bytes.
_BYTES_A_MS = {"audio/pcm": PCM_RATE * 2 / 1000, "audio/pcmu": 8.0, "audio/pcma": 8.0}


def to_realtime_audio_format(given: object) -> dict[str, Any] | None:
    """Return a format as the wire has it, None where none is given.

    >>> to_realtime_audio_format("pcm16"), to_realtime_audio_format({"type": "audio/pcmu"})
    ({'type': 'audio/pcm', 'rate': 24000}, {'type': 'audio/pcmu'})
    """
    if given is None:
        return None
    told: Any = cast("Mapping[str, Any]", given).get("type") if isinstance(given, Mapping) else given
    name: Any = getattr(told, "type", told)
    known = _BY_NAME.get(name) if isinstance(name, str) else None
    if known is None:
        raise UserError(f"audio format {given!r} is not known: use 'pcm16', 'g711_ulaw' or 'g711_alaw'")
    return dict(known)


def milliseconds(size: int, given: Any = None) -> float:
    """Return how long so many bytes of a format last; without a format it is PCM.

    >>> milliseconds(4800), milliseconds(800, "g711_ulaw")
    (100.0, 100.0)
    """
    told = to_realtime_audio_format(given) or _PCM
    return size / _BYTES_A_MS[told["type"]]
