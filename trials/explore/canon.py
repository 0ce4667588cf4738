"""The canonical digest of a world: two worlds with one digest have the same future.

Times are told as ages, up to the age after which nothing depends on them. What is left out, and why, is in `_LEFT_OUT`;
a field that the core gets tomorrow is in by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import msgspec

from keyturn.core.approval import Approval
from keyturn.core.run import Call, Frame, Run, undo_until
from keyturn.core.states import READY, SETTLED

from .book import Book, Told
from .world import FORKS, RESTORES, UNIT, World

Age = Callable[[int], int]

_LEFT_OUT: dict[type[Any], dict[str, str]] = {
    Run: {
        "groups": "follow from the states of the calls",
        "seq": "counts steps; the walk names no sequence number",
        "now": "is never later than the clock, which every command brings along",
        "clock": "is 0 between commands",
        "let": "is for policies that count; those of the casts do not",
        "rejected": "the same",
        "denied": "the same",
        "failed": "the same",
        "usage": "no limit is set",
        "replies": "no limit is set",
        "tools": "is what models were told of tools",
        "input": "is said once",
        "output": "is said once",
        "error": "is words",
        "traceback": "is words",
        "frames": "see Frame",
        "calls": "see Call",
        "drill": "by hand: a time",
        "decided": "by hand",
        "grants": "by hand",
        "reviews": "by hand",
        "spent": "is of quotas, which no cast has",
        "started": "counts starts, for limits that no cast has",
    },
    Frame: {
        "items": "is the conversation, by which nothing is judged",
        "tape": "the same",
        "queued": "the same",
        "results": "the same",
        "history": "counts the conversation",
        "sent": "the same",
        "heard": "the same",
        "replied": "the same",
    },
    Call: {
        "raw": "is the model's item, fixed by its place",
        "item": "is the result's text",
        "value": "is the result's value",
        "reason": "is words",
        "let": "is for policies that count",
        "started_at": "is for people to read",
        "asked_at": "by hand: a time",
        "decision": "by hand: has a time",
        "votes": "the same",
        "approval": "the same",
        "cleared": "the same",
        "supplied": "the same",
        "confirmed": "the same",
        "looks": "the same",
        "withdrawn": "the same",
        "need": "by hand: has a time",
        "claim": "by hand: a time",
        "met": "by hand: its votes have times",
        "snoozes": "the same",
    },
    Told: {"asked_at": "by hand: a time", "let_at": "the same", "held": "the same", "looks": "the same",
           "words": "the same", "cleared": "the same"},
    Book: {"calls": "see Told", "grants": "by hand: have times", "troubles": "the same"},
}  # fmt: skip


def _rest(kind: type[Any]) -> attrgetter[Any]:
    return attrgetter(*(name for name in kind.__struct_fields__ if name not in _LEFT_OUT[kind]))


_OF_RUN, _OF_FRAME, _OF_CALL = _rest(Run), _rest(Frame), _rest(Call)
_OF_TOLD, _OF_BOOK = _rest(Told), _rest(Book)
_OF_DECISION = attrgetter(
    "verdict", "digest", "via", "by", "confirms", "broke_glass", "asks_back", "note", "message", "args", "runs", "grant"
)
_OF_WORD = attrgetter("who", "verdict", "run", "call", "asking", "args", "glass", "confirms")
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode


def of_world(world: World, horizon: int) -> bytes:
    """Return the digest of a world, in which times older than the horizon are alike."""
    age = _ages(world.clock, horizon)
    runs = [_run(run, age) for run in world.runs]
    books = [_book(book, age) for book in world.books]
    copy = _copy(world, age) if world.left[RESTORES] else 0
    still = 0
    if world.left[FORKS] and world.still[0] is not None and world.still[0].run is not world.runs[0]:
        still = _run(world.still[0].run, age)
    rest = (world.policy, world.left, world.shown, world.unsettled)
    return blake2b(_encode((runs, books, copy, still, rest)), digest_size=16).digest()


def _copy(world: World, age: Age) -> Any:
    copy = world.copy
    if copy is None or copy.run is world.runs[0]:
        return copy is not None
    return (_run(copy.run, age), _book(copy.book, age))


def of_run(run: Run, clock: int, horizon: int) -> tuple[Any, ...]:
    """Return what tells a run from another."""
    return _run(run, _ages(clock, horizon))


def _ages(clock: int, horizon: int) -> Age:
    def age(at: int) -> int:
        past = clock - at
        return horizon if past > horizon else max(past, -horizon)

    return age


def _run(run: Run, age: Age) -> tuple[Any, ...]:
    said = [(call, _OF_DECISION(made) if call in run.calls else made.verdict) for call, made in run.decided.items()]
    grants = [
        (name, each.verdict, each.where, each.uses, each.by, each.expires_at and age(each.expires_at))
        for name, each in run.grants.items()
    ]
    drill = run.drill and age(run.drill)
    reviews = [(name, each.revision, each.deciders, each.said) for name, each in run.reviews.items()]
    frames = [_OF_FRAME(frame) for frame in run.frames.values()]
    return (_OF_RUN(run), drill, said, grants, reviews, frames, [_call(call, age) for call in run.calls.values()])


def _call(call: Call, age: Age) -> tuple[Any, ...]:
    state, terms = call.state, call.terms
    known = (
        _OF_CALL(call),
        call.decision and _OF_DECISION(call.decision),
        call.approval is not None,
        call.supplied is not None,
        call.need and (call.need.wants, call.need.requests),
        [(step.terms, [_OF_DECISION(vote) for vote in step.votes], step.asks) for step in call.met],
    )
    if state in SETTLED:
        return known
    claim = call.claim and (call.claim.decider.id, age(call.claim.until or 0))
    then = _until(age, terms, call.proposal.terms)
    probes = call.proposal.recover == "probe"
    cleared = (_OF_DECISION(call.cleared), then(call.cleared.at)) if probes and call.cleared is not None else 0
    again = state in READY or call.proposal.by_provider  # which may start again as its question is refused
    decided = then(call.decision.at) if again and call.decision is not None else 0
    if state == "started":
        return (known, cleared, decided)
    until = undo_until(call) if state in READY else None
    held = 0 if until is None else max(0, -age(until))
    asked = _asked(age, terms, call.asked_at) if state == "asked" else 0
    sure = call.confirmed and (_OF_DECISION(call.confirmed), then(call.confirmed.at))
    votes = sorted((by, _OF_DECISION(made), then(made.at)) for by, made in call.votes.items()) if call.votes else 0
    looks = sorted((who, then(at)) for who, at in call.looks.items()) if call.looks else 0
    withdrawn = [made.by for made in call.withdrawn]
    return (known, cleared, asked, decided, sure, votes, looks, claim, withdrawn, held)


def _asked(age: Age, terms: Approval | None, at: int) -> int:
    """Return the age of an asking, up to the time at which it has run out."""
    span = None if terms is None else terms.expires_ms
    return 0 if span is None else min(age(at), span + UNIT)


def _until(age: Age, *terms: Approval | None) -> Age:
    """Return the age of a word, up to the time at which it is stale, or was looked at for long enough."""
    spans = [span for each in terms if each is not None for span in (each.lasts_ms, each.min_look_ms) if span]
    if not spans:
        return _never
    most = max(spans) + UNIT
    return lambda at: min(age(at), most)


def _never(at: int) -> int:
    return 0


def _book(book: Book, age: Age) -> tuple[Any, ...]:
    grants = [
        (name, each.giver, each.verdict, each.used, each.until and age(each.until))
        for name, each in book.grants.items()
    ]
    troubles = sorted((kind, age(at)) for _call, kind, at in book.troubles) if book.troubles else 0
    return (_OF_BOOK(book), grants, troubles, [(name, _told(told, age)) for name, told in book.calls.items()])


def _told(told: Told, age: Age) -> tuple[Any, ...]:
    if told.place == "done":
        return ("done", told.truly, told.tool)
    if told.place == "dead":
        return ("dead", told.truly, told.acted, told.tool, told.results, told.args, told.asking)
    terms = told.terms
    then = _until(age, terms, told.demand)
    asked = _asked(age, terms, told.asked_at) if told.place == "asked" else 0
    let = then(told.let_at) if told.place == "ready" or told.probes or told.along else 0
    cleared = [(_OF_WORD(word), then(word.at)) for word in told.cleared] if told.probes else 0
    held = max(0, told.held - age(told.let_at)) if told.place == "ready" else 0
    if told.place == "started":
        return (_OF_TOLD(told), asked, let, cleared)
    words = [(_OF_WORD(word), then(word.at)) for word in told.words]
    looks = [(who, then(at)) for who, at in told.looks]
    return (_OF_TOLD(told), asked, let, cleared, words, looks, held)
