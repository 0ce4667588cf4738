"""Hosted MCP: a server whose tools the provider calls, once somebody here has approved.

The provider does not run such a tool before it has the answer to its approval request. So approving is the whole
effect: the answer is an item of the next question to the model, inside of which the provider runs the tool. The call is
started with that question, and is over when its reply is recorded. There is nothing here to be edited, and no result
that a person could give.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NotRequired, TypedDict, cast

from ..core.digest import canonical
from ..core.errors import BadJson, UserError
from ..core.exact_text import is_exact
from ..core.items import Item, RawItem, own_copy
from ..core.preview import Json, Preview, Text, redact
from ..core.settable import CALLBACK, Rule, refused, then
from ..core.strict import JsonValue
from ..support.urls import private_digest, public_url
from ..support.user_code import answer_of
from .base import TOOL_RULES, InvalidArguments, Prepared, Tool, redacts
from .context import RunContextWrapper
from .functions.structured import any_object
from .hosted import OPENAI

# Who is asked for, in the words of the API: of these a configuration needs one.
_WHERE = ("server_url", "connector_id", "tunnel_id")
# Keys: they may change while a call waits, and no log keeps them.
_SECRET = ("authorization", "headers")


@dataclass(slots=True)
class MCPToolApprovalRequest:
    """Holds what `on_approval_request` is asked about: the provider's request, and the run's context.

    >>> MCPToolApprovalRequest(RunContextWrapper(None), RawItem(name="read")).data.name
    'read'
    """

    ctx_wrapper: RunContextWrapper[Any]
    data: Any


class MCPToolApprovalFunctionResult(TypedDict):
    """Holds what `on_approval_request` answers.

    >>> MCPToolApprovalFunctionResult(approve=False, reason="not on a Friday")["approve"]
    False
    """

    approve: bool
    reason: NotRequired[str]


OnApprovalRequest = Callable[
    [MCPToolApprovalRequest], MCPToolApprovalFunctionResult | Awaitable[MCPToolApprovalFunctionResult]
]
MCPToolApprovalFunction = OnApprovalRequest


class _Approved:
    """Marks the result of an approved call; no answer of a person is this."""


def _approval(request: Mapping[str, Any]) -> Item:
    """Return the approval of a request, as the next question holds it."""
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}


def _own_config(tool: HostedMCPTool, _name: str, given: Any) -> dict[str, Any]:
    """Keep a copy: a request is approved for this server, and the dict it was made of may be changed by then."""
    _check_config(given)
    vars(tool)["name"] = given["server_label"]
    return own_copy(dict(given))


def _refuse_exempt(tool: HostedMCPTool, asks: object) -> None:
    """Refuse a gate where the provider runs calls that no gate sees; a toolset sets one of each tool that it gates."""
    required = tool.tool_config.get("require_approval")
    if asks is not False and (required == "never" or (isinstance(required, dict) and "never" in required)):
        raise UserError(
            f'HostedMCPTool {tool.name!r}: require_approval says "never", and the provider runs those calls without '
            'asking; leave "never" out where all calls are to ask'
        )


_LABEL = "it is the server_label of tool_config: set that"
_PROVIDER = "the provider runs the call and keeps its result"
HOSTED_MCP_RULES: dict[str, Rule] = {
    "tool_config": _own_config,
    "on_approval_request": CALLBACK,
    "needs_approval": then(TOOL_RULES["needs_approval"], _refuse_exempt),
    "name": refused(_LABEL),
    "server_label": refused(_LABEL),
    "on_approval": refused("on_approval_request is what decides requests in line"),
    **dict.fromkeys(("tool_output_guardrails", "check", "idempotent", "read_only"), refused(_PROVIDER)),
    **dict.fromkeys(("announced", "answerable", "editable", "final"), refused(_PROVIDER)),
}


class HostedMCPTool(Tool):
    """Lets the provider call an MCP server; each of its approval requests waits for a decision.

    `tool_config` is the Responses API's: `require_approval` is "always" (as where it is missing), "never", or
    `{"always": {"tool_names": [...]}, "never": {"tool_names": [...]}}`. Without `on_approval_request` a request
    interrupts the run; with it, a real True or False as `approve` decides at once, and anything else leaves it waiting.

    >>> tool = HostedMCPTool({"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp"})
    >>> tool.name
    'wiki'
    """

    kind: ClassVar[str] = "hosted_mcp"
    call_type: ClassVar[str] = "mcp_approval_request"
    call_field: ClassVar[str | None] = "server_label"
    identity: ClassVar[tuple[str, ...]] = ("server_label", "name")
    provider: ClassVar[str] = OPENAI
    # A request means that the provider wants a word: where the configuration promised none, all the more so.
    needs_approval = True
    announced = answerable = editable = False
    go_ahead = staticmethod(_approval)
    tool_config: dict[str, Any]
    on_approval_request: OnApprovalRequest | None
    _rules = HOSTED_MCP_RULES

    def __init__(self, tool_config: Mapping[str, Any], on_approval_request: OnApprovalRequest | None = None) -> None:
        self.tool_config = cast("dict[str, Any]", tool_config)
        self.on_approval_request = on_approval_request

    def __repr__(self) -> str:
        return f"{type(self).__name__}(server_label={self.server_label!r})"

    @property
    def server_label(self) -> str:
        """Return the server's name, which requests use too."""
        return self.name

    @property
    def on_approval(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows
        """Return what decides requests in line, where `on_approval_request` does."""
        return None if self.on_approval_request is None else self._ask

    def provider_tool(self) -> Item:
        """Return the server's definition for the Responses API."""
        return cast("Item", own_copy(self.tool_config))

    def spec(self) -> dict[str, Any]:
        """Return the configuration without the keys in it; a digest stands for those in its address."""
        config = {name: value for name, value in self.tool_config.items() if name not in _SECRET}
        url: object = config.get("server_url")
        if not isinstance(url, str) or not private_digest(url):
            return {"kind": self.kind, "config": config}
        return {"kind": self.kind, "config": config | {"server_url": public_url(url)}, "origin": private_digest(url)}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Return the arguments as the provider would send them."""
        if not isinstance(item.get("name"), str) or item.get("server_label") != self.server_label:
            raise InvalidArguments("The request is invalid: it must name its server and its tool.")
        text = item.get("arguments") or ""
        if not isinstance(text, str):
            raise InvalidArguments("The request is invalid: its arguments are a text.")
        prepared = any_object(cast("str", item["name"]), text)
        # The provider sends its own text, which cannot be replaced by the one that is shown.
        if not is_exact(text):
            raise InvalidArguments("The request is invalid: it holds a number that cannot be shown exactly.")
        return prepared

    def edit(self, params: object) -> Prepared:
        """Refuse any edit: the provider runs the call as it stands there."""
        raise InvalidArguments("the provider runs this call as it stands; reject it and say what to do in its place")

    async def invoke(self, context: object, prepared: Prepared) -> Any:
        """Approve the call; the provider does the rest."""
        return _Approved()

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the answer to the request; words are the reason of a rejection."""
        if isinstance(value, _Approved):
            return _approval(item)
        return {**_approval(item), "approve": False, "reason": str(value)}

    @redacts
    def preview(self, params: JsonValue) -> Preview:
        """Show whose tool it is, and its arguments."""
        where = next(public_url(f"{self.tool_config[name]}") for name in _WHERE if self.tool_config.get(name))
        server = Text(f"{self.server_label} ({where}), called by the provider", label="server")
        return Preview((server, Json(redact(params, self.secrets))))

    async def _ask(self, context: RunContextWrapper[Any], item: Any) -> Any:
        assert self.on_approval_request is not None
        return await answer_of(self.on_approval_request, MCPToolApprovalRequest(context, RawItem(item.raw_item)))


def _check_config(config: Mapping[str, Any]) -> None:
    given: object = config
    if not isinstance(given, Mapping) or config.get("type") != "mcp":
        raise UserError('HostedMCPTool: tool_config is a mapping with "type": "mcp"')
    label = config.get("server_label")
    if not isinstance(label, str) or not label:
        raise UserError("HostedMCPTool: tool_config needs a server_label, the name of the server in requests")
    if not any(config.get(name) for name in _WHERE):
        raise UserError(f"HostedMCPTool {label!r}: tool_config needs one of {', '.join(_WHERE)}")
    try:
        canonical(dict(config))
    except BadJson as error:
        raise UserError(f"HostedMCPTool {label!r}: tool_config must be JSON: {error}") from None
    _check_required(label, config.get("require_approval"))


def _check_required(label: str, required: object) -> None:
    """Refuse a `require_approval` that does not mean what its writer probably thinks."""
    if required in (None, "always", "never"):
        return
    wrong = UserError(
        f'HostedMCPTool {label!r}: require_approval must be "always", "never", or a mapping of these to '
        f'{{"tool_names": [...]}}, not {required!r}'
    )
    if not isinstance(required, dict) or not required.keys() <= {"always", "never"}:
        raise wrong
    filters = cast("dict[str, Any]", required)
    names: list[str] = []
    for chosen in filters.values():
        if not isinstance(chosen, dict) or not chosen.keys() <= {"tool_names", "read_only"}:
            raise wrong
        listed: Any = cast("dict[str, Any]", chosen).get("tool_names", [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in cast("list[Any]", listed)):
            raise wrong
        names += cast("list[str]", listed)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"HostedMCPTool {label!r}: require_approval lists {', '.join(twice)} more than once")
