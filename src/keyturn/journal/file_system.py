"""Find the kind of file system that a path lies on, to refuse network file systems; only Linux says.

A WAL's processes share memory through a file beside it and trust its locks. A network file system gives neither to two
machines, and many do not even to two processes of one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_FAR = (
    *("9p", "acfs", "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs"),
    *("lustre", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "webdav"),
)
_FAR_BY_FUSE = (
    *("beegfs", "ceph", "cephfs", "davfs2", "gcsfuse", "glusterfs", "goofys", "juicefs", "moosefs", "mount-s3"),
    *("rclone", "s3fs", "seaweedfs", "smbnetfs", "sshfs"),
)
NETWORK = frozenset((*_FAR, *(f"fuse.{name}" for name in _FAR_BY_FUSE)))
_ESCAPED = re.compile(r"\\([0-7]{3})")


def network_kind(path: Path) -> str | None:
    """Return the network file system that a path lies on; None where it lies on none that is known."""
    try:
        table = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return None
    kind = kind_in(table, os.path.realpath(path))
    return kind if kind in NETWORK else None


def kind_in(table: str, path: str) -> str | None:
    """Return the kind of the file system that holds a path, by a mount table: the deepest mount, the last of equals.

    >>> kind_in("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\\n40 22 0:4 / /srv rw - nfs4 box:/srv rw", "/srv/runs.db")
    'nfs4'
    """
    best, found = -1, None
    for line in table.splitlines():
        place, _, what = line.partition(" - ")
        fields, kinds = place.split(" "), what.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4])
        if _holds(point, path) and len(point) >= best:
            best, found = len(point), kinds[0]
    return found


def _holds(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")
