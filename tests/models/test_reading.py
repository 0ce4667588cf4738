"""Nonsense is named in one line, and text that nobody could save is nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import ModelBehaviorError
from keyturn.models.reading import check_text, plain_json, understood
from tests.table import each


def fail(error: Exception) -> Any:
    raise error


@each("error", [KeyError("x"), IndexError(), TypeError(), AttributeError(), ValueError(), RecursionError()])
def test_what_a_reader_stumbles_over_is_the_providers_misbehaviour(error: Exception) -> None:
    with pytest.raises(ModelBehaviorError, match="Example sent a malformed reply") as raised:
        understood(lambda: fail(error), "Example")
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True), "no parser's stack is shown"


def test_our_own_errors_come_as_they_are() -> None:
    with pytest.raises(ModelBehaviorError, match=r"^cut$"):
        understood(lambda: fail(ModelBehaviorError("cut")), "Example")
    with pytest.raises(OSError, match="disk"):
        understood(lambda: fail(OSError("disk")), "Example")


def test_long_and_crooked_reasons_are_one_short_line() -> None:
    with pytest.raises(ModelBehaviorError) as raised:
        understood(lambda: fail(ValueError("a\nb " * 500)), "Example")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", ""])
def test_json_is_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        plain_json(text)


def test_half_a_character_is_no_text() -> None:
    assert check_text([{"a": "東京 \U0001f511"}])
    with pytest.raises(ValueError, match="surrogates"):
        check_text([{"a": "\ud800"}])
