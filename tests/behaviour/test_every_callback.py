"""The table of callbacks is whole: a callback of a public name that the table does not name fails here."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import typing
from collections.abc import Iterator
from typing import Any

from tests.callbacks import CALLBACKS

#: Each parameter of a public name that is a callback, and each public class whose methods users write: the case of
#: `CALLBACKS` that calls it, or in parentheses what else does.
TAKEN = {
    "needs_approval": "needs_approval",
    "gate": "needs_approval",  # what a server states of its tools
    "requires_approval": "needs_approval",
    "asks": "needs_approval",
    "policy": "policy",
    "when": "when plain",
    "interrupt_on": "interrupt_on",
    "preview": "preview plain",
    "files": "files plain",
    "on_approval": "on_approval",
    "on_approval_request": "(test_what_is_called_beside_a_run_is_contained)",
    "on_safety_check": "on_approval",
    "is_enabled": "is_enabled",
    "instructions": "instructions",
    "prompt": "prompt",
    "guardrail_function": "input_guardrail",
    "func": "tool",
    "function": "tool",
    "tools": "tool",
    "on_invoke_tool": "custom tool",
    "tool_use_behavior": "tool_use_behavior",
    "call_model_input_filter": "call_model_input_filter",
    "session_input_callback": "session_input_callback",
    "output_guardrail_blocked_message": "(engine.session.sync._withheld)",
    "handoff_input_filter": "handoff_input_filter",
    "handoff_history_mapper": "handoff_input_filter",
    "history_mapper": "handoff_input_filter",
    "input_filter": "handoff_input_filter",
    "on_invoke_handoff": "on_handoff",
    "on_handoff": "on_handoff",
    "hop": "fallback hop plain",
    "failure_error_function": "failure_error_function",
    "timeout_error_function": "failure_error_function",
    "tool_error_formatter": "tool_error_formatter",
    "input_builder": "input_builder",
    "custom_output_extractor": "custom_output_extractor",
    "on_stream": "on_stream",
    "executor": "shell executor",
    "check": "(engine.effects.recover._probe)",
    "context_serializer": "(test_what_an_app_calls_ends_no_worker)",
    "context_deserializer": "(test_what_an_app_calls_ends_no_worker)",
    "sessions": "(test_what_an_app_calls_ends_no_worker)",
    "lifespan": "(test_what_an_app_calls_ends_no_worker)",
    "make": "(test_a_tenant_that_cannot_be_served_keeps_no_other_waiting)",
    "tool_filter": "(test_what_is_called_beside_a_run_is_contained)",
    "message_handler": "(mcp.protocol_server.noticed)",
    "elicitation_callback": "(mcp.protocol_server._in_line)",
    "require_approval": "needs_approval",
    "tool_meta_resolver": "(mcp.tool._meta)",
    "handle_deferred": "(deferred.prepare.decided_inline)",
    "recipients": "(tests/channels)",
    "secret": "(tests/channels)",
    "model": "model",
    "key": "(realtime.model.get_api_key)",
    "steps": "model",
    "responder": "model",
    "stream_events": "model",
    "delay": "model",
    # What only our own code or a program's own foreground calls: a clock, a console, the driver of a test.
    **dict.fromkeys(("clock", "now", "ask", "show", "how", "decide", "known", "keep_server", "begin", "send_if"), "()"),
    "AgentOutputSchemaBase": "output_type plain",
    "AsyncComputer": "(tools.computer)",
    "Computer": "(tools.computer)",
    "MCPServer": "is_enabled",
    "Model": "model",
    "ModelProvider": "model_provider plain",
    "SessionABC": "session get_items",
    "SpanData": "()",
    "Tool": "tool",
    "TracingProcessor": "(test_what_is_called_beside_a_run_is_contained)",
    "TracingExporter": "(tracing.processors._drain)",
    "RealtimeModel": "(realtime.connections)",
    "RealtimeModelListener": "(realtime.openai_websocket._tell)",
    "Backend": "tool",
    "Channel": "(tests/channels)",
}

_ROOMS = ("", ".realtime", ".deep", ".deferred", ".channels", ".tracing", ".testing", ".mcp", ".console")


def test_every_callback_that_can_be_given_is_in_the_table() -> None:
    found = {name for room in _ROOMS for name in _callbacks_of(importlib.import_module(f"keyturn{room}"))}
    assert not found - TAKEN.keys(), "say what the manual states for it, add a case to CALLBACKS, and name it here"
    assert not {case for case in TAKEN.values() if not case.startswith("(")} - CALLBACKS.keys()


def _callbacks_of(room: Any) -> Iterator[str]:
    for name in dir(room):
        made = getattr(room, name)
        if name.startswith("_") or not callable(made) or not getattr(made, "__module__", "").startswith("keyturn"):
            continue
        yield from _parameters(made)
        if inspect.isclass(made) and not issubclass(made, BaseException):
            methods = [each for key, each in vars(made).items() if not key.startswith("_") and inspect.isfunction(each)]
            yield from (found for method in methods for found in _parameters(method))
            if getattr(made, "__abstractmethods__", ()):
                yield name


def _parameters(made: Any) -> list[str]:
    """Return the parameters that are callbacks, those that come as a `TypedDict` of options included."""
    try:
        hints = typing.get_type_hints(made.__init__ if inspect.isclass(made) else made, include_extras=True)
    except (NameError, TypeError):  # an annotation that only a type checker can read
        return [name for name in ("executor",) if name in inspect.signature(made).parameters]
    found: list[str] = []
    for name, kind in hints.items():
        if typing.get_origin(kind) is typing.Unpack:
            options = typing.get_type_hints(typing.get_args(kind)[0])
            found += [option for option, each in options.items() if _is_callback(each)]
        elif name != "return" and _is_callback(kind):
            found.append(name)
    return found


def _is_callback(kind: Any) -> bool:
    if kind is collections.abc.Callable or typing.get_origin(kind) is collections.abc.Callable:
        return True
    if inspect.isclass(kind) and getattr(kind, "_is_protocol", False) and "__call__" in vars(kind):
        return True
    return any(map(_is_callback, typing.get_args(kind)))
