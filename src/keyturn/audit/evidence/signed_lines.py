"""Find what people signed in the lines of a run, and compute what each signature must be on.

A line without a signature costs a few searches for a word: most lines are not even decoded. What says of itself that
somebody signed it counts as signed, with a signature or without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ...core import events as ev
from ...core.challenge import decision_challenge
from ...core.codec import decode
from ...core.errors import KeyturnError
from ...core.people import Proof
from ..calls import request_name

# A revision counts how often a call was asked. Of lines that are withheld nobody can say whether they asked again.
_MOST_HIDDEN = 16
_PROOF = '"proof":'
# Our own encoder writes no letter as an escape, so whoever does hides a word from a search.
_HIDES = re.compile(r"\\u00[4-7]")
_ASKS = (ev.CallAskedAgain, ev.CallVoided, ev.CallNeeds, ev.CallLost)


class SignedWord(msgspec.Struct, frozen=True):
    """Describes one decision that is signed, or says so: where it stands, whose it is, and what must be signed.

    `challenges` are the bytes that the signature must be on, one of them; more than one only where lines before it are
    withheld. `content` is equal for a decision and its copy in a run that was forked; `copied_from` is where such a
    copy is from.
    """

    run: str
    line: int
    row: int | None
    at: int
    call: str
    person: str
    place: int | None
    proof: Proof | None
    challenges: tuple[bytes, ...]
    content: bytes
    copied_from: str = ""


class SignedLines:
    """Reads the lines of one run in order."""

    def __init__(self, tenant: str, run: str) -> None:
        self._tenant = tenant
        self.run = run
        self._first: str | None = None
        self._began: ev.RunStarted | None = None
        self._asks: dict[str, int] = {}
        self._hidden = 0

    def hidden(self) -> None:
        """Go on past a line that is withheld or erased."""
        self._hidden += 1

    def line(self, place: int, text: str, row: int | None) -> Iterator[SignedWord | str]:
        """Read a line; yield what is signed in it, and what is wrong with it."""
        if not place:
            self._first = text
        if not (
            _PROOF in text
            or '"signed"' in text
            or '"CallAskedAgain"' in text
            or '"CallLost"' in text
            or '"CallVoided"' in text
            or '"CallNeeds"' in text
            or ("\\u00" in text and _HIDES.search(text) is not None)
        ):
            return
        try:
            step = decode(text)
        except KeyturnError:
            if _PROOF in text:
                yield "the line cannot be read by this version, and may hold a signature"
            return
        for event in step.events:
            if isinstance(event, ev.VoteCast | ev.VoteWithdrawn | ev.CallDecided | ev.DrillEnded):
                yield from self._decision(event.decision, place, step.at, row)
            elif isinstance(event, _ASKS) and not (isinstance(event, ev.CallLost) and event.again):
                self._asks[event.call] = self._asks.get(event.call, 0) + 1

    def _decision(self, made: ev.Decision, place: int, at: int, row: int | None) -> Iterator[SignedWord | str]:
        who = made.decider
        if made.proof is None and (who is None or who.strength != "signed"):
            return
        if who is None:
            yield "a decision is signed, and names no decider"
            return
        began = self._start()
        if began is None:
            yield "a decision is signed, and the line that began its run is not there"
            return
        said = made if made.verdict == "edit" else replace(made, args=None, basis=None)
        yield SignedWord(
            self.run,
            place,
            row,
            at,
            made.call,
            who.id,
            who.place,
            made.proof,
            tuple(self._challenges(began.salt, said)),
            sha256(msgspec.json.encode(replace(said, digest="", runs=None))).digest(),
            _copied_from(began, place),
        )

    def _start(self) -> ev.RunStarted | None:
        if self._began is None and self._first is not None:
            try:
                event = decode(self._first).events[0]
            except (KeyturnError, IndexError):
                return None
            self._began = event if isinstance(event, ev.RunStarted) else None
        return self._began

    def _challenges(self, salt: str, said: ev.Decision) -> Iterator[bytes]:
        asked = 1 + self._asks.get(said.call, 0)
        for revision in range(asked, asked + min(self._hidden, _MOST_HIDDEN) + 1):
            try:
                yield decision_challenge(self._tenant, request_name(salt, said.call), revision, said)
            except (KeyturnError, ValueError):  # what has no one text was signed by nobody
                return


def _copied_from(began: ev.RunStarted, place: int) -> str:
    """Return the run that a line was copied from when its run was forked; "" for a line of its own."""
    told: Any = began.about.get("forked_from")
    copied: dict[str, Any] = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    name, at = copied.get("run"), copied.get("at")
    return name if isinstance(name, str) and isinstance(at, int) and place < at else ""
