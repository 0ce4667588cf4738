"""The messages of a conversation as programs of Pydantic AI read them: data, which decides nothing.

`result.all_messages()` gives them, `message_history=` takes them. What a run goes on from is the sealed state in the
last of them (`state`), never what the messages themselves say.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import pydantic

from ..core.digest import canonical
from ..core.errors import BadJson, StateRejected
from ..core.strict import TextLimits, parse
from ..engine.states.blob import MAX_BYTES


@dataclass(slots=True)
class SystemPromptPart:
    """Holds a system prompt.

    >>> SystemPromptPart("Be kind.").part_kind
    'system-prompt'
    """

    content: str
    part_kind: Literal["system-prompt"] = "system-prompt"


@dataclass(slots=True)
class UserPromptPart:
    """Holds what a user said: a text, or a list of texts and of content parts.

    >>> UserPromptPart("hi").part_kind
    'user-prompt'
    """

    content: str | list[Any]
    part_kind: Literal["user-prompt"] = "user-prompt"


@dataclass(slots=True)
class ToolReturnPart:
    """Holds a call's result as its model read it.

    >>> ToolReturnPart("pay", "paid", "c1").part_kind
    'tool-return'
    """

    tool_name: str
    content: Any
    tool_call_id: str
    part_kind: Literal["tool-return"] = "tool-return"


@dataclass(slots=True)
class RetryPromptPart:
    """Holds word to the model that it should try again; in a history of ours such a word is a `ToolReturnPart`.

    >>> RetryPromptPart("No such account.", "pay", "c1").part_kind
    'retry-prompt'
    """

    content: Any
    tool_name: str | None = None
    tool_call_id: str = ""
    part_kind: Literal["retry-prompt"] = "retry-prompt"


@dataclass(slots=True)
class TextPart:
    """Holds a text of the model.

    >>> TextPart("Done.").part_kind
    'text'
    """

    content: str
    part_kind: Literal["text"] = "text"


@dataclass(slots=True)
class ThinkingPart:
    """Holds what a model let be seen of its reasoning.

    >>> ThinkingPart("Two steps.").part_kind
    'thinking'
    """

    content: str
    part_kind: Literal["thinking"] = "thinking"


@dataclass(slots=True)
class ToolCallPart:
    """Holds a call that a model made; `args` is a dict, or the model's own text where that is no JSON object.

    >>> ToolCallPart("pay", {"amount": 3}, "c1").args_as_json_str()
    '{"amount":3}'
    """

    tool_name: str
    args: dict[str, Any] | str | None = None
    tool_call_id: str = ""
    part_kind: Literal["tool-call"] = "tool-call"

    def args_as_dict(self) -> dict[str, Any]:
        """Return the arguments as a dict, or raise `BadJson`."""
        return self.args if isinstance(self.args, dict) else cast("dict[str, Any]", parse(self.args or "{}"))

    def args_as_json_str(self) -> str:
        """Return the arguments as JSON text."""
        return self.args if isinstance(self.args, str) else canonical(self.args or {})


REQUEST_PARTS = (SystemPromptPart, UserPromptPart, ToolReturnPart, RetryPromptPart)
RESPONSE_PARTS = (TextPart, ToolCallPart, ThinkingPart)
RequestPart = Annotated[
    SystemPromptPart | UserPromptPart | ToolReturnPart | RetryPromptPart, pydantic.Discriminator("part_kind")
]
ResponsePart = Annotated[TextPart | ToolCallPart | ThinkingPart, pydantic.Discriminator("part_kind")]


@dataclass(slots=True)
class ModelRequest:
    """Holds what a model was sent: prompts, and results of calls.

    `state` is the sealed state of the run, on the last message of a list.

    >>> ModelRequest.user_text_prompt("hi").parts
    [UserPromptPart(content='hi', part_kind='user-prompt')]
    """

    parts: Sequence[RequestPart]
    kind: Literal["request"] = "request"
    state: str | None = field(default=None, repr=False)

    @classmethod
    def user_text_prompt(cls, user_prompt: str) -> ModelRequest:
        """Make a request of one text of a user."""
        return cls([UserPromptPart(user_prompt)])


@dataclass(slots=True)
class ModelResponse:
    """Holds a model's reply: texts, thoughts and calls.

    `state` is the sealed state of the run, on the last message of a list.

    >>> ModelResponse([TextPart("Hello "), TextPart("Ada.")]).text
    'Hello Ada.'
    """

    parts: Sequence[ResponsePart]
    kind: Literal["response"] = "response"
    state: str | None = field(default=None, repr=False)

    @property
    def text(self) -> str | None:
        """Return the texts as one, None where there is none."""
        said = [part.content for part in self.parts if isinstance(part, TextPart)]
        return "".join(said) if said else None

    @property
    def tool_calls(self) -> list[ToolCallPart]:
        """Return the calls."""
        return [part for part in self.parts if isinstance(part, ToolCallPart)]


ModelMessage = ModelRequest | ModelResponse

#: Reads and writes lists of messages, as in Pydantic AI.
ModelMessagesTypeAdapter: pydantic.TypeAdapter[list[ModelMessage]] = pydantic.TypeAdapter(
    list[Annotated[ModelMessage, pydantic.Discriminator("kind")]]
)

_REMEDY = "pass what messages_to_json() or result.all_messages_json() returned, unchanged"


def messages_to_json(messages: Sequence[ModelMessage]) -> bytes:
    """Encode messages as JSON; the sealed state of their run goes along.

    >>> messages_from_json(messages_to_json([ModelRequest.user_text_prompt("hi")]))[0].parts[0].content
    'hi'
    """
    return ModelMessagesTypeAdapter.dump_json(list(messages), exclude_none=True)


def messages_from_json(data: str | bytes, *, max_bytes: int = MAX_BYTES) -> list[ModelMessage]:
    """Decode messages from JSON, or raise `StateRejected`; a run that is given them checks their seal.

    >>> messages_from_json("[]")
    []
    """
    given: object = data
    if not isinstance(given, str | bytes):
        raise StateRejected(f"messages are JSON text, not {type(given).__name__}; {_REMEDY}")
    try:
        text = given if isinstance(given, str) else given.decode()
        return ModelMessagesTypeAdapter.validate_python(parse(text, TextLimits(bytes=max_bytes)))
    except (BadJson, UnicodeDecodeError) as error:
        raise StateRejected(f"these are no messages: {error}; {_REMEDY}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"])
        raise StateRejected(f"these are no messages ({place}: {first['msg']}); {_REMEDY}") from None


def plain(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return what messages say as plain data, without their seals, so that two lists can be compared."""
    made = cast("list[dict[str, Any]]", ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))
    for message in made:
        del message["state"]
        for part in message["parts"]:
            if isinstance(args := part.get("args"), str):
                part["args"] = _object(args)
    return made


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
