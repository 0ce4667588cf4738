"""Find the client to ask OpenAI with: the caller's, the process's default, or one made here.

A client that is made here belongs to the event loop that it was made in, because its connections do, and is closed
with it; one that was given is used as it is and never closed. The SDK is imported when the first client is needed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, Self
from urllib.parse import urlsplit

from ...core.errors import UserError
from ...core.settable import Sealed
from ..base import Model
from ..per_loop import ClientPerLoop, certificates
from .defaults import OPENAI

_KEYLESS = (
    "OpenAI's API needs a key: set OPENAI_API_KEY, call set_default_openai_key(), or pass api_key= or openai_client=; "
    "a local server takes any text"
)


class OpenAIAccount:
    """Gives an OpenAI model its client.

    >>> OpenAIAccount(client="a client", api_key="k")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: openai_client has a key and an address of its own; give one or the other
    """

    def __init__(self, client: Any = None, *, make: Callable[[], Any] | None = None, **settings: str | None) -> None:
        given = {name: value for name, value in settings.items() if value is not None}
        if client is not None and given:
            raise UserError("openai_client has a key and an address of its own; give one or the other")
        self._given = client
        self._settings = given
        self._is_own = bool(given) or make is not None
        self._made = ClientPerLoop(make or self._make, _closed)

    async def client(self) -> tuple[Any, bool]:
        """Return the client to ask with, and whether it was made here."""
        given = self._given
        if given is None and not self._is_own:
            given = OPENAI.client
        if given is not None:
            return _asynchronous(given), False
        return await self._made.client(), True

    def _make(self) -> Any:
        settings: dict[str, Any] = dict(self._settings)
        key = settings.setdefault("api_key", OPENAI.key or os.environ.get("OPENAI_API_KEY"))
        if not key:
            raise UserError(_KEYLESS)
        return new_client(**settings)

    async def close(self) -> None:
        """Close the client that was made in this event loop."""
        await self._made.close()


class OpenAIModel(Model, Sealed):
    """Has a name and an account: the base of the models of both APIs."""

    provider = "openai"

    def __init__(
        self,
        model: str | None = None,
        openai_client: Any = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        organization: str | None = None,
        project: str | None = None,
    ) -> None:
        self._name = model
        self._account = OpenAIAccount(
            openai_client, api_key=api_key, base_url=base_url, organization=organization, project=project
        )

    @classmethod
    def of(cls, model: str | None, account: OpenAIAccount) -> Self:
        """Make a model that uses an account shared with others."""
        made = cls(model)
        made._account = account
        return made

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self._name or OPENAI.model_name()


def new_client(kind: str = "AsyncOpenAI", **settings: Any) -> Any:
    """Return a client of the SDK, which tries once.

    What is tried again is decided here, where it is known what was told and recorded; twice would multiply.
    """
    try:
        import openai
    except ModuleNotFoundError as error:
        raise UserError(f"this model needs the package {error.name!r}: pip install 'keyturn[openai]'") from error
    lines = openai.DefaultAsyncHttpxClient(verify=certificates())
    return getattr(openai, kind)(max_retries=0, http_client=lines, **settings)


def _closed(client: Any) -> Awaitable[None]:
    return client.close()


def _asynchronous(client: object) -> Any:
    close = getattr(client, "close", None)
    if close is not None and not iscoroutinefunction(close) and type(client).__name__.endswith("OpenAI"):
        raise UserError(f"openai_client must be an AsyncOpenAI, not {type(client).__name__}, which blocks every run")
    return client


def is_openais(client: Any) -> bool:
    """Return whether a client speaks to OpenAI or Azure OpenAI, and not to another compatible server."""
    host = urlsplit(str(client.base_url)).hostname or ""
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))
