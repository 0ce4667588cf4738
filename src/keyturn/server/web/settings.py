"""The settings: those of the directory, whose changes are on record, and those of this server, which are shown only."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...core.durations import milliseconds
from ...core.errors import NotAllowed, UserError
from ...inbox.insights import MIN_LOOK, floors_of
from ...presenting.clock import span
from ..errors import Refused
from ..settings import ServerSettings
from .form import PageForm, ReaderPage, administers, change
from .pages import PageContext, failure, page

router = APIRouter(include_in_schema=False)

RISKS = ("", "low", "medium", "high", "critical")


class Meaning(NamedTuple):
    """Holds a setting of the server: its name, its value in words, and what it means."""

    name: str
    value: str
    means: str


@router.get("/settings")
async def settings_page(at: ReaderPage) -> Response:
    """Show the settings."""
    try:
        administers(at)
    except NotAllowed as error:
        return failure(at, error)
    return await _drawn(at, None)


@router.post("/settings")
async def change_settings(request: HttpRequest, at: ReaderPage) -> Response:
    """Change a setting of the directory."""

    async def make(form: PageForm) -> str:
        administers(at)
        people, by = at.app.people, at.visitor.login
        if form.text("do") == "forget":
            await people.set(form.text("setting"), None, by=by)
        elif form.text("do") == MIN_LOOK:
            given = {risk: form.text(f"look_{risk}") for risk in RISKS}
            floors: dict[str, Any] = {risk: text for risk, text in given.items() if text}
            for text in floors.values():
                milliseconds(text)
            await people.set(MIN_LOOK, floors or None, by=by)
        else:
            raise UserError(f"unknown action {form.text('do')!r}: reload the page, and try again")
        return "/settings"

    async def refusing(said: Refused | None) -> Response:
        return await _drawn(at, said) if at.visitor.administers else await settings_page(at)

    return await change(request, at, make, refusing)


async def _drawn(at: PageContext, refusal: Refused | None) -> Response:
    directory = await at.app.people.directory()
    given: object = directory.settings.get(MIN_LOOK)
    looks = cast("dict[str, Any]", given) if isinstance(given, dict) else {"": given} if given is not None else {}
    trouble = ""
    try:
        floors = {risk: span(ms) for risk, ms in floors_of(given).items()}
    except UserError as error:
        floors = dict[str, str]()
        trouble = error.message
    others = {name: json.dumps(value, ensure_ascii=False) for name, value in directory.settings.items()}
    others.pop(MIN_LOOK, None)
    return page(
        at,
        "settings.html",
        200 if refusal is None else refusal.status,
        looks={risk: looks.get(risk, "") for risk in RISKS},
        floors=floors,
        trouble=trouble,
        others=others,
        server=_server(at.settings),
        recorded=directory.place,
        changed_at=directory.at,
        refusal=refusal,
    )


def _server(settings: ServerSettings) -> list[Meaning]:
    return [
        Meaning("hosts", ", ".join(settings.hosts), "the names by which this server may be reached"),
        Meaning("origins", ", ".join(settings.origins) or "none", "other sites whose pages may send changes"),
        Meaning("secure", "yes" if settings.secure else "no", "whether people reach it by https alone"),
        Meaning("session", span(milliseconds(settings.session)), "how long a session lasts"),
        Meaning("body_limit", f"{settings.body_limit:,} bytes", "how long a request may be"),
        Meaning("development", "yes" if settings.development else "no", "whether /_components is there"),
    ]
