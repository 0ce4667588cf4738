"""What every test may rely on: how hard Hypothesis tries, and how long a sweep is.

Fixtures for agents, models and journals are in `keyturn.testing`, where users find them too.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

SWEEP = int(os.environ.get("KEYTURN_SWEEP", "25"))

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "sweep", deadline=None, max_examples=SWEEP, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def sweep_size() -> int:
    """How many cases a test marked `sweep` tries: few in `make test`, COUNT in `make sweep`."""
    return SWEEP
