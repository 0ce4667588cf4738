"""Say in which time zone a visitor reads: the one of their account, else the one of their browser, else UTC.

The script puts the name of the browser's zone into a cookie. It is a name and no time: a browser whose clock is years
off reads the same times as others. A name that is none counts as not given.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from urllib.parse import unquote

from starlette.requests import HTTPConnection

from ..core.encodable import moment
from ..core.errors import UserError
from ..presenting.clock import stamp
from ..support.zones import named_zone

#: The cookie, and the setting of a person, that name a zone.
COOKIE = "keyturn_zone"
SETTING = "zone"


def zone_of(request: HTTPConnection, settings: dict[str, Any]) -> tzinfo:
    """Return the zone in which a visitor reads times."""
    return named_zone(settings.get(SETTING)) or named_zone(browser_zone(request)) or UTC


def browser_zone(request: HTTPConnection) -> str:
    """Return the name of the zone that a browser says it is in; "" where it says none."""
    name = unquote(request.cookies.get(COOKIE, ""))
    return name if named_zone(name) is not None else ""


def exactly(ms: int, zone: tzinfo) -> str:
    """Return a time as a hint has it: by the reader's clock, with UTC beside it.

    >>> from zoneinfo import ZoneInfo
    >>> exactly(0, ZoneInfo("Europe/Berlin")), exactly(0, UTC)
    ('1970-01-01 01:00:00 CET, 1970-01-01 00:00:00 UTC', '1970-01-01 00:00:00 UTC')
    """
    return stamp(ms) if zone is UTC else f"{stamp(ms, zone)}, {stamp(ms)}"


def day_in(text: str, zone: tzinfo, *, ends: bool = False) -> datetime | None:
    """Return when a day of a form begins, or with `ends` its last moment; a whole time is taken as it is.

    >>> from zoneinfo import ZoneInfo
    >>> day_in("2026-11-02", ZoneInfo("Europe/Berlin")).isoformat()
    '2026-11-02T00:00:00+01:00'
    """
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        day = len(text) <= len("2026-11-02")
        if day and ends:
            following = datetime.combine(at.date() + timedelta(days=1), time(), zone)
            return following - timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise UserError(f"a date is such as 2026-11-02, not {text!r}") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)


def periods(now: int, zone: tzinfo) -> list[tuple[str, date, date]]:
    """Return the periods that people look for, with their first and last day.

    >>> [(name, str(first), str(last)) for name, first, last in periods(1_793_611_440_000, UTC)][2]
    ('Last week', '2026-10-26', '2026-11-01')
    """
    today = moment(now).astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())
    return [
        ("Today", today, today),
        ("This week", monday, today),
        ("Last week", monday - timedelta(days=7), monday - timedelta(days=1)),
        ("Last 30 days", today - timedelta(days=29), today),
    ]
