"""`keyturn insights`: figures and suggested rules from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from keyturn import Agent, Inbox, Policy, Runner, function_tool
from keyturn.cli.main import main
from keyturn.core.people import Decider
from keyturn.journal import open_journal
from keyturn.models.scripted.model import ScriptedModel, function_call


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture
def url(tmp_path: Path, own_key: None) -> str:
    """A journal in which Ada approved twenty payments and rejected a larger one."""
    url = f"sqlite:///{tmp_path}/runs.db"

    async def fill() -> None:
        store = open_journal(url)
        calls = [function_call("pay", {"amount": 10 * each}, call_id=f"c{each}") for each in range(1, 22)]
        await Runner.run(Agent("desk", model=ScriptedModel([calls]), tools=[pay]), "go", journal=store)
        inbox = Inbox(store)
        for row in await inbox.list():
            decide = inbox.approve if row.params["amount"] <= 200 else inbox.reject
            await decide(row, by=Decider("ada\x1b[31m", strength="authenticated"))
        await store.close()

    asyncio.run(fill())
    return url


Said = pytest.CaptureFixture[str]


def test_how_people_decide_is_told(url: str, capsys: Said) -> None:
    assert main(["insights", "--journal", url]) == 0
    out = capsys.readouterr().out
    assert "tool pay: 21 decided, 95% approved, 5% rejected, decision after" in out
    assert "20 of 20 approved too fast to have been read" in out
    assert "\x1b" not in out, "names are escaped"
    assert main(["insights", "--journal", url, "--days", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["total"]["decided"], told["tools"][0]["name"], told["people"][0]["hurried"]) == (21, "pay", 20)


def test_rules_are_suggested(url: str, capsys: Said) -> None:
    assert main(["insights", "--journal", url, "--suggest"]) == 0
    out = capsys.readouterr().out
    assert "tool pay, agent desk: 20 of 21 approved unchanged: this rule would have saved 20" in out
    policy = Policy.from_toml("\n".join(line.strip() for line in out.splitlines()[1:]))
    assert policy.rules[0].where == {"amount": {"ge": 10, "le": 200}}
    assert main(["insights", "--journal", url, "--suggest", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert (told["saves"], told["where"], told["free"]) == (20, {"amount": {"ge": 10, "le": 200}}, [])
    assert main(["insights", "--journal", url, "--suggest", "--tool", "none"]) == 0
    assert "no suggestions" in capsys.readouterr().out


def test_what_cannot_be_told_is_said(tmp_path: Path, url: str, capsys: Said) -> None:
    assert main(["insights", "--journal", url, "--days", "0"]) == 1
    assert "days is a whole number" in capsys.readouterr().err
    assert main(["insights", "--journal", url, "--tool", "pay"]) == 1
    assert "--tool goes with --suggest" in capsys.readouterr().err
    assert main(["insights", "--journal", f"sqlite:///{tmp_path}/none.db"]) == 1
