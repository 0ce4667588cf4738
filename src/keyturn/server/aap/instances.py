"""Serve the instances of AAP: a provisioner adds, shows, changes and removes accounts that request approvals.

The log alone gives no secret away: a token is derived from a key of the journal, and the secret of a receiver is sealed
by one. A receiver is verified before anything is recorded.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from ...channels.base import ChannelRefused
from ...core.digest import canonical, digest
from ...core.encodable import timestamp
from ...core.errors import Conflict
from ...core.seal import Ring
from ...core.strict import parse
from ...directory import events as ev
from ...directory import instances
from ...directory.instances import Instance, InstanceReceiver
from ...directory.login import digest_of, id_in
from ...directory.people import People
from ...directory.state import PROVISION, Directory
from ...support.keys import ring
from ..api.routes import Call, admit_call
from ..limits import RECEIVERS
from . import wire
from .errors import REQUEST_ID, AapRefused, answer
from .requests import required_key

_LIMIT = 16_384
_SECRET = r"^whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

#: Those who submit the same instance at the same time wait for each other, by account.
_LOCKS = WeakValueDictionary[str, asyncio.Lock]()


class DeliveryInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes a receiver as it is proposed."""

    type: str
    url: str
    registration_id: Annotated[str, msgspec.Meta(pattern=_UUID)]
    signing_secret: Annotated[str, msgspec.Meta(pattern=_SECRET)]


class InstanceSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes an instance that is to be added."""

    instance_name: Name | None = None
    delivery: DeliveryInput | None = None


class InstanceUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes what is to be changed of an instance; a delivery of null removes its receiver."""

    instance_name: Name | msgspec.UnsetType = msgspec.UNSET
    delivery: DeliveryInput | msgspec.UnsetType | None = msgspec.UNSET


class Provisioner:
    """Answers one provisioner: its instances, and none of others."""

    def __init__(self, here: Call, limits: Any) -> None:
        self.here = here
        self.id = here.visitor.id
        self.limits = limits

    @property
    def people(self) -> People:
        """Return the directory in which the instances are service accounts."""
        return self.here.app.people

    @property
    def keys(self) -> Ring:
        """Return the keys of the journal."""
        found: Callable[[], Ring] = getattr(self.here.app.journal, "keys", ring)
        return found()

    async def change(self, decided: Callable[[Directory], Any], people: People | None = None) -> Directory:
        """Make a change of an instance."""
        return await (people or self.people).provision_instance(decided, by=self.here.visitor.login)

    async def account(self, id: str, *, left: bool = False) -> str:
        """Return the account of an instance, with `left` also of one that was removed, or refuse its id."""
        directory = await self.people.directory()
        found = instances.account_known_as(directory, self.id, id)
        if found is None or not (left or instances.instance_of(directory, found)):
            raise instances.UnknownInstance("there is no such instance")
        return found

    async def verified(self, account: str, given: DeliveryInput) -> InstanceReceiver:
        """Return a receiver that gave a challenge back, with its secret sealed, or refuse it."""
        if given.type != "webhook":
            raise AapRefused(400, "unsupported_delivery_type", "delivery is of type webhook", "delivery")
        for who in (self.id, f"host {_host_of(given.url)}"):
            self.limits.spend(RECEIVERS, who)
        told = {
            "id": str(uuid4()),
            "type": "webhook.verification",
            "registration_id": given.registration_id,
            "instance_id": instances.instance_id(account),
            "created_at": timestamp(await self.people.now()),
            "challenge": str(uuid4()),
        }
        if not await self._echoed(given, told):
            words = "the webhook receiver could not be verified"
            raise AapRefused(422, "webhook_verification_failed", words, "delivery")
        secret = base64.b64decode(given.signing_secret.removeprefix("whsec_"))
        sealed = instances.sealed_secret(self.keys, account, given.registration_id, secret, secrets.token_hex(16))
        return InstanceReceiver(given.url, given.registration_id, sealed)

    async def _echoed(self, given: DeliveryInput, told: dict[str, str]) -> bool:
        try:
            for channel in self.here.app.channels.channels:
                echoed = await channel.verify(given.url, given.signing_secret, told)
                if echoed is not None:
                    return echoed
        except ChannelRefused as error:
            raise AapRefused(400, "invalid_webhook_url", str(error), "delivery") from None
        words = "this server posts no webhooks: its app has no CallerWebhooks among its channels"
        raise AapRefused(400, "unsupported_delivery_type", words, "delivery")


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        raise AapRefused(400, "invalid_webhook_url", "the address is not a URL", "delivery") from None


async def _provisioner(request: Request) -> Provisioner:
    return Provisioner(await admit_call(request, (PROVISION,)), request.app.state.limits)


async def create(request: Request) -> Response:
    """Add an instance, and return it with its token; the same key with the same fields is the same instance."""
    at, key = await _provisioner(request), required_key(request)
    raw = await request.body()
    given: InstanceSubmission = wire.read(InstanceSubmission, raw, _LIMIT)
    account, submitted = instances.account_of(at.id, key), digest("instance", canonical(parse(raw)))
    async with _LOCKS.setdefault(account, asyncio.Lock()):
        if account in (await at.people.directory()).people:
            return await _credential(at, account, submitted, 200)
        delivery = None if given.delivery is None else await at.verified(account, given.delivery)
        name, salt = given.instance_name or account, secrets.token_hex(16)
        made = Instance(name, submitted, at.keys.ids[0], delivery, salt)
        token = instances.token_of(at.keys, account, made)

        def decided(now: Directory) -> Any:
            own = now.tokens.get(at.here.visitor.login.token)
            until = None if own is None else own.expires_at  # nothing outlasts the token by which it is handed out
            issued = ev.TokenIssued(id_in(token), account, digest_of(token), instances.SCOPES, "AAP", until)
            return instances.create(now, made, issued)

        try:
            await at.change(decided)
        except Conflict:  # another process was faster
            return await _credential(at, account, submitted, 200)
        return await _credential(at, account, submitted, 201)


async def _credential(at: Provisioner, account: str, submitted: str, status: int) -> Response:
    """Return an instance as it is now, with the token that it was given, or refuse what was submitted otherwise."""
    directory = await at.people.directory()
    known = instances.instance_of(directory, account)
    if known is None:
        raise AapRefused(409, "instance_deleted", "the instance of this idempotency key was deleted")
    if known.submitted != submitted:
        raise AapRefused(409, "idempotency_conflict", "the idempotency key was already used for another instance")
    if known.key not in at.keys:
        raise AapRefused(409, "credential_unavailable", "the credential was made with a key that was retired since")
    token = instances.token_of(at.keys, account, known)
    until = directory.tokens[id_in(token)].expires_at
    credential = {"token": token} | ({} if until is None else {"expires_at": timestamp(until)})
    return _json({"instance": _shown(account, known), "credential": credential}, status)


async def show(request: Request) -> Response:
    """Return an instance."""
    at = await _provisioner(request)
    return await _instance(at, await at.account(request.path_params["id"]))


async def _instance(at: Provisioner, account: str) -> Response:
    known = instances.instance_of(await at.people.directory(), account)
    if known is None:
        raise instances.UnknownInstance("there is no such instance")
    return _json(_shown(account, known))


async def update(request: Request) -> Response:
    """Change the name of an instance, or its receiver, which is verified first; a key changes it once."""
    at, key = await _provisioner(request), required_key(request)
    raw = await request.body()
    given: InstanceUpdate = wire.read(InstanceUpdate, raw, _LIMIT)
    if given == InstanceUpdate():
        raise AapRefused(400, "invalid_request", "state instance_name, delivery, or both")
    account = await at.account(request.path_params["id"])
    people = at.people.once(f"instance {account} {key}", canonical(parse(raw)))
    async with _LOCKS.setdefault(account, asyncio.Lock()):
        try:
            if await people.was_made():
                return await _instance(at, account)
        except Conflict:
            raise AapRefused(409, "idempotency_conflict", "the idempotency key was already used otherwise") from None
        proposed = given.delivery if isinstance(given.delivery, DeliveryInput) else None
        delivery = None if proposed is None else await at.verified(account, proposed)

        def decided(now: Directory) -> Any:
            known = instances.instance_of(now, account)
            if known is None:
                raise instances.UnknownInstance("there is no such instance")
            changed = known if given.delivery is msgspec.UNSET else replace(known, delivery=delivery)
            name = given.instance_name
            return instances.change(now, account, changed if name is msgspec.UNSET else replace(changed, name=name))

        await at.change(decided, people)
        return await _instance(at, account)


async def delete(request: Request) -> Response:
    """Remove an instance: its token is revoked, its pending requests are withdrawn, and nothing is posted."""
    at = await _provisioner(request)
    account = await at.account(request.path_params["id"], left=True)
    await at.change(lambda now: instances.remove(now, account))
    await at.here.app.asks.withdraw_all(account, why="its instance was deleted")
    return Response(status_code=204, headers={REQUEST_ID: str(uuid4())})


def _shown(account: str, known: Instance) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": instances.instance_id(account), "name": known.name}
    if known.delivery is not None:
        receiver = {"url": known.delivery.url, "registration_id": known.delivery.registration}
        shown["delivery"] = {"type": "webhook", **receiver}
    return shown


def _json(body: Any, status: int = 200) -> Response:
    return answer(msgspec.json.encode(body).decode(), status)
