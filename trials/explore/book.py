"""What the oracle knows: of each call of a run, of standing decisions, and of what really ran.

Everything here is frozen and shared between worlds; a change makes a new one.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from keyturn.core.approval import Approval

Place = Literal["new", "asked", "ready", "started", "doubt", "question", "dead", "done"]
WAITS = ("asked", "doubt", "question")


class Broken(Exception):
    """A promise that was not kept: which one, and how."""

    def __init__(self, promise: str, what: str) -> None:
        self.promise, self.what = promise, what
        super().__init__(f"{promise}: {what}")


def need(kept: object, promise: str, what: str) -> None:
    """Raise `Broken` unless a promise was kept."""
    if not kept:
        raise Broken(promise, what)


class Word(msgspec.Struct, frozen=True):
    """What somebody said of a call: on which run, which call and which asking of it they had before them."""

    who: str
    verdict: str
    run: str
    call: str
    asking: int
    at: int
    args: str = ""
    glass: bool = False
    confirms: bool = False
    undo: int = 0  # for how long it can be undone before the call starts
    replayed: bool = False  # it was given before its maker withdrew their vote


class Step(msgspec.Struct, frozen=True):
    """A step of an approval chain that is met: its terms, and the words that met it."""

    terms: Approval
    words: tuple[Word, ...]


class Told(msgspec.Struct, frozen=True):
    """One call as its events tell it."""

    place: Place = "new"
    tool: str = ""
    repeats: bool = False
    probes: bool = False
    along: bool = False  # its provider runs it while it answers the next question
    must_ask: bool = False
    args: str = ""
    terms: Approval | None = None
    demand: Approval | None = None
    asking: int = 0
    asked_at: int = 0
    words: tuple[Word, ...] = ()
    cleared: tuple[Word, ...] = ()  # those that let it run last
    looks: tuple[tuple[str, int], ...] = ()
    withdrew: tuple[str, ...] = ()  # who withdrew a vote on this asking
    let: str = ""  # what lets it run: "unasked", "people", "grant", "answer" or "retry"
    let_at: int = 0
    held: int = 0  # for how long after that it does not start
    judged: bool = True  # the newest policy was asked about what lets it run
    acted: bool = False  # by its log it may have had an effect
    truly: bool = False  # it may have had one, whatever a restored log knows of it
    doubted: bool = False
    free: bool = False  # it may be started although it may have had an effect
    elsewhere: bool = False  # what it waits for is its result, made elsewhere
    results: int = 0
    giver: str = ""  # who gave the standing decision that lets it run
    met: tuple[Step, ...] = ()  # the steps of its chain that are met
    due: Approval | None = None  # the terms of the step that is to be asked for at once


class Review(msgspec.Struct, frozen=True):
    """A review that is asked for: the how manyth of its call, on whose word it ran and on which terms, who gave it."""

    number: int
    deciders: tuple[str, ...]
    terms: Approval | None
    given: str = ""


class Standing(msgspec.Struct, frozen=True):
    """A standing decision: who gave it, on which terms, and how often it was used."""

    giver: str
    verdict: str
    tool: str
    terms: Approval | None
    uses: int | None
    until: int | None
    where: str = ""  # the only arguments for which it is given
    used: int = 0
    sampled: bool = False  # each of its uses is reviewed


class Book(msgspec.Struct, frozen=True):
    """What the oracle knows of one run."""

    run: str
    calls: dict[str, Told] = {}
    grants: dict[str, Standing] = {}
    reviews: dict[str, Review] = {}
    over: bool = False
    failed: bool = False  # and nobody has resumed it
    drill: bool = False
    queued: bool = False
    troubles: tuple[tuple[str, str, int], ...] | None = None  # what did not go well, and when; None where none counts
    owed: tuple[str, ...] = ()  # the calls of which a count is to be told

    def put(self, call: str, told: Told) -> Book:
        """Return the book with a call as it is now."""
        return msgspec.structs.replace(self, calls={**self.calls, call: told})

    def grant(self, name: str, standing: Standing | None) -> Book:
        """Return the book with a standing decision as it is now, or without it."""
        others = {known: each for known, each in self.grants.items() if known != name}
        return msgspec.structs.replace(self, grants=others if standing is None else {**others, name: standing})


def changed(told: Told, **fields: Any) -> Told:
    """Return a call with some facts changed."""
    return msgspec.structs.replace(told, **fields)


def stated(told: Told) -> Approval | None:
    """Return the terms on which a call was asked first: of a chain all its steps."""
    return told.met[0].terms if told.met else told.terms
