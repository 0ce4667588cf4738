"""The result of a run, pinned: it reads the log up to where it was made and never a live state."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper
from ..agents.guardrail import InputGuardrailResult, OutputGuardrailResult
from ..agents.output import output_schema_for
from ..agents.tool_guardrail import ToolInputGuardrailResult, ToolOutputGuardrailResult
from ..core import events as ev
from ..core.errors import UserError
from ..core.folding import fold
from ..core.immutable import immutable
from ..core.items import Item, as_given, input_items, message_text, own_copies, own_copy, without_id
from ..core.run import Frame, Run, new_run
from ..models.base import ModelResponse, Usage
from ..sessions.history import orphan_calls, superseded_output
from .logger import error_words, logger
from .run.open_run import OpenRun
from .states.state import RunState
from .views.decisions_by_label import DecisionsByLabel
from .views.guardrail_results import results_of
from .views.items import AddedInputItem, MCPApprovalResponseItem, RunItem, ToolApprovalItem, ToolCallOutputItem
from .views.projection import Projection, by_person, requests_of

T = TypeVar("T")
_WAITING = "not executed: it still requires a decision"


@immutable
@dataclass(frozen=True)
class AgentToolInvocation:
    """The call that a nested agent's result belongs to, as a `custom_output_extractor` may want to know it.

    >>> AgentToolInvocation("ask_expert", "c1", '{"input": "Is it valid?"}').tool_name
    'ask_expert'
    """

    tool_name: str
    tool_call_id: str
    tool_arguments: str


class RunResult:
    """Holds what `Runner.run` returns: a final answer, or the interruptions for which the run waits.

    An interrupted run returns normally: `interruptions` is not empty and `final_output` is None.

    >>> from keyturn import Agent, Runner
    >>> from keyturn.testing import ScriptedModel
    >>> result = Runner.run_sync(Agent(name="a", model=ScriptedModel(["hello"])), "hi")
    >>> result.final_output, result.interruptions
    ('hello', [])
    """

    __slots__ = (
        "__weakref__",
        "_asks",
        "_behind",
        "_context",
        "_counted",
        "_finished",
        "_frame",
        "_graph",
        "_known",
        "_last_agent",
        "_live",
        "_position",
        "_queued",
        "_tools",
        "_usage",
        "_without_ids",
        "_wrapper",
        "final_output",
    )

    def __init__(
        self,
        live: OpenRun,
        tools: dict[str, Any] | None = None,
        *,
        frame: str = ev.ROOT,
        value: Any = None,
        before: Sequence[str] = (),
    ) -> None:
        run = live.run
        self._queued, self._behind = run.queued, tuple(before)
        self._live = live
        self._frame = frame
        self._position = len(live.log)
        self._finished = frame != ev.ROOT or run.status == "finished"
        # What most results are never asked for is made as it is.
        self._tools = tuple(tools.items()) if tools else ()
        self._asks: list[ToolApprovalItem] | None = None
        self.final_output: Any = value if frame != ev.ROOT else _final_output(live)
        self._counted = len(run.replies), run.usage
        self._usage: Usage | None = None
        self._wrapper, usage = live.context, live.context.usage
        recorded = len(usage.replies) == len(run.replies) and usage.counts() == run.usage
        self._context = None if recorded else self._pinned(usage)  # somebody counted more on it
        self._graph = live.graph
        self._without_ids = run.about.get("reasoning_item_id_policy") == "omit"
        path = run.frames[frame].agent if frame in run.frames else run.last_agent
        self._last_agent = live.graph.agent(path)
        self._known: tuple[Projection, list[RunItem]] | None = None

    def _pinned(self, usage: Usage) -> RunContextWrapper[Any]:
        """Return the wrapper as of this result: the run goes on counting, and deciding, in its own."""
        pinned = copy(self._wrapper)
        pinned.usage = usage.copy()
        pinned.known = DecisionsByLabel(self._live, ev.ROOT, self._position)
        return pinned

    @property
    def _run(self) -> Run:
        """Return the run as of this result."""
        live = self._live
        return live.run if len(live.log) == self._position else fold(new_run(), live.log.steps[: self._position])

    @property
    def interruptions(self) -> list[ToolApprovalItem]:
        """Return the calls that wait, for people to decide."""
        if self._asks is None:
            self._asks = [] if self._finished else requests_of(self._run, self._graph, dict(self._tools))
        return self._asks

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self._live.run.id

    @property
    def queued(self) -> bool:
        """Return whether the run had not begun: with `paused_session="queue"` it waits for its turn on its session."""
        return self._queued

    @property
    def queued_behind(self) -> tuple[str, ...]:
        """Return the ids of the runs that came before it on its session and were not over, the first first."""
        return self._behind

    @property
    def input(self) -> str | list[Any]:
        """Return the input of the run, or of the nested agent."""
        if self._frame == ev.ROOT:
            return own_copy(self._live.run.input)
        return as_given(own_copy(self._read[0].input))

    @property
    def usage(self) -> Usage:
        """Return what the run had used, all pauses and nested agents included."""
        if self._usage is None:
            replies, total = self._counted
            self._usage = Usage.of(self._live.run.replies[:replies], total)
        return self._usage

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """Return the context with which the run was driven, and its usage as of this result.

        What is approved or rejected on it goes along with the state of this result.
        """
        if self._context is None:
            self._context = self._pinned(self.usage)
        return self._context

    @property
    def last_agent(self) -> Agent[Any]:
        """Return the agent that was at work last."""
        return self._last_agent

    @property
    def agent_tool_invocation(self) -> AgentToolInvocation | None:
        """The call that this result of a nested agent answers; None for the result of a run."""
        call = self._live.run.calls.get(self._frame)
        if call is None:
            return None
        text = call.proposal.args
        given = call.raw.get("arguments") or "" if text is None else text
        return AgentToolInvocation(call.proposal.name, call.proposal.label, given)

    @property
    def max_turns(self) -> int | None:
        """Return the turn limit."""
        return self._live.run.max_turns

    @property
    def _read(self) -> tuple[Projection, list[RunItem]]:
        """Return what the log shows up to here, read when it is first asked for."""
        self._known = self._known or self._projected()
        return self._known

    def _projected(self) -> tuple[Projection, list[RunItem]]:
        projection = Projection(self._live, self._graph, self._frame)
        items: list[RunItem] = []
        steps = self._live.log.steps[: self._position]
        if any(by_person(event) for step in steps for event in step.events):
            projection.before = new_run()
        for step in steps:
            items += projection.feed(step)
            if projection.before is not None:
                fold(projection.before, [step])
        return projection, items

    @property
    def new_items(self) -> list[RunItem]:
        """Return everything the run produced: requests that people decided in their place, those that wait last."""
        made: list[RunItem] = [item for item in self._read[1] if not isinstance(item, AddedInputItem)]
        return [*in_order(made), *self.interruptions]

    @property
    def raw_responses(self) -> list[ModelResponse]:
        """Return the model's replies."""
        return list(self._read[0].replies)

    @property
    def last_response_id(self) -> str | None:
        """Return the provider's id of the last reply."""
        replies = self._read[0].replies
        return replies[-1].response_id if replies else None

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """Return what the guardrails on the input said."""
        return results_of(self._live, self._read[0].reports, "input")

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """Return what the guardrails on the output said."""
        return results_of(self._live, self._read[0].reports, "output")

    @property
    def tool_input_guardrail_results(self) -> list[ToolInputGuardrailResult]:
        """Return what the guardrails on tools' arguments said."""
        return results_of(self._live, self._read[0].reports, "tool_input")

    @property
    def tool_output_guardrail_results(self) -> list[ToolOutputGuardrailResult]:
        """Return what the guardrails on tools' results said."""
        return results_of(self._live, self._read[0].reports, "tool_output")

    @property
    def state(self) -> RunState[Any]:
        """Return the same as `to_state()`."""
        return self.to_state()

    def to_state(self) -> RunState[Any]:
        """Return a state of the run as of this result; each call makes an independent one."""
        return RunState.at(self._live, self._position, self.interruptions)

    def to_input_list(self, *, mode: Literal["preserve_all", "normalized"] = "preserve_all") -> list[Item]:
        """Return the conversation as input for another run.

        Calls that still wait are answered as not executed. With "normalized" it is the conversation as the last agent
        sees it, without what the input filter of a handoff left out.
        """
        if mode not in ("preserve_all", "normalized"):
            raise UserError(f'the mode of to_input_list is "preserve_all" or "normalized", not {mode!r}')
        made = self._seen() if mode == "normalized" else self.conversation()
        if self._without_ids:
            made = [without_id(item) if item.get("type") == "reasoning" else item for item in made]
        return [*made, *(superseded_output(call, _WAITING) for call in orphan_calls(made))]

    def conversation(self) -> list[Item]:
        """Return the conversation as it is recorded: calls that still wait have no result."""
        read = (item for item in in_order(self._read[1]) if not isinstance(item, ToolApprovalItem))
        return [*input_items(self.input), *(item.to_input_item() for item in read)]

    def _seen(self) -> list[Item]:
        """Return what the agent at work sees of this run's conversation, and the results that its calls have."""
        run = self._run
        frame = run.frames[self._frame]
        settled = (run.calls[call].item for call in frame.calls)
        return own_copies([item for item in (*frame.items, *settled) if isinstance(item, dict)])

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """Return the final output, for a type checker, and checked if asked."""
        if raise_if_incorrect_type and not isinstance(self.final_output, cls):
            raise TypeError(f"the final output is a {type(self.final_output).__name__}, not a {cls.__name__}")
        return cast("T", self.final_output)

    def release_agents(self, *, release_new_items: bool = True) -> None:
        """Do nothing: a result holds its log, and agents are looked up."""

    def __repr__(self) -> str:
        waits = f", waiting for {len(self.interruptions)}" if self.interruptions else ""
        return f"{type(self).__name__}(run_id={self.run_id!r}, last_agent={self.last_agent.name!r}{waits})"


def in_order(items: list[RunItem]) -> list[RunItem]:
    """Return items with the results of one reply in the order of its calls, as the model reads them."""
    ordered: list[RunItem] = []
    outputs: list[ToolCallOutputItem | MCPApprovalResponseItem] = []
    rank: dict[Any, int] = {}
    for item in items:
        if isinstance(item, ToolCallOutputItem | MCPApprovalResponseItem):
            outputs.append(item)
            continue
        if isinstance(item, ToolApprovalItem):  # it was decided before its result
            ordered.append(item)
            continue
        if outputs:
            ordered += sorted(outputs, key=lambda one: rank.get(one.call_id, 0))
            outputs = []
        label = item.raw_item.get("call_id") or item.raw_item.get("id")
        if isinstance(label, str):  # a kind that nobody knows may have anything there
            rank[label] = len(ordered)
        ordered.append(item)
    return ordered + sorted(outputs, key=lambda one: rank.get(one.call_id, 0))


def _final_output(live: OpenRun) -> Any:
    run = live.run
    if run.status != "finished":
        return None
    if ev.ROOT in live.finals:
        return live.finals[ev.ROOT]
    return _parsed(live, run, run.frames[ev.ROOT])


def _parsed(live: OpenRun, run: Run, frame: Frame) -> Any:
    """Parse the answer of a run that finished elsewhere as the agent's output type."""
    schema = output_schema_for(live.graph.agent(frame.agent).output_type)
    reply = [item for item in frame.items[frame.sent - frame.replied : frame.sent] if isinstance(item, dict)]
    text = message_text(reply[-1]) if reply else ""
    if schema is None or schema.is_plain_text() or not text or frame.results:
        return own_copy(run.output)
    try:
        return schema.validate_json(text)
    except UserError as error:
        logger.info(
            "the answer of run %s is given as recorded, its type is another now: %s", run.id, error_words(error)
        )
        return own_copy(run.output)


#: What `error.run_data` holds: a result of the run as far as it came.
RunErrorDetails = RunResult
