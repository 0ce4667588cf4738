"""G9: what comes back from Slack is verified, taken once, and says who clicked on what."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from slack_sdk.signature import SignatureVerifier

from keyturn.channels.slack_replies import SlackClick, SlackRefused, SlackReplies

SECRET, NOW = "8f742231b10e8888abcd99yyyzzz85a5", 1_780_000_000


def signed(payload: Any, at: int = NOW, secret: str = SECRET) -> tuple[bytes, dict[str, str]]:
    body = urlencode({"payload": json.dumps(payload)}).encode()
    made = SignatureVerifier(secret).generate_signature(timestamp=str(at), body=body)
    assert made
    return body, {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": made}


def click(action: str = "keyturn.approve", value: str = "5e1f.2") -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": "U1", "team_id": "T1"},
        "team": {"id": "T1"},
        "response_url": "https://hooks.slack.example/1",
        "actions": [{"action_id": action, "value": value}],
    }


def test_a_click_names_the_asking_the_user_and_the_word() -> None:
    body, headers = signed(click())
    made = SlackReplies(SECRET).verify(body, headers, now=NOW)
    assert made == [SlackClick("approve", "5e1f", 2, "U1", "T1", "https://hooks.slack.example/1", NOW)]


def test_what_is_forged_old_altered_or_sent_again_is_refused() -> None:
    replies, (body, headers) = SlackReplies(SECRET), signed(click())
    forged: list[tuple[bytes, dict[str, str], float]] = [
        (body, {}, NOW),
        (body, {**headers, "X-Slack-Signature": "v0=" + "0" * 64}, NOW),
        (body, {**headers, "X-Slack-Signature": "é\ud800"}, NOW),
        (body, {**headers, "X-Slack-Request-Timestamp": "soon"}, NOW),
        (body, {**headers, "X-Slack-Request-Timestamp": "٣"}, NOW),
        (body.replace(b"5e1f", b"5e2f"), headers, NOW),
        (body, headers, NOW + 301),
        (body, headers, NOW - 301),
        (*signed(click(), secret="another"), NOW),
        (b"\xff" * 300_000, headers, NOW),
    ]
    for given, named, at in forged:
        with pytest.raises(SlackRefused):
            replies.verify(given, named, now=at)
    assert replies.verify(body, headers, now=NOW)
    with pytest.raises(SlackRefused, match="before"):
        replies.verify(body, headers, now=NOW + 10)


def test_what_is_signed_and_not_understood_is_refused() -> None:
    replies = SlackReplies(SECRET)
    strange: list[Any] = [5, [], {"type": "block_actions"}, {**click(), "actions": 5}, {**click(), "user": {}}]
    strange += [click("keyturn.approve", "x"), click("keyturn.grant", "5e1f.1"), click("keyturn.reject", "5e1f.-1")]
    for payload in strange:
        with pytest.raises(SlackRefused):
            replies.verify(*signed(payload), now=NOW)
    assert replies.verify(*signed(click("others.button")), now=NOW) == []
    assert replies.verify(*signed({"type": "view_closed"}), now=NOW) == []
