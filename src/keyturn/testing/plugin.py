"""The pytest plugin: fixtures for those who test their agents.

pytest loads this file in every project that has Keyturn installed, so nothing else of ours is imported before a fixture
is used, and no plugin but pytest itself is asked for.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

# Suites are asserted in, so pytest must rewrite them, and must know so before they are imported.
SUITES = tuple(
    f"keyturn.testing.suites.{name}"
    for name in ("journals", "models", "policies", "sessions", "tool_asking", "tool_case", "tools")
)
pytest.register_assert_rewrite(*(suite for suite in SUITES if suite not in sys.modules))


@pytest.fixture
def scripted_model() -> Any:
    """Give `ScriptedModel`: `scripted_model([[function_call("pay")], "Done."])` is a model that answers just that."""
    from .. import testing

    return testing.ScriptedModel


@pytest.fixture
def approve_all() -> Any:
    """Give `keyturn.testing.approve_all`, which approves every call of a paused result."""
    from .. import testing

    return testing.approve_all


@pytest.fixture
def journal() -> Any:
    """Give a `MemoryJournal` of this test's own."""
    from ..journal.memory import MemoryJournal

    return MemoryJournal()
