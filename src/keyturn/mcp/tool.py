"""A server's tool as an agent has it, behind the same approval gate as every other tool.

It is a view of what the server lists now. Whoever approves a call is shown the server's own words as such, and the tool
is listed again right before a call that needs approval is sent, on the very connection that the call takes: behind
another connection there may be another server. What a server claims of itself opens nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Protocol, cast

from ..core.declared import properties_of
from ..core.digest import canonical, digest
from ..core.errors import BadJson, ToolMissing, UserError
from ..core.exact_text import is_exact
from ..core.immutable import immutable
from ..core.items import Item
from ..core.lookalikes import in_ascii
from ..core.preview import Block, Diff, Json, Preview, Text, redact
from ..core.settable import ELSEWHERE, Rule, refused
from ..core.strict import JsonValue, parse
from ..support.json_schema import misfit
from ..support.user_code import answer_of
from ..tools.base import (
    TOOL_RULES,
    InvalidArguments,
    NeedsApproval,
    NeedsInput,
    OutcomeUnknown,
    Prepared,
    Tool,
    ToolProblem,
    redacts,
    tool_digest,
)
from ..tools.outputs import rendered
from ..tools.strict_schema import ensure_strict_json_schema
from .base import MCPServerError, RemoteCall, RemoteTool, ToolReply
from .options import UNSET, Settings
from .results import value_of

_KEY = "keyturn/idempotency-key"
_LONGEST = 64
# How much of a longer name is read: a server may say one of any length.
_READ = 1_000


class Server(Protocol):
    """What a tool needs of its server."""

    name: str
    settings: Settings

    async def listing(self, *, fresh: bool = False, on: Any = None) -> dict[str, RemoteTool]:
        """Return all tools by name."""
        ...

    async def begin(self, call: RemoteCall, *, repeatable: bool) -> ToolReply:
        """Call a tool: return a result, or questions to people."""
        ...

    async def go_on(self, call: RemoteCall, resumed: object) -> ToolReply:
        """Resume a call with people's answers."""
        ...


@dataclass(frozen=True)
class Offer:
    """Says how one agent has a server's tool: its name, and the settings of the agent.

    Those of the server are read when they are asked for.
    """

    name: str
    strict: bool = False
    failure: Callable[[Any, Exception], Any] | bool | None = True


@immutable
@dataclass(frozen=True)
class MCPToolMetaContext:
    """Holds what a `tool_meta_resolver` may look at; that returns the `_meta` of the call, or None.

    >>> MCPToolMetaContext(None, "files", "read", {"path": "a"}).tool_name
    'read'
    """

    run_context: Any
    server_name: str
    tool_name: str
    arguments: dict[str, Any]


def _own(tool: Any, name: str, value: object) -> Any:
    """Keep what a user sets of the tool itself, which holds over what its server says of all its tools."""
    made = TOOL_RULES[name](tool, name, value)
    vars(tool)["_set"] = {**tool._set, name: made}
    return ELSEWHERE if name in _OF_SERVER else made


_OF_SERVER = ("needs_approval", "tool_input_guardrails", "tool_output_guardrails")
_OF_LISTING = "it is what the server lists"
_GATES = (*_OF_SERVER, "on_approval", "approval", "is_enabled")
MCP_TOOL_RULES: dict[str, Rule] = {
    **dict.fromkeys((*_GATES, "check", "risk", "secrets", "answerable", "editable"), _own),
    "name": refused("include_server_in_tool_names of the agent's mcp_config says how tools of servers are named"),
    **dict.fromkeys(("description", "params_json_schema", "strict_json_schema", "remote"), refused(_OF_LISTING)),
    **dict.fromkeys(("read_only", "idempotent"), refused("trust_annotations= of the server says it")),
}


class MCPTool(Tool):
    """Calls a tool of an MCP server.

    Agents get it from their `mcp_servers`; nobody makes it by hand.

    >>> MCPTool.kind
    'mcp'
    """

    kind: ClassVar[str] = "mcp"
    looks: ClassVar[bool] = True
    description: str
    params_json_schema: dict[str, Any]
    strict_json_schema: bool
    remote: RemoteTool
    _set: Mapping[str, Any] = {}
    offered_to: Any = None  # whom `MCPUtil` made the tool for, since a tool does not keep its agent
    _rules = MCP_TOOL_RULES

    def __init__(
        self, server: Server, remote: RemoteTool, offer: Offer, gate: Callable[[RemoteTool], NeedsApproval]
    ) -> None:
        self._server, self._offer = server, offer
        self._gate = gate
        vars(self).update(name=offer.name)
        self.adopt(remote)

    @property
    def needs_approval(self) -> NeedsApproval:  # pyright: ignore[reportIncompatibleVariableOverride]  # its server says
        """Return whether its calls ask: what was set of the tool, else what `require_approval` of its server is now."""
        return self._set["needs_approval"] if "needs_approval" in self._set else self._gate(self.remote)

    @property
    def tool_input_guardrails(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # its server says
        """Return what checks arguments: the guardrails that were set of the tool, else those of its server."""
        return self._set.get("tool_input_guardrails", self._server.settings.tool_input_guardrails)

    @property
    def tool_output_guardrails(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # its server says
        """Return what checks results: the guardrails that were set of the tool, else those of its server."""
        return self._set.get("tool_output_guardrails", self._server.settings.tool_output_guardrails)

    @property
    def read_only(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows
        """Return whether the server says that it changes nothing, and is believed."""
        return self._server.settings.trust_annotations and self.remote.hint("readOnlyHint")

    @property
    def idempotent(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows
        """Return whether the server says that a call may be repeated, and is believed."""
        return self._server.settings.trust_annotations and self.remote.hint("idempotentHint")

    def take_over(self, other: MCPTool) -> None:
        """Take over what a user set of the tool as it was before."""
        for name, value in other._set.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"MCPTool(name={self.name!r}, server={self._server.name!r})"

    @property
    def server_name(self) -> str:
        """Return the name of the tool's server."""
        return self._server.name

    @property
    def qualified_name(self) -> str:
        """Return the name under which people and models know the tool."""
        return self.name

    def adopt(self, remote: RemoteTool) -> None:
        """Replace what the tool is by what the server lists now."""
        if getattr(self, "remote", None) == remote:
            return
        schema, strict = _offered(remote.schema, self._offer.strict)
        vars(self).update(
            remote=remote,
            description=remote.description,
            params_json_schema=schema,
            strict_json_schema=strict,
        )
        self._spec = {**remote.spec, "name": self.name}

    def spec(self) -> dict[str, Any]:
        """Return the server, and all that it says of the tool."""
        return self._spec

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the model's arguments: a JSON object that fits the server's schema."""
        text = cast("str", item.get("arguments") or "{}")
        try:
            params = parse(text)
        except BadJson as error:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: they are {error}") from None
        if not isinstance(params, dict):
            raise InvalidArguments(f"The arguments of {self.name} are invalid: they must be a JSON object")
        problem = misfit(self.remote.schema, params)
        if problem is not None:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: {problem}")
        return Prepared(text if is_exact(text) else canonical(params))

    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        """Call the server, or resume a call with people's answers."""
        arguments = prepared.params
        try:
            meta = await self._meta(context, prepared)
            call = RemoteCall(self.remote.name, arguments, meta, partial(self._check_unchanged, context))
            if context.resumed is not None:
                reply = await self._server.go_on(call, context.resumed)
            else:
                reply = await self._server.begin(call, repeatable=self.read_only or self.idempotent)
        except MCPServerError as error:
            if error.may_have_acted and not (self.read_only or self.idempotent):
                raise OutcomeUnknown(str(error)) from error
            raise ToolProblem(f"The tool returned no result. {error}") from error
        if reply.requests is not None:
            shown = self._question(reply.requests)
            return NeedsInput(reply.requests, reply.state, shown, here="parked" in (reply.state or {}))
        value = value_of(reply.result, structured=self._server.settings.use_structured_content)
        if reply.result.is_error:
            raise _Failed(value)
        return value

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the call's result as the model reads it."""
        return {"type": "function_call_output", "call_id": item["call_id"], "output": rendered(value)}

    async def failure(self, context: object, error: Exception) -> Any:
        """Return the server's error text, else that of `failure_error_function`; raise where that is None."""
        if isinstance(error, _Failed):
            return error.value
        told = self._server.settings.failure_error_function
        told = self._offer.failure if told is UNSET else told
        if told is None:
            raise error
        if not callable(told):
            return await super().failure(context, error)
        return await answer_of(told, context, error)

    @redacts
    async def preview(self, params: JsonValue) -> Preview:
        """Show which tool of which server is called with what, beside the server's own description as listed now."""
        before = self.remote
        await self._look()
        called = f"{_plainly(self.remote.name)} on MCP server {self._server.name}"
        shown: list[Block] = [Text(called, label="calls"), Json(redact(params, self.secrets), label="arguments")]
        if before != self.remote:
            shown.append(Diff(_listed(before), _listed(self.remote), label="the listing of the server has changed"))
        if self.remote.description:
            shown.append(Text(self.remote.description, label="the server's description of this tool"))
        return Preview(tuple(shown), called, {self._place: self.remote.digest})

    @property
    def _place(self) -> str:
        return f"mcp:{self._server.name}/{self.remote.name}"

    async def _look(self, on: Any = None) -> RemoteTool:
        """List the tool again and adopt it; other runs share this tool, and do so as well."""
        listing = await self._server.listing(fresh=True, on=on)
        remote = listing.get(self.remote.name)
        if remote is None:
            raise ToolMissing(self.name, agent=f"MCP server {self._server.name}")
        self.adopt(remote)
        return remote

    async def _check_unchanged(self, context: Any, on: Any = None) -> Any:
        """Return the connection whose newest listing has the tool as it was approved; else raise.

        `on` is the one that the call has for itself.

        That is a fact of the call. The tool itself cannot say it: whichever run listed last made it what it is. None
        stands for whichever connection there is. Where nobody was asked about the call, a listing is not worth a round
        trip.
        """
        line: Any = None
        if context.screened:
            try:
                line = (await self._look(on)).line
            except (MCPServerError, ToolMissing) as error:
                why = f"The tool was not run, since its server could not be asked about it. {error}"
                raise ToolProblem(why) from error
        if tool_digest(self) != context.tool_digest:
            raise ToolProblem(
                "The tool was not run: its server changed its description since the call was allowed. Call it again."
            )
        return line

    async def _meta(self, context: Any, prepared: Prepared) -> dict[str, Any]:
        # Its own name for the call, and not ours: ours lets people decide.
        meta: dict[str, Any] = {_KEY: digest("mcp", context.idempotency_key)}
        resolver = self._server.settings.tool_meta_resolver
        if resolver is None:
            return meta
        asked = MCPToolMetaContext(context, self._server.name, self.remote.name, prepared.params)
        more = await answer_of(resolver, asked)
        return {**meta, **(more or {})}

    def _question(self, requests: object) -> Preview:
        who = f"MCP server {self._server.name} asks, within {_plainly(self.remote.name)}"
        return Preview((Text(who), Json(requests, label="the server's questions")), who)


class _Failed(ToolProblem):
    """Raised where the server reports that the tool failed; its text is the result."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__("the tool failed")


def offered_name(server: str, tool: str, *, prefixed: bool) -> str:
    """Return a name that every provider accepts.

    What has to be rewritten keeps the words that people, and rules, read in it, and gets a digest of the whole, so that
    none collide.

    >>> offered_name("files", "read", prefixed=False), offered_name("files", "read", prefixed=True)
    ('read', 'mcp_files__read')
    >>> offered_name("files", "read it", prefixed=False)
    'read_it_378669d6'
    >>> offered_name("files", "d\u0435l\u00e9te_file", prefixed=False)
    'delete_file_2582b0e5'
    """
    wanted = f"mcp_{server}__{tool}" if prefixed else tool
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", in_ascii(wanted[:_READ]))  # one character may be read as twenty
    if safe == wanted and 0 < len(wanted) <= _LONGEST:
        return wanted
    mark = sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:8]
    return f"{safe[: _LONGEST - 9]}_{mark}"


def _plainly(name: str) -> str:
    """Return a tool's name for our own texts: quoted, unless it cannot be mistaken for them."""
    return name if re.fullmatch(r"[a-zA-Z0-9_./-]{1,128}", name) else json.dumps(name)


def _listed(remote: RemoteTool) -> str:
    return json.dumps(remote.spec, indent=2, ensure_ascii=False) + "\n"


def _offered(schema: dict[str, Any], strict: bool) -> tuple[dict[str, Any], bool]:
    """Return the schema as models are given it, and whether they are held to it."""
    full = {**schema, "type": "object", "properties": properties_of(schema)}
    if not strict:
        return full, False
    try:
        return ensure_strict_json_schema(full), True
    except (UserError, AttributeError, TypeError, ValueError, KeyError):  # it says what cannot be said strictly
        return full, False
