"""Save a state as a signed plain dict, and load it: a header, the log's lines, the undelivered decisions.

Nothing derived is saved. The whole is authenticated; the version is checked first, then the MAC, then the shape, and
nothing inside is believed before. A text of lines survives what databases do to numbers and keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...core.errors import StateRejected
from ...core.upcasts import VERSION, readable
from ...support.keys import OLD_VARIABLE, VARIABLE, ring

MAX_BYTES = 64 * 1024 * 1024
_PARTS = ("run", "agent", "context", "log", "undelivered")
_FRAMED = ("schema_version", *_PARTS)
_NEEDED = frozenset(_PARTS)
_KNOWN = frozenset((*_FRAMED, "mac"))
_STATE = "state"
_encoder = msgspec.json.Encoder()


class Blob(msgspec.Struct, frozen=True):
    """Holds the five texts of a state."""

    run: str
    agent: str
    context: str
    log: str
    undelivered: str
    version: str = VERSION


def pack(blob: Blob) -> dict[str, Any]:
    """Pack a state as a signed plain dict."""
    made: dict[str, Any] = {"schema_version": blob.version}
    made |= {name: getattr(blob, name) for name in _PARTS}
    made["mac"] = ring().mac(_STATE, _framed(made))
    return made


def _framed(data: Mapping[str, Any]) -> bytes:
    """Return what the MAC covers: each text behind its length."""
    return b"".join([b"%d:%b" % (len(part := data[name].encode()), part) for name in _FRAMED])


def to_text(packed: dict[str, Any]) -> str:
    """Encode the dict as text."""
    return _encoder.encode(packed).decode()


def from_text(text: str | bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Decode the text, or raise `StateRejected`."""
    if not isinstance(text, str | bytes):
        raise StateRejected(f"a saved state is text, not {type(text).__name__}; pass what to_string() returned")
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise StateRejected(
            f"this state has {size} bytes, more than the limit of {max_bytes}; raise max_bytes to read it"
        )
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError, ValueError):
        raise StateRejected("this is not a saved state: it is not JSON; pass what to_string() returned") from None


def unpack(data: object, *, allow_unsigned: bool = False, max_bytes: int = MAX_BYTES) -> Blob:
    """Authenticate a dict and return the state it holds, or raise `StateRejected`."""
    if not isinstance(data, Mapping):
        raise StateRejected("this is not a saved state: it is not an object; pass what to_json() returned")
    data = cast("Mapping[str, Any]", data)
    _check_version(data)
    _check_texts(data, max_bytes)
    if not (allow_unsigned and data.get("mac") is None):
        _check_mac(data)
    return Blob(*(data[name] for name in _PARTS), version=data["schema_version"])


def _check_version(data: Mapping[str, Any]) -> None:
    version = data.get("schema_version")
    known = readable()
    older = isinstance(version, str) and version.isdecimal() and len(version) <= len(known[0])
    if older and int(cast("str", version)) < int(known[0]):
        raise StateRejected(
            f"this state was written by an older format; supported: {known[0]}. Finish its run with the Keyturn that "
            "wrote it"
        )
    if not isinstance(version, str) or version not in known:
        found = "names no version" if version is None else "has a version that this Keyturn cannot read"
        span = known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
        raise StateRejected(
            f"this state {found}; supported: {span}. Read it with the Keyturn that wrote it, or a newer one"
        )


def _check_texts(data: Mapping[str, Any], max_bytes: int) -> None:
    remedy = "pass what to_json() returned, unchanged"
    if not data.keys() >= _NEEDED:
        missing = [repr(part) for part in _PARTS if part not in data]
        raise StateRejected(f"this state lacks its part {', '.join(missing)}; {remedy}")
    size = 0
    for part in _PARTS:
        text = data[part]
        if not isinstance(text, str):
            raise StateRejected(f"the part {part!r} of this state is not a text, but {_kind(text)}; {remedy}")
        size += len(text)
    if not data.keys() <= _KNOWN:
        raise StateRejected(f"this state has parts that are none of a state; {remedy}")
    if size > max_bytes:
        raise StateRejected(f"this state is larger than the limit of {max_bytes} bytes; raise max_bytes to read it")


def _kind(value: object) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


def _check_mac(data: Mapping[str, Any]) -> None:
    mac, keys = data.get("mac"), ring()
    if not isinstance(mac, str):
        raise StateRejected("this state is not signed; to read it all the same, pass allow_unsigned=True")
    name = mac.partition(".")[0]
    if name in keys.retired:
        raise StateRejected(
            f"this state was signed with key {name}, which was retired; put its secret into {OLD_VARIABLE} to read it "
            "all the same, or start its run anew"
        )
    if name not in keys:
        raise StateRejected(
            f"this state was signed with another key, or with one that was retired since; give every process that "
            f"shares states the same {VARIABLE}, and older secrets that are still valid in {OLD_VARIABLE}"
        )
    try:
        fits = keys.fits(_STATE, mac, _framed(data))
    except UnicodeError:
        fits = False
    if not fits:
        raise StateRejected("this state was changed after it was saved: its MAC does not fit; use it as it was saved")
