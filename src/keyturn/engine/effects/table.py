"""The table of effects, which names the function that performs each for the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from .ask_model import ask_model, exhausted, limited
from .input_guardrails import guard, tripped
from .judge import judge
from .quotas import return_owed
from .screening import outvoted, screen
from .settle import settle
from .talked_calls import run_call
from .tool_errors import keep_words

_Perform = Callable[[Any, str], Awaitable[None]]


def _of_call(perform: _Perform) -> _Perform:
    """Perform an effect on a call; what is raised carries none of its secrets to a record or a trace."""

    async def performed(drive: Any, call_id: str) -> None:
        call = drive.run.calls[call_id]
        try:
            await perform(drive, call_id)
        except Exception as error:
            keep_words(call, error)
            raise

    return performed


PERFORM: dict[str, _Perform] = {
    "guard": guard,
    "tripped": tripped,
    "model": partial(ask_model, objection=outvoted),
    "exhausted": exhausted,
    "limited": limited,
    "screen": _of_call(screen),
    "run": _of_call(partial(run_call, objection=outvoted)),
    "settle": _of_call(settle),
    "judge": judge,
    "return": return_owed,
}
