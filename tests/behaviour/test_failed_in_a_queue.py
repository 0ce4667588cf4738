"""A run that failed before anything of it was in its session goes first or not at all, once others have their turn."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, Conflict, Runner, RunState, function_tool
from keyturn.core import commands as cm
from keyturn.engine.driving.writer import write_to
from keyturn.engine.run.log_cache import forget, log_in
from keyturn.engine.session.turn import WHY
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.behaviour.queue_shop import QUEUE, Shop, inputs
from tests.playing import Run


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.mark.each
@pytest.mark.parametrize("before", [[], ["m0"]], ids=["an empty session", "a conversation"])
async def test_a_run_that_failed_before_it_wrote_is_superseded_by_the_next_one(
    shop: Shop, store: Any, before: list[str]
) -> None:
    """Found by the simulator: its worker died, the next one had its turn, and its own calls were approved."""
    session: Any = shop.session("ann")
    agent, add_items = shop.agent(), session.add_items
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    for text in before:
        await Runner.run(agent, text, **with_all)

    async def fails(*_args: Any, **_options: Any) -> None:
        raise OSError("the disk is gone")

    session.add_items = fails
    with pytest.raises(OSError, match="gone") as failed:
        await Runner.run(agent, "pay ada", **with_all)
    session.add_items = add_items
    error: Any = failed.value
    state: Any = error.run_data.to_state()
    await Runner.run(agent, "m2", **with_all)
    forget()
    late = await RunState.load(store, state.run_id, agent)
    late.approve(late.get_interruptions()[0])
    with pytest.raises(Conflict, match="went on without this run"):
        await Runner.run(agent, late, **with_all)
    [row] = await store.runs(Query(run=state.run_id))
    assert (row.status, row.error, shop.paid) == ("cancelled", WHY, [])
    assert inputs(await shop.told()) == [*before, "m2"]


async def test_a_run_that_failed_before_it_wrote_is_not_resumed_beside_the_next_one(
    shop: Shop, store: Any, run: Run
) -> None:
    """The next one has begun and nothing of it is in the session yet: the first would write before it."""
    session, agent = shop.session("ann"), shop.agent()
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    refused: list[str] = []

    async def down(*_items: Any, **_more: Any) -> Any:
        raise OSError("the disk is down")

    @function_tool
    async def resume() -> str:
        """Resume the first run."""
        with pytest.raises(Conflict) as error:
            await run(agent, first, **with_all)
        refused.append(str(error.value))
        return "resumed"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "add_items", down)
        with pytest.raises(OSError, match="down") as failed:
            await Runner.run(agent, "m1", **with_all)
    stopped: Any = failed.value
    first = stopped.run_data.to_state()
    second = Agent("second", model=ScriptedModel([[function_call("resume", {})], "heard m2"]), tools=[resume])
    assert (await run(second, "m2", **with_all)).final_output == "heard m2"
    assert refused
    assert "went on without this run" in refused[0]
    assert inputs(await shop.told()) == ["m2"]


async def test_a_run_that_failed_before_it_wrote_is_not_resumed_before_the_next_one(shop: Shop, store: Any) -> None:
    """Found by the simulator: the next one waited still, and began while the first was at work."""
    session, agent = shop.session("ann"), shop.agent()
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}

    async def down(*_items: Any, **_more: Any) -> Any:
        raise OSError("the disk is down")

    app = shop.app(store, worker=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "add_items", down)
        with pytest.raises(OSError, match="down") as failed:
            await Runner.run(agent, "m1", **with_all)
    stopped: Any = failed.value
    waits = await app.start("shop", "m2", session_id="ann")
    with pytest.raises(Conflict, match="went on without this run"):
        await Runner.run(agent, stopped.run_data.to_state(), **with_all)
    state = await RunState.load(store, waits.id, agent)
    assert (await Runner.run(agent, state, **with_all)).final_output == "heard m2"
    assert inputs(await shop.told()) == ["m2"]


async def test_a_run_that_is_resumed_while_the_next_one_has_its_turn_is_superseded(shop: Shop, store: Any) -> None:
    """Found by the simulator: the next one began, stopped and wrote between the resume and the question whose turn."""
    session, agent = shop.session("ann"), shop.agent()
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    ahead, asked = store.ahead, list[str]()

    async def down(*_items: Any, **_more: Any) -> Any:
        raise OSError("the disk is down")

    async def after_the_next(run: str) -> list[str]:
        asked.append(run)
        if run == stopped.run_data.run_id and len(asked) == 1:
            state = await RunState.load(store, waits.id, agent)
            assert (await Runner.run(agent, state, **with_all)).final_output == "heard m2"
        return await ahead(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "add_items", down)
        with pytest.raises(OSError, match="down") as failed:
            await Runner.run(agent, "m1", **with_all)
    stopped: Any = failed.value
    waits = await shop.app(store, worker=False).start("shop", "m2", session_id="ann")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "ahead", after_the_next)
        with pytest.raises(Conflict, match="went on without this run"):
            await Runner.run(agent, stopped.run_data.to_state(), **with_all)
    assert inputs(await shop.told()) == ["m2"]


async def test_a_run_that_is_resumed_while_the_next_one_reads_the_session_goes_first(shop: Shop, store: Any) -> None:
    """Found by the simulator: its process had died as it failed, so that it was still the first on its session."""
    session: Any = shop.session("ann")
    app, get_items = shop.app(store, worker=False), session.get_items
    first = await app.start("shop", "m1", session_id="ann")
    claim = await store.claim(first.id, "dies", 60_000)
    await write_to(store, await log_in(store, first.id), cm.Fail("it failed"))
    second = await app.start("shop", "m2", session_id="ann")

    async def resumed(*_asked: Any, **_more: Any) -> Any:
        await write_to(store, await log_in(store, first.id), cm.Resume())
        return await get_items()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "ahead", _no_lease(store))
        patch.setattr(session, "get_items", resumed)
        state = await RunState.load(store, second.id, shop.agent())
        waits = await Runner.run(shop.agent(), state, session=session, run_config=QUEUE)
    assert waits.queued_behind == (first.id,)
    await store.release(claim)


def _no_lease(store: Any) -> Any:
    """What the store says once all leases have expired: of those before, the runs that are not over."""
    ahead = store.ahead

    async def after(run: str) -> list[str]:
        rows = [(await store.runs(Query(run=name)))[0] for name in await ahead(run)]
        return [row.run for row in rows if row.status not in ("failed", "cancelled", "finished")]

    return after
