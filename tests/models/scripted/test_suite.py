"""The scripted model keeps the room's promises, and the suite finds models that do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from keyturn.core.errors import ModelBehaviorError
from keyturn.models.base import Model, ModelResponse, Usage
from keyturn.models.scripted.model import ModelStep, ScriptedModel
from keyturn.testing.suites.models import ModelSuite


class TestScriptedModel(ModelSuite):
    def make_model(self, script: list[ModelStep]) -> ScriptedModel:
        return ScriptedModel(script)


class TestAsyncMaker(ModelSuite):
    """`make_model` may have to wait, for a server that it starts, say."""

    async def make_model(self, script: list[ModelStep]) -> ScriptedModel:
        return ScriptedModel(script, chunk=1)


class Bad(Model):
    """A model with one fault."""

    def __init__(self, script: list[ModelStep]) -> None:
        self.inner = ScriptedModel(script)

    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        return await self.inner.get_response(*asked, **kept)

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        async for event in self.inner.stream_response(*asked, **kept):
            yield event


class Renames(Bad):
    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        try:
            return await super().get_response(*asked, **kept)
        except ConnectionError as error:
            raise ModelBehaviorError("failed") from error


class Forgets(Bad):
    async def get_response(self, *asked: Any, **kept: Any) -> ModelResponse:
        reply = await super().get_response(*asked, **kept)
        return ModelResponse(reply.output[:1], Usage(requests=1))


class Mutters(Bad):
    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        async for event in self.inner.stream_response(*asked, **kept):
            if not event.type.endswith(".delta"):
                yield event


class Pretends(Bad):
    """Completes a stream that broke off."""

    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        kind = ""
        async for event in self.inner.stream_response(*asked, **kept):
            kind = event.type
            yield event
        if kind != "response.completed":
            yield {"type": "response.completed", "response": {"id": "r", "output": []}}


class GoesOn(Bad):
    async def stream_response(self, *asked: Any, **kept: Any) -> AsyncIterator[Any]:
        async for event in self.inner.stream_response(*asked, **kept):
            yield event
        yield {"type": "response.afterthought"}


@pytest.mark.each
@pytest.mark.parametrize(
    ("kind", "name", "streamed"),
    [
        (Renames, "test_an_error_comes_as_it_is", False),
        (Forgets, "test_several_calls", False),
        (Forgets, "test_a_call_beside_a_text", False),
        (Forgets, "test_usage_is_passed_through", False),
        (Mutters, "test_deltas_add_up_to_the_text", None),
        (Pretends, "test_a_stream_that_breaks_off_is_not_completed", None),
        (GoesOn, "test_a_stream_ends_in_the_whole_reply", None),
    ],
)
def test_the_suite_finds_the_fault(kind: type[Bad], name: str, streamed: bool | None) -> None:
    class Suite(ModelSuite):
        def make_model(self, script: list[ModelStep]) -> Bad:
            return kind(script)

    with pytest.raises((AssertionError, ModelBehaviorError)):
        getattr(Suite(), name)(*([] if streamed is None else [streamed]))


def test_it_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="say how a model"):
        ModelSuite().test_text(streamed=False)
