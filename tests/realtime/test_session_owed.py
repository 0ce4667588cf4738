"""A response is owed until the model has spoken after it heard: a new connection asks for it, and for no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import App, Inbox, function_tool
from keyturn.core.errors import StorageError
from keyturn.core.usage import Usage
from keyturn.engine.run.log_cache import forget
from keyturn.journal.memory import MemoryJournal
from keyturn.realtime import RealtimeAgent, RealtimeRunner
from keyturn.realtime import model_events as me
from keyturn.realtime.items import AssistantMessageItem, AssistantText
from tests.realtime.attending import OwnModel, talking_to
from tests.waiting import until


@function_tool
def weather() -> str:
    """Tell the weather."""
    return "sunny"


def agent() -> RealtimeAgent[Any]:
    return RealtimeAgent("Support", instructions="Help.", tools=[weather])


def asked(model: OwnModel) -> bool:
    """Whether a connection was asked for a response as it was told the conversation."""
    return any(getattr(event, "message", {}).get("type") == "response.create" for event in model.sent)


async def says(model: OwnModel, text: str, turn: str, *, begin: bool = True) -> None:
    words: list[Any] = [AssistantText(text=text)]
    said = AssistantMessageItem(item_id=f"m_{turn}", status="completed", content=words)
    if begin:
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id=turn))
    await model.tell(me.RealtimeModelItemUpdatedEvent(said), me.RealtimeModelUsageEvent(Usage(requests=1)))
    await model.tell(me.RealtimeModelTurnEndedEvent(response_id=turn))


async def taken_up(journal: MemoryJournal, run: str) -> OwnModel:
    """The connection of another session of the run."""
    model = OwnModel()
    session = await RealtimeRunner(agent(), model=model, journal=journal).run(resume=run)
    async with session:
        await session.close(end=False)
    return model


@pytest.mark.parametrize("words", ["I am looking.", ""])
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
async def test_a_result_that_came_while_the_model_spoke_is_still_to_be_answered(words: str, *, again: bool) -> None:
    """The words stand after the result in the log, and were begun before it: whoever goes on asks for an answer."""
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, agent(), journal=journal) as (session, _told):
        await session.send_message("What is the weather?")
        await until(lambda: model.sent)
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="one"))
        await model.calls("weather")
        await until(model.outputs)
        if again:
            await model.tell(me.RealtimeModelTurnStartedEvent(response_id="one"))
        await says(model, words, "one", begin=False)
        await session.close(end=False)
        run = session.run_id
    assert asked(await taken_up(journal, run))


async def test_a_message_that_came_while_the_model_spoke_is_still_to_be_answered() -> None:
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, agent(), journal=journal) as (session, _told):
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="one"))
        await session.send_message("What is the weather?")
        await until(lambda: model.sent)
        await says(model, "Hello, this is Support.", "one", begin=False)
        await session.close(end=False)
        run = session.run_id
    assert asked(await taken_up(journal, run))


async def test_what_was_answered_is_not_answered_again() -> None:
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, agent(), journal=journal) as (session, _told):
        await session.send_message("What is the weather?")
        await until(lambda: model.sent)
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="one"))
        await model.calls("weather")
        await until(model.outputs)
        await says(model, "I am looking.", "one", begin=False)
        await says(model, "It is sunny.", "two")
        await session.close(end=False)
        run = session.run_id
    assert not asked(await taken_up(journal, run))


async def test_what_was_said_aloud_is_answered_by_the_words_that_follow_its_transcript() -> None:
    """A transcript comes when the model is speaking already, which has heard the voice itself."""
    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, agent(), journal=journal) as (session, _told):
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="one"))
        await model.tell(me.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", "Hello?"))
        await says(model, "Hello, this is Support.", "one", begin=False)
        await session.close(end=False)
        run = session.run_id
    assert not asked(await taken_up(journal, run))


class Held(MemoryJournal):
    """A journal that takes no line while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.free.set()

    async def append(self, *line: Any, **more: Any) -> None:
        await self.free.wait()
        await super().append(*line, **more)


async def test_a_call_that_is_recorded_after_its_line_broke_is_told_to_the_next_one_before_its_result() -> None:
    journal, model = Held(), OwnModel()
    async with talking_to(model, agent(), journal=journal) as (session, _told):
        journal.free.clear()
        await model.calls("weather")
        await session.reconnect()
        journal.free.set()
        await until(model.outputs)
        items = [getattr(event, "message", {}).get("other_data", {}).get("item", {}) for event in model.sent]
        told = [item.get("call_id") or event.tool_call.call_id for item, event in zip(items, model.sent, strict=True)]
        assert (told, model.outputs()) == (["c1", "c1"], [("c1", "sunny")])
        assert items[0]["type"] == "function_call"


class Unsure(MemoryJournal):
    """A journal of which nobody knows whether it took a line, once."""

    unsure = False

    async def append(self, *line: Any, **more: Any) -> None:
        await super().append(*line, **more)
        if self.unsure:
            self.unsure = False
            raise StorageError("the connection broke")


async def test_a_call_of_which_nobody_knows_that_it_was_recorded_is_run_by_who_looks_next() -> None:
    """The session ends over it and does not know of the call; the run is due, so that a worker finds it."""
    journal, model = Unsure(), OwnModel()
    session = await (await RealtimeRunner(agent(), model=model, journal=journal).run()).enter()
    journal.unsure = True
    await model.calls("weather")
    with pytest.raises(StorageError):
        async for _event in session:
            pass
    await session.close(end=False)
    assert await journal.due() == [session.run_id]


class Unread(MemoryJournal):
    """A journal that cannot be read, once."""

    unread = False

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        if self.unread:
            self.unread = False
            raise StorageError("it cannot be read")
        return await super().read(run, after, limit)


async def test_a_run_that_could_not_be_taken_up_is_still_due() -> None:
    """Somebody decided meanwhile, and a worker would run the call: that nobody could attend it changes nothing."""
    journal, model = Unread(), OwnModel()
    gated = function_tool(lambda: "sunny", name_override="weather", needs_approval=True)
    desk: RealtimeAgent[Any] = RealtimeAgent("Support", tools=[gated])
    async with talking_to(model, desk, journal=journal) as (session, told):
        await model.calls("weather")
        await told.until("tool_approval_required")
    [request] = await Inbox(journal).list()
    await Inbox(journal).approve(request, by="ann")
    assert await journal.due() == [session.run_id]
    forget()
    journal.unread = True
    with pytest.raises(StorageError, match="cannot be read"):
        await (await RealtimeRunner(desk, model=OwnModel(), journal=journal).run(resume=session.run_id)).enter()
    assert await journal.due() == [session.run_id]

    def no_resources(_app: Any) -> Any:
        raise StorageError("they cannot be had")

    app = App([desk], journal, lifespan=no_resources, worker=False)
    with pytest.raises(StorageError, match="be had"):
        await (await RealtimeRunner(desk, model=OwnModel(), app=app).run(resume=session.run_id)).enter()
    assert await journal.due() == [session.run_id]
