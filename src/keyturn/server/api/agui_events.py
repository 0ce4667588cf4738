"""Tell an AG-UI client what happens in a run, from the lines of its log, until it ends or is pending a decision.

A client says with each request which messages it has: those are not sent again. A result needs its call in the same
stream, so the call is sent with it. Arguments are as people see them, without secrets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from ...core import events as ev
from ...core.call_ids import ROOT, call_id
from ...core.codec import Log
from ...core.digest import canonical
from ...core.encodable import moment
from ...core.items import Item, texts_of
from ...core.request import shown_params
from ...engine.run.open_run import chain_of
from ...journal.rows import ENDED, Query, RequestRow
from ...wire.agui import ANSWER, VERSION, AguiInput
from .routes import Call

AguiEvent = dict[str, Any]
_STILL = ("queued", "running")
_MOST = 500


class ToldCall(NamedTuple):
    """Holds a call as a client is told of it."""

    id: str
    name: str
    arguments: str


class AguiTeller:
    """Turns the lines of a run into events, and knows what the client has and what this stream has told."""

    def __init__(self, run: str, asked: AguiInput) -> None:
        self._run = run
        self._has = {str(message.get("id", "")) for message in asked.messages}
        for message in asked.messages:
            self._has |= {_id_of(each) for each in _listed(message.get("toolCalls"))} | {_answers(message)}
        self._calls: dict[str, ToldCall] = {}
        self._begun: set[str] = set()
        self.output: Any = None

    def told(self, log: Log, event: ev.AnyEvent) -> Iterator[AguiEvent]:
        """Yield what is said of an event; `log` is the run after its step."""
        match event:
            case ev.ReplyRecorded(frame="r"):
                yield from self._reply(log, event)
            case ev.CallFinished():
                yield from self._result(event.call, event.item)
            case ev.FrameClosed(frame="r"):
                self.output = event.output
            case _:
                return

    def _reply(self, log: Log, event: ev.ReplyRecorded) -> Iterator[AguiEvent]:
        turn = log.run.frames[ROOT].turn if ROOT in log.run.frames else 0
        for index, item in enumerate(event.output):
            text = "\n".join(texts_of(item)) if item.get("type", "message") == "message" else ""
            yield from self._text(f"{self._run}/{turn}.{index}", text, len(log))
        for index, made in enumerate(event.proposals):
            name = call_id(ROOT, turn, index)
            call = log.run.calls.get(name)
            arguments = "{}" if call is None else canonical(shown_params(call))
            self._calls[name] = told = ToldCall(f"{self._run}/{name}", made.name, arguments)
            if told.id not in self._has:
                yield from self._begin(told)
            if made.refused is not None:
                yield from self._result(name, made.refused)

    def _text(self, id: str, text: str, at: int) -> Iterator[AguiEvent]:
        id = f"{id}.{at}"
        if text and id not in self._has:
            yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}
            yield {"type": "TEXT_MESSAGE_END", "messageId": id}

    def _begin(self, told: ToldCall) -> Iterator[AguiEvent]:
        self._begun.add(told.id)
        yield {"type": "TOOL_CALL_START", "toolCallId": told.id, "toolCallName": told.name}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": told.id, "delta": told.arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": told.id}

    def _result(self, call: str, item: Item) -> Iterator[AguiEvent]:
        told = self._calls.pop(call, None)
        if told is None or f"result of {told.id}" in self._has:
            return
        if told.id not in self._begun:
            yield from self._begin(told)
        output = item.get("output")
        content = output if isinstance(output, str) else canonical(output)
        yield {
            "type": "TOOL_CALL_RESULT", "messageId": f"{told.id}.result", "toolCallId": told.id, "content": content,
            "role": "tool",
        }  # fmt: skip

    def tool_call(self, row: RequestRow) -> str | None:
        """Return under which id the client knows the call of a request; None for one of a nested agent."""
        told = self._calls.get(row.call)
        return None if told is None else told.id


def _listed(given: object) -> list[Mapping[str, Any]]:
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    return [cast("Mapping[str, Any]", each) for each in listed if isinstance(each, dict)]


def _id_of(call: Mapping[str, Any]) -> str:
    return str(call.get("id", ""))


def _answers(message: Mapping[str, Any]) -> str:
    """Return by which name the result in a message is known."""
    return f"result of {message.get('toolCallId')}" if message.get("role") == "tool" else ""


async def agui_events(here: Call, run: str, asked: AguiInput, refused: Mapping[str, str]) -> AsyncGenerator[bytes]:
    """Yield the events of one AG-UI run: what the client has not yet of a run, and how that stands."""
    named = {"threadId": asked.thread_id, "runId": asked.run_id}
    yield _written({"type": "RUN_STARTED", **named, "protocolVersion": VERSION})
    journal, teller = here.app.journal, AguiTeller(run, asked)
    log = Log(chain=chain_of(journal, run))
    async with contextlib.aclosing(journal.watch(run)) as lines:
        async for line in lines:
            [step] = log.extend([line])
            for told in [each for event in step.events for each in teller.told(log, event)]:
                yield _written(told)
            if await _rests(here, log):
                break
    yield _written(await _end(here, log, teller, named, refused))


async def _rests(here: Call, log: Log) -> bool:
    """Return whether a run ended, or only people can move it, and all of its lines were read."""
    if await here.app.journal.head(log.run.id) != len(log):
        return False
    if log.run.status in ENDED:
        return True
    return (await here.app.get(log.run.id)).status not in _STILL


async def _end(
    here: Call, log: Log, teller: AguiTeller, named: dict[str, str], refused: Mapping[str, str]
) -> AguiEvent:
    status = (await here.app.get(log.run.id)).status
    if status == "finished":
        end: AguiEvent = {"outcome": {"type": "success"}, "result": teller.output}
    elif status == "cancelled":
        end = {"outcome": {"type": "cancelled"}}
    elif status in ENDED or status == "damaged":
        return {"type": "RUN_ERROR", "message": log.run.error or f"the run is {status}", "code": status}
    else:
        rows = await here.app.journal.requests(Query(run=log.run.id, state="open", limit=_MOST))
        seen = [_interrupt(row, teller, refused) for row in rows if here.visibility.sees(row)]
        end = {"outcome": {"type": "interrupt", "interrupts": seen or [{"id": log.run.id, "reason": "pending"}]}}
    return {"type": "RUN_FINISHED", **named, **end}


def _interrupt(row: RequestRow, teller: AguiTeller, refused: Mapping[str, str]) -> AguiEvent:
    """Return a request as an interrupt; its id names what was shown, so that an answer to it decides nothing else."""
    made: AguiEvent = {
        "id": interrupt_id(row),
        "reason": row.kind,
        "message": _question(row) or f"{row.tool} is pending approval",
        "responseSchema": ANSWER,
        "metadata": {"request": row.id, "verdicts": row.request.verdicts},
    }
    tool_call = teller.tool_call(row)
    made |= {} if tool_call is None else {"toolCallId": tool_call}
    made |= {} if row.expires_at is None else {"expiresAt": moment(row.expires_at).isoformat()}
    if row.id in refused:
        made["metadata"]["notRecorded"] = refused[row.id]
    return made


def _question(row: RequestRow) -> str:
    """Return what a tool asks, where it asks in words."""
    asked: Any = row.request.requests
    question = cast("dict[str, Any]", asked).get("question") if isinstance(asked, dict) else None
    return question if isinstance(question, str) else ""


def interrupt_id(row: RequestRow) -> str:
    """Return the id of an interrupt: a request as it is asked now."""
    return f"{row.id} {row.request.revision} {row.digest}"


def _written(told: AguiEvent) -> bytes:
    return b"data: " + msgspec.json.encode(told | {"timestamp": int(time.time() * 1000)}) + b"\n\n"
