"""`keyturn policy`: a file is checked, tried on past calls, and what a policy in shadow mode said is listed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from keyturn import Agent, Policy, Rule, Secret, function_tool
from keyturn.cli.main import main
from keyturn.journal import open_journal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.playing import play

DENY_MUCH = '[[rules]]\naction = "deny"\ntool = "pay"\nwhere = { amount = { gt = 50 } }\n'


def agent(*amounts: int) -> Agent[Any]:
    @function_tool
    def pay(amount: int, key: Annotated[str, Secret]) -> str:
        return "paid"

    calls = [function_call("pay", {"amount": each, "key": "s3cr3t"}, call_id=f"c{each}") for each in amounts]
    return Agent("desk", model=ScriptedModel(lambda asked: "done" if tool_outputs(asked) else calls), tools=[pay])


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A journal with three payments that ran, and one that a policy in shadow mode would have denied."""
    found = f"sqlite:///{tmp_path}/runs.db"
    journal: Any = open_journal(found)
    await play(agent(40, 60), "go", journal=journal, policy=Policy(default="allow"))
    shadow = Policy(Rule("deny", where={"amount": {"gt": 50}}, reason="too much"), default="allow", shadow=True)
    await play(agent(70), "go", journal=journal, policy=shadow)
    await journal.close()
    return found


def file(tmp_path: Path, text: str) -> str:
    (tmp_path / "new.toml").write_text(text)
    return str(tmp_path / "new.toml")


def test_it_shows_what_would_change(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", file(tmp_path, DENY_MUCH), "--journal", url]) == 1
    said = capsys.readouterr().out
    assert "pay: 2 was allowed, would be denied" in said
    assert '"amount": 60, "key": "[redacted]"' in said
    assert "s3cr3t" not in said


def test_nothing_changes_under_the_same_rules(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", file(tmp_path, 'default = "allow"'), "--journal", url]) == 0
    assert "nothing would change" in capsys.readouterr().out


def test_json_counts_by_tool(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["policy", "test", file(tmp_path, DENY_MUCH), "--journal", url, "--json", "--examples", "1"])
    found = json.loads(capsys.readouterr().out)
    [denied] = [each for each in found["verdicts"] if each["would"] == "deny"]
    assert (found["calls"], denied["calls"], len(denied["examples"]), found["changed"]) == (3, 2, 1, True)


def test_what_hangs_on_other_runs_is_not_known(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        '[[rules]]\naction = "ask"\nover = { budget = "amount", most = 5, of = "tenant" }\n[[rules]]\naction = "allow"'
    )
    assert main(["policy", "test", file(tmp_path, text), "--journal", url]) == 0
    assert "pay: 3 was allowed, would be unknown" in capsys.readouterr().out


def test_a_replay_reads_on_where_a_rule_cannot_tell(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[[rules]]\naction = "ask"\nwhere = { amount = { le = "50" } }\n'
    assert main(["policy", "test", file(tmp_path, f'default = "deny"\n{text}'), "--journal", url]) == 1
    assert "pay: 3 was allowed, would be denied" in capsys.readouterr().out
    main(["policy", "test", file(tmp_path, f'{text}[[rules]]\naction = "deny"\n'), "--journal", url])
    assert "pay: 3 was allowed, would be denied" in capsys.readouterr().out


def test_only_calls_since_then_are_looked_at(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(tmp_path, DENY_MUCH)
    assert main(["policy", "test", path, "--journal", url, "--since", "1ms"]) == 0
    assert main(["policy", "test", path, "--journal", url, "--since", "7d"]) == 1
    assert "3 calls" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["file", "journal", "since"])
def test_what_cannot_be_used_is_an_error_of_its_own(
    what: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, DENY_MUCH.replace("tool", "tol") if what == "file" else DENY_MUCH)
    since = ["--since", "soon"] if what == "since" else []
    given = f"sqlite:///{tmp_path}/none.db" if what == "journal" else url
    assert main(["policy", "test", path, "--journal", given, *since]) == 2
    assert "keyturn policy:" in capsys.readouterr().err


def test_a_file_is_checked_with_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", file(tmp_path, DENY_MUCH)]) == 0
    assert main(["policy", "check", file(tmp_path, DENY_MUCH.replace("tool", "tol"))]) == 2
    assert "new.toml:3: rule 1: unknown key 'tol'" in capsys.readouterr().err.replace("\n", " ")


def test_what_a_policy_in_shadow_mode_said_is_listed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "shadow", "--journal", url]) == 1
    said = capsys.readouterr().out
    assert "1 call\n" in said
    assert "pay: 1 was allowed, would be denied" in said
    assert "too much" in said


APP = """
from keyturn import Agent, App, Policy, Rule, function_tool
from keyturn.testing import ScriptedModel

class Server:
    async def tools_for(self, context, agent):
        return []

@function_tool
def pay(amount: int, tags: list[str]) -> str:
    return "paid"

def app_of(*rules, servers=()):
    agent = Agent("desk", model=ScriptedModel([]), tools=[pay], mcp_servers=list(servers))
    return App([agent], "memory://", Policy(*rules, default="ask"))

app = app_of()
open_app = app_of(Rule("deny", tool="pya"), servers=[Server()])
"""


def test_rules_are_checked_against_the_app_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "linted_app.py").write_text(APP)
    for text, says in (
        ('action = "deny"\ntool = "pya"', "new.toml:3: rule 1: no tool is named 'pya'; did you mean 'pay'?"),
        ('action = "deny"\ntool = "pay"\nwhere = { amuont = 5 }', "new.toml:4: rule 1: no argument of 'pay'"),
        ('action = "deny"\nwhere = { tags = { matches = "x" } }', "new.toml:3: rule 1: 'tags' is a list"),
    ):
        path = file(tmp_path, f"[[rules]]\n{text}\n")
        assert main(["policy", "check", path]) == 0
        for command in (["check", path], ["test", path, "--journal", "sqlite:///none.db"]):
            capsys.readouterr()
            assert main(["policy", *command, "--app", "linted_app:app"]) == 2
            assert says in capsys.readouterr().err
    path = file(tmp_path, '[[rules]]\naction = "deny"\ntool = "pya"\n')
    assert main(["policy", "check", path, "--app", "linted_app:open_app"]) == 0
    assert "a server that is not asked yet may bring it" in capsys.readouterr().err
    main(["doctor", "--app", "linted_app:open_app", "--json"])
    [found] = [each for each in json.loads(capsys.readouterr().out) if each["what"] == "policy"]
    assert (found["level"], "did you mean 'pay'" in found["said"]) == ("warn", True)
