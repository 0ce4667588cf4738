"""Choose the trace of a drive: the current one, the one its run began in, or a new one.

A run keeps its trace over every pause. Where it is taken up inside another trace, the two are linked.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ...agents.settings import RunConfig
from ...tracing import Trace, get_current_trace, tracer_for
from ...tracing.base import Tracer, outside, trace_hex, trace_of
from ..run.open_run import OpenRun

_WORKFLOW = RunConfig.workflow_name


class Silent(ExitStack):
    """Suppresses the tracing of a run, and of the spans and runs inside it."""

    def __enter__(self) -> Any:
        self.enter_context(Trace("untraced", disabled=True))


def tracer_of(config: RunConfig) -> Tracer | None:
    """Return the tracer of a run: of its own provider, of the current trace's, or of the process's."""
    current = get_current_trace()
    if current is None or (config.tracing is not None and not current.disabled):
        return tracer_for(config.tracing)
    return current.tracer


def group_of(live: OpenRun, config: RunConfig) -> str | None:
    """Return the conversation that a run belongs to, as its caller says or said."""
    current = get_current_trace()
    return config.group_id or live.run.about.get("group_id") or (None if current is None else current.group_id)


def own_trace(live: OpenRun, config: RunConfig, tracer: Tracer, known: str) -> Trace | None:
    """Return the trace that a drive opens, None where it is in the current one; `known` is where its run began."""
    wanted = trace_of(known) if config.trace_id is None else trace_hex(config.trace_id)
    current = get_current_trace()
    here = tracer.here()
    about = live.run.about
    if current is not None and current.span.place and wanted in ("", trace_of(current.span.place)):
        return None
    name = config.workflow_name if config.workflow_name != _WORKFLOW else about.get("workflow", _WORKFLOW)
    metadata = about.get("trace_metadata") if config.trace_metadata is None else config.trace_metadata
    own = Trace(name, None, group_of(live, config), metadata, tracer=tracer)
    own.resumed = live.run.status != "new"
    if wanted and wanted != trace_of(here):
        own.parent = known if wanted == trace_of(known) else outside(wanted)
    own.links = [place for place in (here, known) if place and wanted and trace_of(place) != wanted]
    return own
