"""Presets, tried on the tools that come with Keyturn by what those state of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, Approval, Policy, function_tool
from keyturn.core.policy import CallView, Verdict
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.policies import presets
from keyturn.policies.rule import allow, ask, deny
from keyturn.tools.files import filesystem_tools
from tests.playing import play
from tests.table import each

_TWO = Approval(quorum=2)


def said(rules: Any, tool: str, *, kind: str = "function", **facts: Any) -> str | None:
    verdict = Policy(*rules, default=None).judged(CallView(tool, kind, "a", facts.pop("params", {}), "", "c", **facts))
    return None if verdict is None else verdict.action


@each(
    ("tool", "facts", "careful", "reads_run", "read_only", "no_deletes"),
    [
        ("read_file", {"read_only": True}, "allow", "allow", "allow", None),
        ("write_file", {}, "ask", None, "deny", None),
        ("shell", {"kind": "shell"}, "ask", None, "deny", None),
        ("apply_patch", {"kind": "apply_patch"}, "ask", None, "deny", None),
        ("transfer_to_b", {"kind": "handoff"}, "allow", None, "allow", None),
        ("read_vault", {"read_only": True, "risk": "high"}, "ask", "allow", "allow", None),
        ("delete_user", {}, "ask", None, "deny", "deny"),
        ("db_drop_table", {}, "ask", None, "deny", "deny"),
        ("rm", {}, "ask", None, "deny", "deny"),
        ("list_deleted", {"read_only": True}, "allow", "allow", "allow", None),
        ("farm", {}, "ask", None, "deny", None),
        ("deleteFile", {}, "ask", None, "deny", "deny"),
        ("fs.bulk-remove", {}, "ask", None, "deny", "deny"),
        ("DBDrop", {}, "ask", None, "deny", "deny"),
        ("dropboxUpload", {}, "ask", None, "deny", None),
        ("delete2Files", {}, "ask", None, "deny", "deny"),
    ],
)
def test_what_each_lets_run(
    tool: str, facts: dict[str, Any], careful: str, reads_run: Any, read_only: str, no_deletes: Any
) -> None:
    given = [said(rules, tool, **facts) for rules in _PRESETS]
    assert given == [careful, reads_run, read_only, no_deletes]


@each("pattern", ["delete_*", "deleteFile", "delete-file", "delete*File"])
@each("tool", ["delete_file", "deleteFile", "__deleteFile", "delete-file"])
def test_a_rule_goes_by_words_however_it_writes_them_itself(pattern: str, tool: str) -> None:
    assert said([deny(tool=pattern)], tool) == "deny"


def test_a_rule_goes_by_the_words_that_people_read_in_a_name_however_it_is_drawn() -> None:
    drawn = (
        "\uff24\uff25\uff2c\uff25\uff34\uff25\uff3f\uff26\uff29\uff2c\uff25",  # full width
        "delete\u00c9tat",  # a capital outside ASCII
        "d\u0435l\u0435te_file",  # Cyrillic
        "\ua4d3\ua4f0\ua4e1\ua4f0\ua4d4\ua4f0_x",  # Lisu
        "\u0111\u00e9lete_file",  # a stroke, an accent
        "de\u0301\u20ddlete_file",  # marks of their own
        "d" + "\u0301" * 40 + "elete_file",  # more of them than texts have
        "del\u200be\u00adte\ufe0f_file",  # the unseen
        "delete\u2800file",  # what is drawn as a space
        "\U0001d41d\U0001d41e\U0001d425\U0001d41e\U0001d42d\U0001d41e_x",  # of mathematics
        "\U0001f153\U0001f154\U0001f15b\U0001f154\U0001f163\U0001f154-x",  # in black circles
        "DeLeTe_FiLe",
        "x" * 1_001,  # longer than people read
    )
    assert {name: said(presets.no_deletes, name) for name in drawn} == dict.fromkeys(drawn, "deny")
    assert said([deny(tool="tra\ufb03c_*")], "trafficLight") == "deny"  # a ligature, in the rule
    assert said([deny(tool="l\u00f6sche_*")], "l\u00f6scheDatei") == "deny"
    assert said([deny(tool="\u0443\u0434\u0430\u043b\u0438_*")], "\u0423\u0414\u0410\u041b\u0418-x") == "deny"
    assert said([allow(tool="delete_*")], "d\u0435lete_file") is None


@each(
    ("below", "says"),
    [
        ([deny(tool="sendMail")], Verdict("deny", by="policy:2")),
        ([ask(tool="sendMail", approval=_TWO)], Verdict("ask", terms=_TWO, by="policy:1")),
        ([allow(tool="sendMail")], Verdict("ask", by="policy:1")),
        ([ask(tool="send-*"), deny()], Verdict("deny", by="policy:3")),
        ([], Verdict("deny", by="policy:default")),
    ],
)
def test_a_rule_that_asks_by_words_loosens_nothing_that_is_said_of_that_very_tool(below: Any, says: Verdict) -> None:
    policy = Policy(ask(tool="send_*"), *below, default="deny")
    call = CallView("sendMail", "function", "a", {}, "", "c")
    assert (policy.judged(call), policy.explain(call).verdict) == (says, says)


def test_a_rule_that_asks_by_words_puts_its_terms_in_the_place_of_no_others() -> None:
    words = ask(tool="send_*", approval=Approval(role="support"))
    call = CallView("sendMail", "function", "a", {}, "", "c")
    assert Policy(words, ask(tool="sendMail", approval=_TWO)).judged(call) == Verdict("ask", terms=_TWO, by="policy:2")
    assert Policy(words, ask(tool="sendMail")).judged(call) == Verdict("ask", by="policy:2")
    assert Policy(words).judged(call) is None


_PRESETS = (presets.careful, presets.reads_run, presets.read_only, presets.no_deletes)


@pytest.mark.parametrize("name", presets.NAMED)
def test_each_can_be_extended_by_its_name(name: str) -> None:
    assert Policy.from_toml(f'extends = "{name}"').rules == presets.NAMED[name][0]


def test_money_runs_up_to_a_sum() -> None:
    policy = Policy(*presets.money(100, tool="pay*", of="tenant"))
    assert [rule.action for rule in policy.rules] == ["ask", "allow"]
    assert policy.counts_for_several_runs


async def test_tools_tell_what_they_state(tmp_path: Path, streamed: bool) -> None:
    """The read-only tools of a folder run under a careful policy, and what writes asks."""
    (tmp_path / "a.txt").write_text("hello")
    made: list[str] = []

    @function_tool(read_only=True)
    def look() -> str:
        made.append("look")
        return "seen"

    @function_tool
    def change() -> str:
        made.append("change")
        return "done"

    calls = [
        function_call("look", {}, call_id="c1"),
        function_call("change", {}, call_id="c2"),
        function_call("read_file", {"path": "a.txt"}, call_id="c3"),
        function_call("write_file", {"path": "b.txt", "content": "x"}, call_id="c4"),
    ]
    model = ScriptedModel(lambda asked: "done" if tool_outputs(asked) else calls)
    agent = Agent("a", model=model, tools=[look, change, *filesystem_tools(str(tmp_path))])
    result = await play(agent, "go", streamed, policy=Policy(*presets.careful))
    assert [item.call_id for item in result.interruptions] == ["c2", "c4"]
    assert made == ["look"]
