"""A model made of several: when the provider of one fails, the next one is asked.

Only a provider's own trouble moves on: overload, limits, a dead line. A refusal is an answer, a wrong key or a bad
request is the caller's to mend, and a stream that has begun is never told twice. No provider's package is imported.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from ..core.errors import UserError
from ..core.settable import Sealed, own_of
from ..support.credentials import credentials_of, without
from ..support.user_code import answer_of, run_callback
from . import default_provider
from .base import Model, ModelRequest, ModelResponse, approves, close_stream, not_begun
from .faults import is_passing


class FallbackModel(Model, Sealed):
    """Asks the first model, and the next one where the provider of the one before has failed.

    Models are given as objects or by name. `last` is the one that answered last, None before the first answer.
    `hop` says of an error whether the next model is asked; the default is 408, 409, 425, 429, 5xx, timeouts and dead
    connections. A conversation that is kept at one provider never moves to another, and a question by which a provider
    may have run an approved call is not asked twice.

    >>> import asyncio
    >>> from keyturn.models.base import ModelSettings
    >>> from keyturn.models.scripted.model import ScriptedModel
    >>> model = FallbackModel(ScriptedModel([ConnectionError("down")]), ScriptedModel(["hello"]))
    >>> reply = asyncio.run(model.get_response(None, "hi", ModelSettings(), [], None, [], None))
    >>> reply.output[0].content[0].text, model.last is model.models[1]
    ('hello', True)
    """

    def __init__(
        self, first: Model | str, *others: Model | str, hop: Callable[[BaseException], bool] = is_passing
    ) -> None:
        self.models = [_model(given) for given in (first, *others)]
        self.last: Model | None = None
        self._hop = hop

    @property
    def model(self) -> str:
        """Return the name of the model that answered last."""
        return getattr(self.last, "model", "")

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the first reply that any of the models gives, in their order."""
        failed: list[BaseException] = []
        for model in self.models:
            try:
                reply = await answer_of(model.get_response, *args, **kwargs)
            except Exception as error:
                self._move_on(error, failed, ModelRequest(*args, **kwargs))
            else:
                own_of(self)["last"] = model
                return reply
        raise AssertionError("the last model's error is raised where it happens")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream the first reply; once an event was yielded, its model stays the one that answers."""
        failed: list[BaseException] = []
        for model in self.models:
            begun = False
            events = model.stream_response(*args, **kwargs)
            try:
                async for event in events:
                    begun, own_of(self)["last"] = True, model
                    yield event
                return
            except Exception as error:
                if begun:
                    raise
                self._move_on(error, failed, ModelRequest(*args, **kwargs))
            finally:
                await close_stream(events)

    async def close(self) -> None:
        """Release what all the models hold."""
        for model in self.models:
            await model.close()

    def _move_on(self, error: BaseException, failed: list[BaseException], request: ModelRequest) -> None:
        """Raise the error, unless the next model may be asked."""
        failed.append(error)
        at_home = request.previous_response_id is not None or request.conversation_id is not None
        acted = approves(request.input) and not not_begun(error)
        if at_home or acted or len(failed) == len(self.models) or not run_callback(self._hop, error):
            for number, before in enumerate(failed[:-1], 1):
                said = without(str(before), credentials_of(before))
                error.add_note(f"model {number} failed before: {type(before).__name__}: {said}")
            raise error


def _model(given: Model | str) -> Model:
    if isinstance(given, str):
        return default_provider().get_model(given)
    if not isinstance(cast("Any", given), Model):
        raise UserError(f"FallbackModel takes models and names of models, not {type(given).__name__}")
    return given
