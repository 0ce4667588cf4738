"""My account: a person's password, passkeys, sessions, and where they are notified of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError, NotAllowed, UserError
from ...directory.events import BY_HOST, BY_LINK, BY_PROVIDER
from ...directory.recipients import MUTED
from ...directory.state import Key, Token
from ...support.zones import named_zone
from ..addresses import keep_address
from ..errors import refused
from ..forms import FIELD, check_csrf, form_of, safe_redirect, text_in
from ..limits import TooMany
from ..visitor import Visitor
from ..zones import SETTING as ZONE
from ..zones import browser_zone
from . import attempts
from .links import draw_setup, setup_path
from .passwords import SHORTEST, refuse_weak
from .sign_in import CHANGES, SignIn, fresh, go, sign_in_of

router = APIRouter(include_in_schema=False)
_MOST_HOURS = 24 * 7
_DONE = {
    "password": "Your password is set. Your other sessions have ended.",
    "passkey": "The passkey is enrolled.",
    "confirmed": "The passkey is confirmed. You can sign decisions with it.",
    "revoked": "The passkey was revoked. Your other sessions that began with a passkey have ended.",
    "ended": "The session has ended.",
    "address": "The address is saved.",
    "reached": "The address is confirmed. Notifications are sent to it.",
    "muted": "Notifications are paused.",
    "zone": "The time zone was saved.",
    "heard": "Notifications are on again.",
}


#: By what a session was begun, as the page says it.
PROOFS = {
    "password": "password",
    "passkey": "passkey",
    BY_LINK: "sign-in link",
    BY_PROVIDER: "single sign-on",
    BY_HOST: "the application's own sign-in",
}


class _Subscription(msgspec.Struct, frozen=True):
    """Holds as much of a browser's subscription as is shown of it."""

    endpoint: str


class _Login(NamedTuple):
    """Holds one login as the page shows it."""

    id: str
    label: str
    proof: str
    since: int
    until: int | None
    here: bool


@router.get("/account")
async def account_page(request: Request) -> Response:
    """Show somebody their account."""
    visitor = await sign_in_of(request).visitor(request)
    if visitor is None:
        return go(request, "/login?next=/account")
    return await _page(request, visitor, done=_DONE.get(request.query_params.get("done", ""), ""))


async def _page(
    request: Request, visitor: Visitor, *, at: str = "", error: str = "", status: int = 200, done: str = ""
) -> Response:
    """Draw the account; `at` says beside which form an error stands."""
    sign_in = sign_in_of(request)
    directory = await sign_in.people.directory()
    every = await sign_in.people.keys()
    keys = [key for key in every if key.person == visitor.id]
    waits = [key for key in every if key.person != visitor.id and key.confirmed_at is None and key.revoked_at is None]
    now = await sign_in.app.inbox.now()
    until: Any = visitor.person.settings.get(MUTED)
    values: dict[str, Any] = {
        "done": done,
        "error": error,
        "error_at": at,
        "fresh": await fresh(sign_in, visitor),
        "passwords": sign_in.settings.passwords,
        "has_password": visitor.id in directory.passwords,
        "shortest": SHORTEST,
        "site": sign_in.site(request),
        "keys": [_key(key) for key in keys if key.revoked_at is None],
        "first_key": visitor.administers and not any(key.confirmed_at for key in every),
        "waiting": [_key(key) for key in waits] if visitor.administers else [],
        "logins": [_login(each, visitor.login.token) for each in await sign_in.people.sessions(visitor.id)],
        "addresses": [
            (channel, _shown(address), channel in visitor.person.unconfirmed)
            for channel, address in sorted(visitor.person.addresses.items())
        ],
        "browsers": _browsers(sign_in),
        "channels": [name for name in sign_in.app.channels.by_name if name not in dict(_browsers(sign_in))],
        "zone": str(visitor.person.settings.get(ZONE) or ""),
        "browser_zone": browser_zone(request),
        "muted": until if isinstance(until, int) and until > now else 0,
    }
    return await sign_in.page(request, "account", visitor, status, **values)


def _browsers(sign_in: SignIn) -> list[tuple[str, str]]:
    """Return the channels that tell browsers, each with the key with which one subscribes."""
    channels = sign_in.app.channels.by_name.items()
    return [(name, key) for name, channel in channels if (key := getattr(channel, "browser_key", None))]


def _shown(address: str) -> str:
    """Return an address to be read: of a browser's subscription, the service that reaches it."""
    try:
        subscribed = msgspec.json.decode(address.encode(), type=_Subscription)
    except msgspec.MsgspecError:
        return address
    return f"a browser, through {urlsplit(subscribed.endpoint).hostname}"


def _key(key: Key) -> dict[str, Any]:
    kind = {"passkey": "passkey", "ssh": "ssh key"}.get(key.scheme, key.scheme)
    about = {"id": key.id, "person": key.person, "kind": kind, "label": key.label}
    return about | {"since": key.enrolled_at, "counts": key.counts}


def _login(token: Token, here: str) -> _Login:
    return _Login(
        token.id,
        token.label,
        PROOFS.get(token.session, token.session),
        token.issued_at,
        token.expires_at,
        token.id == here,
    )


async def _changed(
    request: Request, at: str, change: Callable[[SignIn, Visitor, FormData], Any], done: str, *, counts: bool = True
) -> Response:
    """Make a change that a form of this session asks for; what is refused is said beside the form.

    What `counts` is done so often an hour; what ends a login or revokes a key does not, whatever else was changed.
    """
    sign_in = sign_in_of(request)
    visitor = await sign_in.visitor(request)
    if visitor is None:
        return go(request, "/login?next=/account")
    setup = ""
    try:
        form = await form_of(request)
        setup = text_in(form, "setup")
        check_csrf(visitor, text_in(form, FIELD))
        if counts:
            sign_in.limits.spend(CHANGES, visitor.id)
        await change(sign_in, visitor, form)
    except TooMany as many:
        made = await _again(request, visitor, setup, at, f"Too many attempts. Try again in {many.after} s.", 429)
        made.headers["retry-after"] = str(many.after)
        return made
    except KeyturnError as error:
        said = refused(error)
        return await _again(request, visitor, setup, at, said.message, said.status)
    return go(request, setup_path(safe_redirect(setup), done) if setup else f"/account?done={done}")


async def _again(request: Request, visitor: Visitor, setup: str, at: str, error: str, status: int) -> Response:
    """Draw the page anew from which a form came that was refused: the account, or that of a first sign-in."""
    if setup:
        return await draw_setup(request, visitor, safe_redirect(setup), error=error, status=status)
    return await _page(request, visitor, at=at, error=error, status=status)


@router.post("/account/password")
async def set_password(request: Request) -> Response:
    """Set a password: with the one before, or minutes after somebody proved who they are."""

    async def change(sign_in: SignIn, visitor: Visitor, form: FormData) -> None:
        if not sign_in.settings.passwords:
            raise NotAllowed("Passwords are turned off on this server.")
        hashed = await sign_in.people.password_of(visitor.id)
        recent = await fresh(sign_in, visitor)
        proven = recent and await _proof(sign_in, visitor) != "password"
        if hashed and not proven:
            attempts.count_own(sign_in, visitor.id)
            if not await sign_in.passwords.fits(hashed, text_in(form, "current"), known=True):
                raise NotAllowed("The current password is wrong.")
        elif not recent:
            raise NotAllowed("Sign in again to change this.")
        else:
            sign_in.limits.spend(CHANGES, visitor.id, "password")
        chosen = text_in(form, "new")
        if chosen != text_in(form, "again"):
            raise UserError("The two passwords do not match. Type the new password twice.")
        text = refuse_weak(chosen, visitor.id, visitor.person.name)
        made = await sign_in.passwords.hashed(text)
        await sign_in.people.set_password(visitor.id, made, by=visitor.login, keeps=visitor.login.token)

    return await _changed(request, "password", change, "password", counts=False)


async def _proof(sign_in: SignIn, visitor: Visitor) -> str:
    """Return by what somebody's session was proven."""
    token = (await sign_in.people.directory()).tokens.get(visitor.login.token)
    return "" if token is None else token.session


@router.post("/account/passkeys/revoke")
async def revoke_key(request: Request) -> Response:
    """Revoke a key of one's own."""

    async def change(sign_in: SignIn, visitor: Visitor, form: FormData) -> None:
        name = text_in(form, "key")
        if name not in {key.id for key in await sign_in.people.keys(visitor.id)}:
            raise UserError("You have no such key.")
        await sign_in.people.revoke_key(name, by=visitor.login)

    return await _changed(request, "passkeys", change, "revoked", counts=False)


@router.post("/account/logins/end")
async def end_login(request: Request) -> Response:
    """End one login of one's own, or all but this one."""

    async def change(sign_in: SignIn, visitor: Visitor, form: FormData) -> None:
        named = text_in(form, "login")
        for each in await sign_in.people.sessions(visitor.id):
            if each.id == named or (named == "others" and each.id != visitor.login.token):
                await sign_in.people.revoke_token(each.id, by=visitor.login)

    return await _changed(request, "logins", change, "ended", counts=False)


@router.post("/account/address")
async def set_address(request: Request) -> Response:
    """Say where one is told of requests."""

    async def change(sign_in: SignIn, visitor: Visitor, form: FormData) -> None:
        channel, address = text_in(form, "channel").strip(), text_in(form, "address").strip()
        await keep_address(sign_in.app, sign_in.app.people, sign_in.limits, visitor, visitor.id, channel, address)

    return await _changed(request, "addresses", change, "address")


@router.post("/account/address/confirm")
async def confirm_address(request: Request) -> Response:
    """Confirm one's own address with the code that was sent there."""

    async def change(sign_in: SignIn, visitor: Visitor, form: FormData) -> None:
        channel, code = text_in(form, "channel").strip(), text_in(form, "code").strip()
        await sign_in.people.confirm_address(visitor.id, channel, code, by=visitor.login)

    return await _changed(request, "addresses", change, "reached")


@router.post("/account/mute")
async def mute(request: Request) -> Response:
    """Be told of nothing for some hours; 0 to be told again."""
    form = await form_of(request)
    hours = text_in(form, "hours")

    async def change(sign_in: SignIn, visitor: Visitor, _form: FormData) -> None:
        if not hours.isascii() or not hours.isdigit() or int(hours[:5]) > _MOST_HOURS:
            raise UserError(f"The hours must be a number from 0 to {_MOST_HOURS}.")
        until = await sign_in.app.inbox.now() + int(hours) * 3_600_000 if int(hours) else None
        await sign_in.people.set(MUTED, until, person=visitor.id, by=visitor.login)

    return await _changed(request, "addresses", change, "heard" if hours == "0" else "muted")


@router.post("/account/zone")
async def set_zone(request: Request) -> Response:
    """Choose the time zone in which pages show times; "" for that of each browser."""
    zone = text_in(await form_of(request), "zone").strip()

    async def change(sign_in: SignIn, visitor: Visitor, _form: FormData) -> None:
        if zone and named_zone(zone) is None:
            raise UserError("This is not the name of a time zone: enter one such as Europe/Berlin.")
        await sign_in.people.set(ZONE, zone or None, person=visitor.id, by=visitor.login)

    return await _changed(request, "zone", change, "zone")
