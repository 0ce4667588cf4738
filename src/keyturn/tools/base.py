"""The seam to a tool: how one kind of tool says what it is, what will run, and runs it.

A tool never decides whether it may run; the gate does. It must not know runs, journals or how
decisions are made. A new kind of tool is one member file that subclasses `Tool`.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from ..core.digest import canonical, digest
from ..core.errors import ModelBehaviorError
from ..core.items import Item
from ..core.policy import Approval
from ..core.preview import Json, Preview, redact

TOOL_FAILED = "An error occurred while running the tool. Please try again."
NeedsApproval = bool | Callable[[Any, Any, str], bool | Awaitable[bool]]


class Prepared(msgspec.Struct, frozen=True):
    """What will run: the frozen text of the arguments and the same as a value.

    `exact` says that `text` is the model's own text, byte for byte.
    """

    text: str
    params: Any
    exact: bool = False


class InvalidArguments(ModelBehaviorError):
    """The model's arguments do not fit the tool; the message is the call's result.

    >>> issubclass(InvalidArguments, ModelBehaviorError)
    True
    """


class OutcomeUnknown(Exception):
    """A tool was started and nobody can tell how it ended: the call is in doubt."""


@dataclass(frozen=True)
class Delegate:
    """A tool's answer that another agent must give the answer: a nested frame is opened.

    The engine opens the frame inside the same run, so approvals at any depth surface on it.
    """

    agent: Any
    input: str | list[Item]
    max_turns: int | None = None


@dataclass(frozen=True)
class Handover:
    """A tool's answer that another agent goes on with this conversation."""

    agent: Any
    text: str
    input_filter: Callable[[Any], Any] | None = None


class Tool(abc.ABC):
    """One tool an agent can use. Subclass it to bring a kind of your own.

    The class attributes are the settings that every kind shares; a kind sets those it supports. `announced` says
    whether tool hooks are told of it.

    >>> class Echo(Tool):
    ...     kind, name = "echo", "echo"
    ...     def spec(self): return {"name": self.name}
    ...     def prepare(self, item): return Prepared(item["arguments"], {}, exact=True)
    ...     async def invoke(self, context, prepared): return prepared.text
    ...     def output(self, item, value):
    ...         return {"type": "function_call_output", "call_id": item["call_id"], "output": value}
    >>> Echo().prepare({"arguments": "{}"}).params
    {}
    """

    kind: ClassVar[str]
    call_type: ClassVar[str] = "function_call"
    name: str

    needs_approval: NeedsApproval = False
    on_approval: Callable[[Any, Any], Any] | None = None
    approval: Approval | None = None
    is_enabled: bool | Callable[[Any, Any], bool | Awaitable[bool]] = True
    tool_input_guardrails: list[Any] | None = None
    tool_output_guardrails: list[Any] | None = None
    idempotent: bool = False
    read_only: bool = False
    check: Callable[..., Any] | None = None
    risk: str | None = None
    secrets: tuple[str, ...] = ()
    after_siblings: bool = False
    announced: bool = True
    known_spec: tuple[dict[str, Any], str] | None = None

    # For a kind that answers with `Delegate` or `Handover`: whom to, so that a saved run finds that agent again, and
    # what a nested agent runs under, where None leaves it to the agent that called.
    agent: Any = None
    run_config: Any = None
    hooks: Any = None
    session: Any = None
    conversation_id: str | None = None
    previous_response_id: str | None = None
    on_stream: Callable[[Any], Any] | None = None
    structured: Any = None
    custom_output_extractor: Callable[[Any], Any] | None = None

    @abc.abstractmethod
    def spec(self) -> dict[str, Any]:
        """What identifies the tool and what the model was told of it, as JSON: part of every approval."""

    @abc.abstractmethod
    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """The model's call as what will run, or `InvalidArguments`."""

    @abc.abstractmethod
    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        """Run the call. The value goes to `output`; `Delegate` and `Handover` steer the run."""

    @abc.abstractmethod
    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        """The call's result as the item that the model reads."""

    def edit(self, params: Any) -> Prepared:
        """What will run when a person changed the arguments to `params`, or `InvalidArguments`."""
        return self.prepare({"arguments": canonical(params)})

    def subject(self, params: Any) -> Any:
        """What a `needs_approval` callable is given. The default is the arguments themselves."""
        return params

    async def failure(self, context: Any, error: Exception) -> Any:
        """What the model is told when `invoke` raised; raise to let the run fail instead."""
        return TOOL_FAILED

    def preview(self, params: Any) -> Preview:
        """What the approver sees. The default is the arguments themselves."""
        return Preview((Json(redact(params, self.secrets)),))


def tool_digest(tool: Tool) -> str:
    """The digest of what a tool is, computed once per tool object and spec."""
    spec = tool.spec()
    if tool.known_spec is None or tool.known_spec[0] is not spec:
        tool.known_spec = (spec, digest(spec))
    return tool.known_spec[1]
