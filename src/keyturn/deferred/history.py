"""Read a `message_history`: believe the sealed state that it carries, and nothing that the messages say.

A run goes on only from a state that its own agent sealed, and only if the messages are word for word those of that
state. Messages without a seal are text for a model: a call among them never runs, and one without a result is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ..agents.agent import Agent
from ..core.errors import AgentMissing, StateRejected, UserError
from ..core.items import Item
from ..engine.result import RunResult
from ..engine.states.blob import from_text
from ..engine.states.state import RunState
from .conversation import items_of, messages_of
from .messages import (
    REQUEST_PARTS,
    RESPONSE_PARTS,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    ToolCallPart,
    ToolReturnPart,
    plain,
)


class History(NamedTuple):
    """Holds what a run begins with: the state that waits, or items of a conversation; and both as messages."""

    state: RunState[Any] | None
    items: list[Item]
    messages: list[ModelMessage]
    deps: Any = None


async def read_history(given: object, agent: Agent[Any], deps: object) -> History:
    """Read a history for an agent, or raise `StateRejected`, `AgentMissing` or `UserError`."""
    messages = _checked(given)
    last = max((place for place, message in enumerate(messages) if message.state is not None), default=None)
    text = None if last is None else messages[last].state
    if last is None or text is None:
        return _text_only(messages)
    other = _other_agent(text, agent)
    if other is not None:
        if _open_calls(messages):
            raise AgentMissing(
                other,
                f"message_history is of the agent {other!r}, and it has pending calls: only that agent can continue it "
                "(one without a name is known by its instructions; nothing ran and nothing is lost)",
            )
        return _text_only(messages)
    state = await RunState.from_string(agent, text, context_deserializer=lambda saved: _deps(agent, deps, saved))
    said = RunResult(state.live, {})
    _compare(messages[: last + 1], messages_of(said.conversation()))
    tail = messages[last + 1 :]
    if state.live.run.status != "finished":
        if tail:
            raise UserError(
                f"message_history[{last + 1}] comes after calls that still wait: give the prompt of a user as the "
                "first argument of run(), and results as deferred_tool_results="
            )
        return History(state, [], messages)
    items = [*said.conversation(), *_unsealed(tail, last + 1)]
    return History(None, items, messages_of(items), state.context.context)


def _deps(agent: Agent[Any], given: object, saved: object) -> Any:
    """Return the deps of the run: those given, else those that the agent itself made for it."""
    return agent.own_context(saved) if given is None and saved else given


def _text_only(messages: list[ModelMessage]) -> History:
    items = _unsealed(messages)
    return History(None, items, messages_of(items))


def sealed(messages: list[ModelMessage], state: RunState[Any]) -> list[ModelMessage]:
    """Return the messages with the sealed state of their run on the last one; deps of the caller's never go along."""
    if not messages:
        return messages
    own = getattr(state.context.context, "own", False) is True
    text = state.to_string(context_serializer=None if own else _nothing)
    return [*messages[:-1], replace(messages[-1], state=text)]


def _nothing(_deps: object) -> dict[str, Any]:
    return {}


def _checked(given: object) -> list[ModelMessage]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise UserError(
            f"message_history is a list of messages, not {type(given).__name__}; messages_from_json() reads JSON"
        )
    for place, message in enumerate(cast("Sequence[object]", given)):
        if not isinstance(message, ModelRequest | ModelResponse):
            raise UserError(
                f"message_history[{place}] is a ModelRequest or a ModelResponse, not {type(message).__name__}; "
                "messages_from_json() reads JSON"
            )
        _check_parts(message, place)
        if message.state is not None and not isinstance(cast("object", message.state), str):
            raise StateRejected(f"message_history[{place}].state is the sealed text of a run, or None")
    return list(cast("Sequence[ModelMessage]", given))


def _check_parts(message: ModelMessage, place: int) -> None:
    parts: object = message.parts
    if not isinstance(parts, list | tuple):
        raise UserError(f"message_history[{place}].parts is a list, not {type(parts).__name__}")
    kinds = REQUEST_PARTS if isinstance(message, ModelRequest) else RESPONSE_PARTS
    for part in cast("list[object]", parts):
        if not isinstance(part, kinds):
            raise UserError(
                f"message_history[{place}] holds a {type(part).__name__}, which is no part of a {message.kind}"
            )


def _other_agent(text: str, agent: Agent[Any]) -> str | None:
    """Return the name of the agent that began a run, where it is another; nothing else of its state is believed."""
    data = from_text(text)
    name = cast("dict[str, Any]", data).get("agent") if isinstance(data, dict) else None
    return name if isinstance(name, str) and name != agent.name else None


def _open_calls(messages: Sequence[ModelMessage]) -> list[str]:
    """Return the names of the tools whose calls have no result in these messages."""
    waiting: dict[str, str] = {}
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCallPart):
            waiting[part.tool_call_id] = part.tool_name
        elif isinstance(part, ToolReturnPart | RetryPromptPart):
            waiting.pop(part.tool_call_id, None)
    return list(waiting.values())


def _compare(given: list[ModelMessage], made: list[ModelMessage]) -> None:
    """Refuse messages that are not those of the state: who sees them would decide on something else than runs."""
    try:
        ours, theirs = plain(made), plain(given)
    except (TypeError, ValueError, RecursionError):
        raise StateRejected("message_history holds what no run of this agent has sealed: it is no JSON") from None
    wrong = next((place for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if wrong is None and len(ours) != len(theirs):
        wrong = min(len(ours), len(theirs))
    if wrong is not None:
        raise StateRejected(
            f"message_history[{wrong}] is not as the run left it: a history is continued only as all_messages() "
            f"returned it; to change what would run, approve with ToolApproved(override_args=...)"
        )


def _unsealed(messages: Sequence[ModelMessage], first: int = 0) -> list[Item]:
    """Convert messages that nobody sealed, or refuse those in which calls and results do not belong together."""
    items = items_of(messages, first)
    waiting: dict[str, str] = {}
    for item in items:
        label = item.get("call_id", "")
        if item.get("type") == "function_call":
            if not label or label in waiting:
                what = f"two open calls with the id {label!r}" if label else "a call without an id"
                raise UserError(f"message_history holds {what}, and no run has sealed it; give each call its own id")
            waiting[label] = item["name"]
        elif item.get("type") == "function_call_output" and waiting.pop(label, None) is None:
            raise UserError(f"message_history holds a result with the id {label!r} of a call that was never made")
    if waiting:
        raise StateRejected(
            f"message_history holds a call of {next(iter(waiting.values()))!r} without a result, and no run of this "
            "agent has sealed it: it is not executed. Pass the list that all_messages() returned, whole"
        )
    return items
