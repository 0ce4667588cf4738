"""The pages by which people sign in, by password and by an identity provider (SSO), and sign out."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError, NotAllowed
from ...core.people import Decider
from ...directory.events import BY_PROVIDER
from ..errors import refused
from ..forms import FIELD, changing, form_of, own_path, text_in
from ..limits import TooMany
from . import attempts, tickets
from .entrance import Entrance, entrance_of, go, root_of
from .oidc import OidcRefused

router = APIRouter(include_in_schema=False)
_WRONG = "Wrong username or password."


async def _login_page(
    request: Request, next: str, error: str = "", name: str = "", status: int = 200, after: int = 0
) -> Response:
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
    return await _login_page(request, next)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Log somebody in by name and password."""
    entrance = entrance_of(request)
    if not entrance.settings.passwords:
        return await _login_page(request, "/", "Passwords are turned off on this server.", status=403)
    typed, next = "", "/"
    try:
        attempts.stop(entrance, request)
        form = await form_of(request)
        typed, next = text_in(form, "name").strip(), own_path(text_in(form, "next"))
        name = await entrance.people.find(typed)
        known = attempts.count(entrance, request, name)
        hashed = await entrance.people.password_of(name)
        if not await entrance.passwords.fits(hashed, text_in(form, "password"), known=known):
            return await _login_page(request, next, _WRONG, typed, 403)
        attempts.forgive(entrance, request, name)
        token = await entrance.begin(request, name, "password", hashed=hashed)
    except TooMany as many:
        return await _login_page(request, next, _held_up(many), typed, 429, many.after)
    except NotAllowed:
        return await _login_page(request, next, _WRONG, typed, 403)
    await _hash_anew(entrance, name, hashed, text_in(form, "password"))
    response = entrance.keep(request, go(request, next), token)
    attempts.remember(entrance, request, response, name)
    return response


def _held_up(many: TooMany) -> str:
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
            return await _login_page(request, "/", error.message, status=403)
        await entrance.people.revoke_token(visitor.login.token, by=visitor.login)
    made = entrance.forget(request, go(request, "/login"))
    made.headers["clear-site-data"] = '"cache"'  # no page is shown again by going back
    return made


def _back(request: Request) -> str:
    return f"{entrance_of(request).origin(request)}{root_of(request)}/login/oidc/callback"


@router.get("/login/oidc")
async def to_provider(request: Request) -> Response:
    """Send a browser to the provider, with a ticket by which it comes back."""
    entrance = entrance_of(request)
    next = own_path(request.query_params.get("next", "/"))
    if entrance.provider is None:
        return await _login_page(request, next, "Single sign-on (SSO) is not configured on this server.", status=404)
    ticket = tickets.new_ticket("oidc", {"next": next if len(next) <= tickets.LONGEST_PATH else "/"})
    words = (ticket.derived("state"), ticket.derived("nonce"), ticket.derived("verifier"))
    try:
        where = await entrance.provider.address(_back(request), *words)
    except OidcRefused as error:
        return await _login_page(request, next, _sentence(error), status=503 if error.away else 403)
    response = Response(status_code=303, headers={"location": where})
    tickets.give(request, response, ticket)
    return response


@router.get("/login/oidc/callback")
async def from_provider(request: Request) -> Response:
    """Show a form that goes on: this page changes nothing, since anybody can make a browser open it."""
    names = ("code", "state", "iss", "error")
    given = {name: request.query_params.get(name, "")[:4_000] for name in names}
    return await entrance_of(request).page(request, "callback", None, given=given)


@router.post("/login/oidc/callback")
async def by_provider(request: Request) -> Response:
    """Log in whoever the provider says it is."""
    entrance = entrance_of(request)
    form = await form_of(request)
    ticket = tickets.taken(request, None, "oidc")
    next = own_path("/" if ticket is None else ticket.words.get("next", "/"))
    state = text_in(form, "state")
    try:
        if entrance.provider is None or ticket is None or state != ticket.derived("state"):
            raise OidcRefused("this sign-in was not started in this browser, or has expired: start again")
        if text_in(form, "error") or not text_in(form, "code"):
            raise OidcRefused("the identity provider refused the sign-in")
        code, iss = text_in(form, "code"), text_in(form, "iss")
        claims = await entrance.provider.claims(
            code, iss, _back(request), ticket.derived("nonce"), ticket.derived("verifier")
        )
        person, subject = entrance.provider.person(claims), entrance.provider.subject(claims)
        if subject is not None:  # before it adds anybody, or uses up the logins of another
            await entrance.people.check_subject(person, subject)
        await _known(entrance, person, claims)
        token = await entrance.begin(request, person, BY_PROVIDER, once=ticket.once, subject=subject)
    except TooMany as many:
        return await _login_page(request, next, _held_up(many), status=429, after=many.after)
    except KeyturnError as error:
        away = isinstance(error, OidcRefused) and error.away
        made = await _login_page(request, next, _sentence(error), status=503 if away else 403)
    else:
        made = entrance.keep(request, go(request, next), token)
    tickets.drop(request, made, "oidc")
    return made


async def _known(entrance: Entrance, person: str, claims: dict[str, object]) -> None:
    """Refuse somebody who is not in the directory, or add them where the settings say in whose name."""
    directory = await entrance.people.directory()
    found = directory.people.get(person)
    oidc = entrance.settings.oidc
    assert oidc is not None
    if found is None and oidc.add_as:
        name = claims.get("name")
        name = name if isinstance(name, str) and name.isprintable() and len(name) <= 200 else ""
        await entrance.people.add(person, name, by=oidc.add_as)
        return
    if found is None or not found.here:
        raise OidcRefused(
            f"you signed in as {person}, who is not a user of this inbox: ask an administrator to add you"
        )


def _sentence(error: KeyturnError) -> str:
    text = refused(error).message
    return f"{text[:1].upper()}{text[1:]}."
