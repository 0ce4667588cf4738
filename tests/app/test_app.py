"""An app on every kind of store: runs are started, found again, listened to, and moved by whoever has time."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from keyturn import (
    Agent,
    AgentMissing,
    App,
    Approval,
    Conflict,
    Expired,
    Grant,
    MemorySession,
    Policy,
    Rule,
    RunMissing,
    Runner,
    RunStopped,
    ToolContext,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.engine.run.log_cache import verify_run
from keyturn.models.scripted.model import ScriptedModel, function_call, last_user_text, tool_outputs
from tests.waiting import turns_of_the_loop, until, until_status


class Desk:
    """Agents that act, what they did, and the means to make a tool wait."""

    def __init__(self, *rounds: list[Any]) -> None:
        self.paid: list[str] = []
        self.contexts: list[Any] = []
        self.at_work, self.go_on = asyncio.Event(), asyncio.Event()
        self.rounds = rounds or ([function_call("pay", {"to": "ada"}, call_id="c1")],)

        @function_tool(needs_approval=True)
        async def pay(context: ToolContext[Any], to: str) -> str:
            """Pay somebody."""
            self.paid.append(to)
            self.contexts.append(context.context)
            return f"paid {to}"

        @function_tool
        async def slow() -> str:
            """Take long."""
            self.at_work.set()
            await self.go_on.wait()
            return "slept"

        self.tools = [pay, slow]

    def agent(self, name: str = "ops", **options: Any) -> Agent[Any]:
        """A model that answers from its conversation alone, so that any process may ask it."""

        def reply(items: Any) -> Any:
            done = len(tool_outputs(items))
            before = 0
            for made in self.rounds:
                if done == before:
                    return made
                before += len(made)
            return f"done: {last_user_text(items)}"

        return Agent(name, model=ScriptedModel(reply), tools=self.tools, **options)


async def the_request(app: App, **wanted: Any) -> Any:
    [found] = await app.inbox.list(**wanted)
    return found


async def test_a_run_waits_is_decided_and_ends(store: Any) -> None:
    desk = Desk()
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        assert (await run.wait(20)).status == "waiting"
        assert desk.paid == []
        paused = await run.result()
        assert [item.name for item in paused.interruptions] == ["pay"]
        request = await the_request(app)
        row = await app.inbox.approve(request, by="ann")
        assert (row.state, row.by) == ("approve", "ann")
        result = await run.result(20)
        assert (result.final_output, desk.paid) == ("done: go", ["ada"])
        assert (await run.get()).status == "finished"
    assert await verify_run(store, run.id) is None
    report = await check(store)
    assert report.ok, report.violations


async def test_any_app_goes_on_with_a_run(store: Any) -> None:
    """One only starts runs, another only decides, a third only works; none of them holds anything meanwhile."""
    starts = App([Desk().agent()], store, worker=False)
    run = await starts.start("ops", "go")
    assert (await run.get()).status == "running"
    desk = Desk()
    works = App([desk.agent()], store, worker=False)
    working = asyncio.ensure_future(works.work())
    assert (await run.wait(20)).status == "waiting"
    decides = App([], store, worker=False)
    await decides.inbox.approve(await the_request(decides), by="ann")
    assert (await run.result(20)).final_output == "done: go"
    await works.stop()
    await asyncio.wait_for(working, 20)
    assert desk.paid == ["ada"]


@pytest.mark.trial
async def test_many_runs_at_once_few_at_a_time(store: Any) -> None:
    desk = Desk()
    async with App([desk.agent()], store, slots=3) as app:
        runs = [await app.start("ops", f"run {number}") for number in range(20)]
        for run in runs:
            assert (await run.wait(30)).status == "waiting"
        await asyncio.gather(*(app.inbox.approve(row, by="ann") for row in await app.inbox.list()))
        outputs = [(await run.result(30)).final_output for run in runs]
    assert outputs == [f"done: run {number}" for number in range(20)]
    assert len(desk.paid) == 20


async def test_a_decision_is_heard_while_another_call_is_at_work(store: Any) -> None:
    desk = Desk([function_call("slow", {}, call_id="s"), function_call("pay", {"to": "ada"}, call_id="c1")])
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        await asyncio.wait_for(desk.at_work.wait(), 20)
        waiting = await until(app.inbox.list)
        await app.inbox.approve(waiting[0], by="ann")
        await until(lambda: desk.paid)
        assert not desk.go_on.is_set()
        desk.go_on.set()
        assert (await run.result(20)).final_output == "done: go"
    assert desk.paid == ["ada"]


async def test_cancelling_stops_what_is_at_work_and_says_that_its_outcome_is_unknown(store: Any) -> None:
    desk = Desk([function_call("slow", {}, call_id="s"), function_call("pay", {"to": "ada"}, call_id="c1")])
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        await asyncio.wait_for(desk.at_work.wait(), 20)
        await app.cancel(run.id, by="ann", why="enough")
        with pytest.raises(RunStopped, match="cancelled: enough") as raised:
            await run.result(20)
        assert raised.value.status == "cancelled"
        await until(lambda: not app.busy)
        row = await app.get(run.id)
        assert (row.status, row.waiting, await app.inbox.list()) == ("cancelled", 0, [])
    assert b"CallLost" in b"".join(await store.read(run.id))
    assert desk.paid == []
    assert (await check(store)).ok


async def test_a_cancelled_run_can_no_longer_be_decided(store: Any) -> None:
    desk = Desk()
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        await run.wait(20)
        request = await the_request(app)
        await app.cancel(run.id)
        with pytest.raises(Conflict, match="cancelled"):
            await app.inbox.approve(request, by="ann")
        with pytest.raises(Conflict, match="cancelled"):
            await app.cancel(run.id)
        assert (await app.inbox.get(request.id)).state == "void"
    assert desk.paid == []


async def test_a_message_reaches_the_model_after_the_pause(store: Any) -> None:
    desk = Desk()
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        await run.wait(20)
        await app.send(run.id, "and hurry")
        await app.inbox.approve(await the_request(app), by="ann")
        assert (await run.result(20)).final_output == "done: and hurry"
        with pytest.raises(Conflict, match="finished"):
            await app.send(run.id, "too late")


async def test_an_expired_request_is_told_to_the_model_without_anybody_looking(store: Any) -> None:
    desk = Desk()
    policy = Policy(Rule("ask", tool="pay", approval=Approval(expires="1s")))
    async with App([desk.agent()], store, policy) as app:
        run = await app.start("ops", "go")
        assert (await run.wait(20)).status == "waiting"
        request = await the_request(app)
        assert (await until_status(app, run.id, "finished", "failed", "cancelled")).status == "finished"
        assert (await app.inbox.get(request.id)).state == "expire"
        assert desk.paid == []
        with pytest.raises(Expired):
            await app.inbox.approve(request, by="ann")


async def test_a_stream_tells_what_happened_from_the_beginning(store: Any) -> None:
    desk = Desk()
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        names: list[str] = []
        async with asyncio.timeout(30):
            async for event in run.stream():
                names.append(getattr(event, "name", event.type))
                if event.type == "approval_requested_stream_event":
                    assert event.item.params == {"to": "ada"}
                    await app.inbox.approve(event.item, by="ann")
        assert names == [
            "agent_updated_stream_event",
            "tool_called",
            "approval_requested_stream_event",
            "tool_output",
            "message_output_created",
        ]
        again = [getattr(event, "name", event.type) async for event in app.stream(run.id)]
        assert again == names


@dataclass
class Customer:
    name: str


def restored(data: dict[str, str]) -> Customer:
    return Customer(**data)


async def test_the_context_comes_along(store: Any) -> None:
    desk = Desk()
    made: Any = {"context_serializer": asdict, "context_deserializer": restored}
    first = App([desk.agent()], store, worker=False, **made)
    run = await first.start("ops", "go", context=Customer("ada"))
    async with App([desk.agent()], store, **made) as app:
        await run.wait(20)
        await app.inbox.approve(await the_request(app), by="ann")
        await run.result(20)
        assert (await app.state(run.id)).context.context == Customer("ada")
    assert desk.contexts == [Customer("ada")]


async def test_a_session_is_found_by_its_id(store: Any) -> None:
    kept: dict[str, MemorySession] = {}

    def sessions(name: str) -> MemorySession:
        return kept.setdefault(name, MemorySession(name))

    desk = Desk()
    starts = App([desk.agent()], store, sessions=sessions, worker=False)
    run = await starts.start("ops", "go", session_id="s1")
    async with App([desk.agent()], store, sessions=sessions) as app:
        await run.wait(20)
        await app.inbox.approve(await the_request(app), by="ann")
        await run.result(20)
    assert [item.get("type", item.get("role")) for item in await kept["s1"].get_items()] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]
    with pytest.raises(UserError, match="sessions="):
        await App([desk.agent()], store, worker=False).start("ops", "go", session_id="s1")


async def test_a_failed_run_says_why_and_goes_on(store: Any) -> None:
    desk = Desk([function_call("slow", {}, call_id="s1")], [function_call("slow", {}, call_id="s2")])
    desk.go_on.set()
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go", max_turns=1)
        with pytest.raises(RunStopped, match="failed: MaxTurnsExceeded") as raised:
            await run.result(20)
        assert raised.value.error.startswith("MaxTurnsExceeded: agent 'ops' reached its limit of 1 turns")
        await app.resume(run.id, max_turns=10)
        assert (await until_status(app, run.id, "finished", "failed", "cancelled")).status == "finished"
        assert (await run.result(20)).final_output == "done: go"


async def test_what_a_policy_says_now_counts_for_what_was_decided_before(store: Any) -> None:
    """A policy that was tightened while the call waited is asked when the decision is delivered."""
    desk = Desk()
    before = App([desk.agent()], store, Policy(Rule("ask", tool="pay")))
    async with before:
        run = await before.start("ops", "go")
        await run.wait(20)
    await before.inbox.approve(await the_request(before), by="ann")
    async with App([desk.agent()], store, Policy(Rule("deny", tool="pay", reason="not any more"))):
        assert (await until_status(before, run.id, "finished", "failed", "cancelled")).status == "finished"
    assert desk.paid == []
    assert "not any more" in str((await before.result(run.id)).to_input_list())


async def test_a_fork_asks_again_and_leaves_the_other_alone(store: Any) -> None:
    two = [[function_call("pay", {"to": "ada"}, call_id="c1")], [function_call("pay", {"to": "bob"}, call_id="c2")]]
    desk = Desk(*two)
    async with App([desk.agent()], store) as app:
        run = await app.start("ops", "go")
        await run.wait(20)
        first = await the_request(app)
        fork = await app.fork(run.id)
        assert (await fork.wait(20)).status == "waiting"
        assert (await fork.result()).input == "go"
        await app.inbox.approve(first, by="ann", grant=Grant())
        assert (await until_status(app, run.id, "finished", "failed", "cancelled")).status == "finished"
        assert (desk.paid, (await fork.get()).status) == (["ada", "bob"], "waiting")
        asked = await the_request(app)
        assert (asked.run, asked.id != first.id, asked.digest != first.digest) == (fork.id, True, True)
        later = await app.fork(run.id)
        assert (await later.wait(20)).status == "finished"
        assert [row.revoked for row in await app.inbox.grants() if row.run == later.id] == [True]
        about = (await app.state(fork.id)).live.run.about["forked_from"]
        assert about["run"] == run.id
        with pytest.raises(UserError, match="nothing can be forked at 99"):
            await app.fork(run.id, 99)
    assert (await check(store)).ok


async def test_an_agent_that_is_not_there_leaves_its_runs_to_others(store: Any) -> None:
    run = await App([Desk().agent()], store, worker=False).start("ops", "go")
    async with App([Desk().agent("other")], store) as app:
        own = await app.start("other", "go")
        await app.result(own.id, 20)
        assert (await app.get(run.id)).status == "running"
        assert await store.due() == [run.id], "it was never claimed"
        with pytest.raises(AgentMissing):
            await app.start("ops", "go")


async def test_stopping_lets_a_tool_end_and_begins_nothing(store: Any) -> None:
    """What was begun ends within the grace time; what follows is left to others at once."""
    desk = Desk([function_call("slow", {}, call_id="s")])
    app = App([desk.agent()], store)
    run = await app.start("ops", "go")
    await asyncio.wait_for(desk.at_work.wait(), 20)
    stopping = asyncio.ensure_future(app.stop())
    await turns_of_the_loop(100)
    assert not stopping.done()
    desk.go_on.set()
    await asyncio.wait_for(stopping, 20)
    assert (await app.get(run.id)).status == "running"
    assert await store.due() == [run.id]
    async with App([desk.agent()], store) as next_one:
        assert (await next_one.result(run.id, 20)).final_output == "done: go"


async def test_a_tool_that_outlasts_the_grace_time_is_in_doubt(store: Any) -> None:
    desk = Desk([function_call("slow", {}, call_id="s")])
    app = App([desk.agent()], store, grace=0.05)
    run = await app.start("ops", "go")
    await asyncio.wait_for(desk.at_work.wait(), 20)
    await asyncio.wait_for(app.stop(), 20)
    request = await the_request(app)
    assert (request.kind, request.tool) == ("in_doubt", "slow")
    async with App([desk.agent()], store) as next_one:
        await next_one.inbox.resolve(request, "ran", "slept", by="ann")
        assert (await next_one.result(run.id, 20)).final_output == "done: go"


async def test_a_run_of_an_app_can_be_taken_in_hand(store: Any) -> None:
    desk = Desk()
    app = App([desk.agent()], store, worker=False)
    run = await app.start("ops", "go")
    result = await Runner.run(desk.agent(), await app.state(run.id))
    state = result.to_state()
    state.approve(state.get_interruptions()[0], by="ann")
    assert (await Runner.run(desk.agent(), state)).final_output == "done: go"
    assert (await run.get()).status == "finished"


async def test_what_is_not_there_is_said(store: Any) -> None:
    app = App([Desk().agent()], store, worker=False)
    for ask in (app.get, app.wait, app.result, app.state, app.fork):
        with pytest.raises(RunMissing, match="no run"):
            await ask("5e1f")
    with pytest.raises(RunMissing, match="no run"):
        await app.send("5e1f", "hello")
    with pytest.raises(TimeoutError):
        await (await app.start("ops", "go")).wait(0.05)
    with pytest.raises(UserError, match="same name"):
        App([Desk().agent(), Desk().agent()], store)
