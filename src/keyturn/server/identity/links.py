"""One-time sign-in links: whose inbox one opens and as whom, what is set up next, and how administrators create them.

A link is looked at before it is used: a mail system that opens it, and a page that shows whose it is, use nothing up.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import segno
from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError, NotAllowed
from ...directory.events import BY_LINK
from ...directory.login import id_in
from ...directory.sign_ins import LinkRefused
from ...directory.state import Link
from ..errors import refused
from ..forms import FIELD, check_csrf, form_of, safe_redirect, text_in
from ..limits import TooMany
from ..visitor import Visitor
from . import attempts, tickets
from .passwords import SHORTEST
from .sign_in import FIRST_SESSION, LINK_SESSION, LOGINS, SignIn, go, root_of, sign_in_of

router = APIRouter(include_in_schema=False)
_TICKET = "enter"
_REFUSED = {
    "used": "This sign-in link was already used, or a newer one was. Sign in with the passkey or password that you set "
    "up. If you set up neither, ask your administrator for a new link.",
    "expired": "This sign-in link has expired: links are valid for 24 hours. Ask your administrator for a new one.",
    "revoked": "This sign-in link is no longer valid: it was created by a user who is no longer an administrator. Ask "
    "your administrator for a new one.",
    "unknown": "This sign-in link is not valid. Ask your administrator for a new one.",
}
_NO_LINK = "That is not a sign-in link of this server. Paste the whole link."
_DONE = {"password": "password", "passkey": "passkey"}


@router.get("/enter")
async def enter_page(request: Request) -> Response:
    """Show where a link is opened; its secret stands behind the `#`, which browsers send to nobody."""
    return await _page(request, safe_redirect(request.query_params.get("next", "/")))


async def _page(request: Request, next: str, status: int = 200, **values: Any) -> Response:
    sign_in = sign_in_of(request)
    shown: dict[str, Any] = {"error": "", "used": False, "whose": None, "next": next}
    return await sign_in.page(request, "enter", None, status, **{**shown, **values}, inbox=sign_in.title(request))


@router.post("/enter/look")
async def look(request: Request) -> Response:
    """Show whose inbox a link opens, and as whom; nothing is used up, and the browser keeps the link for its button."""
    sign_in = sign_in_of(request)
    form = await form_of(request)
    secret, next = _secret_in(text_in(form, "link")), safe_redirect(text_in(form, "next"))
    try:
        known = await _known(sign_in, secret)
        with attempts.failures(sign_in, request, attempts.FAILED_LINKS, "link", known):
            link = await sign_in.people.link(secret)
    except (TooMany, KeyturnError) as error:
        return await _refused(request, error, secret, next)
    made = await _page(request, next, whose=await _whose(sign_in, link))
    tickets.give(request, made, tickets.new_ticket(_TICKET, {"link": secret}))
    return made


async def _whose(sign_in: SignIn, link: Link) -> dict[str, str]:
    directory = await sign_in.people.directory()
    names = {each: directory.people[each].name for each in (link.person, link.made_by)}
    by = "" if link.made_by == link.person else link.made_by
    return {"id": link.person, "name": names[link.person], "by": by, "by_name": names[link.made_by]}


@router.post("/enter")
async def enter(request: Request) -> Response:
    """Sign somebody in by a link, once: the one of the form, else the one that this browser looked at."""
    sign_in = sign_in_of(request)
    form = await form_of(request)
    next, ticket = safe_redirect(text_in(form, "next")), tickets.taken(request, None, _TICKET)
    looked_at = "" if ticket is None else ticket.words.get("link", "")
    secret = _secret_in(text_in(form, "link")) or looked_at
    try:
        known = await _known(sign_in, secret)
        if known:  # one that cannot begin a session now is not used up
            sign_in.limits.stop(LOGINS, (await sign_in.people.directory()).links[known].person)
        with attempts.failures(sign_in, request, attempts.FAILED_LINKS, "link", known):
            login = await sign_in.people.use_link(secret)
        first = not (await sign_in.people.directory()).can_sign_in(login.person)
        lasts = FIRST_SESSION if first else LINK_SESSION
        token = await sign_in.begin(request, login.person, BY_LINK, lasts=lasts)
    except (TooMany, KeyturnError) as error:
        return await _refused(request, error, secret, next)
    made = sign_in.keep(request, go(request, setup_path(next)), token, lasts)
    tickets.drop(request, made, _TICKET)
    return made


def _secret_in(text: str) -> str:
    return text.strip().rpartition("#")[2]


async def _known(sign_in: SignIn, secret: str) -> str:
    """Return the id of the link that a secret names; "" where there is none."""
    found = (await sign_in.people.directory()).links.get(id_in(secret))
    return "" if found is None else found.id


async def _refused(request: Request, error: Exception, secret: str, next: str) -> Response:
    if isinstance(error, TooMany):
        made = await _page(request, next, 429, error=f"Too many attempts. Try again in {error.after} s.")
        made.headers["retry-after"] = str(error.after)
        return made
    assert isinstance(error, KeyturnError)
    why = error.why if isinstance(error, LinkRefused) else "unknown"
    words = _REFUSED[why] if id_in(secret) else _NO_LINK
    return await _page(request, next, refused(error).status, error=words, used=why == "used")


# Setting up ---------------------------------------------------------------------------------------------------------


def setup_path(next: str, done: str = "") -> str:
    """Return the path of the page on which somebody sets up how they sign in, on the way to another page."""
    return f"/account/setup?next={quote(next, safe='')}{f'&done={done}' if done else ''}"


@router.get("/account/setup")
async def setup_page(request: Request) -> Response:
    """Ask somebody who signed in by a link how they sign in from now on; then show where."""
    visitor = await sign_in_of(request).visitor(request)
    if visitor is None:
        return go(request, "/login?next=/account")
    next = safe_redirect(request.query_params.get("next", "/"))
    return await draw_setup(request, visitor, next, done=request.query_params.get("done", ""))


async def draw_setup(
    request: Request, visitor: Visitor, next: str, *, done: str = "", error: str = "", status: int = 200
) -> Response:
    """Draw the page on which a passkey or a password is set up, or where to sign in once one is."""
    sign_in = sign_in_of(request)
    values = {
        "next": next,
        "done": _DONE.get(done, "") if visitor.directory.can_sign_in(visitor.id) else "",
        "error": error,
        "passwords": sign_in.settings.passwords,
        "provider": "" if sign_in.settings.oidc is None else sign_in.settings.oidc.name,
        "shortest": SHORTEST,
        "site": sign_in.site(request),
        "inbox": sign_in.title(request),
        "address": f"{sign_in.origin(request)}{root_of(request)}/",
        "after": {each: setup_path(next, each) for each in _DONE},
    }
    return await sign_in.page(request, "setup", visitor, status, **values)


# Creating -----------------------------------------------------------------------------------------------------------


@router.get("/account/links")
async def links_page(request: Request) -> Response:
    """Show an administrator for whom a link can be created."""
    visitor = await sign_in_of(request).visitor(request)
    if visitor is None:
        return go(request, "/login?next=/account/links")
    return await _links(request, visitor)


async def _links(
    request: Request, visitor: Visitor, *, link: str = "", person: str = "", error: str = "", status: int = 200
) -> Response:
    sign_in = sign_in_of(request)
    people = [each for each in await sign_in.people.list() if each.kind == "person"] if visitor.administers else []
    svg = Markup("")
    if link:
        made = segno.make(link, error="m", micro=False).svg_inline(scale=5, border=4, title="The link, for a phone")
        svg = Markup(made)  # drawn by us: squares
    values = {"link": link, "person": person, "error": error, "people": people, "qr": svg}
    return await sign_in.page(request, "links", visitor, status, **values)


@router.post("/account/links")
async def make_link(request: Request) -> Response:
    """Create a one-time sign-in link, and show it this once."""
    sign_in = sign_in_of(request)
    visitor = await sign_in.visitor(request)
    if visitor is None:
        return go(request, "/login?next=/account/links")
    try:
        form = await form_of(request)
        check_csrf(visitor, text_in(form, FIELD))
        if not visitor.administers:
            raise NotAllowed("Only administrators create sign-in links.")
        person = text_in(form, "person")
        secret = await sign_in.people.make_link(person, by=visitor.login)
    except KeyturnError as error:
        said = refused(error)
        return await _links(request, visitor, error=said.message, status=said.status)
    link = f"{sign_in.origin(request)}{root_of(request)}/enter#{secret}"
    return await _links(request, visitor, link=link, person=person)
