"""A session is its first requester's at every door: a run of another one is refused before it reads anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import keyturn
from keyturn import (
    Agent,
    App,
    Grant,
    MemoryJournal,
    MemorySession,
    NotPending,
    RunConfig,
    RunState,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.realtime import RealtimeAgent, RealtimeRunner
from tests.openai_agents.worlds import WORLDS
from tests.playing import Run
from tests.realtime.own_model import OwnModel
from tests.waiting import until_status

REFUSED = "no session 's1' of this requester"
STATE = Path(__file__).parents[1] / "openai_agents" / "states" / "nested.json"


def desk(heard: list[str] | None = None, *tools: Any) -> Agent[Any]:
    def says(request: Any) -> str:
        (heard if heard is not None else []).append(str(request.input))
        return "Done."

    return Agent("desk", model=ScriptedModel(says), tools=list(tools))


async def owned(journal: Any, run: Run) -> MemorySession:
    """Make a session in which Cyd, who owns it, gave a number."""
    session = MemorySession("s1")
    await run(desk(), "My number is 4929.", session=session, journal=journal, requester="cyd")
    return session


async def test_a_run_is_refused_on_a_session_of_another_requester(run: Run) -> None:
    journal, heard = MemoryJournal(), list[str]()
    session = await owned(journal, run)
    before = await session.get_items()
    with pytest.raises(NotPending, match=REFUSED):
        await run(desk(heard), "The number?", session=session, journal=journal, requester="eve")
    assert (heard, await session.get_items()) == ([], before)
    done = await run(desk(heard), "The number?", session=session, journal=journal, requester="cyd")
    assert done.final_output == "Done."
    assert "4929" in heard[0]
    assert (await check(journal)).ok


async def test_a_queued_run_is_refused_before_its_turn(run: Run) -> None:
    journal = MemoryJournal()
    session = await owned(journal, run)
    config = RunConfig(paused_session="queue")
    with pytest.raises(NotPending, match=REFUSED):
        await run(desk(), "The number?", session=session, journal=journal, requester="eve", run_config=config)
    assert await requesters(journal) == {"cyd"}


async def test_a_run_and_an_app_of_one_journal_know_the_same_owners(run: Run) -> None:
    journal = MemoryJournal()
    session = await owned(journal, run)
    async with App([desk()], journal, sessions=lambda _id: session) as app:
        with pytest.raises(NotPending, match=REFUSED):
            await app.start("desk", "The number?", session_id="s1", requester="eve")
        started = await app.start("desk", "And now?", session_id="s1", requester="cyd")
        assert (await started.result(20)).final_output == "Done."


async def test_a_session_given_first_at_a_resume_must_be_of_the_runs_requester(run: Run) -> None:
    journal = MemoryJournal()
    session = await owned(journal, run)
    asking = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5})], "Done."]), tools=[_pay()])
    paused = await run(asking, "Pay.", journal=journal, requester="eve")
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    with pytest.raises(NotPending, match=REFUSED):
        await run(asking, state, session=session, journal=journal)
    assert not await MemorySession("s2").get_items()
    done = await run(asking, state, session=MemorySession("s2"), journal=journal)
    assert done.final_output == "Done."


async def test_a_nested_agent_reads_no_session_of_another_requester(run: Run) -> None:
    journal, heard = MemoryJournal(), list[str]()
    session = await owned(journal, run)
    inner = desk(heard).as_tool(tool_name="look", tool_description="Look it up.", session=session)
    look = [function_call("look", {"input": "The number?"})]
    outer = Agent("outer", model=ScriptedModel([look, look, "Done."]), tools=[inner])
    with pytest.raises(NotPending, match=REFUSED):
        await run(outer, "Look.", journal=journal, requester="eve")
    assert not heard
    await run(outer, "Look.", journal=journal, requester="cyd")
    assert "4929" in heard[0]


class Apart(MemorySession):
    """One object that keeps a conversation for each user."""

    def __init__(self) -> None:
        super().__init__("shared")
        self.kept: dict[Any, MemorySession] = {}

    def of(self, wrapper: Any) -> MemorySession:
        return self.kept.setdefault(wrapper.context, MemorySession("one"))

    async def get_items(self, limit: int | None = None, wrapper: Any = None) -> list[Any]:
        return await self.of(wrapper).get_items(limit)

    async def add_items(self, items: list[Any], wrapper: Any = None) -> None:
        await self.of(wrapper).add_items(items)

    async def pop_item(self, wrapper: Any = None) -> Any:
        return await self.of(wrapper).pop_item()

    async def clear_session(self, wrapper: Any = None) -> None:
        await self.of(wrapper).clear_session()


async def test_one_object_that_keeps_users_apart_has_no_owner(run: Run) -> None:
    journal, session = MemoryJournal(), Apart()
    for who in ("cyd", "eve"):
        await run(desk(), "Hi.", session=session, journal=journal, requester=who, context=who)
    assert len(session.kept) == 2


async def test_a_run_is_resumed_for_its_own_requester_only(run: Run) -> None:
    journal = MemoryJournal()
    asking = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5})], "Done."]), tools=[_pay()])
    paused = await run(asking, "Pay.", journal=journal, requester="cyd")
    state = await RunState.load(journal, paused.run_id, asking)
    with pytest.raises(NotPending, match=r"no run .* of this requester"):
        await run(asking, state, journal=journal, requester="eve")
    state.approve(paused.interruptions[0])
    assert (await run(asking, state, journal=journal, requester="cyd")).final_output == "Done."


async def test_a_realtime_session_is_taken_up_for_its_own_requester_only() -> None:
    journal, agent = MemoryJournal(), RealtimeAgent("desk", tools=[_pay()])

    def runner(who: str | None) -> RealtimeRunner:
        return RealtimeRunner(agent, model=OwnModel(), journal=journal, requester=who)

    session = await (await runner("cyd").run()).enter()
    await session.close(end=False)
    with pytest.raises(NotPending, match=r"no run .* of this requester"):
        await (await runner("eve").run(resume=session.run_id)).enter()
    for who in ("cyd", None):
        again = await (await runner(who).run(resume=session.run_id)).enter()
        await again.close(end=False)
    assert await requesters(journal) == {"cyd"}


async def test_a_state_taken_over_is_refused_on_a_session_of_another_requester() -> None:
    kept = json.loads(STATE.read_text(encoding="utf-8"))
    agent = WORLDS[kept["world"]](keyturn, lambda name: ScriptedModel([f"{name} is done"] * 4), [])
    async with App([agent], MemoryJournal(), sessions=MemorySession, worker=False) as app:
        await app.start(agent.name, "My number is 4929.", session_id="s1", requester="cyd")
        with pytest.raises(NotPending, match=REFUSED):
            await app.take_over(agent.name, kept["state"], trust=True, session_id="s1", requester="eve")
        assert await requesters(app.journal) == {"cyd"}
        taken = await app.take_over(agent.name, kept["state"], trust=True, session_id="s1", requester="cyd")
        assert (await log_in(app.journal, taken.id)).run.requester == "cyd"
        assert (await check(app.journal)).ok


async def requesters(journal: Any) -> set[str | None]:
    return {(await log_in(journal, row.run)).run.requester for row in await journal.runs()}


def _pay() -> Any:
    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return pay


async def test_apps_that_name_where_their_sessions_are_kept_share_none_of_one_id() -> None:
    """An empty session of one app made its requester the owner of the other's, with all that it holds."""
    journal, kept = MemoryJournal(), {"support": MemorySession("ann"), "billing": MemorySession("ann")}
    await kept["support"].add_items([{"role": "user", "content": "My number is 4929."}])

    def app(store: str) -> App:
        queue = RunConfig(paused_session="queue")
        agents = [Agent(store, model=ScriptedModel([[function_call("pay", {"amount": 5})], "Done."]), tools=[_pay()])]
        return App(agents, journal, sessions=lambda _id: kept[store], session_store=store, run_config=queue)

    async with app("support") as support, app("billing") as billing:
        waits = await support.start("support", "Pay.", session_id="ann", requester="cyd")
        await until_status(support, waits.id, "waiting")
        [asked] = await support.inbox.list(Query(run=waits.id))
        await support.inbox.approve(asked, by="ben", grant=Grant(scope="session"))
        assert (await waits.result(20)).final_output == "Done."
        with pytest.raises(NotPending):
            await support.start("support", "The number?", session_id="ann", requester="eve")
        other = await billing.start("billing", "Pay.", session_id="ann", requester="eve")
        assert (await other.wait(20)).status == "waiting", "neither the turn nor the grant of the other session"
    with pytest.raises(UserError, match="kept in 'billing', and this app keeps sessions in 'support'"):
        app("support").session_of({"session": "ann", "session_store": "billing"})
    assert (await check(journal)).ok
