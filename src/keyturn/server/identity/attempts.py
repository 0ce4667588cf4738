"""Count attempts to log in by password, so that guessing is hopeless and whoever it is about can still come in.

Who guesses from one address is held up there, and does not use up the attempts that everybody has together for one
person. A browser in which that person has logged in before has attempts of its own. Passkeys, links and the provider
are not held up by any of it: of passkeys and links only failures are counted, and apart.

Each process counts for itself: several servers on one store let so many times more be tried. That stays hopeless, and a
count in the store would let a stranger write to it; docs/login.md says so to whoever runs several.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress

from limits import RateLimitItem, parse
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError
from ...support.keys import ring
from ..limits import TooMany
from .sign_in import SignIn
from .tickets import store_of

#: By one address, whoever it is about; by one address about one person; by all about one person; by a known browser.
ADDRESS = parse("60 per 10 minutes")
PAIR = parse("6 per 5 minutes")
PERSON = parse("60 per hour")
BROWSER = parse("10 per 10 minutes")
#: Failures with passkeys and with links, apart from those with passwords: by one address, of all that nobody has and of
#: each that somebody has.
FAILED_KEYS = parse("60 per 10 minutes")
FAILED_LINKS = parse("10 per 10 minutes")
_COOKIE = "keyturn_known"
_LASTS = 180 * 86_400


def stop(sign_in: SignIn, request: Request) -> None:
    """Raise `TooMany` for an address that has no attempt left, before its form is read; a known browser may go on."""
    if _COOKIE not in request.cookies:
        sign_in.limits.stop(ADDRESS, sign_in.address(request))


def count(sign_in: SignIn, request: Request, person: str) -> bool:
    """Count an attempt before anything is compared, or raise `TooMany`; return whether the browser is known."""
    browser = _known(request, person)
    if browser:  # strangers behind the same address do not use up what it has
        sign_in.limits.spend(BROWSER, person, browser)
        return True
    who = sign_in.address(request)
    sign_in.limits.spend(ADDRESS, who)
    sign_in.limits.spend(PAIR, person, who)
    sign_in.limits.spend(PERSON, person)
    return False


def count_own(sign_in: SignIn, person: str) -> None:
    """Count a try at the password of a person who has logged in, or raise `TooMany`."""
    sign_in.limits.spend(PAIR, "own", person)


@contextmanager
def failures(sign_in: SignIn, request: Request, rule: RateLimitItem, what: str, known: str) -> Generator[None]:
    """Refuse a proof that failed too often from one address, and count one that fails; one that is good is not counted.

    `known` is the id of the key or link that somebody has, and has attempts of its own: guesses at others, from the
    same address, do not use them up.
    """
    who = (what, known, sign_in.address(request))
    sign_in.limits.stop(rule, *who)
    try:
        yield
    except KeyturnError:
        with suppress(TooMany):  # refused from the next one on
            sign_in.limits.spend(rule, *who)
        raise


def forgive(sign_in: SignIn, request: Request, person: str) -> None:
    """Forget the attempts of somebody who got it right."""
    browser = _known(request, person)
    if browser:
        sign_in.limits.forgive(BROWSER, person, browser)
    else:
        sign_in.limits.forgive(PAIR, person, sign_in.address(request))


def remember(sign_in: SignIn, request: Request, response: Response, person: str) -> None:
    """Have a browser known as one in which this person logged in: that alone lets nobody in."""
    name = secrets.token_hex(12)
    response.set_cookie(
        _COOKIE,
        f"{name}.{ring().mac('known browser', store_of(request), person.encode(), name.encode())}",
        max_age=_LASTS,
        path=f"{request.scope.get('root_path', '')}/login",
        secure=sign_in.settings.secure,
        httponly=True,
        samesite="strict",
    )


def _known(request: Request, person: str) -> str:
    name, _, mac = request.cookies.get(_COOKIE, "").partition(".")
    whose = person.encode("utf-8", "surrogatepass")
    good = name and ring().fits("known browser", mac, store_of(request), whose, name.encode())
    return name if good else ""
