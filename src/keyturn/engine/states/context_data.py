"""Convert the caller's context to data that a state or a journal can carry, never revived by type."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from ...agents.context import RunContextWrapper
from ...agents.context_type import made_as, same
from ...core import commands as cm
from ...core.errors import StateRejected, UserError
from ...core.run import Run
from ...support.user_code import run_callback
from ..driving.drive import Drive
from ..logger import error_words, logger
from ..run.open_run import OpenRun

_REMEDY = (
    "pass context_serializer= (and context_deserializer= when you load), or context= at resume; a dataclass or a "
    "pydantic model comes back by context_type=, or by an Agent[Ctx]"
)
_MORE = f"the state's context needs more than its data to come back; {_REMEDY}"
_KEPT = "pass context_serializer= and context_deserializer= to the App"


def dump_context(wrapper: RunContextWrapper[Any], serializer: Callable[[Any], Any] | None, *, strict: bool) -> str:
    """Return the context as text: its kind, and its data."""
    saved = _plain(wrapper.context, serializer)
    if saved["kind"] == "omitted":
        what = type(wrapper.context).__name__
        if strict:
            raise UserError(f"a context of type {what} cannot be saved; {_REMEDY}")
        warnings.warn(f"the context of type {what} is not saved with the state; {_REMEDY}", stacklevel=4)
    try:
        return msgspec.json.encode(saved).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"the context holds something that cannot be saved ({error}); {_REMEDY}") from None


def _plain(context: object, serializer: Callable[[Any], Any] | None) -> dict[str, Any]:
    """Return a context as data, with what kind of data it is; what has a type says its name."""
    if serializer is not None:
        return {"kind": "serialized", "data": run_callback(serializer, context)}
    if context is None or isinstance(context, str | int | float | bool | list):
        return {"kind": "plain", "data": cast("Any", context)}
    if isinstance(context, Mapping):
        return {"kind": "plain", "data": dict(cast("Mapping[str, Any]", context))}
    dump = getattr(context, "model_dump", None)
    if dump is not None:
        return {"kind": "typed", "data": run_callback(dump, mode="json"), "type": type(context).__qualname__}
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        return {"kind": "typed", "data": run_callback(dataclasses.asdict, context), "type": type(context).__qualname__}
    return {"kind": "omitted", "data": None}


class Maker(NamedTuple):
    """Says what makes a context of its data: the caller's function, or its type."""

    function: Callable[[Any], Any] | None = None
    type: type[Any] | None = None


def load_context(text: str, override: object, maker: Maker, *, strict: bool) -> RunContextWrapper[Any]:
    """Restore the context; what had a type comes back as plain data unless a deserializer or its type makes it."""
    if override is not None:
        return RunContextWrapper(override)
    try:
        saved = msgspec.json.decode(text, type=dict[str, Any])
        return made_of(saved, maker, strict=strict)
    except (msgspec.MsgspecError, KeyError, RecursionError):
        raise StateRejected("the state's context is not one; use the state as it was saved") from None


def made_of(saved: Mapping[str, Any], maker: Maker, *, strict: bool = False) -> RunContextWrapper[Any]:
    """Make a context of its kind and its data."""
    kind, data = saved["kind"], saved["data"]
    if maker.function is not None and data is not None:
        return RunContextWrapper(run_callback(maker.function, data))
    if maker.type is not None and kind == "typed":
        return RunContextWrapper(_typed(maker.type, data, saved.get("type")))
    bare = kind in ("typed", "serialized") and maker.function is None
    if strict and (bare or kind == "omitted"):
        raise UserError(_MORE)
    if bare:
        warnings.warn(f"the state's context comes back as plain data; {_REMEDY}", stacklevel=4)
    return RunContextWrapper(data)


def only_data(run: Run, wrapper: RunContextWrapper[Any], made_by: Callable[[Any], Any] | None) -> object:
    """Return the data that the context which a journal keeps of a run came back as; None where it came back whole."""
    kept = run.context
    if kept is None or kept["kind"] not in ("typed", "serialized") or made_by is not None:
        return None
    return wrapper.context if _plain(wrapper.context, None)["kind"] == "plain" else None


def check_whole(live: OpenRun) -> None:
    """Refuse to move a run that a journal keeps with the bare data of its context: its tools would do other things.

    What they leave of it would be saved in place of the context, for every other process.
    """
    if live.journal is None or live.only_data is None or live.context.context is not live.only_data:
        return
    raise UserError(_MORE)


def _typed(kind: type[Any], data: Any, saved: str | None = None) -> Any:
    """Make a context of its type; what the type has no place for is not dropped without a word, a class neither."""
    made = run_callback(made_as, kind, data)
    lost = sorted(set(data) - set(_plain(made, None)["data"]))
    if lost:
        raise UserError(f"the saved context has {', '.join(lost)}, which {kind.__name__} has not; {_REMEDY}")
    if saved not in (None, kind.__qualname__):  # it may have been derived from the type, and do something else
        was = saved.rpartition(".")[2]
        raise UserError(f"the saved context is that of a {was}, and is to come back as a {kind.__name__}; {_REMEDY}")
    return made


def check_returns(context: object, serializer: Callable[[Any], Any] | None, maker: Maker) -> None:
    """Refuse a context that would come back after a pause as something else than it is, before its run starts."""
    what = type(context).__name__
    if maker.type is not None and context is not None and type(context) is not maker.type:
        raise UserError(f"this run's context must be a {maker.type.__name__}, and it is a {what}")
    saved = _plain(context, serializer)
    if saved["kind"] == "omitted":
        raise UserError(f"a context of type {what} cannot be kept with a run; {_KEPT}")
    try:
        data = msgspec.json.decode(msgspec.json.encode(saved["data"]))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"the context holds something that cannot be kept with a run ({error}); {_KEPT}") from None
    if saved["kind"] == "serialized" and maker.function is None:
        raise UserError(f"a serialized context would come back after a pause as plain data; {_KEPT}")
    if saved["kind"] != "typed" or maker.function is not None:
        return
    if maker.type is None:
        raise UserError(
            f"a context of type {what} would come back after a pause as plain data: say App(context_type={what}), or "
            f"make its agent as Agent[{what}](...)"
        )
    if not same(context, _typed(maker.type, data)):
        raise UserError(f"this {what} would come back after a pause as another one than it is; {_KEPT}")


async def keep_context(drive: Drive) -> None:
    """Record the context of a run that a journal keeps, so that whoever takes the run up has it."""
    saving = context_now(drive.live)
    if saving:
        await drive.commit(*saving)


def is_kept(live: OpenRun) -> bool:
    """Return whether the journal of a run has its context as it is now."""
    try:
        return all(saving.context == live.run.context for saving in context_now(live))
    except Exception:  # whoever keeps it says why it cannot be kept
        return False


def context_now(live: OpenRun) -> list[cm.SaveContext]:
    """Return the command that saves the context as it is now; none without a journal, or where it is no data."""
    if live.journal is None or live.context.context is None:
        return []
    saved = _plain(live.context.context, live.serializer)
    if saved["kind"] == "omitted":
        return []
    try:
        snapshot = msgspec.json.decode(msgspec.json.encode(saved))
    except (TypeError, ValueError, RecursionError) as error:
        if live.serializer is not None:
            raise UserError(f"the context's serializer gave something that cannot be saved ({error})") from None
        logger.info("the context of run %s is not kept, a resume begins without: %s", live.run.id, error_words(error))
        return []
    return [cm.SaveContext(snapshot)]
