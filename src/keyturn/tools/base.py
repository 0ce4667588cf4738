"""The seam to a tool: how one kind of tool describes itself, prepares a call and runs it.

A tool never decides whether it may run; the gate does. It must not know runs, journals or how
decisions are made. A new kind of tool is one member file that subclasses `Tool`.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import msgspec

from ..core.approval import Approval
from ..core.digest import canonical, digest
from ..core.errors import ModelBehaviorError, UserError
from ..core.immutable import immutable
from ..core.items import Item, own_copy
from ..core.nested_agent import NestedAgent
from ..core.preview import Preview, plain_preview
from ..core.preview import not_blank as not_blank
from ..core.preview import redacts as redacts
from ..core.preview import shown_preview as shown_preview
from ..core.records import WANTS, Wants
from ..core.retyped import retyped
from ..core.settable import CALLBACK, ENTRIES, FLAG, SWITCH, Constructed, Rule, described, is_ours, must, refusal
from ..core.strict import parse

TOOL_FAILED = "An error occurred while running the tool. Please try again."
TOOL_CHANGED = "The tool was not run: it changed after the call was allowed. Call it again."
NeedsApproval = bool | Callable[[Any, Any, str], bool | Awaitable[bool]]


class Prepared(msgspec.Struct, frozen=True):
    """Holds what will run: the frozen text of the arguments, and nothing else that could differ from it.

    >>> prepared = Prepared('{"to":["ann"]}')
    >>> prepared.params["to"].append("eve")
    >>> prepared.params
    {'to': ['ann']}
    """

    text: str

    @property
    def params(self) -> Any:
        """Parse the arguments from the text each time: nobody else holds the value, so nobody can edit it."""
        return parse(self.text or "{}")


class InvalidArguments(ModelBehaviorError):
    """Raised where the model's arguments do not fit the tool; the message is the call's result.

    >>> issubclass(InvalidArguments, ModelBehaviorError)
    True
    """


class OutcomeUnknown(Exception):
    """Raised where a tool was started and its outcome is unknown: the call is in doubt."""


def asked_late(error: Asking, done: int) -> Exception:
    """Return what to raise of a call that asks once `done` of its parts are done: then it cannot begin anew."""
    words = f"it required a decision when {done} of its parts were done, and the rest was not"
    return OutcomeUnknown(words) if done else error


class ToolProblem(Exception):
    """Raised for a failure in a tool, in words for the model: `failure` passes them on as they are.

    >>> str(ToolProblem("there is no file notes.txt"))
    'there is no file notes.txt'
    """

    @cached_property
    def message(self) -> str:
        """Return what its model is told."""
        return str(self)


@dataclass(frozen=True)
class Delegate:
    """Returned by a tool to let another agent give the answer: a nested frame is opened.

    The engine opens the frame inside the same run, so approvals at any depth surface on it.
    """

    agent: Any
    input: str | list[Item]
    max_turns: int | None = None


@dataclass(frozen=True)
class Handover:
    """Returned by a tool to let another agent go on with this conversation."""

    agent: Any
    text: str
    input_filter: Callable[[Any], Any] | None = None


class Asking(Exception):
    """Raised in a tool, at any depth of it, in place of returning `needs`."""

    needs: NeedsInput

    @property
    def message(self) -> str:
        """Return what it says, as every error of ours does."""
        return str(self)


@dataclass(eq=False)
class NeedsInput(Asking):
    """Returned, or raised, by a tool that cannot end before people answer something.

    The call waits, for as long as it takes and across processes. Then `invoke` is called again, with
    `context.resumed`. `requests` says what is asked, `state` is what the tool goes on from, both as JSON.

    With `here` the call stands open in this process, and goes on nowhere else; it is gone with the process.

    `wants` says what for. With "result" the answer is the call's result, and the tool is not called again. With
    "approval" the call has done nothing yet: it asks like any other, and is called anew when it is approved.

    >>> NeedsInput({"question": "Which account?"}).state is None
    True
    """

    requests: Any
    state: Any = None
    preview: Preview | None = None
    wants: Wants = "answer"
    here: bool = False

    def __post_init__(self) -> None:
        super().__init__("the call needs an answer of a person")
        if self.wants not in WANTS:
            raise UserError(f"wants of NeedsInput is one of {', '.join(WANTS)}, not {self.wants!r}")
        if self.state is not None and self.wants != "answer":
            raise UserError(f"state of NeedsInput is for a tool that continues; with wants={self.wants!r} none does")

    @property
    def needs(self) -> NeedsInput:  # pyright: ignore[reportIncompatibleVariableOverride]  # what is raised is the needs
        """Return itself: what is raised is what would be returned."""
        return self


@immutable
@dataclass(frozen=True)
class Resumed:
    """Holds what a call that needed input goes on with: the answers, or None where somebody refused.

    >>> Resumed(None, "Which account?", None, "not today", refused=True).message
    'not today'
    """

    state: Any
    requests: Any
    answers: Any
    message: str | None = None
    refused: bool = False


def text_noticed(item: Item, notice: str) -> Item:
    """Put words for the model in front of a result whose output is a text or a list of content.

    >>> text_noticed({"output": "paid"}, "A person changed the amount.")["output"]
    'A person changed the amount.\\n\\npaid'
    """
    output = item.get("output")
    if isinstance(output, str):
        return {**item, "output": f"{notice}\n\n{output}"}
    if isinstance(output, list):
        return {**item, "output": [{"type": "input_text", "text": notice}, *output]}
    return item


class ProviderTool(Constructed, abc.ABC):
    """Describes a tool that the provider runs: only its definition is ours, and no gate sees its calls.

    >>> class Radio(ProviderTool):
    ...     name = "radio"
    ...     provider = "openai"
    ...     def provider_tool(self): return {"type": "radio"}
    >>> Radio().provider_tool()
    {'type': 'radio'}
    """

    name: ClassVar[str]
    #: Whose words `provider_tool()` is in; a model of anybody else refuses such a tool.
    provider: ClassVar[str]

    _remedies: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("needs_approval", "on_approval", "approval", "tool_input_guardrails", "tool_output_guardrails"),
        "the provider runs this tool, and its calls cannot be approved here; remove it from the agent's tools",
    )

    @abc.abstractmethod
    def provider_tool(self) -> Item:
        """Return the tool's definition for the provider."""


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _nested(tool: Tool, name: str, value: object) -> Any:
    if is_ours(tool.__class__):
        raise AttributeError(
            f"{name!r} of {described(tool)} cannot be set: Agent.as_tool(...) makes a tool that answers by an agent"
        )
    if not isinstance(value, NestedAgent | None):
        raise refusal(tool, name, "a NestedAgent(...) or None", value)
    return value


_AGENT_OPTIONS = (
    "agent", "run_config", "hooks", "session", "conversation_id", "previous_response_id", "on_stream",
    "custom_output_extractor",
)  # fmt: skip
TOOL_RULES: dict[str, Rule] = {
    "name": must(_is_name, "a non-empty string"),
    "needs_approval": SWITCH,
    "on_approval": CALLBACK,
    "approval": must(lambda value: isinstance(value, Approval | None), "an Approval(...) or None"),
    "is_enabled": SWITCH,
    "tool_input_guardrails": ENTRIES,
    "tool_output_guardrails": ENTRIES,
    "check": CALLBACK,
    "risk": must(lambda value: isinstance(value, str | None), "a string or None"),
    "secrets": must(lambda value: isinstance(value, tuple), "a tuple of names of parameters"),
    **dict.fromkeys(
        ("idempotent", "read_only", "after_siblings", "announced", "answerable", "editable", "final"), FLAG
    ),
    **dict.fromkeys(("keeps_context", "hosted"), FLAG),
    "nested": _nested,
}


class Tool(Constructed, abc.ABC):
    """One tool that an agent can use; subclass it to bring a kind of your own.

    The class attributes are what every kind shares; a kind sets those it supports.

    >>> class Echo(Tool):
    ...     kind, name = "echo", "echo"
    ...     def spec(self): return {"name": self.name}
    ...     def prepare(self, item): return Prepared(item["arguments"])
    ...     async def invoke(self, context, prepared): return prepared.text
    ...     def output(self, item, value):
    ...         return {"type": "function_call_output", "call_id": item["call_id"], "output": value}
    >>> Echo().prepare({"arguments": "{}"}).params
    {}
    """

    kind: ClassVar[str]  # the kind's name, such as "function"
    call_type: ClassVar[str] = "function_call"  # the type of its calls in a reply
    call_field: ClassVar[str | None] = "name"  # the field of a call that names the tool, if any
    also_function: ClassVar[bool] = False  # it can be called as a function of its name too
    identity: ClassVar[tuple[str, ...]] = ()  # the fields of a call that are part of what the tool is
    looks: ClassVar[bool] = False  # the preview is of the world as it is; an approval is void once that changed
    notice: Callable[[Item, str], Item] = staticmethod(text_noticed)  # puts words for the model in front of a result
    name: str  # the name under which the model calls it

    own_questions_only: ClassVar[bool] = False  # in line it approves no call about which a policy asks
    needs_approval: NeedsApproval = False  # whether its calls ask, or a callable that says so
    on_approval: Callable[[Any, Any], Any] | None = None  # True or False decides a waiting call in line
    approval: Approval | None = None  # the terms on which its calls may be approved
    # Whether it is offered in a run, or a callable that says so.
    is_enabled: bool | Callable[[Any, Any], bool | Awaitable[bool]] = True
    tool_input_guardrails: list[Any] | None = None  # check a call's arguments before it runs
    tool_output_guardrails: list[Any] | None = None  # check a result before the model reads it
    idempotent: bool = False  # a call that is repeated has no second effect
    read_only: bool = False  # it changes nothing, so that a lost call may be repeated
    check: Callable[..., Any] | None = None  # says of a call in doubt whether its effect happened
    risk: str | None = None  # what it states of its risk, for policies
    secrets: tuple[str, ...] = ()  # the parameters that people are not shown
    blocking: bool = False  # a call works in a worker thread: it starts once one is free
    after_siblings: bool = False  # its calls run after the others of a reply
    announced: bool = True  # tool hooks hear of it, and its result can be the agent's
    answerable: bool = True  # a person may give the result in its place
    # Makes the item of the next question by which the provider runs a call; None where it runs here.
    go_ahead: ClassVar[Callable[[Mapping[str, Any]], Item] | None] = None
    claimed: ClassVar[bool] = False  # a caller outside carries out its calls, each once it has claimed it
    final: bool = False  # an approval that is not executed in time ends the call, and it does not ask again
    editable: bool = True  # a person may change the arguments
    keeps_context: bool = False  # its calls change the run's context, which is recorded with their results
    hosted: bool = False  # the provider runs the calls, so that a reply may hold results
    known_spec: tuple[dict[str, Any], str] | None = None  # a cached spec and its digest
    nested: NestedAgent | None = None  # the agent to which `Delegate` or `Handover` leads, if it returns one
    _rules = TOOL_RULES
    # What to do in place of setting what only a tool that answers by an agent has.
    _remedies: ClassVar[Mapping[str, str]] = dict.fromkeys(
        _AGENT_OPTIONS, "it is for a tool that answers by an agent, as Agent.as_tool(...) makes one"
    )

    def _described(self) -> str:
        """Return what errors call it."""
        return f"tool {getattr(self, 'name', '')!r}"

    def _refusal(self, name: str, may_be: str, value: object) -> Exception:
        """Return the error for a value that an attribute cannot have."""
        if name == "name":
            return UserError(f"a tool's name must be {may_be}, not {value!r}")
        return UserError(f"tool {self.name!r}: {name} must be {may_be}, not {value!r}")

    @abc.abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return what identifies the tool and what the model was told of it, as JSON: part of every approval."""

    @abc.abstractmethod
    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the model's call into what will run, or raise `InvalidArguments`."""

    @abc.abstractmethod
    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        """Run the call; the value goes to `output`, or is a `Delegate` or `Handover` that steers the run."""

    @abc.abstractmethod
    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        """Return the call's result as the item that the model reads."""

    def edit(self, params: Any) -> Prepared:
        """Return what will run after a person changed the arguments to `params`, or raise `InvalidArguments`."""
        return self.prepare({"arguments": canonical(params)})

    def subject(self, params: Any) -> Any:
        """Return what a `needs_approval` callable is given; the default is the arguments themselves."""
        return params

    async def failure(self, context: Any, error: Exception) -> Any:
        """Return what the model is told when `invoke` raised; raise to let the run fail instead."""
        return str(error) if isinstance(error, ToolProblem) else TOOL_FAILED

    @redacts
    def preview(self, params: Any) -> Preview | Awaitable[Preview]:
        """Return what the approver sees; the default is the arguments themselves."""
        return plain_preview(params, self.secrets)


def stands_for_several(tool: Tool) -> bool:
    """Return whether calls name the tool that they mean, and this one is what brings those, as a server does."""
    return "name" in tool.identity


def as_typed(tool: Tool, wanted: Any) -> Prepared:
    """Return what will run after a person changed the arguments, each of the JSON type in which they wrote it.

    A model's "5" may be read as a number. A person means what they type, and is told where a tool takes another type.
    """
    made = tool.edit(wanted)
    for place, given, takes in retyped(wanted, made.params, ""):
        raise InvalidArguments(f"{place} is {given}, and {tool.name!r} takes {takes}: write it as that")
    return made


#: What may stand in an agent's `tools`.
ToolLike = Tool | ProviderTool


def tool_digest(tool: Tool, call: Mapping[str, Any] = {}) -> str:
    """Return the digest of what a tool is now; for a tool that is several, that of the one a call means.

    It is computed once for each content: a schema may be changed in place, so that the same dict says nothing.
    """
    if tool.identity:
        return digest(tool_spec(tool, call))
    spec, known = tool.spec(), tool.known_spec
    if known is None or known[0] != spec:
        known = tool.known_spec = (own_copy(spec), digest(spec))
    return known[1]


def tool_spec(tool: Tool, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the tool that a call means, as it is now: nobody can change it afterwards.

    Its members keep their order: people are shown arguments in the order in which a schema declares them.
    """
    if not tool.identity:
        tool_digest(tool)  # which copies it where it is another by now
        assert tool.known_spec is not None
        return tool.known_spec[0]
    made = {**tool.spec(), **{field: call.get(field) for field in tool.identity}}
    canonical(made)  # which refuses what is not exactly JSON
    return _spec_of(msgspec.json.encode(made))


@lru_cache(maxsize=256)
def _spec_of(text: bytes) -> dict[str, Any]:
    """Parse a spec from its text, cached for all runs that record it: none of them changes it or hands it out."""
    return json.loads(text)
