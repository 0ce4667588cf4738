"""Verify what people signed, from the lines of a store or of an export alike: decisions, and what is said of keys.

Lines come in the order of their runs, and the directory somewhere among them, so what is signed is put aside (on the
disk, where there is much of it) and judged at the end, once all keys are known. A signature counts only if its key was
confirmed by the place of the directory that the decision was judged by, and not revoked then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from tempfile import SpooledTemporaryFile

import msgspec

from ...core.people import ProofRefused
from ...directory.book import NAME as DIRECTORY
from ...journal.base import RESERVED
from ...proofs import verify
from .known_keys import KnownKey, KnownKeys
from .report import EvidenceFault, VerifyReport
from .signed_lines import SignedLines, SignedWord

# How long after a revocation a decision may still arrive that was made before it; how far clocks may differ.
_ON_ITS_WAY = 60_000
_IN_MEMORY = 16 * 1024 * 1024
_SIZE = 4


class Signatures:
    """Collects what people signed, line by line, and reports at the end what of it is good.

    `trusted` are the ids of people's keys that are vouched for outside; without any it is the first that was confirmed.
    """

    def __init__(self, report: VerifyReport, trusted: Collection[str] = ()) -> None:
        self._report = report
        self._trusted = tuple(trusted)
        self._keys: KnownKeys | None = None
        self._lines: SignedLines | None = None
        self._kept = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 closed in end()
        self._count = 0
        self._verified: set[bytes] = set()

    def line(self, run: str, place: int, text: str | None, row: int | None) -> None:
        """Read a line; None for one that is withheld or erased."""
        if run == DIRECTORY:
            self._entry(place, text, row)
            return
        if run.startswith(RESERVED):  # it is no run, and nobody signs in it
            return
        lines = self._lines
        if lines is None or lines.run != run:
            lines = self._lines = SignedLines(self._report.tenant, run)
        if text is None:
            lines.hidden()
            return
        for found in lines.line(place, text, row):
            if isinstance(found, str):
                self._report.add(EvidenceFault("decision", run, place, row, found))
            else:
                self._keep(found)

    def _entry(self, place: int, text: str | None, row: int | None) -> None:
        if self._keys is None:
            self._keys = KnownKeys(self._report.tenant, self._trusted)
        if text is None:
            self._keys.hide()
            return
        for what in self._keys.entry(text.encode()):
            self._report.add(EvidenceFault("key", DIRECTORY, place, row, what))

    def _keep(self, word: SignedWord) -> None:
        raw = msgspec.msgpack.encode(word)
        self._kept.write(len(raw).to_bytes(_SIZE, "big") + raw)
        self._count += 1

    def _all(self) -> Iterator[SignedWord]:
        self._kept.seek(0)
        for _ in range(self._count):
            size = int.from_bytes(self._kept.read(_SIZE), "big")
            yield msgspec.msgpack.decode(self._kept.read(size), type=SignedWord)

    def end(self) -> None:
        """Judge what was signed, now that every key is known."""
        keys = self._keys or KnownKeys(self._report.tenant)
        copies: list[SignedWord] = []
        with self._kept:
            for word in self._all():
                if word.copied_from:
                    copies.append(word)
                else:
                    self._judge(word, keys)
        self._judge_copies(copies)
        report = self._report
        report.signatures += keys.verified
        if keys.hidden and report.signatures:
            report.notes.append(
                f"{keys.hidden} entries of the directory are withheld, as those that hold a password are; that no key "
                "is revoked in them is stated by the signer of this file alone"
            )
        if keys.first and report.signatures:
            report.notes.append(
                f"key {keys.first} of {keys.keys[keys.first].person!r} is trusted, being the first: compare "
                "its fingerprint, and name it (--trusted-key)"
            )

    def _judge(self, word: SignedWord, keys: KnownKeys) -> None:
        why = self._refused(word, keys)
        if why:
            self._fault(word, why)
            return
        self._report.signatures += 1
        self._verified.add(_mark(word.run, word))

    def _judge_copies(self, copies: list[SignedWord]) -> None:
        """Hold copies in forked runs against what they are copies of; those of copies when these are known."""
        left = copies
        while True:
            good = [word for word in left if _mark(word.copied_from, word) in self._verified]
            self._verified |= {_mark(word.run, word) for word in good}
            left = [word for word in left if _mark(word.copied_from, word) not in self._verified]
            if not good:
                break
        for word in left:
            self._fault(word, f"it is a copy from run {word.copied_from}, which has no such decision that is good")

    def _fault(self, word: SignedWord, why: str) -> None:
        what = f"the decision of {word.person!r} on call {word.call} is not theirs: {why}"
        self._report.add(EvidenceFault("decision", word.run, word.line, word.row, what))

    def _refused(self, word: SignedWord, keys: KnownKeys) -> str:
        """Return why a signed decision does not count; "" where it does."""
        if word.proof is None:
            return "it says that it is signed, and there is no signature"
        key = keys.keys.get(word.proof.key)
        if key is None or key.person != word.person:
            return f"key {word.proof.key} is no key of theirs"
        if not key.trusted:
            return f"nothing that is trusted says whose key {word.proof.key} is"
        why = _at_the_wrong_time(word, key, keys.times)
        return why or _unsigned(word, key)


def _at_the_wrong_time(word: SignedWord, key: KnownKey, times: list[int]) -> str:
    """Return why a key did not count when something was decided; "" where it did."""
    name = key.public.id
    place = word.place
    if place is not None and place > len(times):
        return f"it was judged by {place} entries of the directory, and {len(times)} are there"
    if place and times[place - 1] > word.at + _ON_ITS_WAY:
        return f"it was judged by {place} entries of the directory, which came after it"
    confirmed = key.confirmed is not None and (key.confirmed_at <= word.at if place is None else key.confirmed < place)
    if not confirmed:
        return f"key {name} was not confirmed yet"
    if key.revoked is not None and place is not None and key.revoked < place:
        return f"key {name} had been revoked"
    if key.revoked is not None and word.at > key.revoked_at + _ON_ITS_WAY:
        return f"key {name} had been revoked by then, whatever the decision says of the directory"
    return ""


def _unsigned(word: SignedWord, key: KnownKey) -> str:
    """Return why a signature is not one of this key on what was decided; "" where it is."""
    assert word.proof is not None
    why = "what was decided has no one text"
    for challenge in word.challenges:
        try:
            verify(key.public, challenge, word.proof)
        except ProofRefused as refused:
            why = refused.reason
        else:
            return ""
    return why


def _mark(run: str, word: SignedWord) -> bytes:
    return msgspec.json.encode([run, word.call, word.content.hex()])
