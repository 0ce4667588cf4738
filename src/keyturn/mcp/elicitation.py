"""Convert a server's elicitation requests to JSON for the log, and people's answers to what the server expects.

An answer that does not fit is never sent: the question is asked again, with what was wrong.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, cast

from ..support.json_schema import misfit
from .base import ToolReply
from .bounds import WORDS_BYTES, size_of
from .calls import CallRefused, InputRequired, Lost, Parked

ONLY = "elicitation"
_METHOD = "elicitation/create"
_ACTIONS = ("accept", "decline", "cancel")


class Unfit(Exception):
    """Raised where an answer cannot be sent; the text says why."""


def question(params: Any) -> dict[str, Any]:
    """Convert one elicitation to JSON: its message, and the schema of the answer or the URL to visit."""
    fields: dict[str, Any] = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    fields.pop("_meta", None)
    try:
        size_of(fields)
    except ValueError as problem:
        raise CallRefused(f"what it asked people is {problem}; the call was not finished") from None
    return fields


def questions(requests: Mapping[str, Any]) -> dict[str, Any]:
    """Convert all questions of a call; refuse those that only a model or a file system could answer."""
    other = next((each for each in requests.values() if each.method != _METHOD), None)
    if other is not None:
        raise CallRefused(f"it asked for {other.method}, which is not supported; the call was not finished")
    return {key: question(each.params) for key, each in requests.items()}


def open_question(got: Parked) -> dict[str, Any]:
    """Return what a server asks in the middle of a call, which goes on there whether or not anybody can answer."""
    try:
        return question(got.params)
    except CallRefused as problem:
        raise Lost(str(problem)) from None


async def reply_of(work: Coroutine[Any, Any, Any]) -> ToolReply:
    """Await a call, and return its result or what its server asks first."""
    got = await work
    if isinstance(got, Parked):
        return ToolReply(requests={ONLY: open_question(got)}, state={"parked": got.token})
    if isinstance(got, InputRequired):
        return ToolReply(requests=questions(got.requests), state={"request_state": got.state})
    return ToolReply(result=got)


def asked_next(got: InputRequired, *, answered: bool) -> dict[str, Any]:
    """Return what a server asks people; refuse what nobody could answer.

    Once it has had answers to what it asked before, it may have acted on them, and nobody knows how its call ended.
    """
    try:
        if len(got.state or "") > WORDS_BYTES:
            raise CallRefused("the state that it wants sent back is too long; the call was not finished")
        return questions(got.requests)
    except CallRefused as problem:
        if answered:
            raise Lost(str(problem)) from None
        raise


def asked_again(asked: dict[str, Any], problem: str) -> dict[str, Any]:
    """Return the same questions with what was wrong with the answer, under a key that no question has."""
    named: dict[str, Any] | None = asked.get("problem")
    return {**asked, "problem": problem if named is None else {**named, "problem": problem}}


def results(asked: Mapping[str, Any], answers: Any) -> dict[str, dict[str, Any]]:
    """Convert people's answers to the server's format, by the key of each question; None declines them all.

    An answer is `{"action": "accept" | "decline" | "cancel", "content": {...}}`, or the content alone. Where only one
    thing is asked, its key may be left out.
    """
    if answers is None:
        return {key: {"action": "decline"} for key in asked}
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", answers)) if isinstance(answers, Mapping) else {}
    if not given or not set(given) <= set(asked):
        if len(asked) != 1:
            raise Unfit(f"the answer must be an object with an entry for each of {', '.join(sorted(asked))}")
        given = {next(iter(asked)): answers}
    missing = sorted(set(asked) - set(given))
    if missing:
        raise Unfit(f"there is no answer to {', '.join(missing)}")
    return {key: _result(asked[key], given[key]) for key in asked}


def _result(asked: Mapping[str, Any], answer: object) -> dict[str, Any]:
    given = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else None
    if given is None and answer is not None:
        raise Unfit("the answer must be an object: the content, or an action with a content")
    if given is None:
        return {"action": "decline"}
    action: Any = given.get("action")
    worded = action in _ACTIONS and set(given) <= {"action", "content"}
    if worded and action != "accept":
        return {"action": action}
    content: Any = given.get("content") if worded else given
    schema = asked.get("requestedSchema")
    if schema is None:
        return {"action": "accept"}
    problem = misfit(schema, {} if content is None else content)
    if problem is not None:
        raise Unfit(f"the answer does not fit what was asked: {problem}")
    if not isinstance(content, Mapping | None) or not all(map(_plain, cast("dict[str, Any]", content or {}).values())):
        raise Unfit("the answer may hold only strings, numbers, true, false and lists of strings")
    return {"action": "accept", "content": content}


def _plain(value: object) -> bool:
    """Return whether the protocol allows the value in an answer."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in cast("list[Any]", value))
    return isinstance(value, str | int | float | bool | None)
