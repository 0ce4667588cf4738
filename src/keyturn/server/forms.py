"""Guard forms against cross-site request forgery (CSRF), and redirects against leading elsewhere.

A form is taken only from a page that this server made for this very session.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ..core.errors import KeyturnError, NotAllowed
from .visitor import Visitor

FIELD = "csrf_token"
_MOST_FIELDS = 400


class FormRefused(KeyturnError):
    """Raised for a form that no page of ours sends; it was not read.

    >>> issubclass(FormRefused, KeyturnError)
    True
    """


async def form_of(request: Request) -> FormData:
    """Return the fields of a posted form; how many they are is counted before any of them is read."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if not body:
        return FormData()
    if kind != "application/x-www-form-urlencoded":
        raise FormRefused("a form is sent as application/x-www-form-urlencoded")
    if body.count(b"&") >= _MOST_FIELDS:
        raise FormRefused(f"a form has at most {_MOST_FIELDS} fields")
    fields: list[tuple[str, str | UploadFile]] = [*parse_qsl(body.decode("latin-1"), keep_blank_values=True)]
    return FormData(fields)


def text_in(form: FormData, name: str) -> str:
    """Return a field's text; "" where it is not there."""
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def check_csrf(visitor: Visitor, mark: str) -> Visitor:
    """Return the visitor, or raise `NotAllowed` where a form is not of their session.

    A program that shows a token needs none: no page makes a browser send one.
    """
    fits = hmac.compare_digest(visitor.form.encode(), mark.encode("utf-8", "surrogatepass"))
    if visitor.via == "session" and not (visitor.form and fits):
        raise NotAllowed("this form is not of your session any more: open the page again, and nothing was changed")
    return visitor


def safe_redirect(given: str, otherwise: str = "/") -> str:
    """Return a path of this server to go on to, or the other one where it leads elsewhere.

    >>> safe_redirect("/requests/5?tab=log"), safe_redirect("//evil.example"), safe_redirect("https://evil.example")
    ('/requests/5?tab=log', '/', '/')
    """
    for text in (given, unquote(given)):
        if not text.startswith("/") or text[1:2] in ("/", "\\") or "\\" in text or not text.isprintable():
            return otherwise
    return given if given.isascii() and len(given) <= 2_000 else otherwise
