"""The people of an app: add them, give them roles, let them in, and say of somebody as whom they decide.

Each change is one entry of the directory's log, with who made it. `by` is the login of who makes it, which must be good
for the scope "people"; or an id, for whom the program vouches that calls this.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Self

from ..core.approval import Approval
from ..core.digest import digest
from ..core.durations import milliseconds
from ..core.errors import NotAllowed
from ..core.people import Decider, Proof, ProofRefused, Strength, plain_text
from ..core.records import Decision
from ..core.run import Call, Run
from ..core.seal import Ring
from ..journal import opened
from ..journal.base import Store
from ..proofs import scheme as scheme_named
from ..proofs import verify
from ..proofs.base import Asked, PublicKey
from ..support.keys import ring
from . import addresses, credentials, decide
from . import events as ev
from .book import Book, Decide
from .bounds import SIGNATURES_AN_HOUR, Pace, check_pace
from .login import DECIDE, PEOPLE, By, Login, author_of, id_of, names
from .sign_ins import SignIns
from .signed import (
    check_decision,
    check_enrolment,
    confirmation_challenge,
    enrolment_challenge,
    letting,
    public_of,
    trusted_keys,
    unsigned,
)
from .spelling import named
from .state import Delegation, Directory, Key, Person

_CODE_MS = 24 * 3_600_000


class People(SignIns):
    """Keeps who is who in a journal.

    `roots` are the ids of keys whose owners somebody outside vouches for: signatures count that go back to them. If
    there are none, it is the first key that was confirmed in the directory.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> async def main():
    ...     people = People(MemoryJournal())
    ...     await people.start("ada")
    ...     await people.add("bob", roles=["finance"], by="ada")
    ...     return (await people.decider("bob", "authenticated")).roles
    >>> asyncio.run(main())
    ('finance',)
    """

    _once: ev.Once | None = None

    def __init__(self, store: Store | str, *, roots: Iterable[str] = ()) -> None:
        self._store = opened(store) if isinstance(store, str) else store
        self._book = Book(self._store)
        self.roots = names(roots, "roots")

    @property
    def tenant(self) -> str:
        """Return whose directory it is."""
        return str(getattr(self._store, "tenant", "default"))

    # Reading -------------------------------------------------------------------------------------------------------

    async def now(self) -> int:
        """Return the journal's time, in milliseconds since 1970, by which tokens and delegations end."""
        return await self._store.now()

    async def directory(self, place: int | None = None) -> Directory:
        """Return the whole directory, as it is now or was after so many entries; do not change it."""
        return await (self._book.read() if place is None else self._book.at(place))

    async def entries(self) -> Sequence[ev.Entry]:
        """Return every change there was, oldest first."""
        return await self._book.entries()

    async def list(self, *, left: bool = False) -> Sequence[Person]:
        """Return who is here, by id; with `left` those who left, too."""
        found = (await self._book.read()).people.values()
        return sorted((each for each in found if each.here or left), key=lambda each: each.id)

    async def get(self, person: str) -> Person:
        """Return one person, or raise `UserError`."""
        return decide.somebody(await self._book.read(), person)

    async def decider(
        self,
        person: str,
        strength: Strength = "claimed",
        *,
        terms: Approval | None = None,
        requester: str | None = None,
    ) -> Decider:
        """Return somebody as they decide: their roles as of now, and the place of the directory that says so.

        Where the terms of a request do not let them decide as themselves, and somebody who may has delegated to them,
        they decide in that person's place. Say "authenticated" only of who proved who they are.
        """
        now = await self._store.now()
        found = (await self._book.read()).decider(named(person, "a person"), now, strength, terms, requester)
        if found is None:
            raise NotAllowed(f"there is no user {person!r} in this directory")
        return found

    async def admitted(
        self,
        login: Login,
        strength: Strength = "authenticated",
        *,
        scopes: Iterable[str] = (DECIDE,),
        terms: Approval | None = None,
        requester: str | None = None,
    ) -> Decider:
        """Return who logged in as they decide, or refuse a login that is not good for it, or not any more."""
        now, directory = await self._store.now(), await self._book.read()
        for scope in scopes:
            decide.let_in(directory, login.person, login.token, login.scopes, scope, now)
        if decide.present(directory, login.person).kind == "machine":
            raise NotAllowed(f"{login.person!r} is a service account, which cannot decide")
        found = directory.decider(login.person, now, strength, terms, requester)
        assert found is not None
        return found

    # Changing ------------------------------------------------------------------------------------------------------

    async def start(self, person: str, name: str = "") -> None:
        """Begin the directory with its first person, who administers it."""
        await self._change(person, lambda now, _at: decide.start(now, person, name))

    async def add(
        self, person: str, name: str = "", *, by: By, roles: Iterable[str] = (), kind: ev.Kind = "person"
    ) -> None:
        """Add a person with roles, or a machine, which never decides."""
        given = names(roles, "roles")
        await self._change(by, lambda now, _at: decide.add(now, id_of(by), person, name, kind, given))

    async def remove(self, person: str, *, by: By) -> None:
        """Remove a person: their tokens, keys, delegations and roles count no more; what they decided stays."""
        await self._change(by, lambda now, _at: decide.remove(now, id_of(by), person))

    async def give_role(self, role: str, *, to: str = "", group: str = "", by: By) -> None:
        """Give a role to a person, or to all of a group."""
        await self._change(by, lambda now, _at: decide.give_role(now, id_of(by), role, to, group))

    async def take_role(self, role: str, *, of: str = "", group: str = "", by: By) -> None:
        """Take a role from a person or a group; what they decided before stays."""
        await self._change(by, lambda now, _at: decide.take_role(now, id_of(by), role, of, group))

    async def join(self, group: str, person: str, *, by: By) -> None:
        """Have a person join a group."""
        await self._change(by, lambda now, _at: decide.join(now, id_of(by), group, person))

    async def leave(self, group: str, person: str, *, by: By) -> None:
        """Have a person leave a group."""
        await self._change(by, lambda now, _at: decide.leave(now, id_of(by), group, person))

    async def set_address(self, person: str, channel: str, address: str, *, by: By, sure: bool = False) -> None:
        """Say at which address a person is told of requests over a channel; "" for not any more.

        What an administrator says is so, by a login that decides and has no end: a click of whoever has a confirmed
        address decides. All else waits until it is confirmed with the code that was sent there. With `sure`, whoever
        calls this vouches that nobody but the person can know the address.
        """
        changed = ev.AddressSet(person, channel, address, sure or None)

        def made(now: Directory, _at: int) -> decide.Events:
            vouches = credentials.vouches(now, by)
            return addresses.set_address(now, id_of(by), changed, vouches=vouches)

        await self._change(by, made, needs=("read",) if sure else None)  # what is told there is read there

    async def address_code(self, person: str, channel: str, address: str = "") -> str:
        """Return the code to send to an address that waits for it, good for a day; "" where none waits.

        With an address, it is the code of that one: another that was set meanwhile has its own.
        """
        directory = await self._book.read()
        found = directory.person(person)
        if address and found is not None and found.addresses.get(channel) != address:
            return ""
        return next(self._codes(directory, person, channel, await self._store.now()), "")

    async def confirm_address(self, person: str, channel: str, code: str = "", *, address: str = "", by: By) -> None:
        """Confirm an address with the code that was sent there, or as an administrator who names it."""
        given = plain_text(code, "a code").replace("-", "").strip().upper()

        def made(now: Directory, at: int) -> decide.Events:
            known = [each.replace("-", "").encode() for each in self._codes(now, person, channel, at)]
            fits = any(hmac.compare_digest(each, given.encode("utf-8", "surrogatepass")) for each in known)
            return addresses.confirm_address(now, id_of(by), person, channel, fits=fits, address=address)

        await self._change(by, made)

    def _codes(self, directory: Directory, person: str, channel: str, now: int) -> Iterator[str]:
        """Make the codes of an address that waits, one for each key, the newest first: no one else can make them."""
        found = directory.person(person)
        since = None if found is None else found.unconfirmed.get(channel)
        if found is None or since is None or now >= since + _CODE_MS:
            return
        parts = (self.tenant, person, channel, found.addresses[channel], str(since))
        keys: Ring = getattr(self._store, "keys", ring)()
        for key in keys.ids:
            mac = keys.mac("address code", *(part.encode() for part in parts), key=key)
            text = base64.b32encode(hashlib.sha256(mac.encode()).digest()).decode()[:12]
            yield "-".join((text[:4], text[4:8], text[8:]))

    async def set(self, name: str, value: Any, *, person: str = "", by: By) -> None:
        """Change a setting, of a person or of everybody; None for as it was."""
        changed = ev.SettingChanged(name, value, person)
        await self._change(by, lambda now, _at: decide.change_setting(now, id_of(by), changed))

    async def mute(self, person: str, lasts: str | float | None, *, by: By) -> None:
        """Tell somebody nothing for a while, such as "1h"; what waits is told afterwards, and with None at once."""
        until = None if lasts is None else await self._store.now() + milliseconds(lasts)
        await self.set("muted_until", until, person=person, by=by)

    # Delegating ----------------------------------------------------------------------------------------------------

    async def delegate(
        self,
        giver: str,
        receiver: str,
        *,
        lasts: str | float,
        roles: Iterable[str] = (),
        why: str = "",
        by: By | None = None,
    ) -> Delegation:
        """Let another decide in somebody's place for a while, with these roles or with all that they have."""
        name = self._new_id()
        length, some = milliseconds(lasts), names(roles, "roles")
        author = giver if by is None else by

        def made(now: Directory, at: int) -> decide.Events:
            given = ev.Delegated(name, giver, receiver, at + length, some, why)
            return decide.delegate(now, id_of(author), given, at)

        return (await self._change(author, made)).delegations[name]

    async def end_delegation(self, delegation: str, *, by: By) -> None:
        """End a delegation before its time."""
        await self._change(by, lambda now, at: decide.end_delegation(now, id_of(by), delegation, at))

    # Keys ----------------------------------------------------------------------------------------------------------

    async def keys(self, person: str | None = None) -> Sequence[Key]:
        """Return the keys that people enrolled."""
        found = (await self._book.read()).keys.values()
        return [each for each in found if person in (None, each.person)]

    def read_key(self, scheme: str, text: str, *, label: str = "", asked: Asked | None = None) -> PublicKey:
        """Read a key that somebody brings: the line of a `.pub` file, or what a browser says of a passkey."""
        return scheme_named(scheme).enrol(text, label=label, asked=asked)

    def to_sign(self, person: str, key: PublicKey) -> bytes:
        """Return what somebody signs with a key that they enrol, to show that they have it."""
        return enrolment_challenge(self.tenant, person, key)

    async def enrol_key(self, person: str, key: PublicKey, proof: Proof, *, by: By | None = None) -> Key:
        """Enrol a person's own key, by themselves; it counts when somebody else has confirmed it."""
        check_enrolment(self.tenant, person, key, proof)
        enrolled = ev.KeyEnrolled(key.id, person, key.scheme, key.data, key.label, proof)
        author = person if by is None else by
        changed = await self._change(author, lambda now, _at: decide.enrol_key(now, id_of(author), enrolled))
        return changed.keys[key.id]

    async def to_confirm(self, key: str) -> bytes:
        """Return what somebody signs who confirms that a key is its owner's."""
        return confirmation_challenge(self.tenant, decide.known_key(await self._book.read(), key))

    async def confirm_key(self, key: str, *, by: By, proof: Proof | None = None) -> None:
        """Confirm that a key is its owner's, with a signature by a key that counts already.

        The first key of a directory is confirmed without one: look at its fingerprint, and have workers trust it by it.
        """

        def made(now: Directory, _at: int) -> decide.Events:
            events = decide.confirm_key(now, id_of(by), key, proof)
            if events and proof is not None:  # of one that is confirmed already nothing was compared
                verify(public_of(now.keys[proof.key]), confirmation_challenge(self.tenant, now.keys[key]), proof)
            return events

        await self._change(by, made)

    async def person_by_key(self, challenge: bytes, proof: Proof) -> tuple[str, int]:
        """Return whose key signed this challenge, and its count of signatures, or raise `ProofRefused`.

        For a login it is enough that the key was not revoked: its person enrolled it themselves.
        """
        directory = await self._book.read()
        key = directory.keys.get(proof.key)
        if key is None or key.revoked_at is not None or directory.person(key.person) is None:
            raise ProofRefused("it is not by a key that is good here")
        decide.check_relinked(directory, key.person)
        return key.person, verify(public_of(key), challenge, proof, last_count=key.count).count or 0

    async def check_proof(self, asked: tuple[str, int], decision: Decision) -> None:
        """Verify the signature of a decision before it is delivered, or raise `ProofRefused`; it is good once."""
        directory = await self._book.read()
        key = None if decision.proof is None else directory.keys.get(decision.proof.key)
        before = None if key is None else key.count
        trusted = trusted_keys(directory, self.tenant, self.roots)
        count = check_decision(directory, self.tenant, asked, decision, trusted=trusted, last_count=before).count
        if key is None or not count:
            return

        def counted(now: Directory, at: int) -> decide.Events:
            check_pace(now.paces.get(key.person, Pace()), at, SIGNATURES_AN_HOUR)
            events = decide.count_key(now, key.person, key.id, count)
            if not events:  # another signature was counted since it was looked at
                raise ProofRefused(decide.COPIED)
            return events

        await self._change(key.person, counted)

    async def objection(self, run: Run, call: Call, terms: Sequence[Approval]) -> str:
        """Return why the word of people on a call does not count, where it must be signed; "" where it does.

        `terms` are all that hold for the call now.
        """
        now, past = await self._book.read(), dict[int, Directory]()
        for decision in letting(call):
            place = None if decision.decider is None else decision.decider.place
            if place is None or place == now.place:
                continue
            if place > now.place:
                return f"it was judged by {place} entries of the directory, and {now.place} are there: it was cut back"
            past[place] = await self._book.at(place)
        return unsigned(now, self.tenant, run, call, terms=terms, roots=self.roots, past=past)

    async def check_grant(self, by: object, until: int | None) -> None:
        """Refuse a standing approval that outlasts the login by which it is given, unless its person just signed in."""
        credentials.check_grant(await self._book.read(), by, until, await self._store.now())

    async def lapsed(self, who: Decider, terms: Sequence[Approval], requester: str | None) -> str:
        """Return why a grant of somebody does not apply to a call on these terms any more; "" where it does."""
        return (await self._book.read()).lapsed(who, await self._store.now(), terms, requester)

    async def revoke_key(self, key: str, *, by: By) -> None:
        """Revoke a key: nothing that it signed runs any more, and what ran stays.

        With a passkey the logins by passkeys of its person end, but for the login that revokes it.
        """
        keeps = by.token if isinstance(by, Login) else ""
        await self._change(by, lambda now, _at: decide.revoke_key(now, id_of(by), key, keeps))

    def once(self, name: str, asked: str = "") -> Self:
        """Return these people for one change that is made once under a name, by whichever process is asked again.

        `asked` says what is changed: anything else under the name is refused. A name is remembered for a day.
        """
        made = copy(self)
        made._once = ev.Once(digest("change", plain_text(name, "once")), digest(plain_text(asked, "asked")))
        return made

    async def was_made(self) -> bool:
        """Return whether the change was made that `once` names; another one under its name is refused."""
        return self._once is not None and (await self._book.read()).made_before(self._once)

    def _new_id(self) -> str:
        """Return an id for what a change makes; under a name it is the same whenever the change is asked for again."""
        return secrets.token_hex(6) if self._once is None else self._once.name[:12]

    async def _change(
        self, by: By, decided: Decide, *, needs: Iterable[str] | None = None, scope: str = PEOPLE
    ) -> Directory:
        once = self._once

        def made(now: Directory, at: int) -> decide.Events:
            if isinstance(by, Login):
                decide.let_in(now, by.person, by.token, by.scopes, scope, at)
            if once is not None and now.made_before(once):
                return []
            events = decided(now, at)
            if isinstance(by, Login) and scope == PEOPLE:
                credentials.often(now, by.person, events, at)
            credentials.check(now, by, events, at, scopes=needs)
            return events

        return await self._book.change(author_of(by), made, once)
