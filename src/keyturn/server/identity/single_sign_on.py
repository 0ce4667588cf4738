"""Single sign-on (SSO): to an identity provider and back, what its claims give, and sessions that it confirms again.

A session that the provider began is confirmed there again after a while, without a question to its user: the browser
goes there and comes back. Until then it signs nobody in. So whoever is deactivated, or taken out of a group, at the
provider is so here by then.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError
from ...directory.events import BY_PROVIDER
from ...directory.login import Login
from ...directory.provisioning import Account
from ...directory.state import ADMIN
from ..errors import refused
from ..forms import form_of, safe_redirect, text_in
from ..limits import TooMany
from ..visitor import STALE, confirm
from . import tickets
from .login import held_up, login_page_of
from .oidc import OidcRefused, Provider
from .sign_in import SignIn, go, root_of, sign_in_of

router = APIRouter(include_in_schema=False)
# What a provider answers that would have to ask its user something.
_ASKS = ("login_required", "interaction_required", "consent_required", "account_selection_required")


def _back(request: Request) -> str:
    return f"{sign_in_of(request).origin(request)}{root_of(request)}/login/oidc/callback"


@router.get("/login/oidc")
async def to_provider(request: Request) -> Response:
    """Send a browser to the provider, with a ticket by which it comes back."""
    sign_in = sign_in_of(request)
    next = safe_redirect(request.query_params.get("next", "/"))
    if sign_in.provider is None:
        return await login_page_of(request, next, "Single sign-on (SSO) is not configured on this server.", status=404)
    stale: Login | None = request.scope.get(STALE)
    renews = {} if stale is None or "renew" not in request.query_params else {"renew": stale.token}
    ticket = tickets.new_ticket("oidc", {"next": next if len(next) <= tickets.LONGEST_PATH else "/", **renews})
    words = (ticket.derived("state"), ticket.derived("nonce"), ticket.derived("verifier"))
    try:
        where = await sign_in.provider.address(_back(request), *words, silent=bool(renews))
    except OidcRefused as error:
        return await login_page_of(request, next, _sentence(error), status=503 if error.away else 403)
    response = Response(status_code=303, headers={"location": where})
    tickets.give(request, response, ticket)
    return response


@router.get("/login/oidc/callback")
async def from_provider(request: Request) -> Response:
    """Show a form that goes on: this page changes nothing, since anybody can make a browser open it."""
    names = ("code", "state", "iss", "error")
    given = {name: request.query_params.get(name, "")[:4_000] for name in names}
    return await sign_in_of(request).page(request, "callback", None, given=given)


@router.post("/login/oidc/callback")
async def by_provider(request: Request) -> Response:
    """Sign in whoever the provider says it is."""
    form = await form_of(request)
    ticket = tickets.taken(request, None, "oidc")
    next = safe_redirect("/" if ticket is None else ticket.words.get("next", "/"))
    try:
        made = await _signed_in(request, form, ticket, next)
    except TooMany as many:
        return await login_page_of(request, next, held_up(many), status=429, after=many.after)
    except KeyturnError as error:
        away = isinstance(error, OidcRefused) and error.away
        made = await login_page_of(request, next, _sentence(error), status=503 if away else 403)
    tickets.drop(request, made, "oidc")
    return made


async def _signed_in(request: Request, form: FormData, ticket: tickets.Ticket | None, next: str) -> Response:
    sign_in = sign_in_of(request)
    if sign_in.provider is None or ticket is None or text_in(form, "state") != ticket.derived("state"):
        raise OidcRefused("this sign-in was not started in this browser, or has expired: start again")
    renewed = ticket.words.get("renew", "")
    if renewed and text_in(form, "error") in _ASKS:
        return await login_page_of(request, next, "Your session at the identity provider has ended. Sign in again.")
    if text_in(form, "error") or not text_in(form, "code"):
        raise OidcRefused("the identity provider refused the sign-in")
    proofs = _back(request), ticket.derived("nonce"), ticket.derived("verifier")
    claims = await sign_in.provider.claims(text_in(form, "code"), text_in(form, "iss"), *proofs)
    person, account = await _account(sign_in, sign_in.provider, claims)
    if renewed:
        return await _renewed(request, renewed, person, account, next)
    await _known(sign_in, person, claims)
    token = await sign_in.begin(request, person, BY_PROVIDER, once=ticket.once, account=account)
    await _warn(sign_in, person, account)
    return sign_in.keep(request, go(request, next), token)


async def _account(sign_in: SignIn, provider: Provider, claims: dict[str, Any]) -> tuple[str, Account]:
    """Return who claims name, and the account; one that signs in another person is refused before it changes any."""
    person = provider.person(claims)
    if provider.settings.claim == "email":  # one mailbox, in whatever case; other claims may tell cases apart
        person = await sign_in.people.find(person, names=False)
    account = Account(provider.subject(claims), provider.given(claims))
    if account.subject is not None:
        await sign_in.people.check_subject(person, account.subject)
    return person, account


async def _renewed(request: Request, token: str, person: str, account: Account, next: str) -> Response:
    """Confirm the session that the browser has, with what the claims give now; another user signs in by themselves."""
    sign_in = sign_in_of(request)
    stale: Login | None = request.scope.get(STALE)
    if stale is None or (stale.token, stale.person) != (token, person):
        raise OidcRefused(f"you are signed in to the identity provider as {person}: sign in again to continue so")
    if account.claims is not None:
        await sign_in.people.map_claims(person, account.claims)
    await _warn(sign_in, person, account)
    return confirm(sign_in.app, request, go(request, next), token, await sign_in.people.now())


async def _warn(sign_in: SignIn, person: str, account: Account) -> None:
    """Log that a user is still an administrator whose groups do not say so: there is no other one."""
    if account.claims is None or ADMIN in account.claims.roles:
        return
    found = (await sign_in.people.directory()).person(person)
    if found is not None and ADMIN in found.claimed_roles:
        sign_in.log.warning("%r keeps the role 'admin' without its group: no other administrator is left", person)


async def _known(sign_in: SignIn, person: str, claims: dict[str, Any]) -> None:
    """Refuse somebody who is not in the directory, or add them where the settings say in whose name."""
    directory = await sign_in.people.directory()
    found = directory.people.get(person)
    oidc = sign_in.settings.oidc
    assert oidc is not None
    if found is None and oidc.add_as:
        name = claims.get("name")
        name = name if isinstance(name, str) and name.isprintable() and len(name) <= 200 else ""
        await sign_in.people.add(person, name, by=oidc.add_as)
        return
    if found is None or not found.here:
        raise OidcRefused(
            f"you signed in as {person}, who is not a user of this inbox: ask an administrator to add you"
        )


def _sentence(error: KeyturnError) -> str:
    text = refused(error).message
    return f"{text[:1].upper()}{text[1:]}."
