"""A span's data read back from its name and its attributes, for those who only hear of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    SpanData,
)


def span_data_of(name: str, told: Mapping[str, Any]) -> SpanData:
    """What a span is about, read from its name and its attributes.

    A call that was held back is no function that ran, whatever its attributes say.

    >>> span_data_of("execute_tool pay", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}).type
    'function'
    >>> span_data_of("hold_tool pay", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}).type
    'custom'
    """
    operation = told.get("gen_ai.operation.name")
    if "keyturn.handoff.to" in told:
        return HandoffSpanData(told.get("keyturn.handoff.from"), told["keyturn.handoff.to"])
    if "keyturn.guardrail.name" in told:
        return GuardrailSpanData(told["keyturn.guardrail.name"], bool(told.get("keyturn.guardrail.triggered")))
    if operation == "invoke_agent":
        return AgentSpanData(str(told.get("gen_ai.agent.name")))
    if operation == "execute_tool" and name.startswith("execute_tool "):
        given = _text(told.get("gen_ai.tool.call.arguments"))
        return FunctionSpanData(str(told.get("gen_ai.tool.name")), given, told.get("gen_ai.tool.call.result"))
    return _generation(told) if operation == "chat" else CustomSpanData(name, dict(told))


def _generation(told: Mapping[str, Any]) -> GenerationSpanData:
    config = _below("gen_ai.request.", told)
    return GenerationSpanData(
        told.get("gen_ai.input.messages"),
        told.get("gen_ai.output.messages"),
        config.pop("model", None),
        config or None,
        _below("gen_ai.usage.", told) or None,
    )


def _below(prefix: str, told: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in told.items() if name.startswith(prefix)}


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=repr)
