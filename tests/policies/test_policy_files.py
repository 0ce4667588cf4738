"""A policy in a file: the same rules as in code, mistakes with their lines, and a wrong file that changes nothing."""

from __future__ import annotations

import logging
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn import Approval, Budget, Calls, Policy, PolicyFile, Rejections, Rule, UserError
from keyturn.core.past import RunPast
from keyturn.core.policy import CallView, Verdict
from keyturn.core.run import new_run
from tests.playing import Desk, play
from tests.table import each

# --------------------------------------------------------------------------------------------------- there and back

NAMES = st.sampled_from(["pay", "send_*", "read", 'odd "name"', "tab\there", "del\x7f", "ünï"])
PLAIN = st.one_of(
    st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False), NAMES
)
CONDITIONS = st.one_of(
    st.none(),
    PLAIN,
    st.fixed_dictionaries({"gt": st.integers(-5, 5)}, optional={"le": st.floats(0, 9), "ne": st.none() | PLAIN}),
    st.fixed_dictionaries({"one_of": st.lists(PLAIN, max_size=3)}),
    st.fixed_dictionaries({"matches": st.sampled_from(["a.*", "(?i)x"])}),
    st.fixed_dictionaries({"under": st.sampled_from(["/srv/data", "src"])}),
    st.fixed_dictionaries({"eq": st.dictionaries(NAMES, PLAIN, max_size=2)}),
)
WHERE = st.none() | st.dictionaries(st.sampled_from(["amount", "to", "to.country", "odd name"]), CONDITIONS, max_size=3)
PER = st.sampled_from([None, "1h", 90, 0.5])
OF: Any = st.sampled_from(["run", "requester", "tenant"])
LIMITS = st.one_of(
    st.builds(Calls, st.integers(0, 9), PER, OF),
    st.builds(Budget, st.just("amount"), st.sampled_from([5, 0.1, Decimal("2.5")]), PER, OF),
    st.builds(Calls, st.integers(0, 9), PER, st.just("agent"), NAMES),
    st.builds(Rejections, st.integers(1, 3), st.sampled_from(["call", "tool"])),
)
APPROVALS = st.sampled_from([None, Approval(), Approval(role="ops", quorum=2, expires="4h"), Approval(users=("ann",))])


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    action: Any = draw(st.sampled_from(["allow", "ask", "deny"]))
    return Rule(
        action,
        tool=draw(st.none() | NAMES),
        agent=draw(st.none() | NAMES),
        kind=draw(st.sampled_from([None, "function"])),
        where=draw(WHERE),
        risk=draw(st.sampled_from([None, "high"])),
        read_only=draw(st.sampled_from([None, True, False])),
        over=draw(st.none() | LIMITS) if action != "allow" else None,
        reason=draw(st.sampled_from(["", "why\nnot", '"""'])),
        approval=draw(APPROVALS) if action == "ask" else None,
        stop=draw(st.booleans()) if action == "deny" else False,
    )


CALLS = st.builds(
    CallView,
    NAMES,
    st.just("function"),
    NAMES,
    st.dictionaries(st.sampled_from(["amount", "to", "odd name"]), st.none() | PLAIN, max_size=3),
    digest=st.just(""),
    call_id=st.just("c1"),
    risk=st.sampled_from([None, "high"]),
    read_only=st.booleans(),
    past=st.just(RunPast(new_run(), "r/1.0", str)),
)


@given(st.lists(rules(), min_size=1, max_size=4), st.sampled_from([None, "ask", "deny"]), st.booleans(), CALLS)
def test_a_file_says_what_the_policy_says_that_it_was_written_of(
    made: list[Rule], default: Any, shadow: bool, call: CallView
) -> None:
    try:
        policy = Policy(*made, default=default, shadow=shadow)
    except UserError:  # a limit below a rule that takes all of its calls
        return
    again = Policy.from_toml(policy.to_toml())
    assert again.judged(call) == policy.judged(call)
    assert (again.default, again.shadow, again.to_toml()) == (policy.default, shadow, policy.to_toml())
    assert [rule.about for rule in again.rules] == [rule.about for rule in policy.rules]


@each(
    ("rule", "says"),
    [
        (Rule("ask", when=lambda _call, _context: True), "rule 1 cannot be written to a file: its when= is a function"),
        (Rule("ask", where={"to": {"one_of": [None]}}), "a file has no null"),
        (Rule("ask", where={"to": {"eq": {"a": None}}}), "a file has no null"),
        (Rule("ask", over=Budget("a", Decimal("0.1234567890123456789"))), "more digits"),
        (Rule("ask", reason="\ud83d"), "half a character"),
    ],
)
def test_what_no_file_can_say_is_refused(rule: Rule, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Policy(rule).to_toml()


def test_a_default_with_terms_has_no_place_in_a_file() -> None:
    with pytest.raises(UserError, match="last rule"):
        Policy(default=Verdict("ask", "why")).to_toml()


def test_what_is_given_can_be_asked_for_in_a_file() -> None:
    policy = Policy.from_toml('[[rules]]\naction = "deny"\nwhere = { env = { given = false }, to = { given = true } }')
    assert policy.rules[0].where == {"env": {"eq": None}, "to": {"ne": None}}
    for bad in ("{ given = 1 }", "{ given = true, ne = 5 }"):
        with pytest.raises(UserError, match="given on 'env' is true or false"):
            Policy.from_toml(f'[[rules]]\naction = "deny"\nwhere = {{ env = {bad} }}')


# --------------------------------------------------------------------------------------------------------- where

FILE = '''# a comment with [[rules]] in it
default = "ask"

[[rules]]
action = "allow"
reason = """
[[rules]]
tol = 1
"""

[[rules]]
action = "deny"  # [[rules]]
{}
'''


@each(
    ("line", "place"),
    [
        ('tol = "pay"', "13: rule 2: unknown key 'tol'"),
        ('tool = "pay"\n[rules.approval]\nexpires = "soon"', "14: rule 2, approval: 'soon' is not a duration"),
        ('tool = "pay"\n\nover = { calls = 3, most = 5 }', "15: rule 2, over: unknown key 'most'"),
        ("over = { budget = 'a' }", "13: rule 2, over: most is missing"),
        ("where = { a = { atmost = 5 } }", "13: rule 2: unknown comparison 'atmost'"),
        ('tool = ""', "13: rule 2: tool is a name"),
        ("tool = ", "13: this is not TOML"),
        ("approval = { role = 'ops' }", "13: rule 2: approval= goes with 'ask'"),
    ],
)
def test_a_mistake_is_told_with_its_line(line: str, place: str) -> None:
    with pytest.raises(UserError) as caught:
        Policy.from_toml(FILE.format(line))
    assert str(caught.value).startswith(f"line {place}")


def test_a_mistake_is_told_with_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(FILE.format("tol = 5").replace("\n", "\r\n").encode())
    with pytest.raises(UserError) as caught:
        Policy.from_toml(path)
    assert str(caught.value).startswith(f"{path}:13: rule 2: unknown key 'tol'")


def test_rules_in_one_line_have_the_line_of_the_list() -> None:
    with pytest.raises(UserError, match=r"^line 2: rule 2: unknown key 'x'"):
        Policy.from_toml('default = "ask"\nrules = [{ action = "ask" }, { action = "ask", x = 1 }]')


def test_a_file_extends_a_preset_with_its_own_rules_before_it() -> None:
    policy = Policy.from_toml('extends = "careful"\n[[rules]]\naction = "allow"\ntool = "note"')
    note, pay = (CallView(name, "function", "desk", {}, digest="", call_id="c") for name in ("note", "pay"))
    said = [policy.judged(call) for call in (note, pay)]
    assert [verdict and verdict.action for verdict in said] == ["allow", "ask"]
    with pytest.raises(UserError, match=r"^line 1: the policy: extends is one of careful"):
        Policy.from_toml('extends = "carefull"')


# ------------------------------------------------------------------------------------------- a file that changes

RULES = '[[rules]]\naction = "{}"\ntool = "pay"\n'
PAY = CallView("pay", "function", "desk", {"amount": 5}, digest="", call_id="c")


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def said(policy: PolicyFile) -> str:
    verdict = policy.policy.judged(PAY)
    assert verdict is not None
    return verdict.action


def test_a_wrong_file_is_refused_and_the_one_before_it_holds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "policy.toml", Seconds()
    path.write_text(RULES.format("deny"))
    policy = PolicyFile(path, clock=clock)
    with caplog.at_level(logging.ERROR):
        for broken in (RULES.format("alow"), None, "rules = ["):
            path.write_text(broken) if broken is not None else path.unlink()
            for _ in range(3):
                clock.now += 1
                assert said(policy) == "deny"
            assert policy.error
    assert len(caplog.records) == 3, "each is logged once"
    path.write_text(RULES.format("allow"))
    assert said(policy) == "deny", "it is looked at once a second"
    clock.now += 1
    assert (said(policy), policy.error) == ("allow", None)


def test_a_file_that_is_wrong_at_first_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        PolicyFile(tmp_path / "policy.toml")


async def test_runs_go_by_the_file_as_it_is_now(tmp_path: Path, streamed: bool) -> None:
    path, clock, desk = tmp_path / "policy.toml", Seconds(), Desk(needs_approval=False)
    path.write_text(RULES.format("deny"))
    policy = PolicyFile(path, clock=clock)
    await play(desk.agent, "go", streamed, policy=policy)
    assert desk.paid == []
    path.write_text('shadow = true\n[[rules]]\naction = "allow"\n[[rules]]\naction = "ask"')
    clock.now += 1
    again = Desk(needs_approval=False)
    await play(again.agent, "go", streamed, policy=policy)
    assert again.paid == [5]


def test_a_file_that_cannot_be_read_in_any_way_is_refused_with_a_typed_error(tmp_path: Path) -> None:
    path, clock = tmp_path / "policy.toml", Seconds()
    path.write_text(RULES.format("deny"))
    policy = PolicyFile(path, clock=clock)
    deep = f'[[rules]]\naction = "ask"\nwhere = {{ a = {"[" * 5_000}{"]" * 5_000} }}'
    long = f'[[rules]]\naction = "ask"\nwhere = {{ a = {"9" * 5_000} }}'
    for broken in (deep.encode(), long.encode(), b"\xff", b"a = 2020-02-30"):
        path.write_bytes(broken)
        clock.now += 1
        assert said(policy) == "deny"
        assert str(path) in (policy.error or "")
        with pytest.raises(UserError):
            PolicyFile(path)
    with pytest.raises(UserError, match="cannot be read"):
        PolicyFile(tmp_path / "a\0b.toml")


def test_a_file_with_another_text_is_read_though_its_size_and_time_are_the_same(tmp_path: Path) -> None:
    path, clock = tmp_path / "policy.toml", Seconds()
    path.write_text(RULES.format("deny"))
    policy = PolicyFile(path, clock=clock)
    before = path.stat()
    path.write_text(RULES.format("ask") + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    clock.now += 1
    assert said(policy) == "ask"


def test_a_file_that_comes_back_as_it_was_is_no_error(tmp_path: Path) -> None:
    path, clock = tmp_path / "policy.toml", Seconds()
    path.write_text(RULES.format("deny"))
    policy = PolicyFile(path, clock=clock)
    path.rename(tmp_path / "away")
    clock.now += 1
    assert (said(policy), "cannot be read" in (policy.error or "")) == ("deny", True)
    (tmp_path / "away").rename(path)
    clock.now += 1
    assert (said(policy), policy.error) == ("deny", None)
