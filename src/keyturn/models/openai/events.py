"""The events of a stream of the Responses API as the SDK's own objects, made from their JSON.

They are what the SDK would have made, a twentieth of its time for the many small ones: it tries the types of all events
before it takes the one that the event names. An event of a type that the SDK does not know is a `StreamEvent`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast, get_args

from ...core.errors import ModelBehaviorError
from ..reply_events import StreamEvent


def sdk_event(given: Any) -> Any:
    """One event, from its JSON."""
    fields: dict[str, Any] = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise ModelBehaviorError("the model's stream has an event without a type")
    made = _types().get(kind)
    if made is None:
        return StreamEvent(**fields)
    if kind.endswith(".delta"):
        try:
            return made.model_validate(fields, strict=True)  # changes nothing, or refuses
        except ValueError:
            pass
    return made.model_construct(**fields)  # the SDK's own way: what its types do not foresee is kept as it came


@cache
def _types() -> dict[str, Any]:
    """The SDK's class for each type of event."""
    from openai.types.responses import ResponseStreamEvent

    classes: tuple[Any, ...] = get_args(get_args(ResponseStreamEvent)[0])
    return {kind: each for each in classes for kind in get_args(each.model_fields["type"].annotation)}
