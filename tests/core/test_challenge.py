"""A challenge is all that a person says and nothing else: no two sayings have one, on any machine, for years."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyturn.core import challenge
from keyturn.core.challenge import decision_challenge, decision_text, key_challenge, key_text
from keyturn.core.errors import BadJson, UserError
from keyturn.core.people import Decider, Proof
from keyturn.core.records import Decision, GrantTerms
from tests.table import each

GOLDEN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("challenges.json").read_text(encoding="utf-8"))
DECISION = Decision("r/1.0", "approve", "5e1f")
GRANT = GrantTerms("g1", "desk", "tool-digest", where={"amount": {"le": 50}}, expires_at=1_000, uses=10)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4)
few = st.sampled_from(["", "a", "b", '"', '","', "null", "approve", "\\"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | few,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(few, inner, max_size=2),
    max_leaves=4,
)
verdicts = st.sampled_from(["approve", "edit", "reject", "answer", "ran", "did_not_run", "retry"])
decisions = st.builds(
    Decision,
    st.just("r/1.0"),
    verdicts,
    few,
    note=st.none() | few,
    message=st.none() | few,
    args=st.none() | few,
    basis=st.none() | st.dictionaries(few, few, max_size=2),
    output=json_values,
)
grants = st.none() | st.builds(
    GrantTerms,
    few,
    few,
    few,
    verdict=st.sampled_from(["approve", "reject"]),
    where=st.none() | st.dictionaries(few, json_values, max_size=2),
    expires_at=st.none() | st.integers(0, 3),
    uses=st.none() | st.integers(1, 3),
    message=st.none() | few,
    reach=few,
)
names = st.sampled_from(["a", "b", '"', '","', "a,b"])
sayings = st.tuples(names, names, st.integers(1, 3), decisions, grants)


def typed(value: Any) -> Any:
    """A value and the types in it, so that 1, 1.0 and True are three values, and 0.0 and -0.0 are two."""
    if isinstance(value, dict):
        return ("object", sorted((name, typed(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return ("list", [typed(inner) for inner in value])
    return (type(value).__name__, repr(value))


def said(tenant: str, request: str, revision: int, decision: Decision, grant: GrantTerms | None) -> Any:
    parts = [typed(getattr(decision, name)) for name in challenge.SAID]
    given = None if grant is None else [typed(getattr(grant, name)) for name in challenge.GRANT_SAID]
    return [tenant, request, revision, parts, given]


@given(sayings, sayings)
def test_no_two_sayings_have_one_challenge(one: Any, other: Any) -> None:
    assert (decision_challenge(*one) == decision_challenge(*other)) == (said(*one) == said(*other))


@given(sayings)
def test_what_is_not_said_changes_nothing(one: Any) -> None:
    tenant, request, revision, decision, grant = one
    recorded = msgspec.structs.replace(
        decision, at=5, decider=Decider("ada"), via="probe", runs="x", proof=Proof("ssh", "k", b"p"), call="r/2.0"
    )
    given_out = None if grant is None else msgspec.structs.replace(grant, id="other", decider=Decider("ada"))
    assert decision_challenge(tenant, request, revision, recorded, given_out) == decision_challenge(*one)


@given(sayings)
@example(("a", "r", 1, Decision("r/1.0", "answer", "d", output=[2**70, -(2**70), 1e300, -0.0, 1e16]), None))
def test_what_a_log_keeps_has_the_challenge_that_was_signed(one: Any) -> None:
    tenant, request, revision, decision, grant = one
    kept = msgspec.json.decode(msgspec.json.encode(decision), type=Decision)
    given_out = None if grant is None else msgspec.json.decode(msgspec.json.encode(grant), type=GrantTerms)
    assert decision_challenge(tenant, request, revision, kept, given_out) == decision_challenge(*one)


@each(
    "field, value",
    [
        ("digest", "5e2f"),
        ("verdict", "reject"),
        ("args", "{}"),
        ("basis", {}),
        ("output", ""),
        ("message", ""),
        ("note", ""),
    ],
)
def test_each_word_of_a_decision_changes_it(field: str, value: Any) -> None:
    changed = msgspec.structs.replace(DECISION, **{field: value})
    assert decision_challenge("acme", "r1", 1, changed) != decision_challenge("acme", "r1", 1, DECISION)


@each(
    "field, value",
    [
        ("agent", "other"),
        ("tool", "other"),
        ("verdict", "reject"),
        ("where", {"amount": {"le": 51}}),
        ("where", {"amount": {"le": 50.0}}),
        ("where", None),
        ("expires_at", 1_001),
        ("expires_at", None),
        ("uses", 11),
        ("uses", None),
        ("message", "no"),
        ("reach", "all"),
    ],
)
def test_each_term_of_a_grant_changes_it(field: str, value: Any) -> None:
    changed = msgspec.structs.replace(GRANT, **{field: value})
    assert decision_challenge("acme", "r1", 1, DECISION, changed) != decision_challenge(
        "acme", "r1", 1, DECISION, GRANT
    )


@each("place", [("acme2", "r1", 1), ("acme", "r2", 1), ("acme", "r1", 2)])
def test_each_place_has_its_own(place: tuple[str, str, int]) -> None:
    assert decision_challenge(*place, DECISION) != decision_challenge("acme", "r1", 1, DECISION)


def test_every_recorded_field_is_said_or_is_not() -> None:
    """A new field of what is recorded is a choice: it is signed, or it is listed as not known when they sign."""
    assert sorted(Decision.__struct_fields__) == sorted(challenge.SAID + challenge.SAID_ALSO + challenge.NOT_SAID)
    assert sorted(GrantTerms.__struct_fields__) == sorted(challenge.GRANT_SAID + challenge.GRANT_NOT_SAID)


def made(case: dict[str, Any]) -> tuple[str, bytes]:
    words = dict(case["of"])
    if case["tag"] == "keyturn key 1":
        words["public"] = words["public"].encode()
        return key_text(**words), key_challenge(**words)
    decision = msgspec.convert(words.pop("decision"), Decision)
    grant = words.pop("grant", None)
    terms = None if grant is None else msgspec.convert(grant, GrantTerms)
    return decision_text(**words, decision=decision, grant=terms), decision_challenge(
        **words, decision=decision, grant=terms
    )


@each("case", GOLDEN, ids=lambda case: case["name"])
def test_the_challenges_of_the_first_day_stand(case: dict[str, Any]) -> None:
    text, signed = made(case)
    assert (text, signed.hex()) == (case["text"], case["challenge"])
    assert hashlib.sha256(case["text"].encode()).hexdigest() == case["challenge"]
    if "float" not in case["name"]:  # sorted keys and no spaces are all there is to it
        plain = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert plain == text


@pytest.mark.trial
def test_another_process_says_the_same() -> None:
    program = "from tests.core.test_challenge import *\nfor case in GOLDEN: print(made(case)[1].hex())"
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(["src", "."])}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, cwd=root, check=True
    )
    assert done.stdout.split() == [case["challenge"] for case in GOLDEN]


@each(
    "words, why",
    [
        ({"tenant": ""}, "tenant"),
        ({"tenant": 5}, "tenant"),
        ({"request": "a\0"}, "NUL"),
        ({"revision": 0}, "revision"),
        ({"revision": True}, "revision"),
        ({"revision": "1"}, "revision"),
        ({"decision": "approve"}, "decision"),
        ({"grant": msgspec.structs.replace(GRANT, call="r/2.0")}, "borrowed"),
    ],
)
def test_what_is_no_saying_is_refused(words: dict[str, Any], why: str) -> None:
    whole: dict[str, Any] = {"tenant": "acme", "request": "r1", "revision": 1, "decision": DECISION, **words}
    with pytest.raises(UserError, match=why):
        decision_challenge(**whole)


@each("output", [float("nan"), (1, 2), {1: 2}, "\ud800", b"bytes"])
def test_what_has_no_one_text_cannot_be_signed(output: Any) -> None:
    with pytest.raises(BadJson):
        decision_challenge("acme", "r1", 1, msgspec.structs.replace(DECISION, output=output))


@given(st.lists(st.tuples(texts, texts, texts, texts, st.binary(max_size=3)), min_size=2, max_size=2, unique=True))
def test_no_two_sayings_of_keys_have_one_challenge(pair: list[tuple[str, str, str, str, bytes]]) -> None:
    assert key_challenge(*pair[0]) != key_challenge(*pair[1])


def test_enrolling_confirming_and_revoking_are_three_sayings() -> None:
    words = ("acme", "ada", "ssh", "SHA256:x", b"ssh-ed25519 AAAA")
    assert len({key_challenge(*words, verdict=verdict) for verdict in ("enrol", "confirm", "revoke")}) == 3
    with pytest.raises(UserError, match="the verdict on a key must be"):
        key_challenge(*words, verdict="approve")


def test_a_word_on_a_key_is_no_decision() -> None:
    assert key_text("a", "b", "c", "d", b"")[:20] != decision_text("a", "b", 1, DECISION)[:20]


def test_glass_and_a_question_are_said_and_signed() -> None:
    """A signature on a plain approval is none on breaking the glass, and one on a rejection none on a question."""
    for word, verdict in (("broke_glass", "approve"), ("asks_back", "reject")):
        plain = Decision("r/1.0", verdict, "d1", note="so", message="why?")
        other = msgspec.structs.replace(plain, **{word: True})
        assert challenge.decision_challenge("t", "5e1f", 1, plain) != challenge.decision_challenge(
            "t", "5e1f", 1, other
        )
