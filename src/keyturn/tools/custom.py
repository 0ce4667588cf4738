"""Tools that take a free-form text: a query, a script, whatever a grammar allows, without JSON around it.

What the model wrote is what runs, to the letter. A provider that knows no such calls is offered the tool as a function
with one text, and what comes back is the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from ..core.approval import Approval
from ..core.digest import canonical
from ..core.errors import BadJson, UserError
from ..core.items import Item, own_copy
from ..core.preview import Command, Preview, Text
from ..core.settable import TEXT, Rules, must
from ..support.user_code import answer_of
from .base import InvalidArguments, NeedsApproval, Prepared, Tool
from .context import ToolContext
from .functions.options import INVOKER, IsEnabled
from .functions.structured import any_object
from .outputs import rendered

_SYNTAXES = ("lark", "regex")


def _checked_format(tool: CustomTool, _name: str, given: Any) -> Item | None:
    """Return a format of the tool's own, or refuse one that no provider takes."""
    match given:
        case None:
            return None
        case {"type": "text"}:
            return own_copy(dict(cast("Item", given)))
        case {"type": "grammar", "syntax": syntax, "definition": str()} if syntax in _SYNTAXES:
            return own_copy(dict(cast("Item", given)))
        case _:
            raise UserError(
                f'tool {tool.name!r}: format must be {{"type": "text"}}, or {{"type": "grammar", "syntax": "lark" or '
                '"regex", "definition": ...}'
            )


class CustomTool(Tool):
    """Takes one text as its input, in any form or in the one that a grammar describes.

    `on_invoke_tool(context, text)` runs it, sync or async. `needs_approval` callables get the text. `format` is as the
    Responses API takes it: `{"type": "text"}`, or `{"type": "grammar", "syntax": "lark" or "regex", "definition":
    ...}`. With `language` (`"sql"`, `"sh"`) people are shown the text as code.

    >>> tool = CustomTool("query", "Runs a query.", lambda context, text: f"ran {text}", needs_approval=True)
    >>> tool.prepare({"type": "custom_tool_call", "input": "select 1"}).params
    'select 1'
    """

    kind: ClassVar[str] = "custom"
    call_type: ClassVar[str] = "custom_tool_call"
    also_function: ClassVar[bool] = True
    description: str
    on_invoke_tool: Callable[[ToolContext[Any], str], Any]
    format: Item | None
    language: str | None
    _rules: ClassVar[Rules] = {
        "description": TEXT,
        "on_invoke_tool": INVOKER,
        "format": _checked_format,
        "language": must(lambda value: isinstance(value, str | None), "a string or None"),
    }

    def __init__(
        self,
        name: str,
        description: str,
        on_invoke_tool: Callable[[ToolContext[Any], str], Any],
        format: Mapping[str, Any] | None = None,
        needs_approval: NeedsApproval = False,
        on_approval: Callable[[Any, Any], Any] | None = None,
        *,
        language: str | None = None,
        is_enabled: IsEnabled = True,
        idempotent: bool = False,
        check: Callable[..., Any] | None = None,
        read_only: bool = False,
        approval: Approval | None = None,
        risk: str | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.on_invoke_tool = on_invoke_tool
        self.format = cast("Any", format)
        self.needs_approval = needs_approval
        self.on_approval = on_approval
        self.approval = approval
        self.language = language
        self.is_enabled = is_enabled
        self.risk = risk
        self.idempotent = idempotent
        self.check = check
        self.read_only = read_only

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @property
    def params_json_schema(self) -> dict[str, Any]:
        """Return the parameters of the function that the tool is where a provider knows no free-form calls."""
        said = "Free-form text, passed on exactly as it is."
        form = self.format or {}
        if form.get("type") == "grammar":
            said += f" It must match this grammar ({form['syntax']}):\n{form['definition']}"
        field = {"type": "string", "description": said}
        return {"type": "object", "properties": {"input": field}, "required": ["input"], "additionalProperties": False}

    @property
    def argument_schema(self) -> dict[str, Any]:
        """Return the schema of the free-form text: there are no arguments to compare by name."""
        return {"type": "string"}

    def provider_tool(self) -> Item:
        """Return the tool's definition for the Responses API."""
        made: Item = {"type": "custom", "name": self.name, "description": self.description}
        return made if self.format is None else {**made, "format": own_copy(self.format)}

    def spec(self) -> dict[str, Any]:
        """Return the name, description and format."""
        return {"kind": self.kind, "name": self.name, "description": self.description, "format": self.format}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Return the text as the model wrote it."""
        if item.get("type") != "function_call":
            return self.edit(item.get("input"))
        match any_object(self.name, cast("str", item.get("arguments") or "")).params:
            case {"input": text, **others} if not others:
                return self.edit(text)
            case _:
                raise InvalidArguments(f"The arguments of {self.name} are invalid: it takes one string, named input.")

    def edit(self, params: object) -> Prepared:
        """Return another text in its place."""
        if not isinstance(params, str):
            raise InvalidArguments(f"The input of {self.name} is invalid: it must be a string.")
        try:
            return Prepared(canonical(params))
        except BadJson as error:
            raise InvalidArguments(f"The input of {self.name} is invalid: it is {error}") from None

    async def invoke(self, context: ToolContext[Any], prepared: Prepared) -> Any:
        """Run the tool on the text."""
        context.tool_arguments = prepared.params
        return await answer_of(self.on_invoke_tool, context, prepared.params)

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the result, of the type that goes with the call."""
        return {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": rendered(value)}

    def preview(self, params: str) -> Preview:
        """Show the text as it is; as code, where the tool says which language it is."""
        return Preview(
            (Text(params, label="input") if self.language is None else Command(params, label=self.language),)
        )
