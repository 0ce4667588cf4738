"""Input that others wrote as no format has it is shown as far as it can be read, and makes no request unreadable."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, MemoryJournal, Runner, function_tool
from keyturn.core import events as ev
from keyturn.core.items import message_text, refusal_text
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox.desk import Inbox
from keyturn.journal.rows import Query
from keyturn.presenting.event_words import Teller
from keyturn.server.api.run_lines import shown_line
from keyturn.testing import ScriptedModel, function_call
from keyturn.tracing.genai import messages

CONTENTS: list[tuple[Any, str]] = [
    (5, ""),
    (True, ""),
    (None, ""),
    ({"a": 1}, ""),
    ([5], ""),
    ([{"text": 5}], ""),
    ([None, {"type": "input_text", "text": "hi"}], "hi"),
    ("hi", "hi"),
]


@pytest.mark.parametrize(("content", "text"), CONTENTS, ids=str)
async def test_input_of_any_content_leaves_a_request_that_can_be_shown(content: Any, text: str) -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    journal, agent = MemoryJournal(), Agent("desk", model=ScriptedModel([[function_call("pay", {})]]), tools=[pay])
    await Runner.run(agent, [{"role": "user", "content": content}], journal=journal)
    [row] = await journal.requests(Query())
    assert str((await Inbox(journal, {"desk": agent}).context(row)).task or "") == text


@pytest.mark.parametrize(("content", "text"), CONTENTS, ids=str)
def test_a_message_of_any_content_is_read_and_traced(content: Any, text: str) -> None:
    said = {"type": "message", "role": "assistant", "content": content}
    assert (message_text(said), refusal_text(said)) == (text if content == "hi" else "", "")
    assert [message["role"] for message in messages([said], {})] == ["assistant"]


async def test_a_models_words_are_shown_whether_they_come_as_a_text_or_in_parts() -> None:
    said = {"type": "message", "role": "assistant", "content": "I pay now."}
    journal = MemoryJournal()
    result = await Runner.run(Agent("desk", model=ScriptedModel([[said]])), "go", journal=journal)
    log = await log_in(journal, result.run_id)
    step = next(step for step in log.steps for event in step.events if isinstance(event, ev.ReplyRecorded))
    teller = Teller()
    words = [list(teller.rows(log.run, event)) for event in step.events]
    assert 'the model says: "I pay now."' in [word for row in words for word in row]
    assert [event["text"] for event in shown_line(1, log.run, step).events if "text" in event] == ["I pay now."]
