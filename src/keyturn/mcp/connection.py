"""Keep one connection to a server, opened and closed by a task of its own on the MCP loop.

Here is what the protocol's own client says of an answer, and what that means: answered, never sent, or unknown. Beside
this file only what carries messages knows the protocol's package, and it is loaded with the first connection. Tools,
agents and approvals must not be known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import TypeAdapter, ValidationError

from .calls import CallRefused, InputRequired, Lost, OpenCalls, Unreached, Unsent
from .http import SESSION_OVER, UNSENT

# It logs what servers say as they say it: nowhere, unless the user says where. A terminal may be where people decide.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("client").addHandler(logging.NullHandler())

_ANSWER: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
# What the client itself says when no answer could be had, and what a server says that does not know either.
_UNKNOWN = (CONNECTION_CLOSED, REQUEST_TIMEOUT, INTERNAL_ERROR, PARSE_ERROR, INVALID_REQUEST)


@dataclass(frozen=True)
class Outlet:
    """Receives what the server sends on its own: questions to people (None: nobody to ask) and notices."""

    elicited: Callable[[Any], Awaitable[Any]]
    noticed: Callable[[Any], Awaitable[None]]


class ServerConnection:
    """Speaks the protocol over one connection, which is `alive` until either side closes it."""

    def __init__(self, transport: Callable[[], Any], mode: str, outlet: Outlet, calls: OpenCalls) -> None:
        self.calls = calls
        self._transport = transport
        self._mode = mode
        self._outlet = outlet
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.alive = False

    async def open(self, seconds: float) -> None:
        """Connect and agree on a protocol version before the timeout, or leave nothing behind."""
        self._task = asyncio.create_task(self._own())
        try:
            async with asyncio.timeout(seconds):
                self._client = await asyncio.shield(self._ready)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise Unreached(f"it did not answer within {seconds:g} s") from None
            if isinstance(error, Exception):
                raise Unreached(describe_error(error)) from None
            raise

    async def close(self) -> None:
        """Close the connection and stop the process behind it; pending requests fail as lost."""
        self.alive = False
        self._stop.set()
        if self._task is None:
            return
        if not self._ready.done() or self._client is None:
            self._task.cancel()
        await asyncio.gather(asyncio.shield(self._task), return_exceptions=True)

    async def page(self, cursor: str | None) -> ListToolsResult:
        """Request one page of the tool listing."""
        assert self._client is not None
        params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        try:
            return await self._client.session.list_tools(params=params)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self._meaning(error) from None

    async def read(self, what: str, **given: Any) -> Any:
        """Ask for what changes nothing, by the method of the protocol's client: prompts and resources."""
        assert self._client is not None
        if "cursor" in given:
            cursor = given.pop("cursor")
            given["params"] = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        try:
            return await getattr(self._client.session, what)(**given)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self._meaning(error) from None

    async def call(self, name: str, arguments: dict[str, Any] | None, extra: dict[str, Any]) -> Any:
        """Call a tool; return its result, or `InputRequired`.

        `extra` goes along: `_meta`, or answers to an earlier question.
        """
        if not self.alive or self._client is None:
            raise Unsent("the connection is closed")
        if "input_responses" in extra:
            given: dict[str, Any] = extra["input_responses"]
            extra = {**extra, "input_responses": {key: _elicit_result(answer) for key, answer in given.items()}}
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments, **extra))
        try:
            # Not call_tool(): that checks the answer by a schema of the server's, which may take for ever.
            answer = await self._client.session.send_request(request, _ANSWER)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise self._meaning(error) from None
        if not isinstance(answer, InputRequiredResult):
            return answer
        return InputRequired(dict(answer.input_requests or {}), answer.request_state)

    async def _own(self) -> None:
        try:
            async with Client(
                _watched(self._transport(), self._ended),
                mode=self._mode,
                cache=None,
                elicitation_callback=self._elicited,
                message_handler=self._noticed,
                client_info=Implementation(name="keyturn", version="1"),
            ) as client:
                self.alive = True
                self._ready.set_result(client)
                await self._stop.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error if isinstance(error, Exception) else ConnectionError("closed"))
                self._ready.exception()  # it may be that nobody waits any more
            if not isinstance(error, Exception):
                raise
        finally:
            self.alive = False

    async def _elicited(self, context: object, params: object) -> ElicitResult | ErrorData:
        answer = await self._outlet.elicited(params)
        if answer is None:
            return ErrorData(code=INVALID_REQUEST, message="it is unknown which of several open calls asks this")
        return _elicit_result(answer)

    async def _noticed(self, message: object) -> None:
        await self._outlet.noticed(message)

    def _ended(self) -> None:
        self.alive = False
        self._stop.set()

    def _meaning(self, error: Exception) -> Exception:
        if isinstance(error, ValidationError):
            return Lost("its answer does not follow the protocol")
        if not isinstance(error, MCPError):
            return Lost(describe_error(error)) if self.alive else Unsent("the connection is closed")
        if error.data == SESSION_OVER:
            self._ended()
            return Lost(describe_error(error))  # somebody answered: a gateway may have passed the call on before
        return Unsent(describe_error(error)) if error.data == UNSENT else _answered(error)


def _elicit_result(answer: Any) -> ElicitResult:
    """Convert an answer to the protocol's type; a user's callback may have made one itself."""
    return answer if isinstance(answer, ElicitResult) else ElicitResult(**answer)


def _answered(error: MCPError) -> Exception:
    return Lost(describe_error(error)) if error.code in _UNKNOWN else CallRefused(describe_error(error))


@contextlib.asynccontextmanager
async def _watched(transport: Any, ended: Callable[[], None]) -> AsyncGenerator[tuple[Any, Any]]:
    async with transport as (read, write):
        yield _Watched(read, ended), write


class _Watched:
    """Wraps a stream to notice its end, so that a dead connection is known before anything is sent on it."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    @property
    def last_context(self) -> Any:
        """Return what the protocol's client looks for on its own streams."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        return await self._stream.receive()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


def describe_error(error: BaseException) -> str:
    """Describe an error in few words, without a URL, which may hold a password."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, MCPError):
        return error.message[:500]
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"it answered with HTTP status {status}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return type(error).__name__
