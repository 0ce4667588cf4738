"""The scripted model, which answers what a test tells it to: no network, no clock, no random numbers.

A script is a queue of steps, one for each time the model is asked. A callable in its place answers every time from
the conversation alone, so that a run which was cut and resumed, here or in another process, goes on the same way.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from copy import copy
from dataclasses import fields, replace
from itertools import islice
from typing import Any, cast

from ...core.items import Item, input_items, own_copies
from ...core.settable import Sealed
from ..base import Model, ModelRequest, ModelResponse, Usage
from ..reply_events import StreamEvent, reply_events
from .items import assistant_message, function_call, last_user_text, reasoning, refusal, tool_outputs
from .script import (
    InvalidModelStep,
    ModelScriptError,
    ModelStep,
    Responder,
    UnconsumedModelSteps,
    UnexpectedModelCall,
    read_step,
)

__all__ = [
    "InvalidModelStep",
    "ModelCall",
    "ModelScriptError",
    "ModelStep",
    "ScriptedModel",
    "StreamEvent",
    "UnconsumedModelSteps",
    "UnexpectedModelCall",
    "assistant_message",
    "function_call",
    "last_user_text",
    "reasoning",
    "refusal",
    "tool_outputs",
]

# What is a step by itself where several are wanted.
_SINGLE = (str, Mapping, ModelStep, ModelResponse, BaseException)


class ModelCall(ModelRequest):
    """Holds one recorded request of a `ScriptedModel`; its items are copied when they are first read.

    >>> from keyturn.models.base import ModelSettings
    >>> given = [{"role": "user", "content": "hi"}]
    >>> call = ModelCall(ModelRequest(None, given, ModelSettings(), [], None, []))
    >>> call.input[0]["content"] = "edited"
    >>> given[0]["content"], call.input[0]["content"], call.streamed
    ('hi', 'edited', False)
    """

    __slots__ = ("_copied", "_input")

    def __init__(self, request: ModelRequest) -> None:
        for name in _FIELDS:
            setattr(self, name, getattr(request, name))
        self.model_settings = copy(request.model_settings)
        self.tools, self.handoffs = list(request.tools), list(request.handoffs)
        self._copied = False

    @property
    def input(self) -> list[Item]:
        """Return the items of the request, as a list of its own."""
        if not self._copied:
            self._input, self._copied = own_copies(self._input), True
        return self._input

    @input.setter
    def input(self, items: list[Item]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # see above
        self._input = items


_FIELDS = tuple(field.name for field in fields(ModelRequest))


class ScriptedModel(Model, Sealed):
    """Answers with the next step of a script; or, given one function, with what that makes of the request.

    A step is whatever `ModelStep` can say, or shorter: a list of output items, one item, a text, an exception to
    raise, a function of the request (sync or async) that returns one of these. `calls` holds a copy of every request
    as it came. A function gets the request itself: its `input` is a list of its own, but the items in it are the run's;
    read them, never write to them. Replies are copies: no edit reaches the script.

    Streamed, the same steps become Responses events, in pieces of `chunk` characters or word by word. `name` is the
    model's name, by which what it used is counted and priced.

    >>> import asyncio
    >>> from keyturn.models.base import ModelSettings
    >>> model = ScriptedModel([[function_call("look", {"at": "sky"})], "It is blue."])
    >>> ask = lambda: asyncio.run(model.get_response(None, "sky?", ModelSettings(), [], None, [], None))
    >>> ask().output[0].name, ask().output[0].content[0].text
    ('look', 'It is blue.')
    >>> model.assert_done()
    """

    def __init__(
        self,
        steps: Iterable[Any] | Responder = (),
        *,
        emit_traces: bool = True,
        default_usage: Usage | None = None,
        chunk: int | None = None,
        name: str = "scripted",
    ) -> None:
        if isinstance(steps, _SINGLE):
            raise InvalidModelStep("steps is a list of steps, or one function of the request; this is a single step")
        if not emit_traces:
            why = "the run makes the span of a model call, not the model: leave emit_traces out"
            raise InvalidModelStep(f"{why}, or turn all spans of a run off with RunConfig(tracing_disabled=True)")
        if chunk is not None and chunk < 1:
            raise InvalidModelStep("chunk is how many characters a delta has: at least 1")
        self.calls: list[ModelCall] = []
        self.model = name
        self.set_default_usage(default_usage)
        self._chunk = chunk
        self._always = ModelStep(responder=steps) if callable(steps) else None
        self._steps: deque[ModelStep] = deque()
        self._written = 0
        if not callable(steps):
            self.enqueue(*steps)

    @property
    def remaining_steps(self) -> int:
        """Return how many steps nobody has asked for yet."""
        return len(self._steps)

    @property
    def first_call(self) -> ModelCall | None:
        """Return the first request, None where there was none yet."""
        return self.calls[0] if self.calls else None

    @property
    def last_call(self) -> ModelCall | None:
        """Return the latest request, None where there was none yet."""
        return self.calls[-1] if self.calls else None

    def set_default_usage(self, usage: Usage | None) -> None:
        """Set what a reply used whose step does not say; None is one request without tokens."""
        if usage is not None and not isinstance(cast("Any", usage), Usage):
            raise InvalidModelStep(f"usage must be a Usage or None, not {type(usage).__name__}")
        self._usage = Usage(requests=1) if usage is None else usage

    def extend(self, steps: Iterable[Any]) -> None:
        """Add each of some steps to the end of the script; `enqueue` takes them one by one.

        >>> model = ScriptedModel()
        >>> model.extend(["one", "two"])
        >>> model.remaining_steps
        2
        """
        if isinstance(steps, _SINGLE) or callable(steps):
            raise InvalidModelStep("extend takes a list of steps; this is a single step: enqueue it")
        self.enqueue(*steps)

    def enqueue(self, *steps: Any) -> None:
        """Add steps to the end of the script."""
        if self._always is not None:
            raise InvalidModelStep("this model answers every request with one function; it has no script to add to")
        read = [read_step(given, f"step {self._written + at + 1}", at) for at, given in enumerate(steps)]
        self._steps += read
        self._written += len(read)

    def assert_done(self) -> None:
        """Raise `UnconsumedModelSteps` unless every step was asked for."""
        if self._steps:
            raise UnconsumedModelSteps(len(self._steps), asked=len(self.calls))

    assert_complete = assert_done  # what openai-agents calls it

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the next step, whole; for a step that breaks its stream off, the whole reply."""
        number, _, step = await self._next(ModelRequest(*args, **kwargs))
        if step.error is not None:
            raise step.error
        if step.stream_events is not None and not step.output:
            raise InvalidModelStep(f"reply {number} is only told as a stream; give its ModelStep an output as well")
        return self._reply(step, number)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream the next step as Responses events."""
        number, request, step = await self._next(ModelRequest(*args, **kwargs, streamed=True))
        if step.stream_events is not None:
            async for event in _exactly(step.stream_events, request):
                yield event
            return
        stop = 0 if step.error is not None and step.break_after is None else step.break_after
        for event in islice(reply_events(self._reply(step, number), self._chunk), stop):
            yield event
        if step.error is not None:
            raise step.error

    async def _next(self, request: ModelRequest) -> tuple[int, ModelRequest, ModelStep]:
        if isinstance(cast("Any", request.input), str):
            request = replace(request, input=input_items(cast("Any", request.input)))
        call = ModelCall(request)
        self.calls.append(call)
        number = len(self.calls)
        if self._always is None and not self._steps:
            raise UnexpectedModelCall(call, asked=number, steps=self._written)
        step = self._always or self._steps.popleft()
        if step.responder is not None:
            answer = step.responder(request)
            answer = await answer if inspect.isawaitable(answer) else answer
            step = read_step(answer, f"the function's reply {number}")
            if step.responder is not None:
                raise InvalidModelStep(f"the function's reply {number} is a function again; return a reply")
        if step.delay is not None:
            await (step.delay() if callable(step.delay) else asyncio.sleep(step.delay))
        return number, request, step

    def _reply(self, step: ModelStep, number: int) -> ModelResponse:
        usage = Usage.from_counts((step.usage or self._usage).counts())
        return ModelResponse(own_copies(step.output), usage, step.response_id or f"resp_{number}", step.request_id)


async def _exactly(events: Iterable[Any] | Callable[[ModelRequest], Any], request: ModelRequest) -> AsyncIterator[Any]:
    given: Any = events(request) if callable(events) else events
    if hasattr(given, "__aiter__"):
        async for event in given:
            yield event
        return
    for event in given:
        if isinstance(event, BaseException):
            raise event
        yield event
