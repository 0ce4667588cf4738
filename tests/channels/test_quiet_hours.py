"""When quiet hours end, by the clocks of their zone, also where these are put forward over that very time."""

from __future__ import annotations

from datetime import UTC, datetime

from keyturn.channels.base import QuietHours


def test_quiet_hours_whose_end_the_clocks_skip_end_as_these_are_put_forward() -> None:
    quiet = QuietHours("22:00", "02:30", "America/New_York")
    for now in (datetime(2026, 3, 8, 3, 6, tzinfo=UTC), datetime(2026, 3, 8, 6, 59, tzinfo=UTC)):
        assert quiet.until(now) == datetime(2026, 3, 8, 7, tzinfo=UTC)
    midnight = QuietHours("22:00", "00:30", "America/Sao_Paulo")
    assert midnight.until(datetime(2011, 10, 16, 1, 10, tzinfo=UTC)) == datetime(2011, 10, 16, 3, tzinfo=UTC)
