"""Calls of a realtime session wait for people: decided in the session or in an inbox, and never run twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn import Approval, Inbox, MemoryJournal, NotAllowed, function_tool
from keyturn.audit.checker import check
from keyturn.core.errors import Conflict, NotPending
from keyturn.core.people import Decider
from keyturn.journal import open_journal
from keyturn.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from keyturn.testing.loopback.realtime import Call, Gate
from tests.realtime.attending import OwnModel, conversing, talking_to
from tests.realtime.desk import ran, refund, support
from tests.waiting import never, turns_of_the_loop, until


def asking(**terms: Any) -> RealtimeAgent[Any]:
    @function_tool(needs_approval=True, **terms)
    def refund(order: str, amount: int) -> str:
        """Refund an order."""
        ran.append((order, amount))
        return f"refunded {amount}"

    @function_tool
    def look_up(order: str) -> str:
        """Look an order up."""
        ran.append((order, 0))
        return f"order {order}"

    return RealtimeAgent("Support", instructions="Help.", tools=[refund, look_up])


def pay(call_id: str, amount: int = 5) -> Call:
    return Call("refund", {"order": "A1", "amount": amount}, call_id)


@pytest.fixture(params=["none", "memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    makes: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "memory": MemoryJournal,
        "sqlite": lambda: open_journal(f"sqlite:///{tmp_path}/runs.db"),
    }
    return makes[request.param]()


async def test_an_approved_call_runs_once_and_its_result_reaches_the_model(journal: Any) -> None:
    async with conversing(asking(), [pay("c1"), "It waits.", "Done."], journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        asked = await told.until("tool_approval_required")
        assert (asked.agent.name, asked.tool.name, asked.call_id) == ("Support", "refund", "c1")
        assert asked.arguments == '{"order": "A1", "amount": 5}'
        assert [item.request_id for item in session.pending_approvals] == [asked.request_id]
        assert ran == []
        await session.approve_tool_call("c1")
        assert await server.answered("c1") == "refunded 5"
        await told.until("agent_end", 3)
        assert server.errors == []
        run_id = session.run_id
    assert ran == [("A1", 5)]
    order = ["tool_approval_required c1", "tool_approval_decided c1", "tool_start c1", "tool_end c1"]
    assert told.calls() == order
    assert told.ended is None
    if journal is not None:
        report = await check(journal)
        assert report.ok, str(report)
        assert [(row.run, row.status) for row in await journal.runs()] == [(run_id, "finished")]


@pytest.mark.parametrize("message", [None, "Not this one."])
async def test_a_rejected_call_never_runs_and_the_model_is_told(journal: Any, message: str | None) -> None:
    async with conversing(asking(), [pay("c1"), "It waits.", "No."], journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        await session.reject_tool_call("c1", rejection_message=message)
        said = await server.answered("c1")
        await told.until("tool_end")
    assert said == message if message else "reject" in said.lower() or "not approved" in said.lower()
    assert ran == []
    assert told.calls() == ["tool_approval_required c1", "tool_approval_decided c1", "tool_end c1"]
    if journal is not None:
        assert (await check(journal)).ok


async def test_always_approves_later_calls_of_the_tool(journal: Any) -> None:
    script = [pay("c1"), "It waits.", pay("c2", 7), "Done."]
    async with conversing(asking(), script, journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        await session.approve_tool_call("c1", always=True)
        assert await server.answered("c2") == "refunded 7"
        await told.until("tool_end", 2)
    assert ran == [("A1", 5), ("A1", 7)]
    assert len(told.of("tool_approval_required")) == 1


async def test_always_rejects_later_calls_of_the_tool(journal: Any) -> None:
    script = [pay("c1"), "It waits.", pay("c2", 7), "Done."]
    async with conversing(asking(), script, journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        await session.reject_tool_call("c1", always=True, rejection_message="Never.")
        await server.answered("c2")
        await told.until("tool_end", 2)
    assert ran == []
    assert len(told.of("tool_approval_required")) == 1


async def test_calls_of_one_response_are_decided_in_any_order(journal: Any) -> None:
    script = [[pay("c1", 1), pay("c2", 2), pay("c3", 3)], *["Well."] * 6]
    async with conversing(asking(), script, journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required", 3)
        await session.approve_tool_call("c3")
        assert await server.answered("c3") == "refunded 3"
        await session.reject_tool_call("c1", rejection_message="No.")
        assert await server.answered("c1") == "No."
        assert ran == [("A1", 3)]
        await session.approve_tool_call("c2")
        assert await server.answered("c2") == "refunded 2"
        await told.until("tool_end", 3)
        assert server.errors == []
    assert ran == [("A1", 3), ("A1", 2)]
    assert {call: len(outputs) for call, outputs in server.outputs.items()} == {"c1": 1, "c2": 1, "c3": 1}


async def test_a_later_call_runs_while_an_earlier_one_waits(journal: Any) -> None:
    script = [pay("c1"), Call("look_up", {"order": "B2"}, "c2"), "It is there.", "Done."]
    async with conversing(asking(), script, journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        assert await server.answered("c2") == "order B2"
        await until(lambda: session.pending_approvals)
        assert ran == [("B2", 0)]
        await session.approve_tool_call("c1")
        assert await server.answered("c1") == "refunded 5"
        await told.until("tool_end", 2)
    assert ran == [("B2", 0), ("A1", 5)]


async def test_the_model_talks_on_while_a_call_waits_and_is_told_so_once() -> None:
    gate = Gate()
    script = [[pay("c1"), gate, "I asked."], "It waits.", "Sunny.", "Done."]
    async with conversing(asking(), script) as (session, server, told):
        await session.send_message("Refund A1")
        await gate.reached()
        await told.until("tool_approval_required")
        gate.open()
        await told.until("agent_end", 2)
        await session.send_message("How is the weather?")
        await told.until("agent_end", 3)
        await session.approve_tool_call("c1")
        await server.answered("c1")
        await told.until("agent_end", 4)
        assert server.errors == []
    notes = [m for m in server.messages if m.get("item", {}).get("role") == "system"]
    assert len(notes) == 1
    assert "refund (c1)" in notes[0]["item"]["content"][0]["text"]
    assert ran == [("A1", 5)]


async def test_an_inbox_decides_while_the_session_is_live(tmp_path: Path) -> None:
    journal: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")
    inbox = Inbox(journal)
    async with conversing(asking(), [pay("c1"), "It waits.", "Done."], journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        asked = await told.until("tool_approval_required")
        [row] = await inbox.list()
        assert row.id == asked.request_id
        await inbox.approve(row, by="ann")
        assert await server.answered("c1") == "refunded 5"
        await told.until("tool_end")
        with pytest.raises(NotPending):
            await session.approve_tool_call("c1")
    assert told.calls()[1:] == ["tool_approval_decided c1", "tool_start c1", "tool_end c1"]
    assert ran == [("A1", 5)]


async def test_terms_that_want_a_quorum_are_met_in_the_inbox_and_not_in_the_session() -> None:
    journal = MemoryJournal()
    inbox = Inbox(journal)
    agent = asking(approval=Approval(role="ops", quorum=2, expires="2m"))
    async with conversing(agent, [pay("c1"), "It waits.", "Done."], journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        for by in (None, "ann"):
            with pytest.raises(NotAllowed):
                await session.approve_tool_call("c1", by=by)
        with pytest.raises(NotAllowed):
            await session.approve_tool_call("c1", always=True)
        [row] = await inbox.list()
        await inbox.approve(row, by=Decider("ann", roles=("ops",), strength="authenticated"))
        await turns_of_the_loop(200)
        assert (ran, len(session.pending_approvals)) == ([], 1)
        [row] = await inbox.list()
        await inbox.approve(row, by=Decider("bob", roles=("ops",), strength="authenticated"))
        assert await server.answered("c1") == "refunded 5"
        await told.until("tool_end")
    assert ran == [("A1", 5)]
    # Half a quorum is no decision: it is told once, when there is one.
    assert told.calls() == [f"tool_{what} c1" for what in ("approval_required", "approval_decided", "start", "end")]
    assert (await check(journal)).ok


async def test_a_request_that_expires_is_told_to_the_model_and_runs_nothing(journal: Any) -> None:
    agent = asking(approval=Approval(expires="1s"))
    async with conversing(agent, [pay("c1"), "It waits.", "Too late."], journal=journal) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        said = await server.answered("c1")
        await told.until("tool_end")
        with pytest.raises(NotPending):
            await session.approve_tool_call("c1")
    assert "expired" in said or "time" in said
    assert ran == []


async def test_an_edit_runs_what_was_decided_and_nothing_else() -> None:
    async with conversing(asking(), [pay("c1"), "It waits.", "Done."]) as (session, server, told):
        await session.send_message("Refund A1")
        await told.until("tool_approval_required")
        await session.approve_tool_call("c1", edit={"order": "A1", "amount": 1})
        assert "refunded 1" in await server.answered("c1")
        await told.until("tool_end")
    assert ran == [("A1", 1)]
    [started] = told.of("tool_start")
    assert '"amount":1' in started.arguments.replace(" ", "")


def notes(model: OwnModel) -> list[str]:
    """What the model was told of calls that wait."""
    items = [each.message.get("other_data", {}).get("item", {}) for each in model.sent if hasattr(each, "message")]
    return [item["content"][0]["text"] for item in items if item.get("role") == "system"]


async def test_the_model_is_told_of_a_call_in_doubt_that_it_may_have_run() -> None:
    """It was told that the call had not run, and could say so to the user."""
    begun = asyncio.Event()

    @function_tool
    async def pay() -> str:
        """Pay."""
        begun.set()
        await never()
        return "paid"

    journal, model, again = MemoryJournal(), OwnModel(), OwnModel()
    config: Any = {"close_timeout": 0.05, "waiting_message": lambda tool, _call: f"{tool} has not run"}
    async with talking_to(model, support(pay), journal=journal, config=config) as (session, _told):
        await model.calls("pay")
        await begun.wait()
    async with talking_to(again, support(pay), journal=journal, config=config, resume=session.run_id) as (last, _told):
        await until(lambda: notes(again))
        assert ["it is not known whether it ran" in note for note in notes(again)] == [True]
        await last.resolve_tool_call(last.pending_approvals[0], "ran", "paid")


async def test_a_call_that_is_decided_while_the_model_is_told_of_another_waits_no_more() -> None:
    """The connection could not be opened: there are no words for a call that was decided and has not started."""
    journal, first, sessions = MemoryJournal(), OwnModel(), list[RealtimeSession]()

    class Deciding(OwnModel):
        async def send_event(self, event: Any) -> None:
            await super().send_event(event)
            if len(notes(self)) == 1 and len(sessions[0].pending_approvals) == 2:
                await Inbox(journal).approve((await Inbox(journal).list())[-1], by="bob")
                await until(lambda: len(sessions[0].pending_approvals) == 1)

    async with talking_to(first, support(), journal=journal) as (session, told):
        await first.calls("refund", {"order": "A1"}, call_id="c1")
        await told.until("tool_approval_required")
        await first.calls("refund", {"order": "A2"}, call_id="c2")
        await told.until("tool_approval_required", 2)
    again = Deciding()
    sessions.append(await RealtimeRunner(support(), model=again, journal=journal).run(resume=session.run_id))
    async with sessions[0]:
        await until(again.outputs)
        assert ["c1" in note for note in notes(again)] == [True]


@pytest.mark.parametrize("words", [lambda _tool, _call: 1 / 0, lambda _tool, _call: 7], ids=["raises", "no text"])
async def test_words_of_a_program_that_are_none_leave_the_connection_as_it_is(words: Any) -> None:
    """Each connection broke over them, and the result of the call was never told to the model."""
    model = OwnModel()
    async with talking_to(model, support(refund), config={"waiting_message": words}) as (session, told):
        await model.calls("refund", {"order": "A1"})
        await told.until("error")
        await session.approve_tool_call("c1")
        await until(model.outputs)
    assert (model.connects, ["has not run" in note for note in notes(model)]) == (1, [True])


class Overtaken(MemoryJournal):
    """A journal in which another process decides what is pending just before the next line is appended."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Any = None

    async def append(self, *line: Any, **more: Any) -> Any:
        if (before := self.before) is not None:
            self.before = None
            await before()
        return await super().append(*line, **more)


@pytest.mark.parametrize("by_whom", ["what its user says", "a decision here that lost"])
async def test_a_decision_that_is_read_as_another_line_is_written_starts_its_call(by_whom: str) -> None:
    """The line that lost the race reads it; nothing else of the session heard of it, and the call was never started."""
    journal, model = Overtaken(), OwnModel()
    ran.clear()
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.calls("refund", {"order": "A1"})
        item = (await told.until("tool_approval_required")).item
        [request] = await Inbox(journal).list()
        journal.before = lambda: Inbox(journal).approve(request, by="bob")
        if by_whom == "what its user says":
            await session.send_message("Is it done?")
        else:
            with pytest.raises(Conflict):
                await session.reject_tool_call(item, by="ann")
        await until(lambda: ran == ["A1"])
        await session.close(end=False)
