"""Record the requests that a scripted model was asked with, as copies: an edit of a record reaches no run."""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from typing import Any, cast

from ...core.items import Item
from ..base import ModelRequest


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
            self._input, self._copied = cast("list[Item]", copied(self._input)), True
        return self._input

    @input.setter
    def input(self, items: list[Item]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # see above
        self._input = items


_FIELDS = tuple(field.name for field in fields(ModelRequest))


def copied(value: object) -> Any:
    """Copy plain data, all the way down.

    >>> copied({"parts": [{"text": "hi"}]})
    {'parts': [{'text': 'hi'}]}
    """
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in cast("Item", value).items()}
    return [copied(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else value
