"""The proxy: an MCP server that passes on what another one has, and holds calls of its tools until they are approved.

Lists, notifications of their changes, resources and prompts pass unchanged. A denial is an error result, which clients
accept whatever the tool's output schema says. What a server asks within a call goes to the user of the client that made
it.
"""

from __future__ import annotations

import asyncio
import fnmatch
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import mcp_types as types
from mcp import Client
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from ..core.digest import digest
from .callers import client_of, holding_of, progress_of, silent, while_there
from .changes import ListChanges, PassingServer
from .exchanges import Exchanges, ServerExchange
from .holding import Approved, GatedCall, Holding, NotForwarded, Progress
from .listed import ListedTools
from .pins import ACCEPT, ACCEPT_WORDS, BY_A_PERSON, Pins, ToolChange
from .tasks import Task, Tasks, declares_tasks

_T = TypeVar("_T")
_ROUNDS = 10
_RESULT = TypeAdapter[types.CallToolResult | types.InputRequiredResult](
    types.CallToolResult | types.InputRequiredResult
)
#: With these a server that was restarted says of a list that it does not know the session.
_UNKNOWN_SESSION = (types.INVALID_REQUEST, types.REQUEST_TIMEOUT)
#: With these a server says that it did not begin: of any other error, what was done is not known.
_REFUSALS = (types.INVALID_REQUEST, types.METHOD_NOT_FOUND, types.INVALID_PARAMS)
_PINNED, _AGAIN = 10.0, 0.02  # seconds


class _Called(NamedTuple):
    """Describes what a client calls, and how it is told that its call is held: by progress, or as a task."""

    client: str
    tool: str
    arguments: dict[str, Any]
    progress: Progress = silent
    task: Task | None = None


class McpGate:
    """Stands before one MCP server; `ungated` are patterns of tools whose calls pass without being asked about.

    `name` is what policies and people know the server by; without it, what it calls itself. `holding` is for calls over
    stdio; over HTTP each account has its own.
    """

    def __init__(
        self,
        up: Client,
        exchanges: Exchanges,
        changes: ListChanges,
        pins: Pins,
        holding: Holding | None = None,
        *,
        ungated: Sequence[str] = (),
        name: str = "",
        remote: bool = False,
    ) -> None:
        self._up = up
        self._holding = holding
        self._ungated = tuple(ungated)
        self._name = name
        self._tools = ListedTools(pins)
        self._exchanges = exchanges
        self._changes = changes
        self._tasks = Tasks(self._call, self._forgotten)
        #: Set once the connection to the server was found closed, or its session unknown to it.
        self.lost = asyncio.Event()
        self._closed = () if remote else (types.CONNECTION_CLOSED,)  # of a remote one, one request may fail so

    @property
    def _info(self) -> types.Implementation:
        """Return what the server behind calls itself."""
        return self._up.server_info or types.Implementation(name="unnamed", version="")

    async def begin(self) -> list[ToolChange]:
        """Begin, and return what the server changed of its tools since the gate was last started."""
        if self._holding is not None:
            self._holding.begin()
        await self._changes.begin(self._up, self._look)
        await self._look()
        return self._tools.begin()

    async def serve(self) -> None:
        """Serve on stdin and stdout until the client hangs up."""
        server = self.server()
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def end(self) -> None:
        """Give up what is at work: a call that was forwarded is in doubt."""
        await self._changes.end()
        await self._tasks.end()
        await self._exchanges.end()
        if self._holding is not None:
            await self._holding.close()

    @property
    def _server_name(self) -> str:
        return self._name or self._info.name

    def server(self) -> PassingServer:
        """Return the server that a client sees: named as the one behind it, with what that one has."""
        info = self._info
        has = self._up.server_capabilities
        more: dict[str, Any] = {}
        if has.resources is not None:
            more |= {"on_list_resources": self._resources, "on_list_resource_templates": self._templates}
            more |= {"on_read_resource": self._read}
        if has.prompts is not None:
            more |= {"on_list_prompts": self._prompts, "on_get_prompt": self._prompt}
        made = PassingServer(
            info.name,
            version=info.version,
            instructions=self._up.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._called,
            **more,
        )
        self._changes.offer(made, self._up)
        self._tasks.offer(made, partial(holding_of, only=self._holding))
        return made

    async def _list_tools(self, context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        page = _page(params)
        made = await self._list(page)
        client = (id(holding_of(context, self._holding)), client_of(context))
        self._tools.listed(client, made.tools, first=page is None or page.cursor is None)
        return made

    async def _resources(self, _context: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return await self._up.session.list_resources(params=_page(params))

    async def _templates(
        self, _context: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return await self._up.session.list_resource_templates(params=_page(params))

    async def _read(self, _context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await self._up.read_resource(params.uri)

    async def _prompts(self, _context: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return await self._up.session.list_prompts(params=_page(params))

    async def _prompt(self, _context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._up.get_prompt(params.name, params.arguments)

    async def _called(self, context: Any, params: types.CallToolRequestParams) -> Any:
        """Return what comes of a call, or the task that it becomes for a client that declares tasks."""
        if params.request_state is not None or not declares_tasks(context):
            return await self._call(context, params)
        return await self._tasks.begun(context, holding_of(context, self._holding), params)

    async def _forgotten(self, holding: Holding, client: str, params: types.CallToolRequestParams) -> None:
        """Withdraw the request of a call that its client cancels."""
        await self._look()
        await holding.forget(self._gated(_called(client, params)), "the client cancelled the task")

    async def _call(
        self, context: Any, params: types.CallToolRequestParams, task: Task | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        call = _called(client_of(context), params, progress_of(context, params), task)
        try:
            holding = holding_of(context, self._holding)
            known = digest([id(holding), call.client, call.tool, call.arguments])
            if params.request_state is not None:
                return await self._exchanges.resumed(context, known, params.request_state, params.input_responses)
            claims = list[Approved]()
            work = asyncio.ensure_future(self._claimed(holding, call, claims))
            given_up = partial(_given_back, holding, work, claims)
            try:
                approved = await (while_there(context, work) if task is None else work)
            except BaseException:
                await asyncio.shield(self._exchanges.follow(given_up()))
                raise
        except NotForwarded as refused:
            return _error(str(refused))
        except MCPError as error:
            return _error(f"Not run: the MCP server did not list its tools ({error}).")
        except Exception as error:  # whatever fails, the call is not forwarded
            return _error(f"Not run: no approval could be asked for ({type(error).__name__}).")
        return await self._exchanges.begun(context, known, partial(self._worked, holding, call, approved), given_up)

    async def _worked(
        self, holding: Holding, call: _Called, approved: Approved | None, exchange: ServerExchange
    ) -> types.CallToolResult:
        """Forward a call, and report what came of it where it was claimed."""
        if call.task is not None:
            call.task.forwards()
        if approved is None:
            return await self._forwarded(call.tool, call.arguments, exchange)
        async with holding.running(approved):
            try:
                made = await self._forwarded(call.tool, approved.arguments, exchange)
            except MCPError as error:
                if error.code not in _REFUSALS:
                    raise
                made = error
        await holding.report(approved, failed=isinstance(made, MCPError) or bool(made.is_error))
        if isinstance(made, MCPError):
            raise made
        return made

    async def _claimed(self, holding: Holding, call: _Called, claims: list[Approved]) -> Approved | None:
        """Return the call as it was approved, and keep its claim: a task that is cancelled as it ends has no result."""
        made = await self._approved(holding, call)
        claims += [] if made is None else [made]
        return made

    async def _approved(self, holding: Holding, call: _Called) -> Approved | None:
        """Return the call as it was approved; None where it passes without being asked about."""
        passes = any(fnmatch.fnmatchcase(call.tool, pattern) for pattern in self._ungated)
        client = (id(holding), call.client)
        if not passes or self._tools.is_unknown(client, call.tool):
            await self._look()
        self._tools.check(client, call.tool)
        while (change := self._tools.change(call.tool)) is not None:
            await self._accepted(holding, call, change)
        if passes:
            return None

        async def now() -> GatedCall:
            await self._look()
            return self._gated(call)

        return await holding.approved(self._gated(call), call.progress, now, patient=call.task is not None)

    async def _accepted(self, holding: Holding, call: _Called, change: ToolChange) -> None:
        """Return once a person accepted the definition of a tool that was changed."""

        async def now() -> GatedCall:
            await self._look()
            again = self._tools.change(call.tool)
            return asked if again is None else self._accepting(call.client, again)

        asked = self._accepting(call.client, change)
        try:
            approved = await holding.approved(asked, call.progress, now, patient=call.task is not None)
        except NotForwarded as refused:
            await self._pinned(call, refused)
            return
        async with holding.running(approved):
            self._tools.accept(change)
        await holding.report(approved, failed=False)

    async def _pinned(self, call: _Called, refused: NotForwarded) -> None:
        """Return once another call had the definition accepted; one that claimed the approval is about to pin it."""
        ends = time.monotonic() + (_PINNED if refused.claimed else 0)
        while self._tools.change(call.tool) is not None:
            if time.monotonic() >= ends:
                raise refused
            await asyncio.sleep(_AGAIN)

    def _accepting(self, client: str, change: ToolChange) -> GatedCall:
        server = self._server_name
        return GatedCall(client, server, ACCEPT, change.arguments, ACCEPT_WORDS, None, BY_A_PERSON, editable=False)

    def _gated(self, call: _Called) -> GatedCall:
        """Return a call with its tool as it was last looked at: the description is part of what is approved."""
        tool = self._tools.get(call.tool)
        said = ("", None) if tool is None else (tool.description or "", tool.input_schema)
        return GatedCall(call.client, self._server_name, call.tool, call.arguments, *said)

    async def _list(self, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return a page of the tools."""
        return await self._asked(self._up.session.list_tools(params=params), _UNKNOWN_SESSION)

    async def _asked(self, answer: Awaitable[_T], gone: Sequence[int] = ()) -> _T:
        """Return what the server answers; an error with one of these codes says that it is gone."""
        try:
            return await answer
        except MCPError as error:
            if error.code in (*gone, *self._closed):
                self.lost.set()
            raise

    async def _look(self) -> None:
        """Look at the tools as the server describes them now."""
        tools, cursor = list[types.Tool](), None
        for _ in range(100):
            page = await self._list(types.PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        self._tools.looked(tools)

    async def _forwarded(self, name: str, arguments: dict[str, Any], exchange: ServerExchange) -> types.CallToolResult:
        """Call the tool, as often as its server asks something first."""
        answers: types.InputResponses | None = None
        state: str | None = None
        for _ in range(_ROUNDS):
            asking = types.CallToolRequestParams(
                name=name, arguments=arguments, input_responses=answers, request_state=state
            )
            # As it was sent: whether it fits the tool's output schema is the client's to check.
            made = await self._asked(self._up.session.send_request(types.CallToolRequest(params=asking), _RESULT))
            if isinstance(made, types.CallToolResult):
                return made
            asked = made.input_requests or {}
            questions = {each: ask for each, ask in asked.items() if isinstance(ask, types.ElicitRequest)}
            answers = {**await exchange.ask(questions)} if questions else None
            state = made.request_state
        return _error(f"The server asked {_ROUNDS} times, and was not answered further.")


async def _given_back(holding: Holding, work: asyncio.Future[Any], claims: list[Approved]) -> None:
    """Give back the claim of a call of which nothing began, if it came to one."""
    await asyncio.wait((work,))
    for approved in claims:
        await holding.give_back(approved)


def _called(
    client: str, params: types.CallToolRequestParams, progress: Progress = silent, task: Task | None = None
) -> _Called:
    return _Called(client, params.name, params.arguments or {}, progress if task is None else silent, task)


def _page(params: types.PaginatedRequestParams | None) -> types.PaginatedRequestParams | None:
    """Return which page is asked for, without what the client says of itself, which is of its own version."""
    return None if params is None else types.PaginatedRequestParams(cursor=params.cursor)


def _error(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)
