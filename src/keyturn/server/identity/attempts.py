"""Count attempts to log in by password, so that guessing is hopeless and whoever it is about can still come in.

Who guesses from one address is held up there, and does not use up the attempts that everybody has together for one
person. A browser in which that person has logged in before has attempts of its own. Passkeys, links and the provider
are not held up by any of it.

Each process counts for itself: several servers on one store let so many times more be tried. That stays hopeless, and a
count in the store would let a stranger write to it; docs/login.md says so to whoever runs several.
"""

from __future__ import annotations

import secrets

from limits import parse
from starlette.requests import Request
from starlette.responses import Response

from ...keys import ring
from .entrance import Entrance

#: By one address, whoever it is about; by one address about one person; by all about one person; by a known browser.
ADDRESS = parse("60 per 10 minutes")
PAIR = parse("6 per 5 minutes")
PERSON = parse("60 per hour")
BROWSER = parse("10 per 10 minutes")
_COOKIE = "keyturn_known"
_LASTS = 180 * 86_400


def count(entrance: Entrance, request: Request, person: str) -> None:
    """Count an attempt before anything is compared, or raise `TooMany`."""
    who = entrance.address(request)
    entrance.limits.spend(ADDRESS, who)
    browser = _known(request, person)
    if browser:
        entrance.limits.spend(BROWSER, person, browser)
        return
    entrance.limits.spend(PAIR, person, who)
    entrance.limits.spend(PERSON, person)


def forgive(entrance: Entrance, request: Request, person: str) -> None:
    """Forget the attempts of somebody who got it right."""
    browser = _known(request, person)
    if browser:
        entrance.limits.forgive(BROWSER, person, browser)
    else:
        entrance.limits.forgive(PAIR, person, entrance.address(request))


def remember(entrance: Entrance, request: Request, response: Response, person: str) -> None:
    """Have a browser known as one in which this person logged in: that alone lets nobody in."""
    name = secrets.token_hex(12)
    response.set_cookie(
        _COOKIE,
        f"{name}.{ring().mac('known browser', person.encode(), name.encode())}",
        max_age=_LASTS,
        path=f"{request.scope.get('root_path', '')}/login",
        secure=entrance.settings.secure,
        httponly=True,
        samesite="strict",
    )


def _known(request: Request, person: str) -> str:
    name, _, mac = request.cookies.get(_COOKIE, "").partition(".")
    good = name and ring().fits("known browser", mac, person.encode("utf-8", "surrogatepass"), name.encode())
    return name if good else ""
