"""The transport over HTTP with server-sent events (SSE), the protocol's older one for remote servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, NotRequired, Required, TypedDict, Unpack, cast

from ..core.settable import Rules, fixed
from ..support.urls import private_digest, public_url
from .options import ServerOptions, connected_by, settings
from .params import http_params
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


def _read(params: object) -> dict[str, Any]:
    return http_params(params, MCPServerSseParams.__annotations__)


class MCPServerSse(ProtocolServer):
    """Connects to a server over SSE.

    It speaks the older protocol, so that questions it asks end with this process.

    >>> MCPServerSse({"url": "http://127.0.0.1:8000/sse"}).name
    'sse: http://127.0.0.1:8000/sse'
    """

    params: MCPServerSseParams
    _rules: ClassVar[Rules] = {"params": connected_by(_read), "mode": fixed("this transport speaks the older protocol")}

    def __init__(
        self,
        params: MCPServerSseParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.params = params
        self._unnamed = name is None
        older = cast("ServerOptions", {**options, "mode": "legacy"})
        chosen = settings(cache_tools_list, client_session_timeout_seconds, older)
        known, origin = self._known_as() or (name or "", "")
        super().__init__(known, chosen, origin)

    def _known_as(self) -> tuple[str, str] | None:
        url: str = self._given["url"]
        return (f"sse: {public_url(url)}", private_digest(url)) if self._unnamed else None

    @property
    def _given(self) -> dict[str, Any]:
        return _read(self.params)

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Open the stream of events; requests are posted beside it."""
        from mcp.client.sse import sse_client

        from .http import EventsClient

        given: dict[str, Any] = {"httpx_client_factory": EventsClient, **self._given}
        return sse_client(**given)
