"""A session around another one, which sees only ciphertext.

Each item is sealed by itself with Fernet (AES-CBC and HMAC), under a key of this session that is derived from yours:
neither an item's text nor its kind reaches the store, only its size and its time. The store can still forget items,
repeat them or change their order; what it cannot do is read one, make one or take one from another session. The
envelope is that of OpenAI's Agents SDK, so that a store moves between the two.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypedDict, cast

from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import Rules, Sealed, must
from .base import Session, SessionABC, SessionSettings, called
from .encoding import decoded, encoded

_ENVELOPE: Item = {"__enc__": 1, "v": 1, "kid": "hkdf-v1"}
_INFO = b"agents.session-store.hkdf.v1"
# A key is drawn by chance, never thought up: what is shorter than this was thought up.
_SHORTEST_KEY = 16


class EncryptedEnvelope(TypedDict):
    """Describes an item as the store of an `EncryptedSession` has it.

    >>> sorted(EncryptedEnvelope.__annotations__)
    ['__enc__', 'kid', 'payload', 'v']
    """

    __enc__: Literal[1]
    v: int
    kid: str
    payload: str


def _is_ttl(value: Any) -> bool:
    return value is None or value > 0


class EncryptedSession(SessionABC, Sealed):
    """Encrypts a conversation in any other session, so that its store cannot read it.

    Make a key with `cryptography.fernet.Fernet.generate_key()`. Items older than `ttl` seconds are left out, as if they
    had never been (a run that waited longer can then not be resumed: the history it began with is gone); by default
    they are kept. An item of another key, one that was tampered with and one that is not encrypted are errors.

    >>> import asyncio
    >>> from keyturn import MemorySession
    >>> store = MemorySession("ada")
    >>> session = EncryptedSession("ada", store, "TmV2ZXIgdXNlIGEga2V5IG9mIGFuIGV4YW1wbGUuICA=")
    >>> asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    >>> asyncio.run(session.get_items())
    [{'role': 'user', 'content': 'hello'}]
    >>> "hello" in str(asyncio.run(store.get_items()))
    False
    """

    _rules: ClassVar[Rules] = {"ttl": must(_is_ttl, "a number of seconds, more than 0, or None to keep items forever")}

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        encryption_key: str | bytes,
        ttl: float | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.ttl = ttl
        self._clock = clock
        self._cipher = _cipher(_key(encryption_key), session_id)

    @property
    def session_settings(self) -> SessionSettings | None:
        """Return the settings of the store."""
        return getattr(self.underlying_session, "session_settings", None)

    async def get_items(self, limit: int | None = None, wrapper: object = None) -> list[Item]:
        store = self.underlying_session
        found = await called(store.get_items, wrapper, **({} if limit is None else {"limit": limit}))
        items = self._opened(found)
        if limit is None or len(items) == len(found) or len(found) < limit:
            return items
        # Some of the newest are too old, so that clocks disagree: what is older in place may be younger.
        items = self._opened(await called(store.get_items, wrapper))
        return items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[Item], wrapper: object = None) -> None:
        now = int(self._clock())
        tokens = [self._cipher.encrypt_at_time(text.encode(), now).decode() for text in encoded(items)]
        sealed = [{**_ENVELOPE, "payload": token} for token in tokens]
        await called(self.underlying_session.add_items, wrapper, items=sealed)

    async def pop_item(self, wrapper: object = None) -> Item | None:
        store = self.underlying_session
        while newest := await called(store.get_items, wrapper, limit=1):
            self._opened(newest)  # what cannot be read is not thrown away either
            popped = await called(store.pop_item, wrapper)
            items = self._opened([popped] if popped is not None else [])
            if items:
                return items[0]
        return None

    async def clear_session(self, wrapper: object = None) -> None:
        await called(self.underlying_session.clear_session, wrapper)

    def _opened(self, sealed: list[Item]) -> list[Item]:
        opened = [self._open(item, position) for position, item in enumerate(sealed)]
        return [item for item in opened if item is not None]

    def _open(self, sealed: object, position: int) -> Item | None:
        from cryptography.fernet import InvalidToken

        where = f"item {position} of those read for session {self.session_id!r}"
        remedy = "or take it out of the underlying session, which has pop_item() and clear_session()"
        envelope = cast("Mapping[str, Any]", sealed if isinstance(sealed, Mapping) else {})
        if envelope.get("__enc__") != _ENVELOPE["__enc__"]:
            raise UserError(f"{where} is not encrypted, so its origin is unknown: add it again, {remedy}")
        token = str(envelope.get("payload")).encode()
        try:
            text = self._cipher.decrypt(token)
            made = self._cipher.extract_timestamp(token)
        except InvalidToken:
            raise UserError(
                f"{where} was encrypted with another key or for another session, or was tampered with: "
                f"pass the encryption_key and session_id that it was written with, {remedy}"
            ) from None
        if self.ttl is not None and made + self.ttl < self._clock():
            return None
        return decoded(text, where)


def _key(given: str | bytes) -> bytes:
    key = given.encode() if isinstance(given, str) else given
    if len(key) < _SHORTEST_KEY:
        raise UserError(
            f"the encryption_key has {len(key)} characters and needs {_SHORTEST_KEY} that cannot be guessed: "
            f"Fernet.generate_key() of the package cryptography makes one"
        )
    # What looks like a Fernet key is one; every other text is taken as it stands. The Agents SDK does the same.
    try:
        meant = base64.urlsafe_b64decode(given)
    except (binascii.Error, ValueError):
        return key
    return meant if len(meant) == 32 else key


def _cipher(key: bytes, session_id: str) -> Any:
    try:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ModuleNotFoundError as error:
        raise UserError(f"EncryptedSession needs the package {error.name!r}: pip install 'keyturn[encrypt]'") from error
    derived = HKDF(algorithm=SHA256(), length=32, salt=session_id.encode(), info=_INFO).derive(key)
    return Fernet(base64.urlsafe_b64encode(derived))
