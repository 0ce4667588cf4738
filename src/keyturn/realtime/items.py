"""Items of a realtime conversation: what a user, an assistant or the system said, and calls of tools.

They are plain data that a session's history holds. What a provider's wire looks like is not known here.
"""

from __future__ import annotations

from copy import copy
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from ..core.items import own_copy


class Part(BaseModel):
    """Holds an item or a part of one, and keeps the fields that a provider has added before they are known here.

    >>> Part(newer="field").model_dump()
    {'newer': 'field'}
    """

    model_config = ConfigDict(extra="allow")


class InputText(Part):
    """Holds text that a user or the system wrote.

    >>> InputText(text="hi").type
    'input_text'
    """

    type: Literal["input_text"] = "input_text"
    text: str | None = None


class InputAudio(Part):
    """Holds what a user said: base64 audio where it is kept, and its transcript once there is one.

    >>> InputAudio(transcript="hi").audio is None
    True
    """

    type: Literal["input_audio"] = "input_audio"
    audio: str | None = None
    transcript: str | None = None


class InputImage(Part):
    """Holds an image of a user, as a data URL.

    >>> InputImage(image_url="data:image/png;base64,AA==").type
    'input_image'
    """

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    detail: str | None = None


class AssistantText(Part):
    """Holds text that the model wrote.

    >>> AssistantText(text="hello").text
    'hello'
    """

    type: Literal["text"] = "text"
    text: str | None = None


class AssistantAudio(Part):
    """Holds what the model said: base64 audio where it is kept, and its transcript.

    >>> AssistantAudio(transcript="hello").type
    'audio'
    """

    type: Literal["audio"] = "audio"
    audio: str | None = None
    transcript: str | None = None


class SystemMessageItem(Part):
    """Holds a message of the system.

    >>> SystemMessageItem(item_id="i1", content=[InputText(text="Be brief.")]).role
    'system'
    """

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["system"] = "system"
    content: list[InputText]


class UserMessageItem(Part):
    """Holds a message of the user: text, audio and images.

    >>> UserMessageItem(item_id="i1", content=[InputText(text="hi")]).role
    'user'
    """

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    content: list[Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]]


class AssistantMessageItem(Part):
    """Holds a message of the model; `status` says whether it is whole.

    >>> AssistantMessageItem(item_id="i1", content=[AssistantText(text="hello")]).status is None
    True
    """

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    content: list[Annotated[AssistantText | AssistantAudio, Field(discriminator="type")]]


RealtimeMessageItem = Annotated[SystemMessageItem | UserMessageItem | AssistantMessageItem, Field(discriminator="role")]


class RealtimeToolCallItem(Part):
    """Holds a call of a tool, and its output once there is one.

    >>> RealtimeToolCallItem(item_id="i1", call_id="c1", status="in_progress", arguments="{}", name="pay").output
    """

    item_id: str
    previous_item_id: str | None = None
    call_id: str | None
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    arguments: str
    name: str
    output: str | None = None


RealtimeItem = RealtimeMessageItem | RealtimeToolCallItem


class RealtimeResponse(BaseModel):
    """Holds one response of the model: its id and the messages in it.

    >>> RealtimeResponse(id="r1", output=[]).id
    'r1'
    """

    id: str
    output: list[RealtimeMessageItem]


_MESSAGES: dict[str, Any] = {
    "system": SystemMessageItem,
    "user": UserMessageItem,
    "assistant": AssistantMessageItem,
}


def message_class(role: object) -> Any:
    """Return the class of a role's messages, None where there is no such role.

    >>> message_class("user").__name__, message_class("nobody")
    ('UserMessageItem', None)
    """
    return _MESSAGES.get(role) if isinstance(role, str) else None


def attributes_of(value: object) -> dict[str, Any]:
    """Return the attributes of a dataclass or a part, whether or not its class has slots."""
    slots = {name: getattr(value, name, None) for name in getattr(value, "__dataclass_fields__", ())}
    return slots | getattr(value, "__dict__", {})


def own_part(value: Any) -> Any:
    """Return an item, an event of a model, or a list of such, that shares nothing with `value` that can be edited.

    >>> item = InputText(text="hi")
    >>> own_part([item])[0] is item
    False
    """
    if isinstance(value, Part):
        return value.model_copy(deep=True)
    if isinstance(value, list):
        return [own_part(each) for each in cast("list[Any]", value)]
    if not is_dataclass(value) or isinstance(value, type):
        return own_copy(value)
    made = copy(value)
    for name, each in attributes_of(value).items():
        if isinstance(each, Part | list | dict):
            setattr(made, name, own_part(each))
    return made
