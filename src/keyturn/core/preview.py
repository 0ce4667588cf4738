"""The preview that an approver sees of a call: four kinds of block, and no fifth.

A tool of any kind says what it would do as text, command, diff or JSON, so that every face can show every
tool, and shows it all. Blocks hold plain data as it is: escaping is the renderer's work and happens once,
there. What is secret is replaced here, before a block is made; the digest binds the true value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias, cast

import msgspec

from .encodable import Encodable
from .errors import BadJson
from .strict import JsonValue


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="text", gc=False):
    """Shows words to read.

    >>> Text("Dear Ann, ...", label="body").label
    'body'
    """

    text: str
    label: str = ""


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="command", gc=False):
    """Shows a command line or a script, exactly as it would run.

    >>> Command("make clean", cwd="/srv/app").cwd
    '/srv/app'
    """

    command: str
    cwd: str = ""
    label: str = ""


class Diff(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="diff", gc=False):
    """Shows a text as it is and as it would be; whole texts, since the renderer finds the difference.

    >>> Diff(before="", after="port = 80", path="app.toml").path
    'app.toml'
    """

    before: str
    after: str
    path: str = ""
    label: str = ""


class Json(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="json"):
    """Shows a JSON value, in the order in which it was given.

    >>> Json({"amount": 30}).value
    {'amount': 30}
    """

    # A JsonValue; msgspec cannot read a type that names itself.
    value: Any
    label: str = ""


Block: TypeAlias = Text | Command | Diff | Json


class Preview(Encodable, frozen=True, forbid_unknown_fields=True):
    """Holds the blocks an approver sees of one call, in order, and one line that sums them up.

    `basis` says what of the world they were made of: a digest of each thing looked at, of a file's content by its path,
    say. An approval is void once that changed.

    >>> Preview((Command("ls"),), summary="list the files").summary
    'list the files'
    """

    blocks: tuple[Block, ...]
    summary: str = ""
    basis: dict[str, str] = msgspec.field(default_factory=dict[str, str])


REDACTED = "[redacted]"


def redact(value: JsonValue, secrets: Collection[str]) -> JsonValue:
    """Return a copy of `value` in which every parameter named in `secrets` holds the mark instead.

    A dot leads into an object, through lists as well. A name that fits in two ways is hidden in both.

    >>> redact({"user": "ann", "auth": {"token": "s3"}}, ["auth.token"])
    {'user': 'ann', 'auth': {'token': '[redacted]'}}
    """
    if not secrets or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [redact(member, secrets) for member in value]
    names = {secrets} if isinstance(secrets, str) else set(secrets)
    return {name: REDACTED if name in names else redact(member, _below(name, names)) for name, member in value.items()}


def _below(name: str, names: set[str]) -> set[str]:
    prefix = name + "."
    return {path[len(prefix) :] for path in names if path.startswith(prefix)}


def unredacted(wanted: Any, shown: Any, true: Any) -> Any:
    """Return redacted arguments that a person edited, each mark replaced by its true value again.

    A mark anywhere else is refused: it must never run as a password.
    """
    if wanted == REDACTED:
        if shown != REDACTED or true == REDACTED:
            raise BadJson(f"{REDACTED} stands for a value only where it was shown; write the value itself")
        return true
    if not isinstance(wanted, dict | list):
        return wanted
    seen = _members(shown)
    values = _members(true)
    made = {place: unredacted(part, seen.get(place), values.get(place)) for place, part in _members(wanted).items()}
    return made if isinstance(wanted, dict) else list(made.values())


def _members(value: Any) -> dict[Any, Any]:
    if isinstance(value, list):
        return dict(enumerate(cast("list[Any]", value)))
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
