"""A realtime run outlives its connection, its session and its process; what waits is decided, and its result heard."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, Inbox, Policy, UserError, function_tool
from keyturn.core.errors import Conflict, LogDamaged, StorageError
from keyturn.engine.attended import AttendedExecution
from keyturn.engine.driving import lease
from keyturn.journal import opened
from keyturn.journal.memory import MemoryJournal
from keyturn.policies.rules import deny
from keyturn.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from keyturn.testing.loopback.realtime import Call, RealtimeServer, Say, Turn
from tests import forked
from tests.waiting import turns_of_the_loop, until

from .attending import talking_to
from .own_model import OwnModel, TalkingModel, quiet

TALK: Any = {"model_settings": {"modalities": ["audio"]}}
REFUND = Call("refund", {"order": "A1", "amount": 5}, "c1")


def clerk(done: list[Any]) -> RealtimeAgent[Any]:
    @function_tool(needs_approval=True)
    def refund(order: str, amount: int) -> str:
        """Refund an order."""
        done.append((order, amount))
        return f"refunded {amount}"

    return RealtimeAgent("clerk", instructions="Help.", tools=[refund])


async def begun(runner: RealtimeRunner, server: RealtimeServer, **more: Any) -> RealtimeSession:
    return await (await runner.run(model_config={"api_key": "k", "url": server.url}, **more)).enter()


async def asked(session: RealtimeSession) -> Any:
    async with asyncio.timeout(5):
        async for event in session:
            if event.type == "tool_approval_required":
                return event
    raise AssertionError("nobody was asked")


async def test_a_lost_connection_is_made_anew_and_told_the_conversation_and_the_result() -> None:
    """The line breaks while a call waits; the decision comes meanwhile; the new connection hears of all of it."""
    done: list[Any] = []
    async with RealtimeServer([Turn(REFUND), Turn("It waits."), Turn("Done.")]) as server:
        session = await begun(RealtimeRunner(clerk(done), config=TALK), server)
        await session.send_message("Refund A1, please.")
        event = await asked(session)
        await until(lambda: len(session.history) >= 3)
        await server.hang_up()
        await session.approve_tool_call(event.call_id)
        await server.connected(2)
        await server.answered("c1")
        told = [message["item"] for message in server.line.messages if message["type"] == "conversation.item.create"]
        assert [item["type"] for item in told][:2] == ["message", "function_call"]
        assert told[0]["content"][0]["text"] == "Refund A1, please."
        assert (done, server.line.outputs["c1"]) == ([("A1", 5)], ["refunded 5"])
        await until(lambda: "Done." in str(session.history[-1]))
        assert [item.type for item in session.history].count("function_call") == 1
        await session.close()
        assert server.errors == []


async def test_a_result_that_could_not_be_sent_is_sent_again_and_its_tool_is_not_run_again() -> None:
    """The model's line fails just as the result is sent: the next connection gets it, the tool ran once."""
    done: list[Any] = []
    model = TalkingModel()
    failed: list[Any] = []

    def fails(event: Any) -> Exception | None:
        if type(event).__name__ == "RealtimeModelSendToolOutput" and not failed:
            failed.append(event)
            return OSError("the line is dead")
        return None

    model.fails = fails
    session = await (await RealtimeRunner(clerk(done), model=model).run()).enter()
    await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
    await quiet(session)
    await session.approve_tool_call("c1")
    await until(lambda: len(model.options) == 2)
    replayed = [event.message["other_data"]["item"] for event in model.sent if "other_data" in str(event)]
    await until(lambda: any(item.get("output") == "refunded 5" for item in replayed) or model.outputs())
    assert (len(failed), done) == (1, [("A1", 5)])
    await session.close()


async def test_a_call_that_the_lost_connection_told_last_is_told_to_the_next_one() -> None:
    """Found by the simulator: it was taken for one that the next connection had made, which heard of a result alone."""

    class Held(MemoryJournal):
        free = asyncio.Event()

        async def append(self, run: str, expected: int, lines: Any, *more: Any) -> None:
            if b'"c2"' in lines[-1]:
                await self.free.wait()
            await super().append(run, expected, lines, *more)

    class Late(TalkingModel):
        last: asyncio.Task[None] | None = None

        async def connect(self, options: Any) -> None:
            if self.connects:
                self.last = asyncio.ensure_future(self.calls("refund", {"order": "A2", "amount": 7}, "c2"))
                await turns_of_the_loop()
                self.sent.clear()
            await super().connect(options)

    model, journal = Late(), Held()
    session = await (await RealtimeRunner(clerk([]), model=model, journal=journal).run()).enter()
    await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
    await quiet(session)
    await session.reconnect()
    journal.free.set()
    assert model.last is not None
    await model.last
    await quiet(session)
    await session.reject_tool_call("c2")
    await until(model.outputs)
    told = [event.message.get("other_data", {}).get("item", {}) for event in model.sent if hasattr(event, "message")]
    assert [item["call_id"] for item in told if item.get("type") == "function_call"] == ["c1", "c2"]
    await session.close()


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_a_late_decision_runs_the_call_and_the_next_session_delivers_its_result(
    place: str, tmp_path: Path
) -> None:
    """The session closes over a waiting call; a worker runs it once it is approved; who resumes hears the result."""
    done: list[Any] = []
    journal = MemoryJournal() if place == "memory" else opened(f"sqlite:///{tmp_path / 'j.db'}")
    agent = clerk(done)
    async with RealtimeServer([Turn(REFUND), Turn("It waits."), Turn(Say("Refunded."))]) as server:
        async with App([agent], journal) as app:
            runner = RealtimeRunner(agent, app=app, config=TALK)
            session = await begun(runner, server)
            await session.send_message("Refund A1.")
            event = await asked(session)
            run = session.run_id
            await until(lambda: "It waits." in str(session.history[-1]))
            await session.close()
            with pytest.raises(UserError, match="closed"):
                await session.approve_tool_call("c1")
            await app.inbox.approve(event.item.request, by="ann")
            await until(lambda: done)
            again = await begun(runner, server, resume=run)
            await server.answered("c1")
            assert server.line.outputs["c1"] == ["refunded 5"]
            await until(lambda: "Refunded." in str(again.history[-1]))
            await again.close()
            assert (await app.get(run)).status == "finished"
            with pytest.raises(UserError, match="over"):
                await begun(runner, server, resume=run)
        assert (done, server.errors) == ([("A1", 5)], [])


async def test_a_state_is_resumed_where_no_journal_keeps_the_run() -> None:
    """Without a journal the state of a session is saved and resumed as any other."""
    from keyturn import RunState

    done: list[Any] = []
    agent = clerk(done)
    model = TalkingModel()
    session = await (await RealtimeRunner(agent, model=model).run()).enter()
    await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
    await quiet(session)
    await session.close()
    saved = session.to_state().to_string()
    state = await RunState.from_string(agent, saved)
    state.approve(state.get_interruptions()[0])
    again = TalkingModel()
    session = await (await RealtimeRunner(agent, model=again).run(resume=state)).enter()
    await until(lambda: done)
    await until(lambda: again.outputs() or "refunded 5" in str(again.sent))
    await session.close()
    assert done == [("A1", 5)]


async def test_a_run_has_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second session on a run that is held is refused, and disturbs nobody."""
    monkeypatch.setattr(AttendedExecution, "lease_ms", 300)
    done: list[Any] = []
    journal, model = MemoryJournal(), TalkingModel()
    runner = RealtimeRunner(clerk(done), model=model, journal=journal)
    session = await (await runner.run()).enter()
    await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
    await quiet(session)
    other = RealtimeRunner(runner.agent, model=TalkingModel(), journal=journal)
    with pytest.raises(Conflict):
        await (await other.run(resume=session.run_id)).enter()
    await session.approve_tool_call("c1")
    await until(lambda: model.outputs())
    await session.close()
    assert done == [("A1", 5)]


KILLED = '''
import asyncio, sys
from keyturn import function_tool
from keyturn.engine.attended import AttendedExecution
from keyturn.realtime import RealtimeAgent, RealtimeRunner

AttendedExecution.lease_ms = 1_000

@function_tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    raise SystemExit("this process only asks")

async def main(url, journal):
    agent = RealtimeAgent("clerk", instructions="Help.", tools=[refund])
    runner = RealtimeRunner(agent, journal=journal)
    async with await runner.run(model_config={"api_key": "k", "url": url}) as session:
        await session.send_message("Refund A1.")
        async for event in session:
            if event.type == "tool_approval_required":
                print(session.run_id, flush=True)

asyncio.run(main(*sys.argv[1:]))
'''


async def test_a_killed_process_leaves_its_run_to_be_found_with_the_conversation(tmp_path: Path) -> None:
    """`kill -9` while a call waits: an inbox decides it, and who resumes the run by its id delivers the result."""
    done: list[Any] = []
    url = f"sqlite:///{tmp_path / 'j.db'}"
    async with RealtimeServer([Turn(REFUND), Turn("It waits."), Turn("Refunded.")]) as server:
        program = [forked.python(), "-c", KILLED, server.url, url]
        process = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE, env=dict(os.environ))
        assert process.stdout is not None
        async with asyncio.timeout(30):
            run = (await process.stdout.readline()).decode().strip()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        journal = opened(url)
        [request] = await Inbox(journal).list()
        await Inbox(journal).approve(request, by="ann")
        runner = RealtimeRunner(clerk(done), journal=journal)
        session = await begun(runner, server, resume=run)  # which waits for the dead process's lease to run out
        assert "Refund A1." in str(session.history[0])
        await server.answered("c1")
        assert (done, server.line.outputs["c1"]) == ([("A1", 5)], ["refunded 5"])
        await session.close()


async def test_what_was_approved_meanwhile_runs_as_the_next_session_begins_and_is_told_there() -> None:
    """The loop is at work before the session is entered: nothing of it is missed, and nothing breaks."""
    done: list[Any] = []
    journal, policy = MemoryJournal(), Policy(deny(tool="other"))
    model = TalkingModel()
    session = await (await RealtimeRunner(clerk(done), model=model, journal=journal, policy=policy).run()).enter()
    await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
    await quiet(session)
    await session.close()
    [request] = await Inbox(journal).list()
    await Inbox(journal).approve(request, by="ann")
    again = TalkingModel()
    runner = RealtimeRunner(clerk(done), model=again, journal=journal, policy=policy)
    resumed = await (await runner.run(resume=session.run_id)).enter()
    told = list[str]()
    async with asyncio.timeout(5):
        async for event in resumed:
            told += [event.type] if event.type.startswith("tool_") else []
            if event.type == "tool_end":
                break
    await resumed.close()
    assert (told, done) == (["tool_start", "tool_end"], [("A1", 5)])


class FailingOnce(MemoryJournal):
    """A journal that cannot be written to when it is told so, once."""

    fails = False

    async def append(self, *line: Any, **more: Any) -> None:
        if self.fails:
            self.fails = False
            raise StorageError("the disk is not there")
        await super().append(*line, **more)


@pytest.mark.parametrize("at", ["a call", "a message"])
async def test_a_session_whose_journal_failed_does_not_end_its_run(at: str) -> None:
    """The session cannot go on and says why; leaving it over that is no end of the conversation."""
    done: list[Any] = []
    journal, model = FailingOnce(), TalkingModel()
    session = await RealtimeRunner(clerk(done), model=model, journal=journal).run()

    async def hold() -> None:
        async with session:
            await model.says("Hello, this is Support.")
            await quiet(session)
            journal.fails = True
            if at == "a call":
                await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
                async for _event in session:
                    pass
            else:
                await session.send_message("Refund A1.")

    with pytest.raises(StorageError, match="not there"):
        await hold()
    again = TalkingModel()
    async with await RealtimeRunner(clerk(done), model=again, journal=journal).run(resume=session.run_id) as resumed:
        assert "Hello" in str(resumed.history[0])


async def test_a_session_lets_go_of_its_run_where_its_end_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who closes is told that the journal failed, and the run can be taken up again."""
    monkeypatch.setattr(AttendedExecution, "lease_ms", 300)
    journal, model = FailingOnce(), TalkingModel()
    session = await (await RealtimeRunner(clerk([]), model=model, journal=journal).run()).enter()
    await model.says("Hello, this is Support.")
    await quiet(session)
    journal.fails = True
    with pytest.raises(StorageError, match="not there"):
        await session.close()
    other = RealtimeRunner(clerk([]), model=TalkingModel(), journal=journal)
    async with await other.run(resume=session.run_id) as resumed:
        assert "Hello" in str(resumed.history[0])


async def test_a_session_hears_a_decision_once_it_has_the_key_that_sealed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read on no more after a line that it could not read, and the approved call ran only after its end."""
    monkeypatch.setattr(lease, "_READ_AGAIN", 0.01)

    class Keyless(MemoryJournal):
        unread = 0

        async def read(self, run: str, after: int = 0) -> Any:
            lines = await super().read(run, after)
            if after and lines and self.unread:
                self.unread -= 1
                raise LogDamaged(run, after, "is sealed with a key that this process does not have")
            return lines

    done: list[Any] = []
    journal, model = Keyless(), TalkingModel()
    session = await (await RealtimeRunner(clerk(done), model=model, journal=journal).run()).enter()
    await model.calls("refund", {"order": "A1", "amount": 5}, "c1")
    await quiet(session)
    inbox = Inbox(journal)
    [row] = await inbox.list()
    journal.unread = 3
    await inbox.approve(row, by="ann")
    await until(model.outputs)
    await session.close()
    assert done == [("A1", 5)]


class Held(MemoryJournal):
    """A store in which what a session says takes its time, once it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.free.set()

    async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
        if claim is not None:
            await self.free.wait()
        await super().append(run, expected, lines, claim, changes)


@pytest.mark.parametrize("anew", [False, True], ids=["one connection", "another connection"])
async def test_a_model_is_told_what_is_recorded_in_the_order_of_the_record(anew: bool) -> None:
    """Else it was told twice what was being recorded, and never what another process recorded first."""
    journal, model = Held(), OwnModel()
    async with talking_to(model, clerk([]), journal=journal) as (session, _told):
        journal.free.clear()
        saying = asyncio.ensure_future(session.send_message("mine"))
        await turns_of_the_loop(20)
        await Inbox(journal).send(session.run_id, "theirs")
        again = asyncio.ensure_future(session.reconnect() if anew else turns_of_the_loop(1))
        session._connections.rouse()
        await turns_of_the_loop(20)
        journal.free.set()
        await asyncio.gather(saying, again)
        await until(lambda: len(told(model)) == 2)
        await turns_of_the_loop(20)
        assert told(model) == ["theirs", "mine"]


def told(model: OwnModel) -> list[str]:
    """The messages of the user that a model was told."""
    items = [(getattr(each, "message", {}).get("other_data") or {}).get("item") or {} for each in model.sent]
    replayed = [part["text"] for item in items if item.get("role") == "user" for part in item["content"]]
    return [*replayed, *(each.user_input for each in model.sent if hasattr(each, "user_input"))]
