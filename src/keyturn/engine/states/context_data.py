"""Convert the caller's context to data that a state or a journal can carry, never revived by type."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from ...agents.context import RunContextWrapper
from ...core import commands as cm
from ...core.errors import StateRejected, UserError
from ..driving.drive import Drive
from ..logger import error_words, logger
from ..run.open_run import OpenRun

_REMEDY = "pass context_serializer= (and context_deserializer= when you load), or context= at resume"


def dump_context(wrapper: RunContextWrapper[Any], serializer: Callable[[Any], Any] | None, *, strict: bool) -> str:
    """Return the context as text: its kind, and its data."""
    kind, data = _plain(wrapper.context, serializer)
    if kind == "omitted":
        what = type(wrapper.context).__name__
        if strict:
            raise UserError(f"a context of type {what} cannot be saved; {_REMEDY}")
        warnings.warn(f"the context of type {what} is not saved with the state; {_REMEDY}", stacklevel=4)
    try:
        return msgspec.json.encode({"kind": kind, "data": data}).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"the context holds something that cannot be saved ({error}); {_REMEDY}") from None


def _plain(context: Any, serializer: Callable[[Any], Any] | None) -> tuple[str, Any]:
    if serializer is not None:
        return "serialized", serializer(context)
    if context is None or isinstance(context, str | int | float | bool | list):
        return "plain", cast("Any", context)
    if isinstance(context, Mapping):
        return "plain", dict(cast("Mapping[str, Any]", context))
    dump = getattr(context, "model_dump", None)
    if dump is not None:
        return "typed", dump(mode="json")
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        return "typed", dataclasses.asdict(context)
    return "omitted", None


def load_context(
    text: str, override: Any, deserializer: Callable[[Any], Any] | None, *, strict: bool
) -> RunContextWrapper[Any]:
    """Restore the context; what had a type comes back as plain data unless a deserializer makes it."""
    if override is not None:
        return RunContextWrapper(override)
    try:
        saved = msgspec.json.decode(text, type=dict[str, Any])
        return made_of(saved, deserializer, strict=strict)
    except (msgspec.MsgspecError, KeyError, RecursionError):
        raise StateRejected("the state's context is not one; use the state as it was saved") from None


def made_of(
    saved: Mapping[str, Any], deserializer: Callable[[Any], Any] | None, *, strict: bool = False
) -> RunContextWrapper[Any]:
    """Make a context of its kind and its data."""
    kind, data = saved["kind"], saved["data"]
    if deserializer is not None and data is not None:
        return RunContextWrapper(deserializer(data))
    if kind in ("typed", "serialized", "omitted") and strict:
        raise UserError(f"the state's context needs more than its data to come back; {_REMEDY}")
    if kind in ("typed", "serialized"):
        warnings.warn(f"the state's context comes back as plain data; {_REMEDY}", stacklevel=4)
    return RunContextWrapper(data)


async def keep_context(drive: Drive) -> None:
    """Record the context of a run that a journal keeps, so that whoever takes the run up has it."""
    saving = context_now(drive.live)
    if saving:
        await drive.commit(*saving)


def context_now(live: OpenRun) -> list[cm.RunCommand]:
    """Return the command that saves the context as it is now; none without a journal, or where it is no data."""
    if live.journal is None or live.context.context is None:
        return []
    kind, data = _plain(live.context.context, live.serializer)
    if kind == "omitted":
        return []
    try:
        snapshot = msgspec.json.decode(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError) as error:
        if live.serializer is not None:
            raise UserError(f"the context's serializer gave something that cannot be saved ({error})") from None
        logger.info("the context of run %s is not kept, a resume begins without: %s", live.run.id, error_words(error))
        return []
    return [cm.SaveContext({"kind": kind, "data": snapshot})]
