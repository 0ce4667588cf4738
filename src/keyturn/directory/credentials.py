"""Check what a login hands out: nothing that is good for more, or lasts longer, than the login itself.

Pure, as `decide.py` is. A session that was left open, or stolen, and a token of few scopes are turned into nothing that
gives further access. The events of a change say what it hands out: each kind is in one of two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ..core.errors import NotAllowed
from . import events as ev
from .bounds import check_pace
from .login import DECIDE, Login
from .state import ADMIN, PASSKEY, PROVISION, SCIM, Directory, Token

#: How long after its sign-in a session changes how its person signs in, and who may do what, in milliseconds.
FRESH_MS = 15 * 60_000
#: What a session is good for, and so a link, which begins one.
SESSION_SCOPES = ("decide", "read", "people")


def _of_address(event: ev.AddressSet) -> Iterable[str] | None:
    return (DECIDE,) if event.address and event.confirmed else None


def _of_setting(event: ev.SettingChanged) -> Iterable[str] | None:
    return None if event.person else ()


def _of_confirmation(event: ev.KeyConfirmed) -> Iterable[str] | None:
    return (DECIDE,) if event.proof is None else None  # a signature is fresher than any sign-in


def _of_password(event: ev.PasswordSet) -> Iterable[str] | None:
    return SESSION_SCOPES if event.hash else None


def _deciding(_event: object) -> Iterable[str]:
    return (DECIDE,)


def _administering(_event: object) -> Iterable[str]:
    return ()


#: Which events hand something out, and the scopes that a login needs for it; None where this one hands out nothing.
#: Keys, delegations and clicks of the user who has a confirmed address decide.
HANDS_OUT: dict[type[Any], Callable[[Any], Iterable[str] | None]] = {
    ev.TokenIssued: lambda event: event.scopes,
    ev.LinkMade: lambda _event: SESSION_SCOPES,
    ev.KeyEnrolled: _deciding,
    ev.KeyConfirmed: _of_confirmation,
    ev.AddressSet: _of_address,
    ev.AddressConfirmed: _deciding,
    ev.Delegated: _deciding,
    ev.PersonAdded: _administering,
    ev.PersonReturned: _administering,
    ev.RoleGiven: _administering,
    ev.GroupJoined: _administering,
    ev.SettingChanged: _of_setting,
    ev.SubjectForgotten: _administering,
    ev.ClaimsMapped: _administering,
    ev.MembershipProvisioned: lambda event: () if event.member else None,
    ev.PasswordSet: _of_password,
}
# A password is chosen by whoever has the one before, or proved who they are otherwise.
_ENDS = (ev.TokenRevoked, ev.KeyRevoked, ev.DelegationEnded, ev.PasswordSet)
#: What a session of any age may do: the page of a password requires the one before, or a sign-in of the last minutes.
_AT_ANY_AGE = (ev.PasswordSet,)
#: Those that hand out nothing.
HANDS_OUT_NOTHING: tuple[type[Any], ...] = (
    ev.PersonRemoved,
    ev.RoleTaken,
    ev.GroupLeft,
    ev.TokenRevoked,
    ev.KeyRevoked,
    ev.KeyCounted,
    ev.DelegationEnded,
    ev.LinkUsed,
    ev.SubjectBound,
    ev.UserProvisioned,
    ev.GroupProvisioned,
    ev.Restored,
)


def check(
    directory: Directory,
    by: object,
    events: Iterable[ev.AnyDirectoryEvent],
    now: int,
    *,
    scopes: Iterable[str] | None = None,
) -> None:
    """Refuse a login that hands out more than it is good for, or for longer, or whose session began too long ago.

    A program that names a person, in place of their login, vouches for them. `scopes` are those that the login needs,
    in place of the ones of the table.
    """
    if not isinstance(by, Login):
        return
    for event in events:
        needs = HANDS_OUT[type(event)](event) if type(event) in HANDS_OUT else None
        if needs is not None:
            within(needs if scopes is None else scopes, (*by.scopes, *_for_machines(directory, by, event)))
            if not isinstance(event, _AT_ANY_AGE) and not _sets_up(directory, by, event):
                fresh(directory, by, now)
            _lasts(directory, by, event)


def _for_machines(directory: Directory, by: Login, event: ev.AnyDirectoryEvent) -> tuple[str, ...]:
    """Return the scopes that no session has and an administrator's may issue, which adds users anyway: to machines."""
    held = directory.tokens.get(by.token)
    if held is None or not held.session or not isinstance(event, ev.TokenIssued):
        return ()
    holder = directory.person(event.person)
    return ("run", "ask", SCIM, PROVISION) if holder is not None and holder.kind == "machine" else ()


def _sets_up(directory: Directory, by: Login, event: ev.AnyDirectoryEvent) -> bool:
    """Return whether a session that began by a link enrols the first passkey of a user with no other way to sign in."""
    return isinstance(event, ev.KeyEnrolled) and event.scheme == PASSKEY and first_set_up(directory, by)


def first_set_up(directory: Directory, by: Login) -> bool:
    """Return whether a session began by a one-time link, and its user has set up nothing to sign in with since."""
    held = directory.tokens.get(by.token)
    return held is not None and held.session == ev.BY_LINK and not directory.can_sign_in(by.person)


def within(scopes: Iterable[str], held: Collection[str]) -> None:
    """Refuse scopes that the login which hands them out has not got at the moment."""
    more = [scope for scope in scopes if scope not in held]
    if more:
        raise NotAllowed(f"a login issues nothing that it is not good for itself, and this one is not for {more[0]!r}")


def fresh(directory: Directory, by: Login, now: int) -> None:
    """Refuse a session that began too long ago for what outlasts it."""
    held = directory.tokens.get(by.token)
    if held is not None and held.session and now - held.issued_at >= FRESH_MS:
        raise NotAllowed("sign in again for this: this session is more than 15 minutes old")


def check_grant(directory: Directory, by: object, until: int | None, now: int) -> None:
    """Refuse a standing approval that outlasts the token by which it is given, or a session that began too long ago."""
    held = directory.tokens.get(by.token) if isinstance(by, Login) else None
    if held is None or held.expires_at is None or (until is not None and until <= held.expires_at):
        return
    if not held.session:
        raise NotAllowed("a token gives no grant that outlasts it: set an expiry (--expires) before its own")
    if now - held.issued_at >= FRESH_MS:
        raise NotAllowed("sign in again to give a grant that outlasts this session, or say an earlier end")


def vouches(directory: Directory, by: object) -> bool:
    """Return whether what a login says of an address needs no code: it decides, and has no end."""
    return not isinstance(by, Login) or (DECIDE in by.scopes and _ending(directory, by) is None)


def _ending(directory: Directory, by: Login) -> Token | None:
    """Return the token of a login, where it has an end and is no session."""
    held = directory.tokens.get(by.token)
    return None if held is None or held.session or held.expires_at is None else held


def _lasts(directory: Directory, by: Login, event: ev.AnyDirectoryEvent) -> None:
    """Refuse what would outlast the token by which it is handed out."""
    held = _ending(directory, by)
    if held is None or held.expires_at is None:
        return
    match event:
        case ev.TokenIssued():
            until = event.expires_at
        case ev.Delegated():
            until = event.until
        case ev.LinkMade():  # the session that it begins hands out what has no end
            raise NotAllowed("a token with an end makes no link, whose session outlasts it: sign in, and make it there")
        case ev.KeyEnrolled() | ev.KeyConfirmed():
            raise NotAllowed("a token with an end enrols or confirms no key, which outlasts it: sign in for this")
        case ev.AddressSet() | ev.AddressConfirmed():
            raise NotAllowed("a token with an end confirms no address, which outlasts it: confirm it under My account")
        case ev.PasswordSet():
            raise NotAllowed("a token with an end sets no password, which outlasts it: sign in, and choose it there")
        case _:
            return
    if until is None or until > held.expires_at:
        raise NotAllowed("a token hands out nothing that outlasts it: say an end, and no later than its own")


def often(directory: Directory, by: str, events: Iterable[ev.AnyDirectoryEvent], now: int) -> None:
    """Refuse a person who changes the directory too often; administrators change it for many.

    What ends something is done once with each thing: whoever uses up the changes of a person, with a token of theirs,
    does not keep them from revoking it.
    """
    ends = all(isinstance(each, _ENDS) or (isinstance(each, ev.AddressSet) and not each.address) for each in events)
    if not ends and by in directory.paces and ADMIN not in directory.roles_of(by):
        check_pace(directory.paces[by], now)
