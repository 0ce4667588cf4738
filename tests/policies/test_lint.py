"""Rules are linted where they are written: what names nothing that an app has is refused, with what was meant."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from keyturn import (
    Agent,
    App,
    Budget,
    CodeInterpreterTool,
    Computer,
    ComputerTool,
    HostedMCPTool,
    Policy,
    PolicyFile,
    Reviewer,
    Rule,
    RunConfig,
    ShellTool,
    UserError,
    function_tool,
)
from keyturn.deep import create_deep_agent
from keyturn.policies import presets
from keyturn.testing import ScriptedModel
from tests.table import each


class Env(StrEnum):
    PROD = "prod"
    TEST = "test"


@function_tool
def pay(amount: float, to: str = "ada", tags: list[str] | None = None) -> str:
    """Pay."""
    return f"paid {amount} to {to}: {tags}"


@function_tool(strict_mode=False)
def deploy(env: Env, options: dict[str, str]) -> str:
    """Deploy."""
    return f"{env} {options}"


class Server:
    """Brings tools that nobody knows before it is asked."""

    async def tools_for(self, context: Any, agent: Any) -> list[Any]:
        return []


def agent(*tools: Any, **more: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([]), tools=[*(tools or (pay, deploy))], **more)


def app(*rules: Rule, at: Agent[Any] | None = None, **more: Any) -> App:
    return App(agents=[at or agent()], journal="memory://", policy=Policy(*rules, default="ask"), **more)


def deny(**matching: Any) -> Rule:
    return Rule("deny", **matching)


@each(
    ("rule", "says"),
    [
        (deny(tool="pya"), "rule 1: no tool is named 'pya'; did you mean 'pay'?"),
        (deny(tool="refund"), "no tool is named 'refund'; there is 'pay', 'deploy'"),
        (deny(agent="dekc"), "no agent is named 'dekc'; did you mean 'desk'?"),
        (deny(agent="desk/billing"), "no agent is named 'desk/billing'"),
        (deny(kind="functoin"), "no tool is of the kind 'functoin'; did you mean 'function'?"),
        (deny(risk="hihg"), "no tool states the risk 'hihg'; did you mean 'high'?"),
        (deny(tool="pay", where={"amuont": 5}), "no argument of 'pay' is named 'amuont'; did you mean 'amount'?"),
        (deny(where={"amuont": {"gt": 5}}), "is named 'amuont'; did you mean 'amount'?"),
        (deny(tool="p*", where={"amuont": {"gt": 5}}), "is named 'amuont'; did you mean 'amount'?"),
        (deny(tool="pay", where={"amount": {"matches": "5.*"}}), "is a number, which 'matches' cannot compare"),
        (deny(tool="pay", where={"to": {"lt": 5}}), "'to' is a text, which 'lt' cannot compare with a number"),
        (deny(tool="pay", where={"to": 5}), "'to' is a text, which 'eq' cannot compare with a number"),
        (deny(tool="pay", where={"to": {"any": "eve"}}), "'to' is a text, which has no members"),
        (deny(tool="pay", where={"to.name": "eve"}), "no argument of 'pay' is named 'to.name'"),
        (deny(tool="pay", where={"tags": {"matches": "x"}}), "write { any = { matches = ... } } or { all = "),
        (deny(tool="pay", where={"tags": {"any": {"gt": 5}}}), "'tags[]' is a text, which 'gt' cannot compare"),
        (deny(tool="deploy", where={"env": "prd"}), "'env' is never 'prd'; it is one of 'prod', 'test'"),
        (deny(tool="deploy", where={"env": {"one_of": ["prod", "tset"]}}), "'env' is never 'tset'"),
        (Rule("ask", tool="pay", over=Budget("amuont", 5)), "is named 'amuont'; did you mean 'amount'?"),
        (Rule("ask", tool="pay", over=Budget("to", 5)), "'to' is a text"),
    ],
)  # fmt: skip
def test_a_rule_that_matches_nothing_of_the_app_is_refused_with_what_was_meant(rule: Rule, says: str) -> None:
    with pytest.raises(UserError) as caught:
        app(rule)
    assert says in str(caught.value)


@each(
    "rule",
    [
        deny(tool="pay"), deny(agent="desk"), deny(tool="*"), deny(tool="delete_*"), deny(),
        deny(risk="critical"), deny(tool="pay", where={"amount": {"gt": 5}, "to": {"matches": "e.*"}}),
        deny(tool="pay", where={"tags": {"any": {"matches": "x"}}}), deny(tool="pay", where={"tags": None}),
        deny(tool="pay", where={"tags": ["x"]}), deny(tool="deploy", where={"env": {"one_of": ["prod"]}}),
        deny(tool="deploy", where={"options.region": "eu"}), deny(where={"amount": {"gt": 5}}),
        Rule("ask", tool="pay", over=Budget("amount", 5)), *presets.no_deletes, *presets.careful,
        *presets.money(100, tool="pay"),
    ],
)  # fmt: skip
def test_a_rule_that_can_match_something_is_taken(rule: Rule) -> None:
    app(rule)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UserError, match=r"rule 1: .*'pya'.*; rule 3: .*'amuont'"):
        app(deny(tool="pya"), deny(tool="pay"), deny(tool="pay", where={"amuont": 5}))


def test_what_a_server_may_still_bring_is_warned_of_and_a_pattern_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "keyturn"):
        app(deny(tool="pya"), deny(tool="delete_*"), at=agent(pay, mcp_servers=[Server()]))
    assert [record.getMessage() for record in caplog.records] == [
        "policy: rule 1: no tool is named 'pya'; did you mean 'pay'?; a server that is not asked yet may bring it",
        "policy: rule 2: no tool is named 'delete_*'; there is 'pay'; a server that is not asked yet may bring it",
    ]
    with pytest.raises(UserError, match="'amuont'"):  # a tool that is known is known
        app(deny(tool="pay", where={"amuont": 5}), at=agent(pay, mcp_servers=[Server()]))


def test_what_the_provider_runs_asks_no_rule_and_the_rule_is_refused() -> None:
    code = CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}})
    with pytest.raises(UserError, match="'code_interpreter' is run by the provider, which asks no rule"):
        app(deny(tool="code_interpreter"), at=agent(pay, code))
    with pytest.raises(UserError, match="'shell' is run by the provider, which asks no rule"):
        app(deny(tool="shell"), at=agent(pay, ShellTool(environment={"type": "container_auto"})))


def test_a_rule_that_names_a_server_at_the_provider_is_refused_as_its_tools_have_other_names() -> None:
    docs = HostedMCPTool({"type": "mcp", "server_label": "docs", "server_url": "https://docs.example.com/mcp"})
    with pytest.raises(UserError, match="'docs' is an MCP server at the provider: name its tools, or kind="):
        app(deny(tool="docs"), at=agent(pay, docs))


def test_a_computer_is_one_tool_and_hides_no_typo() -> None:
    desk = ComputerTool(Mock(spec=Computer))
    with pytest.raises(UserError, match="pay"):
        App([Agent("desk", tools=[pay, desk])], "memory://", policy=Policy(Rule("deny", tool="pya")))


def test_the_agents_below_and_what_they_have_are_known() -> None:
    billing = Agent("billing", model=ScriptedModel([]), tools=[pay])
    top = Agent("desk", model=ScriptedModel([]), handoffs=[billing], tools=[deploy])
    rules = [deny(agent="desk/billing", tool="pay"), deny(agent="billing"), deny(tool="transfer_to_billing")]
    app(*rules, at=top)
    with pytest.raises(UserError, match="no tool of agent 'billing' is named 'deploy'; there is 'pay'"):
        app(deny(agent="billing", tool="deploy"), at=top)


def test_every_place_that_holds_rules_is_looked_at(tmp_path: Path) -> None:
    wrong = Policy(deny(tool="pya"))
    inner = Agent("inner", model=ScriptedModel([]), tools=[pay])
    nested = inner.as_tool("inner", "Ask it.", run_config=RunConfig(policy=wrong))
    reviewer = Reviewer(ScriptedModel([]), "Judge.", rules=wrong)
    places: list[dict[str, Any]] = [
        {"agents": [agent()], "run_config": RunConfig(policy=wrong)},
        {"agents": [agent()], "policy": reviewer},
        {"agents": [agent(nested)]},
    ]
    for options in places:
        with pytest.raises(UserError, match="did you mean 'pay'"):
            App(journal="memory://", **options)


def test_a_deep_agent_has_the_tools_of_its_backend() -> None:
    deep: Any = create_deep_agent(ScriptedModel([]), tools=[pay])
    App(agents=[deep], journal="memory://", policy=Policy(deny(tool="write_file", where={"path": {"under": "/etc"}})))
    with pytest.raises(UserError, match="did you mean 'write_file'"):
        App(agents=[deep], journal="memory://", policy=Policy(deny(tool="wirte_file")))


def test_a_file_that_becomes_wrong_for_the_app_is_refused_and_the_rules_before_it_hold(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    rule = '[[rules]]\naction = "deny"\ntool = "{}"\n'
    path.write_text(rule.format("pya"))
    policy = PolicyFile(path)
    with pytest.raises(UserError, match=r"policy.toml:3: rule 1: no tool is named 'pya'"):
        App(agents=[agent()], journal="memory://", policy=policy)
    path.write_text(rule.format("pay"))
    policy.look()
    App(agents=[agent()], journal="memory://", policy=policy)
    path.write_text(f"# new\n{rule.format('deplyo')}")
    policy.look()
    assert policy.error is not None
    assert "policy.toml:4: rule 1: no tool is named 'deplyo'; did you mean 'deploy'?" in policy.error
    assert policy.policy.rules[0].tool == "pay"


def test_a_shell_command_is_denied_by_any_and_not_by_a_comparison_of_the_list() -> None:
    shell = agent(ShellTool(executor=lambda request: ""))
    with pytest.raises(UserError, match=r"'commands' is a list, which 'matches' cannot compare: write \{ any = "):
        app(deny(tool="shell", where={"commands": {"matches": "rm .*"}}), at=shell)
    app(deny(tool="shell", where={"commands": {"any": {"matches": "rm .*"}}}), at=shell)
