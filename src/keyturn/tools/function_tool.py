"""The class of function tools: a Python function, or a hand-made callback, that the model can call.

The tool's own settings live here, and how a call of it is prepared, run in time and rendered. Whether a call
may run is not decided here: `needs_approval` is only kept for the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from ..core.approval import Approval
from ..core.errors import ToolTimeoutError, UserError
from ..core.items import Item, own_copy
from ..core.preview import Command, Diff, Json, Preview, Text, redact
from ..support.user_code import answer_of, class_name, run_callback
from .base import NeedsApproval, OutcomeUnknown, Prepared, Tool, ToolProblem, redacts
from .context import ToolContext
from .function_rules import FUNCTION_RULES
from .functions.bound import BoundFunction, CallSchema, ToolErrorFunction, default_tool_error_function, told
from .functions.options import PREVIEW, IsEnabled, PreviewFunction, TimeoutBehavior
from .functions.structured import any_object
from .outputs import rendered

_NOTHING: Mapping[str, str] = {}


class FunctionTool(Tool):
    """Runs a Python callable with JSON arguments.

    `function_tool` makes one of a function; make one by hand for full control.

    A hand-made tool gets its `ToolContext` and the arguments as a JSON object's text, and validates them itself.

    >>> async def echo(context, arguments):
    ...     return arguments
    >>> tool = FunctionTool("echo", "Says it again.", {"type": "object", "properties": {}}, echo)
    >>> tool.prepare({"arguments": "{}"}).params
    {}
    """

    kind: ClassVar[str] = "function"
    description: str
    params_json_schema: dict[str, Any]
    on_invoke_tool: Callable[[Any, str], Any]
    strict_json_schema: bool
    timeout_seconds: float | None
    timeout_behavior: TimeoutBehavior
    timeout_error_function: ToolErrorFunction | None
    failure_error_function: ToolErrorFunction | None
    _rules = FUNCTION_RULES
    _remedies: ClassVar[Mapping[str, str]] = {
        "files": "declare the tool with function_tool(files=...), so that its approvals are bound to files",
        "function": "make another tool with function_tool(...)",
    }
    _schema: CallSchema | None = None
    _preview: PreviewFunction | None = None
    _spec: dict[str, Any] | None = None

    def __init__(
        self,
        name: str,
        description: str,
        params_json_schema: dict[str, Any],
        on_invoke_tool: Callable[[ToolContext[Any], str], Any],
        strict_json_schema: bool = True,
        is_enabled: IsEnabled = True,
        tool_input_guardrails: list[Any] | None = None,
        tool_output_guardrails: list[Any] | None = None,
        needs_approval: NeedsApproval = False,
        timeout_seconds: float | None = None,
        timeout_behavior: TimeoutBehavior = "error_as_result",
        timeout_error_function: ToolErrorFunction | None = None,
        *,
        idempotent: bool = False,
        check: Callable[..., Any] | None = None,
        read_only: bool = False,
        preview: PreviewFunction | None = None,
        approval: Approval | None = None,
        risk: str | None = None,
        secrets: tuple[str, ...] = (),
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
    ) -> None:
        self.name = name
        self.description = description
        self.on_invoke_tool = on_invoke_tool
        self.strict_json_schema = strict_json_schema
        self.params_json_schema = params_json_schema
        self.is_enabled = is_enabled
        self.tool_input_guardrails, self.tool_output_guardrails = tool_input_guardrails, tool_output_guardrails
        self.needs_approval = needs_approval
        self.approval = approval
        self.risk = risk
        self.secrets = secrets
        self.timeout_seconds, self.timeout_behavior = timeout_seconds, timeout_behavior
        self.timeout_error_function, self.failure_error_function = timeout_error_function, failure_error_function
        self.idempotent = idempotent
        self.check = check
        self.read_only = read_only
        vars(self)["_preview"] = PREVIEW(self, "preview", preview)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @property
    def qualified_name(self) -> str:
        """Return the name under which people and models know the tool."""
        return self.name

    @property
    def blocking(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is what the function is
        """Return whether a call works in a worker thread, as a plain function does."""
        return self._schema is not None and not self._schema.is_async

    def spec(self) -> dict[str, Any]:
        """Return name, description, schema and all else that identifies the tool: the same dict until one changes."""
        told, also = self._spec, self._identity()
        schema = self.params_json_schema
        if (
            told is None
            or told["schema"] is not schema
            or told["name"] is not self.name
            or told["description"] is not self.description
            or (also and any(told[name] != value for name, value in also.items()))
        ):
            told = {"kind": self.kind, "name": self.name, "description": self.description, "schema": schema, **also}
            vars(self)["_spec"] = told
        return told

    def _identity(self) -> Mapping[str, str]:
        """Return what else identifies the tool, as it is now."""
        return _NOTHING

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Validate the model's arguments by the function's signature; of a hand-made tool, take any JSON object."""
        text: str = item.get("arguments") or ""
        if self._schema is not None:
            frozen = self._schema.freeze(text)
            return Prepared(text if frozen.exact else frozen.text)
        return any_object(self.name, text)

    async def invoke(self, context: object, prepared: Prepared) -> Any:
        """Run the function, within its timeout where it has one."""
        if self.timeout_seconds is None:
            return await self._run(context, prepared.text)
        return await self._in_time(context, prepared.text, self.timeout_seconds)

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the call's result as the model reads it."""
        return {"type": "function_call_output", "call_id": item["call_id"], "output": rendered(value)}

    async def failure(self, context: object, error: Exception) -> Any:
        """Return what `failure_error_function` says; with None, and for what must stop the run, raise the error."""
        if isinstance(error, ToolTimeoutError | OutcomeUnknown):
            raise error
        if isinstance(error, ToolProblem) and self.failure_error_function is default_tool_error_function:
            return str(error)
        return await told(self.failure_error_function, context, error)

    @redacts
    def preview(self, params: dict[str, Any]) -> Preview:
        """Show what `preview=` makes of the arguments, else the arguments themselves; secrets are redacted before."""
        shown = redact(params, self.secrets)
        if self._preview is None:
            return Preview((Json(shown),))
        try:
            return _preview_of(run_callback(self._preview, own_copy(shown)))
        except Exception as error:
            # A broken preview must neither hide the call nor let it pass: the arguments are always there to show.
            note = f"This tool's own preview failed ({class_name(error)}); these are its arguments."
            return Preview((Text(note), Json(shown)))

    async def _run(self, context: object, text: str) -> Any:
        invoker = self.on_invoke_tool
        if isinstance(invoker, BoundFunction):
            return await invoker.call(context, text)
        return await answer_of(invoker, context, text)

    async def _in_time(self, context: object, text: str, seconds: float) -> Any:
        import asyncio  # here for the same reason as in `bound`

        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._run(context, text)
        except TimeoutError:
            if not limit.expired():
                raise
        if self.blocking and not self.read_only:
            raise OutcomeUnknown(f"it did not end within {seconds:g} s and cannot be stopped: its thread may still act")
        error = ToolTimeoutError(self.name, seconds)
        if self.timeout_behavior == "raise_exception":
            raise error
        if self.timeout_error_function is None:
            return f"Tool '{self.name}' timed out after {seconds:g} seconds."
        return await told(self.timeout_error_function, context, error)


def _preview_of(made: Any) -> Preview:
    if isinstance(made, Preview):
        return made
    several = cast("list[Any]", made) if isinstance(made, list | tuple) else [made]
    blocks = tuple(Text(each) if isinstance(each, str) else each for each in several)
    if not blocks or not all(isinstance(each, Text | Command | Diff | Json) for each in blocks):
        raise UserError("a preview must be a Preview, a string, a block, or a list of strings and blocks")
    return Preview(blocks)
