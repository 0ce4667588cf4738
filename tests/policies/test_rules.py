"""Rules: the first that matches decides, names are names, and what is not sure asks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.approval import Approval
from keyturn.core.errors import UserError
from keyturn.core.gate.combined_terms import NOT_COMBINED
from keyturn.core.policy import CallView, Verdict
from keyturn.core.predicates.predicate import holds
from keyturn.policies.base import PolicyLike
from keyturn.policies.limits import Calls
from keyturn.policies.rules import SHADOWS, Policy, Rule, allow, ask, deny
from tests.playing import Desk, Run
from tests.table import each

FOUR_EYES = Approval(role="ops", quorum=2)


def call(tool: str = "pay", params: Any = None, **more: Any) -> CallView:
    seen: dict[str, Any] = {"kind": "function", "agent": "desk", "digest": "5e1f", "call_id": "call_1", **more}
    return CallView(tool, params={"amount": 50} if params is None else params, **seen)


def broken(view: CallView, context: Any) -> bool:
    raise ValueError("hunter2")


def action(policy: Policy, view: CallView, context: Any = None) -> str | None:
    verdict = policy(view, context)
    return None if verdict is None else verdict.action


def test_the_first_rule_that_matches_decides() -> None:
    policy: PolicyLike = Policy(deny(tool="drop"), allow(tool="pay", reason="small"), deny(tool="pay"), ask(tool="*"))
    assert policy(call("pay"), None) == Verdict("allow", "small", None, "policy:2")
    assert policy(call("drop"), None) == Verdict("deny", by="policy:1")
    assert policy(call("other"), None) == Verdict("ask", by="policy:4")


@each("pattern", ["search", "s*", "*"])
def test_a_tools_name_alone_allows_no_call_of_a_server_that_names_its_tools(pattern: str) -> None:
    hosted = call("search", {}, kind="hosted_mcp")
    assert action(Policy(allow(tool=pattern)), call("search", {})) == "allow"
    assert action(Policy(allow(tool=pattern)), hosted) is None
    assert action(Policy(deny(tool=pattern)), hosted) == "deny"
    assert action(Policy(ask(tool=pattern)), hosted) == "ask"
    assert action(Policy(allow(tool=pattern, kind="hosted_mcp")), hosted) == "allow"
    assert action(Policy(allow()), hosted) == "allow"
    assert "only with kind='hosted_mcp'" in str(allow(tool=pattern).explain(hosted))


def test_where_no_rule_matches_the_tools_own_setting_holds() -> None:
    assert Policy()(call()) is None
    assert Policy(deny(tool="drop"))(call()) is None
    assert Policy(deny(tool="drop"), default="ask")(call()) == Verdict("ask", by="policy:default")
    stated = Verdict("deny", "nothing else", by="ops")
    assert Policy(default=stated)(call()) is stated


@each(
    ("pattern", "name", "expected"),
    [("pay", "pay", True), ("pay", "Pay", False), ("pay", "pay2", False), ("pay", "repay", False),
     ("p.y", "pay", False),
     ("pay*", "pay", True), ("pay*", "pay_all", True), ("pay*", "repay", False), ("*", "", True), ("*", "a/b\nc", True),
     ("*pay*", "repayment", True), ("Pay*", "pay_all", False), ("pay*", "PAY_all", False), ("p?y", "pay", False),
     ("p?y", "p?y", True),
     ("p?y*", "pay_all", False), ("[a]*", "ab", False), ("[a]*", "[a]b", True), ("read[1]", "read1", False),
     ("read[1]", "read[1]", True), ("read[1]*", "read1x", False), ("read[!a]*", "readb", False),
     ("desk/*", "desk", False),
     ("desk/*", "desk/billing", True), ("*/billing", "desk/billing", True), ("desk", "desk/billing", False),
     ("p\u0430y", "pay", False)],
)  # fmt: skip
def test_names_match_whole_or_by_an_asterisk(pattern: str, name: str, expected: bool) -> None:
    assert (Rule("allow", tool=pattern).verdict(call(name)) is not None) is expected
    assert (Rule("allow", agent=pattern).verdict(call(agent=name)) is not None) is expected


@given(st.text(min_size=1), st.text())
def test_a_pattern_without_an_asterisk_is_a_name(pattern: str, name: str) -> None:
    pattern = pattern.replace("*", "") or "x"
    rule = Rule("allow", tool=pattern)
    assert rule.verdict(call(pattern)) is not None
    assert (rule.verdict(call(name)) is not None) is (name == pattern)


def test_all_that_a_rule_gives_must_hold() -> None:
    whole: dict[str, Any] = {"tool": "pay", "agent": "desk", "kind": "function", "risk": "low", "where": {"amount": 50}}
    rule, view = Rule("allow", **whole), call(risk="low")
    assert rule.verdict(view) is not None
    others = ("drop", {}), ("pay", {"agent": "other"}), ("pay", {"kind": "mcp"}), ("pay", {"risk": "high"})
    for tool, change in (*others, ("pay", {"params": {"amount": 51}})):
        assert rule.verdict(call(tool, **{"risk": "low", **change})) is None


def test_a_risk_that_is_not_known_never_matches() -> None:
    for stated in ("low", "high", "unknown", "None", "*"):
        assert Rule("allow", risk=stated).verdict(call(risk=None)) is None
    assert Rule("deny", risk="*").verdict(call(risk="high")) is None, "a risk is a word, not a pattern"
    assert Rule("deny", risk="high").verdict(call(risk="High")) is None
    assert action(Policy(allow(risk="low"), default="ask"), call()) == "ask"


def test_when_sees_the_call_and_the_context() -> None:
    policy = Policy(deny(when=lambda view, context: view.params["amount"] > context["limit"]), default="allow")
    assert action(policy, call(), {"limit": 49}) == "deny"
    assert action(policy, call(), {"limit": 50}) == "allow"


def test_when_is_asked_last() -> None:
    def never(view: CallView, context: Any) -> bool:
        raise AssertionError("this rule is not about that call")

    assert Policy(allow(tool="drop", when=never), allow(where={"amount": 51}, when=never))(call()) is None


@pytest.mark.parametrize("make", [allow, ask, deny])
def test_a_condition_that_raises_asks(make: Any) -> None:
    policy = Policy(make(when=lambda view, context: context["limit"]), allow())
    assert policy(call(), {}) == Verdict("ask", "the rule's condition raised KeyError", None, "policy:1")


def test_a_condition_that_raises_asks_on_the_rules_terms_and_tells_no_secret() -> None:
    verdict = Policy(ask(when=broken, approval=FOUR_EYES), allow())(call())
    assert verdict is not None
    assert (verdict.action, verdict.terms) == ("ask", FOUR_EYES)
    assert "hunter2" not in verdict.reason


@each(
    ("rule", "by"),
    [(allow(when=broken), "policy:2"), (ask(when=broken), "policy:2"), (deny(when=broken), "policy:2"),
     (ask(over=Calls(9)), "policy:2"), (allow(when=lambda _view, _context: 1), "policy:2")],
)  # fmt: skip
def test_a_condition_without_an_answer_hides_no_rule_that_denies(rule: Rule, by: str) -> None:
    """An argument that made a condition fail turned a call that is denied into one that a person could approve."""
    bare = call()
    denied = Verdict("deny", "not from here", None, by)
    assert Policy(rule, deny(reason="not from here"))(bare) == denied
    assert Policy(rule, deny(reason="not from here")).explain(bare).verdict == denied
    assert action(Policy(rule, default="deny"), bare) == "deny"
    assert action(Policy(rule, allow()), bare) == "ask"


@each("doubt", [{"where": {"amount": {"lt": 10}}}, {"when": broken}, {"over": Calls(9)}])
def test_a_rule_that_asks_since_it_cannot_tell_leaves_out_nothing_that_a_rule_below_requires(doubt: Any) -> None:
    """A caller that wrote the amount as a text had a clerk approve what is denied, or what takes the role finance."""
    untold, clerk = call(params={"amount": "50"}), Approval(role="clerk")
    asked = ask(tool="pay", approval=clerk, **doubt)
    assert action(Policy(asked, deny()), untold) == "deny"
    assert action(Policy(asked, default="deny"), untold) == "deny"
    both = Policy(asked, ask(approval=Approval(role="finance")))
    verdict = both(untold)
    assert verdict is not None
    assert (verdict.action, verdict.reason.endswith(NOT_COMBINED)) == ("deny", True)
    assert both.explain(untold).verdict == verdict
    said = Policy(asked, ask(approval=Approval(quorum=2)))(untold)
    assert said is not None
    assert (said.action, said.terms) == ("ask", Approval(role="clerk", quorum=2))
    assert Policy(asked, allow())(untold) == Policy(asked)(untold)
    sure = Policy(ask(where={"amount": 50}, approval=clerk), deny())(call())
    assert sure is not None
    assert (sure.action, sure.terms) == ("ask", clerk)


def test_a_rule_that_asks_about_one_file_of_a_patch_leaves_out_nothing_that_is_said_of_the_others() -> None:
    """A patch with a file that some may approve was theirs to approve, with one beside it that is denied."""
    asked, rest = ask(where={"path": {"under": "docs"}}, approval=Approval(role="clerk")), Approval(quorum=2)

    def patch(*paths: str) -> CallView:
        made = [{"type": "update_file", "path": path, "diff": "@@"} for path in paths]
        return call("apply_patch", {"operations": made}, kind="apply_patch")

    for paths in (("docs/a", "etc/b"), ("etc/b", "docs/a")):
        assert action(Policy(asked, default="deny"), patch(*paths)) == "deny"
        assert action(Policy(asked, deny(where={"path": {"under": "etc"}})), patch(*paths)) == "deny"
        said = Policy(asked, ask(approval=rest))(patch(*paths))
        assert said is not None
        assert said.terms == Approval(role="clerk", quorum=2)
    assert action(Policy(asked, default="deny"), patch("docs/a", "docs/c")) == "ask"


@each("answer", [None, 1, 0, "yes", "", [], ["yes"], object()])
def test_a_condition_that_answers_neither_true_nor_false_asks(answer: Any) -> None:
    verdict = Policy(allow(when=lambda view, context: answer))(call())
    assert verdict == Verdict("ask", "the rule's condition did not answer True or False", None, "policy:1")


@each("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration])
def test_a_condition_that_would_end_the_program_asks(error: type[BaseException]) -> None:
    def ends(view: CallView, context: Any) -> bool:
        raise error

    says = f"the rule's condition raised {error.__name__}"
    assert Policy(allow(when=ends))(call()) == Verdict("ask", says, None, "policy:1")


async def _later(view: CallView, context: Any) -> bool:
    return True


@each(
    ("rule", "says"),
    [({"action": "Allow"}, "'allow', 'ask' or 'deny'"), ({"action": None}, "'allow', 'ask' or 'deny'"),
     ({"tool": ""}, "tool is a name"), ({"tool": 5}, "tool is a name"), ({"tool": ["pay"]}, "tool is a name"),
     ({"agent": ""}, "agent is a name"), ({"kind": 1}, "kind is a name"), ({"risk": True}, "risk is a name"),
     ({"where": {"amount": {"atmost": 5}}}, "unknown comparison"), ({"where": "amount < 5"}, "maps the names"),
     ({"when": "always"}, "plain function"), ({"when": _later}, "plain function"), ({"reason": 5}, "reason"),
     ({"action": "ask", "approval": "4h"}, "terms"), ({"approval": Approval()}, "goes with 'ask'"),
     ({"action": "deny", "approval": Approval()}, "goes with 'ask'")],
)  # fmt: skip
def test_a_rule_that_could_not_be_kept_is_refused(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Rule(**{"action": "allow", **rule})


@pytest.mark.each
@pytest.mark.parametrize("made", [lambda: Policy([allow()]), lambda: Policy("allow"), lambda: Policy(default="Allow"),
                                  lambda: Policy(default=5), lambda: Policy(shadow="yes")])  # fmt: skip
def test_a_policy_that_could_not_be_kept_is_refused(made: Any) -> None:
    with pytest.raises(UserError):
        made()


def test_a_rule_cannot_be_widened_afterwards() -> None:
    where: dict[str, Any] = {"amount": {"le": 100}}
    rule = allow(where=where)
    where["amount"]["le"] = 10**9
    assert rule.verdict(call(params={"amount": 500})) is None


def test_the_constructors_are_rules() -> None:
    given: dict[str, Any] = {"tool": "a", "agent": "b", "kind": "c", "where": {"d": 1}, "risk": "e", "reason": "f"}
    assert allow(**given) == Rule("allow", **given)
    assert ask(**given, approval=FOUR_EYES) == Rule("ask", **given, approval=FOUR_EYES)
    assert deny(**given) == Rule("deny", **given)
    with pytest.raises(TypeError, match="tol"):
        allow(tol="pay")  # type: ignore[call-arg]  # that it is refused is the test


def test_a_policy_knows_whether_it_needs_people() -> None:
    assert Policy(ask(approval=FOUR_EYES)).needs_people
    assert Policy(default=Verdict("ask", terms=FOUR_EYES)).needs_people
    assert not Policy(allow(), ask(approval=Approval(expires="4h")), default="deny").needs_people


def test_in_shadow_mode_it_only_keeps_what_it_would_have_said() -> None:
    policy = Policy(deny(tool="drop"), ask(when=lambda view, context: 1 // 0 > 0), shadow=True)
    assert [policy(call("drop", digest="d1", run_id="r1")), policy(call("pay"))] == [None, None]
    first, second = policy.shadowed
    assert (first.tool, first.agent, first.digest, first.run_id) == ("drop", "desk", "d1", "r1")
    assert (first.verdict.action, second.verdict.action) == ("deny", "ask")
    assert "ZeroDivisionError" in second.verdict.reason
    assert Policy(deny(tool="drop"), shadow=True).shadowed != policy.shadowed


def test_what_shadow_mode_keeps_is_bounded() -> None:
    policy = Policy(deny(tool="drop"), shadow=True)
    for number in range(SHADOWS + 5):
        policy(call("drop", params={"text": "x" * 1_000}, digest=str(number)))
        policy(call("pay"))
    assert len(policy.shadowed) == SHADOWS
    assert policy.shadowed[0].digest == "5"
    assert not hasattr(policy.shadowed[0], "params")


OPERATORS_FILE = """
default = "ask"

[[rules]]
action = "allow"
tool = "pay"
agent = "desk*"
where = { amount = { gt = 0, le = 100 }, to = { one_of = ["ada", "bob"] } }
reason = "small change"

[[rules]]
action = "ask"
risk = "high"
approval = { role = "ops", users = ["ada", "bob"], quorum = 2, expires = "4h", on_expiry = "reject" }

[[rules]]
action = "deny"
kind = "function"
tool = "drop_*"
"""


def test_an_operators_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(OPERATORS_FILE, encoding="utf-8")
    terms = Approval(role="ops", users=("ada", "bob"), quorum=2, expires="4h")
    for source in (OPERATORS_FILE, path, str(path)):
        policy = Policy.from_toml(source)
        assert policy(call(params={"amount": 50, "to": "ada"})) == Verdict("allow", "small change", None, "policy:1")
        assert policy(call(params={"amount": 50, "to": "eve"})) == Verdict("ask", by="policy:default")
        assert policy(call(risk="high")) == Verdict("ask", "", terms, "policy:2")
        assert action(policy, call("drop_all")) == "deny"
        assert policy.shadow is False
    assert Policy.from_toml('shadow = true\ndefault = "deny"').shadow is True


@each(
    ("data", "place"),
    [
        ({"rules": [{"action": "allow"}], "defualt": "deny"}, "the policy: unknown key 'defualt'"),
        ({"rules": [{"action": "allow"}, {"action": "allow", "tol": "x"}]}, "rule 2: unknown key 'tol'"),
        ({"rules": [{"action": "allow", "when": "x"}]}, "rule 1: unknown key 'when'"),
        ({"rules": [{"action": "ask", "approval": {"quorom": 2}}]}, "rule 1, approval: unknown key 'quorom'"),
        ({"rules": [{"action": "ask", "approval": {"quorum": 0}}]}, "rule 1, approval: quorum is"),
        ({"rules": [{"action": "ask", "approval": {"users": "ada"}}]}, "rule 1, approval: users is a list"),
        ({"rules": [{"action": "ask", "approval": "4h"}]}, "rule 1, approval: this is a table"),
        ({"rules": [{"action": "ask", "approval": None}]}, "rule 1, approval: this is a table"),
        ({"rules": [{"tool": "pay"}]}, "rule 1: action is missing"), ({"rules": ["allow"]}, "rule 1: this is a table"),
        ({"rules": [{"action": "permit"}]}, "rule 1: a verdict is"),
        ({"rules": {"action": "allow"}}, "rules must be a list"),
        ({"rules": [{"action": "allow", "where": {"x": {"lt": True}}}]}, "rule 1: 'lt' on 'x'"),
        ({"rules": [{"action": "allow", "where": {"x": {"no": 1}}}]}, "rule 1: unknown comparison 'no'"),
        ({"rules": [{"action": "allow", "where": 5}]}, "rule 1: a predicate"), ({"default": "maybe"}, "'allow', 'ask'"),
        ({"default": 5}, "default is"), ({"default": "ask", "shadow": "no"}, "shadow must"), ({}, "neither rules nor"),
        ({"rules": []}, "neither rules nor"), ({"shadow": True}, "neither rules nor"), ([], "this is a table"),
        ("ask", "this is a table"),
    ],
)  # fmt: skip
def test_what_a_file_gets_wrong_is_refused_with_its_place(data: Any, place: str) -> None:
    with pytest.raises(UserError) as caught:
        Policy.from_dict(data)
    assert place in str(caught.value)


@each(
    ("source", "says"),
    [("rules = [", "not TOML"), ('default = "ask"\ndefault = "deny"', "not TOML"), ("", "neither rules nor"),
     ("missing.toml", "cannot be read: No such file"), (Path("/nowhere/policy"), "cannot be read"), (Path("/"), "read"),
     ('[[rules]]\naction = "allow"\nwhere = { x = { le = nan } }', "rule 1: 'le' on 'x' takes a JSON value"),
     ('[[rules]]\naction = "allow"\nwhere = { x = 2025-01-01 }', "rule 1: 'eq' on 'x' takes a JSON value")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused(source: str | Path, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Policy.from_toml(source)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_bytes(b'default = "\xff"')
    with pytest.raises(UserError, match="is not UTF-8"):
        Policy.from_toml(tmp_path / "policy.toml")


# Lines that begin like the harmless one and do something else besides; after the published bypasses of agents that
# approved a command by its prefix.
HARMLESS = "git status"
SMUGGLED = [
    HARMLESS + tail
    for tail in (
        " && rm -rf ~", "; rm -rf ~", ";rm -rf ~", " & rm -rf ~", " | sh", " || rm -rf ~", "\nrm -rf ~", "\rrm -rf ~",
        "\r\nrm -rf ~", "\n", " ", "\t", "\0", "\v rm", "\x85rm -rf ~", "\u2028rm -rf ~", " $(rm -rf ~)", " `rm -rf ~`",
        " <(rm -rf ~)", " >(sh)", " > ~/.ssh/authorized_keys", ">>~/.bashrc", " < /etc/passwd", " ${IFS}rm",
        "$IFS&&rm${IFS}-rf",
        " | xargs rm", " -c core.fsmonitor='rm -rf ~'", " --output=/etc/passwd", " $HOME", " ~root", " {a,b}", " *",
        " \\\n rm",
        " # ok\nrm -rf ~", " ' ; rm '", " \" ; rm \"", "\u200b", "\u202e", " \uff06\uff06 rm",
        ";" * 51, " ; true" * 51 + " ; rm",
        "\x1b[2K", " && alias git=rm", " && GIT_SSH_COMMAND=sh git fetch", " -- ; eval rm", "\\;rm", " 2>&1 | tee x",
        "&&rm",
    )
]  # fmt: skip
BESIDE = [
    "GIT STATUS", " git status", "env git status", "sudo git status", "git  status", "git\tstatus", "g''it status",
    "git",
    "gi", "", "/tmp/git status", "./git status", "git -c alias.status='!rm' status", "PATH=/tmp git status",
    "command git status",
    "\ngit status", "g\u0456t status", "\uff47it status", "git\u00a0status",
]  # fmt: skip
STATED: list[dict[str, Any]] = [
    {"command": HARMLESS},
    {"command": {"eq": HARMLESS}},
    {"command": {"one_of": [HARMLESS, "git log"]}},
    {"command": {"matches": "git (status|log)"}},
    {"command": {"matches": "^git status$"}},
    {"command": {"matches": "(?m)^git status$"}},
]


class TestE13:
    """A rule on a tool and its typed arguments is about the whole value: no command is known by how it begins."""

    @each("where", STATED)
    def test_a_rule_for_one_command_lets_no_other_through(self, where: dict[str, Any]) -> None:
        policy = Policy(allow(tool="run", where=where), default="ask")
        assert action(policy, call("run", {"command": HARMLESS})) == "allow"
        through = [line for line in (*SMUGGLED, *BESIDE) if action(policy, call("run", {"command": line})) != "ask"]
        assert through == []
        assert len({*SMUGGLED, *BESIDE}) >= 60

    @each("where", STATED)
    @each("shape", [[HARMLESS], [HARMLESS, "rm -rf ~"], {"line": HARMLESS}, None, True, 0])
    def test_a_command_of_another_shape_asks(self, where: dict[str, Any], shape: Any) -> None:
        assert action(Policy(allow(tool="run", where=where), default="ask"), call("run", {"command": shape})) == "ask"

    def test_a_list_of_commands_is_compared_whole(self) -> None:
        policy = Policy(allow(tool="shell", where={"commands": [HARMLESS]}), default="ask")
        assert action(policy, call("shell", {"commands": [HARMLESS]})) == "allow"
        for commands in ([HARMLESS, "rm"], ["rm", HARMLESS], [HARMLESS] * 51, [[HARMLESS]], HARMLESS, []):
            assert action(policy, call("shell", {"commands": commands})) == "ask"

    def test_a_pattern_is_about_the_tools_name_and_never_about_its_arguments(self) -> None:
        policy = Policy(allow(tool="git status*"), allow(tool="git*"), default="ask")
        for line in (HARMLESS, *SMUGGLED):
            assert action(policy, call("run", {"command": line})) == "ask"
        everywhere = Policy(allow(tool="run", where={"command": "git*"}), default="ask")
        assert action(everywhere, call("run", {"command": HARMLESS})) == "ask", "an asterisk in a value is an asterisk"

    def test_there_is_no_operator_for_how_a_text_begins(self) -> None:
        for operator in ("startswith", "prefix", "starts_with", "contains", "like", "glob"):
            with pytest.raises(UserError, match="unknown comparison"):
                allow(where={"command": {operator: "git "}})

    @given(st.text())
    def test_whatever_follows_the_command_asks(self, tail: str) -> None:
        for where in STATED:
            assert holds(where, {"command": HARMLESS + tail}) is (tail == "")


async def test_a_condition_that_edits_the_call_hides_nothing_from_the_rules_below(run: Run) -> None:
    """What a `when=` does to the arguments that it is given, no other rule sees."""

    def tidies(call: CallView, _context: Any) -> bool:
        call.params["amount"] = 0
        return False

    desk = Desk(needs_approval=False)
    policy = Policy(Rule("allow", when=tidies), Rule("deny", tool="pay", where={"amount": {"gt": 0}}), default="allow")
    await run(desk.agent, "go", policy=policy)
    assert desk.paid == []
    given = {"to": {"name": "eve"}}
    call = CallView("pay", "function", "desk", given, digest="", call_id="c")
    Policy(Rule("ask", when=lambda call, _context: bool(call.params["to"].clear()))).judged(call)
    assert given == {"to": {"name": "eve"}}
