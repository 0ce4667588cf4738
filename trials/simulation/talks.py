"""Runs that are talked to: a model at random over a line that breaks, says things twice and in another order.

Whoever attends is in a process that may die like any other. Each line hears of each result once, and knows its call.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from keyturn import RunConfig
from keyturn.core.call_ids import ROOT
from keyturn.core.errors import KeyturnError
from keyturn.core.usage import Usage
from keyturn.engine.attended import Hosting
from keyturn.realtime import RealtimeModel, RealtimeRunner, RealtimeSession
from keyturn.realtime import model_events as me
from keyturn.realtime.items import AssistantMessageItem, AssistantText

from .cast import ProviderDown, RandomModel
from .made import journal_time
from .people import Person
from .site import Site
from .world import World


class Talker(RealtimeModel):
    """One session's model."""

    def __init__(self, world: World) -> None:
        self._world, self._dice = world, world.talk_dice
        self._listeners: list[Any] = []
        self._settings: Any = {}
        self._lines = self._turns = 0
        self.calls: set[str] = set()
        self.heard: Counter[str] = Counter()
        self._speaking: asyncio.Task[None] | None = None
        self._owed = False

    def _odd(self, chance: float) -> bool:
        return self._world.plan.knobs.misbehaviour and not self._world.calm and self._dice.random() < chance

    async def connect(self, options: Any) -> None:
        await self._world.pause(self._dice)
        if self._odd(0.05):
            raise ProviderDown("the line cannot be had")
        self._settings = options["initial_model_settings"]
        self._lines += 1
        self.calls, self.heard = set(), Counter()
        self._world.count("lines")

    def add_listener(self, listener: Any) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        self._listeners = [each for each in self._listeners if each is not listener]

    async def send_event(self, event: Any) -> None:
        if self._odd(0.03):
            self._world.count("line: not sent")
            raise ProviderDown("the line is dead")
        self._take(event)
        if self._odd(0.03):
            self._world.count("line: sent, and lost")
            raise ProviderDown("the line is dead, and nobody knows what got through")
        await asyncio.sleep(0)

    def _take(self, event: Any) -> None:
        kind = type(event).__name__
        told = event.message if kind == "RealtimeModelSendRawMessage" else {}
        item = told.get("other_data", {}).get("item", {})
        if item.get("type") == "function_call":
            self.calls.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            self._hears(item["call_id"])
        elif kind == "RealtimeModelSendToolOutput":
            self._hears(event.tool_call.call_id)
        elif kind == "RealtimeModelSendSessionUpdate":
            self._settings = {**self._settings, **event.session_settings}
        asks = kind in ("RealtimeModelSendToolOutput", "RealtimeModelSendUserInput")
        if asks or told.get("type") == "response.create":
            self._owed = True
            if self._speaking is None or self._speaking.done():
                self._speaking = asyncio.ensure_future(self._speak())

    def _hears(self, call: str) -> None:
        self.heard[call] += 1
        if self.heard[call] > 1:
            self._world.wrong(f"a line hears of the result of {call} {self.heard[call]} times")
        if call not in self.calls:
            self._world.wrong(f"a line hears of the result of {call}, and knows no such call")

    async def close(self) -> None:
        if self._speaking is not None:
            self._speaking.cancel()

    async def _speak(self) -> None:
        """Say things for as long as something is to be answered."""
        while self._owed:
            self._owed = False
            line = self._lines
            await self._world.pause(self._dice)
            for event in self._turn():
                if line != self._lines:  # what was said on a line that broke is not heard on the next one
                    break
                if event.type == "function_call":
                    self.calls.add(event.call_id)
                await self._tell(event)
                await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.1)))
                if self._odd(0.02):
                    self._world.count("line: broken")
                    await self._tell(me.RealtimeModelConnectionStatusEvent("disconnected"))
                    break

    async def _tell(self, event: Any) -> None:
        for listener in [*self._listeners]:
            await listener.on_event(event)

    def _turn(self) -> list[Any]:
        self._turns += 1
        self._world.count("replies")
        name = f"t{self._lines}.{self._turns}"
        events = [*self._calls(), *self._words(name)]
        if self._odd(0.1):
            self._world.count("line: out of order")
            self._dice.shuffle(events)
        events = [me.RealtimeModelTurnStartedEvent(response_id=name), *events]
        events += [me.RealtimeModelUsageEvent(Usage(requests=1)), me.RealtimeModelTurnEndedEvent(response_id=name)]
        if self._odd(0.1):
            self._world.count("line: said twice")
            others = [event for event in events if event.type != "function_call"]  # a call that is told is a call
            events.insert(self._dice.randrange(len(events)) + 1, self._dice.choice(others))
        return events

    def _calls(self) -> list[Any]:
        tools = [*self._settings.get("tools", []), *self._settings.get("handoffs", [])]
        count = self._dice.choice((0, 1, 1, 2)) if tools and not self._world.calm and len(self.calls) < 6 else 0
        made = [RandomModel(self._world)._call(self._dice, self._dice.choice(tools)) for _ in range(count)]
        return [me.RealtimeModelToolCallEvent(call["name"], call["call_id"], call["arguments"]) for call in made]

    def _words(self, name: str) -> list[Any]:
        if self._dice.random() < 0.3:
            return []
        words: Any = [AssistantText(text=f"said in {name}")]
        return [me.RealtimeModelItemUpdatedEvent(AssistantMessageItem(item_id=name, status="completed", content=words))]


async def attend(site: Site, run: str | None, person: Person, seconds: float) -> None:
    """Hold a session for a while; in the calm until nothing is open, and to the end."""
    world, talker = site.world, Talker(site.world)
    runner = RealtimeRunner(site.voice, model=talker, journal=site.store, policy=world.plan.policy)  # type: ignore[arg-type]

    async def attached(play: Any) -> None:
        play.live.used = site.used  # what a process remembers dies with it

    runner._hosting = Hosting(RunConfig(), attach=attached)
    async with await runner.run(resume=run) as session:
        world.count("sessions")
        if run is None:
            await session.send_message("go")
        try:
            async with asyncio.timeout(seconds):
                await _listen(session, person)
        except TimeoutError:
            world.note("the session is left")
        if not world.calm:
            await session.close(end=False)
        else:
            _check_heard(world, session, talker)


async def _listen(session: RealtimeSession, person: Person) -> None:
    dice = person.world.talk_dice
    async for event in session:
        if event.type == "tool_approval_required" and dice.random() < 0.4:
            await asyncio.sleep(dice.choice((0.0, 0.5, 20.0)))
            await _say(session, person, event.item)


async def _say(session: RealtimeSession, person: Person, item: Any) -> None:
    """Say one thing of what waits, where the conversation is."""
    word, extra = person._word(item.kind, item.digest, item.params, item.request_id)
    person._said(item.request_id, item.run_id, item.call, word, extra)
    word.at = journal_time()
    how: dict[str, Any] = {"by": person.name}
    try:
        if word.verdict in ("approve", "edit"):
            await session.approve_tool_call(item, edit=extra.get("edit"), grant=extra.get("grant"), **how)
        elif word.verdict == "reject":
            always, message = extra.get("always", False), extra.get("message")
            await session.reject_tool_call(item, always=always, rejection_message=message, **how)
        elif word.verdict == "answer":
            await session.answer_tool_call(item, extra["output"], **how)
        else:
            await session.resolve_tool_call(item, word.verdict, extra.get("output"), **how)  # type: ignore[arg-type]
    except KeyturnError as error:
        person.world.count(f"refused in a session: {type(error).__name__}")
        return
    person.world.count("decided in a session")
    person.world.acknowledged.append((item.run_id, item.call, word))


def _check_heard(world: World, session: RealtimeSession, talker: Talker) -> None:
    """In the calm a line has heard of every result that there is, once."""
    frame = session.opened().run.frames.get(ROOT)
    items: list[Any] = [] if frame is None else frame.items
    results = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    if missing := results - talker.heard.keys():
        world.wrong(f"run {session.run_id[:4]}: its line never heard of the results of {sorted(missing)}")
