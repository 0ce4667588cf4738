"""The key ring of this process: from `KEYTURN_SECRET`, else from a file made on first use.

Several secrets may stand there, separated by white space, the newest first: the first seals and signs, all verify, so
that keys can be changed without refusing what older ones signed. What stands in `KEYTURN_SECRETS_OLD` verifies only,
beside either. The file is in the user's state directory, never in the working directory, and is used only while nobody
else can read or write it. It remembers the ids of retired keys, never their secrets.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from ..core.errors import UserError
from ..core.seal import Ring, key_id

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

VARIABLE = "KEYTURN_SECRET"
OLD_VARIABLE = "KEYTURN_SECRETS_OLD"
_RETIRED = "retired:"
_SHORTEST = 16
_SHORTEST_IN_FILE = 32
_LARGEST = 64 * 1024
_DRAFT = re.compile(r"\.[0-9a-f]{16}")


def state_directory() -> Path:
    """Return where this user's programs keep their state."""
    given = os.environ.get("KEYTURN_HOME") or os.environ.get("XDG_STATE_HOME")
    if given:
        return Path(given) / "keyturn"
    try:
        home = Path.home()
    except RuntimeError:  # a container's user without HOME and without an entry in its passwd
        raise UserError(
            f"this user has no home directory to keep keys in: set KEYTURN_HOME to a directory, or {VARIABLE} for "
            "keys that are in no file"
        ) from None
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "keyturn"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "keyturn"
    return home / ".local" / "state" / "keyturn"


def state_place() -> tuple[int, int] | None:
    """Return the device and inode of the state directory, by which tools recognize it; None where there is none."""
    try:
        found = os.stat(state_directory())
    except (OSError, UserError):
        return None
    return found.st_dev, found.st_ino


def ring() -> Ring:
    """Return the keys of this process; one that another process adds verifies at once and seals a moment later."""
    named: tuple[object, ...] = tuple(map(_ENVIRONMENT.get, _NAMES))
    place, until, known = _looked
    if known is None or place != named or monotonic() >= until:
        known = _look_again()
    return known


def own_ring() -> Ring:
    """Make a ring of one new secret, for what does not outlive this process."""
    return Ring([secrets.token_bytes(32)])


@lru_cache(maxsize=8)
def _given(given: str, old: str) -> Ring:
    found = _told(VARIABLE, given)
    if not found:
        raise _too_short(VARIABLE)
    return Ring([*found, *_told(OLD_VARIABLE, old)])


def _told(variable: str, text: str) -> list[bytes]:
    """Read the secrets of an environment variable."""
    found = text.split()
    if found and min(map(len, found)) < _SHORTEST:
        raise _too_short(variable)
    return [secret.encode("utf-8", "surrogateescape") for secret in found]


def _too_short(variable: str) -> UserError:
    return UserError(
        f"{variable} is too short to be a secret: use at least {_SHORTEST} characters, with white space between "
        "secrets and nowhere else"
    )


# What says which keys there are: the keys themselves, and where the state directory is.
_HOME = "LOCALAPPDATA" if sys.platform == "win32" else "HOME"
_VARIABLES = (VARIABLE, OLD_VARIABLE, "KEYTURN_HOME", "XDG_STATE_HOME", _HOME)
# How long the file is believed to be as it was, in seconds. Every look at a file lets go of the interpreter's lock, and
# a process that drives many runs would get it back late a dozen times in each.
_BELIEVED = 0.05
_looked: tuple[tuple[object, ...], float, Ring | None] = ((), 0.0, None)
# `os.environ` answers from this dict, after some five calls of Python functions for each name: a ring is asked for with
# each line. Where it has none, the names are looked up in `os.environ` itself.
_ENVIRONMENT: Any = getattr(os.environ, "_data", os.environ)
_encoded: Callable[[str], Any] = getattr(os.environ, "encodekey", str) if _ENVIRONMENT is not os.environ else str
_NAMES = tuple(map(_encoded, _VARIABLES))


def _look_again() -> Ring:
    """Read the keys from the environment or their file now."""
    global _looked
    named: tuple[object, ...] = tuple(map(_ENVIRONMENT.get, _NAMES))
    given, old = os.environ.get(VARIABLE), os.environ.get(OLD_VARIABLE, "")
    found = _in_file(_key_file(named), old) if given is None else _given(given, old)
    _looked = (named, monotonic() + _BELIEVED, found)
    return found


@lru_cache(maxsize=8)
def _key_file(_named: tuple[object, ...]) -> Path:
    return state_directory() / "key"


_rings: dict[Path, tuple[tuple[Any, ...], Ring]] = {}


def _in_file(path: Path, old: str) -> Ring:
    """Read the key file where it changed since it was read; what is `old` verifies beside it."""
    try:
        known = _rings.get(path)
        if known is None:
            _make(path)
        found, folder = os.lstat(path), os.stat(path.parent)
        mark = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, folder.st_mode, folder.st_uid)
        if known is None or known[0] != (mark, old):
            entries = _entries(path)
            secrets_now = [*(secret.encode() for secret in entries.secrets), *_told(OLD_VARIABLE, old)]
            made = Ring(secrets_now, partial(_in_file, path, old), entries.retired)
            known = _rings[path] = ((mark, old), made)
    except OSError as error:
        raise UserError(
            f"cannot keep the keys that sign states and journals in {path}: {error.strerror}; set {VARIABLE} instead"
        ) from None
    return known[1]


class _Entries(NamedTuple):
    """Holds what a key file has: the secrets, the newest first, and the ids of retired keys."""

    secrets: list[str]
    retired: list[str]


def secrets_in(path: Path) -> list[str]:
    """Read the secrets of a key file that nobody else could have written or read."""
    return _entries(path).secrets


def read_private(path: Path, instead: str = f"set {VARIABLE}") -> str:
    """Read a key file that nobody else could have written or read; `instead` says what else its owner may do.

    >>> read_private(Path("no such folder/key"))
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'no such folder'
    """
    _check_directory(path.parent, instead)
    place = _opened(path, instead)
    try:
        _check_file(path, os.fstat(place), instead)
        return os.read(place, _LARGEST).decode("ascii", "replace")
    finally:
        os.close(place)


def _entries(path: Path) -> _Entries:
    text = read_private(path)
    found = [word for word in text.split() if not word.startswith(_RETIRED)]
    if not found or min(map(len, found)) < _SHORTEST_IN_FILE:
        raise UserError(f"the key file {path} is damaged; restore it, or delete it and lose what its keys signed")
    return _Entries(found, [word.removeprefix(_RETIRED) for word in text.split() if word.startswith(_RETIRED)])


def _opened(path: Path, instead: str) -> int:
    """Open the file itself and no link: what that leads to may be somebody else's."""
    if path.is_symlink():
        raise UserError(f"the key file {path} is a symbolic link; put the file itself there, or {instead}")
    return os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _check_file(path: Path, found: os.stat_result, instead: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"the key file {path} is no file; move it away, or {instead}")
    if os.name != "posix":
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise UserError(f"the key file {path} belongs to another user, who knows the keys; take it away, or {instead}")
    if found.st_mode & 0o077:
        raise UserError(
            f"others can read or write the key file {path} (mode {stat.S_IMODE(found.st_mode):04o}): chmod 600 it if "
            "you are sure that it was not read or changed, or delete it and lose what its keys signed"
        )


def _check_directory(path: Path, instead: str = f"set KEYTURN_HOME or {VARIABLE}") -> None:
    if os.name != "posix":
        return
    found = path.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise UserError(f"the directory {path} of the key file belongs to another user; {instead}")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise UserError(
            f"others can write in {path}, where the key file is (mode {stat.S_IMODE(found.st_mode):04o}): chmod 700 "
            f"it, or {instead}"
        )


def make_directory(path: Path) -> None:
    """Make a directory and its parents for this user alone, whatever the umask; what exists stays as it is."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)


def _make(path: Path) -> None:
    make_private(path, lambda: _text([_new_secret()]))


def _new_secret() -> str:
    """Draw a secret whose key id does not begin with "-", which a command would read as an option."""
    while key_id((made := secrets.token_hex(32)).encode()).startswith("-"):
        pass
    return made


def make_private(path: Path, text: Callable[[], str]) -> None:
    """Make a key file whole or not at all, and never over another process's; what is there stays."""
    make_directory(path.parent)
    if os.path.lexists(path):
        return
    _check_directory(path.parent)
    draft = _draft(path, text())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except FileNotFoundError:  # who changes the file of another process sweeps drafts
        if not os.path.lexists(path):
            raise
    finally:
        draft.unlink(missing_ok=True)
    _keep_names(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Put another text in the place of a key file's, whole or not at all; call it `alone`.

    What a process that died left of an earlier one goes: a key that is retired stands in no file.
    """
    draft = _draft(path, text)
    try:
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    for left in path.parent.glob(f"{path.name}.*"):
        if _DRAFT.fullmatch(left.name.removeprefix(path.name)) is not None:
            left.unlink(missing_ok=True)
    _keep_names(path.parent)


def _keep_names(directory: Path) -> None:
    """Force the names in a directory to the disk: a line that a new key seals may be kept by another machine."""
    if os.name != "posix":
        return
    place = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _text(found: list[str], retired: Iterable[str] = ()) -> str:
    return "\n".join([*found, *(_RETIRED + name for name in retired)]) + "\n"


def _draft(path: Path, text: str) -> Path:
    """Write a temporary key file beside the true one, readable by nobody else from its first byte on."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft


def add_key() -> str:
    """Put a new secret first in the key file, and return its id; what older keys signed stays valid."""
    if os.environ.get(VARIABLE) is not None:
        raise UserError(
            f"the keys of this process come from {VARIABLE}: put a new secret there, and the current one into "
            f"{OLD_VARIABLE}, before the others, wherever they are set"
        )
    with _changing() as path:
        entries = _entries(path)
        replace_private(path, _text([_new_secret(), *entries.secrets], entries.retired))
        return _look_again().ids[0]


def retire_key(name: str) -> None:
    """Take a key out of the key file for good: whatever it signed or sealed is refused from then on."""
    if os.environ.get(VARIABLE) is not None:
        raise UserError(
            f"the keys of this process come from {VARIABLE} and {OLD_VARIABLE}: take the secret out there, wherever "
            "they are set"
        )
    with _changing() as path:
        entries = _entries(path)
        ids = [key_id(secret.encode()) for secret in entries.secrets]
        if name in [key_id(secret) for secret in _told(OLD_VARIABLE, os.environ.get(OLD_VARIABLE, ""))]:
            raise UserError(f"this key comes from {OLD_VARIABLE}: take the secret out there, wherever it is set")
        if name not in ids:
            raise UserError(f"the key file {path} has no key of this id; `keyturn keys list` names those it has")
        if name == ids[0]:
            raise UserError("this key signs and seals: `keyturn keys rotate` adds a new one that takes its place first")
        kept = [secret for secret, known in zip(entries.secrets, ids, strict=True) if known != name]
        replace_private(path, _text(kept, [*entries.retired, name]))
        _look_again()


@contextmanager
def _changing() -> Generator[Path]:
    """Give the key file, which is there and is nobody else's, to who alone changes it."""
    path = state_directory() / "key"
    _in_file(path, "")
    try:
        with alone(path.parent):
            yield path
    except OSError as error:
        raise UserError(
            f"the key file {path} cannot be changed: {error.strerror}; `keyturn keys list` lists what it has"
        ) from None


@contextmanager
def alone(path: Path) -> Generator[None]:
    """Lock a directory against others who change its files."""
    place = os.open(path, os.O_RDONLY)
    try:
        if fcntl is not None:
            fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)
