"""A turn that its editor cancels leaves no request of its agent without an answer."""

from __future__ import annotations

import json
from typing import Any

from keyturn.acp_gate.proxy import AcpGate
from tests.acp_gate.test_acp import asks, chosen, makes


async def test_a_request_whose_turn_is_cancelled_as_it_comes_is_answered_and_asked_of_nobody() -> None:
    told: list[Any] = []
    nothing: Any = None
    gate = AcpGate(nothing, "agent", lambda line: told.append(json.loads(line)), lambda line: None, print)
    gate.from_agent(json.dumps(asks(7, makes())).encode())
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
    gate.from_editor(json.dumps(cancel).encode())
    await gate.close()
    assert [chosen(each) for each in told if each.get("id") == 7] == [(7, "cancelled")]
