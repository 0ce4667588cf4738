"""Stand between an editor and an ACP agent: all passes unchanged, but for the agent's requests for permission.

The editor is never shown such a request, and its answers are forwarded to requests that it was shown, and to no others.
Whatever fails, nothing is allowed: without a decision the agent is told no, and a line that cannot be read is dropped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from ..asks.ask import AskState
from ..client.asks import AsyncAsks
from ..core.errors import KeyturnError, UserError
from ..gating.claims import Attempt, reported
from ..hooks.named_once import parsed
from .permissions import REQUEST, Permission, SeenCalls, permission_of, refusal

Send = Callable[[bytes], None]
_WAIT = 25.0


class AcpGate:
    """Passes lines between an editor and an agent, and holds requests for permission until they are decided."""

    def __init__(
        self, asks: AsyncAsks, agent: str, to_agent: Send, to_editor: Send, log: Callable[[str], None]
    ) -> None:
        self._asks = asks
        self._agent = agent
        self._log = log
        self._to_agent = to_agent
        self._to_editor = to_editor
        self._seen = SeenCalls()
        self._held: dict[asyncio.Task[None], Permission] = {}
        self._released = set[asyncio.Task[None]]()
        self._shown: set[str] = set()

    def from_agent(self, line: bytes) -> None:
        """Pass messages of the agent to the editor, but for those that ask for permission."""
        for message, text in self._read(line, "agent"):
            if message.get("method") == REQUEST:
                self._hold(message)
            else:
                self._look(message)
                self._to_editor(text)

    def from_editor(self, line: bytes) -> None:
        """Pass messages of the editor to the agent, but for answers to what the editor was not shown."""
        for message, text in self._read(line, "editor"):
            if message.get("method") == "session/cancel":
                self._cancel(_params(message).get("sessionId"))
            if _answers(message):
                if _id(message) not in self._shown:
                    self._log("an answer of the editor to a request that it was not shown was dropped")
                    continue
                self._shown.remove(_id(message))
            self._to_agent(text)

    def _read(self, line: bytes, side: str) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the messages of a line, one or a batch, each with its text; what cannot be read is dropped."""
        try:
            read: Any = parsed(line)
        except (ValueError, RecursionError) as error:
            self._log(f"a line of the {side} was dropped: it cannot be read as JSON ({type(error).__name__})")
            return
        if isinstance(read, dict):
            yield cast("dict[str, Any]", read), line
        batch = cast("list[dict[str, Any]]", read) if isinstance(read, list) else []
        yield from ((each, _line(each)) for each in batch if isinstance(each, dict))

    async def close(self) -> None:
        """Withdraw what is pending: nothing waits for it."""
        held = list(self._held)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, *self._released, return_exceptions=True)

    def _look(self, message: dict[str, Any]) -> None:
        """Remember what the agent requests of the editor, and what it tells of a call."""
        if "method" in message and "id" in message:
            self._shown.add(_id(message))
        params = _params(message)
        update: Any = params.get("update")
        if message.get("method") == "session/update" and isinstance(update, dict) and "toolCallId" in update:
            self._seen.look(str(params.get("sessionId", "")), cast("dict[str, Any]", update))

    def _hold(self, message: dict[str, Any]) -> None:
        self._shown.discard(_id(message))
        if "id" not in message:
            self._log("a request for permission was dropped: it has no id, so that it cannot be answered")
            return
        try:
            permission = permission_of(message, self._seen, self._agent)
        except (KeyturnError, ValueError, RecursionError) as error:
            self._log(f"not allowed: {error}")
            self._to_agent(_line(refusal(message["id"], str(error))))
            return
        task = asyncio.ensure_future(self._decided(permission))
        self._held[task] = permission
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Answer a request whose turn was cancelled, also where nothing had been done for it yet."""
        permission = self._held.pop(task)
        if task.cancelled():
            self._to_agent(_line(permission.cancelled()))

    def _cancel(self, session: Any) -> None:
        for task, permission in list(self._held.items()):
            if permission.session == session:
                task.cancel()

    async def _decided(self, permission: Permission) -> None:
        """Answer one request for permission, once it is decided; where this is cancelled, `_ended` does."""
        attempt = Attempt()
        try:
            await self._claim(permission, attempt)
        except Exception as error:  # it was rejected, or the server is away: no decision is no permission
            self._log(f"not allowed: {str(error) or type(error).__name__}")
        self._to_agent(_line(permission.answered(allowed=attempt.claim is not None)))
        if attempt.claim is not None:  # it is released to the agent, which reports no outcome
            released = reported(self._asks, attempt.claim, attempt.name, "succeeded", "released to the agent")
            self._released.add(task := asyncio.ensure_future(released))
            task.add_done_callback(self._released.discard)

    async def _claim(self, permission: Permission, attempt: Attempt) -> None:
        """Claim a call once it is approved; where the agent stops waiting nothing of it is left behind."""
        if not permission.allows_once:
            raise UserError("the agent offers no permission, or several, for this call alone")
        try:
            state = await attempt.decided(self._asks, self._asks.ask(permission.ask), self._waited)
            await attempt.claimed(self._asks, state)
        except asyncio.CancelledError:
            await asyncio.shield(attempt.given_up(self._asks))
            raise

    async def _waited(self, state: AskState) -> AskState:
        while state.status == "pending":
            state = await self._asks.wait(state.id, _WAIT)
        return state


def _answers(message: dict[str, Any]) -> bool:
    """Return whether a message answers a request, to some reader of it."""
    return not isinstance(message.get("method"), str) or "result" in message or "error" in message


def _params(message: dict[str, Any]) -> dict[str, Any]:
    params: Any = message.get("params")
    return cast("dict[str, Any]", params) if isinstance(params, dict) else {}


def _id(message: dict[str, Any]) -> str:
    return json.dumps(message.get("id"))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
