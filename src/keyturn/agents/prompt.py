"""What an agent tells its model before the conversation: instructions, or a prompt the provider keeps.

Both may be functions of the run. They are worked out for each model call and never recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, NotRequired, TypedDict, cast

from ..core.errors import UserError
from ..user_code import answer_of
from .agent_base import takes
from .context import RunContextWrapper


class Prompt(TypedDict):
    """Names a prompt that the provider keeps.

    >>> Prompt(id="pmpt_1", version="3")["version"]
    '3'
    """

    id: str
    version: NotRequired[str]
    variables: NotRequired[dict[str, Any]]


@dataclass(slots=True)
class GenerateDynamicPromptData:
    """Holds what a function that chooses the prompt gets.

    >>> GenerateDynamicPromptData(RunContextWrapper(None), agent=None).agent is None
    True
    """

    context: RunContextWrapper[Any]
    agent: Any


Instructions = str | Callable[[RunContextWrapper[Any], Any], str | Awaitable[str | None] | None]
DynamicPromptFunction = Callable[[GenerateDynamicPromptData], Prompt | Awaitable[Prompt]]


async def system_prompt(instructions: Any, context: RunContextWrapper[Any], agent: Any) -> str | None:
    """Return the instructions as text, for this run."""
    if instructions is None or isinstance(instructions, str):
        return instructions
    return await answer_of(instructions, context, agent)


def check_instructions(instructions: object) -> None:
    """Refuse a callable that does not take exactly the context and the agent."""
    if not callable(instructions) or takes(instructions, 2):
        return
    names = list(signature(instructions).parameters)
    raise TypeError(
        f"'instructions' callable must accept exactly 2 arguments (context, agent), but got {len(names)}: {names}"
    )


async def resolved_prompt(prompt: Any, context: RunContextWrapper[Any], agent: Any) -> dict[str, Any] | None:
    """Return the provider's prompt with all its fields, or None."""
    if prompt is None:
        return None
    made: Any = prompt
    if callable(prompt):
        made = await answer_of(prompt, GenerateDynamicPromptData(context, agent))
    if not isinstance(made, Mapping) or not isinstance(cast("Mapping[str, Any]", made).get("id"), str):
        raise UserError(f"the prompt of agent {agent.name!r} must be a mapping with the prompt's 'id'")
    given = cast("Mapping[str, Any]", made)
    return {"id": given["id"], "version": given.get("version"), "variables": given.get("variables")}
