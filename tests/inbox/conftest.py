"""What every test of the inbox begins with."""

import pytest

from tests.inbox.paying import paid


@pytest.fixture(autouse=True)
def nothing_was_paid() -> None:
    paid.clear()
