"""Find a time zone by its name."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

_LONGEST = 64


def named_zone(name: object) -> tzinfo | None:
    """Return the zone of a name such as "Europe/Berlin"; None where there is none.

    >>> named_zone("Europe/Berlin"), named_zone("../etc/passwd"), named_zone("UTC"), named_zone(5)
    (zoneinfo.ZoneInfo(key='Europe/Berlin'), None, datetime.timezone.utc, None)
    """
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        return None
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, or a folder
        return None
