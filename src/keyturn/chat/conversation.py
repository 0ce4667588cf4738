"""Move one conversation: each thing that is said begins a run in a journal, and people decide through the inbox.

The run is the engine's, the decisions are the inbox's, and what is shown is read from the log as it is written: nothing
here decides what runs, and nothing here knows a screen. A process that dies leaves all of it in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, Unpack

from ..agents.agent import Agent
from ..agents.settings import RunConfig
from ..application.app import App
from ..core.codec import Log
from ..core.errors import Conflict, KeyturnError, NotPending
from ..core.folding import fold
from ..core.run import Run, new_run
from ..core.usage import Prices
from ..deep import DeepAgentDeps, Todo
from ..engine.run.log_cache import log_in
from ..engine.run.open_run import chain_of
from ..engine.runner import Runner
from ..engine.states.state import RunState
from ..engine.stream import RunResultStreaming
from ..engine.views.items import ToolApprovalItem
from ..inbox.desk import Inbox
from ..inbox.naming import Shown
from ..inbox.personal import Details, Verdict
from ..journal.base import Store
from ..models.base import Usage
from ..sessions.base import Session
from .archive import Talk, new_talk, workflow_of
from .transcript import Transcript, todos_of

_PATIENCE = 1.0  # seconds until a run is tried again that another process holds
_MOST_RUNS = 50  # of an earlier conversation that are shown


class Listener(Protocol):
    """Is told what happens in a conversation, in the process that moves it."""

    def said(self, turn: int, delta: str) -> None:
        """Hear a piece of what the assistant is saying, in its turn of that number."""
        ...

    def changed(self) -> None:
        """Hear that something else is to be shown."""
        ...


@dataclass
class Assistant:
    """Holds what all conversations of a process share; `trouble` says in words what a provider's error means.

    >>> Assistant(Agent("assistant"), None, lambda talk: None).by
    'you'
    """

    agent: Agent[Any]
    store: Store
    session: Callable[[str], Session]
    by: str = "you"
    prices: Prices = field(default_factory=dict[str, Any])
    trouble: Callable[[Exception], str | None] = lambda error: None


class ChatConversation:
    """Says, hears and decides in one conversation."""

    def __init__(self, assistant: Assistant, listener: Listener, talk: Talk | None = None) -> None:
        self.assistant = assistant
        self.listener = listener
        self.id = new_talk() if talk is None else talk.id
        self.title = "" if talk is None else talk.title
        self.past: list[Transcript] = []
        self.now = Transcript()
        self.waiting: list[ToolApprovalItem] = []
        self.run: Run | None = None
        self.fault = ""  # why nothing goes on, in words
        self.held_by = ""  # the process that holds the run, where that is another one
        self.stopped = False  # the person stopped it
        self._before: list[Usage] = []
        self._app = App([assistant.agent], assistant.store, worker=False)
        self._inbox = Inbox(assistant.store, {assistant.agent.name: assistant.agent})
        self._session = assistant.session(self.id)
        self._stream: RunResultStreaming | None = None
        self._moving: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._read_run = ""  # the run that it follows
        self._again = False
        self._saying = asyncio.Lock()  # one thing after another, in the order in which they were said
        self._known = asyncio.Event()  # whether the run that was begun last is the one that is read here
        self._known.set()

    @property
    def at_work(self) -> bool:
        """Return whether this process moves the run now."""
        return self._moving is not None and not self._moving.done()

    @property
    def open(self) -> bool:
        """Return whether there is a run that is not over."""
        return self.run is not None and self.run.status in ("running", "failed")

    @property
    def run_id(self) -> str:
        """Return the id of the newest run, "" where there is none."""
        return "" if self.run is None else self.run.id

    @property
    def can_go_on(self) -> bool:
        """Return whether there is something to do that nobody does."""
        return self.open and not self.at_work and (self.stopped or bool(self.fault) or not self.waiting)

    @property
    def usage(self) -> Usage:
        """Return what all runs of the conversation used."""
        runs = [*self._before, *([] if self.run is None else [Usage.of(self.run.replies, self.run.usage)])]
        made = Usage()
        for each in runs:
            made.add(each)
        return made

    async def load(self, talk: Talk) -> None:
        """Read an earlier conversation from its logs, and go on with its last run if that can."""
        for row in talk.runs[-_MOST_RUNS:-1]:
            if row.status in ("erased", "damaged"):
                continue
            log = await log_in(self.assistant.store, row.run)
            self.past.append(_read(log))
            self._before.append(Usage.of(log.run.replies, log.run.usage))
        last = await log_in(self.assistant.store, talk.last.run)
        self.run, self.now = last.run, _read(last)
        if self.open:
            self._follow(last.run.id)
            await self._look()
            if last.run.status == "running":
                self._move(None)
        self.listener.changed()

    async def say(self, text: str) -> None:
        """Say something: to the run that goes on, or else to a new one."""
        async with self._saying:
            await self._known.wait()
            self.fault = ""
            if self.open and self.run is not None:
                with contextlib.suppress(Conflict, NotPending):  # it ended meanwhile: then a new one begins
                    await self._inbox.send(self.run.id, text)
                    self.go_on()
                    return
            await self._settled()
            self._begin(text)

    def _begin(self, text: str) -> None:
        """Begin a run with what was said; the one before it is over."""
        self.title = self.title or text
        if self.run is not None:
            self.past.append(self.now)
            self._before.append(Usage.of(self.run.replies, self.run.usage))
        todos = [] if self.run is None else todos_of(self.run.context)
        self.run = None
        self.now = Transcript(todos=todos)
        self.waiting = []
        self._known.clear()
        self._move(text)

    def go_on(self) -> None:
        """Move the run on, now or as soon as what moves it has ended."""
        self.stopped = False
        self.fault = ""
        if self.at_work:
            self._again = True
        elif self.open:
            self._move(None)

    def stop(self) -> None:
        """Stop the work; what was in flight is in doubt, and the run can go on."""
        if self._stream is not None and self.at_work:
            self.stopped = True
            self._stream.cancel()

    async def decide(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> None:
        """Record a decision, and let the run go on; raises what the gate has against it."""
        await self._inbox.as_person(self.assistant.by).decide(request, verdict, **details)
        self.waiting = []
        with contextlib.suppress(KeyturnError):  # it is recorded: that the journal is away is said as the run goes on
            await self._look()
        self.go_on()

    async def drop(self) -> None:
        """Cancel the run: what waits will not run."""
        if self.run is not None and self.open:
            await self._inbox.cancel(self.run.id, by=self.assistant.by)

    async def close(self) -> None:
        """Stop whatever this process does for it; the run stays in the journal."""
        if self._stream is not None and self.at_work:
            self._stream.cancel()
        self._again = False
        tasks = [task for task in (self._moving, self._following) if task is not None]
        if self._following is not None:
            self._following.cancel()
        if self.held_by and self._moving is not None:
            self._moving.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    async def _settled(self) -> None:
        """Wait until nobody moves the run that is over, so that the next one finds its words in the session."""
        if self._moving is not None:
            await asyncio.wait({self._moving})
        if self._following is not None:
            self._following.cancel()
            self._following = None

    def _move(self, text: str | None) -> None:
        self._moving = asyncio.ensure_future(self._moved(text))
        self._moving.add_done_callback(lambda _done: self._known.set())

    async def _moved(self, text: str | None) -> None:
        """Move the run until nobody but people can, as often as something was said meanwhile."""
        given: str | RunState[Any] | None = text
        while True:
            self._again = False
            try:
                await self._drive(await self._app.state(self.run_id) if given is None else given)
                self.held_by = ""
            except Conflict as error:
                if error.winner is None or "held" not in str(error):
                    self.fault = str(error)
                    break
                self.held_by = error.winner
                self.listener.changed()
                await asyncio.sleep(_PATIENCE)
                self._again = True
            except KeyturnError as error:
                self.fault = str(error)
            except Exception as error:  # a provider's: said in words, and the run can be tried again
                self.fault = self.assistant.trouble(error) or f"{type(error).__name__}: {error}"
            finally:
                self._stream = None
            given = None
            try:
                await self._caught_up()
            except KeyturnError as error:  # the journal is away
                self.fault = self.fault or str(error)
            if not self._again or self.fault or self.stopped or not self.open:
                break
        asyncio.get_running_loop().call_soon(self.listener.changed)  # when this task has ended

    async def _drive(self, given: str | RunState[Any]) -> None:
        """Move the run once, and pass on what it says."""
        fresh = isinstance(given, str)
        deps = DeepAgentDeps(todos=[_todo(todo) for todo in self.now.todos]) if fresh else None
        self._stream = Runner.run_streamed(
            self.assistant.agent,
            given,
            context=deps,
            max_turns=None,
            session=self._session,
            journal=self.assistant.store,
            run_config=RunConfig(
                workflow_name=workflow_of(self.id, self.title),
                tool_not_found_behavior="return_error_to_model",  # there is no program here to be mended
            ),
        )
        try:
            async for event in self._stream.stream_events():
                if self._following is None:
                    self._follow(self._stream.run_id)
                data: Any = getattr(event, "data", None)
                if getattr(data, "type", "") == "response.output_text.delta":
                    self.listener.said(self._stream.current_turn + 1, str(data.delta))
        finally:
            self._follow(self._stream.run_id)

    def _follow(self, run_id: str) -> None:
        """Read the run's log as it is written, once."""
        if run_id and self._following is None:
            self._read_run = run_id
            self._following = asyncio.ensure_future(self._followed(run_id))

    async def _followed(self, run_id: str) -> None:
        try:
            await self._read_on(run_id)
        except KeyturnError as error:  # the log is damaged, or its store is gone: what is shown is old from here on
            self.fault = str(error)
            self.listener.changed()

    async def _read_on(self, run_id: str) -> None:
        store = self.assistant.store
        log = Log(chain=chain_of(store, run_id))
        seen = Transcript(todos=self.now.todos)
        known = 0 if self.run is None else self.run.seq
        async with contextlib.aclosing(store.watch(run_id)) as lines:
            async for line in lines:
                [step] = log.extend([line])
                seen.feed(log.run, step)
                if log.run.seq < known:
                    continue
                self.run, self.now = log.run, seen
                self._known.set()
                await self._look()
                self.listener.changed()

    async def _caught_up(self) -> None:
        """Wait until what was read is all that was written, so that nothing is decided by an older picture."""
        for _ in range(200):
            if self._following is None or self._following.done():
                return
            run = self.run
            if run is not None and run.id == self._read_run and run.seq >= await self.assistant.store.head(run.id):
                return
            await asyncio.sleep(0.01)

    async def _look(self) -> None:
        """Look up what waits for somebody, with the tools that check an edit."""
        if self.run is None or not self.run.groups["wait"] or not self.open:
            self.waiting = []
            return
        self.waiting = (await self._app.state(self.run.id)).get_interruptions()


def _read(log: Log) -> Transcript:
    """Read a whole log, each step with the run as it was then."""
    made, run = Transcript(), new_run()
    for step in log.steps:
        made.feed(fold(run, [step]), step)
    return made


def _todo(told: dict[str, Any]) -> Todo:
    return Todo(str(told.get("content", "")), told.get("status", "pending"), str(told.get("active_form", "")))
