"""Bring to the model's connection what the run's log has and the connection has not.

A connection is told the conversation so far, then each message, each result, and each change of agent, in the order of
the log. What could not be sent is still in the log: the next connection is told of it, and no tool runs again for it.
What is being recorded is told once it is: what others recorded first comes before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple, cast

from ..core.call_ids import ROOT, is_below
from ..core.items import Item
from ..core.people import plain_text
from ..core.run import Call, Frame, Run
from ..core.states import WAITING
from ..engine.driving.provider_line import NO_LINE
from ..support.user_code import run_callback
from .conversation import KEPT, kept_id, on_the_wire, output_text
from .hosted_calls import HostedApprovals
from .model_events import RealtimeModelToolCallEvent
from .model_inputs import (
    RealtimeModelSendEvent,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)

_ANOTHER_SERVER = (
    "The request was approved, and another agent is active now, which does not have that server: the call did not run."
)

Send = Callable[[RealtimeModelSendEvent], Awaitable[None]]
WaitingMessage = Callable[[str, str], str]


_WAITS = {
    "asked": "has not run: it requires a decision by a person",
    "needs": "has not ended: it requires an answer by a person",
    "in_doubt": "was begun, and it is not known whether it ran: a person has to find out",
}


def waiting_message(tool: str, call_id: str, state: str = "asked") -> str:
    """Return what the model is told while a call waits for a person.

    >>> waiting_message("refund", "c1").partition(".")[0]
    'The call of refund (c1) has not run: it requires a decision by a person'
    """
    return (
        f"The call of {tool} ({call_id}) {_WAITS[state]}. Tell the user that in a few "
        "words and go on with the conversation. Do not call it again and do not say that it is done: its result comes "
        "as the output of that call."
    )


class Session(NamedTuple):
    """Holds what a delivery needs of its session."""

    run: Callable[[], Run]
    send: Send
    # The settings of the model under an agent, by its path.
    settings: Callable[[str], Awaitable[Any]]
    # Whether two agents, by their paths, have the same hosted MCP server for a request.
    same_server: Callable[[Item, str, str], Awaitable[bool]]
    # Words what waits, in place of our own words; None tells the model nothing.
    words: WaitingMessage | None
    failed: Callable[[Exception], None]
    # Whether this process holds the run still: another one that took it over delivers its results.
    held: Callable[[], Awaitable[bool]]
    # Waits until the run is as its log has it: what is being recorded may have to stand behind what others said.
    kept: Callable[[], Awaitable[None]]


class Before(NamedTuple):
    """Holds a call that a connection was told of, and its result where there was one."""

    name: str
    arguments: str
    output: str | None = None


class HostedRequest(NamedTuple):
    """Holds a request of the provider's own, and from which place on an answer in the conversation is one to it."""

    item: Item
    agent: str
    since: int


class ConnectionDelivery:
    """Delivers to one connection, from its beginning to its end."""

    def __init__(self, session: Session, agent: str) -> None:
        self._session = session
        # The agent whose settings the connection has, and how many items of the conversation it has.
        self._agent = agent
        self._sent = 0
        #: The path of the agent whose settings the connection had before.
        self.previous = agent
        #: The same, with the one that is being sent: what the model says from now on, it says knowing that.
        self.told = 0
        self._told: set[tuple[str, int]] = set()
        self._notes = 0
        self._calls: dict[str, Item] = {}
        # Calls that the connection was told of when it was opened.
        self._replayed: dict[str, Before] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        #: Ids of items and calls that came from the connection itself.
        self.own: set[str] = set()
        #: Calls of the provider's own that were asked about on the connection, by their ids; before their place in the
        #: conversation an id may name a call of another connection.
        self.asked: dict[str, HostedRequest] = {}
        #: What approves such calls, to be sent and sent.
        self.approvals = HostedApprovals()

    @property
    def agent(self) -> str:
        """Return the path of the agent whose settings the connection has."""
        return self._agent

    def ask(self, request: str, item: Item, agent: str) -> None:
        """Note a request of the provider's own, made for this agent, which is answered on this connection."""
        self.asked[request] = HostedRequest(item, agent, len(self._items()))

    def replayed(self, event: RealtimeModelToolCallEvent) -> Before | None:
        """Return the call that this is, where the connection was told of it and not the other way round."""
        before = self._replayed.get(event.call_id)
        same = before is not None and (before.name, before.arguments) == (event.name, event.arguments)
        return before if same else None

    def rouse(self) -> None:
        """Look again at what there is to deliver."""
        self._idle.clear()
        self._wake.set()

    async def open(self) -> None:
        """Tell the connection the conversation so far, and ask for a response where one is owed."""
        await self._session.kept()
        items = self._items().copy()
        frame = self._session.run().frames.get(ROOT)
        owed = frame is not None and any(_asks(item, place, frame) for place, item in enumerate(items))
        for place, item in enumerate(items):
            self._note(item)
            self.told = place + 1
            wire = on_the_wire(item)
            if wire is not None:
                self._note_replayed(wire)
                await self._raw("conversation.item.create", item={"id": kept_id(place), **wire})
            elif _rejects(item) and frame is not None and place >= frame.heard:  # no connection may have heard it
                await self._session.send(self._rejected(item))
            self._sent += 1
        await self._under_agent()  # another one may have taken over while the connection was made
        waiting = await self._tell_of_waiting()
        if owed and not waiting:
            await self._raw("response.create")

    async def run(self) -> None:
        """Deliver whatever comes, until the connection fails."""
        while True:
            self._wake.clear()
            await self._deliver()
            await self._tell_of_waiting()
            if not self._wake.is_set():
                self._idle.set()
            await self._wake.wait()

    async def idle(self) -> None:
        """Wait until everything that the log has was sent."""
        await self._idle.wait()

    def _items(self) -> list[Item]:
        frame = self._session.run().frames.get(ROOT)
        return [] if frame is None else cast("list[Item]", frame.items)  # a realtime run has no session, thus no places

    def _note(self, item: Item) -> None:
        if item.get("type") == "function_call":
            self._calls[cast("str", item.get("call_id"))] = item

    def _note_replayed(self, wire: Item) -> None:
        label: Any = wire.get("call_id")
        if wire["type"] == "function_call":
            self._replayed[label] = Before(wire["name"], wire["arguments"])
        elif wire["type"] == "function_call_output" and label in self._replayed:
            self._replayed[label] = self._replayed[label]._replace(output=wire["output"])

    async def _deliver(self) -> None:
        while (item := await self._next()) is not None:
            self._note(item)
            self.told = self._sent + 1
            for event in self._events(item, self._sent):
                await self._under_agent()
                await self._session.send(event)
            if _rejects(item):
                await self._under_agent()
                await self._session.send(self._rejected(item))
            self._sent += 1
        await self._under_agent()
        for approval in self.approvals.unsent():
            if not await self._session.held():
                return
            await self._under_agent()
            if await self._refused(approval.item):
                approval.unsent()
            else:
                approval.sent = True
                await self._session.send(_created({"id": self._new_id("approval"), **approval.item}))

    async def _next(self) -> Item | None:
        """Return the next item that is recorded and was not sent, while this process holds the run."""
        if self._sent >= len(self._items()) or not await self._session.held():
            return None
        await self._session.kept()
        items = self._items()
        return items[self._sent] if self._sent < len(items) else None

    async def _under_agent(self) -> None:
        """Bring the connection under the agent that is at work."""
        await self._session.kept()
        frame = self._session.run().frames.get(ROOT)
        if frame is not None and frame.agent != self._agent:
            agent = frame.agent
            await self._session.send(RealtimeModelSendSessionUpdate(await self._session.settings(agent)))
            self.previous, self._agent = self._agent, agent

    def _events(self, item: Item, place: int) -> Iterator[RealtimeModelSendEvent]:
        """Return what the connection is sent of an item; nothing of what it said itself."""
        kind = item.get("type", "message")
        if kind == "function_call" and item.get("call_id") not in self.own:  # said on the connection before
            told = {"item": {"id": kept_id(place), **cast("Item", on_the_wire(item))}}
            yield RealtimeModelSendRawMessage({"type": "conversation.item.create", "other_data": told})
        elif kind == "function_call_output":
            label = cast("str", item["call_id"])
            call = self._calls.get(label, {})
            made = RealtimeModelToolCallEvent(
                call.get("name") or "", label, call.get("arguments") or "", call.get("id"), None
            )
            yield RealtimeModelSendToolOutput(made, output_text(item.get("output")), start_response=True)
        elif item.get("role") == "user" and item.get("id") not in self.own:
            wire = on_the_wire(item)
            if wire is not None:
                texts = [part["text"] for part in wire["content"] if part["type"] == "input_text"]
                alone = len(wire["content"]) == 1 and texts
                yield RealtimeModelSendUserInput(texts[0] if alone else cast("Any", wire))

    def _rejected(self, item: Item) -> RealtimeModelSendEvent:
        """Return the answer on a call that the provider does not make; elsewhere its id may mean another call."""
        request: Any = item.get("approval_request_id")
        asked = self.asked.get(request)
        if asked is not None and asked.since <= self._sent:
            return _created({"id": kept_id(self._sent), **item})
        return _created(self._note_of(f"The answer to request {request} of an earlier connection: {item['reason']}"))

    async def refusal(self, call: Call) -> str:
        """Return why an approval cannot be sent on this connection, as its model reads it; "" where it can."""
        return await self._refused({"approval_request_id": call.proposal.label})

    async def _refused(self, item: Item) -> str:
        asked = self.asked.get(cast("str", item["approval_request_id"]))
        frame = self._session.run().frames.get(ROOT)
        if self.approvals.over or asked is None or frame is None:
            return NO_LINE
        return "" if await self._session.same_server(asked.item, asked.agent, frame.agent) else _ANOTHER_SERVER

    async def approve(self, call: Call, item: Item) -> None:
        """Send what approves a call that was asked about on this connection, and wait for its end."""
        ended = self.approvals.add(call.proposal.label, item)
        self.rouse()
        await ended

    async def _tell_of_waiting(self) -> bool:
        """Tell the model which of its calls wait, each once, and return whether there was anything to tell."""
        await self._session.kept()
        run = self._session.run()
        told = False
        for call in list(run.groups["wait"].values()):
            asked = (call.id, call.asks)
            if asked in self._told or call.state not in WAITING:  # decided while the model was told of another
                continue
            self._told.add(asked)
            if self._session.words is not None:
                await self._say(self._words(call, _own_call(run, call).proposal.label))
                told = True
        if told:
            await self._raw("response.create")
        return told

    def _words(self, call: Call, label: str) -> str:
        tool, words = call.proposal.name, self._session.words
        if words is None or words is waiting_message or call.state == "in_doubt":  # a program's words say of none
            return waiting_message(tool, label, call.state)
        try:
            return plain_text(run_callback(words, tool, label), "what waiting_message returns")
        except Exception as error:  # the mistake of a callback ends no conversation
            self._session.failed(error)
            return waiting_message(tool, label, call.state)

    async def _say(self, text: str) -> None:
        await self._session.send(_created(self._note_of(text)))

    def _note_of(self, text: str) -> Item:
        content: list[Any] = [{"type": "input_text", "text": text}]
        return {"id": self._new_id("note"), "type": "message", "role": "system", "content": content}

    def _new_id(self, what: str) -> str:
        """Return an id of an item that is in no log."""
        self._notes += 1
        return f"{KEPT}{what}_{self._notes}"

    async def _raw(self, kind: str, **fields: Any) -> None:
        message: Any = {"type": kind, "other_data": fields} if fields else {"type": kind}
        await self._session.send(RealtimeModelSendRawMessage(message))


def rejection(request: object, reason: str) -> RealtimeModelSendRawMessage:
    """Return the rejection of a request of the provider's own, by its id, with the reason that the model reads."""
    return _created(
        {"type": "mcp_approval_response", "approval_request_id": request, "approve": False, "reason": reason}
    )


def _created(item: Item) -> RealtimeModelSendRawMessage:
    return RealtimeModelSendRawMessage({"type": "conversation.item.create", "other_data": {"item": item}})


def _asks(item: Item, place: int, frame: Frame) -> bool:
    """Return whether an item is still to be answered: the model has not begun to speak since it heard it."""
    if item.get("type") == "function_call_output":
        return place >= frame.heard
    spoken = "id" in item  # it was heard as it was said, before its transcript came
    return item.get("role") == "user" and place >= (frame.sent if spoken else frame.heard)


def _rejects(item: Item) -> bool:
    """Return whether an item is the rejection of a call that the provider would make; an approval was sent before."""
    return item.get("type") == "mcp_approval_response" and not item.get("approve")


def _own_call(run: Run, call: Call) -> Call:
    """Return the call of the model itself that a waiting call is, or inside of which it waits."""
    if call.frame == ROOT:
        return call
    frames = [name for name in run.frames if name != ROOT and is_below(call.id, name) and name in run.calls]
    return next((run.calls[name] for name in frames if run.calls[name].frame == ROOT), call)
