"""The trial of recovery, small: what was in flight is classified, and the table says so."""

from __future__ import annotations

import pytest

from trials.recovery import measure


@pytest.mark.trial
@pytest.mark.usefixtures("forked_children")
def test_what_a_killed_worker_had_in_flight_is_classified() -> None:
    """I2, I6: in doubt, run again with its key, or gone on; `measure` asserts which, and that nothing acted twice."""
    flying, doubts, over, seconds, whole = measure(30)
    assert (flying, doubts, over) == ("30", "18", "12")
    assert 0 < float(seconds) <= float(whole) < 30
