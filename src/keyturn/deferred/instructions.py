"""Put the instructions of an agent together: texts, and functions that give texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, cast

from ..core.errors import UserError
from ..user_code import answer_of


class Instructions:
    """Holds texts and functions; `text` gives all of it for one run.

    >>> Instructions("Be kind.", ["Be brief."]).text
    'Be brief.\\n\\nBe kind.'
    """

    def __init__(self, instructions: Any, system_prompt: str | Sequence[str]) -> None:
        first = [system_prompt] if isinstance(system_prompt, str) else list(system_prompt)
        self._parts: list[Any] = [*_parts(first, "system_prompt"), *_parts(instructions, "instructions")]

    def add(self, function: Callable[..., Any]) -> None:
        """Add a function."""
        self._parts += _parts(function, "instructions")

    def known_by(self) -> list[str]:
        """Return what identifies these instructions: the texts, and the names of the functions."""
        return [each if isinstance(each, str) else getattr(each, "__qualname__", "callable") for each in self._parts]

    @property
    def text(self) -> Any:
        """Return one text where all are texts, else a function of a run's context."""
        if not self._parts:
            return None
        if all(isinstance(each, str) for each in self._parts):
            return "\n\n".join(self._parts)
        return self._all

    async def _all(self, context: object, _agent: object) -> str:
        said = [each if isinstance(each, str) else await _given(each, context) for each in self._parts]
        return "\n\n".join(each for each in said if each)


def _parts(given: object, what: str) -> list[Any]:
    several = cast("list[Any]", given) if isinstance(given, list | tuple) else [] if given is None else [given]
    for each in several:
        if not isinstance(each, str) and not callable(each):
            raise UserError(f"{what} is a text, a function or a list of them, and holds a {type(each).__name__}")
    return [each for each in several if each != ""]


async def _given(function: Callable[..., Any], context: object) -> str | None:
    wanted = [
        each
        for each in signature(function).parameters.values()
        if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    return await answer_of(function, *((context,) if wanted else ()))
