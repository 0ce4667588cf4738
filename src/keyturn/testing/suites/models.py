"""The shared suite of the models room: what every model promises, whoever wrote it.

Subclass `ModelSuite`, say how a model that answers from a script is made, and pytest runs the rest; nothing but pytest
is needed. What only one provider can promise (its wire format, its errors) is tested beside that member.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import pytest

from ...core.errors import KeyturnError
from ...core.items import Item, message_text, refusal_text
from ...engine.effects.ask_model import read, streamed_response
from ...models.base import Model, ModelResponse, ModelSettings, TokenDetails, Usage
from ...models.scripted.items import assistant_message, function_call, refusal
from ...models.scripted.script import ModelStep

T = TypeVar("T")

plain_and_streamed = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])

TEXT = "To be, or not to be: that is the question — 東京 \U0001f511.\n"


class ModelSuite:
    """Tests a model: subclass it in a test module, name the class `Test...`, and implement `make_model`.

    >>> from keyturn.models.scripted.model import ScriptedModel
    >>> class TestScriptedModel(ModelSuite):
    ...     def make_model(self, script):
    ...         return ScriptedModel(script)
    >>> TestScriptedModel().test_text(streamed=True)
    """

    #: Whether calls come with the ids and the very text of the script; a provider that writes its own says False.
    keeps_calls: ClassVar[bool] = True

    def make_model(self, script: list[ModelStep]) -> Any:
        """Make a model whose provider answers with these replies in turn; sync or async, inside the event loop.

        Of each reply, `output` is its list of items. Where they are given, `usage` is what the provider counts,
        `error` is what its client raises in place of the reply, and `break_after` is after how many of
        its own events the stream is cut.
        """
        raise NotImplementedError("say how a model that answers from a script is made")

    def make_error(self) -> Exception:
        """Return what the provider's client raises when there is no reply."""
        return ConnectionError("the line is dead")

    def play(self, *script: ModelStep, streamed: bool) -> list[ModelResponse]:
        """Play all replies of a script, one after another."""
        return _run(self._play(list(script), streamed))

    async def _play(self, script: list[ModelStep], streamed: bool) -> list[ModelResponse]:
        model = await self._made(script)
        try:
            return [await (_streamed(model) if streamed else _plain(model)) for _ in script]
        finally:
            await model.close()

    async def _made(self, script: list[ModelStep]) -> Model:
        made = self.make_model(script)
        return await made if inspect.isawaitable(made) else made

    async def _told(self, step: ModelStep) -> tuple[list[Any], Exception | None]:
        """Return the events of one stream, and what ended it if it did not end by itself."""
        model, events = await self._made([step]), list[Any]()
        try:
            async for event in model.stream_response(*_asked()):
                events.append(event)
        except Exception as error:
            return events, error
        finally:
            await model.close()
        return events, None

    @plain_and_streamed
    def test_text(self, streamed: bool) -> None:
        [reply] = self.play(ModelStep(TEXT), streamed=streamed)
        assert self._said(reply) == [("message", TEXT, "")]

    @plain_and_streamed
    def test_several_calls(self, streamed: bool) -> None:
        calls = [function_call("pay", f'{{"to":"ada","n":{n}}}', call_id=f"c{n}") for n in range(3)]
        [reply] = self.play(ModelStep(calls), streamed=streamed)
        assert self._said(reply) == self._said(ModelResponse(list(calls)))
        labels = [item["call_id"] for item in reply.output]
        assert len({*labels} - {""}) == len(calls), "each call has an id of its own"

    @plain_and_streamed
    def test_a_call_beside_a_text(self, streamed: bool) -> None:
        [reply] = self.play(
            ModelStep([assistant_message(TEXT), function_call("look", call_id="c1")]), streamed=streamed
        )
        assert self._said(reply) == [("message", TEXT, ""), self._essence(function_call("look", call_id="c1"))]

    @plain_and_streamed
    def test_refusal(self, streamed: bool) -> None:
        [reply] = self.play(ModelStep([refusal("I cannot help with that.")]), streamed=streamed)
        assert self._said(reply) == [("message", "", "I cannot help with that.")]

    @plain_and_streamed
    def test_replies_come_in_turn(self, streamed: bool) -> None:
        replies = self.play(*(ModelStep(text) for text in ("one", "two", "three")), streamed=streamed)
        assert [self._said(reply) for reply in replies] == [[("message", text, "")] for text in ("one", "two", "three")]

    @plain_and_streamed
    def test_usage_is_passed_through(self, streamed: bool) -> None:
        usage = Usage(1, 11, TokenDetails(cached_tokens=3), 7, TokenDetails(reasoning_tokens=2), 18)
        [reply] = self.play(ModelStep(TEXT, usage=usage), streamed=streamed)
        counted = reply.usage
        assert (counted.input_tokens, counted.output_tokens, counted.total_tokens) == (11, 7, 18)

    @plain_and_streamed
    def test_an_error_comes_as_it_is(self, streamed: bool) -> None:
        error = self.make_error()
        with pytest.raises(type(error)) as raised:
            self.play(ModelStep(error=error), streamed=streamed)
        assert type(raised.value) is type(error)
        assert not isinstance(raised.value, KeyturnError), "what went wrong at the provider is not ours to rename"

    def test_a_stream_ends_in_the_whole_reply(self) -> None:
        step = ModelStep([assistant_message(TEXT), function_call("look", call_id="c1")])
        events, error = _run(self._told(step))
        assert error is None
        kinds = [read(event, "type") for event in events]
        assert all(isinstance(kind, str) and kind for kind in kinds), "every event has a type"
        assert kinds[-1] == "response.completed"
        assert kinds.count("response.completed") == 1
        [plain] = self.play(step, streamed=False)
        assert self._said(streamed_response(read(events[-1], "response"))) == self._said(plain)

    def test_deltas_add_up_to_the_text(self) -> None:
        events, _ = _run(self._told(ModelStep(TEXT)))
        deltas = [read(event, "delta") for event in events if read(event, "type") == "response.output_text.delta"]
        assert "".join(deltas) == TEXT

    def test_a_stream_that_breaks_off_is_not_completed(self) -> None:
        events, error = _run(self._told(ModelStep(TEXT, break_after=2)))
        assert "response.completed" not in [read(event, "type") for event in events], error

    def _said(self, reply: ModelResponse) -> list[tuple[str, ...]]:
        """Return what was said, without the ids and the status that each provider adds."""
        return [self._essence(item) for item in reply.output]

    def _essence(self, item: Item) -> tuple[str, ...]:
        kind = item.get("type", "message")
        if kind == "message":
            return kind, message_text(item), refusal_text(item)
        if self.keeps_calls:
            return kind, item["name"], item["call_id"], item["arguments"]
        return kind, item["name"], "", json.dumps(json.loads(item["arguments"]), sort_keys=True)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of its own, so that nobody needs a plugin."""
    return asyncio.run(work)


def _asked() -> tuple[Any, ...]:
    return ("Be brief.", [{"role": "user", "content": "Say it."}], ModelSettings(), [], None, [], None)


async def _plain(model: Model) -> ModelResponse:
    return await model.get_response(*_asked())


async def _streamed(model: Model) -> ModelResponse:
    events = [event async for event in model.stream_response(*_asked())]
    return streamed_response(read(events[-1], "response"))
