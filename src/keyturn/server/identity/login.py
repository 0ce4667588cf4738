"""The page on which people sign in, by password among others, and the button with which they sign out."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import NotAllowed
from ...core.people import Decider
from ..forms import FIELD, changing, form_of, own_path, text_in
from ..host_identity import host_user
from ..limits import TooMany
from ..visitor import STALE
from . import attempts
from .entrance import Entrance, entrance_of, go

router = APIRouter(include_in_schema=False)
_WRONG = "Wrong username or password."


async def login_page_of(
    request: Request, next: str, error: str = "", name: str = "", status: int = 200, after: int = 0
) -> Response:
    """Draw the page on which people sign in."""
    entrance = entrance_of(request)
    oidc = entrance.settings.oidc
    values = {
        "next": next,
        "error": error,
        "name": name,
        "passwords": entrance.settings.passwords,
        "oidc": "" if oidc is None else oidc.name,
        "passkeys": entrance.site(request) is not None,
        "inbox": entrance.title(request),
        "host": await host_user(entrance.settings, request),
        "identity_url": entrance.settings.identity_url if entrance.settings.identity is not None else "",
        "at_once": not error and not {"out", "again"} & set(request.query_params),
        "begun": bool((await entrance.people.directory()).place),
    }
    made = await entrance.page(request, "login", None, status, **values)
    if after:
        made.headers["retry-after"] = str(after)
    return made


@router.get("/login")
async def login_page(request: Request) -> Response:
    """Show how to log in; who did is sent on."""
    entrance = entrance_of(request)
    next = own_path(request.query_params.get("next", "/"))
    if await entrance.visitor(request) is not None and "again" not in request.query_params:
        return go(request, next)
    if STALE in request.scope and "again" not in request.query_params:
        return go(request, f"/login/oidc?renew=yes&next={quote(next, safe='')}")
    return await login_page_of(request, next)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Log somebody in by name and password."""
    entrance = entrance_of(request)
    if not entrance.settings.passwords:
        return await login_page_of(request, "/", "Passwords are turned off on this server.", status=403)
    typed, next = "", "/"
    try:
        attempts.stop(entrance, request)
        form = await form_of(request)
        typed, next = text_in(form, "name").strip(), own_path(text_in(form, "next"))
        name = await entrance.people.find(typed)
        known = attempts.count(entrance, request, name)
        hashed = await entrance.people.password_of(name)
        if not await entrance.passwords.fits(hashed, text_in(form, "password"), known=known):
            return await login_page_of(request, next, _WRONG, typed, 403)
        attempts.forgive(entrance, request, name)
        token = await entrance.begin(request, name, "password", hashed=hashed)
    except TooMany as many:
        return await login_page_of(request, next, held_up(many), typed, 429, many.after)
    except NotAllowed:
        return await login_page_of(request, next, _WRONG, typed, 403)
    await _hash_anew(entrance, name, hashed, text_in(form, "password"))
    response = entrance.keep(request, go(request, next), token)
    attempts.remember(entrance, request, response, name)
    return response


def held_up(many: TooMany) -> str:
    """Say when an attempt can be made again, and how else one signs in."""
    minutes = -(-many.after // 60)
    return f"Too many attempts. Try again in {minutes} min, or sign in with a passkey or a sign-in link."


async def _hash_anew(entrance: Entrance, person: str, hashed: str, password: str) -> None:
    """Keep a password by the work that is done now, where it was kept by less."""
    if entrance.passwords.stale(hashed):
        made = await entrance.passwords.hashed(password)
        await entrance.people.rehash_password(person, hashed, made, by=Decider(person, (), "authenticated"))


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    entrance = entrance_of(request)
    visitor = await entrance.visitor(request)
    if visitor is not None:
        try:
            changing(visitor, text_in(await form_of(request), FIELD))
        except NotAllowed as error:
            return await login_page_of(request, "/", error.message, status=403)
        await entrance.people.revoke_token(visitor.login.token, by=visitor.login)
    made = entrance.forget(request, go(request, "/login?out=yes"))
    made.headers["clear-site-data"] = '"cache"'  # no page is shown again by going back
    return made
