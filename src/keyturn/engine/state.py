"""A handle on a run at a position, with the decisions that were not delivered yet.

A state decides nothing by itself: what is decided on it is kept with it, and appended in one step when the run is
resumed. Two states of one result share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, Unpack

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper, TContext
from ..core import events as ev
from ..core.codec import Log
from ..core.errors import Conflict, Expired, NotPending, UserError
from ..core.items import Item
from ..journal import opened
from ..journal.base import Journal
from ..models.base import Usage
from ..policies.grants import Grant, GrantWords
from .blob import MAX_BYTES, Blob, from_text, pack, to_text
from .context_data import dump_context
from .facts import checked_items, jsonable
from .graph import Graph
from .items import ToolApprovalItem
from .live import Live, new_id, wrapped
from .loading import LoadOptions, found, restored, waiting_tools
from .project import used
from .recent import keep
from .requests import requests_of
from .undelivered import Undelivered, edited_text

_OUTCOMES = ("ran", "did_not_run", "retry")


class RunState(Generic[TContext]):
    """A paused run in hand: look at its interruptions, decide them, save it, resume it.

    >>> from keyturn import Agent, RunState
    >>> state = RunState(context=None, original_input="hi", starting_agent=Agent(name="a"))
    >>> state.get_interruptions()
    []
    """

    def __init__(
        self,
        context: TContext | RunContextWrapper[TContext],
        original_input: str | list[Any],
        starting_agent: Agent[Any],
        max_turns: int | None = 10,
        *,
        conversation_id: str | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
    ) -> None:
        self._live = Live(Log(), Graph(starting_agent), wrapped(context))
        self._live.log.run.id, self._live.handed_out = new_id(), True
        self._position = 0
        self._interruptions: dict[str, ToolApprovalItem] = {}
        self._said = Undelivered(
            start={
                "input": original_input if isinstance(original_input, str) else checked_items(original_input),
                "max_turns": max_turns,
                "conversation_id": conversation_id,
                "previous_response_id": previous_response_id,
                "auto_previous_response_id": auto_previous_response_id,
            }
        )

    @classmethod
    def at(cls, live: Live, position: int, interruptions: list[ToolApprovalItem]) -> RunState[Any]:
        """A state of a run in hand; decisions given on its context come along."""
        state: RunState[Any] = cls.__new__(cls)
        live.handed_out = True
        state._live, state._position, state._said = live, position, Undelivered()
        state.settled(interruptions)
        for given in live.context.decisions:
            if given.item.call not in state._interruptions:
                continue
            if given.verb == "approve":
                state.approve(given.item, given.always)
            else:
                state.reject(given.item, given.always, rejection_message=given.message)
        return state

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._live.run.id

    @property
    def live(self) -> Live:
        """The run this is a handle on."""
        return self._live

    @property
    def position(self) -> int:
        """How far the run had come when this state was made, or last resumed."""
        return self._position

    @property
    def undelivered(self) -> Undelivered:
        """What was said here and not delivered yet."""
        return self._said

    def delivered(self, position: int, said: Undelivered) -> None:
        """What was said by then is in the log now."""
        self._said, self._position = self._said.since(said), position

    def moved(self, position: int) -> None:
        """The run came this far under this state."""
        self._position = position

    def settled(self, interruptions: list[ToolApprovalItem]) -> None:
        """The calls that wait now."""
        self._interruptions = {item.call: item for item in interruptions}

    @property
    def usage(self) -> Usage:
        """What the run had used, as of this state."""
        return used(self._live.log.steps[: self._position])

    @property
    def context(self) -> RunContextWrapper[Any]:
        """The context with which the run will be resumed."""
        return self._live.context

    @property
    def grants(self) -> list[ev.GrantTerms]:
        """The standing decisions of the run, those not delivered yet included."""
        return [*self._live.run.grants.values(), *self._said.grants.values()]

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """The calls that wait; those decided here stay listed until the run is resumed, so that minds can change."""
        return list(self._interruptions.values())

    def approve(
        self,
        approval_item: Any,
        always_approve: bool = False,
        *,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Let exactly this call run.

        `edit` gives other arguments, whole (or the text, of a tool that takes one): they are validated now and run as
        they are. `always_approve=True` or a `Grant` approves later calls of the same tool of the same agent too.
        """
        item = self._pending(approval_item, "approval", "resolve()")
        if item.kind == "external":
            raise NotPending("this call waits for an answer and not for an approval; use answer() or reject()")
        args = None if edit is None else edited_text(item, edit, self._live.run.calls.get(item.call))
        verdict = "approve" if args is None else "edit"
        self._say(item, verdict, by=by, note=note, args=args)
        if always_approve or grant is not None:
            self._stand(item, grant or Grant(), "approve", None, by)

    def reject(
        self,
        approval_item: Any,
        always_reject: bool = False,
        *,
        rejection_message: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Refuse this call; the run goes on and the model is told `rejection_message`."""
        item = self._pending(approval_item, "approval", "resolve()")
        self._say(item, "reject", by=by, note=note, message=rejection_message)
        if always_reject:
            self._stand(item, Grant(), "reject", rejection_message, by)

    def answer(self, approval_item: Any, output: Any, *, note: str | None = None, by: str | None = None) -> None:
        """Give the model a person's own result; the tool does not run."""
        item = self._pending(approval_item, "approval", "resolve()")
        if item.tool is not None and not item.tool.answerable:
            raise UserError(f"{item.name!r} runs elsewhere, nobody can answer in its place; approve() or reject() it")
        self._say(item, "answer", by=by, note=note, output=jsonable(output))

    def resolve(
        self,
        approval_item: Any,
        outcome: Literal["ran", "did_not_run", "retry"],
        output: Any = None,
        *,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say what became of a call in doubt: it ran (with this output), it did not, or it shall be tried again."""
        if outcome not in _OUTCOMES:
            raise UserError(f"a call in doubt ran, did_not_run or is to retry, not {outcome!r}")
        item = self._pending(approval_item, "in_doubt", "approve(), reject() or answer()")
        self._say(item, outcome, by=by, note=note, output=jsonable(output))

    def add_input(self, message: str | list[Any]) -> None:
        """Add a message that the model reads after the results of its calls, at its next turn."""
        if self._live.run.status in ("finished", "cancelled"):
            raise UserError("this run is over; start another run with the message")
        self._said.input = [*self._said.input, *checked_items(message)]

    @property
    def pending_input(self) -> list[Item]:
        """Messages added here and not delivered yet."""
        return list(self._said.input)

    def clear_pending_input(self) -> None:
        """Take back messages that were not delivered."""
        self._said.input = []

    def _pending(self, item: Any, kind: str, other: str) -> ToolApprovalItem:
        call, run_id, digest = (getattr(item, name, None) for name in ("call", "run_id", "digest"))
        waiting = self._interruptions.get(call) if isinstance(call, str) else None
        if waiting is None or (waiting.run_id, waiting.digest) != (run_id, digest):
            raise NotPending("no call of this state waits for that decision; take an item of get_interruptions()")
        if waiting.call not in self._live.run.calls:
            raise Conflict("this state is stale: its run went on and settled that call; go on from the newer state")
        if (waiting.kind == "in_doubt") != (kind == "in_doubt"):
            raise NotPending(f"this call is {waiting.kind}; use {other}")
        if waiting.expires_at is not None and self._live.clock() > waiting.expires_at:
            raise Expired("this request ran out of time; resume the run and its model is told so")
        return waiting

    def _say(self, item: ToolApprovalItem, verdict: str, **words: Any) -> None:
        self._said.say(ev.Decision(item.call, verdict, item.digest, self._live.clock(), **words))

    def _stand(self, item: ToolApprovalItem, grant: Grant, verdict: str, message: str | None, by: str | None) -> None:
        call, now = self._live.run.calls[item.call], self._live.clock()
        words: GrantWords = {"verdict": verdict, "message": message, "by": by}
        self._said.grants[item.call] = grant.terms(new_id(), call.agent, call.proposal.tool, now, **words)

    def to_json(
        self,
        *,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> dict[str, Any]:
        """The state as a plain dict, authenticated; `schema_version` names its form."""
        context = dump_context(self._live.context, context_serializer, strict=strict_context)
        log = self._live.log.text(self._position)
        keep(self.run_id, self._live.log)
        return pack(Blob(self.run_id, self._live.graph.root.name, context, log, self._said.text()))

    def to_string(
        self,
        *,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> str:
        """The same as text."""
        return to_text(self.to_json(context_serializer=context_serializer, strict_context=strict_context))

    @classmethod
    async def from_json(
        cls, initial_agent: Agent[Any], state_json: Mapping[str, Any], **options: Unpack[LoadOptions]
    ) -> RunState[Any]:
        """The state that `to_json` made, for the agent that started its run.

        `context_override` takes the saved context's place, `context_deserializer` makes it of its data, and
        `strict_context=True` refuses to load it as less than it was. Unsigned states need `allow_unsigned=True`.
        """
        live, said = restored(initial_agent, state_json, options)
        return await cls.of(live, said)

    @classmethod
    async def from_string(
        cls, initial_agent: Agent[Any], state_string: str, **options: Unpack[LoadOptions]
    ) -> RunState[Any]:
        """The state that `to_string` made; the options are those of `from_json`."""
        limit = options.get("max_bytes", MAX_BYTES)
        return await cls.from_json(initial_agent, from_text(state_string, limit), **options)

    @classmethod
    async def load(
        cls,
        journal: Journal | str,
        run_id: str,
        agent: Agent[Any],
        *,
        context: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
    ) -> RunState[Any]:
        """Find a run again in a journal or its URL. `context` takes the place of the one that was kept with the run."""
        journal = opened(journal) if isinstance(journal, str) else journal
        return await cls.of(await found(journal, run_id, lambda _name: agent, context, context_deserializer))

    @classmethod
    async def of(cls, live: Live, said: Undelivered | None = None) -> RunState[Any]:
        """A state of a log that was read: its agents are there, its waiting calls looked up."""
        for frame in live.run.frames.values():
            live.graph.agent(frame.agent)
        live.context.usage = Usage.of(live.run.replies, live.run.usage)
        state = cls.at(live, len(live.log), requests_of(live, await waiting_tools(live)))
        state._said = said or Undelivered()
        return state
