"""A session that OpenAI keeps, by its Conversations API.

The provider keeps items in a form of its own: it numbers them, says who made them and spells texts out. They are
brought back here into the form in which they are given, so that a run finds again what it wrote. HTTP is the official
client's. No run and no model is known here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, cast

from ..core.errors import ModelBehaviorError, UserError
from ..core.items import Item
from ..core.settable import TEXT, Rules, Sealed
from ..models.faults import RETRIES, again, is_passing, status_of
from ..models.openai.account import OpenAIAccount
from ..models.openai.request import sent_items
from .base import SESSION_RULES, SessionABC, SessionSettings
from .encoding import encoded

BATCH, PAGE = 20, 100

# Items whose id says what they are: others name it, or the API asks for it. All other ids are the store's own.
_NAMED = frozenset(
    {
        "reasoning", "item_reference", "local_shell_call", "local_shell_call_output", "computer_call",
        "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools",
        "mcp_call", "mcp_approval_request", "program", "program_output",
    }
)  # fmt: skip
# The API says of these that they are "completed"; nobody else does.
_WITHOUT_STATUS = frozenset({"function_call_output", "custom_tool_call_output", "shell_call_output"})
# What the API keeps and gives only to those who ask.
_INCLUDED = [
    "reasoning.encrypted_content",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "web_search_call.action.sources",
]
# These say that a request never left this machine.
_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})


class OpenAIConversationsSession(SessionABC, Sealed):
    """Stores a conversation at OpenAI, for its models; without a `conversation_id` the first item begins one.

    `session_id` is the conversation's id, "" before there is one: keep it to come back. The API takes twenty items at
    a time: a longer batch is taken back where the API refuses a part of it, and may be there in part where the line
    broke. `clear_session()` deletes the conversation, and the next item begins another, of another id. What other
    providers' models thought cannot be kept there and is left out.

    >>> OpenAIConversationsSession("conv_123").session_id
    'conv_123'
    """

    _rules: ClassVar[Rules] = {**SESSION_RULES, "session_id": TEXT}

    def __init__(
        self,
        conversation_id: str | None = None,
        *,
        openai_client: Any = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        if conversation_id == "":
            raise UserError("conversation_id is empty: give the id of a conversation, or None to begin a new one")
        self.session_id = conversation_id or ""
        self.session_settings = session_settings or SessionSettings()
        self._account = OpenAIAccount(openai_client)
        self._writing = asyncio.Lock()

    async def get_items(self, limit: int | None = None) -> list[Item]:
        return [_as_given(item) for item in await self._kept(self.session_settings.window(limit))]

    async def add_items(self, items: list[Item]) -> None:
        # What has no JSON form is refused before any of them is sent.
        sent = _as_taken([_sayable(item, text) for item, text in zip(items, encoded(items), strict=True)])
        if not sent:
            return
        async with self._writing:
            await self._begin()
            added: list[str] = []
            for start in range(0, len(sent), BATCH):
                try:
                    kept = await self._write("items", "create", self.session_id, items=sent[start : start + BATCH])
                except Exception as error:
                    await self._take_back(added, error)
                    raise
                added += [item["id"] for item in _listed(kept)]

    async def _begin(self) -> str:
        if not self.session_id:
            begun = await self._write("conversations", "create")
            self.session_id = _named(begun)["id"]
        return self.session_id

    async def _get_session_id(self) -> str:
        """Return the conversation's id, and begin one where there is none: programs of OpenAI's SDK ask for it."""
        async with self._writing:
            return await self._begin()

    async def pop_item(self) -> Item | None:
        async with self._writing:
            for item in await self._kept(1):
                await self._ask("items", "delete", item["id"], conversation_id=self.session_id)
                return _as_given(item)
        return None

    async def clear_session(self) -> None:
        async with self._writing:
            if self.session_id:
                await self._ask("conversations", "delete", self.session_id)
                self.session_id = ""

    async def close(self) -> None:
        """Close the client that was made here for this event loop; your own stays open."""
        await self._account.close()

    async def _kept(self, wanted: int | None) -> list[Item]:
        """Return the newest items as the API has them, oldest first."""
        if not self.session_id or wanted == 0:
            return []
        found: list[Item] = []
        query: dict[str, Any] = {"order": "asc" if wanted is None else "desc", "include": _INCLUDED}
        more = True
        while more:
            query["limit"] = PAGE if wanted is None else min(PAGE, wanted - len(found))
            page = await self._ask("items", "list", self.session_id, **query)
            items = _listed(page)
            if items and items[-1]["id"] == query.get("after"):
                raise ModelBehaviorError("the Conversations API returns the same page over and over")
            found += items
            more = bool(page.get("has_more") and items) and (wanted is None or len(found) < wanted)
            query["after"] = items[-1]["id"] if items else None
        return found if wanted is None else found[:wanted][::-1]

    async def _take_back(self, added: list[str], error: Exception) -> None:
        """Delete what was added of a batch whose rest was refused; leave all where that is unknown."""
        status = status_of(error)
        if status is None or status >= 500 or status == 408:
            return
        try:
            for item_id in reversed(added):
                await self._ask("items", "delete", item_id, conversation_id=self.session_id)
        except Exception as another:
            error.add_note(f"the first items of the batch were added and not removed: {another}")

    async def _ask(self, resource: str, method: str, *given: Any, **fields: Any) -> Item:
        """Send a request that is safe to repeat; a client of the caller's own retries by itself."""
        client, made = await self._account.client()
        call = _method(client, resource, method)
        return _body(await again(lambda: call(*given, **fields), RETRIES if made else 0))

    async def _write(self, resource: str, method: str, *given: Any, **fields: Any) -> Item:
        """Send a request that must take effect once: it is retried only where it surely did not."""
        client, _ = await self._account.client()
        call = _method(client.with_options(max_retries=0), resource, method)
        return _body(await again(lambda: call(*given, **fields), RETRIES, passing=_not_done))


def _method(client: Any, resource: str, method: str) -> Callable[..., Awaitable[Any]]:
    # Raw, because the API knows kinds of items that the installed SDK does not.
    home = client.conversations if resource == "conversations" else client.conversations.items
    return getattr(home.with_raw_response, method)


def _body(raw: Any) -> Item:
    try:
        body: Any = raw.http_response.json()
    except ValueError as error:
        raise ModelBehaviorError(f"the Conversations API's answer is not JSON: {type(error).__name__}") from None
    if not isinstance(body, dict):
        raise ModelBehaviorError(f"the Conversations API's answer is a JSON {type(body).__name__}, not an object")
    return cast("Item", body)


def _listed(body: Item) -> list[Item]:
    data: Any = body.get("data")
    if not isinstance(data, list):
        raise ModelBehaviorError(f"the Conversations API's answer has no list of items but {type(data).__name__}")
    return [_named(item) for item in cast("list[Any]", data)]


def _named(thing: Any) -> Item:
    if not isinstance(thing, dict) or not isinstance(cast("Item", thing).get("id"), str):
        raise ModelBehaviorError("the Conversations API's answer has an item without an id")
    return cast("Item", thing)


def _not_done(error: BaseException) -> bool:
    unsent = type(error.__cause__).__name__ in _UNSENT
    return is_passing(error) and (status_of(error) == 429 or unsent)


def _sayable(item: Item, text: str) -> Item:
    """Return the item with a "?" for each lone surrogate: HTTP cannot carry those, and the rest is worth keeping.

    A file name that was not UTF-8 leaves them in a tool's output.
    """
    if "\\ud" not in text:
        return item
    return json.loads(json.dumps(item, ensure_ascii=False).encode("utf-8", "replace"))


def _as_taken(items: list[Item]) -> list[Item]:
    """Convert items to what the API takes: as a model is sent them, without the ids they had elsewhere."""
    named = [item if item.get("type") in _NAMED else _without(item, "id") for item in sent_items(items)]
    return [
        item for item in named if item.get("type") != "reasoning" or item.get("id") or item.get("encrypted_content")
    ]


def _without(item: Item, field: str) -> Item:
    return {name: value for name, value in item.items() if name != field}


def _as_given(kept: Item) -> Item:
    """Convert an item back to what was given, without what the API made of it."""
    item = _without(kept, "created_by")
    kind = item.get("type", "message")
    if kind in _NAMED:
        return item
    item = {name: value for name, value in _without(item, "id").items() if value is not None}
    told = kind == "message" and item.get("role") != "assistant"
    if told or kind in _WITHOUT_STATUS:
        item.pop("status", None)
    if told:
        item.pop("type", None)
        item["content"] = _short(item.get("content"))
    return item


def _short(content: Any) -> Any:
    """Return a text that the API spelled out as a list of one part; any other content as it is."""
    match content:
        case [{"type": "input_text", "text": str(text), **rest}] if not any(rest.values()):
            return text
        case _:
            return content
