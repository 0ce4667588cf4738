"""What readers of a run see of a conversation that it was given, and of what a model of one's own may write."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from keyturn import Agent, MemoryJournal, Runner, Secret, function_tool
from keyturn.audit.evidence.secret_lines import SecretLines
from keyturn.core import events as ev
from keyturn.core.codec import encode
from keyturn.core.folding import fold
from keyturn.core.items import wrong_in
from keyturn.core.run import new_run
from keyturn.core.usage import NOTHING
from keyturn.engine.run.log_cache import log_in
from keyturn.presenting.event_words import Teller
from keyturn.server.api.run_lines import shown_line
from keyturn.testing import ScriptedModel, function_call
from keyturn.tracing.genai import of_reply

PASSWORD = "hunter2-4242"
GIVEN = f'{{"user": "ada", "password": "{PASSWORD}"}}'
CALL = function_call("sign_in", GIVEN, call_id="c1")
ASKED = {"type": "function_call_output", "call_id": "c1", "output": "in"}
HI = {"role": "user", "content": "and now?"}


@function_tool
def sign_in(user: str, password: Annotated[str, Secret]) -> str:
    """Sign in."""
    return user + password


@function_tool
def look(at: str) -> str:
    """Look at something."""
    return at


def _read(steps: list[ev.Step]) -> tuple[str, str]:
    """Return what readers see of a log, and the lines of an export without secrets."""
    run, words, hide, shown, exported = new_run(), Teller(), SecretLines(), "", ""
    for line, step in enumerate(steps):
        fold(run, [step])
        body = encode(step)
        exported += "" if hide.holds(body) else body.decode()
        for event in step.events:
            shown += "".join(words.rows(run, event))
        shown += str(shown_line(line, run, step))
    return shown, exported


async def _begun(given: list[Any], *tools: Any) -> tuple[str, str]:
    journal = MemoryJournal()
    done = await Runner.run(Agent("desk", model=ScriptedModel(["Hello."]), tools=[*tools]), given, journal=journal)
    return _read((await log_in(journal, done.run_id)).steps)


@pytest.mark.parametrize("tools", [[sign_in, look], [look], []], ids=["its tool", "another tool", "no tool"])
async def test_no_reader_sees_a_secret_in_the_conversation_that_a_run_begins_with(tools: list[Any]) -> None:
    shown, exported = await _begun([CALL, ASKED, HI], *tools)
    assert PASSWORD not in shown + exported
    assert "[redacted]" in shown
    assert "and now?" in shown


async def test_calls_of_tools_without_secrets_are_shown_with_the_conversation_that_a_run_begins_with() -> None:
    shown, exported = await _begun([function_call("look", {"at": "the sky"}, call_id="c1"), ASKED, HI], look, sign_in)
    assert "the sky" in shown
    assert "the sky" in exported


BEGUN = [ev.RunStarted("run", "salt", "hi", {"secrets": {"sign_in": ["password"], "docs": ["password"]}})]
LATER: dict[str, ev.AnyEvent] = {
    "a message": ev.InputAdded("r", [CALL, ASKED]),
    "a message with a call that is not of a function": ev.InputAdded(
        "r", [{"type": "radio_call", "call_id": "c", "wave": {"key": PASSWORD}}]
    ),
    "an agent that begins": ev.FrameOpened("r/1.0", "desk/other", [CALL]),
    "a call without a type": ev.InputAdded("r", [{"name": "log_in", "call_id": "c", "arguments": GIVEN}]),
    "a handoff": ev.HandedOff("r", "desk", [CALL]),
    "a summary of an earlier run": ev.HistoryCompacted("r", [{"role": "user", "content": PASSWORD}], NOTHING),
    "a call that the provider ran": ev.ReplyRecorded(
        "r", [{"type": "mcp_call", "id": "m", "server_label": "docs", "name": "log_in", "arguments": GIVEN}]
    ),
}


@pytest.mark.each
@pytest.mark.parametrize("later", LATER)
def test_no_reader_sees_a_secret_in_what_comes_later(later: str) -> None:
    opened = ev.FrameOpened("r", "desk", [HI], prefix="session")
    shown, exported = _read([ev.Step(1, [*BEGUN, opened]), ev.Step(2, [LATER[later]])])
    assert PASSWORD not in shown + exported
    assert "salt" in exported


def test_a_summary_in_a_run_without_secrets_is_exported() -> None:
    began: list[ev.AnyEvent] = [ev.RunStarted("run", "salt", "hi"), ev.FrameOpened("r", "desk", [HI], prefix="session")]
    summary = ev.HistoryCompacted("r", [{"role": "user", "content": "It was about paper."}], NOTHING)
    assert "paper" in _read([ev.Step(1, began), ev.Step(2, [summary])])[1]


WRITTEN: dict[str, dict[str, Any]] = {
    "a text": {"type": "message", "role": "assistant", "content": "I pay now."},
    "no type": {"role": "assistant", "content": "I pay now."},
    "parts": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I pay now."}]},
    "a refusal": {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    "odd parts": {"type": "message", "content": [{}, {"text": None}, {"text": "I pay now."}]},
    "thoughts in a text": {"type": "reasoning", "summary": "why", "content": 5},
    "what nobody knows": {"type": "news", "content": 5, "summary": [3], "text": "why"},
}


@pytest.mark.each
@pytest.mark.parametrize("written", WRITTEN)
def test_what_a_model_may_write_is_shown(written: str) -> None:
    item = WRITTEN[written]
    assert wrong_in(item) is None
    steps = [ev.Step(1, [*BEGUN, ev.FrameOpened("r", "desk", [HI])]), ev.Step(2, [ev.ReplyRecorded("r", [item])])]
    assert str(_read(steps)[0]).count("I pay now.") == (2 if "I pay now." in str(item) else 0)
    assert of_reply([item], {})
