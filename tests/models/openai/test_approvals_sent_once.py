"""A question that has the provider run an approved call is not asked again where it may have been heard."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.models.openai.responses import approves

REQUEST: dict[str, Any] = {"type": "mcp_approval_request", "id": "m1", "name": "pay", "server_label": "s"}
YES: dict[str, Any] = {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True}
NO = {**YES, "approve": False}
USER = {"role": "user", "content": "go on"}
RAN = {"type": "mcp_call", "id": "c1", "name": "pay"}
SAID = {"type": "message", "role": "assistant", "content": "Done."}
OTHER = {"type": "function_call_output", "call_id": "f1", "output": "ok"}


@pytest.mark.parametrize(
    ("items", "acts"),
    [
        ([USER], False),
        ([USER, REQUEST, YES], True),
        ([USER, REQUEST, YES, OTHER, USER], True),
        ([YES], True),
        ([USER, REQUEST, NO], False),
        ([USER, REQUEST, YES, RAN, SAID, USER], False),
        ([USER, REQUEST, YES, SAID], False),
    ],
    ids=str,
)
def test_a_question_with_an_approval_that_no_reply_has_answered_is_asked_once(items: Any, acts: bool) -> None:
    assert approves(items) == acts
