"""Let people in: tokens, links, passwords, and the logins that begin with a proof.

Of a secret only a digest is kept, of a password only what a slow hash makes of it.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from ..core.durations import milliseconds
from ..core.errors import NotAllowed, UserError
from ..core.people import Decider, plain_text
from ..journal.base import Store
from . import credentials, decide, subjects
from . import events as ev
from .book import Book, Decide
from .finding import find
from .instances import check_provisioner
from .login import PEOPLE, By, Login, digest_of, id_in, id_of, names, new_secret
from .provisioning import Account, Claims, map_claims, provisions
from .spelling import one_line
from .state import ADMIN, PROVISION, SCIM, Directory, Link, Subject, Token

_LINK_MS = 24 * 3_600_000
_NO_ENTRANCE = "this token or link is not valid: it is unknown, used, revoked or expired"


class ShownOnce(UserError):
    """Raised for a secret that was made under its name before, and was shown then.

    >>> str(ShownOnce())
    'this was done, and its secret was shown: revoke it and ask for another'
    """

    def __init__(self) -> None:
        super().__init__("this was done, and its secret was shown: revoke it and ask for another")


class LinkRefused(NotAllowed):
    """Raised for a sign-in link that is not valid; `why` is "used", "expired" or "revoked" for one that once was.

    Only who has the secret of a link is told more than that it is unknown.

    >>> LinkRefused("used").why
    'used'
    """

    def __init__(self, why: str = "unknown") -> None:
        self.why = why
        super().__init__(_NO_ENTRANCE)


def _valid_link(directory: Directory, link: str, at: int) -> Link:
    """Return the link of a secret, or refuse it."""
    found = directory.links.get(id_in(link))
    known = found.digest if found is not None else "0" * 64
    fits = hmac.compare_digest(known, digest_of(link))
    if found is None or not fits or directory.person(found.person) is None:
        raise LinkRefused
    if found.used:
        raise LinkRefused("used")
    if at >= found.expires_at:
        raise LinkRefused("expired")
    if found.revoked or ADMIN not in directory.roles_of(found.made_by):
        raise LinkRefused("revoked")
    return found


def _accounted(directory: Directory, person: str, account: Account | None) -> decide.Events:
    if account is None:
        return []
    bound = [] if account.subject is None else subjects.bind_subject(directory, person, account.subject)
    return [*bound, *([] if account.claims is None else map_claims(directory, person, account.claims))]


class SignIns(ABC):
    """Issues what people come in with, and says whose it is."""

    _store: Store
    _book: Book

    @abstractmethod
    async def _change(
        self, by: By, decided: Decide, *, needs: Iterable[str] | None = None, scope: str = PEOPLE
    ) -> Directory:
        """Decide a change against the directory as it stands, and append it, unless its name says that it was made."""

    async def issue_token(
        self,
        person: str,
        scopes: Iterable[str] = ("decide", "read"),
        *,
        by: By,
        label: str = "",
        expires: str | float | None = None,
    ) -> str:
        """Issue a token and return it: it is shown this once, and only a digest of it is kept."""
        name, text = new_secret()
        given, length = names(scopes, "scopes"), None if expires is None else milliseconds(expires)

        def made(now: Directory, at: int) -> decide.Events:
            until = None if length is None else at + length
            issued = ev.TokenIssued(name, person, digest_of(text), given, label, until)
            return decide.issue_token(now, id_of(by), issued, at)

        if name not in (await self._change(by, made)).tokens:
            raise ShownOnce
        return text

    async def tokens(self, person: str | None = None) -> Sequence[Token]:
        """Return tokens, the newest last."""
        found = (await self._book.read()).tokens.values()
        return [each for each in found if person in (None, each.person)]

    async def revoke_token(self, token: str, *, by: By) -> None:
        """Revoke a token, by its id or by itself."""
        plain_text(token, "token")
        name = id_in(token) or token
        own = by.person if isinstance(by, Login) and by.token == name else by  # whoever has one may throw it away
        await self._change(own, lambda now, _at: decide.revoke_token(now, id_of(by), name))

    async def login(self, token: str, scope: str = "") -> Login:
        """Return whose token this is, or raise `NotAllowed`, which says no more than that."""
        now, directory = await self._store.now(), await self._book.read()
        found = directory.tokens.get(id_in(token))
        known = found.digest if found is not None else "0" * 64
        fits = hmac.compare_digest(known, digest_of(token))
        if found is None or not fits or not directory.accepts(found, now):
            raise NotAllowed(_NO_ENTRANCE)
        if scope and scope not in found.scopes:
            raise NotAllowed(f"this token has not the scope {scope!r}; its scopes: {', '.join(found.scopes)}")
        return Login(found.person, found.scopes, found.id)

    async def admit(self, login: Login, scope: str) -> None:
        """Refuse a login that is not good for this, or not any more: its token may have been revoked since."""
        now, directory = await self._store.now(), await self._book.read()
        decide.let_in(directory, login.person, login.token, login.scopes, scope, now)
        decide.present(directory, login.person)

    async def make_link(self, person: str, *, by: By) -> str:
        """Make the secret of a link by which somebody enters once, within a day; it takes all that a session may do."""
        name, text = new_secret()

        def made(now: Directory, at: int) -> decide.Events:
            return decide.make_link(now, id_of(by), ev.LinkMade(name, person, digest_of(text), at + _LINK_MS))

        if name not in (await self._change(by, made)).links:
            raise ShownOnce
        return text

    async def link(self, link: str) -> Link:
        """Return what a link is for, without using it; raise `LinkRefused` as `use_link` would."""
        return _valid_link(await self._book.read(), link, await self._store.now())

    async def use_link(self, link: str) -> Login:
        """Let somebody in by a link, once, or raise `LinkRefused`; their other links are of no use from then on.

        A link is good as long as whoever made it could make it.
        """

        def used(now: Directory, at: int) -> decide.Events:
            found = _valid_link(now, link, at)
            others = [each for each in now.links.values() if each.person == found.person and not each.used]
            return [ev.LinkUsed(each.id) for each in others]

        now, directory = await self._store.now(), await self._book.read()
        used(directory, now)  # a stranger with a wrong one keeps nobody from changing the directory
        whose = directory.links[id_in(link)].person
        await self._change(whose, used)
        return Login(whose, ())

    # Logins --------------------------------------------------------------------------------------------------------

    async def begin_session(
        self,
        person: str,
        proof: str,
        *,
        lasts: str | float,
        label: str = "",
        once: str = "",
        counted: tuple[str, int] | None = None,
        hashed: str = "",
        account: Account | None = None,
    ) -> str:
        """Begin the login of somebody who proved who they are, and return its token, which is shown this once.

        `proof` says by what. `once` is the id of a proof that is good for one login, `counted` the key that made
        it, with its count of signatures, and `hashed` the password that was compared: none begins a login that was
        revoked or changed meanwhile. `account` is what a provider says: its account, the first of which is bound to the
        person, and what its claims give. Whoever calls this vouches for the person.
        """
        name, text = new_secret(once)
        length = milliseconds(lasts)
        count = None if counted is None else ev.KeyCounted(*counted)
        one_line(label, "a label")

        def made(now: Directory, at: int) -> decide.Events:
            scopes = credentials.SESSION_SCOPES
            issued = ev.TokenIssued(name, person, digest_of(text), scopes, label, at + length, proof)
            begun = decide.begin_session(now, issued, count, hashed)  # refused before anything is bound or given
            return [*_accounted(now, person, account), *begun]

        await self._change(Decider(person, (), "authenticated"), made)
        return text

    async def provision(self, decided: Callable[[Directory], decide.Events], *, by: Login) -> Directory:
        """Make a change that `provisioning.py` decides, for a client that keeps users and groups here (SCIM)."""

        def made(now: Directory, at: int) -> decide.Events:
            provisions(now, by.person, at)
            return decided(now)

        return await self._change(by, made, scope=SCIM)

    async def provision_instance(self, decided: Callable[[Directory], decide.Events], *, by: Login) -> Directory:
        """Make a change that `instances.py` decides, for a provisioner of instances."""

        def made(now: Directory, at: int) -> decide.Events:
            check_provisioner(now, by.person, at)
            return decided(now)

        return await self._change(by, made, needs=(PROVISION,), scope=PROVISION)

    async def map_claims(self, person: str, claims: Claims) -> None:
        """Give a person who signed in what the claims of their provider give now; what they gave before ends."""
        await self._change(Decider(person, (), "authenticated"), lambda now, _at: map_claims(now, person, claims))

    async def check_subject(self, person: str, subject: Subject) -> None:
        """Refuse an account of a provider that signs in another person, or a person whom it does not sign in."""
        directory = await self._book.read()
        subjects.bind_subject(directory, person, subject)
        decide.check_relinked(directory, person)

    async def forget_subject(self, person: str, *, by: By) -> None:
        """Have the next account of a provider that says it is a person bound to them, as an administrator.

        The logins of the account that was bound end. A person who left keeps theirs until it is forgotten.
        """
        await self._change(by, lambda now, _at: subjects.forget_subject(now, id_of(by), person))

    async def sessions(self, person: str) -> Sequence[Token]:
        """Return the logins of a person that last, the newest first."""
        now = await self._store.now()
        return [each for each in reversed(await self.tokens(person)) if each.session and each.good(now)]

    async def set_password(self, person: str, hashed: str, *, by: By, keeps: str = "") -> None:
        """Set the argon2id hash of a person's password, by themselves; "" takes it away.

        Their logins end, but for the one whose token has the id `keeps`.
        """
        if keeps == decide.ALL_SESSIONS:
            raise UserError("keeps= is the id of one login")
        chosen = ev.PasswordSet(person, plain_text(hashed, "the hash of a password"), keeps)
        await self._change(by, lambda now, _at: decide.set_password(now, id_of(by), chosen))

    async def rehash_password(self, person: str, before: str, hashed: str, *, by: By) -> None:
        """Keep the same password by another hash, unless it was changed since; no login ends."""
        chosen = ev.PasswordSet(person, hashed, decide.ALL_SESSIONS)

        def made(now: Directory, _at: int) -> decide.Events:
            return decide.set_password(now, id_of(by), chosen) if now.passwords.get(person) == before else []

        await self._change(by, made)

    async def find(self, typed: str, *, names: bool = True) -> str:
        """Return the id of the user whom a person means, in any case, or by display name; else what was typed."""
        directory = await self._book.read()
        if typed in directory.people:
            return typed
        return find([each for each in directory.people.values() if each.here], typed, names=names)

    async def password_of(self, person: str) -> str:
        """Return the hash of a person's password; "" for nobody's, and for none."""
        return (await self._book.read()).passwords.get(person, "")
