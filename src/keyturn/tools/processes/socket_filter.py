"""A seccomp filter, in the kernel's bytes, of the system calls that a sandbox refuses because they reach out of it.

A network namespace holds no socket that has a path, and none of a virtual machine's. So only the families of that
namespace may be opened, and pairs that are connected to each other from the start. What could open one past a filter
(io_uring, the calls of another architecture) is answered as by a kernel that does not have it. So is what no namespace
holds at all (keys, the kernel's log, file handles), and what changes or programs the kernel, which no build needs.
"""

from __future__ import annotations

import platform
import struct
import sys
from typing import NamedTuple

_UNIX = 1
_INET = 2
_INET6 = 10
_NETLINK = 16
_STREAM, _SEQPACKET = 1, 5  # a pair of datagram sockets is not bound to each other: it can write to any path
_X32 = 0x40000000  # system calls from here on are those of another architecture

_LOAD = 0x20
_AND = 0x54
_EQUAL = 0x15
_AT_LEAST = 0x35
_RETURN = 0x06
# offsets in struct seccomp_data, of the low halves
_NUMBER = 0
_ARCHITECTURE = 4
_FIRST = 16
_SECOND = 24
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NO_SUCH_CALL, _NO_SUCH_FAMILY = _ERROR | 38, _ERROR | 97  # ENOSYS, EAFNOSUPPORT


class _Machine(NamedTuple):
    """Describes an architecture: its name in the kernel, its numbers of two calls, and those to refuse only there."""

    audit: int
    socket: int
    socketpair: int
    own: tuple[int, ...] = ()


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 53, (134, 156, 172, 173)),  # uselib, _sysctl, iopl, ioperm
    "aarch64": _Machine(0xC00000B7, 198, 199),
}

# What has the same number everywhere.
_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}

# What has a number of its own on each architecture: first that of x86_64, then that of aarch64.
REFUSED: dict[str, tuple[int, int]] = {
    # Keys belong to the user and to the session, and no namespace keeps them apart.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Programs in the kernel, its counters, its log, its modules, another kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "syslog": (103, 116),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "personality": (135, 92),
    # Files by handles, which pass by every mount; events of files on whole mounts.
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # Other namespaces and other roots.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    # The machine as a whole.
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}


def socket_filter(*, unix: bool = False, machine: str | None = None) -> bytes | None:
    """Build the filter for this machine, None where its numbers are unknown; `unix` allows sockets with paths.

    >>> len(socket_filter(machine="x86_64")) % 8, socket_filter(machine="vax")
    (0, None)
    """
    name = platform.machine() if machine is None else machine
    known = _MACHINES.get(name)
    if known is None or sys.byteorder != "little":
        return None
    families = (_INET, _INET6, _NETLINK, *([_UNIX] if unix else []))
    pair = _allowed(_FIRST, (_UNIX,)) if unix else [*_only(_FIRST, _UNIX), *_allowed(_SECOND, (_STREAM, _SEQPACKET))]
    code = [
        *_unless(_ARCHITECTURE, known.audit, _NO_SUCH_CALL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        *(
            step
            for number in _refused(name, known)
            for step in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NO_SUCH_CALL))
        ),
        *_when(known.socket, _allowed(_FIRST, families)),
        *_when(known.socketpair, pair),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in code)


def _refused(name: str, machine: _Machine) -> tuple[int, ...]:
    """Return the numbers of all calls that this kernel is to answer as if it did not have them."""
    place = list(_MACHINES).index(name)
    return (*_EVERYWHERE.values(), *(numbers[place] for numbers in REFUSED.values()), *machine.own)


_Step = tuple[int, int, int, int]


def _unless(offset: int, value: int, verdict: int) -> list[_Step]:
    """Emit: end with a verdict unless the field has the value."""
    return [(_LOAD, 0, 0, offset), (_EQUAL, 1, 0, value), (_RETURN, 0, 0, verdict)]


def _only(offset: int, value: int) -> list[_Step]:
    return _unless(offset, value, _NO_SUCH_FAMILY)


def _when(number: int, steps: list[_Step]) -> list[_Step]:
    """Emit: for one system call, do the steps, which end with a verdict; its number was loaded last."""
    return [(_EQUAL, 0, len(steps), number), *steps]


def _allowed(offset: int, values: tuple[int, ...]) -> list[_Step]:
    """Emit: allow the call where the argument is one of these, else refuse it."""
    kind = [(_AND, 0, 0, 0xF)] if offset == _SECOND else []  # a socket's type is in four bits, flags are above
    tests = [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
    return [(_LOAD, 0, 0, offset), *kind, *tests, (_RETURN, 0, 0, _NO_SUCH_FAMILY)]
