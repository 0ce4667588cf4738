"""The transport over HTTP with server-sent events (SSE), the protocol's older one for remote servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NotRequired, Required, TypedDict, Unpack, cast

from .options import ServerOptions, settings
from .params import http_params, public_url
from .protocol_server import ProtocolServer


class MCPServerSseParams(TypedDict, total=False):
    """Says where the server is and what goes with each request.

    Times are in seconds, `auth` is an `httpx2.Auth`.

    >>> MCPServerSseParams(url="http://127.0.0.1:8000/sse")["url"]
    'http://127.0.0.1:8000/sse'
    """

    url: Required[str]
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[float]
    sse_read_timeout: NotRequired[float]
    auth: NotRequired[Any]
    httpx_client_factory: NotRequired[Callable[..., Any]]


class MCPServerSse(ProtocolServer):
    """Connects to a server over SSE.

    It speaks the older protocol, so that questions it asks end with this process.

    >>> MCPServerSse({"url": "http://127.0.0.1:8000/sse"}).name
    'sse: http://127.0.0.1:8000/sse'
    """

    def __init__(
        self,
        params: MCPServerSseParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.params = params
        self._given = http_params(params, MCPServerSseParams.__annotations__)
        older = cast("ServerOptions", {**options, "mode": "legacy"})
        chosen = settings(cache_tools_list, client_session_timeout_seconds, older)
        super().__init__(f"sse: {public_url(self._given['url'])}" if name is None else name, chosen)

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Open the stream of events; requests are posted beside it."""
        from mcp.client.sse import sse_client

        from .http import EventsClient

        given: dict[str, Any] = {"httpx_client_factory": EventsClient, **self._given}
        return sse_client(**given)
