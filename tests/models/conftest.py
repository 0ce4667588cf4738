"""What the tests of models share: a tool that asks, and a secret so that states can be saved."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import function_tool


@pytest.fixture(autouse=True)
def _own_key(own_key: None) -> None:
    """No test reads or makes the user's own key, and none remembers another's logs."""


@pytest.fixture
def paid() -> list[tuple[str, int]]:
    """What the tool `payer` really did."""
    return []


@pytest.fixture
def payer(paid: list[tuple[str, int]]) -> Any:
    """A tool that moves money, and asks."""

    @function_tool(needs_approval=True)
    async def pay(to: str, amount: int = 5) -> str:
        """Pay somebody."""
        paid.append((to, amount))
        return f"paid {amount} to {to}"

    return pay
