"""Return what was said before a call: what the run was asked, and what the model wrote as it proposed the call.

All of it was written by others. Where the model's words press whoever decides, that is said beside them, as advice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, LiteralString, NamedTuple, cast

from ..core import events as ev
from ..core.gate.reviews import reviewed_call
from ..core.items import texts_of
from ..render.escape import Escaped, clip
from .pressure import Sign, pressure_in

_TEXT = 2_000
#: What stands before the signs, on every face: nothing is decided by them.
ADVICE: LiteralString = "Warning: the model's message pressures the reader. This does not affect the decision."


class Context(NamedTuple):
    """Holds what was said before a call: by who asked and by the model in the same reply; and how that presses."""

    task: Escaped | None
    words: tuple[Escaped, ...]
    signs: tuple[Sign, ...] = ()


NOTHING_SAID = Context(None, ())


def context_of(steps: Iterable[ev.Step], call: str) -> Context:
    """Return what the run was asked for, and what the model wrote as it proposed the call; of a review, its call.

    In a realtime session that is what the user said last, and what the model said since.
    """
    task = ""
    words = list[str]()
    call = reviewed_call(call) or call
    frame = call.rsplit("/", 1)[0]
    talking = set[str]()  # frames whose model talks on: a call is a reply of its own, and messages come in between
    proposed = False  # what the model wrote after that is of another call
    for event in (event for step in steps for event in step.events):
        proposed = proposed or getattr(event, "call", None) == call
        if isinstance(event, ev.RunStarted):
            task = _task(event.input)
        elif isinstance(event, ev.FrameOpened) and not event.barrier:
            talking.add(event.frame)
        elif isinstance(event, ev.InputAdded) and event.frame in talking and not proposed:
            task = _task(event.items) or task
            words = [] if event.frame == frame else words
        elif isinstance(event, ev.ReplyRecorded) and event.frame == frame and not proposed:
            said = [text for item in event.output for text in texts_of(item) if text.strip()]
            words = said or (words if frame in talking else [])
    asked = Escaped(clip(task, _TEXT)) if task else None
    return Context(asked, tuple(Escaped(clip(text, _TEXT)) for text in words), pressure_in(words, task))


def _task(given: Any) -> str:
    if isinstance(given, str):
        return given
    texts = [text for item in cast("list[Any]", given or []) for text in texts_of(item)]
    return texts[-1] if texts else ""
