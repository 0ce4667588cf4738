"""Trace a run as spans: agents, model calls, tools and guardrails of one drive.

An agent at work is a span, and so is each question to its model, each run of a tool, each look of a guardrail; a
drive that is a trace of its own is one around them. `request_spans.py` has the waits between drives. What is traced of
a frame, and whether with data, its own settings say and those above.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from ...core import events as ev
from ...core.call_ids import frame_of
from ...core.effects import Effect
from ...core.request import shown_params
from ...core.run import Call
from ...models.base import Model, ModelRequest, ModelResponse, ModelTracing
from ...support.user_code import class_name
from ...tools.base import Tool
from ...tracing import Trace, of_model, of_reply, of_request, of_usage
from ...tracing.base import Span, Tracer
from ..logger import failure_words
from ..run.frame_settings import FrameSettings
from ..run.open_run import OpenRun
from .request_spans import RequestSpans, named
from .trace_parent import Silent, group_of, own_trace, tracer_of

_T = TypeVar("_T")
#: Returns the settings under which a frame runs, None where they were not worked out yet.
SettingsOf = Callable[[str], FrameSettings | None]
_UNTRACED: AbstractContextManager[None] = nullcontext()


# The frame in which the effect at work is.
_frame: ContextVar[str] = ContextVar("keyturn traced frame", default=ev.ROOT)


def tracing(live: OpenRun, settings: SettingsOf) -> AbstractContextManager[RunSpans | None]:
    """Give the tracer of one drive of a run, for as long as it lasts; None where there is no tracer provider."""
    root = settings(ev.ROOT)
    assert root is not None
    config = root.config
    if config.tracing_disabled:
        return Silent()
    tracer = tracer_of(config)
    return _UNTRACED if tracer is None else RunSpans(live, settings, tracer)


class RunSpans:
    """Holds one drive's spans."""

    def __init__(self, live: OpenRun, settings: SettingsOf, tracer: Tracer) -> None:
        root = settings(ev.ROOT)
        assert root is not None
        self._live = live
        self._settings = settings
        self._config = root.config
        self._tracer = tracer
        self._group = group_of(live, root.config)
        self._asked = RequestSpans(live, tracer, self._traced, self._told)
        self._agents: dict[str, tuple[str, Span]] = {}
        self._calls: dict[str, Span] = {}
        self._started: set[str] = set()
        self._raised: set[str] = set()
        self._delegated: set[str] = set()
        self._secrets: dict[str, set[str]] = {}
        self._stack = ExitStack()
        self._own: Trace | None = None
        self._here = ""
        if self._told(ev.ROOT):  # a history holds calls of agents that are not asked in this drive
            for agent in live.graph.agent_at.values():
                self._know(agent.tools)
            for event in (event for step in live.log.steps for event in step.events):
                if isinstance(event, ev.ReplyRecorded):
                    self.replied(event)

    def _traced(self, frame: str) -> bool:
        """Return whether a frame is traced; one of which nothing is known yet is not."""
        scope = self._settings(frame)
        return scope is not None and scope.traced

    def _told(self, frame: str) -> bool:
        """Return whether spans hold what is said in a frame."""
        scope = self._settings(frame)
        return scope is not None and scope.traces_data

    # ------------------------------------------------------------------------------------------------ the drive

    def __enter__(self) -> Self:
        self._own = own_trace(self._live, self._config, self._tracer, self._asked.places.get(ev.ROOT, ""))
        if self._own is not None:
            self._stack.enter_context(self._own)
        self._here = self._tracer.here()
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        run = self._live.run
        waits = run.status == "running" and bool(run.groups["wait"])
        told = {"keyturn.run.id": run.id or None, "keyturn.run.status": "waiting" if waits else run.status}
        if error is not None:
            told["keyturn.run.status"] = "failed"
        root = self._agents[ev.ROOT][1] if ev.ROOT in self._agents else None
        for span in (root, None if self._own is None else self._own.span):
            if span is not None:
                span.tell(told)
                if error is not None:
                    self._failed(span, error, ev.ROOT)
        nested = [span for frame_id, (_path, span) in self._agents.items() if frame_id != ev.ROOT]
        for span in (*reversed(nested), *self._calls.values(), *([root] if root else [])):
            span.end()
        self._stack.close()

    def _failed(self, span: Span, error: BaseException, frame: str) -> None:
        span.failed(class_name(error), failure_words(error) if self._told(frame) else "")

    # ---------------------------------------------------------------------------------------------- the effects

    async def around(self, effect: Effect, work: Callable[[], Awaitable[None]]) -> None:
        """Do one effect of the loop inside its span, so that what it starts is below it."""
        call = self._live.run.calls.get(effect.on) if effect.do in ("run", "screen", "settle") else None
        frame = effect.on if call is None else call.frame
        token = _frame.set(frame)
        try:
            if not self._traced(frame):
                with Silent():
                    await work()
            elif call is None or effect.do == "settle":
                with self._agent(frame).current():
                    await work()
            else:
                await self._around_call(effect, call, work)
        finally:
            _frame.reset(token)

    async def _around_call(self, effect: Effect, call: Call, work: Callable[[], Awaitable[None]]) -> None:
        name = call.proposal.name
        span = await self._call_span(effect.do, call)
        try:
            await self._within(span, work())
        finally:
            self._call_done(effect, name, span)

    async def _within(self, span: Span, work: Awaitable[_T]) -> _T:
        with span.current():
            try:
                return await work
            except BaseException as error:
                self._failed(span, error, _frame.get())
                raise

    async def _call_span(self, do: str, call: Call) -> Span:
        name = call.proposal.name
        agent = self._agent(call.frame)
        told = named(call)
        if do == "screen":
            return self._tracer.start(f"screen_tool {name}", told, parent=agent)
        told |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
        if call.decision is not None:
            told["keyturn.decision"] = call.decision.verdict
        if self._told(call.frame):
            told["gen_ai.tool.call.arguments"] = shown_params(call)
        span = self._tracer.start(f"execute_tool {name}", told, parent=agent, links=self._asked.links(call.id))
        self._calls[call.id] = span
        return span

    def _call_done(self, effect: Effect, name: str, span: Span) -> None:
        """End the span of a call; a nested agent's goes on until that agent has answered."""
        if effect.do == "run":
            if effect.on in self._live.run.frames:
                self._delegated.add(effect.on)
                return
            self._calls.pop(effect.on, None)
            if effect.on not in self._started:  # nobody shall read here that a tool ran which was held back
                span.rename(f"hold_tool {name}")
                span.tell({"gen_ai.operation.name": "hold_tool"})
        span.end()

    @property
    def model_tracing(self) -> ModelTracing:
        """What a model is told of tracing."""
        if not self._traced(_frame.get()):
            return ModelTracing.DISABLED
        return ModelTracing.ENABLED if self._told(_frame.get()) else ModelTracing.ENABLED_WITHOUT_DATA

    async def chat(self, model: Model, request: ModelRequest, asking: Awaitable[ModelResponse]) -> ModelResponse:
        """Await a model's reply inside its span."""
        if not self._traced(_frame.get()):
            return await asking
        data = self._told(_frame.get())
        told = of_model(model, request)
        if told["gen_ai.conversation.id"] is None:
            told["gen_ai.conversation.id"] = self._group
        if data:
            self._know([*request.tools, *request.handoffs])
            told |= of_request(request, self._secrets)
        name = told["gen_ai.request.model"]
        span = self._tracer.start(f"chat {name}" if name else "chat", told, client=True)
        try:
            response = await self._within(span, asking)
            of = {"gen_ai.response.id": response.response_id, "gen_ai.response.model": response.model or None}
            span.tell({**of, **of_usage(response.usage)})
            if data:
                span.tell(of_reply(response.to_input_items(), self._secrets))
            return response
        finally:
            span.end()

    async def guardrail(self, name: str, stage: str, look: Awaitable[_T]) -> _T:
        """Run a guardrail inside its span."""
        if not self._traced(_frame.get()):
            return await look
        told = {"keyturn.guardrail.name": name, "keyturn.guardrail.stage": stage}
        span = self._tracer.start(f"guardrail {name}", told)
        try:
            said = await self._within(span, look)
            span.tell({"keyturn.guardrail.triggered": _triggered(said)})
            return said
        finally:
            span.end()

    def raised(self, call_id: str, error: BaseException) -> None:
        """Record a tool's exception on its span."""
        if call_id in self._calls:
            self._raised.add(call_id)
            self._failed(self._calls[call_id], error, frame_of(call_id))

    # ------------------------------------------------------------------------------------------------ the steps

    def step(self, now: int, events: list[ev.AnyEvent]) -> ev.Step:
        """Return a step that is about to be appended, with the places of its requests' spans."""
        return self._asked.step(ev.Step(now, events), self._here, self._at_work)

    def happened(self, step: ev.Step) -> None:
        """Trace a step that was appended, by us or by somebody else."""
        self._asked.places.update(step.spans)
        finished = ""
        for event in step.events:
            if isinstance(event, ev.CallFinished):
                finished = event.call
            elif isinstance(event, ev.HandedOff) and finished in self._calls:
                self._handed_off(self._calls[finished], event)
            self._asked.happened(event)
            heard = _HEARD.get(type(event))
            if heard is not None:
                heard(self, event)

    def replied(self, event: ev.ReplyRecorded) -> None:
        """Note what was secret in a reply's calls when they were made: their tools may change or go."""
        for proposal in event.proposals:
            if proposal.secrets:
                self._secrets.setdefault(proposal.name, set()).update(proposal.secrets)

    def call_started(self, event: ev.CallStarted) -> None:
        """Note that a tool is about to be called."""
        self._started.add(event.call)

    def call_voided(self, event: ev.CallVoided) -> None:
        """Note that a call is proposed anew."""
        self._started.discard(event.call)

    def call_lost(self, event: ev.CallLost) -> None:
        """Trace that a call's outcome is unknown."""
        if event.call in self._calls:
            self._calls[event.call].failed("in_doubt", event.why if self._told(frame_of(event.call)) else "")

    def call_finished(self, event: ev.CallFinished) -> None:
        """Trace a call's result."""
        span = self._calls.get(event.call)
        if span is None:
            return
        if event.failed and event.call in self._started and event.call not in self._raised:
            span.failed("tool_error")
        if self._told(frame_of(event.call)):
            span.tell({"gen_ai.tool.call.result": event.item.get("output")})
        if event.call in self._delegated:
            self._calls.pop(event.call).end()

    def _handed_off(self, span: Span, event: ev.HandedOff) -> None:
        graph = self._live.graph
        source, target = graph.agent(self._agents[event.frame][0]).name, graph.agent(event.agent).name
        span.rename(f"handoff {target}")
        span.tell({"keyturn.handoff.from": source, "keyturn.handoff.to": target})

    def frame_closed(self, event: ev.FrameClosed) -> None:
        """End the span of a nested agent and those below; the root's ends with the drive."""
        if event.frame == ev.ROOT:
            return
        for frame_id in [name for name in reversed(self._agents) if f"{name}/".startswith(f"{event.frame}/")]:
            span = self._agents.pop(frame_id)[1]
            if event.error and frame_id == event.frame:
                span.failed(event.error)
            span.end()
        for call_id in [name for name in self._calls if name.startswith(f"{event.frame}/")]:
            self._calls.pop(call_id).end()
        if event.error and event.frame in self._calls:
            self._raised.add(event.frame)
            self._calls[event.frame].failed(event.error)

    # ------------------------------------------------------------------------------------------------ the agents

    def _at_work(self, frame_id: str) -> Span | None:
        return self._agents[frame_id][1] if frame_id in self._agents else None

    def _agent(self, frame_id: str) -> Span:
        """Return the span of the agent at work in a frame; another agent there is another span."""
        run = self._live.run
        path = run.frames[frame_id].agent
        known = self._agents.get(frame_id)
        if known is not None:
            if known[0] == path:
                return known[1]
            known[1].end()
        parent: Span | None = None
        if frame_id != ev.ROOT:
            parent = self._calls.get(frame_id) or self._agent(run.calls[frame_id].frame)
        name = self._live.graph.agent(path).name
        told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        told |= {"gen_ai.conversation.id": self._group, "keyturn.frame": frame_id}
        span = self._tracer.start(f"invoke_agent {name}", told, parent=parent)
        self._agents[frame_id] = (path, span)
        return span

    def _know(self, tools: Iterable[Any]) -> None:
        """Note which parameters are secret, so that no call in a conversation shows them."""
        for tool in tools:
            if isinstance(tool, Tool):
                self._secrets.setdefault(tool.name, set()).update(tool.secrets)


_HEARD: dict[type[Any], Callable[[RunSpans, Any], None]] = {
    ev.ReplyRecorded: RunSpans.replied,
    ev.CallStarted: RunSpans.call_started,
    ev.CallVoided: RunSpans.call_voided,
    ev.CallLost: RunSpans.call_lost,
    ev.CallFinished: RunSpans.call_finished,
    ev.FrameClosed: RunSpans.frame_closed,
}


def checked(
    traces: RunSpans | None, guardrail: Any, stage: str, look: Coroutine[Any, Any, _T]
) -> Coroutine[Any, Any, _T]:
    """Run a guardrail, in a span of its own where the run is traced."""
    return look if traces is None else traces.guardrail(guardrail.get_name(), stage, look)


def _triggered(said: Any) -> bool:
    """Return whether a guardrail of either kind said anything but to go on."""
    behavior = getattr(said, "behavior", None)
    return said.output.tripwire_triggered if behavior is None else behavior["type"] != "allow"
