"""Check requests as Gemini does: each turn of calls answered right behind it, signatures where they belong.

The words of the refusals are the real one's, because people search for them. Signatures carry all that is needed to
check them: here is no HTTP and nothing is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

Part = dict[str, Any]

_OLD = re.compile(r"models/gemini-[12]\b")
# What the API takes for a call that it did not make, as it stands in the JSON.
_NOT_MINE = "skip_thought_signature_validator"


class GeminiRefused(Exception):
    """Raised with what the API says to a request that it does not accept."""


def signs(model: str) -> bool:
    """Return whether a model signs its parts and wants the signatures back: those from 3 on."""
    return _OLD.match(model) is None


def signature(part: Mapping[str, Any], nonce: str) -> str:
    """Make the signature of a part: of its content, different each time, with bytes that no text could hold."""
    said = {key: value for key, value in part.items() if key != "thoughtSignature"}
    text = json.dumps([nonce, said], sort_keys=True, ensure_ascii=False)
    mac = hashlib.sha256(text.encode()).digest()
    return base64.b64encode(nonce.encode() + b"\x00\xff\xfe" + mac * 2).decode()


def check_request(model: str, body: Any) -> None:
    """Refuse what the API would refuse."""
    contents: list[Part] = body.get("contents") or []
    if not contents:
        raise GeminiRefused("* GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        if content.get("role") not in ("user", "model"):
            raise GeminiRefused("Please use a valid role: user, model.")
        if not content.get("parts"):
            raise GeminiRefused(f"* GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty.")
        for part in content["parts"]:
            _check_part(part)
    _check_calls(contents)
    if signs(model):
        _check_signatures(contents)
    _check_config(model, body)


def _check_part(part: Part) -> None:
    kinds = part.keys() - {"thought", "thoughtSignature"}
    if len(kinds) != 1:
        raise GeminiRefused("contents.parts: required oneof field 'data' must have one initialized field")
    signed = part.get("thoughtSignature")
    if signed is None or signed == _NOT_MINE:
        return
    try:
        data = base64.urlsafe_b64decode(signed.replace("+", "-").replace("/", "_"))
        nonce = data.partition(b"\x00")[0].decode()
    except ValueError:
        raise GeminiRefused("Base64 decoding failed for thought_signature") from None
    if base64.b64decode(signature(part, nonce)) != data:
        raise GeminiRefused("Corrupted thought signature.")


def _of(content: Part, kind: str) -> list[Part]:
    return [part for part in content["parts"] if kind in part]


def _check_calls(contents: list[Part]) -> None:
    for number, content in enumerate(contents):
        before = contents[number - 1] if number else None
        after = contents[number + 1] if number + 1 < len(contents) else None
        calls, results = _of(content, "functionCall"), _of(content, "functionResponse")
        if calls and (content["role"] != "model" or before is None or before["role"] != "user"):
            raise GeminiRefused(
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        if calls:
            _check_answers(calls, _of(after, "functionResponse") if after is not None else [])
        if results and (before is None or not _of(before, "functionCall")):
            raise GeminiRefused(
                "Please ensure that function response turn comes immediately after a function call turn."
            )


def _check_answers(calls: list[Part], results: list[Part]) -> None:
    if len(calls) != len(results):
        raise GeminiRefused(
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn."
        )
    for call, result in zip(calls, results, strict=True):
        for name in ("name", "id"):
            if call["functionCall"].get(name) != result["functionResponse"].get(name):
                raise GeminiRefused(f"the {name} of a function response is not that of its function call")
        if not isinstance(result["functionResponse"].get("response"), dict):
            raise GeminiRefused("function_response.response: must be an object")


def _check_signatures(contents: list[Part]) -> None:
    """Check that in the current turn, which begins with the user's last words, each step's first call is signed."""
    words = [
        number
        for number, content in enumerate(contents)
        if content["role"] == "user" and not _of(content, "functionResponse")
    ]
    for number in range(words[-1] if words else 0, len(contents)):
        for call in _of(contents[number], "functionCall")[:1]:
            if "thoughtSignature" not in call:
                name = call["functionCall"]["name"]
                raise GeminiRefused(
                    f"Function call is missing a thought_signature in functionCall parts. Function call `{name}`, "
                    f"position {number + 1}."
                )


def _check_config(model: str, body: Mapping[str, Any]) -> None:
    config: Part = body.get("generationConfig") or {}
    tools: list[Part] = body.get("tools") or []
    declared = [each["name"] for tool in tools for each in tool.get("functionDeclarations", [])]
    if len({*declared}) < len(declared):
        raise GeminiRefused("Duplicate function declaration found.")
    if not signs(model) and declared and config.get("responseMimeType") == "application/json":
        raise GeminiRefused("Function calling with a response mime type: 'application/json' is unsupported")
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        raise GeminiRefused("response_json_schema needs response_mime_type 'application/json'")
    thinking: Part = config.get("thinkingConfig") or {}
    if not signs(model) and {"thinkingLevel", "thinking_level"} & thinking.keys():
        raise GeminiRefused("Thinking level is not supported for this model.")
    tool_config: Part = body.get("toolConfig") or {}
    choice: Part = tool_config.get("functionCallingConfig") or {}
    allowed: list[str] = choice.get("allowedFunctionNames") or []
    if allowed and choice.get("mode") != "ANY":
        raise GeminiRefused("allowed_function_names should only be set when the function calling mode is ANY.")
    if not {*allowed} <= {*declared}:
        raise GeminiRefused("allowed_function_names must be a subset of the declared function names")
