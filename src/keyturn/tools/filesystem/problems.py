"""The errors of paths and files, in words for the model that named them.

Each text names the path as it was given, never the place of the workspace on this machine, and says what to
do instead. Raised inside a tool they are a failed result; code that uses a `Workspace` itself catches them.
"""

from __future__ import annotations

import errno

from ..base import ToolProblem


class FileProblem(ToolProblem):
    """The base of what a `Workspace` refuses or cannot do.

    >>> issubclass(FileMissing, FileProblem)
    True
    """


class PathRefused(FileProblem):
    """Raised for a path that leads out of the workspace, through a link, or to what is no plain file.

    >>> issubclass(PathRefused, FileProblem)
    True
    """


class FileMissing(FileProblem):
    """Raised where there is nothing of that name.

    >>> issubclass(FileMissing, FileProblem)
    True
    """


class FileExists(FileProblem):
    """Raised where there is something of that name already.

    >>> issubclass(FileExists, FileProblem)
    True
    """


class FileTooLarge(FileProblem):
    """Raised where the file is larger than the workspace reads or writes whole.

    >>> issubclass(FileTooLarge, FileProblem)
    True
    """


class NotText(FileProblem):
    """Raised where the file is binary, or not UTF-8.

    >>> issubclass(NotText, FileProblem)
    True
    """


class FileChanged(FileProblem):
    """Raised where the file is not what it was when it was read; nothing was written.

    >>> issubclass(FileChanged, FileProblem)
    True
    """


class EditRefused(FileProblem):
    """Raised where the text to replace is not in the file, or in more than one place.

    >>> issubclass(EditRefused, FileProblem)
    True
    """


def shown(path: str) -> str:
    """Quote a path so that it cannot pass for anything else, cut where it is very long."""
    text = path if len(path) <= 200 else f"{path[:200]}... ({len(path)} characters)"
    return ascii(text) if not text.isprintable() else repr(text)


_WORDS = {
    errno.EACCES: "permission was denied",
    errno.EPERM: "the operation is not permitted",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EISDIR: "it is a directory",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.EMFILE: "too many files are open",
}


def problem(error: OSError, path: str) -> FileProblem:
    """Convert a system error about a path to one of ours."""
    name = shown(path)
    if error.errno == errno.ENOENT:
        return FileMissing(f"There is no {name} in the workspace.")
    if error.errno == errno.ENAMETOOLONG:
        return PathRefused(f"The path {name} is refused: it is too long.")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return PathRefused(f"The path {name} is refused: it leads through a symbolic link.")
    if error.errno == errno.ENOTDIR:
        return PathRefused(f"The path {name} is refused: a part of it is not a directory.")
    words = _WORDS.get(error.errno or 0, f"the system said {errno.errorcode.get(error.errno or 0, 'no')}")
    return FileProblem(f"The file {name} could not be used: {words}.")
