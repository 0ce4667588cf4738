"""Approval chains, stated a second time: which step is due, who may still vote, and what all of its steps come to."""

from __future__ import annotations

from msgspec.structs import replace

from keyturn.core.approval import Approval

from .book import Step, Told, Word, changed, need, stated
from .law import enough, glassed
from .people import FACTS


def in_turn(terms: Approval | None) -> list[Approval]:
    """Return the terms of each step from here on."""
    found = list[Approval]()
    while terms is not None:
        found.append(terms)
        terms = terms.then
    return found


def from_first(told: Told) -> Told:
    """Return a call whose chain begins anew."""
    return changed(told, terms=stated(told), met=(), due=None)


def check_voter(told: Told, word: Word, call: str) -> None:
    """Refuse to believe who voted in an earlier step, or stands behind a vote there."""
    if told.place not in ("asked", "doubt"):
        return
    earlier = {name for step in told.met for each in step.words for name in _names(each)}
    need(not earlier & _names(word), "I1", f"{word.who} decided {call} in two of its steps")


def _names(word: Word) -> set[str]:
    return {word.who, FACTS[word.who].principal}


def check_last(told: Told, word: Word, call: str) -> None:
    """Refuse to let a call run while another step of its chain is to come."""
    more = told.terms is not None and told.terms.then is not None and not glassed(stated(told), word)
    need(not more, "I1", f"{call} was let run before the last step of its chain")


def met(told: Told, word: Word, call: str, now: int) -> Told:
    """Return a call of whose chain a word meets a step; the next one is due."""
    terms = told.terms
    assert terms is not None
    need(word.verdict in ("approve", "retry"), "I1", f"a step of {call} was met by {word.verdict!r}")
    word = replace(word, confirms=False)
    need(enough(told, word, terms, now), "I1", f"a step of {call} was met on too few words")
    alike = [each for each in told.words if each.verdict == word.verdict]
    words = tuple(replace(each, at=0) for each in (*alike, word))  # when it was said matters no more
    return changed(told, met=(*told.met, Step(terms, words)), due=terms.then)


def opened(told: Told, terms: Approval | None, call: str) -> Told:
    """Return a call whose next step, or an earlier one again, is asked for."""
    need(told.due is not None and terms == told.due, "I1", f"a step of {call} was asked for that was not due")
    return changed(told, due=None)


def withdrawn(told: Told, who: str) -> Told | None:
    """Return a call of which somebody withdraws the vote that met a step; None where they have none there."""
    for place, step in enumerate(told.met):
        if any(word.who == who for word in step.words):
            return changed(told, met=told.met[:place], due=step.terms)
    return None


def demand_met(told: Told, demand: Approval, words: tuple[Word, ...], now: int) -> bool:
    """Whether the steps that were met, in their order, meet each step of what the newest policy demands."""
    said = iter([*(step.words for step in told.met), words])
    return all(any(_enough(told, each, step, now) for step in said) for each in in_turn(demand))


def _enough(told: Told, terms: Approval, words: tuple[Word, ...], now: int) -> bool:
    asked = changed(told, place="asked", words=words[:-1], terms=None)
    return bool(words) and enough(asked, words[-1], replace(terms, then=None), now)
