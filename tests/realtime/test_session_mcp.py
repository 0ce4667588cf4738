"""Calls that a provider makes itself, of a hosted MCP server, wait for a person; the word goes where it was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, HostedMCPTool, MemoryJournal
from keyturn.audit.checker import check
from keyturn.core import events as ev
from keyturn.engine.run.log_cache import log_in
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


def states(session: Any) -> list[str]:
    """The states of the calls that have no result yet."""
    return [call.state for call in session.opened().run.calls.values()]


async def steps(journal: Any, run: str) -> list[str]:
    """What the record says of calls, in its order."""
    told = [event for step in (await log_in(journal, run)).steps for event in step.events]
    named: dict[Any, str] = {
        ev.CallDecided: "decided",
        ev.CallStarted: "started",
        ev.CallLost: "lost",
        ev.CallFinished: "finished",
    }
    return [named[type(event)] for event in told if type(event) in named]


@pytest.mark.parametrize("approve", [True, False])
async def test_a_hosted_call_waits_and_the_provider_gets_the_word_on_it(approve: bool) -> None:
    journal = MemoryJournal()
    script = [AskApproval("wiki", "search", '{"q": "x"}', id="mcpr_1"), "It waits.", "Well."]
    async with conversing(reader(), script, journal=journal) as (session, server, told):
        await session.send_message("Look it up.")
        await told.until("tool_approval_required")
        await turns_of_the_loop(200)
        assert responses(server.messages) == []
        assert states(session) == ["asked"]
        [item] = session.pending_approvals
        await (session.approve_tool_call(item) if approve else session.reject_tool_call(item))
        await until(lambda: responses(server.messages))
        [said] = responses(server.messages)
        assert (said["approval_request_id"], said["approve"]) == ("mcpr_1", approve)
        assert server.errors == []
        await until(lambda: states(session) == [])
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
        assert "it did not run" in str(model.sent)
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


async def asked_on(model: OwnModel, told: Any, count: int = 1, **more: Any) -> Any:
    await model.tell(me.RealtimeModelApprovalRequestEvent({**ASKED, **more}))
    return (await told.until("tool_approval_required", count)).item


def sent(model: OwnModel) -> int:
    return sum("mcp_approval_response" in str(each) for each in model.sent)


async def test_an_approved_call_is_started_with_its_approval_and_over_with_what_the_provider_reports() -> None:
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, reader(), journal=journal) as (session, told):
        await session.approve_tool_call(await asked_on(model, told))
        await until(lambda: sent(model) == 1)
        await turns_of_the_loop(200)
        assert (states(session), await steps(journal, session.run_id)) == (["started"], ["decided", "started"])
        for request in ("mcpr_2", "mcpr_1", "mcpr_1"):
            await model.tell(me.RealtimeModelHostedCallEndedEvent(request))
        await until(lambda: states(session) == [])
        await session.reconnect()
        await turns_of_the_loop(200)
        assert sent(model) == 1, "what was sent is sent once"
        run = session.run_id
    assert await steps(journal, run) == ["decided", "started", "finished"]
    assert (await check(journal)).ok


@pytest.mark.parametrize("how", ["the connection is another", "the connection was lost", "the session is closed"])
async def test_an_approved_call_whose_connection_ended_is_in_doubt_and_sent_once(how: str) -> None:
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, reader(), journal=journal) as (session, told):
        await session.approve_tool_call(await asked_on(model, told))
        await until(lambda: sent(model) == 1)
        run = session.run_id
        if how == "the connection is another":
            await session.reconnect()
        elif how == "the connection was lost":
            await model.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))
        if how != "the session is closed":
            doubt = (await told.until("tool_approval_required", 2)).item
            assert (doubt.kind, sent(model)) == ("in_doubt", 1)
            await session.reconnect()
            await model.tell(me.RealtimeModelHostedCallEndedEvent("mcpr_1"))
            await turns_of_the_loop(200)
            assert states(session) == ["in_doubt"], "that connection says nothing of another's call"
    if how != "the session is closed":
        assert sent(model) == 1
    again = OwnModel()
    async with talking_to(again, reader(), journal=journal, resume=run) as (session, told):
        [doubt] = session.pending_approvals
        assert doubt.kind == "in_doubt"
        app = App([reader_of_runs()], journal, worker=False)
        await app.inbox.resolve((await app.inbox.list())[0], "retry", by="ada")
        await told.until("tool_approval_decided")
        await until(lambda: states(session) != ["started"])
        await turns_of_the_loop(200)
        assert (sent(again), states(session)) == (0, ["in_doubt"]), "its connection is gone: a retry sends nothing"
    assert await steps(journal, run) == ["decided", "started", "lost", "decided", "lost"]
    assert (await check(journal)).ok


def reader_of_runs() -> Any:
    return Agent("Reader")


@pytest.mark.parametrize("approve", [True, False])
async def test_a_decision_that_is_made_while_there_is_no_connection_is_told_to_the_next_one(approve: bool) -> None:
    journal, model = MemoryJournal(), OwnModel()
    config: Any = {"reconnect_attempts": 0}
    async with talking_to(model, reader(), journal=journal, config=config) as (session, told):
        item = await asked_on(model, told)
        await model.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))
        await (
            session.approve_tool_call(item) if approve else session.reject_tool_call(item, rejection_message="Stop.")
        )
        await until(lambda: states(session) == [])
        assert sent(model) == 0
        await session.reconnect()
        words = "request it again if it is still needed" if approve else "Stop."
        assert [each for each in model.sent if words in str(each)], "the next connection is told"
        assert sent(model) == 0, "nothing answers a request that it did not make"
        await model.says("Well.")
        await until(lambda: len(session.opened().run.frames[ev.ROOT].items) == 3)
        before = len([each for each in model.sent if words in str(each)])
        await session.reconnect()
        assert len([each for each in model.sent if words in str(each)]) == before, "and no connection after that"
    assert (await check(journal)).ok


async def test_an_approval_that_a_dead_connection_was_sent_is_in_doubt() -> None:
    model = OwnModel(lambda event: "mcp_approval_response" in str(event))
    async with talking_to(model, reader()) as (session, told):
        await session.approve_tool_call(await asked_on(model, told))
        assert (await told.until("tool_approval_required", 2)).item.kind == "in_doubt"


async def test_a_worker_sends_no_approval_of_a_call_that_a_connection_asked_about(tmp_path: Path) -> None:
    """The session is over, and nobody else can answer its provider."""
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, reader(), journal=journal) as (session, told):
        await asked_on(model, told)
        run = session.run_id
    async with App([reader()], journal) as app:
        await app.inbox.approve((await app.inbox.list())[0], by="ada")
        await until_steps(journal, run, 2)
    assert await steps(journal, run) == ["decided", "finished"]
    assert (await check(journal)).ok


async def until_steps(journal: Any, run: str, count: int) -> None:
    while len(await steps(journal, run)) < count:
        await turns_of_the_loop(1)


async def test_without_async_tool_calls_an_approval_returns_once_it_was_sent() -> None:
    """A model of one's own may never tell how the call ended, and what it says is heard meanwhile."""
    config: Any = {"async_tool_calls": False, "close_timeout": 0.05}
    model = OwnModel()
    async with talking_to(model, reader(), config=config) as (session, told):
        await model.tell(me.RealtimeModelApprovalRequestEvent(dict(ASKED)))
        await told.until("tool_approval_required")
        await asyncio.wait_for(session.approve_tool_call("mcpr_1"), 5)
        await until(lambda: "'approve': True" in str(model.sent))
