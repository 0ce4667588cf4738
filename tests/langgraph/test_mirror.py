"""Interrupts of a LangGraph program are requests, and the decisions resume its thread once, in whichever process."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests import forked
from tests.server.programs import Port
from tests.waiting import turns_of_the_loop, until

pytest.importorskip("langchain", reason="needs the package langchain")
pytest.importorskip("langgraph.checkpoint.sqlite", reason="needs the package langgraph-checkpoint-sqlite")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from keyturn import Approval, Conflict, ExternalAgent
from keyturn.asks.standing import asked_by
from keyturn.engine.run.log_cache import log_in
from keyturn.gating import CallClaimed, CallDenied, CallFailed, CallInDoubt, CallWaiting
from keyturn.langgraph import Mirror
from keyturn.policies.rules import Policy, allow, deny
from tests.langgraph.programs import GO, RAN, agent, call, desk, of, resumed

pytestmark = pytest.mark.timeout(400)


def heard(state: Any) -> list[str]:
    """Return what the model was told of its calls."""
    return [str(each.content) for each in state["messages"] if each.type == "tool"]


async def test_a_batch_is_several_requests_and_resumes_once_all_are_decided_in_their_order() -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1), call(2, "ben", 2), call(3, "cyd", 3), call(4, "dan", 4)])
    async with desk() as person:
        mirror = Mirror(graph, person.app)
        assert await mirror.resume("t1") is None
        await graph.ainvoke(GO, of("t1"))
        asked = await mirror.ask("t1")
        assert [state.id for state in await mirror.ask("t1")] == [state.id for state in asked]
        ann, ben, cyd, dan = await person.pending(4)
        assert ann.tool == "pay"
        inbox = person.app.inbox
        await inbox.answer(dan, "paid by hand", by="ada")
        await inbox.reject(cyd, by="ada", message="Not today.")
        await inbox.approve(ann, by="ada")
        with pytest.raises(CallWaiting):
            await mirror.resume("t1")
        assert RAN == []
        await inbox.approve(ben, by="ada", edit={"to": "ben", "amount": 1})
        done = await resumed(lambda: mirror.resume("t1"))
        assert sorted(RAN) == [("ann", 1), ("ben", 1)]
        told = " ".join(heard(done))
        assert all(words in told for words in ("paid 1 to ann", "paid 1 to ben", "Not today.", "paid by hand"))
        assert await mirror.resume("t1") is None
        assert [state.status for state in [await person.app.asks.get(each.id) for each in asked]] == [
            "succeeded", "succeeded", "rejected", "answered",
        ]  # fmt: skip


async def test_calls_that_pause_one_by_one_are_resumed_together_and_edits_fit_the_schema_of_their_tool() -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1), call(2, "ben", 2)], "per_call")
    async with desk() as person:
        mirror = Mirror(graph, person.app)
        await graph.ainvoke(GO, of("t1"))
        await mirror.ask("t1")
        ann, ben = await person.pending(2)
        with pytest.raises(Exception, match="amount"):
            await person.app.inbox.approve(ann, by="ada", edit={"to": "ann", "amount": "many"})
        await person.app.inbox.approve(ann, by="ada", edit={"to": "eve", "amount": 7})
        await person.app.inbox.reject(ben, by="ada")
        await resumed(lambda: mirror.resume("t1"))
        assert RAN == [("eve", 7)]


class State(TypedDict):
    log: Annotated[list[Any], lambda a, b: [*a, *b]]


def asks(value: Any, saver: Any, then: Any = lambda answer: None) -> Any:
    """Make a program that pauses with a value."""

    def node(state: State) -> Any:
        answer = interrupt(value)
        then(answer)
        return {"log": [answer]}

    made = StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)
    return made.compile(checkpointer=saver)


async def test_agent_inbox_and_questions_are_answered_in_their_own_form() -> None:
    human = {
        "action_request": {"action": "mail", "args": {"to": "ann"}},
        "config": {"allow_ignore": True, "allow_respond": True, "allow_edit": True, "allow_accept": True},
        "description": "Is it polite?",
    }
    async with desk() as person:
        inbox, saver = person.app.inbox, InMemorySaver()
        graph = asks([human], saver)
        mirror = Mirror(graph, person.app)
        await graph.ainvoke({"log": []}, of("accepted"))
        await mirror.ask("accepted")
        await person.approve()
        done = await resumed(lambda: mirror.resume("accepted"))
        assert done["log"] == [[{"type": "accept", "args": {"action": "mail", "args": {"to": "ann"}}}]]
        graph = asks({"city": "Which?"}, saver)
        mirror = Mirror(graph, person.app)
        await graph.ainvoke({"log": []}, of("asked"))
        await mirror.ask("asked")
        [row] = await person.pending()
        assert (row.tool, row.params) == ("question", {"city": "Which?"})
        await inbox.answer(row, ["Bern"], by="ada")
        assert (await resumed(lambda: mirror.resume("asked")))["log"] == [["Bern"]]
        await graph.ainvoke({"log": []}, of("refused"))
        await mirror.ask("refused")
        await inbox.reject((await person.pending())[0], by="ada")
        with pytest.raises(CallDenied):
            await resumed(lambda: mirror.resume("refused"))
        assert (await graph.aget_state(of("refused"))).interrupts


async def test_a_decision_that_the_program_does_not_accept_is_asked_for_again() -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1)], allowed=["approve"])
    async with desk() as person:
        mirror = Mirror(graph, person.app)
        await graph.ainvoke(GO, of("t1"))
        await mirror.ask("t1")
        await person.app.inbox.reject((await person.pending())[0], by="ada")
        await until(lambda: _again(mirror, "t1"))
        [row] = await person.pending()
        asked = asked_by(await log_in(person.app.journal, row.run))
        assert "accepts approve for this call" in asked.ask.reasoning
        await person.approve()
        await resumed(lambda: mirror.resume("t1"))
        assert RAN == [("ann", 1)]


async def test_what_a_rule_decides_and_the_program_does_not_accept_is_requested_once() -> None:
    for rule, allowed in ((deny(tool="pay"), "approve"), (allow(tool="pay"), "respond")):
        graph = agent(InMemorySaver(), [call(1, "ann", 1)], allowed=[allowed])
        async with desk(policy=Policy(rule)) as person:
            mirror = Mirror(graph, person.app)
            await graph.ainvoke(GO, of("t1"))
            [asked] = await mirror.ask("t1")
            await person.app.asks.wait(asked.id, 30)
            for _ in range(3):
                with pytest.raises(Conflict, match=f"a policy or a grant decided.* accepts {allowed}"):
                    await mirror.resume("t1")
            assert len(await person.app.runs()) == 1
            assert (RAN, (await graph.aget_state(of("t1"))).next) == ([], ("HumanInTheLoopMiddleware.after_model",))


async def _again(mirror: Mirror, thread: str) -> bool:
    [state] = await mirror.ask(thread)
    return state.status == "pending"


async def test_of_racing_mirrors_one_resumes_whatever_was_decided() -> None:
    for verdict in ("approve", "reject"):
        graph = agent(InMemorySaver(), [call(1, "ann", 1), call(2, "ben", 2)])
        async with desk() as person:
            mirrors = [Mirror(graph, person.app) for _ in range(4)]
            await graph.ainvoke(GO, of("t1"))
            asked = await mirrors[0].ask("t1")
            for row in await person.pending(2):
                await getattr(person.app.inbox, verdict)(row, by="ada")
            wanted = "approved" if verdict == "approve" else "rejected"
            for state in asked:
                await until(lambda id=state.id, status=wanted: _is(person, id, status))
            results = await asyncio.gather(*(each.resume("t1") for each in mirrors), return_exceptions=True)
            assert [type(each) for each in results].count(dict) == 1, results
            assert all(isinstance(each, dict | CallClaimed | Conflict | None) for each in results), results
            assert len(RAN) == (2 if verdict == "approve" else 0)
            assert len((await graph.aget_state(of("t1"))).values["messages"]) == 5


async def _all_are(person: Any, states: list[Any], status: str) -> bool:
    return all([await _is(person, state.id, status) for state in states])


async def _is(person: Any, id: str, status: str) -> bool:
    return (await person.app.asks.get(id)).status == status


async def test_parallel_tasks_subgraphs_and_functions_are_resumed_as_a_whole_and_each_answer_reaches_its_own() -> None:
    def pauses(state: State) -> Any:
        return {"log": [interrupt({"for": state["log"]})]}

    sub = StateGraph(State).add_node("inner", pauses).add_edge(START, "inner").compile()
    made = StateGraph(State).add_node("sub", sub).add_node("worker", pauses)
    sends = [Send("worker", {"log": [number]}) for number in range(2)]
    fan = made.add_conditional_edges(START, lambda _: [*sends, Send("sub", {"log": ["in"]})], ["worker", "sub"])

    @task
    def step(number: int) -> None:
        RAN.append(("step", number))

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: Any) -> Any:
        step(1).result()
        return [interrupt("First?"), interrupt("Second?")]

    async with desk() as person:
        graph = fan.compile(checkpointer=InMemorySaver())
        await graph.ainvoke({"log": []}, of("t1"))
        done = await _answered(person, Mirror(graph, person.app), 3)
        assert sorted(map(str, done["log"])) == ["in", "{'for': ['in']}", "{'for': [0]}", "{'for': [1]}"]
        await flow.ainvoke({}, of("t1"))
        mirror = Mirror(flow, person.app)
        assert "__interrupt__" in await _answered(person, mirror, 1)
        assert await _answered(person, mirror, 1) == [{"question": "First?"}, {"question": "Second?"}]
        assert RAN == [("step", 1)]


async def _answered(person: Any, mirror: Mirror, count: int) -> Any:
    """Answer each question with itself, and resume the thread."""
    await mirror.ask("t1")
    for row in await person.pending(count):
        await person.app.inbox.answer(row, row.params, by="ada")
    return await resumed(lambda: mirror.resume("t1"))


class Changing:
    """A graph whose thread is changed by others once it was looked at so often."""

    def __init__(self, graph: Any, looks: int, change: Any) -> None:
        self._graph, self._looks, self._change = graph, looks, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def aget_state(self, config: Any) -> Any:
        self._looks -= 1
        if self._looks == 0:
            await self._change()
        return await self._graph.aget_state(config)


async def test_a_thread_that_changed_since_the_request_runs_nothing_of_what_was_approved() -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1)])

    async def change() -> None:
        """Put other arguments in the place of those that were approved, and let the program pause with them."""
        [message] = [each for each in (await graph.aget_state(of("t1"))).values["messages"] if each.type == "ai"]
        other = message.model_copy(update={"tool_calls": [call(1, "eve", 900)]})
        await graph.aupdate_state(of("t1"), {"messages": [other]}, as_node="model")
        await graph.ainvoke(None, of("t1"))

    async with desk() as person:
        await graph.ainvoke(GO, of("t1"))
        [first] = await Mirror(graph, person.app).ask("t1")
        await person.approve()
        await until(lambda: _is(person, first.id, "approved"))
        with pytest.raises(Conflict, match="changed"):
            await Mirror(Changing(graph, 2, change), person.app).resume("t1")
        assert RAN == []
        mirror = Mirror(graph, person.app)
        with pytest.raises(CallWaiting):
            await mirror.resume("t1")
        [row] = await person.pending()
        assert row.params == {"to": "eve", "amount": 900}
        await graph.aupdate_state(of("t1"), {"messages": []}, as_node="tools")
        assert await mirror.resume("t1") is None
        assert (await person.app.get(row.run)).status == "cancelled"


@pytest.mark.parametrize("moment", ["claimed", "the second look"])
async def test_a_resume_that_is_cancelled_before_the_graph_runs_puts_nothing_in_doubt(moment: str) -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1), call(2, "ben", 2)])
    async with desk() as person:

        async def cancel(here: str) -> None:
            if here == moment:
                resuming.cancel()
                await turns_of_the_loop()

        real = person.app.asks.claim

        async def claim(*args: Any, **words: Any) -> Any:
            made = await real(*args, **words)
            await cancel("claimed")
            return made

        mirror = Mirror(Changing(graph, 2, lambda: cancel("the second look")), person.app)
        await graph.ainvoke(GO, of("t1"))
        asked = await Mirror(graph, person.app).ask("t1")
        await person.approve(2)
        for each in asked:
            await until(lambda each=each: _is(person, each.id, "approved"))
        setattr(person.app.asks, "claim", claim)  # noqa: B010  # a caller that stops just then
        resuming = asyncio.ensure_future(mirror.resume("t1"))
        with pytest.raises(asyncio.CancelledError):
            await resuming
        setattr(person.app.asks, "claim", real)  # noqa: B010  # as it was
        again = Mirror(graph, person.app)
        assert {state.status for state in await again.ask("t1")} <= {"pending", "approved"}
        assert RAN == []
        await until(lambda: _decided_again(person, again))
        assert sorted(RAN) == [("ann", 1), ("ben", 2)]


async def _decided_again(person: Any, mirror: Mirror) -> bool:
    for row in await person.app.inbox.list():
        await person.app.inbox.approve(row, by="ada")
    try:
        return await mirror.resume("t1") is not None
    except CallWaiting:
        return False


async def test_a_look_that_is_late_withdraws_nothing_that_a_later_one_asked_for() -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1)])
    looked, go_on = asyncio.Event(), asyncio.Event()

    class Slow:
        """Answers the first look late."""

        def __init__(self) -> None:
            self.name, self.checkpointer = graph.name, graph.checkpointer

        async def aget_state(self, config: Any) -> Any:
            found = await graph.aget_state(config)
            if not looked.is_set():
                looked.set()
                await go_on.wait()
            return found

    async with desk() as person:
        slow: Any = Slow()
        mirror = Mirror(slow, person.app)
        late = asyncio.ensure_future(mirror.resume("t1"))  # the thread is not paused yet
        await looked.wait()
        await graph.ainvoke(GO, of("t1"))
        [state] = await mirror.ask("t1")
        go_on.set()
        assert await late is None
        assert (await person.app.asks.get(state.id)).status == "pending"


async def test_a_thread_that_is_at_work_elsewhere_or_failed_is_not_resumed() -> None:
    go_on = asyncio.Event()

    async def slow(state: State) -> Any:
        await go_on.wait()

    def node(state: State) -> Any:
        interrupt("Go on?")
        RAN.append(("node", 1))
        raise LookupError("no such order")

    made = (
        StateGraph(State).add_node("node", node).add_node("slow", slow).add_edge(START, "node").add_edge(START, "slow")
    )
    graph = made.compile(checkpointer=InMemorySaver())
    async with desk() as person:
        mirror = Mirror(graph, person.app)
        running = asyncio.ensure_future(graph.ainvoke({"log": []}, of("t1")))
        await until(lambda: _paused(graph, "t1"))
        with pytest.raises(Conflict, match="at work in 'slow'"):
            await mirror.resume("t1")
        go_on.set()
        await running
        [state] = await mirror.ask("t1")
        await person.approve()
        with pytest.raises(LookupError):
            await resumed(lambda: mirror.resume("t1"))
        assert (await person.app.asks.get(state.id)).status == "failed"
        for _ in range(2):
            with pytest.raises(Conflict, match="failed in 'node'"):
                await mirror.resume("t1")
        assert RAN == [("node", 1)]


async def _paused(graph: Any, thread: str) -> bool:
    return bool((await graph.aget_state(of(thread))).interrupts)


async def test_a_mirror_serves_the_threads_of_its_checkpointer_by_policy_and_without_a_loop(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = agent(saver, [call(1, "ann", 1)])
        async with desk(policy=Policy(allow(tool="pay", where={"amount": 1}), deny(tool="question"))) as person:
            for thread in ("t1", "t2"):
                await asyncio.to_thread(graph.invoke, GO, of(thread))
            mirror = Mirror(graph, person.app, approval=Approval(expires="1h"))
            before = {thread: await mirror.ask(thread) for thread in ("t1", "t2")}
            serving = asyncio.ensure_future(
                Mirror(graph, person.app, approval=Approval(expires="1h")).serve(every=0.05)
            )
            await until(lambda: len(RAN) == 2)
            states = [state for thread in ("t1", "t2") for state in before[thread]]
            await until(lambda: _all_are(person, states, "succeeded"))
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            assert await person.app.inbox.list() == []


async def test_at_a_server_by_its_url() -> None:
    graph = agent(InMemorySaver(), [call(1, "ann", 1)])
    RAN.clear()
    with Port(more=[ExternalAgent()]) as port:
        token = await asyncio.to_thread(port.does, port.app.people.issue_token("bot", ["ask"], by="ada"))
        async with Mirror(graph, port.url, token=token, requester="cyd") as mirror:
            await _at_server(port, graph, mirror)


async def _at_server(port: Any, graph: Any, mirror: Mirror) -> None:
    await graph.ainvoke(GO, of("t1"))
    [state] = await mirror.ask("t1")

    def approve() -> None:
        rows = port.does(port.app.inbox.list())
        assert rows[0].request.requester == "cyd"
        port.does(port.app.inbox.approve(rows[0], by="ben"))

    await until(lambda: _listed(port))
    await asyncio.to_thread(approve)
    await resumed(lambda: mirror.resume("t1"))
    assert RAN == [("ann", 1)]
    assert (await mirror.ask("t1"), state.status) == ([], "pending")


async def _listed(port: Any) -> bool:
    return bool(await asyncio.to_thread(port.does, port.app.inbox.list()))


SCRIPT = """
import asyncio, os, sys, time
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from keyturn.langgraph import Mirror
from tests.langgraph.programs import GO, agent, call, of
from keyturn.gating import CallWaiting
place, folder, thread, role = sys.argv[1:]

@tool
def pay(to: str, amount: int) -> str:
    "Pay somebody."
    with open(f"{folder}/paid", "a") as file:
        file.write(f"{to} {amount}\\n")
    if role == "dies":
        print("paying", flush=True)
        time.sleep(600)
    return "paid"

async def main():
    async with AsyncSqliteSaver.from_conn_string(f"{folder}/threads.db") as saver:
        graph = agent(saver, [call(1, "ann", 1), call(2, "ben", 2)], "per_call", tools=[pay])
        async with Mirror(graph, place) as mirror:
            await play(graph, mirror)

async def play(graph, mirror):
    if role == "starts":
        await graph.ainvoke(GO, of(thread))
        print(*(state.id for state in await mirror.ask(thread)), flush=True)
        return
    print("ready", flush=True)
    while not os.path.exists(f"{folder}/go"):
        await asyncio.sleep(0.001)
    while True:
        try:
            print("resumed" if await mirror.resume(thread) else "over", flush=True)
            return
        except CallWaiting:
            await asyncio.sleep(0.05)
        except Exception as error:
            print(type(error).__name__, flush=True)
            return
asyncio.run(main())
"""


def process(*words: str) -> Any:
    return forked.Program(["-c", SCRIPT, *words], stdout=forked.PIPE, stderr=forked.DEVNULL, text=True)


@pytest.mark.trial
async def test_of_processes_that_race_one_resumes_and_each_tool_runs_once(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/inbox.db"
    starts = process(place, str(tmp_path), "t1", "starts")
    await asyncio.to_thread(starts.wait)
    racers = [process(place, str(tmp_path), "t1", "races") for _ in range(3)]
    try:
        for racer in racers:
            assert await asyncio.to_thread(racer.stdout.readline) == "ready\n"
        async with desk(place) as person:
            await person.approve(2)
            (tmp_path / "go").touch()
            said = [(await asyncio.to_thread(racer.communicate, timeout=120))[0].split()[-1] for racer in racers]
        assert said.count("resumed") == 1, said
        assert sorted((tmp_path / "paid").read_text().splitlines()) == ["ann 1", "ben 2"]
    finally:
        for racer in racers:
            racer.kill()


@pytest.mark.trial
async def test_a_process_that_dies_after_its_claim_leaves_the_calls_in_doubt_and_nothing_is_resumed(
    tmp_path: Path,
) -> None:
    place = f"sqlite:///{tmp_path}/inbox.db"
    starts = process(place, str(tmp_path), "t1", "starts")
    ids = (await asyncio.to_thread(starts.communicate, timeout=120))[0].split()
    (tmp_path / "go").touch()
    dies = process(place, str(tmp_path), "t1", "dies")
    try:
        assert await asyncio.to_thread(dies.stdout.readline) == "ready\n"
        async with desk(place) as person:
            await person.approve(2)
            assert await asyncio.to_thread(dies.stdout.readline) == "paying\n"
            os.kill(dies.pid, signal.SIGKILL)
            dies.wait()
            before = (tmp_path / "paid").read_text()
            again = process(place, str(tmp_path), "t1", "lives")
            assert (await asyncio.to_thread(again.communicate, timeout=120))[0].split() == ["ready", "CallClaimed"]
            assert (tmp_path / "paid").read_text() == before
            # The claim runs out, which puts the calls in doubt; then a person has them run again.
            for id in ids:
                await person.app.asks.report(id, await _holder(person, id), "unknown")
            again = process(place, str(tmp_path), "t1", "lives")
            assert (await asyncio.to_thread(again.communicate, timeout=120))[0].split() == ["ready", "CallInDoubt"]
            for row in await person.pending(2):
                await person.app.inbox.resolve(row, "retry", by="ada")
            again = process(place, str(tmp_path), "t1", "lives")
            assert (await asyncio.to_thread(again.communicate, timeout=120))[0].split() == ["ready", "resumed"]
    finally:
        dies.kill()


async def _holder(person: Any, id: str) -> str:
    """Return the name of the claim on a request."""
    return (await person.app.asks.get(id)).claimed_by.removeprefix("external ")


async def test_an_answer_from_elsewhere_is_not_given_twice_and_a_cancelled_resume_is_in_doubt() -> None:
    started = asyncio.Event()

    async def node(state: State) -> Any:
        interrupt({"go": "on?"})
        started.set()
        await asyncio.Event().wait()

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=InMemorySaver())
    async with desk() as person:
        mirror = Mirror(graph, person.app)
        await graph.ainvoke({"log": []}, of("t1"))
        [state] = await mirror.ask("t1")
        await person.approve()
        resuming = asyncio.ensure_future(resumed(lambda: mirror.resume("t1")))
        await started.wait()
        with pytest.raises((CallClaimed, Conflict)):
            await Mirror(graph, person.app).resume("t1")
        resuming.cancel()
        await asyncio.gather(resuming, return_exceptions=True)
        assert (await person.app.asks.get(state.id)).status == "in_doubt"
        with pytest.raises((CallInDoubt, CallFailed, Conflict)):
            await mirror.resume("t1")
        other = asks("Which?", InMemorySaver())
        await other.ainvoke({"log": []}, of("t2"))
        mirror = Mirror(other, person.app)
        [asked] = await mirror.ask("t2")
        await other.ainvoke(Command(resume="by the program itself"), of("t2"))
        assert await mirror.resume("t2") is None
        assert (await person.app.asks.get(asked.id)).status == "withdrawn"
