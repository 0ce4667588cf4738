"""The seam to a tool: how one kind of tool says what it is, what will run, and runs it.

A tool never decides whether it may run; the gate does. It must not know runs, journals or how
decisions are made. A new kind of tool is one member file that subclasses `Tool`.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from ..core.digest import canonical, digest
from ..core.errors import ModelBehaviorError
from ..core.items import Item, own_copy
from ..core.policy import Approval
from ..core.preview import Json, Preview, Text, redact
from ..core.strict import parse

TOOL_FAILED = "An error occurred while running the tool. Please try again."
TOOL_CHANGED = "The tool was not run: it is not as it was when the call was let run. Call it again."
NeedsApproval = bool | Callable[[Any, Any, str], bool | Awaitable[bool]]


class Prepared(msgspec.Struct, frozen=True):
    """What will run: the frozen text of the arguments, and nothing else that could say something else.

    >>> prepared = Prepared('{"to":["ann"]}')
    >>> prepared.params["to"].append("eve")
    >>> prepared.params
    {'to': ['ann']}
    """

    text: str

    @property
    def params(self) -> Any:
        """The arguments as a value, read from the text each time: nobody else holds it, so nobody can edit it."""
        return parse(self.text or "{}")


class InvalidArguments(ModelBehaviorError):
    """The model's arguments do not fit the tool; the message is the call's result.

    >>> issubclass(InvalidArguments, ModelBehaviorError)
    True
    """


class OutcomeUnknown(Exception):
    """A tool was started and nobody can tell how it ended: the call is in doubt."""


class ToolProblem(Exception):
    """What went wrong in a tool, in words for the model: `failure` tells it as they are.

    >>> str(ToolProblem("there is no file notes.txt"))
    'there is no file notes.txt'
    """


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


@dataclass(frozen=True)
class NeedsInput:
    """A tool's answer that people must answer something before it can end.

    The call waits, for as long as it takes and across processes. Then `invoke` is called again, with
    `context.resumed`. `requests` says what is asked, `state` is what the tool goes on from, both as JSON.

    >>> NeedsInput({"question": "Which account?"}).state is None
    True
    """

    requests: Any
    state: Any = None
    preview: Preview | None = None


@dataclass(frozen=True)
class Resumed:
    """What a call that needed input goes on with: the answers, or None where somebody refused to give any.

    >>> Resumed(None, "Which account?", None, "not today", refused=True).message
    'not today'
    """

    state: Any
    requests: Any
    answers: Any
    message: str | None = None
    refused: bool = False


def text_noticed(item: Item, notice: str) -> Item:
    """A result with words for the model in front, where its output is a text or a list of content.

    >>> text_noticed({"output": "paid"}, "A person changed the amount.")["output"]
    'A person changed the amount.\\n\\npaid'
    """
    output = item.get("output")
    if isinstance(output, str):
        return {**item, "output": f"{notice}\n\n{output}"}
    if isinstance(output, list):
        return {**item, "output": [{"type": "input_text", "text": notice}, *output]}
    return item


class Tool(abc.ABC):
    """One tool an agent can use. Subclass it to bring a kind of your own.

    The class attributes are what every kind shares; a kind sets those it supports. `call_type` is the type of its
    calls in a reply and `call_field` the field that names the tool there, if any does; `also_function` says that it
    can be called as a function of its name as well; the fields in `identity` are part of what the tool is. `looks`
    says that the preview is made of the world as it is (and may be awaited), so that an approval is void once
    its basis changed. `notice` puts words for the model in front of a result. `announced` says whether tool
    hooks are told of it and its result can be the agent's; `answerable` whether a person may give the result, and
    `editable` whether one may change the arguments. `hosted` says that the provider runs the calls, so that a reply may
    hold their results.

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

    kind: ClassVar[str]
    call_type: ClassVar[str] = "function_call"
    call_field: ClassVar[str | None] = "name"
    also_function: ClassVar[bool] = False
    identity: ClassVar[tuple[str, ...]] = ()
    looks: ClassVar[bool] = False
    notice: Callable[[Item, str], Item] = staticmethod(text_noticed)
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
    answerable: bool = True
    editable: bool = True
    hosted: bool = False
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
        return str(error) if isinstance(error, ToolProblem) else TOOL_FAILED

    def preview(self, params: Any) -> Preview | Awaitable[Preview]:
        """What the approver sees. The default is the arguments themselves."""
        return plain_preview(params, self.secrets)


def tool_digest(tool: Tool, call: Mapping[str, Any] = {}) -> str:
    """The digest of what a tool is now; a call may say which of several it is.

    It is computed once for each content: a schema may be changed in place, so that the same dict says nothing.
    """
    if tool.identity:
        return digest(tool_spec(tool, call))
    spec = tool.spec()
    if tool.known_spec is None or tool.known_spec[0] != spec:
        tool.known_spec = (own_copy(spec), digest(spec))
    return tool.known_spec[1]


def tool_spec(tool: Tool, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the tool that a call means, as it is now: nobody can change it afterwards.

    Its members keep their order: people are shown arguments in the order in which a schema declares them.
    """
    made = {**tool.spec(), **{field: call.get(field) for field in tool.identity}}
    canonical(made)  # which refuses what is not exactly JSON
    return _spec_of(msgspec.json.encode(made))


@lru_cache(maxsize=256)
def _spec_of(text: bytes) -> dict[str, Any]:
    """Read a spec from its text, once for all runs that record it: none of them changes it or hands it out."""
    return json.loads(text)


def plain_preview(params: Any, secrets: tuple[str, ...] = (), note: str = "") -> Preview:
    """The arguments themselves as a preview, with a word in front where there is one to say."""
    shown = Json(redact(params, secrets))
    return Preview((Text(note), shown) if note else (shown,))
