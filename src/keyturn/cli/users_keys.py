"""The words of `keyturn users` about people's own keys: enrol one, confirm that it is its owner's, list them.

ssh keys only: a passkey is enrolled in a browser.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..proofs import scheme as scheme_named
from ..proofs.ssh_signing import sign_with_ssh
from ..render.escape import escape
from ..wire.people import KeySeen
from .seats.base import PeopleSeat
from .with_journal import Told


async def list_keys(people: PeopleSeat, arguments: argparse.Namespace) -> Told:
    """List the keys of everybody, or of one person."""
    whose = arguments.whose or None
    book = await people.book()
    if whose is not None and whose not in [each.id for each in book.people]:
        raise UserError(f"no user named {whose!r} is in this directory")
    found = [each for each in book.keys if whose in (None, each.person)]
    rows = [f"{escape(key.person, keep='')}: {key_line(key)}" for key in found]
    return Told(rows or ["no keys: keyturn users enrol-key ~/.ssh/id_ed25519.pub"], [_data(key) for key in found])


async def enrol_key(people: PeopleSeat, given: argparse.Namespace) -> Told:
    """Enrol the key of a `.pub` file for whoever does it, who signs with it to show that they have it."""
    public = Path(given.file).expanduser()
    try:
        text = public.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the key cannot be read from {given.file!r}: {type(error).__name__}") from None
    if "PRIVATE KEY" in text:
        raise UserError(f"{given.file!r} is a private key, which must stay secret: name its .pub file")
    key = scheme_named("ssh").enrol(text, label=given.label or "")
    made = await people.enrol(key, text, partial(sign_with_ssh, key_path=given.sign_with or _other_half(public)))
    rows = [key_line(made), f"it is valid once it is confirmed: keyturn users confirm-key {made.id}"]
    return Told(rows, _data(made))


async def confirm_key(people: PeopleSeat, given: argparse.Namespace) -> Told:
    """Confirm a key; the first key of a directory needs no signature."""
    sign = partial(sign_with_ssh, key_path=given.sign_with)
    key = await people.confirm(given.id, None if given.sign_with is None else sign)
    return Told([key_line(key)], _data(key))


def _other_half(public: Path) -> Path:
    """Return the private key beside a public one; the public one itself where an agent has the other half."""
    private = public.with_suffix("")
    return private if public.suffix == ".pub" and private.is_file() else public


def key_line(key: KeySeen) -> str:
    """Say of a key whether it counts."""
    state = "revoked" if key.revoked else f"confirmed by {key.confirmed_by}" if key.counts else "unconfirmed"
    words = [f"{key.scheme} key", key.id, key.label, state]
    return " ".join(escape(word, keep="") for word in words if word)


def _data(key: KeySeen) -> dict[str, Any]:
    confirmed = None if key.confirmed_at is None else f"{key.confirmed_at:%Y-%m-%dT%H:%M:%SZ}"
    about = {"key": key.id, "person": key.person, "scheme": key.scheme, "label": key.label, "counts": key.counts}
    return about | {"confirmed_at": confirmed, "confirmed_by": key.confirmed_by, "revoked": key.revoked}
