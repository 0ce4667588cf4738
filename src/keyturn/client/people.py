"""The directory of a server: who is here, and changes by whoever may make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.people import Proof
from ..wire import bodies
from ..wire.people import (
    DelegationSeen,
    DelegationsSeen,
    KeySeen,
    KeysSeen,
    Me,
    Named,
    PeopleLog,
    PeopleSeen,
    PersonSeen,
    Secret,
    SettingsSeen,
    TokenSeen,
    TokensSeen,
)
from ..wire.responses import Done
from .sending import Sender


class AsyncPeople:
    """Lists and changes who is who at a server, as the person of the token."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def me(self) -> Me:
        """Return who you are to the server."""
        return await self._sender.get("/me", Me)

    async def list(self, *, left: bool = False) -> Sequence[PersonSeen]:
        """Return who is here, by id; with `left` those who left, too."""
        return (await self._sender.get("/people", PeopleSeen, left=left)).people

    async def directory(self, *, person: str | None = None, left: bool = False) -> PeopleSeen:
        """Return who is here, or one person, with the roles of groups and how many changes there were."""
        return await self._sender.get("/people", PeopleSeen, person=person, left=left)

    async def log(self) -> Sequence[dict[str, Any]]:
        """Return every change there was, oldest first, to an administrator."""
        pages = self._sender.pages("/people/log", PeopleLog, 10_000_000)
        return [each async for page in pages for each in page.entries]

    async def settings(self) -> dict[str, Any]:
        """Return the settings that are everybody's, to an administrator."""
        return (await self._sender.get("/settings", SettingsSeen)).settings

    async def tokens(self) -> Sequence[TokenSeen]:
        """Return tokens: your own, or all of them for an administrator."""
        return (await self._sender.get("/tokens", TokensSeen)).tokens

    async def keys(self, person: str | None = None) -> Sequence[KeySeen]:
        """Return the keys that people enrolled."""
        return (await self._sender.get("/keys", KeysSeen, person=person)).keys

    async def delegations(self) -> Sequence[DelegationSeen]:
        """Return who may decide in whose place."""
        return (await self._sender.get("/delegations", DelegationsSeen)).delegations

    async def add(self, person: str, name: str = "", *, roles: Sequence[str] = (), kind: Any = "person") -> None:
        """Add a person with roles, or a machine, which never decides."""
        await self._done("add", bodies.AddPerson(person=person, name=name, roles=list(roles), kind=kind))

    async def remove(self, person: str) -> None:
        """Remove a person: their tokens, keys, delegations and roles count no more."""
        await self._done("remove", bodies.NamePerson(person=person))

    async def give_role(self, role: str, *, to: str | None = None, group: str | None = None) -> None:
        """Give a role to a person, or to all of a group."""
        await self._done("give_role", bodies.Role(role=role, person=to, group=group))

    async def take_role(self, role: str, *, of: str | None = None, group: str | None = None) -> None:
        """Take a role from a person or a group."""
        await self._done("take_role", bodies.Role(role=role, person=of, group=group))

    async def join(self, group: str, person: str) -> None:
        """Have a person join a group."""
        await self._done("join", bodies.Membership(group=group, person=person))

    async def leave(self, group: str, person: str) -> None:
        """Have a person leave a group."""
        await self._done("leave", bodies.Membership(group=group, person=person))

    async def forget_subject(self, person: str) -> None:
        """Release the account of the identity provider that is bound to a person; its sessions end."""
        await self._done("forget_subject", bodies.NamePerson(person=person))

    async def set_address(self, person: str, channel: str, address: str) -> None:
        """Say at which address a person is told of requests over a channel."""
        await self._done("set_address", bodies.Address(person=person, channel=channel, address=address))

    async def confirm_address(self, person: str, channel: str, code: str = "", *, address: str = "") -> None:
        """Confirm an address with the code that was sent there; an administrator names the address instead."""
        made = bodies.ConfirmAddress(person=person, channel=channel, code=code, address=address)
        await self._done("confirm_address", made)

    async def mute(self, person: str, lasts: str | None) -> None:
        """Tell somebody nothing for a while, such as "1h"; what waits is told afterwards, and with None at once."""
        await self._done("mute", bodies.Mute(person=person, lasts=lasts))

    async def set(self, name: str, value: Any, *, person: str | None = None) -> None:
        """Change a setting, of a person or of everybody; None for as it was."""
        await self._done("set", bodies.Setting(name=name, value=value, person=person))

    async def delegate(self, giver: str, receiver: str, *, lasts: str, roles: Sequence[str] = (), why: str = "") -> str:
        """Let another decide in somebody's place for a while; return the delegation's id."""
        body = bodies.Delegate(giver=giver, receiver=receiver, lasts=lasts, roles=list(roles), why=why)
        return (await self._sender.post("/people/delegate", Named, body)).id

    async def end_delegation(self, delegation: str) -> None:
        """End a delegation before its time."""
        await self._done("end_delegation", bodies.EndDelegation(delegation=delegation))

    async def issue_token(
        self, person: str, scopes: Sequence[str] = ("decide", "read"), *, label: str = "", expires: str | None = None
    ) -> str:
        """Issue a token and return it: it is shown this once."""
        body = bodies.IssueToken(person=person, scopes=list(scopes), label=label, expires=expires)
        return (await self._sender.post("/people/issue_token", Secret, body)).secret

    async def revoke_token(self, token: str) -> None:
        """Revoke a token, by its id."""
        await self._done("revoke_token", bodies.RevokeToken(token=token))

    async def enrol_key(self, scheme: str, text: str, proof: Proof, *, label: str = "") -> str:
        """Enrol your own key, with a signature by it, and return its id; it counts when somebody has confirmed it."""
        body = bodies.EnrolKey(scheme=scheme, text=text, label=label, proof=proof)
        return (await self._sender.post("/people/enrol_key", Named, body)).id

    async def confirm_key(self, key: str, *, proof: Proof | None = None) -> None:
        """Confirm that a key is its owner's, with a signature by a key that counts."""
        await self._done("confirm_key", bodies.ConfirmKey(key=key, proof=proof))

    async def revoke_key(self, key: str) -> None:
        """Revoke a key: nothing that it signed runs any more, and what ran stays."""
        await self._done("revoke_key", bodies.NameKey(key=key))

    async def make_link(self, person: str) -> str:
        """Make the secret of a link by which somebody enters once, within a day."""
        return (await self._sender.post("/people/make_link", Secret, bodies.NamePerson(person=person))).secret

    async def _done(self, word: str, body: bodies.Said) -> None:
        await self._sender.post(f"/people/{word}", Done, body)
