"""Change a call before it is approved, or decide several of one shape.

What somebody approves with other arguments is what was drawn of them: if it would be drawn differently by the time the
word comes, the word does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from ...core.declared import property_of
from ...core.drill_words import drill_outcome
from ...core.errors import BadJson, Conflict, KeyturnError, NotAllowed, NotPending, UserError
from ...core.values import as_list
from ...inbox.naming import Outcome
from ...inbox.personal import Details
from ...journal.rows import Query, RequestRow
from ...presenting.asking import is_held, unrecorded
from ...presenting.list_row import row_of
from ...presenting.shown_request import ShownRequest
from ..errors import refused
from ..undoing import undo_for, undoable
from ..visitor import standing_of
from .blocks import Block, blocks_of
from .form import DeciderPage, ReaderPage, form_of
from .inbox import detail_of, told, undo_of, words_of
from .pages import PageContext, drawn, failure
from .payload import Payload, check_seen, drawn_payload, payload_of

router = APIRouter(include_in_schema=False)
SHAPE_LIMIT = 200
_NOT = {
    "edit": "the arguments of this call cannot be changed: reject it and say why",
    "approve": "a grant is given with an approval, and this request cannot be approved",
}


class FormField(NamedTuple):
    """Holds one argument as a field of a form: how it is typed, what is in it, and what its schema says."""

    name: str
    kind: str
    value: str
    choices: tuple[str, ...] = ()
    about: str = ""
    secret: bool = False
    omitted: bool = False


class ChangedCall(NamedTuple):
    """Holds a changed call: what it was made of, what it would do, and what was wrong with it."""

    edit: dict[str, Any] | None
    difference: list[Block]
    would: list[Block]
    mark: str = ""
    wrong: str = ""

    @property
    def payload(self) -> Payload:
        """Return what would run as it is drawn."""
        return drawn_payload(self.would)


@router.get("/requests/{name}/edit")
async def edit(at: DeciderPage, name: str) -> Response:
    """Show the form made from the tool's schema, with what runs now beside it."""
    try:
        row, shown = await in_hand(at, name)
        if not shown.editable:
            raise UserError(_NOT["edit"])
        values = {"fields": fields_of(shown), "change": ChangedCall(None, [], [])}
        return await drawn(at, "edit.html", **values, **await detail_of(at, row))
    except NotPending:
        return await closed(at, name)
    except KeyturnError as error:
        return failure(at, error)


async def closed(at: PageContext, name: str) -> Response:
    """Lead from a form of a request that was decided meanwhile to what became of it."""
    try:
        await at.visibility.request(name, shows=True)
    except KeyturnError as error:
        return failure(at, error)
    return RedirectResponse(at.url(f"/requests/{name}{f'?since={at.since}' if at.since else ''}"), 303)


async def in_hand(
    at: PageContext, name: str, form: dict[str, str] | None = None, verb: str = "edit"
) -> tuple[RequestRow, ShownRequest]:
    """Return an open request that this visitor may decide, and their change to it, which begins as none.

    Who may not decide it is refused before anything that they sent is compared with the call, and so is a form of what
    is no longer asked.
    """
    row = await at.visibility.request(name, shows=True)
    may = await standing_of(at.app, at.visitor, row)
    if row.state == "open" and not may.verbs:
        raise NotAllowed(may.why)
    if form is not None and row.state == "open" and words_of(form)["digest"] != row.digest:
        raise Conflict("the request is no longer the one that was shown; look at it again")
    if row.state == "open" and verb not in may.verbs:
        raise UserError(_NOT[verb])
    return row, ShownRequest(await at.app.inbox.item(name))


@router.post("/requests/{name}/change")
async def change(request: HttpRequest, at: DeciderPage, name: str) -> Response:
    """Show what a change would come to; nothing is recorded."""
    try:
        form = (await form_of(request, at)).whole()
        _row, shown = await in_hand(at, name, form)
        made = await asyncio.to_thread(changed, shown, form)
    except (NotPending, NotAllowed) as error:
        return failure(at, error)
    except KeyturnError as error:
        made = ChangedCall(None, [], [], wrong=refused(error).message)
    return await drawn(at, "_change.html", change=made)


@router.post("/requests/{name}/edit")
async def approve_edit(request: HttpRequest, at: DeciderPage, name: str) -> Response:
    """Approve the call with the arguments that were drawn."""
    made = ChangedCall(None, [], [])
    shown = None
    form: dict[str, str] = {}
    try:
        form = (await form_of(request, at)).whole()
        _row, shown = await in_hand(at, name, form)
        made = await asyncio.to_thread(changed, shown, form)
        if made.wrong or made.edit is None:
            raise UserError(made.wrong or "nothing is changed; approve the call as it is")
        if form.get("looked") != made.mark:
            raise Conflict("what it would do is drawn differently now than what you were shown: look at it again")
        check_seen(made.payload, form)
        undo = await undo_of(at, name)
        await at.inbox.decide(name, "edit", edit=made.edit, seen=shown.seen(), undo=undo, **words_of(form))
    except KeyturnError as error:
        return await _edited_again(at, name, (shown, form), made, error)
    return RedirectResponse(at.url(f"/requests/{name}"), 303)


async def _edited_again(
    at: PageContext,
    name: str,
    typed: tuple[ShownRequest | None, dict[str, str]],
    made: ChangedCall,
    error: KeyturnError,
) -> Response:
    said = refused(error)
    shown, form = typed
    if shown is None or isinstance(error, NotPending):
        return await told(at, name, error)
    detail = await detail_of(at, await at.visibility.request(name)) | {"unrecorded": unrecorded(error, at.now)}
    return await drawn(at, "edit.html", said.status, fields=fields_of(shown, form), change=made, **detail)


def changed(shown: ShownRequest, form: dict[str, str]) -> ChangedCall:
    """Return what the fields of a form make of a call."""
    try:
        shown.fill({name.removeprefix("arg."): text for name, text in form.items() if name.startswith("arg.")})
    except (KeyturnError, BadJson, ValueError) as error:
        return ChangedCall(None, [], [], wrong=str(error))
    if not shown.changed:
        return ChangedCall(None, [], [])
    made = shown.previewed()
    return ChangedCall(shown.edit, blocks_of(made.difference, None), blocks_of(made.would, made.arguments), made.mark)


def fields_of(shown: ShownRequest, form: dict[str, str] | None = None) -> list[FormField]:
    """Return the arguments of a call as fields, each as its schema has it, with what was typed into a form."""
    typed = form or {}
    return [each._replace(value=typed.get(f"arg.{each.name}", each.value)) for each in _fields(shown)]


def _fields(shown: ShownRequest) -> list[FormField]:
    tool = shown.item.tool
    schema: object = None if tool is None else tool.spec().get("schema")
    secrets = shown.item.request.secrets
    given = cast("dict[str, Any]", shown.arguments)
    others = [
        FormField(name, "line", "", about=str(property_of(schema, name).get("description") or ""), omitted=True)
        for name in shown.omitted
    ]
    fields = [
        _field(name, value, shown.present(name), property_of(schema, name), secret=name in secrets)
        if (rows := shown.rows(name)) is None
        else FormField(name, "list", "\n".join(rows), (), str(property_of(schema, name).get("description") or ""))
        for name, value in given.items()
    ]
    return [*fields, *others]


def _field(name: str, value: object, text: str, schema: dict[str, Any], *, secret: bool) -> FormField:
    about = str(schema.get("description") or "")
    choices = as_list(schema.get("enum"))
    if secret:  # a choice has no place for "keep it": a browser would send its first
        return FormField(name, "line", text, (), about, secret)
    if isinstance(value, bool):
        return FormField(name, "choice", text, ("true", "false"), about, secret)
    if choices and isinstance(value, str):
        return FormField(name, "choice", text, tuple(str(each) for each in choices), about, secret)
    if isinstance(value, int | float):
        return FormField(name, "number", text, (), about, secret)
    if isinstance(value, str):
        return FormField(name, "text" if "\n" in value or len(value) > 60 else "line", text, (), about, secret)
    return FormField(name, "json", text, (), about, secret)


def _became(done: Outcome) -> str:
    """Return what is to be said of one of several; "" where it was recorded, and no more is to be said."""
    if done.error is not None:
        return refused(done.error).message
    return "" if done.row is None else drill_outcome(done.row.state)


@router.get("/requests/{name}/alike")
async def alike(at: ReaderPage, name: str) -> Response:
    """Show the requests of the same tool with the same arguments, to decide them together."""
    try:
        row = await at.visibility.request(name, shows=True)
        rows = await _alike(at, row)
        await at.visibility.reads("list", rows)
        listed = {"rows": [row_of(each, at.now) for each in rows], "digests": [each.digest for each in rows]}
        return await drawn(at, "alike.html", held=any(map(is_held, rows)), **listed, **await detail_of(at, row))
    except KeyturnError as error:
        return failure(at, error)


async def _alike(at: PageContext, row: RequestRow) -> list[RequestRow]:
    """Return the oldest of the same shape that this visitor sees, of a bounded number that is looked through."""
    _not_reviewed(row)
    found, _ = await at.app.inbox.alike_page(row)
    return [each for each in found if _fits(at, row, each)][:SHAPE_LIMIT]


def _not_reviewed(row: RequestRow) -> None:
    if row.kind == "review":
        raise UserError("each call is reviewed by itself")


def _fits(at: PageContext, row: RequestRow, other: RequestRow) -> bool:
    return at.visibility.sees(other) and other.request.preview == row.request.preview  # one of them is on the page


async def _ticked(at: PageContext, row: RequestRow, ticked: set[str]) -> list[RequestRow]:
    """Return those that were ticked, as they were shown: each is read by its id, and none besides."""
    _not_reviewed(row)
    found: list[RequestRow] = []
    for name, digest in sorted(each.rsplit(".", 1) for each in ticked if "." in each):
        rows = await at.app.inbox.list(Query(id=name, limit=1))
        found += [each for each in rows if each.digest == digest and _fits(at, row, each)]
    alike = await at.app.inbox.alike_among(row, found)
    return sorted(alike, key=lambda each: each.place)


@router.post("/requests/{name}/alike")
async def decide_alike(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Decide those that were ticked, each by itself, as they were shown."""
    try:
        form = (await form_of(request, at)).whole()
        row = await at.visibility.request(name, shows=True)
        ticked = {key.removeprefix("is.") for key in form if key.startswith("is.")}
        rows = await _ticked(at, row, ticked)
        if not rows:
            raise UserError("tick those that you mean")
        if form.get("verdict") == "approve":
            check_seen(await asyncio.to_thread(payload_of, row.request), form)
            done = await _approved(at, rows, form.get("note") or None)
        elif form.get("verdict") == "reject":
            words: Details = {"message": form.get("message") or None, "note": form.get("note") or None}
            done = await at.inbox.decide_all(rows, "reject", **words)
        else:
            raise NotAllowed("several requests are approved or rejected together, nothing else")
    except KeyturnError as error:
        return await told(at, name, error)
    shown = {
        "outcomes": [(each.request, _became(each)) for each in done],
        "verdict": form["verdict"],
        "undoable": form["verdict"] == "approve" and undoable(at.settings, row),
        "tool": row.tool,
    }
    return await drawn(at, "alike_done.html", **shown)


async def _approved(at: PageContext, rows: Iterable[RequestRow], note: str | None) -> list[Outcome]:
    """Approve each request; it can be undone where an approval on its own page can."""
    done: list[Outcome] = []
    for row in rows:
        undo = await undo_for(at.app, at.settings, row)
        done += await at.inbox.decide_all([row], "approve", note=note, undo=undo)
    return done
