"""Read an `output_type` as programs of Pydantic AI write it: a type, a union, or a list of types.

`DeferredToolRequests` among them says that the program is ready for a run that waits. It is no answer of the model, so
that it is taken out of what the model is asked for.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

from ..core.errors import UserError
from .requests import DeferredToolRequests


def answer_type(output_type: object) -> Any:
    """Return the type that the model's answer has.

    >>> answer_type([str, DeferredToolRequests]), answer_type(int | DeferredToolRequests)
    (<class 'str'>, <class 'int'>)
    """
    members = _members(output_type)
    answers = [each for each in members if each is not DeferredToolRequests]
    if not answers:
        raise UserError("output_type needs a type for the answer, too: [str, DeferredToolRequests]")
    for each in answers:
        if not isinstance(each, type) and get_origin(each) is None:
            raise UserError(
                f"output_type holds {each!r}: it may hold types; output functions and markers such as ToolOutput are "
                "not covered, and a type alone does the same"
            )
    if len(answers) == 1:
        return answers[0]
    return Union[tuple(answers)]  # noqa: UP007  # made of what is known only now


def _members(output_type: object) -> list[Any]:
    if isinstance(output_type, list | tuple):
        return [member for each in cast("list[Any]", output_type) for member in _members(each)]
    if get_origin(output_type) in (Union, UnionType):
        return list(get_args(output_type))
    return [output_type]
