"""Make the server of an app where its packages are installed, else say which extra has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .settings import ServerSettings


def served(app: Any, settings: ServerSettings | None) -> Callable[..., Awaitable[None]]:
    """Return the server of an app, or raise `ImportError` with what to install."""
    try:
        from .asgi import serve
    except ImportError as error:
        words = f"the server needs packages of its own ({error.name}): pip install 'keyturn[server]'"
        raise ImportError(words, name=error.name) from error
    return serve(app, settings)
