"""Take what a form of ours asks for: only from this very session, and what is refused is said on the same page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from starlette.datastructures import FormData
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from ...core.errors import KeyturnError, NotAllowed, UserError
from .. import forms
from ..errors import Refused, refused
from .pages import PageContext, failure, here

_LONGEST = 20_000


class PageForm:
    """Reads the fields of a form that was sent; what is not there is empty.

    >>> form = PageForm(FormData([("role", " ops "), ("scope", "read"), ("scope", "decide")]))
    >>> form.text("role"), form.text("name"), form.several("scope")
    ('ops', '', ['read', 'decide'])
    """

    def __init__(self, given: FormData) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """Return one field, without spaces around it."""
        return self.typed(name).strip()

    def typed(self, name: str) -> str:
        """Return one field as it was typed."""
        value = self._given.get(name, "")
        if not isinstance(value, str):
            return ""
        if "\0" in value:
            raise UserError(f"{name} holds a NUL; write it without")
        if len(value) > _LONGEST:
            raise UserError(f"{name} has {len(value)} characters, and {_LONGEST} are the most here")
        return value

    def whole(self) -> dict[str, str]:
        """Return all fields as they were typed, however long they are; of two with one name the last."""
        return {name: value for name, value in self._given.items() if isinstance(value, str)}

    def several(self, name: str) -> list[str]:
        """Return all fields of one name."""
        return [value for value in self._given.getlist(name) if isinstance(value, str) and value]

    def names(self, name: str) -> list[str]:
        """Return the names that one field lists, with commas or spaces between them."""
        return self.text(name).replace(",", " ").split()


class Barred(Exception):
    """Raised where a page is not for this visitor; `at` is who it is.

    >>> issubclass(Barred, Exception)
    True
    """

    def __init__(self, at: PageContext, error: KeyturnError) -> None:
        super().__init__(str(error))
        self.at, self.error = at, error


async def barred(_request: HttpRequest, raised: Exception) -> Response:
    """Draw why a page is not for a visitor."""
    assert isinstance(raised, Barred)
    return failure(raised.at, raised.error)


async def reader(at: Annotated[PageContext, Depends(here)]) -> PageContext:
    """Return what a page needs, for a visitor who may read."""
    if not at.visitor.may("read"):
        raise Barred(at, NotAllowed("Your token does not have the scope 'read'."))
    return at


async def judge(at: Annotated[PageContext, Depends(here)]) -> PageContext:
    """Return what the page of one request needs, for a visitor who may read, or decide what they know of."""
    return at if at.visitor.may("decide") else await reader(at)


async def overseer(at: Annotated[PageContext, Depends(reader)]) -> PageContext:
    """Return what a page needs that tells of everybody, for a visitor who sees all of their tenant."""
    try:
        at.visibility.must_see_all()
    except NotAllowed as error:
        raise Barred(at, error) from None
    return at


ReaderPage = Annotated[PageContext, Depends(reader)]
DeciderPage = Annotated[PageContext, Depends(judge)]
AdminPage = Annotated[PageContext, Depends(overseer)]
Drawn = Callable[[Refused | None], Awaitable[Response]]


async def form_of(request: HttpRequest, at: PageContext) -> PageForm:
    """Return what a form says; one that is not of this session is refused.

    A program that shows a token needs no mark: no page makes a browser send one.
    """
    given = await forms.form_of(request)
    forms.check_csrf(at.visitor, forms.text_in(given, forms.FIELD))
    return PageForm(given)


async def change(
    request: HttpRequest, at: PageContext, make: Callable[[PageForm], Awaitable[str]], drawn: Drawn
) -> Response:
    """Make the change that a form asks for, then go to the path that it returns; draw what is refused on its page."""
    try:
        where = await make(await form_of(request, at))
    except KeyturnError as error:
        return await drawn(refused(error))
    return RedirectResponse(at.url(where), 303)


def administers(at: PageContext) -> None:
    """Refuse whoever may not change what is of everybody."""
    if not at.visitor.administers:
        raise NotAllowed("this requires the role 'admin', and a sign-in or token with the scope 'people'")


def decides(at: PageContext) -> None:
    """Refuse whoever may not say anything in a run: a machine, or a login that is not good for decisions."""
    if at.visitor.person.kind == "machine":
        raise NotAllowed("a service account uses the API for this, with its own token")
    if not at.visitor.may("decide"):
        raise NotAllowed("your token does not have the scope 'decide'")


def may_control(at: PageContext) -> None:
    """Refuse whoever may not tell runs what to do: a program needs a token for "run", which then decides nothing."""
    if at.visitor.via == "session" or at.visitor.person.kind == "machine":
        decides(at)
    elif not at.visitor.may("run"):
        raise NotAllowed("your token does not have the scope 'run'")
