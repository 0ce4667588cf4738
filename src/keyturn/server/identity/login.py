"""The page on which people sign in, by password among others, and the button with which they sign out."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import NotAllowed
from ...core.people import Decider
from ..forms import FIELD, check_csrf, form_of, safe_redirect, text_in
from ..host_identity import host_user
from ..limits import TooMany
from ..visitor import STALE
from . import attempts
from .sign_in import SignIn, go, sign_in_of

router = APIRouter(include_in_schema=False)
_WRONG = "Wrong username or password."
#: Why a visitor is asked to sign in again: by what the address says of the session that they had.
_ENDED = {
    "yes": "Your session ended. Sign in again.",
    "sent": "Your session ended. What you sent last was not recorded: sign in, and send it again.",
}


async def login_page_of(
    request: Request, next: str, error: str = "", name: str = "", status: int = 200, after: int = 0
) -> Response:
    """Draw the page on which people sign in."""
    sign_in = sign_in_of(request)
    oidc = sign_in.settings.oidc
    values = {
        "next": next,
        "error": error,
        "name": name,
        "passwords": sign_in.settings.passwords,
        "oidc": "" if oidc is None else oidc.name,
        "passkeys": sign_in.site(request) is not None,
        "inbox": sign_in.title(request),
        "host": await host_user(sign_in.settings, request),
        "identity_url": sign_in.settings.identity_url if sign_in.settings.identity is not None else "",
        "at_once": not error and not {"out", "again"} & set(request.query_params),
        "out": "out" in request.query_params and not error,
        "ended": "" if error else _ENDED.get(request.query_params.get("ended", ""), ""),
        "begun": bool((await sign_in.people.directory()).place),
    }
    made = await sign_in.page(request, "login", None, status, **values)
    if after:
        made.headers["retry-after"] = str(after)
    return made


@router.get("/login")
async def login_page(request: Request) -> Response:
    """Show how to log in; who did is sent on."""
    sign_in = sign_in_of(request)
    next = safe_redirect(request.query_params.get("next", "/"))
    if await sign_in.visitor(request) is not None and "again" not in request.query_params:
        return go(request, next)
    if STALE in request.scope and "again" not in request.query_params:
        return go(request, f"/login/oidc?renew=yes&next={quote(next, safe='')}")
    return await login_page_of(request, next)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Log somebody in by name and password."""
    sign_in = sign_in_of(request)
    if not sign_in.settings.passwords:
        return await login_page_of(request, "/", "Passwords are turned off on this server.", status=403)
    typed, next = "", "/"
    try:
        attempts.stop(sign_in, request)
        form = await form_of(request)
        typed, next = text_in(form, "name").strip(), safe_redirect(text_in(form, "next"))
        name = await sign_in.people.find(typed)
        known = attempts.count(sign_in, request, name)
        hashed = await sign_in.people.password_of(name)
        if not await sign_in.passwords.fits(hashed, text_in(form, "password"), known=known):
            return await login_page_of(request, next, _WRONG, typed, 403)
        attempts.forgive(sign_in, request, name)
        token = await sign_in.begin(request, name, "password", hashed=hashed)
    except TooMany as many:
        return await login_page_of(request, next, held_up(many), typed, 429, many.after)
    except NotAllowed:
        return await login_page_of(request, next, _WRONG, typed, 403)
    await _hash_anew(sign_in, name, hashed, text_in(form, "password"))
    response = sign_in.keep(request, go(request, next), token)
    attempts.remember(sign_in, request, response, name)
    return response


def held_up(many: TooMany) -> str:
    """Say when an attempt can be made again, and how else one signs in."""
    minutes = -(-many.after // 60)
    return f"Too many attempts. Try again in {minutes} min, or sign in with a passkey or a sign-in link."


async def _hash_anew(sign_in: SignIn, person: str, hashed: str, password: str) -> None:
    """Keep a password by the work that is done now, where it was kept by less."""
    if sign_in.passwords.stale(hashed):
        made = await sign_in.passwords.hashed(password)
        await sign_in.people.rehash_password(person, hashed, made, by=Decider(person, (), "authenticated"))


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    sign_in = sign_in_of(request)
    visitor = await sign_in.visitor(request)
    if visitor is not None:
        try:
            check_csrf(visitor, text_in(await form_of(request), FIELD))
        except NotAllowed as error:
            return await login_page_of(request, "/", error.message, status=403)
        await sign_in.people.revoke_token(visitor.login.token, by=visitor.login)
    made = sign_in.forget(request, go(request, "/login?out=yes"))
    made.headers["clear-site-data"] = '"cache"'  # no page is shown again by going back
    return made
