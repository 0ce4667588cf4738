"""Gemini's generateContent on 127.0.0.1: JSON and server-sent events, calls without ids, thought signatures.

It refuses what the real one refuses (`gemini_rules.py`) and signs parts as the models from 3 on do, so that a signature
which comes back on another part, or not at all, is seen. HTTP and faults are in `server.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from ...core.items import Item
from ...models.base import Usage
from ...models.reply_events import pieces
from ...models.scripted.script import ModelStep
from .gemini_rules import GeminiRefused, check_request, signature, signs
from .server import HttpReply, HttpRequest, LoopbackServer

Part = dict[str, Any]

_PATH = re.compile(r"/v1(?:beta|alpha)?/(models/[^/:]+):(generateContent|streamGenerateContent)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiServer(LoopbackServer):
    """Answers `POST /v1/models/<model>:generateContent` and its streamed twin.

    Of a step's items, a reasoning item is a thought; a call whose `call_id` is "" is one without an id; a refusal alone
    is a prompt that was blocked, behind something else a reply that was withheld; an item of any type that the
    Responses API does not have is a part of that name. A reply is cut by its limit of tokens where its last item is
    `incomplete`.

    >>> with GeminiServer(["hello"]) as server:
    ...     server.base_url.startswith("http://127.0.0.1:")
    True
    """

    base_path: ClassVar[str] = ""

    def error(self, status: int, message: str) -> Item:
        """Return an error as Google's API does."""
        return {"error": {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}}

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Return what the real one would not accept."""
        found = _PATH.fullmatch(request.path)
        if request.method != "POST" or found is None:
            return 404, f"{request.path} is not found"
        if not request.headers.get("x-goog-api-key"):
            return 403, "Method doesn't allow unregistered callers. Please use API Key."
        if found[2] == "streamGenerateContent" and request.query != "alt=sse":
            return 400, "this server streams with alt=sse only"
        try:
            check_request(found[1], request.json)
        except GeminiRefused as refused:
            return 400, str(refused)
        return None

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Return the step as a candidate."""
        found = cast("re.Match[str]", _PATH.fullmatch(request.path))
        headers = {"x-request-id": step.request_id} if step.request_id else {}
        if step.stream_events is not None:
            return HttpReply.stream(cast("Any", step.stream_events), headers)
        whole = self._whole(found[1], step)
        if found[2] == "generateContent":
            return HttpReply.json(whole, headers=headers)
        return HttpReply.stream(chunks(whole), headers)

    def _whole(self, model: str, step: ModelStep) -> Part:
        items = cast("list[Item]", step.output)
        refused = [part["refusal"] for item in items for part in _parts(item) if part["type"] == "refusal"]
        parts = [part for item in items for part in _said(item)]
        if signs(model):
            _sign(parts, f"{self.answered}")
        whole: Part = {
            "usageMetadata": _counted(step.usage or Usage(1, 10, output_tokens=5, total_tokens=15)),
            "modelVersion": model.removeprefix("models/"),
            "responseId": step.response_id or f"resp_{self.answered}",
        }
        if refused and not parts:
            return {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": refused[0]}, **whole}
        cut = bool(items) and items[-1].get("status") == "incomplete"
        candidate: Part = {"finishReason": "SAFETY" if refused else "MAX_TOKENS" if cut else "STOP", "index": 0}
        if parts:
            candidate["content"] = {"parts": parts, "role": "model"}
        return {"candidates": [candidate], **whole}


def _parts(item: Item) -> list[Item]:
    return item["content"] if item.get("type", "message") == "message" else []


def _said(item: Item) -> Iterator[Part]:
    kind = item.get("type", "message")
    if kind == "message":
        yield from ({"text": part["text"]} for part in _parts(item) if part["type"] != "refusal")
    elif kind == "reasoning":
        yield {"text": "".join(part["text"] for part in item["summary"]), "thought": True}
    elif kind == "function_call":
        label = {"id": item["call_id"]} if item["call_id"] else {}
        yield {"functionCall": {"name": item["name"], "args": json.loads(item["arguments"]), **label}}
    else:
        yield {kind: item[kind]}


def _sign(parts: list[Part], nonce: str) -> None:
    """Sign the first of parallel calls; without calls, the last text."""
    calls = [part for part in parts if "functionCall" in part]
    texts = [part for part in parts if "text" in part and not part.get("thought")]
    for part in calls[:1] or texts[-1:]:
        part["thoughtSignature"] = signature(part, nonce)


def _counted(usage: Usage) -> Part:
    thought = usage.output_tokens_details.reasoning_tokens
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - thought,
        "totalTokenCount": usage.total_tokens,
        "thoughtsTokenCount": thought,
        "cachedContentTokenCount": usage.input_tokens_details.cached_tokens,
    }
    return {name: count for name, count in counts.items() if count}


def chunks(whole: Part) -> Iterator[Part]:
    """Return a whole reply as the chunks of a stream: texts in pieces, a text's signature in a part behind it."""
    if "candidates" not in whole:
        yield whole
        return
    candidate: Part = whole["candidates"][0]
    rest = {name: value for name, value in whole.items() if name != "candidates"}
    told = [piece for part in candidate.get("content", {}).get("parts", []) for piece in _pieces(part)]
    for part in told:
        yield {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **rest}
    end: Mapping[str, Any] = {name: value for name, value in candidate.items() if name != "content"}
    yield {"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, **end}], **rest}


def _pieces(part: Part) -> Iterator[Part]:
    if "text" not in part:
        yield part
        return
    thought = {"thought": True} if part.get("thought") else {}
    for piece in pieces(part["text"]):
        yield {"text": piece, **thought}
    if "thoughtSignature" in part:
        empty = {"text": "", **thought}
        yield {**empty, "thoughtSignature": signature(empty, "streamed")}
