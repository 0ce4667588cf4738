"""Users and their keys: roles and groups, tokens, sign-in links, keys and delegations.

Every change is one entry of the directory, with the name of whoever made it; the directory says who may make it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...core.errors import KeyturnError, UserError
from ...directory.state import NOT_FOR, Directory, Person
from ..address import origin_of
from ..addresses import keep_address
from ..errors import Refused, refused
from .form import PageForm, ReaderPage, change, form_of
from .pages import PageContext, page
from .roles import UnknownRole, check_known, known_roles

router = APIRouter(include_in_schema=False)

#: What a token of each scope may do, as the page says it.
SCOPE_WORDS = {
    "decide": "decide requests",
    "read": "read",
    "people": "change users and roles",
    "run": "start runs",
    "ask": "request approval of calls that it runs itself",
    "scim": "provision users and groups (SCIM)",
    "provision": "provision instances that request approvals (AAP)",
}

_DELEGATED = ("to", "until", "roles", "why")
LASTS = ("1d", "7d", "30d", "90d", "")


class PersonRow(NamedTuple):
    """Holds one person as they stand in the list."""

    person: Person
    roles: list[str]
    keys: int
    tokens: int
    lent: list[str]


@router.get("/people")
async def people_page(at: ReaderPage) -> Response:
    """List who is here."""
    return await _list(at, None)


@router.post("/people")
async def change_people(request: HttpRequest, at: ReaderPage) -> Response:
    """Add a person or a machine, or change the roles of a group."""

    typed: dict[str, str] = {}

    async def make(form: PageForm) -> str:
        people, by = at.app.people, at.visitor.login
        match form.text("do"):
            case "add":
                kind = "machine" if form.text("kind") == "machine" else "person"
                roles = [*form.several("role_of"), *form.names("roles")]
                await _check_roles(at, form, roles, typed)
                await people.add(form.text("id"), form.text("name"), roles=roles, kind=kind, by=by)
                return _path(form.text("id"))
            case "give_group":
                await _check_roles(at, form, [form.text("role")], typed)
                await people.give_role(form.text("role"), group=form.text("group"), by=by)
            case "take_group":
                await people.take_role(form.text("role"), group=form.text("group"), by=by)
            case other:
                raise UserError(f"no form of this page asks for {other!r}")
        return "/people#groups"

    return await change(request, at, make, lambda said: _list(at, said, typed))


@router.get("/people/{name:path}")
async def person_page(at: ReaderPage, name: str, do: str = "") -> Response:
    """Show one person, with the form to delegate open where a link leads to it."""
    return await _one(at, name, None, doing="delegate" if do == "delegate" else "")


@router.post("/secrets/{name:path}")
async def secret(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Issue a token, or make a link: it is on the answer of this request and nowhere else, ever."""
    doing = ""
    try:
        form = await form_of(request, at)
        doing = form.text("do")
        link = doing == "link"
        if link:
            made = await at.app.people.make_link(name, by=at.visitor.login)
        else:
            scopes, label = form.several("scope"), form.text("label")
            expires = form.text("expires") or None
            issue = at.app.people.issue_token
            made = await issue(name, scopes, by=at.visitor.login, label=label, expires=expires)
    except KeyturnError as error:
        return await _one(at, name, refused(error), doing=doing)
    where = f"{origin_of(request, secure=at.settings.secure)}{at.url('/enter')}#" if link else ""
    return await _one(at, name, None, once=where + made, link=link)


@router.post("/people/{name:path}")
async def change_person(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Change one thing about a person."""

    typed: dict[str, str] = {}
    kept = dict.fromkeys(_DELEGATED, "")
    doing = ""

    async def make(form: PageForm) -> str:
        nonlocal doing
        doing = form.text("do")
        if doing == "delegate":
            kept.update({field: form.text(field) for field in _DELEGATED})
        found = _CHANGES.get(form.text("do"))
        if form.text("do") == "give":
            await _check_roles(at, form, [form.text("role")], typed)
        if form.text("do") == "address":
            told = form.text("channel"), form.text("address")
            await keep_address(at.app, at.app.people, request.app.state.limits, at.visitor, name, *told)
            return _path(name)
        if found is None:
            raise UserError(f"no form of this page asks for {form.text('do')!r}")
        await found(at, name, form)
        if form.text("do") == "remove":
            return "/people"
        return f"{_path(name)}#lent" if form.text("do") in ("delegate", "end") else _path(name)

    return await change(request, at, make, lambda said: _one(at, name, said, typed=typed, kept=kept, doing=doing))


async def _delegate(at: PageContext, name: str, form: PageForm) -> None:
    await at.app.people.delegate(
        name,
        form.text("to"),
        lasts=_left_until(form.text("until"), at),
        roles=form.names("roles"),
        why=form.text("why"),
        by=at.visitor.login,
    )


def _left_until(day: str, at: PageContext) -> str:
    """Return how long it is to the end of a day in the visitor's time zone, as a duration."""
    try:
        ends = datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(), at.zone)
    except (ValueError, OverflowError):  # no day, or the last one there is
        raise UserError("choose the last day of the delegation") from None
    left = round(ends.timestamp() * 1_000) - at.now
    if left <= 0:
        raise UserError("the last day of the delegation is over")
    return f"{left}ms"


async def _remove(at: PageContext, name: str, form: PageForm) -> None:
    if form.text("sure") != name:
        raise UserError("type the username to confirm that you remove this user")
    await at.app.people.remove(name, by=at.visitor.login)


_CHANGES: dict[str, Callable[[PageContext, str, PageForm], Awaitable[Any]]] = {
    "give": lambda at, name, form: at.app.people.give_role(form.text("role"), to=name, by=at.visitor.login),
    "take": lambda at, name, form: at.app.people.take_role(form.text("role"), of=name, by=at.visitor.login),
    "join": lambda at, name, form: at.app.people.join(form.text("group"), name, by=at.visitor.login),
    "leave": lambda at, name, form: at.app.people.leave(form.text("group"), name, by=at.visitor.login),
    "revoke_token": lambda at, name, form: at.app.people.revoke_token(form.text("token"), by=at.visitor.login),
    "confirm_key": lambda at, name, form: at.app.people.confirm_key(form.text("key"), by=at.visitor.login),
    "revoke_key": lambda at, name, form: at.app.people.revoke_key(form.text("key"), by=at.visitor.login),
    "end": lambda at, name, form: at.app.people.end_delegation(form.text("delegation"), by=at.visitor.login),
    "forget_subject": lambda at, name, form: at.app.people.forget_subject(name, by=at.visitor.login),
    "delegate": _delegate,
    "remove": _remove,
}


async def _check_roles(at: PageContext, form: PageForm, names: list[str], typed: dict[str, str]) -> None:
    """Refuse a role that there is not, unless it was confirmed; what was typed is kept, so that it can be."""
    if form.text("new") == "yes" or not at.visitor.administers:
        return
    try:
        check_known(names, known_roles(at.app, await at.app.people.directory()))
    except UnknownRole:
        given = {name: value for name, value in form.whole().items() if name != "role_of"}
        typed.update(given | {"roles": " ".join(names)} if form.text("do") == "add" else given)
        raise


async def _list(at: PageContext, refusal: Refused | None, typed: dict[str, str] | None = None) -> Response:
    directory = await at.app.people.directory()
    rows = [_row(directory, each, at.now) for each in await at.app.people.list()]
    left = sorted(each.id for each in directory.people.values() if not each.here)
    groups = {name: _group(directory, name) for name in sorted(directory.groups)}
    status = 200 if refusal is None else refusal.status
    shown: dict[str, Any] = {"rows": rows, "left": left, "groups": groups, "refusal": refusal, "typed": typed}
    return page(at, "people.html", status, known=known_roles(at.app, directory), **shown)


def _group(directory: Directory, name: str) -> tuple[list[str], list[str]]:
    members = sorted(each.id for each in directory.people.values() if each.here and name in each.all_groups)
    return sorted(directory.groups[name]), members


def _row(directory: Directory, person: Person, now: int) -> PersonRow:
    keys = sum(key.person == person.id and key.counts for key in directory.keys.values())
    tokens = sum(token.person == person.id and directory.accepts(token, now) for token in directory.tokens.values())
    lent = [each.giver for each in directory.lent_to(person.id, now)]
    return PersonRow(person, sorted(directory.roles_of(person.id)), keys, tokens, lent)


async def _one(at: PageContext, name: str, refusal: Refused | None, **more: Any) -> Response:
    directory = await at.app.people.directory()
    person = directory.people.get(name)
    if person is None:
        missing = refused(UserError("No user has that id."))
        return page(at, "refused.html", 404, said=missing._replace(status=404))
    keys = [key for key in directory.keys.values() if key.person == name]
    lent = [each for each in directory.delegations.values() if name in (each.giver, each.receiver)]
    own = person.id == at.visitor.id and at.visitor.may("people")
    return page(
        at,
        "person.html",
        200 if refusal is None else refusal.status,
        person=person,
        roles=sorted(directory.roles_of(name)),
        by_group={group: sorted(directory.groups.get(group, ())) for group in sorted(person.all_groups)},
        tokens=[token for token in directory.tokens.values() if token.person == name][::-1],
        accepted={token.id for token in directory.tokens.values() if directory.accepts(token, at.now)},
        provided=name in directory.subjects,
        keys=keys,
        first_key=all(key.confirmed_at is None for key in directory.keys.values()),
        delegations=lent[::-1],
        others=[each.id for each in await at.app.people.list() if each.id != name and each.kind == "person"],
        scopes={scope: words for scope, words in SCOPE_WORDS.items() if scope not in NOT_FOR[person.kind]},
        lasts=LASTS,
        changes=at.visitor.administers or own,
        admin=at.visitor.administers,
        known=known_roles(at.app, directory),
        channels=list(at.app.channels.by_name),
        refusal=refusal,
        today=(today := datetime.fromtimestamp(at.now / 1_000, at.zone).date()).isoformat(),
        in_a_week=(today + timedelta(days=7)).isoformat(),
        zone=at.zone,
        **{"once": "", "link": False, "typed": {}, "doing": "", "kept": dict.fromkeys(_DELEGATED, "")} | more,
    )


def _path(name: str) -> str:
    return f"/people/{quote(name, safe='')}"
