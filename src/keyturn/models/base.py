"""The seam to a language model: one request, one reply.

A model turns a conversation into a reply, whole or as a stream of Responses events that ends in
`response.completed`. It knows nothing of runs, tools' code, approvals or retries of ours.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any, Literal, TypeVar, cast

from ..core.errors import ModelBehaviorError, ModelTimeoutError
from ..core.items import Item, RawItem, plain_item
from ..core.settable import Settable
from ..core.usage import TokenDetails as TokenDetails
from ..core.usage import Usage as Usage
from ..support.constructors import settings

T = TypeVar("T")
# The roots of what HTTP clients and providers' packages raise when no answer came in time.
_LATE = frozenset({"APITimeoutError", "TimeoutError", "TimeoutException"})
# What HTTP clients raise where a request never left this machine, and with which statuses a provider refuses it whole.
UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError"})
_REFUSALS = frozenset({400, 401, 403, 404, 413, 422, 429})


class ReplyItem(RawItem):
    """Holds one item of a reply, as a mapping and as attributes; `typed()` is it as the OpenAI SDK has it.

    >>> ReplyItem(type="function_call", name="pay").name
    'pay'
    """

    __slots__ = ()

    def typed(self) -> Any:
        """Return a copy of the item as an object of the OpenAI SDK's class, for `isinstance` and for type checkers.

        It is that class whatever provider replied. The SDK is imported here, and must be installed. An item of a type
        that the SDK does not know is returned as it is.
        """
        return import_module(".openai.typed", __package__).sdk_item(self)


@dataclass(slots=True)
class ModelResponse:
    """Holds one reply of a model, as it came.

    `model` is the name under which it was asked, filled in where it is "".

    >>> ModelResponse(output=[{"type": "reasoning"}]).output[0].type
    'reasoning'
    """

    output: list[Any]
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    request_id: str | None = None
    model: str = ""

    def __post_init__(self) -> None:
        try:
            self.output = [item if type(item) is ReplyItem else ReplyItem(plain_item(item)) for item in self.output]
        except TypeError as error:
            raise ModelBehaviorError(
                f"the model's reply holds something that is not an item: {error}; nothing of it was used"
            ) from None

    def to_input_items(self) -> list[Item]:
        """Return the reply as items of the next request's input."""
        return [dict(cast("ReplyItem", item)) for item in self.output]


@settings()
class ModelSettings(Settable):
    """Says how a model is asked; what is None is left to the provider.

    >>> ModelSettings(temperature=0.2).resolve(ModelSettings(max_tokens=50)).temperature
    0.2
    """

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: Any = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: str | None = None
    include_usage: bool | None = None
    response_include: list[str] | None = None
    top_logprobs: int | None = None
    extra_query: Mapping[str, Any] | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None
    extra_args: dict[str, Any] | None = None
    retry: Any = None
    timeout: float | None = None

    def resolve(self, override: ModelSettings | None) -> ModelSettings:
        """Return these settings, with every field that `override` sets taken from it."""
        if override is None:
            return self
        given = {f.name: value for f in fields(override) if (value := getattr(override, f.name)) is not None}
        if "extra_args" in given and self.extra_args:
            given["extra_args"] = {**self.extra_args, **given["extra_args"]}
        return replace(self, **given) if given else self

    def to_json_dict(self) -> dict[str, Any]:
        """Return every setting as plain JSON data; what is not set is None.

        >>> ModelSettings(temperature=0.2).to_json_dict()["temperature"]
        0.2
        """
        plain: dict[str, Any] = import_module("pydantic_core").to_jsonable_python(vars(self))
        return plain


@dataclass(slots=True)
class ModelRequest:
    """Holds everything a model is asked with, in one value; a scripted model records these.

    `input` is a list made for this request: a model may keep it, nobody else writes to it.

    >>> ModelRequest("Be kind.", [{"role": "user", "content": "hi"}], ModelSettings(), [], None, []).input[0]["content"]
    'hi'
    """

    system_instructions: str | None
    input: list[Item]
    model_settings: ModelSettings
    tools: Sequence[Any]
    output_schema: Any
    handoffs: Sequence[Any]
    tracing: Any = None
    previous_response_id: str | None = None
    conversation_id: str | None = None
    prompt: Any = None
    streamed: bool = False


class ModelTracing(enum.Enum):
    """Whether a model that makes spans of its own may make them now, and whether they may tell what was said.

    >>> ModelTracing.ENABLED_WITHOUT_DATA.include_data()
    False
    """

    DISABLED = 0
    ENABLED = 1
    ENABLED_WITHOUT_DATA = 2

    def is_disabled(self) -> bool:
        """Whether nobody traces this run."""
        return self is ModelTracing.DISABLED

    def include_data(self) -> bool:
        """Whether messages may stand in spans."""
        return self is ModelTracing.ENABLED


class Model(abc.ABC):
    """Answers a conversation; subclass it to bring your own language model.

    `get_response` answers whole. `stream_response` yields Responses stream events, as mappings or as
    objects with a `type`, the last of which is `response.completed` and carries the `response`.

    `provider` is the name that traces give its provider.

    >>> issubclass(Model, abc.ABC)
    True
    """

    provider: str = ""

    @abc.abstractmethod
    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Item],
        model_settings: ModelSettings,
        tools: Sequence[Any],
        output_schema: Any,
        handoffs: Sequence[Any],
        tracing: Any,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> ModelResponse:
        """Return one reply to this conversation."""

    @abc.abstractmethod
    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Item],
        model_settings: ModelSettings,
        tools: Sequence[Any],
        output_schema: Any,
        handoffs: Sequence[Any],
        tracing: Any,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> AsyncIterator[Any]:
        """Stream one reply as events."""

    async def close(self) -> None:
        """Release what the model holds; the default holds nothing."""


class ModelProvider(abc.ABC):
    """Finds models by name.

    >>> issubclass(ModelProvider, abc.ABC)
    True
    """

    @abc.abstractmethod
    def get_model(self, model_name: str | None) -> Model:
        """Return the model of that name; None asks for the provider's default."""


async def close_stream(events: Any) -> None:
    """Close a model's stream now, since its connection is open until then; a plain iterator needs no closing."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


async def in_time(asking: Awaitable[T], seconds: float) -> T:
    """Await a model's answer; raise `ModelTimeoutError` where `ModelSettings.timeout` has passed."""
    try:
        return await asking
    except Exception as error:
        if not is_late(error):
            raise
        raise ModelTimeoutError(seconds) from error


def approves(conversation: object) -> bool:
    """Return whether a conversation ends with an approval by which a provider runs a call while it answers.

    Such a question is sent once: a second one may run the call a second time.

    >>> asked = {"type": "mcp_approval_request", "id": "r1"}
    >>> approves([asked, {"type": "mcp_approval_response", "approval_request_id": "r1", "approve": True}])
    True
    """
    for item in reversed(cast("list[Any]", conversation) if isinstance(conversation, list) else []):
        kind = item.get("type") or "message"
        if kind.endswith("_approval_response") and item.get("approve") is not False:
            return True
        ours = kind.endswith(("_approval_response", "_output")) or item.get("role") in ("user", "system", "developer")
        if not ours:  # the model has answered all that stands before this
            return False
    return False


def not_begun(error: BaseException) -> bool:
    """Return whether a failed request is known not to have been begun: it was never sent, or was refused as a whole.

    >>> not_begun(ConnectionRefusedError()), not_begun(ConnectionResetError())
    (True, False)
    """
    unsent = {kind.__name__ for each in (error, error.__cause__) for kind in type(each).__mro__} & UNSENT
    return bool(unsent) or getattr(error, "status_code", None) in _REFUSALS


def is_late(error: BaseException) -> bool:
    """Whether no answer came in time, by the class of the error or of its cause.

    >>> is_late(TimeoutError()), is_late(ConnectionError())
    (True, False)
    """
    causes = [error, error.__cause__]
    return any(kind.__name__ in _LATE for cause in causes if cause is not None for kind in type(cause).__mro__)
