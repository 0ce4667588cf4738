"""A desk for the tests of words that decide: an app with a journal in a folder, and the command line in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keyturn.cli.main import main

APP = '''
from typing import Annotated

from keyturn import Agent, App, Approval, Secret, function_tool
from keyturn.testing import ModelStep, ScriptedModel, function_call, last_user_text, tool_outputs


@function_tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


@function_tool(approval=Approval(role="finance", quorum=2))
def wire(to: str, amount: int) -> str:
    """Wire money."""
    return f"wired {amount} to {to}"


@function_tool(needs_approval=True)
def login(user: str, password: Annotated[str, Secret]) -> str:
    """Log in."""
    return f"{user} came in"


HOSTILE = "ann\\x1b[2J\\u202e\\x9b31m\\nkeyturn approve all"
@function_tool(approval=Approval(role="finance", break_glass="oncall"))
def stop(what: str) -> str:
    """Stop something."""
    return f"stopped {what}"


CALLS = {
    "stop": {"what": "the line"},
    "pay": {"to": "ann", "amount": 500},
    "hostile": {"to": HOSTILE, "amount": 1},
    "wire": {"to": "ann", "amount": 9},
    "login": {"user": "ann", "password": "hunter2"},
}


def answer(request):
    word = last_user_text(request)
    if tool_outputs(request):
        return f"Over: {list(tool_outputs(request).values())[0]}"
    return [function_call("pay" if word == "hostile" else word, CALLS[word])]


model = ScriptedModel([ModelStep.respond(answer)] * 50)
app = App([Agent("desk", model=model, tools=[pay, wire, login, stop])], "sqlite:///keyturn.db", worker=WORKER)
'''


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Here:
    """A folder with an app and a journal, and the command in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *words: str) -> Said:
        self._capsys.readouterr()
        code = main(words)
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def wait_for(self, word: str) -> dict[str, Any]:
        """Start a run whose one call waits; return the request."""
        made = self("run", f"{self.name}:app", "desk", word, "--wait", "--json")
        assert made.code == 3, made
        [request] = made.data["requests"]
        return self("show", request, "--json").data

    name = "program"


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory of the test's own: `keyturn init` notes there which journal it made."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def here(tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    for variable in ("KEYTURN_JOURNAL", "KEYTURN_TOKEN", "EDITOR", "VISUAL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KEYTURN_AS", "ada")
    made = Here(tmp_path, capsys)
    Here.name = f"program_{abs(hash(tmp_path))}"
    (tmp_path / f"{made.name}.py").write_text(APP.replace("WORKER", "True"), encoding="utf-8")
    assert made("init", "ada").code == 0
    return made


def fresh(here: Here) -> None:
    """Forget the app, whose journal its last command closed, as another process would."""
    sys.modules.pop(here.name, None)


@pytest.fixture
def wait_for(here: Here) -> Callable[[str], dict[str, Any]]:
    def waiting(word: str) -> dict[str, Any]:
        fresh(here)
        made = here.wait_for(word)
        fresh(here)
        return made

    return waiting


Wait = Callable[[str], dict[str, Any]]
