"""A realtime session: a run whose model is talked to, while its calls wait for people.

The session holds the run. What the model calls goes through the loop, the gate and the journal of every run, so that it
is decided here or in an inbox. A connection can be lost and made again; the log stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Self, cast

from ..core import commands as cm
from ..core.call_ids import ROOT
from ..core.errors import Conflict, KeyturnError, StorageError, UserError
from ..core.run import Run
from ..core.settable import Settable
from ..engine.attended import AttendedExecution
from ..engine.facts.values import said_items
from ..engine.states.state import RunState
from ..engine.views.event_stream import Feed
from ..engine.views.items import ToolApprovalItem
from ..support.user_code import answer_of
from . import model_use
from .agent import RealtimeAgent
from .beginning import Beginning
from .config import RealtimeUserInput
from .connections import CLOSE, Connections, Line, same_server, settings_of
from .conversation import Conversation, restored, said_content, user_item
from .deciding import SessionDecisions
from .delivery import Session, waiting_message
from .event_buffer import EventBuffer
from .hearing import Hearing
from .items import RealtimeItem, own_part
from .model import RealtimeDisconnected, RealtimeModel, RealtimeModelConfig, RealtimeModelListener
from .model_events import RealtimeModelToolCallEvent
from .model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from .output_guards import OutputGuards
from .recording import CallNotTaken, Recorder
from .session_events import RealtimeError, RealtimeEventInfo, RealtimeGuardrailTripped, RealtimeSessionEvent
from .settling import Settling
from .telling import Telling

_DEBOUNCE = 100


class RealtimeSession(SessionDecisions, Settable):
    """Holds one conversation: enter it, read its events, send what the user says, decide what waits.

    It is made by `RealtimeRunner.run`. Leaving it ends the conversation, unless calls of it are still open: then the
    run stays as it is, and goes on where somebody resumes it by its id.
    """

    def __init__(self, beginning: Beginning, model: RealtimeModel, model_config: RealtimeModelConfig) -> None:
        self._beginning = beginning
        self._config = beginning.config
        self._model = model
        self._model_config = model_config
        self._play: AttendedExecution | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._driver: asyncio.Task[Any] | None = None
        self._recording: asyncio.Task[None] | None = None
        self._settling = Settling(lambda: self._run, self._works)
        self._entered = False
        # Whether somebody closes it, and whether that is done.
        self._closed = False
        self._over = asyncio.Event()
        self._silenced = False  # whether its model is not talked to, since the run ended or is over its limits

    # Its beginning ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.enter()

    async def __aexit__(self, *raised: object) -> None:
        await self.close(end=False if isinstance(raised[1], StorageError) else None)

    async def enter(self) -> Self:
        """Begin the run, or take it up, and connect the model."""
        if self._entered:
            raise UserError("a session is entered once; make another one with RealtimeRunner.run")
        self._entered = True
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with model_use.taken(self._model, self):
            play = await self._beginning.execution(partial(self._take_in, ready))
        self._put_together(play)
        self._driver = asyncio.ensure_future(play.finish())
        try:
            await asyncio.wait([ready, self._driver], return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                self._driver.result()
                raise UserError("this run is over; begin another conversation")
            self._driver.add_done_callback(self._ended)
            self._do(self._telling.follow(self._take_steps)).add_done_callback(self._ended)
            self._recording = self._do(self._recorder.run())
            self._recording.add_done_callback(self._ended)
            self._model.add_listener(self._hearing)
            await self._connections.open()
        except BaseException:
            await self.close(end=False)
            raise
        return self

    def _put_together(self, play: AttendedExecution) -> None:
        self._play = play
        self._info = RealtimeEventInfo(play.live.context)
        self._events = EventBuffer(self._info)
        every = self._config.get("guardrails_settings", {}).get("debounce_text_length", _DEBOUNCE)
        self._guards = OutputGuards(play.live.context, every, self._tripped, self._failed)
        play.model = self._model_name()
        self._recorder = Recorder(play.drive, play.model, lambda: self._connections.answering(), self._failed)
        words = self._config.get("waiting_message", waiting_message)
        asked = partial(settings_of, play.drive, self._info.context), partial(same_server, play.drive)
        session = Session(lambda: self._run, self._send, *asked, words, self._failed, play.held, play.drive.kept)
        line = Line(session, lambda: self._run.frames[ROOT].agent, self._failed)
        made = self._connections = Connections(self._model, self._model_config, self._config, line)
        heard = Conversation(), self._recorder, self._guards, self._judging, made, self._called
        play.drive.provider = made
        self._hearing = Hearing(self._events, self._info, *heard)
        self._telling = Telling(play.drive, self._info)

    def _model_name(self) -> str:
        """Return the name under which replies of the model are counted."""
        settings = {**self._config.get("model_settings", {}), **self._model_config.get("initial_model_settings", {})}
        named: Any = settings.get("model_name") or getattr(self._model, "model", None)
        return named if isinstance(named, str) and named else type(self._model).__name__

    async def _take_in(self, ready: asyncio.Future[None]) -> Feed:
        """Take in what the run is, before anything of it moves, and return what reads its steps."""
        play = self._opened
        frame = self._run.frames[ROOT]
        for path in (*frame.before, frame.agent):  # their tools say what nobody is shown
            await play.drive.toolset(frame, of=path)
        self._hearing.conversation = restored(cast("list[Any]", frame.items), play.drive.secrets_of)
        self._telling.begin()
        if not ready.done():
            ready.set_result(None)
        return self._telling

    async def reconnect(self) -> None:
        """Connect the model anew; it is told the conversation so far, and each result that it has not heard."""
        self._check_open()
        await self._connections.anew()

    # Its state ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> RealtimeModel:
        """Return the model."""
        return self._model

    @property
    def run_id(self) -> str:
        """Return the id of the run, by which it is found again."""
        return self._run.id

    @property
    def history(self) -> list[RealtimeItem]:
        """Return the conversation so far, as a copy."""
        return own_part(self._hearing.conversation.snapshot())

    @property
    def current_agent(self) -> Any:
        """Return the agent at work."""
        return self._drive.agent(self._run.frames[ROOT].agent) if ROOT in self._run.frames else self._beginning.agent

    @property
    def pending_approvals(self) -> list[ToolApprovalItem]:
        """Return the calls that wait for somebody."""
        return self._telling.waiting()

    def opened(self) -> AttendedExecution:
        self._check_open()
        return self._opened

    def to_state(self) -> RunState[Any]:
        """Return the state of the run as it stands, to be saved where no journal keeps it, and resumed."""
        live = self._opened.live
        return RunState.at(live, len(live.log), self._telling.waiting())

    @property
    def _opened(self) -> AttendedExecution:
        if self._play is None:
            raise UserError("a session is entered before it is used: async with await runner.run() as session")
        return self._play

    @property
    def _drive(self) -> Any:
        return self._opened.drive

    @property
    def _run(self) -> Run:
        return self._opened.run

    def _check_open(self) -> None:
        if self._opened and self._closed:
            raise UserError(
                "this session is closed; decide its pending calls in an inbox of its journal, or in a session "
                "that resumes it"
            )
        if self._driver is not None and self._driver.done():
            raise UserError(
                "this session has ended, its events say why: close it; pending calls of its run are decided in an "
                "inbox of its journal, or in a session that resumes it"
            )

    def _judging(self, path: str) -> tuple[Any, list[Any]]:
        agent = self._drive.agent(path)
        of_app = self._beginning.hosting.config.output_guardrails or []
        return agent, [*agent.output_guardrails, *self._config.get("output_guardrails", []), *of_app]

    def _do(self, work: Any) -> asyncio.Task[Any]:
        self._tasks[task := asyncio.ensure_future(work)] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """End the events where the run ended, or can go on no more; nobody pays for a model that talks on."""
        error = None if task.cancelled() else task.exception() or self._opened.left_to_another()
        self._tell()
        self._events.close(error)
        self._settling.stepped()
        if not self._closed:
            self._hang_up()
            if self._driver is not None and not self._driver.done():
                self._opened.leave()

    def _hang_up(self) -> None:
        if not self._silenced:
            self._silenced = True
            self._connections.close()
            self._do(self._connections.hang_up())

    def _take_steps(self) -> None:
        """Do what follows from the steps that were recorded meanwhile; nothing else of a session reads them."""
        self._tell()
        if not self._opened.may_talk():
            self._hang_up()
        self._connections.rouse()
        self._settling.stepped()

    def _tell(self) -> None:
        self._telling.read(self._events.put, self._hearing.answered)

    # What its model does ------------------------------------------------------------------------------------------

    async def _called(self, event: RealtimeModelToolCallEvent, under: str) -> None:
        before = self._connections.delivery.replayed(event)
        if before is not None:
            self._failed(CallNotTaken.twice(event))
            if before.output is not None:
                await self._send(RealtimeModelSendToolOutput(event, before.output, start_response=False))
            return
        recorded = await self._recorder.call(event, under)
        if not self._config.get("async_tool_calls", True):
            await self._settling.settled(await asyncio.shield(recorded))

    async def _carried_out(self, call: str) -> None:
        if not self._config.get("async_tool_calls", True):
            await self._settling.settled([call])
            self._take_steps()  # else the connection may not know yet that there is something to deliver
            await self._connections.delivered()

    def _works(self) -> bool:
        return not self._closed and self._driver is not None and not self._driver.done()

    def _failed(self, error: Exception) -> None:
        self._events.put(RealtimeError(error, self._info))

    async def _tripped(self, results: list[Any], text: str, response: str | None) -> None:
        self._events.put(RealtimeGuardrailTripped(results, text, self._info))
        names = ", ".join(result.guardrail.get_name() for result in results)
        with contextlib.suppress(Exception):  # what cannot be sent is not heard either
            await self._send(RealtimeModelSendInterrupt(force_response_cancel=True, response_id=response))
        try:
            await self.send_message(f"What you were saying was stopped by a guardrail ({names}). Say something else.")
        except KeyturnError as error:  # the session ends, or its store does not answer
            self._failed(error)

    async def _send(self, event: RealtimeModelSendEvent) -> None:
        if isinstance(event, RealtimeModelSendUserInput):
            given: Any = event.user_input
            parts = [{"text": given}] if isinstance(given, str) else given["content"]
            self._hearing.sent("".join(part.get("text") or "" for part in parts))
        await answer_of(self._model.send_event, event)

    # What its user does -------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[RealtimeSessionEvent]:
        return self

    async def __anext__(self) -> RealtimeSessionEvent:
        """Return the next event; the events end with the session, and raise what ended it against its will."""
        if self._play is None:
            self._check_open()
        return await self._events.get()

    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Tell this listener every event of the model."""
        self._model.add_listener(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Tell this listener nothing more."""
        self._model.remove_listener(listener)

    async def send_message(self, message: RealtimeUserInput) -> None:
        """Record what the user writes, and send it as soon as there is a connection."""
        self._check_open()
        await self._drive.commit(cm.AddInput(ROOT, said_items([user_item(said_content(message))])))

    async def send_audio(self, audio: bytes, *, commit: bool = False) -> None:
        """Send what the user says; while there is no connection it is dropped, as on a telephone."""
        self._check_open()
        if not isinstance(cast("Any", audio), bytes | bytearray | memoryview):
            raise UserError(f"audio is bytes in the session's input format, not a {type(audio).__name__}")
        with contextlib.suppress(RealtimeDisconnected):
            await self._send(RealtimeModelSendAudio(bytes(audio), commit))

    async def interrupt(self) -> None:
        """Cut the model off."""
        self._check_open()
        await self._send(RealtimeModelSendInterrupt())

    async def update_agent(self, agent: RealtimeAgent[Any]) -> None:
        """Let another agent go on; calls that are open stay those of the agent that made them."""
        self._check_open()
        if not isinstance(cast("Any", agent), RealtimeAgent):
            raise UserError(f"update_agent takes a RealtimeAgent, not a {type(agent).__name__}")
        path = self._opened.live.graph.path(agent, self._run.frames[ROOT].agent)
        self._drive.scope(ROOT).carry(agent)
        await self._drive.commit(cm.SwitchAgent(ROOT, path))

    # Its end ------------------------------------------------------------------------------------------------------

    async def close(self, *, end: bool | None = None) -> None:
        """Close the connection and let go of the run.

        A conversation of which no call is open is over then, unless `end=False` keeps it to be resumed. Tools at work
        have some seconds to end; what does not is in doubt.
        """
        if self._play is None:
            return
        if self._closed:
            await self._over.wait()
            return
        self._closed = True
        driver = self._driver
        assert driver is not None
        try:
            await self._close(driver, end)
        finally:  # whoever closes may be cancelled, and the store may not answer
            driver.cancel()
            for task in list(self._tasks):
                task.cancel()
            self._tell()
            self._events.close()
            model_use.let_go(self._model, self)
            self._over.set()
            await self._beginning.let_go()

    async def _close(self, driver: asyncio.Task[Any], end: bool | None) -> None:
        self._model.remove_listener(self._hearing)
        self._settling.stepped()
        self._connections.close()
        self._guards.close()
        seconds = self._config.get("close_timeout", CLOSE)
        try:
            await self._connections.hang_up()
            if self._recording is not None and not driver.done():  # what failed to record ends no conversation
                await self._record_the_rest(False if self._recording.done() else end, seconds)
        finally:
            self._opened.leave()
        await asyncio.wait([driver], timeout=seconds)
        driver.cancel()
        await asyncio.wait([driver], timeout=seconds)  # a tool that does not end holds the run, and nobody who closes

    async def _record_the_rest(self, end: bool | None, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hearing.flush()
                await self._recorder.idle()
                await self._end_run(end)
        except TimeoutError:
            raise StorageError(
                f"the journal did not answer within {seconds:g} s: the run is kept, and the session did not end it"
            ) from None

    async def _end_run(self, end: bool | None) -> None:
        frame = self._run.frames.get(ROOT)
        if end is not False and frame is not None and not frame.open:
            with contextlib.suppress(Conflict):  # others have moved it, or have it
                await self._drive.commit(cm.CloseRun(self._hearing.conversation.last_words(), []))
