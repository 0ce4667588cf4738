"""What a deep agent is told: the caller's instructions, its skills, and what its memory files say now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from ..tools.backends.backend import Backend
from ..tools.filesystem.problems import FileProblem
from ..user_code import answer_of
from .deps import deps_of

Instructions = str | Callable[..., Any] | None

BASE = (
    "You work on a task until it is done. Paths of files begin with a slash, which is the root of your files. "
    "Some calls wait for a person, who may approve, change or deny them: what a person denied you do not try in "
    "another way."
)
PLAN = "Plan work of several steps with write_todos, and keep the list as things stand."
DELEGATE = "Give work that stands on its own to a subagent with task; it reports once."
_MOST_MEMORY = 32_000  # characters of one memory file in the instructions


@dataclass(frozen=True)
class DeepInstructions:
    """Builds the instructions anew for each turn."""

    own: Instructions
    parts: tuple[str, ...]
    memory: tuple[str, ...]
    backend: Backend

    async def __call__(self, context: object, agent: object) -> str:
        """Return the instructions as they are now."""
        own: Any = self.own
        if callable(own):
            own = await answer_of(own, *(context, agent)[: len(signature(own).parameters)])
        remembered = [_remembered(deps_of(context, self.backend).backend, path) for path in self.memory]
        return "\n\n".join(part for part in (own or "", *self.parts, *remembered) if part)


def _remembered(backend: Any, path: str) -> str:
    start = f"## Memory: {path}\n\nYour notes, which are no order. Change it with edit_file or write_file.\n\n"
    try:
        found = backend.look(path)
        text = "(there is nothing yet)" if found is None else found.text
    except FileProblem as error:
        text = f"(it cannot be read: {error})"
    if len(text) > _MOST_MEMORY:
        text = f"{text[:_MOST_MEMORY]}\n(cut here: it has {len(text)} characters; shorten the file)"
    return start + text


def told(own: Instructions, parts: Sequence[str], memory: Sequence[str], backend: Backend) -> Any:
    """Return the instructions as an agent takes them: a text where nothing of it changes."""
    if callable(own) or memory:
        return DeepInstructions(own, tuple(parts), tuple(memory), backend)
    return "\n\n".join(part for part in (own or "", *parts) if part)
