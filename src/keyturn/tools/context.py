"""The run as the code it calls sees it: the user's context, the usage so far, the current call.

It stands in this room because tools are called with it. A wrapper carries the user's object and answers
questions. It decides nothing by itself: a decision given here waits in `decisions` until the run takes it up,
and what stands already is asked of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, Protocol, Required, TypedDict, Unpack

from ..core.errors import UserError
from ..core.events import Decision
from ..core.items import Item, own_copy
from ..core.settable import Settable
from ..models.base import Usage

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    from typing_extensions import TypeVar

TContext = TypeVar("TContext", default=Any)

Known = Callable[[str, str], tuple[bool | None, str | None]]


class WaitingCall(Protocol):
    """What is decided through a wrapper: a waiting call, one of a result's `interruptions`."""

    @property
    def name(self) -> str | None:
        """Return the tool's name."""
        ...

    @property
    def qualified_name(self) -> str | None:
        """Return the tool's name with the namespace or server it belongs to."""
        ...

    @property
    def call_id(self) -> str | None:
        """Return the provider's label of the call."""
        ...


class WrapperDecision(NamedTuple):
    """Holds a decision given through a wrapper that the run has not taken up yet."""

    verb: Literal["approve", "reject"]
    item: Any
    always: bool
    message: str | None


@dataclass(eq=False, init=False)
class RunContextWrapper(Settable, Generic[TContext]):
    """Carries the user's context and the run's usage to tools, hooks, guardrails and instructions.

    `resources` is what the lifespan of the run's app yielded, None without one.

    >>> RunContextWrapper({"user": "ann"}).context["user"]
    'ann'
    """

    context: TContext
    usage: Usage = field(default_factory=Usage)
    turn_input: list[Item] = field(default_factory=list[Item])
    tool_input: Any = None
    decisions: list[WrapperDecision] = field(default_factory=list[WrapperDecision], kw_only=True, repr=False)
    known: Known | None = field(default=None, kw_only=True, repr=False)
    resources: Any = field(default=None, kw_only=True, repr=False)
    # Keeps a server for as long as the run's app is at work; None where the caller connects servers.
    keep_server: Callable[[Any], Awaitable[None]] | None = field(default=None, kw_only=True, repr=False)

    def __init__(
        self,
        context: TContext,
        usage: Usage | None = None,
        turn_input: list[Item] | None = None,
        tool_input: Any = None,
        *,
        decisions: list[WrapperDecision] | None = None,
        known: Known | None = None,
        resources: Any = None,
        keep_server: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        # One is made for every frame: an update of a dict is as cheap as it gets.
        self.__dict__.update(
            context=context,
            usage=Usage() if usage is None else usage,
            turn_input=[] if turn_input is None else turn_input,
            tool_input=tool_input,
            decisions=[] if decisions is None else decisions,
            known=known,
            resources=resources,
            keep_server=keep_server,
        )

    @property
    def deps(self) -> TContext:
        """Return the user's object, under the name that programs of Pydantic AI know."""
        return self.context

    def around(self, context: object) -> RunContextWrapper[Any]:
        """Wrap another context for the same run: its usage goes on counting, and its app's resources are there."""
        return RunContextWrapper(context, self.usage, resources=self.resources, keep_server=self.keep_server)

    def approve_tool(self, approval_item: WaitingCall, always_approve: bool = False) -> None:
        """Approve a waiting call; with `always_approve`, later calls of the same tool of the same agent too."""
        _check(approval_item)
        if getattr(approval_item, "kind", "approval") == "external":
            raise UserError("this call waits for an answer and not for an approval; use answer() of its RunState")
        self.decisions.append(WrapperDecision("approve", approval_item, always_approve, None))

    def reject_tool(
        self, approval_item: WaitingCall, always_reject: bool = False, rejection_message: str | None = None
    ) -> None:
        """Reject a waiting call; `rejection_message` is what the model is told."""
        _check(approval_item)
        self.decisions.append(WrapperDecision("reject", approval_item, always_reject, rejection_message))

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return whether a call was approved (True) or rejected (False); None while nobody has decided."""
        return self._status(tool_name, call_id)[0]

    def get_approval_status(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
        existing_pending: object = None,
        tool_lookup_key: object = None,
        current_invocation: object = None,
    ) -> bool | None:
        """Return the same as `is_tool_approved`.

        The keywords are taken for compatibility: the run knows the call better.
        """
        return self._status(tool_name, call_id)[0]

    def get_rejection_message(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
        existing_pending: object = None,
        tool_lookup_key: object = None,
    ) -> str | None:
        """Return the words that came with a rejection, None where there were none."""
        return self._status(tool_name, call_id)[1]

    def _status(self, tool_name: str, call_id: str) -> tuple[bool | None, str | None]:
        standing: WrapperDecision | None = None
        for given in reversed(self.decisions):
            if tool_name not in (given.item.name, given.item.qualified_name):
                continue
            if given.item.call_id == call_id:
                return given.verb == "approve", given.message
            if given.always and standing is None:
                # A decision for the very call beats a standing one, whichever came last.
                standing = given
        if standing is not None:
            return standing.verb == "approve", standing.message
        return self.known(tool_name, call_id) if self.known is not None else (None, None)


def _check(item: object) -> None:
    if getattr(item, "call_id", None) is None:
        raise UserError(f"only a waiting call can be decided, one of `interruptions`, not {type(item).__name__!r}")


class LetRun(TypedDict, total=False):
    """Records what a call was let run as: its tool compares with that before it acts."""

    tool_arguments: Required[str]
    tool_digest: str
    basis: dict[str, str] | None
    resumed: Any
    screened: bool


class CallFacts(LetRun, total=False):
    """Holds what a `ToolContext` knows of its call beside what every wrapper knows."""

    tool_name: Required[str]
    tool_call_id: Required[str]
    tool_call: Any
    agent: Any
    run_config: Any
    idempotency_key: str
    approval: Decision | None
    run_id: str


class ToolContext(RunContextWrapper[TContext]):
    """The context of one tool call: the wrapper, and which call this is.

    `tool_arguments` is the text that runs. `idempotency_key` is the same whenever this call is tried again.
    `approval` is the decision that let it run (`by`, `at`, `note`, `verdict`), None where nobody was asked, and `basis`
    what its preview was made of then. `tool_digest` is that of the tool when the call was let run. `screened` says that
    somebody was asked about the call: a person, a policy, or a callable of its tool. `resumed` holds the answers that a
    call which needed input goes on with.

    >>> context = ToolContext(None, tool_name="pay", tool_call_id="c1", tool_arguments='{"amount": 3}')
    >>> context.tool_name, context.tool_arguments
    ('pay', '{"amount": 3}')
    """

    tool_name: str = ""
    tool_call_id: str = ""
    tool_arguments: str = ""
    tool_call: Any = None
    agent: Any = None
    run_config: Any = None
    idempotency_key: str = ""
    approval: Decision | None = None
    run_id: str = ""
    tool_digest: str = ""
    basis: dict[str, str] | None = None
    resumed: Any = None
    screened: bool = True

    def __init__(
        self,
        context: TContext,
        usage: Usage | None = None,
        tool_name: str = "",
        tool_call_id: str = "",
        tool_arguments: str = "",
        tool_call: Any = None,
        *,
        agent: Any = None,
        run_config: Any = None,
        turn_input: list[Item] | None = None,
        tool_input: Any = None,
        idempotency_key: str = "",
        approval: Decision | None = None,
        run_id: str = "",
    ) -> None:
        super().__init__(context, usage, turn_input, tool_input)
        self.__dict__.update(
            tool_name=tool_name,
            tool_call_id=tool_call_id,
            tool_arguments=tool_arguments,
            tool_call=tool_call,
            agent=agent,
            run_config=run_config,
            idempotency_key=idempotency_key,
            approval=approval,
            run_id=run_id,
        )

    @property
    def tool_call_approved(self) -> bool:
        """Return whether somebody approved exactly this call."""
        return self.approval is not None and self.approval.verdict in ("approve", "edit")

    @property
    def tool_call_metadata(self) -> Any:
        """Return the metadata that came with the approval of this call, None where there was none."""
        return own_copy(self.approval.metadata) if self.approval is not None and self.tool_call_approved else None

    @classmethod
    def of(cls, wrapper: RunContextWrapper[TContext], **call: Unpack[CallFacts]) -> ToolContext[TContext]:
        """Make the context of one call: it shares context, usage and decisions with `wrapper`, and copies nothing.

        >>> wrapper = RunContextWrapper({"user": "ann"})
        >>> context = ToolContext.of(wrapper, tool_name="pay", tool_call_id="c1", tool_arguments="{}")
        >>> context.usage is wrapper.usage
        True
        """
        made = cls.__new__(cls)
        # One is made for every call: two updates of a dict are as cheap as it gets.
        made.__dict__.update(wrapper.__dict__)
        made.__dict__.update(call)
        return made
