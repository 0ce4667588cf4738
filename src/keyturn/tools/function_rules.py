"""What the attributes of a function tool may be, and what follows from each where it is set after construction."""

from __future__ import annotations

from typing import Any, cast

from ..core.items import own_copy
from ..core.settable import CALLBACK, ELSEWHERE, FLAG, SECONDS, TEXT, Rule, own_of, refusal, then
from .functions.bound import BoundFunction, ToolErrorFunction
from .functions.options import BEHAVIOR, INVOKER, PREVIEW
from .strict_schema import ensure_strict_json_schema


def _own_schema(tool: object, name: str, given: object) -> Any:
    """Keep a schema of the tool's own, in the strict form where it is written by hand and the tool is strict."""
    if not isinstance(given, dict):
        raise refusal(tool, name, "a dict", given)
    own = own_of(tool)
    own["_given_schema"] = given
    schema = cast("dict[str, Any]", given)
    by_hand = own.get("_schema") is None and own.get("strict_json_schema", True)
    return own_copy(ensure_strict_json_schema(schema) if by_hand else schema)


def _strict(tool: Any, name: str, given: object) -> Any:
    own = own_of(tool)
    before = own.get(name)
    if before is not None and before != given and own.get("_schema") is not None:
        raise AttributeError(f"{name!r} of tool {tool.name!r} cannot be set: declare it with strict_mode={given!r}")
    own[name] = FLAG(tool, name, given)
    if before is not None:
        tool.params_json_schema = own["_given_schema"]
    return given


def _follow_invoker(tool: object, invoker: object) -> None:
    """Validate by the signature of a bound function; what is put in front of one later gets what that validated."""
    own = own_of(tool)
    own["_schema"] = invoker.schema if isinstance(invoker, BoundFunction) else own.get("_schema")


def _follow_failure(tool: object, failure: ToolErrorFunction | None) -> None:
    """Let a call of the function past the engine fail as a call of the tool does."""
    own = own_of(tool)
    invoker = own.get("on_invoke_tool")
    if isinstance(invoker, BoundFunction):
        own["on_invoke_tool"] = BoundFunction(invoker.func, invoker.schema, failure)


def _own_preview(tool: object, name: str, given: object) -> Any:
    """Keep a function for the preview beside the method that calls it."""
    own_of(tool)["_preview"] = PREVIEW(tool, name, given)
    return ELSEWHERE


FUNCTION_RULES: dict[str, Rule] = {
    "description": TEXT,
    "on_invoke_tool": then(INVOKER, _follow_invoker),
    "strict_json_schema": _strict,
    "params_json_schema": _own_schema,
    "failure_error_function": then(CALLBACK, _follow_failure),
    "timeout_seconds": SECONDS,
    "timeout_behavior": BEHAVIOR,
    "timeout_error_function": CALLBACK,
    "preview": _own_preview,
}
