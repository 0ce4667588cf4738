"""Verdicts and terms: what may be said of a call, and what is refused where it is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.approval import Approval
from keyturn.core.durations import milliseconds
from keyturn.core.errors import UserError
from keyturn.core.policy import Verdict
from tests.table import each


@each(
    ("duration", "expected"),
    [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("4h", 14_400_000), ("7d", 604_800_000), ("2w", 1_209_600_000),
     ("1.5d", 129_600_000), (" 4h ", 14_400_000), ("4 h", 14_400_000), (60, 60_000), (0.5, 500), (0.001, 1),
     ("1ms", 1)],
)  # fmt: skip
def test_a_duration_in_milliseconds(duration: str | float, expected: int) -> None:
    made = milliseconds(duration)
    assert made == expected
    assert type(made) is int


@each(
    "duration",
    ["", "h", "4", "4 hours", "4H", "-4h", "+4h", "1e3s", "4h30m", "4h\n4h", "\u0664h", "\uff14h", ".5h", "1_000s",
     "nan", "infs",
     "0s", "0.0001s", "9" * 400 + "s", "9" * 15 + "w", 0, -1, 0.0004, 1e13, 10**400, float("nan"), float("inf"),
     float("-inf"), True, False, None, [1], {"h": 4}, b"4h"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(duration: Any) -> None:
    with pytest.raises(UserError, match="duration"):
        milliseconds(duration)


@given(st.one_of(st.text(), st.floats(), st.integers()))
def test_a_duration_is_positive_or_refused(duration: str | float) -> None:
    try:
        made = milliseconds(duration)
    except UserError:
        return
    assert 1 <= made <= 10**15


def test_terms_that_ask_for_nothing_special() -> None:
    terms = Approval()
    assert (terms.expires_ms, terms.execute_by_ms, terms.needs_people) == (None, None, False)
    assert terms == Approval(users=(), quorum=1)
    assert not Approval(expires="4h", execute_by=60, reason="required", on_expiry="ask_again").needs_people
    assert Approval(execute_by=60).execute_by_ms == 60_000


@each(
    "terms",
    [{"role": "ops"}, {"users": ["ada"]}, {"quorum": 2}, {"deny_quorum": 2}, {"not_requester": True}, {"step_up": True},
     {"escalate_to": ["ops"]}, {"expires": "1h", "on_expiry": "escalate", "escalate_to": ["ops"]}],
)  # fmt: skip
def test_terms_that_need_people(terms: dict[str, Any]) -> None:
    assert Approval(**terms).needs_people


@each(
    ("terms", "says"),
    [({"users": []}, "is empty"),
     ({"users": "ada"}, "users is a list"), ({"users": ["ada", ""]}, "users"), ({"users": [1]}, "users"),
     ({"users": {"ada"}}, "users"), ({"escalate_to": "ops"}, "escalate_to"), ({"role": ""}, "role"),
     ({"role": 1}, "role"),
     ({"quorum": 0}, "quorum"), ({"quorum": -1}, "quorum"), ({"quorum": True}, "quorum"), ({"quorum": 2.0}, "quorum"),
     ({"quorum": "2"}, "quorum"), ({"deny_quorum": 0}, "deny_quorum"), ({"deny_quorum": None}, "deny_quorum"),
     ({"users": ["ada", "ada"], "quorum": 2}, "never be reached"), ({"users": ["ada"], "deny_quorum": 2}, "never be"),
     ({"not_requester": 1}, "not_requester"), ({"step_up": "yes"}, "step_up"), ({"reason": "maybe"}, "reason"),
     ({"on_expiry": "approve", "expires": 1}, "on_expiry"), ({"on_expiry": "ask_again"}, "requires expires"),
     ({"on_expiry": "escalate", "expires": 1}, "escalate_to"), ({"expires": "soon"}, "duration"),
     ({"expires": True}, "duration"), ({"execute_by": 0}, "duration")],
)  # fmt: skip
def test_terms_that_cannot_be_kept_are_refused(terms: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Approval(**terms)


def test_a_quorum_of_a_role_is_not_bounded_by_the_users_listed() -> None:
    assert Approval(role="ops", users=["ada"], quorum=3).quorum == 3  # pyright: ignore[reportArgumentType]  # lists pass


@given(
    st.builds(
        Approval,
        role=st.none() | st.just("ops"),
        users=st.just(()) | st.just(["ada", "bob"]),
        quorum=st.integers(1, 2),
        expires=st.just("4h") | st.integers(1, 10**6) | st.floats(0.01, 1e6),
        on_expiry=st.sampled_from(["reject", "ask_again"]),
        step_up=st.booleans(),
    )
)
def test_terms_come_back_from_a_log_as_they_were(terms: Approval) -> None:
    read = msgspec.json.decode(msgspec.json.encode(terms), type=Approval)
    assert read == terms
    assert hash(read) == hash(terms)
    assert (read.expires_ms, read.needs_people) == (terms.expires_ms, terms.needs_people)
    assert isinstance(terms.users, tuple)


@each("action", ["", "Allow", "approve", "yes", None, True, 1, ["allow"], b"allow"])
def test_a_verdict_is_one_of_three(action: Any) -> None:
    with pytest.raises(UserError, match="'allow', 'ask' or 'deny'"):
        Verdict(action)


def test_a_verdict_has_its_parts_in_their_places() -> None:
    wrong: Any = Approval()
    with pytest.raises(UserError, match="reason"):
        Verdict("ask", wrong)
    wrong = "4h"
    with pytest.raises(UserError, match="terms"):
        Verdict("ask", "", wrong)
    wrong = None
    with pytest.raises(UserError, match="and its by"):
        Verdict("ask", by=wrong)
