"""The preview that an approver sees of a call: four kinds of block, and no fifth.

A tool of any kind says what it would do as text, command, diff or JSON, so that every face can show every
tool, and shows it all. Blocks hold plain data as it is: escaping is the renderer's work and happens once,
there. What is secret is replaced here, before a block is made; the digest binds the true value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from .digest import canonical
from .encodable import Encodable
from .errors import BadJson
from .immutable import immutable
from .strict import JsonValue, parse
from .values import as_list, as_object


@immutable
class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="text", gc=False):
    """Shows words to read.

    >>> Text("Dear Ann, ...", label="body").label
    'body'
    """

    text: str
    label: str = ""


@immutable
class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="command", gc=False):
    """Shows a command line or a script, exactly as it would run.

    >>> Command("make clean", cwd="/srv/app").cwd
    '/srv/app'
    """

    command: str
    cwd: str = ""
    label: str = ""


@immutable
class Diff(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="diff", gc=False):
    """Shows a text as it is and as it would be; whole texts, since the renderer finds the difference.

    >>> Diff(before="", after="port = 80", path="app.toml").path
    'app.toml'
    """

    before: str
    after: str
    path: str = ""
    label: str = ""


@immutable
class Json(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="json"):
    """Shows a JSON value, in the order in which it was given.

    >>> Json({"amount": 30}).value
    {'amount': 30}
    """

    # A JsonValue; msgspec cannot read a type that names itself.
    value: Any
    label: str = ""


_F = TypeVar("_F", bound=Callable[..., Any])
Block: TypeAlias = Text | Command | Diff | Json


@immutable
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


def redact(value: JsonValue, secrets: Collection[str], mark: Any = REDACTED) -> JsonValue:
    """Return a copy of `value` in which every parameter named in `secrets` holds the mark instead.

    A dot leads into an object, through lists as well. A name that fits in two ways is hidden in both. Of arguments that
    are one text, which has no name, all is hidden.

    >>> redact({"user": "ann", "auth": {"token": "s3"}}, ["auth.token"])
    {'user': 'ann', 'auth': {'token': '[redacted]'}}
    """
    if not secrets or value is None:
        return value
    return _redacted(value, {secrets} if isinstance(secrets, str) else set(secrets), mark, whole=True)


def _redacted(value: JsonValue, names: set[str], mark: Any, *, whole: bool = False) -> JsonValue:
    if isinstance(value, list):
        return [_redacted(member, names, mark) for member in value]
    if isinstance(value, dict):
        return {
            name: mark if name in names else _redacted(member, _below(name, names), mark)
            for name, member in value.items()
        }
    return mark if whole else value


def hidden_text(text: str, secrets: Collection[str]) -> str:
    """Return the text of arguments with the secrets in it redacted; all of it is where it is no object that is read.

    >>> hidden_text('{"key": "s3"}', ["key"]), hidden_text('["s3"]', ["key"]), hidden_text("{", [])
    ('{"key":"[redacted]"}', '[redacted]', '{')
    """
    if not secrets or not text:
        return text
    try:
        read = parse(text)
        return canonical(redact(read, secrets)) if isinstance(read, dict) else REDACTED
    except BadJson:
        return REDACTED


def _below(name: str, names: set[str]) -> set[str]:
    prefix = name + "."
    return {path[len(prefix) :] for path in names if path.startswith(prefix)}


def unredacted(wanted: object, shown: object, true: object) -> Any:
    """Return redacted arguments that a person edited, each mark replaced by its true value again.

    A mark anywhere else is refused: it must never run as a password. So is one in a list that was changed so that
    nobody can say whose secret it stands for.

    >>> true = [{"user": "ann", "key": "s1"}, {"user": "bob", "key": "s2"}]
    >>> unredacted([{"user": "bob", "key": REDACTED}], redact(true, ["key"]), true)
    [{'user': 'bob', 'key': 's2'}]
    """
    if wanted == REDACTED:
        if shown != REDACTED or true == REDACTED:
            raise BadJson(f"{REDACTED} stands for a value only where it was shown; write the value itself")
        return true
    if isinstance(wanted, list):
        return _unredacted_list(cast("list[Any]", wanted), as_list(shown), as_list(true))
    if not isinstance(wanted, dict):
        return wanted
    seen = as_object(shown)
    values = as_object(true)
    return {
        name: unredacted(part, seen.get(name), values.get(name))
        for name, part in cast("dict[str, Any]", wanted).items()
    }


def _unredacted_list(wanted: list[Any], shown: list[Any], true: list[Any]) -> list[Any]:
    """Replace the marks of a list: a member that moved takes its own secret along, never its neighbour's."""
    seen = {place: _text_of(part) for place, part in enumerate(shown) if _is_marked(part)}
    homes = dict[bytes, list[int]]()
    for place, text in seen.items():
        homes.setdefault(text, []).append(place)
    twins = {text for text, places in homes.items() if any(true[place] != true[places[0]] for place in places)}
    here = {place: _text_of(part) for place, part in enumerate(wanted) if _is_marked(part)}
    moved = len(wanted) != len(shown)
    changed = [place for place, text in seen.items() if here.get(place) != text]
    made = list(wanted)
    for place, text in here.items():
        home = place
        if moved or seen.get(place) != text:
            if text in twins or (text not in homes and (moved or changed != [place])):
                raise BadJson(_WHOSE)
            home = homes.get(text, [place])[0]
        made[place] = unredacted(wanted[place], shown[home], true[home])
    return made


_WHOSE = f"the value that {REDACTED} stands for is unknown in a list that was changed like this; write the value itself"


def _is_marked(value: object) -> bool:
    if isinstance(value, list):
        return any(_is_marked(member) for member in cast("list[Any]", value))
    if isinstance(value, dict):
        return any(_is_marked(member) for member in cast("dict[str, Any]", value).values())
    return value == REDACTED


def _text_of(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def redacts(preview: _F) -> _F:
    """Declare that a tool's preview shows nothing of what the tool marks as secret."""
    preview.__dict__["redacts"] = True
    return preview


def plain_preview(params: Any, secrets: tuple[str, ...] = (), note: str = "") -> Preview:
    """Make a preview of the arguments themselves, with a word in front where there is one."""
    shown = Json(redact(params, secrets))
    return Preview((Text(note), shown) if note else (shown,))


def not_blank(preview: Preview, params: Any, secrets: tuple[str, ...] = ()) -> Preview:
    """Return a preview, with the arguments themselves if it has no block: what nobody sees, nobody approves.

    >>> not_blank(Preview((), summary="pay"), {"to": "ada"}).blocks
    (Json(value={'to': 'ada'}, label=''),)
    """
    if preview.blocks:
        return preview
    return msgspec.structs.replace(preview, blocks=plain_preview(params, secrets).blocks)


def shown_preview(tool: object, made: Preview, params: Any, secrets: tuple[str, ...]) -> Preview:
    """Return what a tool made of arguments as people are shown it; what it was made of is kept.

    >>> shown_preview(object(), Preview((Text("as s3"),)), {"key": "s3"}, ("key",)).blocks
    (Json(value={'key': '[redacted]'}, label=''),)
    """
    if secrets and not getattr(getattr(type(tool), "preview", None), "redacts", False):
        return Preview(plain_preview(params, secrets).blocks, basis=made.basis)
    return not_blank(made, params, secrets)
