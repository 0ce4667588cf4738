"""Read what an interrupt asks, and write the answer in the form that its program waits for.

Known are the batched and the per-call interrupts of LangChain's human-in-the-loop middleware, and those of Agent Inbox.
Anything else is a question. LangGraph is not imported here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from ..asks.ask import AskState
from ..support.json_schema import misfit

QUESTION = "question"
_LONGEST = 100_000
_WHY = {"expired": "No decision was made in time.", "not_run": "The call did not run."}


class NotAccepted(Exception):
    """Raised where a program does not accept a decision: it is asked for again."""


@dataclass(frozen=True)
class PausedCall:
    """Holds one call of an interrupt, as people are asked for it and as its program accepts decisions on it."""

    tool: str
    arguments: str
    words: str = ""
    schema: Mapping[str, Any] | None = None
    accepts: tuple[str, ...] = ()

    @property
    def editable(self) -> bool:
        """Return whether its program accepts other arguments."""
        return "edit" in self.accepts


@dataclass(frozen=True)
class Shape:
    """Holds the calls of an interrupt, how the decision on each is written, and how these become one answer."""

    calls: tuple[PausedCall, ...]
    write: Callable[[PausedCall, AskState], Any]
    whole: Callable[[list[Any]], Any]

    @property
    def asks_for_value(self) -> bool:
        """Return whether it is a question: a rejection has no form that its program would understand."""
        return self.write is _value

    def answer(self, states: list[AskState]) -> Any:
        """Return what the program is resumed with."""
        return self.whole([self.write(call, state) for call, state in zip(self.calls, states, strict=True)])


def shape_of(value: Any, response_schema: Mapping[str, Any] | None = None) -> Shape:
    """Return what an interrupt asks.

    >>> shape_of({"action_requests": [{"name": "pay", "args": {"to": "ann"}}],
    ...           "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve"]}]}).calls[0].arguments
    '{"to": "ann"}'
    >>> shape_of("Which city?").calls[0].arguments
    '{"question": "Which city?"}'
    """
    for read in (_per_call, _batched, _agent_inbox):
        try:
            return read(value, response_schema or {})
        except (msgspec.ValidationError, _Unknown):
            continue
    return _question(value, response_schema)


# The shapes ---------------------------------------------------------------------------------------------------------


class _Unknown(Exception):
    """Raised where a value is not what its first lines say."""


class _Action(msgspec.Struct):
    """Holds an action of the middleware."""

    name: str
    args: dict[str, Any]
    description: str | None = None


class _Review(msgspec.Struct):
    """Holds which decisions an action accepts."""

    action_name: str
    allowed_decisions: tuple[str, ...]


class _Batch(msgspec.Struct):
    """Holds the actions of one reply."""

    action_requests: tuple[_Action, ...]
    review_configs: tuple[_Review, ...]


class _One(_Action, tag_field="type", tag="tool_approval"):
    """Holds an action that pauses alone."""


class _InboxAction(msgspec.Struct):
    """Holds an action of Agent Inbox."""

    action: str
    args: dict[str, Any]


class _InboxConfig(msgspec.Struct):
    """Holds which responses an action of Agent Inbox accepts."""

    allow_ignore: bool = False
    allow_respond: bool = False
    allow_edit: bool = False
    allow_accept: bool = False


class _Human(msgspec.Struct):
    """Holds an interrupt of Agent Inbox."""

    action_request: _InboxAction
    config: _InboxConfig
    description: str | None = None


def _batched(value: Any, schema: Mapping[str, Any]) -> Shape:
    batch = msgspec.convert(value, _Batch)
    accepts = {review.action_name: review.allowed_decisions for review in batch.review_configs}
    if not batch.action_requests or any(action.name not in accepts for action in batch.action_requests):
        raise _Unknown
    calls = tuple(_call(action, accepts[action.name]) for action in batch.action_requests)
    return Shape(calls, _decision, _decisions)


def _per_call(value: Any, schema: Mapping[str, Any]) -> Shape:
    action = msgspec.convert(value, _One)
    branches = _branches(schema)
    return Shape((_call(action, tuple(branches), _edited_arguments(schema, branches)),), _decision, _only)


def _agent_inbox(value: Any, schema: Mapping[str, Any]) -> Shape:
    humans = msgspec.convert(value if isinstance(value, list) else [value], tuple[_Human, ...])
    if not humans:
        raise _Unknown
    calls: list[PausedCall] = []
    for human in humans:
        asked = human.action_request
        named = {"ignore": "ignore", "respond": "response", "edit": "edit", "accept": "accept"}
        accepts = tuple(form for word, form in named.items() if getattr(human.config, f"allow_{word}"))
        calls.append(_call(_Action(asked.action, asked.args, human.description), accepts))
    return Shape(tuple(calls), _human_response, list)


def _question(value: Any, schema: Mapping[str, Any] | None) -> Shape:
    try:
        text = _json(cast("Any", value) if isinstance(value, dict) else {"question": value})
    except _Unknown:  # the place of an object in memory is another one at each look
        text = _json({"question": re.sub(r" at 0x[0-9a-f]+", "", repr(cast("Any", value)))[:_LONGEST]})
    words = "Answer it: the thread gets the answer. An approval answers true."
    return Shape((PausedCall(QUESTION, text, words, schema, ("answer",)),), _value, _only)


def _call(action: _Action, accepts: tuple[str, ...], schema: Mapping[str, Any] | None = None) -> PausedCall:
    words = action.description or ""
    if words.endswith(f"Tool: {action.name}\nArgs: {action.args}"):  # what the middleware writes where it is given none
        words = ""
    return PausedCall(action.name, _json(action.args), words, schema, accepts)


def _json(value: Any) -> str:
    """Return the text of a value that is JSON, and reads back as it is."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if json.loads(text) == value:
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    raise _Unknown


def _branches(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the decisions that a response schema lists, by their type."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in (schema, *cast("list[Any]", schema.get("oneOf") or schema.get("anyOf") or [])):
        branch = _referred(schema, each)
        kind = _referred(schema, branch.get("properties", {}).get("type")).get("const")
        if isinstance(kind, str):
            found[kind] = branch
    return found


def _edited_arguments(schema: Mapping[str, Any], branches: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return what edited arguments must fit."""
    action = _referred(schema, branches.get("edit", {}).get("properties", {}).get("edited_action"))
    wanted = _referred(schema, action.get("properties", {}).get("args"))
    return {**wanted, "$defs": schema.get("$defs", {})} if wanted else None


def _referred(schema: Mapping[str, Any], part: Any) -> Mapping[str, Any]:
    """Return a part of a schema, or what it refers to in its definitions; nothing where it is none."""
    if not isinstance(part, Mapping):
        return {}
    found = cast("Mapping[str, Any]", part)
    name = str(found.get("$ref", "")).removeprefix("#/$defs/")
    return cast("Mapping[str, Any]", schema.get("$defs", {}).get(name, {})) if "$ref" in found else found


# The answers --------------------------------------------------------------------------------------------------------


def _verdict(state: AskState) -> str:
    """Return what was decided; a call that ran already, or that a person answered, is answered with its result."""
    if state.status in ("approved", "claimed"):
        return "edit" if state.edited else "approve"
    return "answer" if state.status in ("answered", "succeeded") else "reject"


def _decision(call: PausedCall, state: AskState) -> Any:
    """Write a decision for LangChain's middleware; an edit never changes the tool."""
    verdict = _verdict(state)
    if verdict == "approve":
        return {"type": _accepted(call, "approve")}
    if verdict == "edit":
        return {"type": _accepted(call, "edit"), "edited_action": {"name": call.tool, "args": _edited(state)}}
    form = _accepted(call, *(("respond", "reject") if verdict == "answer" else ("reject", "respond")))
    words = _result(state) if verdict == "answer" else _reason(state)
    if form == "respond":
        words = words or "The call was rejected."
    return {"type": form, "message": words} if words else {"type": form}


def _human_response(call: PausedCall, state: AskState) -> Any:
    """Write a response for a program that was made for Agent Inbox."""
    verdict = _verdict(state)
    if verdict in ("approve", "edit"):
        form = _accepted(call, "accept" if verdict == "approve" else "edit")
        return {"type": form, "args": {"action": call.tool, "args": _edited(state)}}
    form = _accepted(call, *(("response", "ignore") if verdict == "answer" else ("ignore", "response")))
    if form == "ignore":
        return {"type": form, "args": None}
    return {"type": form, "args": _result(state) if verdict == "answer" else _reason(state) or "The call was rejected."}


def _value(call: PausedCall, state: AskState) -> Any:
    """Return the answer to a question."""
    value = True if _verdict(state) == "approve" else state.result
    problem = misfit(call.schema or {}, value)
    if problem is not None:
        raise NotAccepted(f"The previous answer was not accepted: {problem}.")
    return value


def _decisions(written: list[Any]) -> Any:
    return {"decisions": written}


def _only(written: list[Any]) -> Any:
    return written[0]


def _accepted(call: PausedCall, *forms: str) -> str:
    for form in forms:
        if form in call.accepts:
            return form
    known = ", ".join(call.accepts) or "nothing"
    raise NotAccepted(f"The previous decision was not accepted: the program accepts {known} for this call.")


def _edited(state: AskState) -> dict[str, Any]:
    """Return the arguments that were approved."""
    arguments = json.loads(state.arguments)
    if not isinstance(arguments, dict):
        raise NotAccepted("The previous edit was not accepted: arguments are a JSON object.")
    return cast("dict[str, Any]", arguments)


def _reason(state: AskState) -> str:
    return state.note or state.reason or _WHY.get(state.status, "")


def _result(state: AskState) -> str:
    return state.result if isinstance(state.result, str) else json.dumps(state.result, ensure_ascii=False)
