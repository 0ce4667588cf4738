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

from keyturn.core.run import Call, Frame, Run

from .book import Book, Told
from .world import World

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
        "need": "by hand: has a time",
        "claim": "restricts nobody",
        "snoozes": "the same",
    },
    Told: {"asked_at": "by hand: a time", "let_at": "the same", "looks": "the same", "words": "the same",
           "cleared": "the same"},
    Book: {"calls": "see Told", "grants": "by hand: have times"},
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
    copy = None if world.copy is None else (_run(world.copy.run, age), _book(world.copy.book, age))
    pairs = zip(world.still, world.runs, strict=False)
    still = [0 if last is None or last.run is run else _run(last.run, age) for last, run in pairs]
    rest = (world.policy, world.left, world.shown, world.unsettled)
    return blake2b(_encode((runs, books, copy, still, rest)), digest_size=16).digest()


def of_run(run: Run, clock: int, horizon: int) -> tuple[Any, ...]:
    """Return what tells a run from another."""
    return _run(run, _ages(clock, horizon))


def _ages(clock: int, horizon: int) -> Callable[[int], int]:
    def age(at: int) -> int:
        past = clock - at
        return horizon if past > horizon else max(past, -horizon)

    return age


def _run(run: Run, age: Any) -> tuple[Any, ...]:
    said = [
        (call, _decision(made, age, timed=False) if call in run.calls else made.verdict)
        for call, made in run.decided.items()
    ]
    grants = [
        (name, each.verdict, each.where, each.uses, each.by, each.expires_at and age(each.expires_at))
        for name, each in run.grants.items()
    ]
    reviews = [(name, each.revision, each.deciders, each.said) for name, each in run.reviews.items()]
    frames = [_OF_FRAME(frame) for frame in run.frames.values()]
    return (_OF_RUN(run), said, grants, reviews, frames, [_call(call, age) for call in run.calls.values()])


def _call(call: Call, age: Any) -> tuple[Any, ...]:
    decisions = [
        made and _decision(made, age)
        for made in (call.decision, call.approval, call.cleared, call.supplied, call.confirmed)
    ]
    votes = sorted((by, _decision(made, age)) for by, made in call.votes.items()) if call.votes else []
    looks = sorted((who, age(at)) for who, at in call.looks.items()) if call.looks else []
    asks = call.need and (call.need.wants, call.need.requests)
    return (_OF_CALL(call), age(call.asked_at), decisions, votes, looks, asks)


def _decision(made: Any, age: Any, *, timed: bool = True) -> tuple[Any, ...]:
    return (_OF_DECISION(made), age(made.at) if timed else 0)


def _book(book: Book, age: Any) -> tuple[Any, ...]:
    grants = [
        (name, each.giver, each.verdict, each.used, each.until and age(each.until))
        for name, each in book.grants.items()
    ]
    return (_OF_BOOK(book), grants, [(name, _told(told, age)) for name, told in book.calls.items()])


def _told(told: Told, age: Any) -> tuple[Any, ...]:
    if told.place == "done":
        return ("done", told.truly, told.tool)
    words = [(_OF_WORD(word), age(word.at)) for word in (*told.words, *told.cleared)]
    looks = [(who, age(at)) for who, at in told.looks]
    return (_OF_TOLD(told), age(told.asked_at), age(told.let_at), len(told.words), words, looks)
