"""Remember which journal `keyturn init` made in a directory, and its first user's token: the next command finds them.

The file is in the user's state directory, beside the keys that seal journals, and readable by the user alone. What is
named on the command line, or in the environment, goes before it. A token is used at its own journal only.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import msgspec

from ..core.errors import UserError
from ..support.keys import state_directory
from ..support.whole_files import replaced

_NAME = "journals.json"
_LARGEST = 1 << 20
_SQLITE = "sqlite:///"


class RememberedJournal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a journal, its first user, and the token that was issued to them."""

    journal: str
    person: str = ""
    token: str = ""


_decoder = msgspec.json.Decoder(dict[str, RememberedJournal])


def absolute(url: str) -> str:
    """Return the URL of a journal, a file's with its whole path.

    >>> absolute("postgresql://db/runs")
    'postgresql://db/runs'
    """
    if not url.startswith(_SQLITE):
        return url
    path, mark, options = url.removeprefix(_SQLITE).partition("?")
    return f"{_SQLITE}{Path(unquote(path)).resolve()}{mark}{options}"


def remember(journal: RememberedJournal) -> bool:
    """Remember a journal for this directory, and those below it; return whether that could be written."""
    try:
        folder = state_directory()
        known = {place: each for place, each in _read().items() if Path(place).is_dir()}
        known[str(Path.cwd())] = journal
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replaced(folder / _NAME) as file:
            file.write(msgspec.json.format(msgspec.json.encode(known), indent=1))
    except (OSError, UserError):
        return False
    return True


def recalled() -> RememberedJournal | None:
    """Return the journal that was made in this directory, or in the nearest one above it; None where none was."""
    known = _read()
    here = Path.cwd()
    return next((known[str(each)] for each in (here, *here.parents) if str(each) in known), None)


def recalled_at(url: str) -> RememberedJournal | None:
    """Return what is remembered of this directory, where it is about this very journal."""
    found = recalled()
    return found if found is not None and found.journal == absolute(url) else None


def _read() -> dict[str, RememberedJournal]:
    """Return what is remembered; nothing of a file that others could have written, or that is not ours."""
    with suppress(OSError, UserError, msgspec.MsgspecError):
        path = state_directory() / _NAME
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            shared = os.name == "posix" and (about.st_mode & 0o077 or about.st_uid != os.getuid())
            if stat.S_ISREG(about.st_mode) and not shared and about.st_size <= _LARGEST:
                return _decoder.decode(file.read())
    return {}
