"""A story that is talked to: one call was decided and ran, one was decided and has not run, one waits, over a handoff.

It is kept in a journal, and as the state of a session that had none. A story that was saved is not changed any more.
"""

from __future__ import annotations

from typing import Any

from keyturn import Inbox, RunState
from keyturn.core.call_ids import ROOT
from keyturn.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from tests.corpus.stories import FREE, PAY
from tests.realtime.own_model import TalkingModel, quiet
from tests.waiting import until


def agent() -> RealtimeAgent[Any]:
    """The agent of the story, made anew."""
    second: RealtimeAgent[Any] = RealtimeAgent("second", instructions="Pay.", tools=[PAY])
    return RealtimeAgent("talked", instructions="Help.", tools=[PAY, FREE], handoffs=[second])


async def begun(journal: Any) -> RealtimeSession:
    """Talk until two calls wait, and leave."""
    model = TalkingModel()
    session = await (await RealtimeRunner(agent(), model=model, journal=journal).run()).enter()
    await session.send_message("go")
    for name, n in (("pay", 1), ("free", 2), ("pay", 3)):
        await model.calls(name, {"n": n}, f"{name}_{n}")
    await until(lambda: len(session.pending_approvals) == 2 and "free_2" in dict(model.outputs()))
    await session.approve_tool_call("pay_1", by="ada")
    await until(lambda: "pay_1" in dict(model.outputs()))
    await model.calls("transfer_to_second", "{}", "to_0")
    await until(lambda: "to_0" in dict(model.outputs()))
    await model.calls("pay", {"n": 4}, "pay_4")
    await until(lambda: len(session.pending_approvals) == 2)
    await quiet(session)
    await session.close()
    return session


async def saved(journal: Any) -> dict[str, Any]:
    """Bring the story to its point in a journal; what a later version must show."""
    session = await begun(journal)
    [first] = [row for row in await Inbox(journal).list() if row.digest == session.pending_approvals[0].digest]
    await Inbox(journal).approve(first, by="ada")  # nobody is there who would run it
    return {"run": session.run_id, "waits": asks(session.pending_approvals[1:])}


async def state() -> dict[str, Any]:
    """Bring the story to its point where no journal keeps it."""
    session = await begun(None)
    return {"state": session.to_state().to_string(), "waits": asks(session.pending_approvals)}


def asks(items: list[Any]) -> list[list[str]]:
    """Tell what waits, as a later version must show it."""
    return [[item.kind, item.tool_name, item.agent.name, item.digest] for item in items]


def heard(session: RealtimeSession) -> list[str]:
    """Tell the conversation, in short."""
    return [_short(item.model_dump()) for item in session.history]


def _short(item: dict[str, Any]) -> str:
    said = "".join(part.get("text") or "" for part in item.get("content") or [])
    return f"{item['type']} {item.get('role') or item.get('call_id')}: {said or item.get('output')}"


async def to_the_end(journal: Any, given: str | RunState[Any]) -> dict[str, Any]:
    """Take it up, decide what waits, and leave; what was shown, what the model was told, and what came of it."""
    model = TalkingModel()
    session = await (await RealtimeRunner(agent(), model=model, journal=journal).run(resume=given)).enter()
    shown = {"told": heard(session), "agent": session.current_agent.name}
    for item in session.pending_approvals:
        await session.approve_tool_call(item, by="ada")
    await until(lambda: not session.opened().run.calls and _results(session) <= _told(model).keys())
    await quiet(session)
    shown["outputs"] = dict(sorted(_told(model).items()))
    await session.close()
    return shown


def _results(session: RealtimeSession) -> set[str]:
    """Return the calls that have a result in the run."""
    items: list[Any] = session.opened().run.frames[ROOT].items
    return {item["call_id"] for item in items if item.get("type") == "function_call_output"}


def _told(model: TalkingModel) -> dict[str, Any]:
    """Return the results that a model was told, as it was connected or later."""
    items = [event.message["other_data"]["item"] for event in model.sent if "other_data" in str(event)]
    outputs = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
    return outputs | dict(model.outputs())
