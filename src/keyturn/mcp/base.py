"""The seam to an MCP server: what it lists, how it is called, and what it means that a call went wrong.

A server is somebody else's program. What it says of its tools is its word and never a fact. Nothing here knows a
transport, an agent or a run; a new kind of server is one member file.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from ..core.digest import digest
from ..core.errors import KeyturnError, ToolSourceDown, UserError
from ..core.immutable import immutable
from ..core.settable import Constructed


class MCPServerError(KeyturnError):
    """Raised where an MCP server cannot be reached, or breaks its protocol.

    `may_have_acted` says whether a call was sent, so that nobody knows what it did.

    >>> MCPServerError("files", "it could not be started").may_have_acted
    False
    """

    def __init__(self, server: str, problem: str, *, may_have_acted: bool = False) -> None:
        self.server = server
        self.problem = problem
        self.may_have_acted = may_have_acted
        super().__init__(f"MCP server {server!r}: {problem}")


class MCPServerDown(MCPServerError, ToolSourceDown):
    """Raised where an MCP server cannot be reached now: nothing was sent, and it may answer another time.

    >>> MCPServerDown("files", "it could not be started").may_have_acted
    False
    """


@immutable
@dataclass(frozen=True)
class RemoteTool:
    """Describes a tool as its server lists it.

    `raw` is the protocol's own object, `line` the connection that listed it.

    >>> RemoteTool("files", "read", "Reads a file.", {"type": "object"}).spec["server"]
    'files'
    """

    server: str
    name: str
    description: str
    schema: dict[str, Any]
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: Any = field(default=None, compare=False, repr=False)
    line: Any = field(default=None, compare=False, repr=False)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Return all that identifies the tool: any change of it makes another tool."""
        fields = {"tool": self.name, "description": self.description, "schema": self.schema, **self.about}
        return {"kind": "mcp", "server": self.server, **fields}

    @cached_property
    def digest(self) -> str:
        """Return the digest that an approval is bound to."""
        return digest(self.spec)

    def hint(self, name: str) -> bool:
        """Return whether the server claims this annotation of the tool, such as `readOnlyHint`."""
        claimed: dict[str, Any] = self.about.get("annotations") or {}
        return claimed.get(name) is True


@dataclass(frozen=True)
class RemoteCall:
    """Says which tool is called with which arguments.

    `look` is awaited before each attempt to send the call, and raises where it must not be sent. It is given the
    connection that the call has for itself, or None, and returns the one (`RemoteTool.line`) that the call may take, or
    None where it may take any.
    """

    tool: str
    arguments: dict[str, Any]
    meta: Any
    look: Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True)
class ToolReply:
    """Holds what a call of a remote tool returned: a result, or questions that people must answer first.

    `requests` holds the questions by key; `state` is what the call goes on from.
    """

    result: Any = None
    requests: dict[str, Any] | None = None
    state: dict[str, Any] | None = None


class PromptsAndResources:
    """Names what a server may offer besides tools, for a program's own code: no model is told of it.

    A server without them says so.

    >>> PromptsAndResources().read_resource("file:///etc/motd").close()
    """

    async def list_prompts(self) -> Any:
        """List the prompts that the server offers, as the protocol's own object."""
        raise self._not_offered("prompts")

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt of the server, with its arguments filled in."""
        raise self._not_offered("prompts")

    async def list_resources(self, cursor: str | None = None) -> Any:
        """List a page of the resources that the server offers; `cursor` is the `next_cursor` of the page before."""
        raise self._not_offered("resources")

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """List a page of the templates of resources that the server offers."""
        raise self._not_offered("resources")

    async def read_resource(self, uri: str) -> Any:
        """Return what a resource holds."""
        raise self._not_offered("resources")

    def _not_offered(self, what: str) -> Exception:
        return NotImplementedError(
            f"{type(self).__name__} is a server without {what}: override the method to offer them"
        )


class ServerSeam(PromptsAndResources, Constructed, abc.ABC):
    """Connects to an MCP server and gives agents its tools; the seam that every transport implements.

    An agent gets its tools by `tools_for`.

    >>> sorted(ServerSeam.__abstractmethods__)
    ['call_tool', 'cleanup', 'connect', 'invalidate_tools_cache', 'list_tools', 'tools_for']
    """

    name: str
    _entered = False

    def _described(self) -> str:
        """Return what errors call it."""
        return f"MCP server {getattr(self, 'name', '')!r}"

    def _refusal(self, name: str, may_be: str, value: object) -> Exception:
        """Return the error for a value that an attribute cannot have."""
        return UserError(f"{self._described()}: {name} must be {may_be}, not {value!r}")

    @abc.abstractmethod
    async def connect(self) -> None:
        """Open the connection; do nothing if it is open."""

    @abc.abstractmethod
    async def cleanup(self) -> None:
        """Close the connection and stop what was started for it.

        It may be called from another task than `connect`.
        """

    @abc.abstractmethod
    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        """List the tools that the server offers and the filter lets through, as the protocol's own objects."""

    @abc.abstractmethod
    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: Any = None) -> Any:
        """Call a tool at once, without any approval: for your own code, never for a model's call."""

    @abc.abstractmethod
    def invalidate_tools_cache(self) -> None:
        """Drop the cached listing, so that the next use lists the tools again."""

    @abc.abstractmethod
    async def tools_for(self, context: Any, agent: Any) -> list[Any]:
        """Return the tools as an agent has them: gated, checked, and named so that no two can be confused."""

    async def hold(self, holder: object) -> None:
        """Keep the server connected for a holder, such as an app, until that lets go; several may hold it at once."""
        if holder not in self._holding:
            await self.connect()
            self._holding.add(holder)

    async def release(self, holder: object) -> None:
        """Let go of the server; the last holder closes it, unless it was entered by hand as well."""
        self._holding.discard(holder)
        if not self._holding and not self._entered:
            await self.cleanup()

    @property
    def _holding(self) -> set[object]:
        return vars(self).setdefault("_holders", set[object]())

    async def __aenter__(self) -> Self:
        await self.connect()
        self._entered = True
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._entered = False
        await self.cleanup()
