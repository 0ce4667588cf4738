"""Change one file atomically: write the new content beside it, rename it into place, undo it if need be.

A reader, or a process that was killed, finds the old file or the new one, never half of one. Content is compared once
more just before the step; what is no longer as it was looked at is left alone. Paths have been through the
jail: all work is done by name in an open directory.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256

from .jail import Jail, Parts, open_plain, parts_of
from .problems import FileChanged, FileMissing, FileProblem, FileTooLarge, NotText, problem, shown

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Set-user-id and set-group-id are not carried over to content that somebody else wrote.
_MODE = 0o1777
_SNIFFED = 8192
ABSENT = ""  # the digest of a file that is not there


@dataclass(frozen=True)
class File:
    """Holds a file as it was read: all of its bytes, and the metadata that is kept when they change.

    >>> File("notes.txt", b"milk").text
    'milk'
    """

    path: str
    data: bytes
    mode: int = 0o644
    owner: tuple[int, int] | None = None

    @property
    def digest(self) -> str:
        """Return the SHA-256 of its bytes."""
        return sha256(self.data).hexdigest()

    @property
    def text(self) -> str:
        """Return its bytes as text, every line ending as it is; raise `NotText` where they are none."""
        return decoded(self.data, self.path)


def digest_of(file: File | None) -> str:
    """Return what a preview's basis says of a file, also of one that is not there."""
    return ABSENT if file is None else file.digest


def decoded(data: bytes, path: str) -> str:
    """Decode UTF-8, or raise `NotText` that says why not."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise NotText(f"{shown(path)} is UTF-16; only UTF-8 text can be read and changed here.")
    if b"\0" in data[:_SNIFFED]:
        raise NotText(f"{shown(path)} is a binary file; only UTF-8 text can be read here.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = error.start
    raise NotText(f"{shown(path)} is not UTF-8 text: byte {at} does not fit. It may be binary or in another encoding.")


@dataclass(frozen=True)
class Change:
    """Holds what a file was when it was read, None for nothing, and what it is to be, None for nothing.

    `mode` is that of a file that was moved here; `source` says where from, and `source_data` what it was there.

    >>> Change("notes.txt", None, b"milk").path
    'notes.txt'
    """

    path: str
    before: File | None
    after: bytes | None
    mode: int | None = None
    source: str = ""
    source_data: bytes | None = None

    @property
    def original(self) -> bytes | None:
        """Return the bytes that a person compares the new ones with."""
        if self.source:
            return self.source_data
        return None if self.before is None else self.before.data


def read_file(parent: int, parts: Parts, limit: int) -> File | None:
    """Read all of a plain file in an open directory, None where there is nothing."""
    path = "/".join(parts)
    opened = open_plain(parent, parts[-1], path)
    if opened is None:
        return None
    handle, found = opened
    try:
        # The size may be wrong (a file that grows, one of /proc): what counts is what comes.
        data = _read(handle, limit + 1) if found.st_size <= limit else None
    except OSError as error:
        raise problem(error, path) from None
    finally:
        os.close(handle)
    if data is None or len(data) > limit:
        raise FileTooLarge(f"{shown(path)} has more than {limit} bytes, too many to be read whole.")
    return File(path, data, found.st_mode & _MODE, (found.st_uid, found.st_gid))


def _read(handle: int, most: int) -> bytes:
    chunks: list[bytes] = []
    while most > 0 and (chunk := os.read(handle, min(most, 1 << 20))):
        chunks.append(chunk)
        most -= len(chunk)
    return b"".join(chunks)


class Staged:
    """Prepares a change and commits it; as a context manager it leaves nothing behind but what was committed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Staged(Jail(place), Change("a.txt", None, b"one"), 100) as staged:
    ...         before = os.path.exists(f"{place}/a.txt")
    ...         staged.commit()
    ...     (before, os.listdir(place))
    (False, ['a.txt'])
    """

    def __init__(self, jail: Jail, change: Change, limit: int) -> None:
        self._jail = jail
        self._change = change
        self._limit = limit
        self._parts = parts_of(change.path)
        self.path, self._name = "/".join(self._parts), self._parts[-1]
        self._open = ExitStack()
        self._parent = -1
        self._made: list[Parts] = []
        self._temporary: str | None = None
        self._committed = False

    def __enter__(self) -> Staged:
        try:
            self._find_directory()
            if self._change.after is not None:
                before = self._change.before
                mode = before.mode if before is not None else self._change.mode
                self._temporary = self._written(self._change.after, mode, before.owner if before else None)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._drop_temporary()
        if not self._committed:
            self._remove_directories()
        self._open.close()

    def commit(self) -> None:
        """Make the change, if the file is still as it was read."""
        self._expect(digest_of(self._change.before))
        try:
            if self._change.after is None:
                os.unlink(self._name, dir_fd=self._parent)
            elif self._change.before is None:
                self._create()
            else:
                self._replace()
            self._committed = True
            os.fsync(self._parent)
        except OSError as error:
            raise problem(error, self.path) from None

    def undone(self) -> bool:
        """Undo the change where it was made; return whether the file is now as it was before."""
        if not self._committed:
            return True
        before, after = self._change.before, self._change.after
        try:
            self._expect(ABSENT if after is None else sha256(after).hexdigest())
            if before is None:
                os.unlink(self._name, dir_fd=self._parent)
            else:
                self._temporary = self._written(before.data, before.mode, before.owner)
                self._replace()
            os.fsync(self._parent)
        except (FileProblem, OSError):
            return False
        self._committed = False
        return True

    def _find_directory(self) -> None:
        above = self._parts[:-1]
        try:
            self._parent = self._open.enter_context(self._jail.directory(above))
            return
        except FileMissing:
            if self._change.before is not None or self._change.after is None:
                raise
        self._made = [above[:depth] for depth in range(1, len(above) + 1) if not self._is_there(above[:depth])]
        self._parent = self._open.enter_context(self._jail.directory(above, create=True))

    def _is_there(self, parts: Parts) -> bool:
        try:
            with self._jail.directory(parts):
                return True
        except FileMissing:
            return False

    def _expect(self, digest: str) -> None:
        now = digest_of(read_file(self._parent, self._parts, self._limit))
        if now != digest:
            how = "is there already" if not digest else "is gone" if not now else "was changed"
            raise FileChanged(
                f"{shown(self.path)} {how} since it was looked at, so nothing was changed. Read it again."
            )

    def _written(self, data: bytes, mode: int | None, owner: tuple[int, int] | None) -> str:
        """Write a temporary file beside the place, complete and synced, of a name that nobody else has."""
        name = f".keyturn-{secrets.token_hex(8)}.tmp"
        try:
            # A new file gets what the process gives to new files; any other, first nothing for others to read.
            handle = os.open(name, _NEW, 0o666 if mode is None else 0o600, dir_fd=self._parent)
        except OSError as error:
            raise problem(error, self.path) from None
        try:
            _write(handle, data)
            if owner is not None:
                _give(handle, owner)
            if mode is not None:
                os.fchmod(handle, mode)
            os.fsync(handle)
        except BaseException as error:
            os.unlink(name, dir_fd=self._parent)
            if isinstance(error, OSError):
                raise problem(error, self.path) from None
            raise
        finally:
            os.close(handle)
        return name

    def _replace(self) -> None:
        assert self._temporary is not None
        os.rename(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._temporary = None

    def _create(self) -> None:
        """Create the file by a link: unlike a rename, it takes no name that somebody else took meanwhile."""
        assert self._temporary is not None
        place = {"src_dir_fd": self._parent, "dst_dir_fd": self._parent}
        try:
            os.link(self._temporary, self._name, **place, follow_symlinks=False)
        except FileExistsError:
            raise FileChanged(f"{shown(self.path)} has appeared meanwhile, so nothing was changed. Read it.") from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            self._replace()  # a file system without links; it was looked at a moment ago
        else:
            self._drop_temporary()

    def _drop_temporary(self) -> None:
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._parent)
            self._temporary = None

    def _remove_directories(self) -> None:
        for parts in reversed(self._made):
            with suppress(OSError, FileProblem), self._jail.directory(parts[:-1]) as above:
                os.rmdir(parts[-1], dir_fd=above)


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _give(handle: int, owner: tuple[int, int]) -> None:
    """Keep the file's owner and group, as far as this process may."""
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != owner:
        with suppress(OSError):
            os.fchown(handle, *owner)
