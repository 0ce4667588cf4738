"""The seam to a model: what is counted adds up, and what is set wins over what is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keyturn.core.errors import ModelBehaviorError
from keyturn.core.usage import Counts
from keyturn.models.base import Model, ModelProvider, ModelResponse, ModelSettings, TokenDetails, Usage


def used(requests: int) -> Usage:
    return Usage(requests, 10, TokenDetails(cached_tokens=4), 5, TokenDetails(reasoning_tokens=2), 15)


def test_usage_adds_up_and_travels_as_seven_numbers() -> None:
    total = used(1)
    total.add(used(2))
    assert total.counts() == Counts(3, 20, 10, 30, 8, 4)
    assert Usage.from_counts(total.counts()) == total
    assert Usage().counts() == Counts()


def test_two_usages_share_nothing() -> None:
    one, other = Usage(), Usage()
    one.add(used(1))
    assert other.counts() == Counts()


def test_a_reply_reads_in_both_habits() -> None:
    sdk_object = SimpleNamespace(model_dump=lambda **_options: {"type": "message", "content": []})
    reply = ModelResponse([{"type": "function_call", "name": "pay", "arguments": "{}"}, sdk_object])
    assert reply.output[0].name == reply.output[0]["name"] == "pay"
    assert reply.to_input_items()[1] == {"type": "message", "content": []}
    assert all(type(item) is dict for item in reply.to_input_items())
    with pytest.raises(ModelBehaviorError, match="must be a mapping, not str"):
        ModelResponse(["hi"])


def test_settings_are_overridden_one_by_one() -> None:
    base = ModelSettings(temperature=0.0, max_tokens=10, extra_args={"a": 1})
    over = base.resolve(ModelSettings(max_tokens=0, extra_args={"b": 2}))
    assert (over.temperature, over.max_tokens, over.extra_args) == (0.0, 0, {"a": 1, "b": 2})
    assert base.extra_args == {"a": 1}
    assert base.resolve(None) is base
    assert base.resolve(ModelSettings()) is base


def test_the_seams_are_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Model()
    with pytest.raises(TypeError, match="abstract"):
        ModelProvider()


async def test_a_model_that_holds_nothing_closes() -> None:
    class Nothing(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any: ...

        def stream_response(self, *args: Any, **kwargs: Any) -> Any: ...

    assert await Nothing().close() is None
