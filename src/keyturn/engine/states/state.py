"""A handle on a run at a position, with the decisions that were not delivered yet.

What is decided on a state is kept with it, and appended in one step when the run is resumed; two states share nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NoReturn, SupportsIndex, Unpack, cast

from ...agents.agent import Agent
from ...agents.context import RunContextWrapper, TContext, WrapperDecision
from ...agents.hooks import TAgent
from ...core import events as ev
from ...core.codec import Log
from ...core.errors import Conflict, Expired, KeyturnError, NotPending, UserError
from ...core.items import Item, own_copy
from ...core.people import decider
from ...core.preview import Preview
from ...core.run import call_digest
from ...core.states import WAITING
from ...journal.base import Journal
from ...models.base import Usage
from ...policies.grants import Grant
from ...support.forwarding import forwarded
from ..facts import decisions
from ..facts.reaches import reach_of
from ..facts.values import checked_items, said_items
from ..logger import logger
from ..run.agents import AgentGraph
from ..run.blocking import waited_for
from ..run.log_cache import keep
from ..run.new_ids import new_id
from ..run.open_run import OpenRun, wrapped
from ..views.items import ToolApprovalItem
from ..views.projection import Interrupted, used
from .blob import MAX_BYTES, Blob, from_text, pack, to_text
from .context_data import dump_context
from .loading import ContextOptions, LoadOptions, checked_journal, found, open_saved, waiting_requests
from .taken_over import NOTE, TakenOver, TakenOverDecision, TakeoverOptions, take_over
from .undelivered import UndeliveredDecisions, edited


class RunState(Generic[TContext, TAgent]):
    """Holds a paused run: look at its interruptions, decide them, save it, resume it.

    It is generic in the context and, where that is said too, in the class of its agents: `RunState[Ctx, Agent[Ctx]]`.

    >>> from keyturn import Agent, RunState
    >>> state = RunState(context=None, original_input="hi", starting_agent=Agent(name="a"))
    >>> state.get_interruptions()
    []
    """

    __slots__ = ("__weakref__", "_live", "_position", "_said", "_waits")

    live: OpenRun = forwarded("_live")
    position: int = forwarded("_position")

    def __init__(
        self,
        context: TContext | RunContextWrapper[TContext],
        original_input: str | list[Any],
        starting_agent: TAgent,
        max_turns: int | None = 10,
        *,
        conversation_id: str | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
    ) -> None:
        self._live = OpenRun(Log(), AgentGraph(cast("Agent[Any]", starting_agent)), wrapped(context))
        self._live.log.run.id, self._live.handed_out = new_id(), True
        self._position = 0
        self._waits = {}
        self._said = UndeliveredDecisions(
            start={
                "input": original_input if isinstance(original_input, str) else checked_items(original_input),
                "max_turns": max_turns,
                "conversation_id": conversation_id,
                "previous_response_id": previous_response_id,
                "auto_previous_response_id": auto_previous_response_id,
            }
        )

    @classmethod
    def at(cls, live: OpenRun, position: int, interruptions: list[ToolApprovalItem]) -> RunState[Any]:
        """Make a state of a run in hand; decisions given on its context come along."""
        state: RunState[Any] = cls.__new__(cls)
        live.handed_out = True
        state._live, state._position = live, position
        state._said = UndeliveredDecisions()
        state._waits = {item.call: item for item in interruptions}
        for given in list(live.context.decisions):
            if isinstance(given.item, ToolApprovalItem) and given.item.call in state._interruptions:
                state._take(given)
        return state

    def _take(self, given: WrapperDecision) -> None:
        """Take over the decisions given on the context, and drop those that no longer count."""
        try:
            if given.verb == "approve":
                self.approve(given.item, given.always)
            else:
                self.reject(given.item, given.always, rejection_message=given.message)
        except KeyturnError as error:
            self._live.context.decisions.remove(given)
            logger.warning("a decision given on the run context for %r was ignored: %s", given.item.name, error)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise UserError("a RunState is not copied or pickled: save it with to_string(), and load it with from_string()")

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self._live.run.id

    @property
    def undelivered(self) -> UndeliveredDecisions:
        """Return the decisions given here and not delivered yet."""
        return self._said

    def delivered(self, position: int, said: UndeliveredDecisions) -> None:
        """Mark the decisions taken by then as delivered."""
        self._said, self._position = self._said.since(said), position

    def forget(self, said: UndeliveredDecisions) -> None:
        """Drop decisions that came too late, so that they are refused once and not at each resume."""
        self._said = self._said.since(said)

    def moved(self, position: int) -> None:
        """Record that the run came this far under this state."""
        self._position = position

    def settled(self, result: Interrupted) -> None:
        """Take over the calls that wait as of a result, which makes their items as somebody asks for them."""
        self._waits: Interrupted | dict[str, ToolApprovalItem] = result

    @property
    def _interruptions(self) -> dict[str, ToolApprovalItem]:
        if not isinstance(self._waits, dict):
            self._waits = {item.call: item for item in self._waits.interruptions}
        return self._waits

    @property
    def usage(self) -> Usage:
        """Return what the run had used, as of this state."""
        return used(self._live.log.steps[: self._position])

    @property
    def context(self) -> RunContextWrapper[TContext]:
        """Return the context with which the run will be resumed."""
        return self._live.context

    @property
    def grants(self) -> list[ev.GrantTerms]:
        """Return the standing decisions of the run, those not delivered yet included."""
        own = [grant for grant in self._live.run.grants.values() if grant.call is None]
        standing = [grant for grant in own if grant.id not in self._said.revoked]
        return [*standing, *self._said.grants.values()]

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """Return the waiting calls; those decided here stay listed until the run is resumed."""
        return list(self._interruptions.values())

    def approve(
        self,
        approval_item: ToolApprovalItem,
        always_approve: bool = False,
        *,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        note: str | None = None,
        by: str | None = None,
        seen: Preview | None = None,
    ) -> None:
        """Approve exactly this call.

        `edit` gives other arguments, whole (or the text, of a tool that takes one): they are validated now and run as
        they are. `seen` is what the editor was shown of the edited call: without it, a tool that looks at the world
        asks once more where the edit touches what nobody was shown. `always_approve=True` or a `Grant` approves later
        calls of the same tool of the same agent too.
        """
        item = self._pending(approval_item)
        call = self._live.run.calls.get(item.call)
        given = grant if grant is not None else Grant() if always_approve else None
        made = edited(item, edit, call, seen)
        reach = reach_of(given, self._live.run, self._live.journal)
        self._said.say(
            decisions.approve(item.request, self._now(), edit=made, grant=given, reach=reach, note=note, by=by)
        )

    def reject(
        self,
        approval_item: ToolApprovalItem,
        always_reject: bool = False,
        *,
        rejection_message: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Reject this call; the run goes on and the model is told `rejection_message`."""
        item = self._pending(approval_item)
        now, always = self._now(), always_reject
        self._said.say(decisions.reject(item.request, now, message=rejection_message, always=always, note=note, by=by))

    def answer(
        self, approval_item: ToolApprovalItem, output: object, *, note: str | None = None, by: str | None = None
    ) -> None:
        """Give the model a person's own result; the tool does not run."""
        self._said.say(decisions.answer(self._pending(approval_item).request, self._now(), output, note=note, by=by))

    def resolve(
        self,
        approval_item: ToolApprovalItem,
        outcome: Literal["ran", "did_not_run", "retry"],
        output: object = None,
        *,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Resolve a call in doubt: it ran (with this output), it did not, or it shall be retried."""
        item = self._pending(approval_item)
        self._said.say(decisions.resolve(item.request, self._now(), outcome, output, note=note, by=by))

    def revoke(self, grant: str | ev.GrantTerms, *, by: str | None = None) -> None:
        """Revoke a standing decision, one of `grants`; what it let run before stays."""
        name: object = grant.id if isinstance(grant, ev.GrantTerms) else grant
        if not isinstance(name, str) or name not in {given.id for given in self.grants}:
            raise NotPending("this run has no such grant; it was already revoked or never given")
        self._said.revoke(name, decider(by))

    def add_input(self, input: str | list[Any]) -> None:
        """Add a message that the model reads after the results of its calls, at its next turn.

        The results of those calls are not the final answer then, whatever the agent's `tool_use_behavior` says.
        """
        if self._live.run.status in ("finished", "cancelled"):
            raise UserError("this run is over; start another run with the message")
        self._said.input = [*self._said.input, *said_items(input)]

    @property
    def pending_input(self) -> list[Item]:
        """Return messages added here and not delivered yet."""
        return own_copy(self._said.input)

    def clear_pending_input(self) -> None:
        """Drop messages that were not delivered."""
        self._said.input = []

    def _pending(self, item: object) -> ToolApprovalItem:
        """Return the waiting item of a decision: the very one that was shown."""
        call, run_id, digest = (getattr(item, name, None) for name in ("call", "run_id", "digest"))
        waiting = self._interruptions.get(call) if isinstance(call, str) else None
        shown = None if waiting is None else waiting.request
        if waiting is None or shown is None or (shown.run, shown.digest) != (run_id, digest):
            raise NotPending("no pending call of this state matches that decision; pass an item of get_interruptions()")
        run = self._live.run
        call = run.calls.get(shown.call)
        if call is None or call.state not in WAITING or call_digest(run, call) != shown.digest:
            raise Conflict(
                "this state is stale: its run continued, and that call is no longer pending as it was shown; use the "
                "newer state"
            )
        if call.expires_at is not None and self._now() > call.expires_at:
            raise Expired("this request has expired; resume the run, and its model is informed")
        return waiting

    def _now(self) -> int:
        return self._live.clock()

    def to_json(
        self,
        *,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> dict[str, Any]:
        """Return the state as a plain dict, authenticated; `schema_version` names its form."""
        context = dump_context(self._live.context, context_serializer, strict=strict_context)
        log = self._live.log.text(self._position)
        keep(self.run_id, self._live.log)
        self._said.journalled = self._said.journalled or self._live.journal is not None
        return pack(Blob(self.run_id, self._live.graph.root.name, context, log, self._said.text()))

    def to_string(
        self,
        *,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> str:
        """Return the state as text."""
        return to_text(self.to_json(context_serializer=context_serializer, strict_context=strict_context))

    @classmethod
    async def from_json(
        cls, initial_agent: Agent[Any], state_json: Mapping[str, Any], **options: Unpack[LoadOptions]
    ) -> RunState[Any]:
        """Load the state that `to_json` made, for the agent that started its run.

        `context_override` takes the saved context's place. `context_deserializer` makes it of its data, and so does
        `context_type`, a dataclass or pydantic model, which `Agent[Ctx]` says as well. `strict_context=True` refuses to
        load it as less than it was. Unsigned states need `allow_unsigned=True`.
        """
        return await cls.of(*await open_saved(initial_agent, state_json, options))

    @classmethod
    async def from_string(
        cls, initial_agent: Agent[Any], state_string: str, **options: Unpack[LoadOptions]
    ) -> RunState[Any]:
        """Load the state that `to_string` made; the options are those of `from_json`."""
        given = from_text(state_string, options.get("max_bytes", MAX_BYTES))
        return await cls.from_json(initial_agent, given, **options)

    @classmethod
    def from_json_sync(
        cls, initial_agent: Agent[Any], state_json: Mapping[str, Any], **options: Unpack[LoadOptions]
    ) -> RunState[Any]:
        """Load like `from_json`, without `await`; this works inside a notebook's running loop too."""
        return waited_for(cls.from_json(initial_agent, state_json, **options))

    @classmethod
    def from_string_sync(
        cls, initial_agent: Agent[Any], state_string: str, **options: Unpack[LoadOptions]
    ) -> RunState[Any]:
        """Load like `from_string`, without `await`; this works inside a notebook's running loop too."""
        return waited_for(cls.from_string(initial_agent, state_string, **options))

    @classmethod
    def load_sync(
        cls, journal: Journal | str, run_id: str, agent: Agent[Any], **options: Unpack[ContextOptions]
    ) -> RunState[Any]:
        """Load like `load`, without `await`; this works inside a notebook's running loop too."""
        return waited_for(cls.load(journal, run_id, agent, **options))

    @classmethod
    async def from_openai_agents(
        cls,
        initial_agent: Agent[Any],
        data: Mapping[str, Any] | str,
        *,
        trust: bool = False,
        **options: Unpack[TakeoverOptions],
    ) -> RunState[Any]:
        """Take over a paused state that openai-agents saved, as a dict or as text, for the agent that began its run.

        Such a state has no seal, so that `trust=True` must be said. What waits there waits here, what was decided there
        and not yet carried out is said on the state, what was started there without a result is in doubt. What cannot
        be carried is refused by its name. The context comes back as with `from_json`.
        """
        return await cls.taken_over(await take_over(initial_agent, data, trust=trust, **options))

    @classmethod
    async def taken_over(cls, taken: TakenOver) -> RunState[Any]:
        """Make a state of a run that was taken over, with what was decided there said on it."""
        live, said, words = taken
        state = await cls.of(live, said)
        for call, word in words.items():
            state._carry(call, word)
        return state

    def _carry(self, call: str, word: TakenOverDecision) -> None:
        """Say a decision of another SDK on a waiting call; one that the call's terms do not take leaves it waiting."""
        item = self._interruptions.get(call)
        try:
            if item is None:  # a standing decision covers it
                return
            if word.verdict == "approve":
                self.approve(item, word.always, note=NOTE)
            else:
                self.reject(item, word.always, rejection_message=word.message, note=NOTE)
        except KeyturnError as error:
            warnings.warn(
                f"the decision made there is not imported, the call requires approval again: {error}", stacklevel=3
            )

    @classmethod
    async def load(
        cls,
        journal: Journal | str,
        run_id: str,
        agent: Agent[Any],
        **options: Unpack[ContextOptions],
    ) -> RunState[Any]:
        """Load a run from a journal or its URL; `context` replaces the one that was saved with the run.

        The saved one is made by `context_deserializer`, or as a `context_type`, which `Agent[Ctx]` says as well.
        """
        return await cls.of(await found(checked_journal(journal, run_id, agent), run_id, lambda _: agent, options))

    @classmethod
    async def of(cls, live: OpenRun, said: UndeliveredDecisions | None = None) -> RunState[Any]:
        """Make a state of a log that was read: its agents are there, its waiting calls looked up."""
        for frame in live.run.frames.values():
            live.graph.agent(frame.agent)
        live.context.usage = Usage.of(live.run.replies, live.run.usage)
        state = cls.at(live, len(live.log), await waiting_requests(live))
        state._said = said or UndeliveredDecisions()
        return state
