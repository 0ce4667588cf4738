"""A field of the edit form that is left alone changes nothing."""

from typing import Any

import pytest

from keyturn.server.web.changing import _field  # pyright: ignore[reportPrivateUsage]  # what a browser sends of it is told by its kind


@pytest.mark.parametrize("schema", [{"enum": ["slow", "fast"]}, {"type": "boolean"}, {"type": "integer"}, {}])
def test_a_secret_is_never_a_choice_of_which_a_browser_would_send_the_first(schema: dict[str, Any]) -> None:
    made = _field("mode", "[redacted]", "", schema, secret=True)
    assert (made.kind, made.value, made.choices) == ("line", "", ())
