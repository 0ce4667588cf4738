"""The system calls that a sandbox refuses so that no socket leads out of it, as a seccomp filter in the kernel's bytes.

A network namespace holds no socket that has a path, and none of a virtual machine's. So only the families of that
namespace may be opened, and pairs that are connected to each other from the start. What could open one past a filter
(io_uring, the calls of another architecture) is answered as by a kernel that does not have it.
"""

from __future__ import annotations

import platform
import struct
import sys
from typing import NamedTuple

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5  # a pair of datagram sockets is not bound to each other: it can write to any path
_IO_URING = (425, 426, 427)  # setup, enter, register: the same number everywhere
_X32 = 0x40000000  # system calls from here on are those of another architecture

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, of the low halves
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NO_SUCH_CALL, _NO_SUCH_FAMILY = _ERROR | 38, _ERROR | 97  # ENOSYS, EAFNOSUPPORT


class _Machine(NamedTuple):
    """What the kernel calls this architecture, and its numbers of two calls."""

    audit: int
    socket: int
    socketpair: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 53),
    "aarch64": _Machine(0xC00000B7, 198, 199),
}


def socket_filter(*, unix: bool = False, machine: str | None = None) -> bytes | None:
    """The filter for this machine, None where nobody knows its numbers; `unix` lets sockets with paths be opened.

    >>> len(socket_filter(machine="x86_64")) % 8, socket_filter(machine="vax")
    (0, None)
    """
    known = _MACHINES.get(platform.machine() if machine is None else machine)
    if known is None or sys.byteorder != "little":
        return None
    families = (_INET, _INET6, _NETLINK, *([_UNIX] if unix else []))
    pair = _allowed(_FIRST, (_UNIX,)) if unix else [*_only(_FIRST, _UNIX), *_allowed(_SECOND, (_STREAM, _SEQPACKET))]
    code = [
        *_unless(_ARCHITECTURE, known.audit, _NO_SUCH_CALL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        *(step for number in _IO_URING for step in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NO_SUCH_CALL))),
        *_when(known.socket, _allowed(_FIRST, families)),
        *_when(known.socketpair, pair),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in code)


_Step = tuple[int, int, int, int]


def _unless(offset: int, value: int, verdict: int) -> list[_Step]:
    """End with a verdict unless the field has the value."""
    return [(_LOAD, 0, 0, offset), (_EQUAL, 1, 0, value), (_RETURN, 0, 0, verdict)]


def _only(offset: int, value: int) -> list[_Step]:
    return _unless(offset, value, _NO_SUCH_FAMILY)


def _when(number: int, steps: list[_Step]) -> list[_Step]:
    """Do the steps, which end with a verdict, for one system call. Its number is what was loaded last."""
    return [(_EQUAL, 0, len(steps), number), *steps]


def _allowed(offset: int, values: tuple[int, ...]) -> list[_Step]:
    """Allow the call where the argument is one of these, and refuse it where it is not."""
    kind = [(_AND, 0, 0, 0xF)] if offset == _SECOND else []  # a socket's type is in four bits, flags are above
    tests = [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
    return [(_LOAD, 0, 0, offset), *kind, *tests, (_RETURN, 0, 0, _NO_SUCH_FAMILY)]
