"""Name what is sent to a server: the request as it was shown, and a verdict, so that it is recorded once."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from ..inbox.naming import Naming, Shown, shown_of
from ..policies.grants import Grant
from ..wire import bodies
from .sending import ServerError

T = TypeVar("T")


class SentWords(Naming, total=False):
    """Holds what goes with any decision, as `Inbox` has it; `once` names the word, so that it is said once."""

    once: str | None


class Names:
    """Names verdicts that are sent; a name is kept until the server has answered."""

    def __init__(self) -> None:
        self._kept = dict[str, str]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept.values())

    async def once(self, what: str, recorded: Callable[[str], Awaitable[T]]) -> T:
        """Send a verdict under a name that it keeps until the server has answered."""
        name = self._kept.setdefault(what, secrets.token_hex(16))
        try:
            made = await recorded(name)
        except ServerError:
            raise  # whether it was recorded is not known: the name stays
        except Exception:
            self._kept.pop(what, None)
            raise
        self._kept.pop(what, None)
        return made


def body_of(request: Shown, kind: Any, words: Naming | SentWords, more: dict[str, Any]) -> tuple[str, Any]:
    """Return the id of a request, and the body that names it as it was shown."""
    digest, revision = more.pop("digest", words.get("digest")), more.pop("revision", words.get("revision"))
    shown = shown_of(request, {"digest": digest, "revision": revision})
    rest = {name: value for name, value in words.items() if name in ("note", "proof")}
    return shown.id, kind(digest=shown.digest, revision=shown.revision, **rest, **more)


def length_of(expires: str | float) -> str:
    """Return a duration as it is sent."""
    return expires if isinstance(expires, str) else f"{expires:f}s"


def grant_said(grant: Grant) -> bodies.GrantSaid:
    """Return a grant as it is sent."""
    expires = None if grant.expires is None else length_of(grant.expires)
    where = None if grant.where is None else dict(grant.where)
    return bodies.GrantSaid(where=where, expires=expires, uses=grant.uses, scope=grant.scope)
