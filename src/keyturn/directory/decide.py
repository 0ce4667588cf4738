"""Check a change of the directory, and return the events that it makes: who may do what, and what must be so.

Pure, as the core is: state and arguments in, events or a refusal out. What changes nothing makes no event.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, cast

from ..core.digest import canonical
from ..core.errors import Conflict, NotAllowed, UserError
from ..core.lookalikes import looks_as
from ..core.people import Decider, Proof
from ..render.names import mixed_script
from . import events as ev
from .bounds import check_settings, room_for
from .fold import fold
from .settings import check_setting
from .spelling import named, one_line
from .state import ADMIN, OURS, PROVISION, SCIM, SCOPES, Directory, Key, Person

Events = list[ev.AnyDirectoryEvent]
#: How many logins of one person can last at the same time.
MOST_SESSIONS = 20
#: A password that is kept by another hash ends no login.
ALL_SESSIONS = ev.ALL_SESSIONS
#: Why a signature is refused of a key whose signatures are numbered.
COPIED = "the key's counter did not increase: it was copied, or the proof is an old one"
_HASH = re.compile(r"\$argon2id\$v=\d+\$m=\d{1,9},t=\d{1,4},p=\d{1,3}\$[A-Za-z0-9+/]{8,100}\$[A-Za-z0-9+/]{16,200}")


def let_in(directory: Directory, person: str, token: str, scopes: Collection[str], scope: str, now: int) -> None:
    """Refuse somebody who logged in, where that is not good for this, or is not good any more.

    Without a token it is the program that vouches for the person, and for what they may do.
    """
    if isinstance(scopes, str) or not all(isinstance(cast("object", each), str) for each in scopes):
        raise UserError("the scopes of a login are a list of names")
    if scope not in scopes:
        raise NotAllowed(
            f"the login of {person!r} has not the scope {scope!r}; its scopes: {', '.join(scopes) or 'none'}"
        )
    if not token:
        return
    found = directory.tokens.get(token)
    good = found is not None and found.person == person and directory.accepts(found, now)
    if found is None or not good or not set(scopes) <= set(found.scopes):
        raise NotAllowed(
            f"the token of {person!r} is no longer valid: it was revoked, it expired, or its issuer is no administrator"
        )


def admin(directory: Directory, by: str) -> None:
    """Refuse whoever is no administrator."""
    if ADMIN not in directory.roles_of(by):
        raise NotAllowed(f"{by} needs the role {ADMIN!r} for this")


def own_or_admin(directory: Directory, by: str, person: str) -> None:
    """Refuse whoever is neither the person that it is about nor an administrator."""
    if by != person or directory.person(by) is None:
        admin(directory, by)


def present(directory: Directory, person: str) -> Person:
    """Return whoever logged in, or refuse them where they are nobody, or left."""
    found = directory.person(named(person, "a person"))
    if found is None:
        raise NotAllowed(f"there is no user {person!r} in this directory")
    return found


def somebody(directory: Directory, name: str) -> Person:
    """Return a person who is here, or refuse the name."""
    found = directory.person(named(name, "a person"))
    if found is None:
        left = ": this user was removed" if name in directory.people else ""
        raise UserError(f"there is no user {name!r} in this directory{left}")
    return found


def own_id(person: str) -> str:
    """Return an id that somebody can have, or refuse it: one that reads as one name, and is not ours."""
    named(person, "a person")
    if looks_as(person) == OURS:
        raise UserError(f"the id {person!r} is ours: in its name is recorded what no person did")
    if (why := mixed_script(person)) is not None:
        raise UserError(f"the id {person!r} {why}; choose one that is not mistaken for another user's")
    return person


def start(directory: Directory, person: str, name: str) -> Events:
    """Begin a directory with its first person, who administers it."""
    if directory.place:
        raise Conflict("this directory has people already: ask an administrator to add you")
    return [ev.PersonAdded(own_id(person), one_line(name, "a name")), ev.RoleGiven(ADMIN, person=person)]


def add(directory: Directory, by: str, person: str, name: str, kind: ev.Kind, roles: Iterable[str]) -> Events:
    """Add a person, or have one back who had left."""
    admin(directory, by)
    named(person, "a person")
    if kind not in ("person", "machine"):
        raise UserError(f"kind is 'person' or 'machine', not {kind!r}")
    before = directory.people.get(person)
    if before is not None and before.here:
        raise Conflict(f"{person!r} is in this directory already")
    like = directory.alike.get(looks_as(person), person)
    if like != person:
        raise UserError(f"{person!r} reads like {like!r}, who is or was in this directory; choose another id")
    own_id(person)
    if before is not None and before.kind != kind:
        raise UserError(f"{person!r} was a {before.kind}; an id is given once")
    added = ev.PersonAdded(person, one_line(name, "a name"), kind) if before is None else ev.PersonReturned(person)
    kept = [] if before is None else sorted(before.provisioned)  # what came from elsewhere is not given by us
    ended = [ev.MembershipProvisioned(each, person, False) for each in kept]
    return [added, *ended, *(ev.RoleGiven(named(role, "a role"), person=person) for role in dict.fromkeys(roles))]


def remove(directory: Directory, by: str, person: str) -> Events:
    """Remove a person; the last administrator stays."""
    admin(directory, by)
    somebody(directory, person)
    keep_an_admin(directory, person)
    return [ev.PersonRemoved(person)]


def keep_an_admin(directory: Directory, person: str) -> None:
    """Refuse to do without the last administrator."""
    if directory.admins() == [person]:
        raise UserError(f"{person!r} is the last administrator: give another user the role {ADMIN!r} first")


def give_role(directory: Directory, by: str, role: str, person: str, group: str) -> Events:
    """Give a role to a person or a group."""
    admin(directory, by)
    named(role, "a role")
    if _holder(directory, person, group, role):
        return []
    return [ev.RoleGiven(role, person, group)]


def take_role(directory: Directory, by: str, role: str, person: str, group: str) -> Events:
    """Take a role from a person or a group."""
    admin(directory, by)
    if not _holder(directory, person, group, role):
        return []
    taken = ev.RoleTaken(role, person, group)
    if role == ADMIN:
        left = after(directory, taken).admins()
        if not left:
            raise UserError(f"no administrator would be left: give another user the role {ADMIN!r} first")
    return [taken]


def after(directory: Directory, *made: ev.AnyDirectoryEvent) -> Directory:
    """Return the directory as it would be, for a look; the given one stays as it is."""
    return fold([ev.Entry(directory.at, Decider("-"), list(made))], directory)


def _holder(directory: Directory, person: str, group: str, role: str) -> bool:
    """Return whether a person or a group has a role by themselves."""
    if bool(person) == bool(group):
        raise UserError("a role is of a person or of a group: name one of the two")
    if person:
        return role in somebody(directory, person).roles
    return role in directory.groups.get(named(group, "a group"), ())


def join(directory: Directory, by: str, group: str, person: str) -> Events:
    """Have a person join a group."""
    admin(directory, by)
    named(group, "a group")
    return [] if group in somebody(directory, person).groups else [ev.GroupJoined(group, person)]


def leave(directory: Directory, by: str, group: str, person: str) -> Events:
    """Have a person leave a group."""
    admin(directory, by)
    found = somebody(directory, person)
    if group not in found.groups:
        if group in found.all_groups:
            raise UserError(f"the identity provider keeps {person!r} in the group {group!r}: remove them there")
        return []
    gone = ev.GroupLeft(group, person)
    if not after(directory, gone).admins():
        raise UserError(f"no administrator would be left: give another user the role {ADMIN!r} first")
    return [gone]


def issue_token(directory: Directory, by: str, issued: ev.TokenIssued, now: int) -> Events:
    """Issue a token to a person; nobody issues themselves more than they may do."""
    own_or_admin(directory, by, issued.person)
    holder = somebody(directory, issued.person)
    wrong = [scope for scope in issued.scopes if scope not in SCOPES]
    if wrong or not issued.scopes:
        raise UserError(f"the scopes of a token are of {', '.join(SCOPES)}, at least one; not {wrong or 'none'}")
    if holder.kind == "machine" and "decide" in issued.scopes:
        raise UserError(f"{issued.person!r} is a service account, which cannot decide: leave out the scope 'decide'")
    alone = next((scope for scope in (SCIM, PROVISION) if scope in issued.scopes), "")
    if alone and (holder.kind == "person" or len(issued.scopes) > 1):
        raise UserError(
            f"a token of the scope {alone!r} is for a service account, and has no other scope: users add NAME --machine"
        )
    if "run" in issued.scopes and "decide" in issued.scopes:
        raise UserError("a token that starts runs decides none of their requests: issue two")
    if issued.expires_at is not None and issued.expires_at <= now:
        raise UserError("expires must be a time to come")
    one_line(issued.label, "a label")
    own = [each for each in directory.tokens.values() if each.person == issued.person]
    room_for("tokens", [each for each in own if not each.session and each.good(now)])
    return [issued]


def revoke_token(directory: Directory, by: str, token: str) -> Events:
    """Revoke a token."""
    found = directory.tokens.get(token)
    if found is None:
        raise UserError(f"there is no token {token!r}")
    own_or_admin(directory, by, found.person)
    return [] if found.revoked_at is not None else [ev.TokenRevoked(token)]


def enrol_key(directory: Directory, by: str, enrolled: ev.KeyEnrolled) -> Events:
    """Enrol a person's own key, by themselves; it counts when it is confirmed."""
    person = somebody(directory, enrolled.person)
    if by != person.id:
        raise NotAllowed(f"a key is enrolled by the person whose it is, {person.id!r}, and by no other user")
    if person.kind == "machine":
        raise UserError(f"{person.id!r} is a service account; only a person's own key signs decisions")
    known = directory.keys.get(enrolled.key)
    if known is not None:
        whose = "yours" if known.person == by else "another user's"
        raise Conflict(f"this key is {whose} already; a key is enrolled once")
    one_line(enrolled.label, "a label")
    room_for("keys", [key for key in directory.keys.values() if key.person == by and key.revoked_at is None])
    return [enrolled]


def confirm_key(directory: Directory, by: str, key: str, proof: Proof | None) -> Events:
    """Confirm that a key is the person's own: an administrator who is not its owner, signed once any key counts.

    The very first key of a directory is confirmed by its owner: it is what a worker trusts, or is told to trust.
    """
    found = known_key(directory, key)
    if found.revoked_at is not None:
        raise Conflict(f"key {key!r} was revoked; enrol another one")
    if found.confirmed_at is not None:
        return []
    admin(directory, by)
    first = all(each.confirmed_at is None for each in directory.keys.values())
    if found.person == by and not first:
        raise NotAllowed("a key is confirmed by a user other than its owner")
    if not first and proof is None:
        raise NotAllowed("a key is confirmed with the signature of a key that counts already: sign the confirmation")
    if proof is not None:
        signer = directory.keys.get(proof.key)
        if signer is None or signer.person != by or not signer.counts:
            raise NotAllowed("this confirmation is signed with a key that is not yours, or that does not count")
    return [ev.KeyConfirmed(key, proof)]


def revoke_key(directory: Directory, by: str, key: str, keeps: str = "") -> Events:
    """Revoke a key; with a passkey the logins by passkeys of its person end, but for the one whose token it keeps."""
    found = known_key(directory, key)
    own_or_admin(directory, by, found.person)
    if found.revoked_at is not None:
        return []
    logins = [
        each for each in directory.tokens.values() if each.person == found.person and each.session == found.scheme
    ]
    over = [each.id for each in logins if each.revoked_at is None and each.id != keeps]
    return [ev.KeyRevoked(key), *map(ev.TokenRevoked, over)]


def count_key(directory: Directory, by: str, key: str, count: int) -> Events:
    """Record how far a key has counted its signatures."""
    found = known_key(directory, key)
    if found.person != by:
        raise NotAllowed("a key counts the signatures of its owner")
    return [] if found.count is not None and found.count >= count else [ev.KeyCounted(key, count)]


def known_key(directory: Directory, key: str) -> Key:
    """Return an enrolled key, or refuse its id."""
    found = directory.keys.get(key)
    if found is None:
        raise UserError(f"there is no key {key!r}; it is enrolled first")
    return found


def delegate(directory: Directory, by: str, given: ev.Delegated, now: int) -> Events:
    """Let another decide in somebody's place until a time; what was lent to somebody is not theirs to lend."""
    own_or_admin(directory, by, given.giver)
    giver, receiver = somebody(directory, given.giver), somebody(directory, given.receiver)
    if giver.id == receiver.id:
        raise UserError("a user cannot delegate to themselves")
    if "machine" in (giver.kind, receiver.kind):
        raise UserError("only people decide in each other's place")
    if given.until <= now:
        raise UserError("until must be a time to come: a delegation has an end")
    missing = [role for role in given.roles if role not in directory.roles_of(giver.id)]
    if missing:
        raise UserError(f"{giver.id!r} has not the role {missing[0]!r}, and cannot delegate it")
    one_line(given.why, "why")
    given_before = [each for each in directory.delegations.values() if each.giver == giver.id and each.holds(now)]
    room_for("delegations", given_before)
    return [given]


def end_delegation(directory: Directory, by: str, delegation: str, now: int) -> Events:
    """End a delegation before its time: its giver, its receiver, or an administrator."""
    found = directory.delegations.get(delegation)
    if found is None:
        raise UserError(f"there is no delegation {delegation!r}")
    if by != found.receiver:
        own_or_admin(directory, by, found.giver)
    return [ev.DelegationEnded(delegation)] if found.holds(now) else []


def make_link(directory: Directory, by: str, made: ev.LinkMade) -> Events:
    """Make a link by which a person enters for the first time."""
    admin(directory, by)
    if somebody(directory, made.person).kind == "machine":
        raise UserError(f"{made.person!r} is a service account: issue a token")
    own = [each for each in directory.links.values() if each.person == made.person and not each.used]
    room_for("links", [each for each in own if each.expires_at > directory.at])
    return [made]


def check_relinked(directory: Directory, person: str) -> None:
    """Refuse a sign-in of a person who has used no link since the store was restored from a copy."""
    if person in directory.relink:  # they may have been removed since the copy was made
        raise NotAllowed("the store was restored from a backup: sign in with a link from an administrator first")


def begin_session(
    directory: Directory, issued: ev.TokenIssued, count: ev.KeyCounted | None = None, hashed: str = ""
) -> Events:
    """Begin a login of a person who proved who they are, if the proof is good still; of too many, the oldest ends."""
    if present(directory, issued.person).kind == "machine":
        raise NotAllowed(f"{issued.person!r} is a service account: it signs in with a token")
    check_relinked(directory, issued.person)
    if issued.token in directory.tokens:
        raise NotAllowed("this proof was used already: sign in again")
    if hashed and directory.passwords.get(issued.person) != hashed:
        raise NotAllowed("the password was changed meanwhile: sign in again")
    live = [each for each in directory.tokens.values() if each.session and each.person == issued.person]
    live = sorted((each for each in live if each.revoked_at is None), key=lambda each: each.issued_at)
    ended: Events = [ev.TokenRevoked(each.id) for each in live[: max(0, len(live) - MOST_SESSIONS + 1)]]
    counted = [] if count is None else _signed_in(directory, issued.person, count)
    return [*counted, *ended, issued]


def _signed_in(directory: Directory, person: str, said: ev.KeyCounted) -> Events:
    """Record how far a key has counted that signed somebody in, or refuse it; 0 is of a key that does not count."""
    found = known_key(directory, said.key)
    if found.revoked_at is not None:
        raise NotAllowed("the key was revoked meanwhile: sign in with another")
    if not said.count and not found.count:
        return []
    counted = count_key(directory, person, said.key, said.count)
    if not counted:
        raise NotAllowed(COPIED)
    return counted


def set_password(directory: Directory, by: str, chosen: ev.PasswordSet) -> Events:
    """Set the hash of a person's password, by themselves; an administrator may take it away."""
    if not chosen.hash:
        own_or_admin(directory, by, chosen.person)
        return [chosen] if chosen.person in directory.passwords else []
    if somebody(directory, chosen.person).kind == "machine":
        raise UserError(f"{chosen.person!r} is a service account: issue a token")
    if by != chosen.person:
        raise NotAllowed("a password is chosen by its person: make them a link, by which they choose one")
    if not _HASH.fullmatch(chosen.hash):
        raise UserError("of a password its argon2id hash is kept, $argon2id$..., and nothing else")
    return [chosen]


def change_setting(directory: Directory, by: str, changed: ev.SettingChanged) -> Events:
    """Change a setting of a person, by themselves, or of everybody, by an administrator."""
    check_setting(named(changed.name, "a setting"), changed.value, changed.person)
    if changed.person:
        own_or_admin(directory, by, changed.person)
        settings = somebody(directory, changed.person).settings
    else:
        admin(directory, by)
        settings = directory.settings
    before: object = settings.get(changed.name)
    if canonical(before) == canonical(changed.value):
        return []
    check_settings(settings, changed.name, changed.value, own=bool(changed.person))
    return [cast("Any", changed)]
