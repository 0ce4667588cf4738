"""Serve SCIM 2.0 under /scim/v2: users, groups, and what describes them, to a token of the scope "scim" and no other.

Each change is one entry of the directory, decided there; what a PATCH changes is read in that very decision, so that
two at once lose nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...core.strict import TextLimits, parse
from ...directory import provisioning
from ...directory.login import Login
from ...directory.people import People
from ...directory.state import SCIM, Directory
from ..address import origin_of
from ..protocols import protocol_app
from ..visitor import visitor_of
from .errors import ScimRefused, answer, failure, refusal
from .filters import parsed
from .resources import (
    GroupChange,
    group_of,
    groups_of,
    operations_of,
    patched_group,
    patched_user,
    profile_of,
    shown_group,
    shown_user,
    text_of,
    users_of,
)
from .schemas import CONFIG, MOST_RESULTS, RESOURCE_TYPES, SCHEMAS, placed

_LISTED = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
_LIMITS = TextLimits(bytes=1 << 20, depth=16)
_PAGE = 100
_ALWAYS = ("schemas", "id")


class ScimClient(NamedTuple):
    """Holds who asks, the users that they keep, and below which address the resources are."""

    login: Login
    people: People
    base: str


Serves = Callable[[ScimClient, Request], Awaitable[Response]]


def scim_of(shared: Any) -> Starlette:
    """Return the routes of SCIM of an app, to be mounted under /scim/v2; they share what counts people with the pages.

    >>> from starlette.datastructures import State
    >>> scim_of(State({"app": None, "settings": None, "limits": None})).__class__.__name__
    'Starlette'
    """
    routes = [Route(path, partial(_serve, does), methods=[method]) for method, path, does in _ROUTES]
    state = {name: getattr(shared, name) for name in ("app", "settings", "limits")}
    return protocol_app("SCIM", routes, refusal, failure, state)


async def _serve(does: Serves, request: Request) -> Response:
    state = request.app.state
    visitor = await visitor_of(state.app, request)
    if visitor is None or visitor.via != "token":
        return failure(401, "A valid token is required.", headers={"www-authenticate": "Bearer"})
    request.scope.get("keyturn_asker", {})["token"] = ""  # who keeps all users guesses at none: no miss is counted
    if not visitor.may(SCIM):
        return failure(403, f"A token of the scope {SCIM!r} is required.")
    base = f"{origin_of(request, secure=state.settings.secure)}{request.scope.get('root_path', '')}"
    return await does(ScimClient(visitor.login, state.app.people, base), request)


async def _search(client: ScimClient, request: Request) -> Response:
    directory, asked = await client.people.directory(), await _asked(request)
    users = [shown_user(each, client.base) for each in users_of(directory)]
    return _page([*users, *_shown_groups(client, directory)], asked)


# Users --------------------------------------------------------------------------------------------------------------


async def _list_users(client: ScimClient, request: Request) -> Response:
    directory = await client.people.directory()
    return _page([shown_user(each, client.base) for each in users_of(directory)], dict(request.query_params))


async def _search_users(client: ScimClient, request: Request) -> Response:
    directory = await client.people.directory()
    return _page([shown_user(each, client.base) for each in users_of(directory)], await _asked(request))


async def _add_user(client: ScimClient, request: Request) -> Response:
    said = await _body(request)
    name = text_of(said, "userName")
    if not name:
        raise ScimRefused("userName is required")
    add = partial(provisioning.add_user, person=name, profile=profile_of(said))
    return _user(client, await client.people.provision(add, by=client.login), name, request, 201)


async def _get_user(client: ScimClient, request: Request) -> Response:
    return _user(client, await client.people.directory(), _id(request), request)


async def _replace_user(client: ScimClient, request: Request) -> Response:
    said, name = await _body(request), _id(request)

    def replaced(now: Directory) -> provisioning.Events:
        before = provisioning.user(now, name)
        return provisioning.change_user(now, name, profile_of(said, before))

    return _user(client, await client.people.provision(replaced, by=client.login), name, request)


async def _patch_user(client: ScimClient, request: Request) -> Response:
    operations, name = operations_of(await _body(request)), _id(request)

    def patched(now: Directory) -> provisioning.Events:
        before = provisioning.user(now, name)
        return provisioning.change_user(now, name, patched_user(before, operations))

    return _user(client, await client.people.provision(patched, by=client.login), name, request)


async def _delete_user(client: ScimClient, request: Request) -> Response:
    delete = partial(provisioning.delete_user, person=_id(request))
    await client.people.provision(delete, by=client.login)
    return Response(status_code=204)


def _user(client: ScimClient, directory: Directory, name: str, request: Request, status: int = 200) -> Response:
    shown = shown_user(provisioning.user(directory, name), client.base)
    headers = {"location": shown["meta"]["location"]}
    return answer(_narrowed(shown, dict(request.query_params)), status, headers)


# Groups -------------------------------------------------------------------------------------------------------------


def _shown_groups(client: ScimClient, directory: Directory) -> list[dict[str, Any]]:
    return [shown_group(directory, name, members, client.base) for name, members in groups_of(directory).items()]


async def _list_groups(client: ScimClient, request: Request) -> Response:
    return _page(_shown_groups(client, await client.people.directory()), dict(request.query_params))


async def _search_groups(client: ScimClient, request: Request) -> Response:
    return _page(_shown_groups(client, await client.people.directory()), await _asked(request))


async def _add_group(client: ScimClient, request: Request) -> Response:
    said = await _body(request)
    name, change = text_of(said, "displayName"), group_of(said)
    if not name:
        raise ScimRefused("displayName is required")
    add = partial(provisioning.add_group, group=name, external=change.external, members=change.members)
    return _group(client, await client.people.provision(add, by=client.login), name, request, 201)


async def _get_group(client: ScimClient, request: Request) -> Response:
    return _group(client, await client.people.directory(), _id(request), request)


async def _replace_group(client: ScimClient, request: Request) -> Response:
    name = _id(request)
    said = await _body(request)
    return await _changed_group(client, request, lambda _now: group_of(said, name))


async def _patch_group(client: ScimClient, request: Request) -> Response:
    operations, name = operations_of(await _body(request)), _id(request)

    def patched(now: Directory) -> GroupChange:
        external = now.provisioned[name].external
        return patched_group(name, external, provisioning.members_of(now, name), operations)

    return await _changed_group(client, request, patched)


async def _changed_group(client: ScimClient, request: Request, change: Callable[[Directory], GroupChange]) -> Response:
    name = _id(request)

    def changed(now: Directory) -> provisioning.Events:
        provisioning.kept(now, name)
        return provisioning.change_group(now, name, *change(now))

    return _group(client, await client.people.provision(changed, by=client.login), name, request)


async def _delete_group(client: ScimClient, request: Request) -> Response:
    delete = partial(provisioning.delete_group, group=_id(request))
    await client.people.provision(delete, by=client.login)
    return Response(status_code=204)


def _group(client: ScimClient, directory: Directory, name: str, request: Request, status: int = 200) -> Response:
    provisioning.kept(directory, name)
    shown = shown_group(directory, name, provisioning.members_of(directory, name), client.base)
    headers = {"location": shown["meta"]["location"]}
    return answer(_narrowed(shown, dict(request.query_params)), status, headers)


# What describes them ------------------------------------------------------------------------------------------------


async def _config(client: ScimClient, _request: Request) -> Response:
    return answer(placed(CONFIG, "ServiceProviderConfig", f"{client.base}/ServiceProviderConfig"))


def _described(client: ScimClient, kind: str) -> list[dict[str, Any]]:
    found = SCHEMAS if kind == "Schema" else RESOURCE_TYPES
    return [placed(each, kind, f"{client.base}/{kind}s/{quote(each['id'], safe=':')}") for each in found]


async def _describe(kind: str, client: ScimClient, request: Request) -> Response:
    if "filter" in request.query_params:
        return failure(403, "What describes the server is not filtered.")
    every = _described(client, kind)
    return answer(_listed(every, len(every), 1))


async def _describe_one(kind: str, client: ScimClient, request: Request) -> Response:
    found = [each for each in _described(client, kind) if each["id"] == _id(request)]
    return answer(found[0]) if found else failure(404, f"There is no {kind} of that id.")


# Requests -----------------------------------------------------------------------------------------------------------


def _id(request: Request) -> str:
    return str(request.path_params["id"])


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/scim+json", "application/json"):
        raise ScimRefused("the body is application/scim+json", "invalidSyntax", 415)
    found = parse(await request.body(), _LIMITS)
    if not isinstance(found, dict):
        raise ScimRefused("the body is a JSON object", "invalidSyntax")
    return cast("dict[str, Any]", found)


async def _asked(request: Request) -> dict[str, str]:
    """Return what a search says in its body, as a query says it."""
    said = await _body(request)
    listed = {name: cast("list[Any]", value) for name, value in said.items() if isinstance(value, list)}
    return {name: str(value) for name, value in said.items()} | {
        name: ",".join(map(str, value)) for name, value in listed.items()
    }


def _page(resources: list[dict[str, Any]], asked: dict[str, str]) -> Response:
    """Answer with a part of the resources that fit the filter."""
    text = asked.get("filter", "")
    fits = parsed(text) if text else None
    found = resources if fits is None else [each for each in resources if fits(each)]
    start = max(1, _number(asked, "startIndex", 1))
    count = min(MOST_RESULTS, max(0, _number(asked, "count", _PAGE)))
    shown = [_narrowed(each, asked) for each in found[start - 1 : start - 1 + count]]
    return answer(_listed(shown, len(found), start))


def _listed(resources: list[dict[str, Any]], total: int, start: int) -> dict[str, Any]:
    about = {"schemas": [_LISTED], "totalResults": total, "startIndex": start, "itemsPerPage": len(resources)}
    return about | {"Resources": resources}


def _number(asked: dict[str, str], name: str, otherwise: int) -> int:
    text = asked.get(name, "")
    if not text:
        return otherwise
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ScimRefused(f"{name} is a number")
    return int(text[:10])


def _narrowed(resource: dict[str, Any], asked: dict[str, str]) -> dict[str, Any]:
    """Return a resource with the attributes that are asked for, or without those that are not."""
    wanted, unwanted = _names(asked.get("attributes", "")), _names(asked.get("excludedAttributes", ""))
    if wanted:
        return {name: value for name, value in resource.items() if name in _ALWAYS or name.lower() in wanted}
    return {name: value for name, value in resource.items() if name in _ALWAYS or name.lower() not in unwanted}


def _names(text: str) -> frozenset[str]:
    """Return the attributes that a list names, without their schemas and parts."""
    names = (each.strip().rpartition(":")[2].lower() for each in text.split(","))
    return frozenset(each.partition(".")[0] for each in names if each)


_ROUTES: tuple[tuple[str, str, Serves], ...] = (
    ("GET", "/ServiceProviderConfig", _config),
    ("GET", "/Schemas", partial(_describe, "Schema")),
    ("GET", "/Schemas/{id:path}", partial(_describe_one, "Schema")),
    ("GET", "/ResourceTypes", partial(_describe, "ResourceType")),
    ("GET", "/ResourceTypes/{id:path}", partial(_describe_one, "ResourceType")),
    ("POST", "/.search", _search),
    ("GET", "/Users", _list_users),
    ("POST", "/Users", _add_user),
    ("POST", "/Users/.search", _search_users),
    ("GET", "/Users/{id:path}", _get_user),
    ("PUT", "/Users/{id:path}", _replace_user),
    ("PATCH", "/Users/{id:path}", _patch_user),
    ("DELETE", "/Users/{id:path}", _delete_user),
    ("GET", "/Groups", _list_groups),
    ("POST", "/Groups", _add_group),
    ("POST", "/Groups/.search", _search_groups),
    ("GET", "/Groups/{id:path}", _get_group),
    ("PUT", "/Groups/{id:path}", _replace_group),
    ("PATCH", "/Groups/{id:path}", _patch_group),
    ("DELETE", "/Groups/{id:path}", _delete_group),
)
