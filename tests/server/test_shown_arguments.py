"""What readers of a run see of a call's arguments where they did not fit the tool."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from keyturn import Agent, MemoryJournal, RunConfig, Runner, Secret, function_tool
from keyturn.audit.evidence.secret_lines import SecretLines
from keyturn.engine.run.log_cache import log_in
from keyturn.presenting.event_words import Teller
from keyturn.server.api.run_lines import shown_line
from keyturn.testing import ScriptedModel, function_call

PASSWORD = "hunter2-4242"
TOLD: Any = "return_error_to_model"
GIVEN: dict[str, tuple[str, Any]] = {
    "another value does not fit": ("sign_in", {"user": "ada", "tries": "many", "password": PASSWORD}),
    "the secret does not fit": ("sign_in", {"user": "ada", "tries": 1, "password": [PASSWORD]}),
    "a field of no tool": ("sign_in", {"user": "ada", "tries": 1, "password": "x", "passwd": PASSWORD}),
    "broken JSON": ("sign_in", f'{{"user": "ada", "tries": 1, "password": "{PASSWORD}"'),
    "a key twice": ("sign_in", f'{{"user": "ada", "password": "x", "password": "{PASSWORD}"}}'),
    "a tool that is not there": ("signin", {"user": "ada", "tries": 1, "password": PASSWORD}),
}


@function_tool(needs_approval=True)
def sign_in(user: str, tries: int, password: Annotated[str, Secret]) -> str:
    """Sign in."""
    return user + str(tries) + password


@function_tool(needs_approval=True)
def wait() -> str:
    """Wait for a person."""
    return "done"


async def _seen(tool: str, given: Any, *, tools: list[Any]) -> tuple[str, bool]:
    """Run a call beside one that waits; return what readers see, and whether the line of the reply is withheld."""
    journal = MemoryJournal()
    calls = [function_call(tool, given, call_id="c1"), function_call("wait", {}, call_id="c2")]
    agent, config = Agent("desk", model=ScriptedModel([calls]), tools=tools), RunConfig(tool_not_found_behavior=TOLD)
    paused = await Runner.run(agent, "go", journal=journal, run_config=config)
    log, words, hide = await log_in(journal, paused.run_id), Teller(), SecretLines()
    shown, withheld = "", False
    for line, (step, raw) in enumerate(zip(log.steps, await journal.read(paused.run_id), strict=True)):
        body = bytes(raw).partition(b"\t")[0]
        held = hide.holds(body)
        withheld = withheld or (held and b"function_call" in body)
        for event in step.events:
            shown += "".join(words.rows(log.run, event))
        shown += str(shown_line(line, log.run, step))
    return shown, withheld


@pytest.mark.parametrize("given", GIVEN)
async def test_no_reader_sees_the_secret_of_a_call_that_did_not_fit(given: str) -> None:
    shown, withheld = await _seen(*GIVEN[given], tools=[sign_in, wait])
    assert "[redacted]" in shown
    assert PASSWORD not in shown
    assert withheld


async def test_broken_arguments_of_a_tool_without_secrets_are_shown_as_they_were_written() -> None:
    shown, withheld = await _seen("wait", '{"a": 1', tools=[wait])
    assert '{"a": 1' in shown
    assert not withheld
