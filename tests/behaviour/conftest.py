"""Each promise about what an agent does is tried with a key of its own."""

import pytest


@pytest.fixture(autouse=True)
def _own_key(own_key: None) -> None:
    """No test reads or makes the user's own key, and none remembers another's logs."""
