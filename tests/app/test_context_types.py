"""A context that is a dataclass or a pydantic model comes back after a pause as what it was, or no run starts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr, computed_field

from keyturn import (
    Agent,
    App,
    MemoryJournal,
    Runner,
    RunState,
    StateRejected,
    ToolContext,
    UserError,
    function_tool,
)
from keyturn.engine.run.log_cache import forget
from keyturn.models.scripted.model import ScriptedModel, tool_outputs
from tests.playing import Clock, Run, approved, call, through_text
from tests.waiting import until


@dataclass
class Seat:
    row: int
    at: datetime


@dataclass
class Guest:
    name: str
    seats: list[Seat] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Incomparable:
    name: str


class Account(BaseModel):
    user: str
    limit: int = 3
    since: datetime | None = None

    @computed_field
    @property
    def shown(self) -> str:
        return self.user.title()


class Vip(Account):
    table: int = 1


class Hidden(BaseModel):
    user: str
    password: SecretStr


class Aliased(BaseModel):
    user: str = Field(alias="userName")


@dataclass
class Alive:
    name: str
    connection: Any


class Client:
    """Something alive."""


NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
CONTEXTS = [Guest("ada", [Seat(3, NOON)]), Incomparable("ada"), Account(user="ada", since=NOON)]
named = pytest.mark.parametrize("context", CONTEXTS, ids=lambda each: type(each).__name__)


@pytest.fixture(autouse=True)
def own_world(own_key: None) -> None:
    """A key of the test's own."""


def desk(kind: Any = None, seen: list[Any] | None = None) -> Agent[Any]:
    """An agent whose tool asks, and then looks at the context; made as `Agent[kind]` where there is one."""
    contexts: list[Any] = [] if seen is None else seen

    @function_tool(needs_approval=True)
    def look(context: ToolContext[Any]) -> str:
        """Look."""
        contexts.append(context.context)
        return "looked"

    def reply(items: Any) -> Any:
        return "done" if tool_outputs(items) else [call("look", "c1")]

    made: Any = Agent if kind is None else Agent[kind]
    return made("desk", model=ScriptedModel(reply), tools=[look])


async def through_a_pause(app: App, context: Any) -> None:
    run = await app.start("desk", "x", context=context)
    await run.wait(30)
    forget()
    [request] = await app.inbox.list()
    await app.inbox.approve(request, by="ann")
    await run.result(30)


def alike(one: Any, other: Any) -> bool:
    return type(one) is type(other) and vars(one) == vars(other)


@pytest.mark.parametrize("way", ["Agent[Ctx]", "a clone of it", "App(context_type=)"])
@named
async def test_it_comes_back_in_an_app(context: Any, way: str) -> None:
    seen: list[Any] = []
    agent = desk(None if way == "App(context_type=)" else type(context), seen)
    agent = agent.clone(instructions="Look.") if way == "a clone of it" else agent
    kind = type(context) if way == "App(context_type=)" else None
    async with App([agent], MemoryJournal(), context_type=kind) as app:
        await through_a_pause(app, context)
    [found] = seen
    assert alike(found, context)
    assert found is not context


@named
async def test_it_comes_back_from_a_text_and_from_a_journal(context: Any, run: Run) -> None:
    agent = desk(type(context))
    state = await approved(await run(agent, "x", context=context), agent, saved=True)
    assert alike(state.context.context, context)
    text = state.to_string()
    untyped = desk()
    forget()
    assert alike((await RunState.from_string(untyped, text, context_type=type(context))).context.context, context)
    journal = MemoryJournal()
    paused = await run(agent, "x", context=context, journal=journal)
    forget()
    assert alike((await RunState.load(journal, paused.run_id, agent)).context.context, context)
    loaded = await RunState.load(journal, paused.run_id, untyped, context_type=type(context))
    assert alike(loaded.context.context, context)


async def test_without_a_type_it_is_refused_with_both_remedies() -> None:
    for context in CONTEXTS:
        what = type(context).__name__
        app = App([desk()], MemoryJournal(), worker=False)
        with pytest.raises(UserError, match=rf"say App\(context_type={what}\), or make its agent as Agent\[{what}\]"):
            await app.start("desk", "x", context=context)
        assert await app.runs() == []


@pytest.mark.each
@pytest.mark.parametrize(
    ("kind", "context", "says"),
    [
        (Account, Vip(user="ada"), "must be a Account, and it is a Vip"),
        (Account, {"user": "ada"}, "must be a Account, and it is a dict"),
        (Guest, Guest("ada", tags={"a"}), None),
        (Guest, Guest("ada", seats=["front"]), "no Guest"),  # type: ignore[list-item]  # what is refused
        (Hidden, Hidden(user="ada", password=SecretStr("hunter2-hunter2")), "as another one than it is"),
        (Aliased, Aliased(userName="ada"), "no Aliased"),
        (Alive, Alive("ada", Client()), "cannot be kept with a run"),
        (None, Client(), "a context of type Client cannot be kept"),
        (None, {"client": Client()}, "cannot be kept with a run"),
        (None, {"name": "ada"}, None),
        (Account, None, None),
    ],
)
async def test_what_would_come_back_as_something_else_does_not_start(kind: Any, context: Any, says: str | None) -> None:
    app = App([desk(kind)], MemoryJournal(), worker=False)
    if says is None:
        await app.start("desk", "x", context=context)
        return
    with pytest.raises(UserError, match=says) as refused:
        await app.start("desk", "x", context=context)
    assert "hunter2" not in str(refused.value)
    assert await app.runs() == []


async def test_a_class_that_changed_while_the_run_waited_is_said_and_nothing_is_quoted() -> None:
    @dataclass
    class Guest:
        name: str
        age: int

    old = desk()
    text = (await Runner.run(old, "x", context=Account(user="the-secret-ada"))).to_state().to_string()
    forget()
    with pytest.raises(UserError, match=r"no Guest as that is now: look at age, name; .*context_deserializer") as said:
        await RunState.from_string(desk(Guest), text)
    assert "the-secret-ada" not in str(said.value)

    @dataclass
    class Smaller:
        user: str

    with pytest.raises(UserError, match="the saved context has limit, shown, since, which Smaller has not"):
        await RunState.from_string(desk(), text, context_type=Smaller)


@dataclass
class Desk:
    """What a run may do; a class that is made of it may do less, and says so in code and in no field."""

    user: str

    def may_pay(self) -> bool:
        return True


@dataclass
class Visitor(Desk):
    def may_pay(self) -> bool:
        return False


async def test_a_context_of_a_class_derived_from_the_type_does_not_come_back_as_the_type(run: Run) -> None:
    journal = MemoryJournal()
    paused = await run(desk(Desk), "x", context=Visitor("eve"), journal=journal)
    text = paused.to_state().to_string()
    forget()
    with pytest.raises(UserError, match=r"of a Visitor, and is to come back as a Desk; .*context_deserializer"):
        await RunState.from_string(desk(Desk), text)
    with pytest.raises(UserError, match="of a Visitor"):
        await RunState.load(journal, paused.run_id, desk(Desk))
    for agent, kind in ((desk(Visitor), None), (desk(), Visitor)):
        state = await RunState.from_string(agent, text, context_type=kind)
        assert not state.context.context.may_pay()


async def test_what_the_caller_makes_goes_before_the_type() -> None:
    agent = desk(Account)
    state = await through_text(
        agent, await Runner.run(agent, "x", context=Account(user="ada")), context_deserializer=lambda data: data["user"]
    )
    assert state.context.context == "ada"
    state = await through_text(agent, state, context_override=Account(user="bob"))
    assert state.context.context == Account(user="bob")
    seen: list[Any] = []
    made: Any = {"context_serializer": lambda one: one.user, "context_deserializer": lambda user: Account(user=user)}
    async with App([desk(Account, seen)], MemoryJournal(), **made) as app:
        await through_a_pause(app, Account(user="ada"))
    assert seen == [Account(user="ada")]


def test_a_type_that_cannot_come_back_is_refused_where_it_is_given() -> None:
    for wrong in (Client, dict[str, int], "Account", Account(user="ada")):
        with pytest.raises(UserError, match="context_type must be a dataclass or a pydantic model"):
            App([desk()], MemoryJournal(), context_type=wrong)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(UserError, match="drop one"):
        App([desk()], MemoryJournal(), context_type=Account, context_deserializer=Account)


async def test_a_type_is_never_taken_from_a_text() -> None:
    """What a text says of its context is data: only the program names a type."""
    agent = desk()
    text = (await Runner.run(agent, "x", context=Account(user="ada"))).to_state().to_string()
    forget()
    with pytest.warns(UserWarning, match=r"comes back as plain data; .*context_type="):
        state = await RunState.from_string(agent, text)
    assert state.context.context["user"] == "ada"
    with pytest.raises(StateRejected):
        await RunState.from_string(desk(Account), text.replace("ada", "eve"))


@pytest.mark.filterwarnings("ignore:the state's context comes back")
async def test_a_worker_that_cannot_make_the_context_of_a_run_leaves_it_to_those_that_can(caplog: Any) -> None:
    """What its tools left of the data was saved in the context's place, and no worker got the type back."""
    seen: list[Any] = []
    journal = MemoryJournal(Clock())  # what was left for a minute would not be due
    right = App([desk(seen=seen)], journal, context_type=Account, worker=False)
    run = await right.start("desk", "x", context=Account(user="ada"))
    older = App([desk(seen=seen)], journal)
    async with older:
        await until(lambda: "the state's context needs more than its data to come back" in caplog.text)
    working = asyncio.create_task(right.work())
    await run.wait(30)
    await right.inbox.approve((await right.inbox.list())[0], by="ann")
    await run.result(30)
    await right.stop()
    await working
    assert seen == [Account(user="ada")]


async def test_a_run_of_a_journal_is_resumed_with_its_whole_context_or_not_at_all(run: Run) -> None:
    journal, seen = MemoryJournal(), list[Any]()
    paused = await run(desk(Account), "x", context=Account(user="ada"), journal=journal)
    text = paused.to_state().to_string()
    forget()
    untyped = desk(seen=seen)
    with pytest.warns(UserWarning, match="comes back as plain data"):
        states = [await RunState.load(journal, paused.run_id, untyped), await RunState.from_string(untyped, text)]
    for state in states:
        state.approve(state.get_interruptions()[0])
        with pytest.raises(UserError, match=r"context needs more than its data to come back; .*context_type="):
            await run(untyped, state, journal=journal)
    assert seen == []
    await run(untyped, states[0], journal=journal, context={"user": "bob"})
    assert seen == [{"user": "bob"}]


async def test_a_context_that_is_serialized_and_never_made_again_does_not_start() -> None:
    app = App([desk()], MemoryJournal(), worker=False, context_serializer=lambda one: one.name)
    with pytest.raises(UserError, match="a serialized context would come back after a pause as plain data"):
        await app.start("desk", "x", context=Incomparable("ada"))
