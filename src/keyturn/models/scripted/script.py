"""A model's script: its steps, the short forms in which they may be written, and the errors of one.

A step says what a model answers or how it fails. It is checked when it is written, not when it is played, and nothing
here plays it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from ...core.errors import UserError
from ...core.immutable import immutable
from ...core.items import Item, RawItem, plain_item
from ..base import ModelRequest, ModelResponse, Usage
from .items import assistant_message

Responder = Callable[[ModelRequest], Any]

_KINDS = (
    "a step is a list of output items, one item, a text, a ModelStep, a ModelResponse, an exception to raise, "
    "or a function of the request that returns one of them"
)


class ModelScriptError(UserError):
    """Raised where a model's script and the requests to the model do not match.

    >>> issubclass(UnexpectedModelCall, ModelScriptError)
    True
    """


class InvalidModelStep(ModelScriptError):
    """Raised for a step that no model could play.

    `input_index` is the place of the step among those that were given together, from 0; None where it stood alone.

    >>> ModelStep("done", error=OSError())
    Traceback (most recent call last):
    ...
    keyturn.models.scripted.script.InvalidModelStep: it cannot answer and raise; ... add break_after
    """

    def __init__(self, message: str, *, input_index: int | None = None) -> None:
        super().__init__(message)
        self.input_index = input_index


class UnexpectedModelCall(ModelScriptError):
    """Raised where the model is asked once more than its script has steps.

    `call` is the request, `call_index` its place among the requests, from 0; the text quotes none of it.

    >>> from keyturn.models.base import ModelSettings
    >>> raise UnexpectedModelCall(ModelRequest(None, [], ModelSettings(), [], None, []), asked=3, steps=2)
    Traceback (most recent call last):
    ...
    keyturn.models.scripted.script.UnexpectedModelCall: the model was asked for reply 3 and its script has 2 ...
    """

    def __init__(self, call: ModelRequest, *, asked: int, steps: int) -> None:
        self.call = call
        self.call_index = asked - 1
        self.asked = asked
        super().__init__(
            f"the model was asked for reply {asked} and its script has {steps} "
            f"(this time with {len(call.input)} items of input, {len(call.tools)} tools and "
            f"{len(call.handoffs)} handoffs); add a step, or find out why the run continues"
        )


class UnconsumedModelSteps(ModelScriptError):
    """Raised where the script has steps that nobody asked for.

    >>> UnconsumedModelSteps(2, asked=1).remaining_steps
    2
    """

    def __init__(self, remaining_steps: int, *, asked: int) -> None:
        self.remaining_steps = remaining_steps
        super().__init__(
            f"the model was asked {asked} times and {remaining_steps} steps of its script are left; "
            "remove them, or find out why the run ended early"
        )


@immutable
@dataclass(frozen=True)
class ModelStep:
    """Describes one reply, and how it goes wrong.

    `output` is a list of items, one item or a text. `error` is raised in place of a reply; `responder` makes the step
    from the request. `stream_events` are yielded exactly, in place of those made from `output`; an exception among them
    is raised there, and a function of the request may return them, as an async iterator too. `break_after` ends the
    stream after so many events, with `error` if there is one. `delay` is waited for first: seconds, or a
    function such as `event.wait`.

    >>> ModelStep("done").output[0].content[0].text
    'done'
    """

    output: Any = ()
    usage: Usage | None = None
    response_id: str | None = None
    request_id: str | None = None
    error: BaseException | None = None
    responder: Responder | None = None
    stream_events: Iterable[Any] | Callable[[ModelRequest], Any] | None = None
    delay: float | Callable[[], Awaitable[Any]] | None = None
    break_after: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", _items(self.output))
        for fault, why in self._faults():
            if fault:
                raise InvalidModelStep(why)

    @classmethod
    def respond(cls, responder: Responder) -> ModelStep:
        """Make a step whose reply is made of the request, by a function (sync or async).

        >>> ModelStep.respond(lambda request: f"{len(request.input)} items").output
        []
        """
        return cls(responder=responder)

    @classmethod
    def stream(
        cls,
        events: Iterable[Any] | Callable[[ModelRequest], Any],
        *,
        output: Any = (),
        usage: Usage | None = None,
        response_id: str | None = None,
    ) -> ModelStep:
        """Make a step that streams exactly these events; `output` is the reply where nobody streams.

        >>> ModelStep.stream([ConnectionError("cut off")], output="done").output[0].content[0].text
        'done'
        """
        return cls(output, usage, response_id, stream_events=events)

    @classmethod
    def raise_error(cls, error: BaseException) -> ModelStep:
        """Make a step that raises an exception in place of a reply.

        >>> ModelStep.raise_error(TimeoutError("too slow")).error
        TimeoutError('too slow')
        """
        return cls(error=error)

    def _faults(self) -> Iterable[tuple[bool, str]]:
        error, wait = self.error, self.delay
        others = (self.output, self.usage, self.response_id, self.request_id, error, self.stream_events, wait)
        yield error is not None and not isinstance(cast("Any", error), BaseException), "error must be an exception"
        yield self.responder is not None and not callable(self.responder), "responder must be a function of the request"
        yield (
            self.responder is not None and any(other is not None and other != [] for other in others),
            "a responder says everything; return a ModelStep from it",
        )
        yield (
            error is not None and self.break_after is None and bool(self.output),
            "it cannot answer and raise; to raise in the middle of a stream add break_after",
        )
        yield (
            self.stream_events is not None and (error is not None or self.break_after is not None),
            "stream_events are yielded exactly; put the error among them, or leave events out",
        )
        yield (
            self.stream_events is not None and not callable(self.stream_events) and not _iterable(self.stream_events),
            "stream_events must be a list of events, or a function of the request",
        )
        yield self.break_after is not None and self.break_after < 0, "break_after must be 0 or more"
        yield self.usage is not None and not isinstance(cast("Any", self.usage), Usage), "usage must be a Usage"
        yield wait is not None and not callable(wait) and wait < 0, "delay must be 0 or more"


def _iterable(events: object) -> bool:
    return hasattr(events, "__iter__") or hasattr(events, "__aiter__")


_FIELDS = {field.name for field in fields(ModelStep)}


def read_step(given: object, place: str, index: int | None = None) -> ModelStep:
    """Return a step from any of its short forms; `place` is what an error calls it, `index` where it was given.

    >>> read_step("done", "step 1").output[0].content[0].text
    'done'
    """
    try:
        return _read(given)
    except InvalidModelStep as error:
        raise InvalidModelStep(f"{place}: {error}; {_KINDS}", input_index=index) from None


def _read(given: object) -> ModelStep:
    if isinstance(given, ModelStep):
        return given
    if isinstance(given, BaseException):
        return ModelStep(error=given)
    if isinstance(given, ModelResponse):
        return ModelStep(given.output, given.usage, given.response_id, given.request_id)
    if isinstance(given, Mapping):
        told = dict(cast("Mapping[str, Any]", given))
        return ModelStep(**told) if told and told.keys() <= _FIELDS else ModelStep(told)
    if callable(given) and not isinstance(given, type):
        return ModelStep(responder=given)
    return ModelStep(given)


def _items(output: object) -> list[Item]:
    if isinstance(output, Sequence) and not isinstance(output, str):
        return [_item(entry) for entry in cast("Sequence[Any]", output)]
    return [_item(output)]


def _item(entry: object) -> Item:
    if isinstance(entry, str):
        return assistant_message(entry)
    try:
        item = plain_item(entry)
    except TypeError:
        raise InvalidModelStep(f"{type(entry).__name__} is not an output item") from None
    if "type" not in item and "role" not in item:
        raise InvalidModelStep("an output item has a type, and this mapping has none")
    return RawItem(item)
