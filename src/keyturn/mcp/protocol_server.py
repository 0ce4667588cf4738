"""A server over the protocol's own client, whatever carries the messages: lists, calls, and goes on after a loss.

A call that may have acted is never sent again by itself, unless the user trusts the server's word that it may be. Each
attempt goes to the connection on which its tool was looked at last, or nowhere.
What carries the messages is the member's affair. All work on the connection is done at home.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from ..core.errors import UserError
from .base import MCPServer, MCPServerError, RemoteCall, RemoteTool, ToolReply
from .bounds import WORDS_BYTES
from .calls import OpenCalls, Parked
from .elicitation import ONLY, Unfit, asked_again, question, questions, results
from .filters import ToolFilterContext, lets_through
from .home import at_home, over_there
from .listing import listed
from .offers import Offers
from .options import Settings
from .outcomes import CallRefused, InputRequired, Lost, Unreached, Unsent

_ROUNDS = 10
_LIST_CHANGED = "notifications/tools/list_changed"


class ConnectionLike(Protocol):
    """What a server needs of its connection."""

    alive: bool

    async def open(self, seconds: float) -> None: ...
    async def close(self) -> None: ...
    async def page(self, cursor: str | None) -> Any: ...
    async def call(self, name: str, arguments: dict[str, Any] | None, extra: dict[str, Any]) -> Any: ...


class ProtocolServer(MCPServer):
    """What every member shares; a member says what carries its messages.

    >>> sorted(ProtocolServer.__abstractmethods__)
    ['transport']
    """

    def __init__(self, name: str, settings: Settings, origin: str = "") -> None:
        if not isinstance(name, str) or not name:
            raise UserError(f"an MCP server's name must be a text that is not empty, not {name!r}")
        self.name = name
        self.settings = settings
        self._origin = origin
        self._offers = Offers(self, settings)
        self._lock = asyncio.Lock()
        self._calls = OpenCalls()
        self._connection: ConnectionLike | None = None
        self._wanted = False
        self._cache: dict[str, RemoteTool] | None = None
        self._callers: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @abc.abstractmethod
    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """What carries the messages: a context that yields the protocol's two streams. A new one each time."""

    async def connect(self) -> None:
        """Open the connection; an error if that cannot be done."""
        self._wanted = True
        try:
            await at_home(self._line())
        except Unsent as problem:
            self._wanted = False
            raise MCPServerError(self.name, f"it could not be connected: {problem}") from None
        except BaseException:
            self._wanted = False
            raise

    async def cleanup(self) -> None:
        """Close the connection. What stands open on it is lost."""
        self._wanted = False
        await at_home(self._close())

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        """The tools that the filter lets through, as the protocol's own objects."""
        return [tool.raw for tool in await self._filtered(run_context, agent)]

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: Any = None) -> Any:
        """Call a tool at once, past any approval. Questions that the server asks are declined."""
        call = RemoteCall(tool_name, arguments or {}, meta, _anywhere)
        reply = await self._send(call, repeatable=False)
        for _ in range(_ROUNDS):
            if reply.requests is None:
                return reply.result
            reply = await self._answered(call, reply.state or {}, results(reply.requests, None))
        raise MCPServerError(self.name, f"it asked again {_ROUNDS} times", may_have_acted=True)

    def invalidate_tools_cache(self) -> None:
        """List anew when the tools are asked for the next time."""
        self._cache = None

    async def tools_for(self, context: Any, agent: Any) -> list[Any]:
        """The tools as an agent has them. A tool that did not change is the same object as before."""
        return [self._offers.tool(remote, agent) for remote in await self._filtered(context, agent)]

    async def listing(self, *, fresh: bool = False) -> dict[str, RemoteTool]:
        """All tools by name; `fresh` asks the server whatever is kept."""
        kept = self._cache if self.settings.cache_tools_list and not fresh else None
        if kept is not None:
            return kept
        tools = await at_home(self._list())
        self._offers.approvals.check_names(tools)
        self._cache = tools
        return tools

    async def begin(self, call: RemoteCall, *, repeatable: bool) -> ToolReply:
        """Call a tool for a model: a result, or questions to people."""
        return await self._send(call, repeatable=repeatable)

    async def go_on(self, call: RemoteCall, resumed: Any) -> ToolReply:
        """Go on with a call once people have answered; an answer that does not fit is asked for again."""
        asked: dict[str, Any] = {key: each for key, each in resumed.requests.items() if not isinstance(each, str)}
        try:
            answers = results(asked, resumed.answers)
        except Unfit as problem:
            return ToolReply(requests=asked_again(asked, str(problem)), state=resumed.state)
        return await self._answered(call, resumed.state, answers)

    async def _answered(self, call: RemoteCall, state: dict[str, Any], answers: dict[str, Any]) -> ToolReply:
        if "parked" in state:  # it stands open on its connection, and is gone with it
            await call.look()
            return await at_home(self._meant(self._calls.go_on(state["parked"], answers[ONLY], self.settings.seconds)))
        extra = {"request_state": state["request_state"], "input_responses": answers}
        return await self._send(call, repeatable=False, extra=extra)

    async def _send(self, call: RemoteCall, *, repeatable: bool, extra: dict[str, Any] | None = None) -> ToolReply:
        self._callers = asyncio.get_running_loop()
        more = {**(extra or {}), **({"_meta": call.meta} if call.meta else {})}
        attempt = 0
        while True:
            seen = await call.look()  # last, so that nothing is waited for between this and the sending
            try:
                return await at_home(self._meant(self._call(call, seen, more)))
            except MCPServerError as error:
                harmless = not error.may_have_acted or repeatable
                again = isinstance(error, _Unanswered) and harmless and attempt < error.attempts(self.settings)
                if not again:
                    raise
            await asyncio.sleep(self.settings.pause(attempt) if attempt else 0)
            attempt += 1

    async def _call(self, call: RemoteCall, seen: ConnectionLike | None, extra: dict[str, Any]) -> Any:
        """Call a tool on the connection on which it was seen; all rounds of questions and answers take the same."""
        line = await self._line() if seen is None else seen
        sent = False
        for _ in range(_ROUNDS):
            try:
                got = await self._calls.run(line.call(call.tool, call.arguments, extra), self.settings.seconds)
            except Unsent as problem:
                if sent:  # the answers did not get there, but the call did
                    raise Lost(str(problem)) from None
                raise
            sent = True
            if not isinstance(got, InputRequired) or (got.requests and self.settings.elicitation_callback is None):
                return got
            questions(got.requests)  # whatever is no question to people is refused
            said = {key: await self._in_line(each.params) for key, each in got.requests.items()}
            extra = {**extra, "request_state": got.state, "input_responses": said}
        raise CallRefused(f"it asked again {_ROUNDS} times")

    async def _meant(self, work: Any) -> ToolReply:
        """What came of a call, in the words of this room's seam."""
        try:
            got = await work
            if isinstance(got, Parked):
                return ToolReply(requests={ONLY: question(got.params)}, state={"parked": got.token})
            if isinstance(got, InputRequired):
                if len(got.state or "") > WORDS_BYTES:
                    raise CallRefused("what it wants to be reminded of is too long; the call was not finished")
                return ToolReply(requests=questions(got.requests), state={"request_state": got.state})
            return ToolReply(result=got)
        except CallRefused as problem:
            raise MCPServerError(self.name, str(problem)) from None
        except Unsent as problem:
            unreached = isinstance(problem, Unreached)
            raise _Unanswered(self.name, f"nothing was sent: {problem}", free=0 if unreached else 1) from None
        except TimeoutError:
            problem = f"it did not answer within {self.settings.seconds:g} s"
            raise _Unanswered(self.name, problem, may_have_acted=True) from None
        except Lost as problem:
            raise _Unanswered(self.name, f"its answer was lost: {problem}", may_have_acted=True) from None

    async def _list(self) -> dict[str, RemoteTool]:
        attempt = 0
        while True:
            free = 0
            try:
                line = await self._line()
                async with asyncio.timeout(self.settings.seconds):
                    return await listed(self.name, line, self.settings.max_list_pages, self._origin)
            except Unreached as problem:
                said = str(problem)
            except (Lost, Unsent) as problem:
                free, said = 1, str(problem)
            except TimeoutError:
                said = f"it did not answer within {self.settings.seconds:g} s"
            except CallRefused as problem:
                raise MCPServerError(self.name, f"it lists no tools: {problem}") from None
            if attempt >= max(free, self.settings.max_retry_attempts):
                raise MCPServerError(self.name, f"its tools could not be listed: {said}")
            await asyncio.sleep(self.settings.pause(attempt) if attempt else 0)
            attempt += 1

    async def _line(self) -> ConnectionLike:
        """The connection, opened anew where it is gone."""
        async with self._lock:
            if not self._wanted:
                raise MCPServerError(self.name, "it is not connected: use `async with server:`, or call connect()")
            line = self._connection
            if line is None or not line.alive:
                if line is not None:
                    await line.close()
                line = _connection(self)
                await line.open(self.settings.connect_timeout_seconds)
                self._connection, self._cache = line, None
            return line

    async def _close(self) -> None:
        async with self._lock:
            line = self._connection
            self._connection = None
            self._cache = None
            self._calls.drop()
            if line is not None:
                await line.close()

    async def _filtered(self, context: Any, agent: Any) -> list[RemoteTool]:
        about = ToolFilterContext(context, agent, self.name)
        tools = (await self.listing()).values()
        return [tool for tool in tools if await lets_through(self.settings.tool_filter, about, tool.name, tool.raw)]

    async def elicited(self, params: Any) -> Any:
        """The server asks within an open call: whoever waits for that call is asked."""
        if self.settings.elicitation_callback is not None:
            return await self._in_line(params)
        return await self._calls.ask(params)

    async def _in_line(self, params: Any) -> Any:
        callback, loop = self.settings.elicitation_callback, self._callers
        assert callback is not None
        if loop is None:
            return {"action": "cancel"}

        async def asked() -> Any:
            answer: Any = callback(None, params)
            return await answer if inspect.isawaitable(answer) else answer

        self._calls.answering += 1
        try:
            answer = await over_there(loop, asked())
        finally:
            self._calls.answering -= 1
        return results({ONLY: question(params)}, answer)[ONLY] if isinstance(answer, dict) else answer

    async def noticed(self, message: Any) -> None:
        """The server said something that is no answer."""
        if getattr(message, "method", None) == _LIST_CHANGED:
            self._cache = None
        if self.settings.message_handler is not None:
            answer: Any = self.settings.message_handler(message)
            if inspect.isawaitable(answer):
                await answer


def _connection(server: ProtocolServer) -> ConnectionLike:
    """A connection to be opened. The protocol's package is large: it is loaded with the first one, or not at all."""
    try:
        from .connection import Outlet, ServerConnection
    except ModuleNotFoundError as error:
        raise UserError(f"an MCP server needs the package {error.name!r}: pip install 'keyturn[mcp]'") from error
    return ServerConnection(server.transport, server.settings.mode, Outlet(server.elicited, server.noticed))


async def _anywhere() -> None:
    """Let a call of the user's own code take whichever connection there is."""


class _Unanswered(MCPServerError):
    """A call without an answer; `free` is how often it may be sent again though nobody set any attempts."""

    def __init__(self, server: str, problem: str, *, may_have_acted: bool = False, free: int = 0) -> None:
        super().__init__(server, problem, may_have_acted=may_have_acted)
        self._free = free

    def attempts(self, settings: Settings) -> int:
        return max(self._free, settings.max_retry_attempts)
