"""Read what an ACP agent asks permission for, and write the answer; nothing is sent or asked here."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from ..asks.ask import Ask
from ..core.errors import UserError
from ..engine.run.new_ids import new_id

REQUEST = "session/request_permission"
_KEPT = 2_000
#: What an update of a session is called that tells of a new call.
_NEW = "tool_call"
_OVER = ("completed", "failed")


class _Option(msgspec.Struct, rename="camel"):
    """Holds one answer that the agent offers."""

    option_id: str
    kind: str


class _Params(msgspec.Struct, rename="camel"):
    """Holds what a request for permission says."""

    session_id: str
    tool_call: dict[str, Any]
    options: list[_Option]


class Permission(NamedTuple):
    """Describes one request of the agent: its JSON-RPC id, its session, and the answers that it offers."""

    id: Any
    session: str
    ask: Ask
    options: Mapping[str, list[str]]

    @property
    def allows_once(self) -> bool:
        """Return whether the agent offers one permission for this call alone: of several, none is known to be that."""
        return len(self.options.get("allow_once", ())) == 1

    def answered(self, *, allowed: bool) -> dict[str, Any]:
        """Return the answer: this once, never for good; where the agent offers none such, it is cancelled."""
        offered = self.options.get("allow_once" if allowed else "reject_once")
        return _answer(self.id, {"outcome": "selected", "optionId": offered[0]}) if offered else self.cancelled()

    def cancelled(self) -> dict[str, Any]:
        """Return what the protocol wants where the turn was cancelled."""
        return _answer(self.id, {"outcome": "cancelled"})


class SeenCalls:
    """Remembers what an agent told of its tool calls: a request may name a call and say no more of it.

    >>> seen = SeenCalls()
    >>> seen.look("s", {"toolCallId": "c1", "title": "make", "kind": "execute"})
    {'toolCallId': 'c1', 'title': 'make', 'kind': 'execute'}
    >>> seen.look("s", {"toolCallId": "c1", "rawInput": {"command": "make"}})["title"]
    'make'
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    def look(self, session: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return all that was told of a call by now; agents give ids again, and an earlier call is another one."""
        key = session, str(told.get("toolCallId", ""))
        before = self._calls.pop(key, {})
        call = {} if told.get("sessionUpdate") == _NEW else before
        call = call | {name: value for name, value in told.items() if value is not None}
        if call.get("status") not in _OVER:
            self._calls[key] = call
        if len(self._calls) > _KEPT:
            self._calls.popitem(last=False)
        return call


def permission_of(message: Mapping[str, Any], seen: SeenCalls, agent: str) -> Permission:
    """Return what a message asks permission for, or raise `UserError` where that cannot be shown."""
    try:
        params = msgspec.convert(message.get("params"), _Params)
    except msgspec.ValidationError as error:
        raise UserError(f"the request for permission is not one of ACP: {error}") from None
    call = seen.look(params.session_id, params.tool_call)
    arguments = _arguments(call)
    if not arguments:
        raise UserError("the request for permission says nothing of the call")
    ask = Ask(
        key=f"acp {new_id()}",
        tool=str(call.get("kind") or "other"),
        arguments=json.dumps(arguments, ensure_ascii=False, allow_nan=False),
        context={"framework": f"ACP agent {agent}", "session": params.session_id},
        editable=False,
    )
    options: dict[str, list[str]] = {}
    for each in params.options:
        options.setdefault(each.kind, []).append(each.option_id)
    return Permission(message["id"], params.session_id, ask, options)


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people are shown of a call: its input, its changes, and what else it says; no part hides another."""
    given: Any = call.get("rawInput")
    changes = [_change(each) for each in _listed(call.get("content")) if each.get("type") == "diff"]
    others = [each for each in _listed(call.get("content")) if each.get("type") != "diff"]
    more = {"title": call.get("title"), "content_of_call": others, "locations": call.get("locations")}
    more = {name: value for name, value in more.items() if value}
    change = changes[0] if len(changes) == 1 else {"changes": changes} if changes else {}
    told = {**change, **more}
    if isinstance(given, dict) and not told.keys() & cast("dict[str, Any]", given).keys():
        return {**cast("dict[str, Any]", given), **told}
    return told if given is None else {"input": given, **told}


def _change(diff: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "file_path": diff.get("path"), "old_string": diff.get("oldText") or "", "new_string": diff.get("newText"),
    }  # fmt: skip


def _listed(given: object) -> list[Mapping[str, Any]]:
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    return [cast("Mapping[str, Any]", each) for each in listed if isinstance(each, dict)]


def _answer(id: Any, outcome: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}


def refusal(id: Any, words: str) -> dict[str, Any]:
    """Return an error of JSON-RPC for a request that is not understood."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": words}}
