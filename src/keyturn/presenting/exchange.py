"""Follow questions that people ask the agent about a call: what it answered, and which call it proposed after that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..core import events as ev
from ..core.call_ids import call_id
from ..core.items import texts_of
from ..render.escape import Escaped, clip

_TEXT = 2_000


class Exchange(NamedTuple):
    """Holds a question about the call `before`, and the agent's answer; `after` is the call that it proposed then.

    `answered_at` is 0 as long as the agent has not answered, and `after` is "" where it proposed no call of that tool.
    """

    before: str
    by: str
    question: Escaped
    asked_at: int
    answer: tuple[Escaped, ...] = ()
    answered_at: int = 0
    after: str = ""


class Question(NamedTuple):
    """Holds a question to the agent, with its answer; `before` and `after` name the requests, "" for the one shown."""

    exchange: Exchange
    before: str
    after: str


def exchanges_of(steps: Iterable[ev.Step]) -> list[Exchange]:
    """Return the questions that were asked in a run, in their order."""
    found: list[Exchange] = []
    turns: dict[str, int] = {}
    names: dict[str, str] = {}
    for step in steps:
        for event in step.events:
            if isinstance(event, ev.FrameOpened):
                turns[event.frame] = 0
            elif isinstance(event, ev.ReplyRecorded):
                turn = turns[event.frame] = turns.get(event.frame, 0) + 1
                made = {call_id(event.frame, turn, place): each.name for place, each in enumerate(event.proposals)}
                found = [_answered(each, event, step.at, made, names) for each in found]
                names |= made
            elif isinstance(event, ev.CallDecided) and event.decision.asks_back:
                said = event.decision
                question = Escaped(clip(said.message or "", _TEXT))
                found.append(Exchange(said.call, said.by or "", question, step.at))
    return found


def about(exchanges: Sequence[Exchange], call: str) -> list[Exchange]:
    """Return the questions that led to a call, the oldest first, and the one that was asked about it."""
    asked = next((each for each in exchanges if each.before == call), None)
    led: list[Exchange] = []
    at = call
    while (each := next((each for each in exchanges if each.after == at), None)) is not None and each not in led:
        led.insert(0, each)
        at = each.before
    return [*led, *([] if asked is None else [asked])]


def _answered(
    each: Exchange, event: ev.ReplyRecorded, at: int, made: dict[str, str], names: dict[str, str]
) -> Exchange:
    """Return a question with its answer, if this reply is the first of its agent after it."""
    if each.answered_at or event.frame != each.before.rsplit("/", 1)[0]:
        return each
    texts = [text for item in event.output for text in texts_of(item) if text.strip()]
    after = next((call for call, name in made.items() if name == names.get(each.before)), "")
    return each._replace(answer=tuple(Escaped(clip(text, _TEXT)) for text in texts), answered_at=at, after=after)
