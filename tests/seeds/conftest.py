"""A theatre's box office: the agents' world in which the tests of this folder do what the documents show."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import FunctionTool, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs


@pytest.fixture(autouse=True)
def _own_key(own_key: None) -> None:
    """No test reads or makes the user's own key, and none remembers another's logs."""


@pytest.fixture
def sold() -> list[str]:
    """What the tools did."""
    return []


@pytest.fixture
def sell(sold: list[str]) -> FunctionTool:
    """A tool that always asks."""

    @function_tool(needs_approval=True)
    async def sell_seat(seat: str) -> str:
        """Sell a seat."""
        sold.append(seat)
        return f"{seat} is sold"

    return sell_seat


def sale(seat: str, label: str | None = None) -> Any:
    return function_call("sell_seat", {"seat": seat}, call_id=label or seat)


def outputs(model: ScriptedModel) -> dict[str, Any]:
    """What the model read at last, by call."""
    return tool_outputs(model.calls[-1])
