"""The table of effects, which names the function that performs each for the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from .ask_model import ask_model, exhausted, limited
from .input_guardrails import guard, tripped
from .judge import judge
from .quotas import return_owed
from .run_tool import run_tool
from .screening import outvoted, screen
from .settle import settle

PERFORM: dict[str, Callable[[Any, str], Awaitable[None]]] = {
    "guard": guard,
    "tripped": tripped,
    "model": partial(ask_model, objection=outvoted),
    "exhausted": exhausted,
    "limited": limited,
    "screen": screen,
    "run": partial(run_tool, objection=outvoted),
    "settle": settle,
    "judge": judge,
    "return": return_owed,
}
