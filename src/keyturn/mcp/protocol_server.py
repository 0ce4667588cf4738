"""A server over the protocol's own client: lists tools, calls them, reconnects after a loss, whatever the transport.

It is connected while its user wants it (`connect`) or somebody holds it, such as an app; who holds it has it connected
when it is first needed.

A call that may have acted is never sent again by itself, unless the user trusts the server's word that it may be. Each
attempt goes to the connection on which its tool was last listed, or nowhere. A member provides the transport. All work
on the connection runs on the MCP loop.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar

from ..core.errors import UserError
from ..support.user_code import answer_of
from ..tools.base import ToolProblem
from .base import MCPServerDown, MCPServerError, RemoteCall, RemoteTool, ToolReply
from .calls import CallRefused, InputRequired, Lost, Occupied, OpenCalls, ParkedCalls, Unreached, Unsent
from .elicitation import ONLY, Unfit, asked_again, asked_next, question, reply_of, results
from .filters import ToolFilterContext, lets_through
from .lines import ConnectionLike, OwnLines
from .listing import Offers, all_prompts, listed
from .loop_thread import on_loop, on_mcp_loop
from .options import Settings
from .outcomes import Unanswered, worded
from .own_server import MCPServer

T = TypeVar("T")

_ROUNDS = 10
_LIST_CHANGED = "notifications/tools/list_changed"


class ProtocolServer(MCPServer):
    """Implements what all transports share; a member adds `transport`.

    >>> sorted(ProtocolServer.__abstractmethods__)
    ['transport']
    """

    def __init__(self, name: str, settings: Settings, origin: str = "") -> None:
        self.name = name
        self.settings = settings
        self._origin = origin
        self._offers = Offers(self)
        self._parked = ParkedCalls()
        self._connection: ConnectionLike | None = None
        self._own = OwnLines(self._connected)
        self._parked.ended = self._own.ended
        self._opening: asyncio.Task[ConnectionLike] | None = None
        self._wanted = False
        self._cache: dict[str, RemoteTool] | None = None
        self._callers: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @abc.abstractmethod
    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Open the transport: a new context each time, which yields the protocol's two streams."""

    def _known_as(self) -> tuple[str, str] | None:
        """Return the name and the origin of a server without a name of its own: what it is connected to now."""
        return None

    async def connect(self) -> None:
        """Open the connection, or raise."""
        self._wanted = True
        try:
            await on_mcp_loop(self._line())
        except BaseException as problem:
            self._wanted = False
            if not self._holding:
                await asyncio.shield(on_mcp_loop(self._close()))
            if isinstance(problem, Unsent):
                raise MCPServerDown(self.name, f"it could not be connected: {problem}") from None
            raise

    async def cleanup(self) -> None:
        """Close the connection, and lose calls open on it; where others hold the server, leave it to the last."""
        self._wanted = False
        if not self._holding:
            await on_mcp_loop(self._close())

    async def hold(self, holder: object) -> None:
        """Have the server connected when it is next needed, until everybody lets go."""
        self._holding.add(holder)

    async def release(self, holder: object) -> None:
        """Let go of the server; the last one closes it."""
        self._holding.discard(holder)
        if not self._holding and not self._wanted:
            await on_mcp_loop(self._close())

    async def list_tools(self, run_context: object = None, agent: object = None) -> list[Any]:
        """List the tools that the filter lets through, as the protocol's own objects."""
        return [tool.raw for tool in await self._filtered(run_context, agent)]

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: object = None) -> Any:
        """Call a tool at once, without any approval; questions from the server are declined."""
        call = RemoteCall(tool_name, arguments or {}, meta, _anywhere)
        reply = await self._send(call, repeatable=False)
        for _ in range(_ROUNDS):
            if reply.requests is None:
                return reply.result
            reply = await self._answered(call, reply.state or {}, results(reply.requests, None))
        raise MCPServerError(
            self.name, f"it asked for input {_ROUNDS} times in one call, which is the limit", may_have_acted=True
        )

    async def list_prompts(self) -> Any:
        """List all prompts that the server offers, as the protocol's own object."""
        pages = self.settings.max_list_pages
        return await self._read("its prompts", lambda line: all_prompts(self.name, line, pages))

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt of the server, with its arguments filled in."""
        given = None if arguments is None else {key: str(value) for key, value in arguments.items()}
        return await self._read("a prompt", lambda line: line.read("get_prompt", name=name, arguments=given))

    async def list_resources(self, cursor: str | None = None) -> Any:
        """List a page of the resources that the server offers."""
        return await self._read("its resources", lambda line: line.read("list_resources", cursor=cursor))

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """List a page of the templates of resources that the server offers."""
        return await self._read("its resources", lambda line: line.read("list_resource_templates", cursor=cursor))

    async def read_resource(self, uri: str) -> Any:
        """Return what a resource holds."""
        return await self._read("a resource", lambda line: line.read("read_resource", uri=str(uri)))

    def invalidate_tools_cache(self) -> None:
        """Drop the cached listing, so that the next use lists the tools again."""
        self._cache = None

    async def tools_for(self, context: object, agent: object) -> list[Any]:
        """Return the tools as an agent has them; a tool that did not change is the same object as before."""
        return [self._offers.tool(remote, agent) for remote in await self._filtered(context, agent)]

    def recorded_tool(self, spec: Mapping[str, Any], agent: object) -> Any:
        """Return a tool as a log recorded it, for people who look and decide while the server is down; else None."""
        return self._offers.recorded(spec, agent)

    async def listing(self, *, fresh: bool = False, on: Any = None) -> dict[str, RemoteTool]:
        """Return all tools by name; `fresh` asks the server and not the cache, `on` one of its connections."""
        kept = self._cache if self.settings.cache_tools_list and not fresh else None
        if kept is not None:
            return kept
        tools = await on_mcp_loop(self._list(on))
        self._offers.approvals.check_names(tools)
        if on is None:
            self._cache = tools
        return tools

    async def begin(self, call: RemoteCall, *, repeatable: bool) -> ToolReply:
        """Call a tool for a model: return a result, or questions to people."""
        return await self._send(call, repeatable=repeatable)

    async def go_on(self, call: RemoteCall, resumed: Any) -> ToolReply:
        """Resume a call with people's answers; an answer that does not fit is asked for again."""
        pending: dict[str, Any] = {key: each for key, each in resumed.requests.items() if not isinstance(each, str)}
        try:
            answers = results(pending, resumed.answers)
        except Unfit as problem:
            return ToolReply(requests=asked_again(pending, str(problem)), state=resumed.state)
        return await self._answered(call, resumed.state, answers)

    async def _answered(self, call: RemoteCall, state: dict[str, Any], answers: dict[str, Any]) -> ToolReply:
        if "parked" in state:  # it stands open on the connection that it was approved on, and is gone with it
            return await self._reply_of(self._parked.go_on(state["parked"], answers[ONLY], self.settings.seconds))
        extra = {"request_state": state["request_state"], "input_responses": answers}
        return await self._send(call, repeatable=False, extra=extra)

    async def _send(self, call: RemoteCall, *, repeatable: bool, extra: dict[str, Any] | None = None) -> ToolReply:
        self._callers = asyncio.get_running_loop()
        more = {**(extra or {}), **({"_meta": call.meta} if call.meta else {})}
        attempt = 0
        while True:
            try:
                return await self._attempted(call, more, begun=extra is not None)
            except MCPServerError as error:
                harmless = not error.may_have_acted or repeatable
                again = isinstance(error, Unanswered) and harmless and attempt < error.attempts(self.settings)
                if not again:
                    raise
            await asyncio.sleep(self.settings.pause(attempt) if attempt else 0)
            attempt += 1

    async def _attempted(self, call: RemoteCall, more: dict[str, Any], *, begun: bool) -> ToolReply:
        """Look at the tool on the connection that the call takes, and call it there.

        That is one which no other call has, where the server asks within calls: what it asks there is of this call.
        """
        self._parked.asks = self._parked.asks or self.settings.asks_within_calls
        if not self._parked.asks:
            seen = await self._looked(call, None, begun=begun)  # last: nothing is waited for before the sending
            with contextlib.suppress(Occupied):
                return await self._reply_of(self._call(call, seen, more))
        place: list[ConnectionLike] = []
        try:
            await self._worded(self._take(place))
            await self._looked(call, place[0], begun=begun)
            return await self._reply_of(self._call(call, place[0], more, alone=True))
        finally:
            await asyncio.shield(on_mcp_loop(self._let_go(place)))

    async def _take(self, place: list[ConnectionLike]) -> None:
        """Keep a connection for a call on which no other stands open; open one more where there is none.

        Where there are too many, the call that waits longest for a person gives way.
        """
        while not (shared := await self._line()).calls.free and self._own.free() is None and self._own.full:
            ended = self._parked.give_way()
            if ended is None:
                raise Unreached("calls are at work on all connections that it may have")
            await asyncio.wait({ended})
        line = shared if shared.calls.free else self._own.free() or await self._own.open()
        line.calls.take()
        place.append(line)

    async def _let_go(self, place: list[ConnectionLike]) -> None:
        for line in place:
            line.calls.let_go()
        self._own.ended()

    async def _looked(self, call: RemoteCall, line: Any, *, begun: bool) -> ConnectionLike | None:
        """Look whether the tool is as it was approved; of a call that was begun, nobody can say that it did not run."""
        try:
            return await call.look(line)
        except ToolProblem as problem:
            if not begun:
                raise
            raise MCPServerError(self.name, f"the call was begun. {problem}", may_have_acted=True) from problem

    async def _call(
        self, call: RemoteCall, seen: ConnectionLike | None, extra: dict[str, Any], *, alone: bool = False
    ) -> Any:
        """Call a tool on the connection that listed it; all rounds of questions and answers use the same one."""
        line = await self._line() if seen is None else seen
        if self._parked.asks and not alone and not line.calls.free:  # it asked for the first time meanwhile
            raise Occupied
        sent = False
        for _ in range(_ROUNDS):
            try:
                got = await line.calls.run(line.call(call.tool, call.arguments, extra), self.settings.seconds)
            except Unsent as problem:
                if sent:  # the answers did not get there, but the call did
                    raise Lost(str(problem)) from None
                raise
            sent = True
            if not isinstance(got, InputRequired):
                return got
            asked = asked_next(got, answered="input_responses" in extra)
            if asked and self.settings.elicitation_callback is None:
                return got
            said = {key: await self._in_line(each.params) for key, each in got.requests.items()}
            extra = {**extra, "request_state": got.state, "input_responses": said}
        raise Lost(f"it asked for input {_ROUNDS} times in one call, which is the limit")

    async def _reply_of(self, work: Coroutine[Any, Any, Any]) -> ToolReply:
        """Await a call on the MCP loop, and convert its outcome to the words of the seam."""
        return await self._worded(reply_of(work))

    async def _worded(self, work: Coroutine[Any, Any, T]) -> T:
        return await on_mcp_loop(worded(self.name, self.settings.seconds, work))

    async def _read(self, what: str, ask: Callable[[ConnectionLike], Awaitable[Any]]) -> Any:
        return await on_mcp_loop(self._asked(what, ask))

    async def _list(self, on: ConnectionLike | None) -> dict[str, RemoteTool]:
        pages = self.settings.max_list_pages
        return await self._asked("its tools", lambda line: listed(self.name, line, pages, self._origin), on)

    async def _asked(
        self, what: str, ask: Callable[[ConnectionLike], Awaitable[Any]], on: ConnectionLike | None = None
    ) -> Any:
        """Ask for what changes nothing, again after a loss, and say what could not be read."""
        attempt = 0
        while True:
            free = 0
            try:
                line = on or await self._line()
                async with asyncio.timeout(self.settings.seconds):
                    return await ask(line)
            except Unreached as problem:
                reason = str(problem)
            except (Lost, Unsent) as problem:
                free, reason = 1, str(problem)
            except TimeoutError:
                reason = f"it did not answer within {self.settings.seconds:g} s"
            except CallRefused as problem:
                raise MCPServerError(self.name, f"{what} could not be read: {problem}") from None
            if on is not None or attempt >= max(free, self.settings.max_retry_attempts):
                raise MCPServerDown(self.name, f"{what} could not be read: {reason}")
            await asyncio.sleep(self.settings.pause(attempt) if attempt else 0)
            attempt += 1

    async def _line(self) -> ConnectionLike:
        """Return the connection, opened where there is none: once for all who need it now."""
        if not self._wanted and not self._holding:
            raise MCPServerError(
                self.name,
                "it is not connected: use `async with server:`, or call connect(), or run the agent in an App",
            )
        line = self._connection
        if line is not None and line.alive and not line.calls.ambiguous:
            return line
        opening = self._opening = self._opening or asyncio.ensure_future(self._open())
        await asyncio.wait({opening})  # who is cancelled stops waiting, and the others still get it
        if opening.cancelled():
            raise Unreached("it was closed")
        return opening.result()

    async def _open(self) -> ConnectionLike:
        try:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            if (known := self._known_as()) is not None:
                vars(self)["name"], self._origin = known
            line = await self._connected()
            self._connection, self._cache = line, None
            return line
        finally:
            self._opening = None

    async def _connected(self) -> ConnectionLike:
        """Open a connection."""
        line = _connection(self, OpenCalls(self._parked))
        await line.open(self.settings.connect_timeout_seconds)
        return line

    async def _close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        line = self._connection
        self._connection = None
        self._cache = None
        self._parked.drop()
        await self._own.close()
        if line is not None:
            line.calls.drop()
            await line.close()

    async def _filtered(self, context: object, agent: object) -> list[RemoteTool]:
        about = ToolFilterContext(context, agent, self.name)
        tools = (await self.listing()).values()
        return [tool for tool in tools if await lets_through(self.settings.tool_filter, about, tool.name, tool.raw)]

    async def elicited(self, calls: OpenCalls, params: object) -> Any:
        """Pass a question that the server asks within an open call of a connection to whoever waits for that call."""
        if self.settings.elicitation_callback is not None:
            return await self._in_line(params)
        return await calls.ask(params)

    async def _in_line(self, params: Any) -> Any:
        callback, loop = self.settings.elicitation_callback, self._callers
        assert callback is not None
        if loop is None:
            return {"action": "cancel"}

        async def asked() -> Any:
            return await answer_of(callback, None, params)

        self._parked.answering += 1
        try:
            answer = await on_loop(loop, asked())
        finally:
            self._parked.answering -= 1
        return results({ONLY: question(params)}, answer)[ONLY] if isinstance(answer, dict) else answer

    async def noticed(self, message: Any) -> None:
        """Handle a notification from the server."""
        if getattr(message, "method", None) == _LIST_CHANGED:
            self._cache = None
        if self.settings.message_handler is not None:
            await answer_of(self.settings.message_handler, message)


def _connection(server: ProtocolServer, calls: OpenCalls) -> ConnectionLike:
    """Make a connection; this imports the protocol's package, which is large, on first use."""
    try:
        from .connection import Outlet, ServerConnection
    except ModuleNotFoundError as error:
        raise UserError(f"an MCP server needs the package {error.name!r}: pip install 'keyturn[mcp]'") from error
    outlet = Outlet(partial(server.elicited, calls), server.noticed)
    return ServerConnection(server.transport, server.settings.mode, outlet, calls)


async def _anywhere(_line: object = None) -> None:
    """Let a call of the user's own code take whichever connection there is."""
