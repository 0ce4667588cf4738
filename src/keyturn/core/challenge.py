"""Make the bytes that a person's own key signs: one challenge for one thing that is said, and for nothing else.

A challenge is the SHA-256 of a canonical JSON text (`digest.canonical`) that begins with a domain tag. In the text is
all that the person says, and nothing that is not known when they sign: neither who they are recorded as nor when.
Signatures are verified for years, so the text of what was said may never change: another form gets another tag.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, cast

from .digest import canonical, keyed_digest
from .errors import UserError
from .people import plain_text
from .records import Decision, GrantTerms

DECISION_TAG = "keyturn decision 1"
KEYED_TAG = "keyturn decision 2"  # an edit of a call with secrets: a keyed digest stands for the arguments
KEY_TAG = "keyturn key 1"
KeyVerdict = Literal["enrol", "confirm", "revoke"]

# What a person says, by the fields of what is recorded; a field is in one of the lists, or a test fails.
SAID = ("digest", "verdict", "args", "basis", "output", "message", "note")
# These are in the text where they are said: most decisions say nothing of the kind.
SAID_ALSO = ("broke_glass", "asks_back", "metadata", "withdrawals", "undo_ms")
NOT_SAID = ("call", "at", "decider", "via", "grant", "runs", "proof", "confirms", "key")
GRANT_SAID = ("agent", "tool", "verdict", "where", "expires_at", "uses", "message", "reach")
GRANT_NOT_SAID = ("id", "decider", "call", "review", "terms")


def decision_text(tenant: str, request: str, revision: int, decision: Decision, grant: GrantTerms | None = None) -> str:
    """Return the canonical text of what somebody says when they decide, for an auditor to read and to hash.

    >>> decision_text("acme", "5e1f", 1, Decision("r/1.0", "approve", "d1"))  # doctest: +ELLIPSIS
    '["keyturn decision 1",{"args":null,"basis":null,"digest":"d1","grant":null,...,"verdict":"approve"}]'
    """
    _check_names(tenant=tenant, request=request)
    counted: object = revision
    if not isinstance(counted, int) or isinstance(counted, bool) or counted < 1:
        raise UserError(f"revision counts how often the request was asked, from 1 on; not {revision!r}")
    if not isinstance(cast("object", decision), Decision):
        raise UserError("decision is a Decision")
    said = {name: getattr(decision, name) for name in SAID}
    said |= {name: getattr(decision, name) for name in SAID_ALSO if getattr(decision, name) not in (None, False)}
    about = {"tenant": tenant, "request": request, "revision": revision}
    keyed = decision.args is not None and decision.key
    if keyed:  # else who is given the challenge could try which secret it is of
        said["args"] = keyed_digest(decision.key, "args", decision.args)
    return canonical([KEYED_TAG if keyed else DECISION_TAG, {**about, **said, "grant": _granted(grant)}])


def decision_challenge(
    tenant: str, request: str, revision: int, decision: Decision, grant: GrantTerms | None = None
) -> bytes:
    """Return the challenge of a decision: 32 bytes that nothing else that anybody can say has.

    `request` is the id of the request and `revision` how often it was asked. Raises `BadJson` where an output or a
    predicate is not exact JSON: what has no one text cannot be signed.

    >>> one = decision_challenge("acme", "5e1f", 1, Decision("r/1.0", "approve", "d1"))
    >>> one == decision_challenge("acme", "5e1f", 2, Decision("r/1.0", "approve", "d1"))
    False
    """
    return sha256(decision_text(tenant, request, revision, decision, grant).encode()).digest()


def key_text(tenant: str, person: str, scheme: str, key_id: str, public: bytes, verdict: KeyVerdict = "confirm") -> str:
    """Return the canonical text of what somebody says of a person's key.

    >>> key_text("acme", "ada", "ssh", "SHA256:5e1f", b"ssh-ed25519 AAAA")  # doctest: +ELLIPSIS
    '["keyturn key 1",{"key":"SHA256:5e1f","person":"ada","public":"...","scheme":"ssh",...}]'
    """
    _check_names(tenant=tenant, person=person, scheme=scheme, key_id=key_id)
    if verdict not in ("enrol", "confirm", "revoke"):
        raise UserError(f"the verdict on a key must be enrol, confirm or revoke, not {verdict!r}")
    said = {"tenant": tenant, "person": person, "scheme": scheme, "key": key_id, "verdict": verdict}
    return canonical([KEY_TAG, {**said, "public": sha256(public).hexdigest()}])


def key_challenge(
    tenant: str, person: str, scheme: str, key_id: str, public: bytes, verdict: KeyVerdict = "confirm"
) -> bytes:
    """Return the challenge of what is said of a person's key: enrol (by that very key), confirm, or revoke.

    >>> len(key_challenge("acme", "ada", "ssh", "SHA256:5e1f", b"ssh-ed25519 AAAA"))
    32
    """
    return sha256(key_text(tenant, person, scheme, key_id, public, verdict).encode()).digest()


def _granted(grant: GrantTerms | None) -> dict[str, object] | None:
    if grant is None:
        return None
    if grant.call is not None:
        raise UserError("a grant that a run borrowed cannot be signed: use the terms as they were given")
    return {name: getattr(grant, name) for name in GRANT_SAID}


def _check_names(**names: object) -> None:
    for what, name in names.items():
        if not plain_text(name, what):
            raise UserError(f"{what} is not empty")
