"""A session class of a user's own is called as it is declared: with the run's context, and within its own limit."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from keyturn import Agent, MemorySession, RunConfig, RunContextWrapper, SessionSettings, UserError
from keyturn.core.items import Item
from keyturn.sessions.encrypted import EncryptedSession
from tests.playing import Run, World, approved, asked, asking, call, model, outer, outputs, shape, state_of

KEY = "TmV2ZXIgdXNlIGEga2V5IG9mIGFuIGV4YW1wbGUuICA="


class Tenants:
    """One object that keeps a conversation for each user: whose, the run's context says."""

    session_id = "shared"

    def __init__(self) -> None:
        self.kept: defaultdict[Any, list[Item]] = defaultdict(list)

    async def get_items(self, limit: int | None = None, wrapper: RunContextWrapper[Any] | None = None) -> list[Item]:
        items = self.kept[_user(wrapper)]
        return list(items if limit is None else items[max(0, len(items) - limit) :])

    async def add_items(self, items: list[Item], *, wrapper: RunContextWrapper[Any]) -> None:
        self.kept[_user(wrapper)] += items

    async def pop_item(self, wrapper: RunContextWrapper[Any] | None = None) -> Item | None:
        return self.kept[_user(wrapper)].pop()

    async def clear_session(self, wrapper: RunContextWrapper[Any] | None = None) -> None:
        self.kept[_user(wrapper)].clear()


def _user(wrapper: RunContextWrapper[Any] | None) -> Any:
    return None if wrapper is None or wrapper.context is None else wrapper.context["user"]


class Settings:
    """What a session may say of itself: no class of ours."""

    def __init__(self, limit: Any) -> None:
        self.limit = limit


class Windowed(Tenants):
    """A session that gives what it is asked for, and says how much that should be."""

    def __init__(self, limit: Any) -> None:
        super().__init__()
        self.session_settings = Settings(limit)


async def test_two_tenants_of_one_object_share_no_history(world: World, run: Run, saved: bool) -> None:
    session = Tenants()
    for user in ("ann", "bob"):
        agent = asking(world, [call("ask", "c1")], "done")
        result = await run(agent, f"I am {user}", session=session, context={"user": user})
        state = await approved(result, agent, saved)
        await run(agent, state, session=session)
        assert [shape(request.input)[0] for request in asked(agent)] == ["user", "user"]
    told = ["user", "call c1", "output c1", "assistant"]
    assert {user: shape(items) for user, items in session.kept.items()} == {"ann": told, "bob": told}
    assert session.kept["bob"][0]["content"] == "I am bob"


async def test_what_a_newer_message_supersedes_is_settled_in_the_tenants_own_conversation(
    world: World, run: Run
) -> None:
    session = Tenants()
    agent = asking(world, [call("ask", "c1")], "hello")
    await run(agent, "go", session=session, context={"user": "ann"})
    agent.model = model("hello")
    await run(agent, "hi", session=session, context={"user": "bob"})
    assert shape(session.kept["ann"]) == ["user", "call c1"]
    agent.model = model("hello")
    await run(agent, "hi", session=session, context={"user": "ann"})
    assert shape(session.kept["ann"]) == ["user", "call c1", "output c1", "user", "assistant"]


async def test_the_session_of_an_agent_tool_gets_the_context_too(run: Run) -> None:
    session = Tenants()
    inner = Agent("inner", model=model("in", "in"))
    tool = inner.as_tool("inner", "asks", session=session)
    for user in ("ann", "bob"):
        await run(outer(call("inner", "o1", input=f"for {user}"), tools=[tool]), "go", context={"user": user})
    assert {user: shape(items) for user, items in session.kept.items()} == {
        "ann": ["user", "assistant"],
        "bob": ["user", "assistant"],
    }


async def test_an_encrypted_session_hands_the_context_on(run: Run) -> None:
    store = Tenants()
    for user in ("ann", "bob"):
        agent = Agent("a", model=model("hello"))
        await run(agent, "hi", session=EncryptedSession("s", store, KEY), context={"user": user})
        assert len(asked(agent)[0].input) == 1
    assert {user: len(items) for user, items in store.kept.items()} == {"ann": 2, "bob": 2}
    session = EncryptedSession("s", store, KEY)
    wrapper = RunContextWrapper({"user": "ann"})
    assert (await session.pop_item(wrapper) or {})["role"] == "assistant"
    await session.clear_session(wrapper)
    assert {user: len(items) for user, items in store.kept.items()} == {"ann": 0, "bob": 2}


async def test_parameters_may_stand_in_any_order_and_have_any_names(run: Run) -> None:
    class Odd(MemorySession):
        async def get_items(self, wrapper: Any, limit: int | None = None) -> list[Item]:  # type: ignore[override]  # it is called as it is declared
            assert wrapper.context == "ctx"
            return await super().get_items(limit)

        async def add_items(self, batch: list[Item], **more: Any) -> None:  # type: ignore[override]  # it is called as it is declared
            assert not more  # what takes anything has not asked for the context
            await super().add_items(batch)

    agent = Agent("a", model=model("one", "two"))
    session = Odd("odd")
    for _ in range(2):
        await run(agent, "hi", session=session, context="ctx", run_config={"session_settings": {"limit": 3}})
    assert len(asked(agent)[1].input) == 3


async def test_a_sessions_own_limit_holds(world: World, run: Run, saved: bool) -> None:
    session = Windowed(2)
    agent = asking(world, "one", "two", [call("ask", "c1")], "done")
    for words in ("a", "b"):
        await run(agent, words, session=session)
    result = await run(agent, "c", session=session)
    result = await run(agent, await approved(result, agent, saved), session=session)
    assert [len(request.input) for request in asked(agent)] == [1, 3, 3, 5]
    assert outputs(result.to_input_list()) == {"c1": "ask(0)"}
    assert len(await session.get_items()) == 8


async def test_the_runs_own_limit_goes_before_the_sessions(run: Run) -> None:
    for given, seen in ((SessionSettings(limit=1), 2), (SessionSettings(), 3), (SessionSettings(limit=0), 1)):
        session = Windowed(2)
        session.kept[None] += [{"role": "user", "content": str(number)} for number in range(5)]
        agent = Agent("a", model=model("hello"))
        await run(agent, "hi", session=session, run_config=RunConfig(session_settings=given))
        assert len(asked(agent)[0].input) == seen


@pytest.mark.each
@pytest.mark.parametrize("limit", [-1, "5", True])
async def test_a_limit_that_means_nothing_is_refused(run: Run, limit: Any) -> None:
    with pytest.raises(UserError, match="items"):
        await run(Agent("a", model=model("hello")), "hi", session=Windowed(limit))


async def test_a_session_that_is_given_at_a_resume_gets_the_context(world: World, run: Run, saved: bool) -> None:
    session = Tenants()
    agent = asking(world, [call("ask", "c1")], "done")
    state = await state_of(await run(agent, "go", context={"user": "ann"}), agent, saved)
    state.approve(state.get_interruptions()[0])
    await run(agent, state, session=session)
    assert {user: shape(items) for user, items in session.kept.items()} == {
        "ann": ["user", "call c1", "output c1", "assistant"]
    }


@pytest.mark.parametrize("method", ["get_items", "add_items", "pop_item", "clear_session"])
async def test_a_session_gets_the_context_in_all_methods_or_in_none(run: Run, method: str) -> None:
    given: list[Any] = []

    class Halves(MemorySession):
        """Declares the parameter in one method, so that it cannot keep conversations apart."""

    async def declared(self: Any, *args: Any, wrapper: Any = None) -> Any:
        given.append(wrapper)
        return await getattr(MemorySession, method)(self, *args)

    setattr(Halves, method, declared)
    await run(Agent("a", model=model("hello")), "hi", session=Halves("s"), context={"user": "ann"})
    assert set(given) <= {None}
