"""Who may say what, and how many it takes: stated a second time, from the facts of people, without the gate.

It reads the terms of a call as data. What makes a word good is asked here of all words at once, at the moment in which
they would let something run; the gate asks it of each word when it comes.
"""

from __future__ import annotations

from collections.abc import Iterable

from keyturn.core.approval import Approval

from .book import Told, Word, need, stated
from .people import FACTS

_SECOND = 1_000


def _span(value: str | float | None) -> int | None:
    """Read a duration as the casts write it: "2s"."""
    return None if value is None else int(str(value).removesuffix("s")) * _SECOND


def restricts(terms: Approval) -> bool:
    """Whether not just anybody counts."""
    several = terms.quorum > 1 or terms.deny_quorum > 1
    named = terms.role is not None or bool(terms.users)
    return several or named or terms.not_requester or terms.confirm or terms.signed or terms.step_up


def _others(terms: Approval) -> bool:
    """Whether terms with a confirmation ask for others after it."""
    named = terms.role is not None or bool(terms.users)
    return named or terms.quorum > 1 or terms.deny_quorum > 1 or terms.not_requester


def may(terms: Approval | None, who: str) -> bool:
    """Whether somebody is one of those who may say yes to a call, its requester's confirmation aside."""
    if terms is None or not restricts(terms):
        return True
    facts = FACTS[who]
    if not facts.known or terms.signed or terms.step_up:
        return False
    if terms.confirm and not _others(terms):
        return facts.requester
    named = facts.principal in terms.users or terms.role in facts.roles
    if (terms.role is not None or terms.users) and not named:
        return False
    return not ((terms.not_requester or terms.confirm) and (facts.requester or FACTS[facts.principal].requester))


def ends_at(told: Told) -> int | None:
    """When a word comes too late."""
    span = None if told.terms is None else _span(told.terms.expires)
    return None if span is None or told.place != "asked" else told.asked_at + span


def fresh(terms: Approval | None, at: int, now: int) -> bool:
    """Whether what was said at a time is not stale."""
    span = None if terms is None else _span(terms.execute_by)
    return span is None or now <= at + span


def lasts(terms: Approval | None, at: int, now: int) -> bool:
    """Whether what let a call run at a time is not stale: of a chain its last step says for how long."""
    while terms is not None and terms.then is not None:
        terms = terms.then
    return fresh(terms, at, now)


def looked(told: Told, terms: Approval | None, word: Word) -> bool:
    """Whether somebody had the call before them for as long as the terms say."""
    span = None if terms is None else _span(terms.min_look)
    since = dict(told.looks).get(word.who)
    return span is None or (since is not None and word.at - since >= span)


def glassed(terms: Approval | None, word: Word) -> bool:
    """Whether a word breaks the glass rightly."""
    facts = FACTS[word.who]
    if not word.glass or terms is None or terms.break_glass not in facts.roles or not facts.known:
        return False
    others = False
    while terms is not None:
        others = others or terms.not_requester or terms.confirm
        terms = terms.then
    return not (others and facts.requester)


def sure(told: Told, terms: Approval, now: int) -> bool:
    """Whether the requester confirmed what takes that beside the word of others."""
    if not (terms.confirm and _others(terms)) or told.place != "asked":
        return True
    said = [word for word in told.words if word.confirms]
    return any(FACTS[word.who].requester and fresh(terms, word.at, now) for word in said)


def voices(words: Iterable[Word]) -> int:
    """How many people stand behind these words."""
    return len({FACTS[word.who].principal for word in words})


def enough(told: Told, word: Word, terms: Approval | None, now: int) -> bool:
    """Whether enough people who may said the same as the last word, and none of them too long ago."""
    if glassed(terms, word):
        return True
    alike = [each for each in (*told.words, word) if not each.confirms and (each.verdict, each.args) == _said(word)]
    good = [each for each in alike if may(terms, each.who) and (each is word or fresh(told.terms, each.at, now))]
    return voices(each for each in good if looked(told, terms, each)) >= (1 if terms is None else terms.quorum)


def _said(word: Word) -> tuple[str, str]:
    return word.verdict, word.args


def judge(told: Told, word: Word, run: str, call: str, now: int) -> None:
    """Refuse to believe a word that may not count for this call as it is asked now."""
    said = f"{word.who}'s {word.verdict!r}"
    need(word.run == run, "I1", f"{said} was given to another run, and counted for this one")
    need(word.call == call, "I1", f"{said} was given to another call, and counted for this one")
    need(word.asking == told.asking, "I4", f"{said} was about an earlier asking, and counted for this one")
    ends = ends_at(told)
    need(ends is None or now <= ends, "I1", f"{said} came after the request had expired, and counted")
    if word.verdict in ("approve", "edit", "retry", "answer"):
        _may_let(told, word)
        need(looked(told, told.terms, word), "I1", f"{said} came before a look long enough")


def _may_let(told: Told, word: Word) -> None:
    terms = told.terms
    first = terms is not None and terms.confirm and _others(terms) and word.confirms
    good = FACTS[word.who].requester if first else may(terms, word.who)
    need(good or glassed(stated(told), word), "I1", f"{word.who} may not let this call run, and their word counted")
