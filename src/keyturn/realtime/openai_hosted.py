"""Read from OpenAI's server events how calls ended that the provider made itself, once a person had approved them.

Events name the call's item, and the item the request that was approved. What is told twice is one end.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

from .model_events import RealtimeModelHostedCallEndedEvent
from .openai_items import Wire

_ENDS = ("response.mcp_call.completed", "response.mcp_call.failed")
# How many calls of one connection are remembered.
_MOST = 4096


class _Recent(OrderedDict[str, str]):
    """Keeps the newest entries."""

    def __setitem__(self, key: str, value: str) -> None:
        super().__setitem__(key, value)
        if len(self) > _MOST:
            self.popitem(last=False)


class HostedEnds:
    """Reads the ends of such calls from the events of one connection.

    >>> call = {"type": "mcp_call", "id": "mcp_1", "approval_request_id": "mcpr_1", "output": "3"}
    >>> [event.request_id for event in HostedEnds().read({"type": "response.output_item.done", "item": call})]
    ['mcpr_1']
    """

    def __init__(self) -> None:
        # Requests by the items of their calls, and those whose calls have ended.
        self._requests = _Recent()
        self._ended = _Recent()

    def read(self, event: Wire) -> list[RealtimeModelHostedCallEndedEvent]:
        """Return the end that an event tells."""
        kind = str(event.get("type"))
        if kind in _ENDS:
            return self._end(self._requests.get(str(event.get("item_id"))))
        response = event.get("response") if kind == "response.done" else None
        output: Any = cast("Wire", response).get("output") if isinstance(response, dict) else None
        items: list[Any] = cast("list[Any]", output) if isinstance(output, list) else [event.get("item")]
        return [end for item in items if isinstance(item, dict) for end in self._end_of(cast("Wire", item), kind)]

    def _end_of(self, item: Wire, kind: str) -> list[RealtimeModelHostedCallEndedEvent]:
        name, request = item.get("id"), item.get("approval_request_id")
        if item.get("type") != "mcp_call" or not isinstance(name, str) or not isinstance(request, str):
            return []
        self._requests[name] = request
        over = kind.endswith(".done") or item.get("output") is not None or item.get("error") is not None
        return self._end(request) if over else []

    def _end(self, request: str | None) -> list[RealtimeModelHostedCallEndedEvent]:
        if request is None or request in self._ended:
            return []
        self._ended[request] = request
        return [RealtimeModelHostedCallEndedEvent(request)]
