"""What scripts ask for passkeys: to log in, to enrol one, to confirm one, and to sign a decision."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from typing import Any, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ...core.errors import BadJson, Conflict, KeyturnError, NotAllowed, NotPending, UserError
from ...core.people import Proof, ProofRefused
from ...directory.signed import public_of
from ...directory.state import PASSKEY, Key
from ...engine.views.items import ToolApprovalItem
from ...inbox.personal import SIGNABLE
from ...presenting.shown_request import ShownRequest
from ...proofs.base import Asked, PublicKey, Site
from ...proofs.passkey import assertion_options, credential_of, proof_of, registration_options, site_of
from ..forms import safe_redirect
from ..undoing import undo_for
from ..visibility import Visibility
from ..visitor import Visitor
from ..web.blocks import blocks_of
from ..web.payload import GUARDED, check_seen, drawn_payload, payload_of
from . import tickets
from .attempts import FAILED_KEYS, failures
from .bodies import body_of, by_script, text_of
from .sign_in import CHANGES, SignIn, fresh, root_of, sign_in_of, told

router = APIRouter(include_in_schema=False)
_SCHEME = PASSKEY
_NO_SITE = "passkeys do not work at an IP address: open this server by its host name, or as http://localhost"


def _site(sign_in: SignIn, request: Request) -> Site:
    found = sign_in.site(request)
    if found is None:
        raise UserError(_NO_SITE)
    return found


async def _keys(sign_in: SignIn, site: Site, person: str | None = None, *, counts: bool = False) -> list[PublicKey]:
    """Return the passkeys of this site that were not revoked, of one person or of all."""
    found = await sign_in.people.keys(person)
    return [public_of(key) for key in found if _usable(key, site) and (key.counts or not counts)]


def _usable(key: Key, site: Site) -> bool:
    return key.scheme == _SCHEME and key.revoked_at is None and site_of(public_of(key)).rp == site.rp


def _options(text: str) -> Response:
    return Response(text, media_type="application/json")


# Logging in ---------------------------------------------------------------------------------------------------------


@router.post("/login/passkey/options")
async def login_options(request: Request) -> Response:
    """Ask a browser for any passkey of this site, which says by itself whose it is."""
    sign_in = sign_in_of(request)
    try:
        site = _site(sign_in, request)
        ticket = tickets.new_ticket("passkey", {})
        made = _options(assertion_options(ticket.challenge, [], rp=site.rp))
    except KeyturnError as error:
        return told(error)
    tickets.give(request, made, ticket)
    return made


@router.post("/login/passkey")
async def log_in(request: Request) -> Response:
    """Log somebody in by a passkey of theirs."""
    sign_in = sign_in_of(request)
    try:
        site, ticket = _site(sign_in, request), tickets.taken(request, None, "passkey")
        if ticket is None:
            raise NotAllowed("this sign-in has expired, or was started in another browser: start again")
        body = await body_of(request)
        keys, next = await _keys(sign_in, site), safe_redirect(text_of(body, "next"))
        with failures(sign_in, request, FAILED_KEYS, _SCHEME, _named(body, keys)):
            proof = proof_of(_credential(body), keys)
            person, count = await sign_in.people.person_by_key(ticket.challenge, proof)
        token = await sign_in.begin(request, person, _SCHEME, once=ticket.once, counted=(proof.key, count))
    except ProofRefused:
        return told(NotAllowed("this passkey is unknown here, or was revoked"))
    except KeyturnError as error:
        return told(error)
    made = JSONResponse({"next": root_of(request) + next})
    tickets.drop(request, made, _SCHEME)
    return sign_in.keep(request, made, token)


def _named(body: dict[str, Any], keys: Sequence[PublicKey], what: str = "credential") -> str:
    """Return the id of the key that a browser names; "" for one that nobody has."""
    found = body.get(what)
    name = cast("dict[str, Any]", found).get("id") if isinstance(found, dict) else None
    return next((key.id for key in keys if credential_of(key) == name), "")


def _credential(body: dict[str, Any], name: str = "credential") -> str:
    found = body.get(name)
    if not isinstance(found, dict):
        raise UserError(f"`{name}` must be the object from navigator.credentials")
    return json.dumps(found)


# Enrolling ----------------------------------------------------------------------------------------------------------


@router.post("/account/passkeys/options")
async def enrol_options(request: Request) -> Response:
    """Ask a browser for a new passkey."""
    sign_in = sign_in_of(request)
    try:
        visitor, site = by_script(request, await sign_in.visitor(request)), _site(sign_in, request)
        await _fresh(sign_in, visitor)
        ticket = tickets.new_ticket("enrol", {"mark": tickets.mark_of(visitor)})
        known = await _keys(sign_in, site, visitor.id)
        made = _options(registration_options(site, ticket.challenge, visitor.id, secrets.token_bytes(16), known=known))
    except KeyturnError as error:
        return told(error)
    tickets.give(request, made, ticket)
    return made


@router.post("/account/passkeys")
async def enrol(request: Request) -> Response:
    """Enrol a new passkey; without a signature of it, say what it has to sign first."""
    sign_in = sign_in_of(request)
    try:
        visitor, site = by_script(request, await sign_in.visitor(request)), _site(sign_in, request)
        await _fresh(sign_in, visitor)
        body, ticket = await body_of(request), tickets.taken(request, None, "enrol")
        if ticket is None or ticket.words.get("mark") != tickets.mark_of(visitor):
            raise NotAllowed("this has expired, or was started in another session: start again")
        label = text_of(body, "label") or "passkey"
        enrolled = [public_of(key) for key in await sign_in.people.keys() if key.scheme == _SCHEME]
        if _named(body, enrolled, "registration"):
            raise Conflict("this passkey is enrolled already; a key is enrolled once")
        asked = Asked(ticket.challenge, site)
        key = sign_in.people.read_key(_SCHEME, _credential(body, "registration"), label=label, asked=asked)
        if "credential" not in body:
            return _options(assertion_options(sign_in.people.to_sign(visitor.id, key), [key]))
        proof = proof_of(_credential(body), [key])
        sign_in.limits.spend(CHANGES, visitor.id)
        made = await sign_in.people.enrol_key(visitor.id, key, proof, by=visitor.login)
    except KeyturnError as error:
        return told(error)
    response = JSONResponse({"key": made.id, "counts": made.counts})
    tickets.drop(request, response, "enrol")
    return response


async def _fresh(sign_in: SignIn, visitor: Visitor) -> None:
    if not await fresh(sign_in, visitor):
        raise NotAllowed("sign in again to change this")


@router.post("/account/passkeys/confirm")
async def confirm(request: Request) -> Response:
    """Confirm somebody's key; without a signature, say what is to be signed by a passkey that counts."""
    sign_in = sign_in_of(request)
    try:
        visitor, site = by_script(request, await sign_in.visitor(request)), _site(sign_in, request)
        body = await body_of(request)
        name = text_of(body, "key")
        keys = await _keys(sign_in, site, visitor.id, counts=True)
        proof: Proof | None = None
        if "credential" in body:
            proof = proof_of(_credential(body), keys)
        elif any(key.confirmed_at is not None for key in await sign_in.people.keys()):
            return _to_sign(await sign_in.people.to_confirm(name), keys)
        await sign_in.people.confirm_key(name, by=visitor.login, proof=proof)
    except KeyturnError as error:
        return told(error)
    return JSONResponse({"confirmed": name})


def _to_sign(challenge: bytes, keys: Sequence[PublicKey]) -> Response:
    if not keys:
        raise NotAllowed("you have no confirmed passkey for this site: add one under My account, and have it confirmed")
    return _options(assertion_options(challenge, keys))


# Signing decisions --------------------------------------------------------------------------------------------------


@router.post("/sign/options")
async def sign_options(request: Request) -> Response:
    """Say what a decision is, as bytes for a passkey to sign."""
    sign_in = sign_in_of(request)
    try:
        visitor, site = by_script(request, await sign_in.visitor(request)), _site(sign_in, request)
        said = await _said(sign_in, visitor, await body_of(request))
        shown, verdict = said.pop("request"), said.pop("verdict")
        challenge = await sign_in.app.inbox.as_person(visitor.login).challenge(shown, verdict, **said)
        return _to_sign(challenge, await _keys(sign_in, site, visitor.id, counts=True))
    except KeyturnError as error:
        return told(error)


@router.post("/sign")
async def decide(request: Request) -> Response:
    """Record a decision with the signature of a passkey."""
    sign_in = sign_in_of(request)
    try:
        visitor, site = by_script(request, await sign_in.visitor(request)), _site(sign_in, request)
        body = await body_of(request)
        proof = proof_of(_credential(body), await _keys(sign_in, site, visitor.id, counts=True))
        said = await _said(sign_in, visitor, body)
        shown, verdict = said.pop("request"), said.pop("verdict")
        row = await sign_in.app.inbox.as_person(visitor.login).decide(shown, verdict, proof=proof, **said)
    except KeyturnError as error:
        return told(error)
    return JSONResponse({"request": row.id, "state": row.state, "next": f"{root_of(request)}/requests/{row.id}"})


async def _said(sign_in: SignIn, visitor: Visitor, body: dict[str, Any]) -> dict[str, Any]:
    """Return the words of a decision, the same to be signed and to be recorded, about a request that they see."""
    said = _words(body)
    visibility = await Visibility.of(sign_in.app, visitor)
    row = await visibility.request(said["request"])
    visibility.must_decide(row.request)
    if said["verdict"] in GUARDED and said["verdict"] != "edit" and (row.state, row.digest) == ("open", said["digest"]):
        check_seen(await asyncio.to_thread(payload_of, row.request), body)
    if said["verdict"] in ("approve", "edit"):
        said["undo"] = await undo_for(sign_in.app, sign_in.settings, row)
    if said["verdict"] == "edit" and "fields" in body:
        said |= await _edit(await sign_in.app.inbox.item(said["request"], by=visitor.login), body)
    return said


async def _edit(item: ToolApprovalItem, body: dict[str, Any]) -> dict[str, Any]:
    """Return the change that the fields of an edit form make, as it was drawn for whoever signs it."""
    typed = body.get("fields")
    fields = cast("dict[Any, Any]", typed) if isinstance(typed, dict) else {}
    if not fields or not all(isinstance(text, str) for text in fields.values()):
        raise UserError("fields are the arguments of the edit form, each a text")
    shown = ShownRequest(item)
    if not shown.editable:
        raise UserError("the arguments of this call cannot be changed: reject it and say why")
    try:
        await asyncio.to_thread(shown.fill, fields)
    except (BadJson, ValueError) as error:
        raise UserError(str(error)) from None
    if not shown.changed:
        raise UserError("no argument is changed: approve the call unchanged")
    if await asyncio.to_thread(shown.mark) != text_of(body, "looked"):
        raise Conflict("what it would do is drawn differently now than what you were shown: look at it again")
    check_seen(drawn_payload(blocks_of(shown.preview(), shown.arguments)), {"seen": body.get("seen")})
    return {"edit": shown.edit, "seen": shown.seen()}


def _words(body: dict[str, Any]) -> dict[str, Any]:
    verdict, digest = text_of(body, "verdict"), text_of(body, "digest")
    if verdict not in SIGNABLE:
        raise UserError(f"verdict is one of {', '.join(SIGNABLE)}")
    if not text_of(body, "request"):
        raise NotPending("request is the id of a request")
    if not digest:
        raise UserError("digest is that of the call as it was shown")
    said: dict[str, Any] = {"request": text_of(body, "request"), "verdict": verdict, "digest": digest}
    takes = {"reject": ("message", "note"), "approve": ("note",), "edit": ("note",)}.get(verdict, ("note",))
    said |= {name: text_of(body, name) for name in takes if text_of(body, name)}
    revision = body.get("revision")
    if isinstance(revision, int) and not isinstance(revision, bool):
        said["revision"] = revision
    if verdict == "edit":
        said["edit"] = body.get("edit")
    if verdict == "ask_back":
        said["message"] = text_of(body, "message")
    if verdict in ("answer", "ran"):
        said["output"] = body.get("output")
    if verdict == "approve" and body.get("glass") is True:
        said["break_glass"] = True
    return said
