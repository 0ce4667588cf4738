"""Decide what a provisioner says of its instances: service accounts that request approval, each with one token.

Pure, as `decide.py` is. A provisioner is a service account with a token of the scope "provision". It adds, changes and
removes instances of its own, whose ids begin with its own, and nothing else; an instance may request approvals alone.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from ..core.digest import digest
from ..core.errors import Conflict, NotAllowed, UserError
from ..core.lookalikes import looks_as
from ..core.seal import Ring
from . import events as ev
from .bounds import Pace, check_pace
from .decide import Events, own_id
from .spelling import one_line
from .state import PROVISION, Directory

#: Under this name stands what is known of an instance, among the settings of its account.
SETTING = "instance"
#: What a token of an instance is for.
SCOPES = ("ask",)
#: How many changes a provisioner makes in an hour: each is an entry that stays.
CHANGES_AN_HOUR = 3_600


class InstanceReceiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Says where an instance hears of decisions; `secret` signs, and is sealed by a key of the journal."""

    url: str
    registration: str
    secret: str


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Holds what is known of an instance: how it was submitted, where it hears, and of what its token is made.

    That is a key of the journal, and `salt`, which no instance of the same name in another tenant has.
    """

    name: str
    submitted: str
    key: str
    delivery: InstanceReceiver | None = None
    salt: str = ""


def account_of(provisioner: str, key: str) -> str:
    """Return the account of the instance that a provisioner submitted under an idempotency key.

    >>> account_of("ci", "k1")
    'ci.8672211551bc'
    """
    return f"{provisioner}.{digest('instance', provisioner, key)[:12]}"


def instance_id(account: str) -> str:
    """Return the id under which others know an account.

    >>> instance_id("ci")
    '4227570e-f7a4-5f88-8a1c-fdea44930f76'
    """
    return str(uuid5(NAMESPACE_OID, f"keyturn {account}"))


def is_of(provisioner: str, account: str) -> bool:
    """Return whether an account is named as the instance of a provisioner.

    >>> is_of("ci", "ci.e2b5b5ec5ea3"), is_of("ci", "ci.x.e2b5b5ec5ea3"), is_of("ci", "cindy")
    (True, False, False)
    """
    return account.rpartition(".")[0] == provisioner


def instance_of(directory: Directory, account: str) -> Instance | None:
    """Return what is known of an instance; None for an account that is none, or was removed."""
    person = directory.person(account)
    try:
        return None if person is None else msgspec.convert(person.settings.get(SETTING), Instance)
    except msgspec.ValidationError:
        return None


def account_known_as(directory: Directory, provisioner: str, id: str) -> str | None:
    """Return the account that a provisioner knows by an id, also one that was removed."""
    own = (name for name, person in directory.people.items() if person.kind == "machine" and is_of(provisioner, name))
    return next((name for name in own if instance_id(name) == id), None)


def check_provisioner(directory: Directory, by: str, now: int) -> None:
    """Refuse an account without a token to provision instances, or with too many changes within the hour."""
    tokens = directory.tokens.values()
    if not any(each.person == by and PROVISION in each.scopes and directory.accepts(each, now) for each in tokens):
        raise NotAllowed(f"{by!r} needs a token of the scope {PROVISION!r} for this")
    check_pace(directory.paces.get(by, Pace()), now, CHANGES_AN_HOUR)


def create(directory: Directory, instance: Instance, issued: ev.TokenIssued) -> Events:
    """Add an instance with its token; nothing where the same was submitted before."""
    account = issued.person
    before = directory.people.get(account)
    if before is not None and not before.here:
        raise Conflict(f"{account!r} was removed; an id is given once")
    if before is not None:
        known = instance_of(directory, account)
        if known is None or known.submitted != instance.submitted:
            raise Conflict(f"{account!r} was submitted otherwise")
        return []
    like = directory.alike.get(looks_as(account), account)
    if like != account:
        raise UserError(f"{account!r} reads like {like!r}; choose another idempotency key")
    if issued.scopes != SCOPES:
        raise NotAllowed("an instance requests approvals, and nothing else")
    added = ev.PersonAdded(own_id(account), one_line(instance.name, "instance_name"), "machine")
    return [added, _set(account, instance), issued]


def change(directory: Directory, account: str, instance: Instance) -> Events:
    """Change what is known of an instance."""
    if instance_of(directory, account) is None:
        raise UnknownInstance(f"there is no instance {account!r}")
    one_line(instance.name, "instance_name")
    return [_set(account, instance)]


def remove(directory: Directory, account: str) -> Events:
    """Remove an instance, which revokes its token; nothing where it was removed before."""
    if directory.person(account) is None:
        return []
    if instance_of(directory, account) is None:  # an account that an administrator named so
        raise UnknownInstance(f"there is no instance {account!r}")
    return [ev.PersonRemoved(account)]


class UnknownInstance(UserError):
    """Raised for an instance that does not exist, or was removed.

    >>> issubclass(UnknownInstance, UserError)
    True
    """


def _set(account: str, instance: Instance) -> ev.SettingChanged:
    value: Any = msgspec.to_builtins(instance)
    return ev.SettingChanged(SETTING, value, account)


# What cannot be read in the log -----------------------------------------------------------------------------------


def token_of(keys: Ring, account: str, made: Instance) -> str:
    """Return the token of an instance, which is derived from its key of the journal: the same one each time."""
    salt = [made.salt.encode()] if made.salt else []
    mac = keys.mac("instance token", account.encode(), *salt, key=made.key)
    text = hashlib.sha256(mac.encode()).hexdigest()
    return f"kt_{text[:12]}_{text[12:60]}"


def sealed_secret(keys: Ring, account: str, registration: str, secret: bytes, nonce: str) -> str:
    """Seal the 32 bytes of a secret, to be opened with the same key of the journal; a nonce is used once.

    >>> keys = Ring([b"key" * 16])
    >>> text = sealed_secret(keys, "ci.1", "r1", bytes(range(32)), "0" * 32)
    >>> opened_secret(keys, "ci.1", "r1", text) == bytes(range(32)), opened_secret(keys, "ci.2", "r1", text)
    (True, None)
    """
    key = keys.ids[0]
    mask = _mask(keys, key, account, registration, nonce)
    hidden = base64.b64encode(bytes(one ^ other for one, other in zip(secret, mask, strict=True))).decode()
    return f"{key}.{nonce}.{hidden}.{_tag(keys, key, account, registration, nonce, hidden)}"


def opened_secret(keys: Ring, account: str, registration: str, text: str) -> bytes | None:
    """Return a secret that was sealed; None where its key was retired, or it was sealed for another instance."""
    key, nonce, hidden, tag = (*text.split("."), "", "", "", "")[:4]
    if key not in keys or _tag(keys, key, account, registration, nonce, hidden) != tag:
        return None
    mask = _mask(keys, key, account, registration, nonce)
    return bytes(one ^ other for one, other in zip(base64.b64decode(hidden), mask, strict=True))


def _mask(keys: Ring, key: str, *parts: str) -> bytes:
    return hashlib.sha256(keys.mac("instance secret", "\n".join(parts).encode(), key=key).encode()).digest()


def _tag(keys: Ring, key: str, *parts: str) -> str:
    return keys.mac("instance secret sealed", "\n".join(parts).encode(), key=key).partition(".")[2]
