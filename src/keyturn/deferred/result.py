"""The result of a run in the way of Pydantic AI: the output, and the messages with the sealed state in the last one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic

from typing_extensions import TypeVar

from ..core.usage import Usage
from ..engine.result import RunResult
from .conversation import messages_of
from .deciding import requests_of
from .history import sealed
from .messages import (
    ModelMessage,
    ModelResponse,
    messages_to_json,
    plain,
)

OutputT = TypeVar("OutputT", default=Any)


class RunUsage(Usage):
    """Counts what a run used: `result.usage.requests`; calling it gives the same, as older programs do.

    >>> RunUsage(requests=2)().requests
    2
    """

    __slots__ = ()

    def __call__(self) -> RunUsage:
        """Return the same."""
        return self


class AgentRunResult(Generic[OutputT]):
    """Holds what a run came to: `output` is its answer, or a `DeferredToolRequests` while calls wait.

    >>> from keyturn.deferred import Agent
    >>> from keyturn.testing import ScriptedModel
    >>> result = Agent(ScriptedModel(["hello"])).run_sync("hi")
    >>> result.output, len(result.all_messages())
    ('hello', 2)
    """

    __slots__ = ("__weakref__", "_before", "inner", "output")

    def __init__(self, result: RunResult, before: list[ModelMessage]) -> None:
        self.inner = result
        self._before = before
        waits: Any = requests_of(result.to_state()) if result.interruptions else None
        self.output: OutputT = waits if result.interruptions else result.final_output

    @property
    def run_id(self) -> str:
        """Return the run's id; a run that waited and goes on is the same run."""
        return self.inner.run_id

    @property
    def usage(self) -> RunUsage:
        """Return what the run has used, all its pauses included."""
        used = self.inner.usage
        return RunUsage(**{name: getattr(used, name) for name in used.__dataclass_fields__})

    @property
    def response(self) -> ModelResponse:
        """Return the model's last reply."""
        replies = [each for each in self.all_messages() if isinstance(each, ModelResponse)]
        return replies[-1] if replies else ModelResponse([])

    def all_messages(self) -> list[ModelMessage]:
        """Return the conversation so far; the last message carries the sealed state of the run."""
        return sealed(messages_of(self.inner.conversation()), self.inner.to_state())

    def new_messages(self) -> list[ModelMessage]:
        """Return what the given `message_history` had not."""
        return _beyond(self._before, self.all_messages())

    def all_messages_json(self) -> bytes:
        """Return `all_messages()` as JSON."""
        return messages_to_json(self.all_messages())

    def new_messages_json(self) -> bytes:
        """Return `new_messages()` as JSON."""
        return messages_to_json(self.new_messages())

    def __repr__(self) -> str:
        return f"AgentRunResult(output={self.output!r})"


def _beyond(before: list[ModelMessage], after: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages that are new; of one that has grown, only what was added to it."""
    known, made = plain(before), plain(after)
    same = next((place for place, (a, b) in enumerate(zip(known, made, strict=False)) if a != b), len(known))
    new = after[same:]
    if same == len(known) or not new:
        return new
    had = list(known[same]["parts"])
    kept: list[Any] = []
    for part, said in zip(new[0].parts, made[same]["parts"], strict=True):
        if said in had:
            had.remove(said)
        else:
            kept.append(part)
    return [replace(new[0], parts=kept), *new[1:]]
