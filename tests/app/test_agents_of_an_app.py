"""An app says what its agents have to be."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, App, UserError


@pytest.mark.parametrize("given", [Agent("desk", model="none"), "desk", None, 5])
def test_what_is_no_list_of_agents_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(UserError, match=r"App\(\[agent\]"):
        App(given, "memory://")
