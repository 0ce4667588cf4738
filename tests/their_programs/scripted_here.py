"""The stand-in for a model with Keyturn: says what it is told to, one step after the other."""

from __future__ import annotations

import json
from typing import Any

from keyturn.testing import ScriptedModel, function_call


class Answer:
    """An answer of the type that the run wants."""

    def __init__(self, value: Any, kind: int | None = None) -> None:
        self.value = value if kind is None else {"response": value}  # one of several types has a place of its own


def call(tool: str, label: str = "c1", /, **args: Any) -> Any:
    return function_call(tool, args, call_id=label)


def model(*steps: Any) -> ScriptedModel:
    return ScriptedModel([json.dumps(step.value) if isinstance(step, Answer) else step for step in steps])
