"""Sign in whoever the app that this server is mounted in has signed in."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError, NotAllowed
from ...directory.events import BY_HOST
from ...directory.provisioning import Account
from ..errors import refused
from ..forms import form_of, safe_redirect, text_in
from ..host_identity import claims_of, host_user
from ..limits import TooMany
from .login import held_up, login_page_of
from .sign_in import go, sign_in_of

router = APIRouter(include_in_schema=False)


@router.post("/login/host")
async def by_host(request: Request) -> Response:
    """Begin a session for the user whom the host says it is."""
    sign_in = sign_in_of(request)
    next = safe_redirect(text_in(await form_of(request), "next"))
    user = await host_user(sign_in.settings, request)
    try:
        if user is None:
            raise NotAllowed("You are not signed in to the application.")
        if (await sign_in.people.directory()).person(user.id) is None:
            raise NotAllowed(f"You are signed in as {user.id}, who is not a user of this inbox: ask an administrator.")
        account = Account(None, claims_of(user))
        token = await sign_in.begin(request, user.id, BY_HOST, account=account)
    except TooMany as many:
        return await login_page_of(request, next, held_up(many), status=429, after=many.after)
    except KeyturnError as error:
        return await login_page_of(request, next, refused(error).message, status=403)
    return sign_in.keep(request, go(request, next), token)
