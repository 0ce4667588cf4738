"""Trace the waits of a run: each request and each decision is an instant span, linked by its place in the log.

A paused run may come back days later in another process, so no span is open meanwhile: the step that asks keeps where
its request is, and what happens because of it links there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import events as ev
from ...core.run import Call
from ...core.states import WAITING
from ...tracing.base import Span, Tracer
from ..run.open_run import OpenRun


class RequestSpans:
    """Holds the places of one run's requests, and of the run itself under the name of its root frame."""

    def __init__(
        self, live: OpenRun, tracer: Tracer, traced: Callable[[str], bool], told: Callable[[str], bool]
    ) -> None:
        self.places: dict[str, str] = {}
        for step in live.log.steps:
            self.places.update(step.spans)
        self._live = live
        self._tracer = tracer
        self._traced, self._told = traced, told
        self._asking: dict[str, str] = {}

    def step(self, made: ev.Step, here: str, agent: Callable[[str], Span | None]) -> ev.Step:
        """Return a step with the places of the spans that begin in it; `here` is the run's own place."""
        spans: dict[str, str] = {}
        if here and ev.ROOT not in self.places:
            spans[ev.ROOT] = here
        for event in made.events:
            if isinstance(event, ev.CallVoided):
                self._asking.pop(event.call, None)
            elif isinstance(event, ev.CallScreened | ev.CallNeeds | ev.CallLost):
                call = self._live.run.calls.get(event.call)
                if call is not None and call.state in WAITING and self._traced(call.frame):
                    spans[call.id] = self._request(call, agent(call.frame))
        return ev.Step(made.at, made.events, spans) if spans else made

    def _request(self, call: Call, agent: Span | None) -> str:
        """Start the span of a request, once, though a step that lost its race is made again."""
        if call.id not in self._asking:
            told = {**named(call), "keyturn.request.kind": call.kind}
            span = self._tracer.start(f"request_approval {call.proposal.name}", told, parent=agent)
            span.end()
            self._asking[call.id] = span.place
        return self._asking[call.id]

    def links(self, call_id: str) -> list[str]:
        """Return what the execution of a call links to: its request, if there was one."""
        asked = self.places.get(call_id)
        return [asked] if asked else []

    def happened(self, event: ev.AnyEvent) -> None:
        """Trace a decision in a step that was appended."""
        if isinstance(event, ev.CallDecided):
            self._asking.pop(event.decision.call, None)
            self._decided(event.decision)

    def _decided(self, decision: ev.Decision) -> None:
        call = self._live.run.calls.get(decision.call)
        if call is None or not self._traced(call.frame):
            return
        told = {**named(call), "keyturn.decision": decision.verdict}
        if call.asked_at:
            told["keyturn.waited_ms"] = decision.at - call.asked_at
        if self._told(call.frame):
            told |= {"keyturn.decision.by": decision.by, "keyturn.decision.note": decision.note}
        self._tracer.start(f"decide {call.proposal.name}", told, links=self.links(call.id)).end()


def named(call: Call) -> dict[str, Any]:
    """Return the attributes that name a call and its tool."""
    made = call.proposal
    told = {"gen_ai.tool.name": made.name, "gen_ai.tool.call.id": made.label}
    return {**told, "keyturn.tool.kind": made.kind, "keyturn.call": call.id}
