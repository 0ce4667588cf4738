"""The transport over streamable HTTP, the protocol's current one for remote servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, NotRequired, Required, TypedDict, Unpack

from ..core.settable import Rules
from ..support.urls import private_digest, public_url
from .bounds import MESSAGE_BYTES
from .options import ServerOptions, connected_by, settings
from .params import http_params
from .protocol_server import ProtocolServer


class MCPServerStreamableHttpParams(TypedDict, total=False):
    """Says where the server is and what goes with each request.

    Times are in seconds, `auth` is an `httpx2.Auth`.

    A client of your own (`httpx_client_factory`) is used as it is: then bounds and lost connections are its affair.

    >>> MCPServerStreamableHttpParams(url="http://127.0.0.1:8000/mcp")["url"]
    'http://127.0.0.1:8000/mcp'
    """

    url: Required[str]
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[float]
    sse_read_timeout: NotRequired[float]
    terminate_on_close: NotRequired[bool]
    auth: NotRequired[Any]
    httpx_client_factory: NotRequired[Callable[..., Any]]


def _read(params: object) -> dict[str, Any]:
    return http_params(params, MCPServerStreamableHttpParams.__annotations__)


class MCPServerStreamableHttp(ProtocolServer):
    """Connects to a server over streamable HTTP.

    >>> MCPServerStreamableHttp({"url": "http://127.0.0.1:8000/mcp"}, name="files").name
    'files'
    """

    params: MCPServerStreamableHttpParams
    _rules: ClassVar[Rules] = {"params": connected_by(_read)}

    def __init__(
        self,
        params: MCPServerStreamableHttpParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.params = params
        self._unnamed = name is None
        chosen = settings(cache_tools_list, client_session_timeout_seconds, options)
        known, origin = self._known_as() or (name or "", "")
        super().__init__(known, chosen, origin)

    def _known_as(self) -> tuple[str, str] | None:
        url: str = self._given["url"]
        return (f"streamable_http: {public_url(url)}", private_digest(url)) if self._unnamed else None

    @property
    def _given(self) -> dict[str, Any]:
        return _read(self.params)

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Open the client that posts requests and reads the streams of their answers."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Any, Any]]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from .http import HttpClient

        given = self._given
        timeout = httpx2.Timeout(given.get("timeout", 30.0), read=given.get("sse_read_timeout", 300.0))
        make: Callable[..., Any] = given.get("httpx_client_factory") or HttpClient
        async with (
            make(headers=given.get("headers"), timeout=timeout, auth=given.get("auth")) as client,
            streamable_http_client(
                given["url"],
                http_client=client,
                terminate_on_close=given.get("terminate_on_close", True),
                max_sse_event_size=MESSAGE_BYTES,
            ) as streams,
        ):
            yield streams
