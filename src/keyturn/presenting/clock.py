"""Say times as people read them, always by the journal's clock: how long ago, how long still, and when exactly."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from ..core.encodable import moment

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(ms: int, *, exact: bool = False) -> str:
    """Return a length of time in at most two units; seconds beside minutes only where it is `exact`.

    >>> span(8_040_000), span(59_000), span(90_061_000)
    ('2 h 14 min', '59 s', '1 d 1 h')
    >>> span(90_000), span(90_000, exact=True)
    ('1 min', '1 min 30 s')
    """
    seconds = max(ms, 0) // 1000
    for place, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            rest = seconds % size
            lower = _UNITS[place + 1 : place + 2]
            if lower and (exact or lower[0][0] > 1) and rest >= lower[0][0]:
                return f"{seconds // size} {unit} {rest // lower[0][0]} {lower[0][1]}"
            return f"{seconds // size} {unit}"
    return "0 s"


def stamp(ms: int, zone: tzinfo = UTC) -> str:
    """Return a time as it stands on a page: the day, the second, and of which zone it is.

    >>> stamp(0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{moment(ms).astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def here(at: datetime | int) -> str:
    """Return a time for a terminal: in the zone of this machine, with UTC beside it where that is another one.

    >>> here(0)
    '19... UTC...'
    """
    time = moment(at) if isinstance(at, int) else at.astimezone(UTC)
    local = time.astimezone()
    if not local.utcoffset():
        return f"{time:%Y-%m-%d %H:%M:%S} UTC"
    return f"{local:%Y-%m-%d %H:%M:%S %Z} ({time:%H:%M} UTC)"


def hour_here(at: datetime) -> str:
    """Return the time of a day for a terminal, as `here` has it: in UTC alone where that is the zone of this machine.

    >>> hour_here(moment(0))
    '...:...'
    """
    local = at.astimezone()
    return f"{local:%H:%M:%S %Z} ({at.astimezone(UTC):%H:%M} UTC)" if local.utcoffset() else f"{local:%H:%M:%S}"


def in_ms(at: datetime) -> int:
    """Return a time in milliseconds since 1970.

    >>> in_ms(moment(5_000))
    5000
    """
    return round(at.timestamp() * 1000)
