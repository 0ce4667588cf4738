"""Send one request to a server and read its answer: errors are those that an `App` raises, retries are bounded.

What can be repeated safely is: reading is, and each change carries a key by which the server knows it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Protocol, TypeVar, cast

import msgspec

from ..core.digest import canonical
from ..core.encodable import in_milliseconds
from ..core.errors import (
    BadJson,
    Conflict,
    Expired,
    KeyturnError,
    NotAllowed,
    NotPending,
    RunMissing,
    StorageError,
    UserError,
)
from ..core.people import ProofRefused
from ..journal.rows import Query
from ..wire.responses import LAST, Failure, Told
from .address import request_path, server_url

try:
    import httpx2
except ImportError as error:
    raise ImportError("the client needs httpx2: pip install 'keyturn[server]'") from error

T = TypeVar("T")


class _Paged(Protocol):
    """Says where the page that follows begins."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def next(self) -> str | int | None: ...


Page = TypeVar("Page", bound=_Paged)
_PAGE = 200
_TRIES = 4
_PAUSE = 0.2
#: What a server answers that may answer otherwise in a moment.
AGAIN = (429, 502, 503, 504)
PATIENCE = 5
_LONGEST_PAUSE = 10.0
_LIVED = 60.0  # longer than it takes to find out that a server does not answer, and to wait for the next try
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_RUN = re.compile(r"/runs/([^/]+)")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


class TokenRefused(NotAllowed):
    """Raised where a server knows nobody by the token.

    >>> issubclass(TokenRefused, NotAllowed)
    True
    """


_KINDS: dict[str, type[KeyturnError]] = {
    "not_allowed": NotAllowed,
    "unknown": TokenRefused,
    "expired": Expired,
    "storage": StorageError,
    "bad_json": BadJson,
    "proof": ProofRefused,
}


class ServerError(KeyturnError):
    """Raised where a server cannot be reached, or answers what no Keyturn server does; `status` is what it answered.

    >>> ServerError("nobody answers", None).status is None
    True
    """

    def __init__(self, message: str, status: int | None) -> None:
        self.status = status
        self.uncertain = status is None or status == 200 or status >= 500
        super().__init__(message)


class StreamBreaks:
    """Counts streams in a row that were cut, or ended with nothing new, and waits longer before each next one.

    More than `patience` that were cut raise their error. One that ended in order was answered, so that it may go on;
    and one that was cut a while after the last has lived until then, as those of a quiet run behind a proxy do.
    """

    def __init__(self, patience: int = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._cut = self._empty = 0
        self._last = clock()

    def came(self) -> None:
        """Note that a stream had something new: after its end the next one is asked for at once."""
        self._cut, self._empty = 0, -1

    def ended(self) -> None:
        """Note that a stream ended in order."""
        self._empty += 1

    def cut(self, error: ServerError) -> None:
        """Note that a stream was cut, or raise its error where another one would not help."""
        before, self._last = self._last, self._clock()
        self._cut = 1 if self._last - before > _LIVED else self._cut + 1
        if self._cut > self._patience or error.status not in (None, *AGAIN):
            raise error

    async def pause(self) -> None:
        """Wait before the next stream."""
        await asyncio.sleep(min(_PAUSE * 2 ** min(self._cut + max(self._empty, 0), 10), _LONGEST_PAUSE))


def _trusted(base: str) -> bool | ssl.SSLContext:
    """Return whose certificates are taken; where a server is reached by plain HTTP nobody's, which reads no files."""
    return base.lower().startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Sender:
    """Sends requests to one server, with one token."""

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, transport: Any = None, plain_http: bool = False
    ) -> None:
        base = f"{server_url(url, plain_http=plain_http)}/v1"
        if not _VISIBLE.fullmatch(token):
            raise UserError("a token is visible ASCII characters without a space, such as kt_1_...")
        self.url = url
        headers = {"authorization": f"Bearer {token}"}
        self._client = httpx2.AsyncClient(
            base_url=base,
            headers=headers,
            timeout=timeout,
            transport=transport,
            trust_env=False,
            verify=_trusted(base),
        )

        self._ahead = 0.0  # of the server's clock before ours, in seconds

    def now(self) -> int:
        """Return the server's time in milliseconds, as its last answer told it; this machine's before the first."""
        return int((time.time() + self._ahead) * 1_000)

    def _note_time(self, told: str | None) -> None:
        with contextlib.suppress(ValueError, TypeError):
            if told is not None:
                self._ahead = parsedate_to_datetime(told).timestamp() - time.time()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, path: str, kind: type[T], patience: float = 0.0, /, **wanted: Any) -> T:
        """Read something; `patience` is how much longer than usual the answer may take."""
        return read(await self._sent("GET", path, _query(wanted), None, {}, patience), kind)

    async def pages(self, path: str, kind: type[Page], limit: int, /, **wanted: Any) -> AsyncGenerator[Page]:
        """Yield pages until they hold `limit` rows, or there are no more; a page may be short though others follow."""
        left = limit
        while left > 0:
            page = await self.get(path, kind, **wanted | {"limit": min(left, _PAGE)})
            yield page
            rows: Any = getattr(page, page.__struct_fields__[0])
            left -= len(rows)
            if page.next is None or page.next == wanted.get("after"):
                return
            wanted["after"] = page.next

    async def post(self, path: str, kind: type[T], body: msgspec.Struct, key: str | None = None) -> T:
        """Change something, once."""
        return read(await self.posted(path, body, key), kind)

    async def posted(self, path: str, body: msgspec.Struct, key: str | None = None) -> bytes:
        """Change something, once, and return the answer as it came."""
        key = secrets.token_hex(16) if key is None else key
        if not _KEY.fullmatch(key):
            raise UserError("once= is sent as an idempotency key: 1 to 200 visible ASCII characters, without a space")
        headers = {"content-type": "application/json", "idempotency-key": key}
        return await self._sent("POST", path, {}, _exact(body), headers, 0.0)

    async def _sent(
        self, method: str, path: str, query: dict[str, Any], body: bytes | None, headers: dict[str, str], wait: float
    ) -> bytes:
        """Send a request, again where that may help, and return the body of its answer.

        A change whose first answer was lost may have been made, whatever is answered to the next try.
        """
        request_path(path)
        lost = False
        timeout: Any = httpx2.Timeout(self._client.timeout.read or 30.0)
        if wait:
            timeout = httpx2.Timeout(timeout.read + wait)
        for tried in range(1, _TRIES + 1):
            try:
                made = await self._client.request(
                    method, path, params=query, content=body, headers=headers, timeout=timeout
                )
            except httpx2.TransportError as error:
                if tried == _TRIES:
                    raise ServerError(f"the server does not answer: {type(error).__name__}", None) from None
                lost = lost or (body is not None and not isinstance(error, _UNSENT))
            else:
                self._note_time(made.headers.get("date"))
                if made.status_code < 300:
                    return made.content
                if made.status_code not in AGAIN or tried == _TRIES:
                    failed = error_of(made.status_code, made.content, path)
                    failed.uncertain = failed.uncertain or lost
                    raise failed
                lost = lost or (body is not None and made.status_code >= 500)
            await asyncio.sleep(_PAUSE * 2 ** (tried - 1))
        raise AssertionError("the last try returns or raises")

    async def events(
        self, path: str, last: str | None, *, ends: bool = False, **wanted: Any
    ) -> AsyncGenerator[tuple[str, bytes]]:
        """Yield the events of one stream with their ids, until it ends; raise `ServerError` where it is cut.

        Where it `ends`, one without data comes last: else it was cut off in order, as its server stopped.
        """
        request_path(path)
        headers = {} if last is None else {"last-event-id": last}
        timeout = httpx2.Timeout(30.0, read=60.0)
        try:
            async with self._client.stream(
                "GET", path, params=_query(wanted), headers=headers, timeout=timeout
            ) as made:
                if made.status_code != 200:
                    raise error_of(made.status_code, await made.aread(), path)
                async for each in _events_in(_lines_in(made.aiter_bytes()), ends=ends):
                    yield each
        except httpx2.TransportError as error:
            raise ServerError(f"the stream was cut: {type(error).__name__}", None) from None


async def _lines_in(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of an event stream, which end where its standard says: U+2028 and others are text within one."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")


async def _events_in(lines: AsyncIterator[bytes], *, ends: bool) -> AsyncGenerator[tuple[str, bytes]]:
    name = ""
    async for line in lines:
        field, _, value = line.partition(b": ")
        if field == b"id":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            yield name, value
        elif ends and line == LAST:
            yield name, b""


def _exact(body: msgspec.Struct) -> bytes:
    """Return a body as JSON that says exactly what was given, or raise `UserError`, as an `App` does."""
    try:
        plain = _listed(msgspec.to_builtins(body))
        canonical(plain)
        return msgspec.json.encode(plain)
    except BadJson as error:
        why = error.reason
    except (TypeError, ValueError, OverflowError) as error:
        why = type(error).__name__
    raise UserError(f"what is sent must be JSON that every reader reads alike: {why}")


def _listed(value: Any) -> Any:
    """Return a value with lists for tuples, which structs of ours such as a preview hold."""
    if type(value) is dict:
        return {name: _listed(member) for name, member in cast("dict[Any, Any]", value).items()}
    return [_listed(member) for member in value] if type(value) in (list, tuple) else value


def after_of(query: Query) -> str | None:
    """Return where a query begins, as a server takes it."""
    return None if query.after is None else f"{query.after[0]}.{query.after[1]}"


def _query(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as a URL has them: none for what is not said."""
    made = {name.rstrip("_"): value for name, value in wanted.items() if value is not None}
    return {name: _text(value) for name, value in made.items() if value is not False}


def _text(value: object) -> str:
    if value is True:
        return "true"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def read(body: bytes, kind: type[T]) -> T:
    """Read what a server answered, or raise `ServerError` where no Keyturn server answers so."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError:
        raise ServerError("the response is not from a Keyturn server; check the URL", 200) from None


def error_of(status: int, body: bytes, path: str) -> KeyturnError:
    """Return the error that an answer tells of, as an `App` raises it."""
    try:
        told = msgspec.json.decode(body, type=Failure).error
    except msgspec.MsgspecError:
        return ServerError(f"the server answered {status}, and not as a Keyturn server does", status)
    return told_error(told, status, path)


def told_error(told: Told, status: int = 422, path: str = "") -> KeyturnError:
    """Return the error that is told of."""
    if told.kind == "conflict":
        at = None if told.at is None else in_milliseconds(told.at)
        return Conflict(told.message, winner=told.winner, decision=told.decision, at=at)
    if told.kind == "missing":
        run = _RUN.match(path)
        return NotPending(told.message) if run is None else RunMissing(run[1])
    kind = _KINDS.get(told.kind, ServerError if status >= 500 or status == 429 else UserError)
    if kind is ServerError:
        return ServerError(told.message, status)
    error = kind.__new__(kind)
    Exception.__init__(error, told.message)
    if isinstance(error, BadJson | ProofRefused):
        error.reason = told.message
    return error
