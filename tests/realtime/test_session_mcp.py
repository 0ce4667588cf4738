"""Calls that a provider makes itself, of a hosted MCP server, wait for a person; the word goes where it was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import HostedMCPTool, MemoryJournal
from keyturn.audit.checker import check
from keyturn.journal import open_journal
from keyturn.realtime import RealtimeAgent
from keyturn.realtime import model_events as me
from keyturn.testing.loopback.realtime import AskApproval
from tests.realtime.attending import OwnModel, conversing, talking_to
from tests.waiting import turns_of_the_loop, until

ASKED = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "wiki", "name": "search"}
ASKED |= {"arguments": '{"q": "x"}'}


def reader() -> RealtimeAgent[Any]:
    wiki = {"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp"}
    return RealtimeAgent("Reader", tools=[HostedMCPTool({**wiki, "require_approval": "always"})])


def responses(messages: list[Any]) -> list[Any]:
    items = [message.get("item", {}) for message in messages]
    return [item for item in items if item.get("type") == "mcp_approval_response"]


@pytest.mark.parametrize("approve", [True, False])
async def test_a_hosted_call_waits_and_the_provider_gets_the_word_on_it(approve: bool) -> None:
    journal = MemoryJournal()
    script = [AskApproval("wiki", "search", '{"q": "x"}', id="mcpr_1"), "It waits.", "Well."]
    async with conversing(reader(), script, journal=journal) as (session, server, told):
        await session.send_message("Look it up.")
        await told.until("tool_approval_required")
        await turns_of_the_loop(200)
        assert responses(server.messages) == []
        [item] = session.pending_approvals
        await (session.approve_tool_call(item) if approve else session.reject_tool_call(item))
        await until(lambda: responses(server.messages))
        [said] = responses(server.messages)
        assert (said["approval_request_id"], said["approve"]) == ("mcpr_1", approve)
        assert server.errors == []
    assert (await check(journal)).ok


async def test_a_word_on_a_hosted_call_goes_to_no_other_connection() -> None:
    """There the same id may mean another call, and nobody was asked about that one."""
    model = OwnModel()
    async with talking_to(model, reader()) as (session, told):
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(ASKED)))
        first = await told.until("tool_approval_required")
        await session.reconnect()
        await session.approve_tool_call(first.item)
        await until(lambda: "mcpr_1" in str(model.sent))
        await turns_of_the_loop(200)
        assert "mcp_approval_response" not in str(model.sent)
        assert "nothing came of it" in str(model.sent)
        await model.tell(me.RealtimeModelApprovalRequestEvent({**ASKED, "arguments": '{"q": "everything"}'}))
        again = await told.until("tool_approval_required", 2)
        assert "everything" in again.arguments
        await session.reject_tool_call(again.item)
        await until(lambda: "mcp_approval_response" in str(model.sent))
        [said] = [each for each in model.sent if "mcp_approval_response" in str(each)]
        assert said.message["other_data"]["item"]["approve"] is False


@pytest.mark.parametrize("name", ["\ud800", "", 7, None])
async def test_a_request_by_an_odd_id_ends_no_session(name: Any, tmp_path: Path) -> None:
    journal: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")
    model = OwnModel()
    async with talking_to(model, reader(), journal=journal) as (session, told):
        await model.tell(me.RealtimeModelApprovalRequestEvent({**ASKED, "id": name}))
        await told.until("error")
        assert session.pending_approvals == []
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(ASKED)))
        await told.until("tool_approval_required")
        assert told.ended is None


@pytest.mark.parametrize("name", ["\ud800", "\x00", "x" * 100_000])
async def test_words_of_an_odd_id_end_no_session(name: str, tmp_path: Path) -> None:
    journal: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")
    model = OwnModel()
    async with talking_to(model, reader(), journal=journal) as (session, told):
        await model.tell(me.RealtimeModelInputAudioTranscriptionCompletedEvent(name, "hello"))
        await model.says("Hello.", name + "2", name)
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(ASKED)))
        await told.until("tool_approval_required")
        assert told.ended is None
        run = session.run_id
    assert (await check(journal)).ok
    async with talking_to(again := OwnModel(), reader(), journal=journal, resume=run) as (session, _told):
        await until(lambda: "Hello." in str(again.sent))
        assert len(session.pending_approvals) == 1
