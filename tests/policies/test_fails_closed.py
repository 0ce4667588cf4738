"""What nobody can tell is never taken for "no": rules that ask or deny hold, rules that allow do not."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.core.policy import CallView
from keyturn.policies.rules import Policy, Rule, allow, ask, deny
from keyturn.tools.commands.programs import only_programs

SECRET = {"text": {"matches": "(?s).*BEGIN PRIVATE KEY.*"}}


def call(**params: Any) -> CallView:
    return CallView("write", "function", "desk", params, digest="5e1f", call_id="c1", run_id="r1")


def action(policy: Policy, **params: Any) -> str | None:
    verdict = policy(call(**params), None)
    return None if verdict is None else verdict.action


def test_a_text_too_long_for_its_pattern_is_denied() -> None:
    """Spaces behind the key turned the pattern off, and the call ran unasked."""
    for where in (SECRET, {"text": {"matches": ".*BEGIN.*PRIVATE.*KEY.*"}}):
        policy = Policy(deny(where=where), default="allow")
        for padding in (0, 4_500, 100_000):
            assert action(policy, text="BEGIN PRIVATE KEY" + " " * padding) == "deny", padding
    assert action(Policy(deny(where=SECRET), default="allow"), text="x" * 100_000) == "allow"


def test_a_path_is_compared_as_a_tool_would_open_it() -> None:
    """`deny under /etc` let these run."""
    policy = Policy(deny(where={"path": {"under": "/etc"}}), default="allow")
    paths = [
        "/etc/passwd", "/srv/../etc/passwd", "//etc/passwd", "/etc/%00", "/./etc/passwd", "/etc", "/etc/", "/%65tc/x",
        "/%2565tc/x", "/ETC/passwd", "/etc\0", "\\etc\\passwd", " /etc/passwd", "/etc /passwd", "/\uff45tc/passwd",
        "\uff0fetc\uff0fpasswd", "/e\u200btc/passwd", "file:///etc/passwd", "~/../../etc/passwd", "$X/passwd",
        "/*/passwd", "/e[t]c/passwd", "etc/passwd", "passwd", "../etc/passwd", "", ["/etc/passwd"], 5, True,
    ]  # fmt: skip
    assert [path for path in paths if action(policy, path=path) != "deny"] == []
    plain = ["/srv/data", "/etcetera", "/srv/etc", "/srv/etc/x", "/app/[id].tsx", "/app/$id.tsx", "/srv/100%/x", "/"]
    assert [path for path in plain if action(policy, path=path) != "allow"] == []


def test_a_number_as_a_text_is_not_under_the_limit() -> None:
    """`ask amount > 100` let "500" run where the schema allows a text."""
    policy = Policy(ask(where={"amount": {"gt": 100}}), default="allow")
    amounts: list[Any] = [
        500, 100.5, "500", "\u0665\u0660\u0660", "5e2", "lots", True, None, [500], {"eur": 500}, float("inf"),
        float("nan"), 10**400,
    ]  # fmt: skip
    assert [amount for amount in amounts if action(policy, amount=amount) != "ask"] == []
    assert action(policy) == "ask", "an amount that is missing is not a small one"
    assert action(policy, Amount=500) == "ask"
    assert action(policy, amount=5, Amount=500) == "ask", "tools that ignore case read the last"
    assert [action(policy, amount=amount) for amount in (100, 1e2, 100.0, -5)] == ["allow"] * 4


def test_a_listed_path_is_found_however_it_is_written() -> None:
    """L7: `deny path one_of [secret.txt]` missed these."""
    policy = Policy(deny(where={"path": {"one_of": ["secret.txt", "d/key"]}}), default="allow")
    paths = [
        "secret.txt", "./secret.txt", "d//secret.txt", "d//key", "d/./key", "x/../secret.txt", "/srv/secret.txt",
        "secret.txt/", "SECRET.txt", " secret.txt", "secret.txt\n", "secret%2etxt", "secret\uff0etxt", "d\\key",
        "sec\u00adret.txt", "file:secret.txt/../d/key", ["secret.txt"], {"path": "secret.txt"},
    ]  # fmt: skip
    assert [path for path in paths if action(policy, path=path) != "deny"] == []
    assert [action(policy, path=path) for path in ("secret", "secret.txt.bak", "d", "", None)] == ["allow"] * 5


@pytest.mark.parametrize("make", [ask, deny])
def test_arguments_that_are_no_object_cannot_be_told(make: Any) -> None:
    """Nothing is known of what is not there, so the rule stands."""
    policy = Policy(make(where={"to": "eve"}), default="allow")
    for params in ([], "to", 5, None):
        verdict = policy(CallView("write", "function", "desk", params, digest="5e1f", call_id="c1"), None)
        assert verdict is not None
        assert verdict.action == policy.rules[0].action


def test_a_predicate_that_cannot_be_evaluated_stands() -> None:
    """A condition from an older log, with an operator that is gone."""
    rule = Rule("deny", where={"to": "eve"})
    object.__setattr__(rule, "where", {"to": {"sounds_like": "eve"}})
    assert action(Policy(rule, default="allow"), to="ada") == "deny"


@pytest.mark.parametrize("make", [ask, deny])
def test_a_condition_that_is_false_in_doubt_is_for_allow(make: Any) -> None:
    """`deny(when=only_programs("rm"))` would let through every line that is not understood."""
    with pytest.raises(UserError, match="in doubt"):
        make(when=only_programs("rm"))
    assert allow(when=only_programs("ls")).when is not None


def test_the_verdict_says_what_could_not_be_told() -> None:
    policy = Policy(allow(tool="read"), deny(where={"amount": {"gt": 100}}), default="allow")
    verdict = policy(call(amount="hunter2"), None)
    assert verdict is not None
    assert verdict.reason == "rule 2 (deny): cannot tell whether 'amount' is more: it is a text"
    own = Policy(deny(where={"amount": {"gt": 100}}, reason="too much"))(call(amount="hunter2"), None)
    assert own is not None
    assert own.reason == "too much; rule 1 (deny): cannot tell whether 'amount' is more: it is a text"
    sure = policy(call(amount=500), None)
    assert sure is not None
    assert sure.reason == ""


def test_an_allow_that_cannot_be_told_leaves_it_to_the_next_rule() -> None:
    where = {"amount": {"le": 100}}
    assert action(Policy(allow(where=where), deny(), default="allow"), amount="5") == "deny"
    assert action(Policy(allow(where=where), ask(where=where), default="allow"), amount="5") == "ask"
    assert action(Policy(ask(where=where), allow(), default="deny"), amount="5") == "ask"
    assert action(Policy(deny(where=where), ask(), default="allow"), amount="5") == "deny"
    assert action(Policy(allow(where=where)), amount="5") is None
