"""Follow the keys of people through the directory's log: which are trusted, since when, and until when.

Nothing is believed but keys. A key is trusted if somebody outside said so (else the first that was confirmed), or if
its confirmation is signed by a key that was trusted at that place, of another person who confirmed it. Whether each
entry could be made is `keyturn.audit.directory`; here it is asked what signatures prove.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...core.challenge import KeyVerdict, key_challenge
from ...core.errors import UserError
from ...core.people import Proof, ProofRefused
from ...directory import events as ev
from ...proofs import verify
from ...proofs.base import PublicKey


@dataclass
class KnownKey:
    """Holds what the directory says of one key; a place is the number of an entry, a time that of the entry."""

    public: PublicKey
    person: str
    confirmed: int | None = None
    confirmed_at: int = 0
    revoked: int | None = None
    revoked_at: int = 0
    trusted: bool = False


class KnownKeys:
    """Reads the entries of a directory in order, and verifies what was signed of each key.

    `trusted` are the ids of the keys that somebody outside vouches for.
    """

    def __init__(self, tenant: str, trusted: Collection[str] = ()) -> None:
        self._tenant = tenant
        self._trusted = frozenset(trusted)
        self.keys: dict[str, KnownKey] = {}
        self.times: list[int] = []
        #: How many signatures of people on keys were verified.
        self.verified = 0
        #: The key that is trusted because it was confirmed first, and nobody named one.
        self.first = ""
        self.unsigned = 0
        #: How many entries are withheld.
        self.hidden = 0

    def hide(self) -> None:
        """Count an entry that is withheld: it has a place, and nothing is said of it."""
        self.times.append(self.times[-1] if self.times else 0)
        self.hidden += 1

    def entry(self, body: bytes) -> Iterator[str]:
        """Read the next entry; yield what is wrong with the signatures in it."""
        place = len(self.times)
        try:
            entry = ev.read_entry(body)
        except ValueError:
            self.times.append(self.times[-1] if self.times else 0)
            yield "the line cannot be read"
            return
        self.times.append(entry.at)
        for event in entry.events:
            if isinstance(event, ev.KeyEnrolled):
                yield from self._enrolled(event)
            elif isinstance(event, ev.KeyConfirmed):
                yield from self._confirmed(event, entry, place)
            elif isinstance(event, ev.KeyRevoked):
                self._revoke([event.key], place, entry.at)
            elif isinstance(event, ev.PersonRemoved):
                theirs = [name for name, key in self.keys.items() if key.person == event.person]
                self._revoke(theirs, place, entry.at)

    def _enrolled(self, event: ev.KeyEnrolled) -> Iterator[str]:
        if event.key in self.keys:
            yield f"key {event.key} is enrolled a second time"
            return
        self.keys[event.key] = KnownKey(PublicKey(event.scheme, event.key, event.public, event.label), event.person)
        if event.proof is None:
            self.unsigned += 1
        elif why := self._refused(event.key, event.key, event.proof, "enrol"):
            yield f"key {event.key} of {event.person!r} was enrolled and {why}"

    def _confirmed(self, event: ev.KeyConfirmed, entry: ev.Entry, place: int) -> Iterator[str]:
        key = self.keys.get(event.key)
        if key is None or key.confirmed is not None or key.revoked is not None:
            yield f"key {event.key} is confirmed and was not enrolled, or was confirmed or revoked before"
            return
        first = all(each.confirmed is None for each in self.keys.values())
        key.confirmed = place
        key.confirmed_at = entry.at
        if event.key in self._trusted:
            key.trusted = True
        elif first and not self._trusted and event.proof is None:
            key.trusted = True
            self.first = event.key
        elif why := self._unvouched(key, entry.by.id, event.proof):
            yield f"key {event.key} of {key.person!r} was confirmed by {entry.by.id!r} and {why}"
        else:
            key.trusted = True

    def _unvouched(self, key: KnownKey, by: str, proof: Proof | None) -> str:
        """Return why a confirmation makes a key none that is trusted; "" where it does."""
        signer = None if proof is None else self.keys.get(proof.key)
        if proof is None or signer is None:
            return "no key that is known here signed that"
        if not signer.trusted or signer.revoked is not None:
            return f"key {proof.key}, which signed that, is not trusted, or was revoked"
        if signer.person != by or signer.person == key.person:
            return f"it was signed by key {proof.key} of {signer.person!r}"
        return self._refused(key.public.id, proof.key, proof, "confirm")

    def _refused(self, name: str, by: str, proof: Proof, verdict: KeyVerdict) -> str:
        """Return why a signature on a key is refused; "" where it is good, which is counted."""
        key = self.keys[name]
        try:
            text = key.public.data.encode()
            challenge = key_challenge(self._tenant, key.person, key.public.scheme, name, text, verdict)
            verify(self.keys[by].public, challenge, proof)
        except ProofRefused as refused:
            return f"the signature is refused: {refused.reason}"
        except (UserError, UnicodeError):
            return "what was signed has no one text"
        self.verified += 1
        return ""

    def _revoke(self, names: list[str], place: int, at: int) -> None:
        for name in names:
            key = self.keys.get(name)
            if key is not None and key.revoked is None:
                key.revoked = place
                key.revoked_at = at
