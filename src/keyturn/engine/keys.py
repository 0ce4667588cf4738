"""The key that authenticates states: from `KEYTURN_SECRET`, else from a file made on first use.

The file is in the user's state directory, readable by its owner only, never in the working directory.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from functools import lru_cache
from pathlib import Path

from ..core.errors import UserError

VARIABLE = "KEYTURN_SECRET"


def state_directory() -> Path:
    """Where this user's programs keep their state."""
    given = os.environ.get("KEYTURN_HOME") or os.environ.get("XDG_STATE_HOME")
    if given:
        return Path(given) / "keyturn"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "keyturn"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "keyturn"
    return Path.home() / ".local" / "state" / "keyturn"


def signing_key() -> bytes:
    """The key of this process."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        if len(given) < 16:
            raise UserError(f"{VARIABLE} is too short to be a secret: use at least 16 characters")
        return _derived(given)
    return _from_file(*(os.environ.get(name) for name in _PLACES))


_PLACES = ("KEYTURN_HOME", "XDG_STATE_HOME", "HOME", "LOCALAPPDATA")


@lru_cache(maxsize=8)
def _derived(secret: str) -> bytes:
    return hashlib.sha256(b"keyturn state key\n" + secret.encode()).digest()


@lru_cache(maxsize=8)
def _from_file(*_places: str | None) -> bytes:
    """The key in the file, read once for each state directory; the places only say which that is."""
    path = state_directory() / "key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
        text = path.read_text().strip()
    except OSError as error:
        raise UserError(
            f"cannot keep the key that signs states in {path}: {error.strerror}; set {VARIABLE} instead"
        ) from None
    if len(text) < 32:
        raise UserError(f"the key file {path} is damaged; restore it, or delete it and lose the states it signed")
    return _derived(text)


def _make(path: Path) -> None:
    """Make the file whole or not at all, and never over another process's."""
    if path.exists():
        return
    draft = path.with_name(f"key.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def key_id(key: bytes) -> str:
    """The public name of a key."""
    return hashlib.sha256(b"id\n" + key).hexdigest()[:12]
