"""Decide when `response.create` may be sent: the provider refuses one while a response is under way.

Whoever wants a response asks here. A wish is kept until no response is active, and plain wishes become one. Nothing
here sends; the model sends what `next` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from ..core.errors import UserError

REFUSED = "conversation_already_has_active_response"
# Wishes with words of their own cannot become one: somebody who piles them up is told.
_MOST_WISHES = 64
_REMEMBERED = 64


class ResponseTurns:
    """Keeps which response is active on one connection, and who waits for the next.

    >>> turns = ResponseTurns()
    >>> turns.want({}); turns.want({}); turns.next()["type"]
    'response.create'
    >>> turns.want({}); turns.next() is None
    True
    """

    def __init__(self) -> None:
        self.active: str | None = None
        self._wishes: deque[dict[str, Any]] = deque()
        # What was asked for last, until it is known to have been refused; `_pending` until a response has begun.
        self._asked: dict[str, Any] | None = None
        self._pending = False
        self._refused = False
        self._count = 0
        self._ended: deque[str] = deque(maxlen=_REMEMBERED)

    @property
    def busy(self) -> bool:
        """Return whether a response is under way, or was asked for and not begun."""
        return self.active is not None or self._pending

    @property
    def ready(self) -> bool:
        """Return whether a response is wanted and would not be refused."""
        return bool(self._wishes) and not self.busy and not self._refused

    def want(self, wish: Mapping[str, Any]) -> None:
        """Note that a response is wanted; `wish` is what `response.create` says besides its type."""
        if not wish and self._plain_waits():
            return
        if len(self._wishes) >= _MOST_WISHES:
            raise UserError(f"{_MOST_WISHES} responses are waiting already: wait until the model has answered")
        self._wishes.append(dict(wish))

    def next(self) -> dict[str, Any] | None:
        """Return the message to send now, None where there is none or it would be refused."""
        if not self.ready:
            return None
        self._count += 1
        self._asked = {"event_id": f"keyturn_response_{self._count}", **self._wishes.popleft()}
        self._pending = True
        return {"type": "response.create", **self._asked}

    def hear(self, event: Mapping[str, Any]) -> bool:
        """Follow what the server says of its responses; return whether it refused one that will be asked for again."""
        kind = event.get("type")
        if kind == "error":
            return self._failed(event.get("error"))
        elif kind in ("response.created", "response.done") and not _apart(event.get("response")):
            name = _id_of(event.get("response"))
            if kind == "response.done":
                self._done(name)
            elif name not in self._ended:
                # Whose it is cannot be told. If it is not the one asked for, that one is refused and comes back.
                self.active = name
                self._pending = False
        return False

    def _done(self, name: str) -> None:
        if name in self._ended:
            return
        if name:
            self._ended.append(name)
        self._refused = False
        if self.active in (None, name) or not name:
            self.active = None
            self._pending = False

    def _failed(self, error: object) -> bool:
        if self._asked is None or not isinstance(error, Mapping):
            return False
        told = cast("Mapping[str, Any]", error)
        refused = told.get("code") == REFUSED
        cause = told.get("event_id")
        # An error may not say what it is about. If it is not about this, the next one is refused and comes back.
        if cause != self._asked["event_id"] and not (cause is None and (refused or self._pending)):
            return False
        if refused:
            self._again(self._asked)
        self._asked = None
        self._pending = False
        return refused

    def _again(self, asked: Mapping[str, Any]) -> None:
        """Put the wish that was refused back, for when the active response is done."""
        wish = {name: value for name, value in asked.items() if name != "event_id"}
        if wish or not self._plain_waits():
            self._wishes.appendleft(wish)
        self._refused = True

    def _plain_waits(self) -> bool:
        return any(not each for each in self._wishes)


def _id_of(response: object) -> str:
    """Return the id of a response, an empty text where it has none."""
    name: Any = cast("Mapping[str, Any]", response).get("id") if isinstance(response, Mapping) else None
    return name if isinstance(name, str) else ""


def _apart(response: object) -> bool:
    """Return whether a response stands apart from the conversation: such a one keeps no other from starting."""
    told: Any = cast("Mapping[str, Any]", response) if isinstance(response, Mapping) else {}
    return "conversation_id" in told and told["conversation_id"] is None
