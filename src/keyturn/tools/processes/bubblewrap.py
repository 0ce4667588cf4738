"""Run commands in a bubblewrap sandbox (Linux): they can reach only what is named here, enforced by the kernel.

Only the system's programs and settings are there, read-only, and one workspace, which is writable. There is no
network unless it is asked for, no socket of this machine can be reached, other processes cannot be seen, no key of
the session can be read, nothing of the kernel's settings can be written, and no privilege can be gained. Where the
kernel or the machine does not give that, nothing runs: there is no weaker sandbox to fall back to.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...core.errors import UserError
from ...support.keys import state_directory
from .command import LocalExecutor
from .socket_filter import socket_filter
from .supervised import Launch
from .supervisor import OWN_KEYRING

# What is there of the system. All else holds other people's keys, and the sockets and pipes of daemons, which take
# orders through a read-only file system as well.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store")
_EMPTY = ("/home", "/root", "/tmp", "/var/tmp", "/run", "/media", "/mnt")
_OWN = {"HOME": "/tmp", "TMPDIR": "/tmp"}
_FLAGS = (
    *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--hostname", "sandbox", "--cap-drop", "ALL", "--die-with-parent", "--new-session"),
)
# The kernel's settings are no namespace's: who is root outside may write them inside, and one of them (core_pattern)
# names a program that the kernel runs outside, as root. Opened for writing and closed, it stays as it is.
_SETTING = "/proc/sys/kernel/core_pattern"
_SETTINGS_WRITABLE = 99
_TRY = f"if (: >> {_SETTING}) 2>/dev/null; then exit {_SETTINGS_WRITABLE}; fi"
# What of /proc tells of others than the sandbox, whoever looks.
_UNSEEN = ("/proc/keys", "/proc/key-users", "/proc/kcore", "/proc/timer_list", "/proc/sched_debug")
_LOOKED_AT = 20_000
_UNSANDBOXED = "or, if commands may do whatever this process may, run them with LocalExecutor(...)"


class SandboxUnavailable(UserError):
    """Raised where there is no sandbox here, with the reason; nothing was run.

    >>> issubclass(SandboxUnavailable, UserError)
    True
    """


def _kept_apart() -> str | None:
    """Return where Keyturn keeps its state, None where it has none: whoever reads the keys there can make decisions."""
    try:
        place = os.path.realpath(state_directory())
    except UserError:
        return None
    return place if os.path.isdir(place) else None


def _holds(place: str, path: str) -> bool:
    return os.path.commonpath([place, path]) == place


class UnsafeWorkspace(RuntimeWarning):
    """Warns of a named pipe in the sandbox, or of a socket that it may open: it leads out of the sandbox.

    >>> issubclass(UnsafeWorkspace, RuntimeWarning)
    True
    """


class BubblewrapExecutor(LocalExecutor):
    """Runs commands in a sandbox: the system read-only, one writable `workspace`, no network, its own environment.

    Beside the workspace it holds /usr, /etc, /opt and what belongs to them. `readable` shows other paths (a toolchain
    in a home, say), and `writable` names more that may be written. `network=True` gives it this machine's network.
    Sockets with a path cannot be opened in it, unless `unix_sockets=True` lets it reach those in the paths that it has.

    >>> executor = BubblewrapExecutor("/srv", timeout=20)
    >>> executor.about()["network"]
    False
    """

    _always = _OWN

    def __init__(
        self,
        workspace: str | os.PathLike[str] = ".",
        *,
        network: bool = False,
        unix_sockets: bool = False,
        readable: tuple[str, ...] = (),
        writable: tuple[str, ...] = (),
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(workspace, timeout=timeout, env={**_OWN, **(env or {})})
        if self.root == "/":
            raise UserError("the workspace of a sandbox is a directory of its own, not the whole file system")
        if isinstance(readable, str) or isinstance(writable, str):
            raise UserError("readable and writable must be lists of paths, not one string")
        self.network = network
        self.unix_sockets = unix_sockets
        self.readable = tuple(os.path.realpath(path) for path in readable)
        self.writable = tuple(os.path.realpath(path) for path in writable)
        self._sound = False

    def about(self) -> dict[str, Any]:
        """Return where and how commands run: shown to people, and part of what they approve."""
        return {
            **super().about(),
            "runs": "in a sandbox: only the programs of the system and the workspace are there",
            "network": self.network,
            **({"sockets with a path": True} if self.unix_sockets else {}),
            **({"can also write": list(self.writable)} if self.writable else {}),
            **({"can also read": list(self.readable)} if self.readable else {}),
        }

    async def check(self) -> None:
        """Raise `SandboxUnavailable` unless a sandbox can be made here; nothing of a user's runs."""
        if self._sound:
            return
        program = self._program()
        ran = await super().run([self.shell, "-c", _TRY], timeout_ms=20_000)
        if ran.exit_code == _SETTINGS_WRITABLE:
            raise SandboxUnavailable(
                f"{program} makes a sandbox here in which the kernel's settings can be written ({_SETTING}); use a "
                f"newer bubblewrap, or a user who is not root, {_UNSANDBOXED}"
            )
        if ran.exit_code != 0:
            said = next(iter(ran.stderr.splitlines()), "nothing")
            raise SandboxUnavailable(
                f"{program} cannot make a sandbox here; it said: {said!r}. The kernel must allow user namespaces "
                "(user.max_user_namespaces; on some systems kernel.unprivileged_userns_clone=1 or "
                f"kernel.apparmor_restrict_unprivileged_userns=0); allow them, {_UNSANDBOXED}"
            )
        await asyncio.to_thread(_warn_of_pipes, (self.root, *self.writable), self.unix_sockets)
        self._sound = True

    async def run(self, argv: list[str], **options: Any) -> Any:
        """Run one program with its arguments, in the sandbox."""
        await self.check()
        self._check_apart()
        return await super().run(argv, **options)

    def _check_apart(self) -> None:
        """Refuse a place where a command could write Keyturn's keys, or move them to where the next one reads them."""
        keys = _kept_apart()
        if keys is not None and any(_holds(place, keys) for place in (self.root, *self.writable)):
            raise SandboxUnavailable(
                f"the sandbox would let commands write {keys}, where Keyturn keeps its keys; nothing was run: give it "
                "a workspace that does not hold this directory, or set KEYTURN_HOME to a directory elsewhere"
            )

    def _program(self) -> str:
        found = shutil.which("bwrap", path=os.environ.get("PATH") or os.defpath)
        if found is None:
            raise SandboxUnavailable(
                "there is no sandbox here: the program bwrap is missing. Install bubblewrap "
                f"(the package is called bubblewrap), {_UNSANDBOXED}"
            )
        return found

    def _start(self, argv: list[str], cwd: str, env: Mapping[str, str]) -> Launch:
        network = [] if self.network else ["--unshare-net"]
        program = self._program()
        sockets = self._socket_filter()
        # What a call sets is set inside: around the sandbox it would steer what makes the sandbox (LD_PRELOAD).
        own = [word for name, value in env.items() for word in ("--setenv", name, value)]
        line = [OWN_KEYRING, program, *_FLAGS, *network, "--seccomp", str(sockets), *self._mounts(), *own]
        return Launch([*line, "--chdir", cwd, "--", *argv], self._environment(), (sockets,))

    def _socket_filter(self) -> int:
        """Open a file that holds the filter; whoever starts the sandbox closes it."""
        code = socket_filter(unix=self.unix_sockets)
        if code is None:
            raise SandboxUnavailable(
                f"there is no sandbox here: on {platform.machine()} no filter keeps a command from sockets; "
                f"use a machine of another architecture, {_UNSANDBOXED}"
            )
        file = os.memfd_create("sockets")
        os.write(file, code)
        os.lseek(file, 0, os.SEEK_SET)
        return file

    def _mounts(self) -> Iterator[str]:
        """Return the mounts from the outside in: what comes later lies over what came before."""
        for path in _SYSTEM:
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.isdir(path):
                yield from ("--ro-bind", path, path)
        yield from ("--dev", "/dev", "--proc", "/proc")
        for path in _UNSEEN:
            if os.path.exists(path):
                yield from ("--ro-bind", "/dev/null", path)
        yield from ("--remount-ro", "/proc")
        empty = {os.path.realpath(path) for path in (*_EMPTY, os.path.expanduser("~"))} - {"/"}
        for path in sorted(empty):
            if os.path.isdir(path):
                yield from ("--tmpfs", path)
        resolver = os.path.realpath("/etc/resolv.conf")
        if self.network and resolver.startswith("/run/"):
            yield from ("--ro-bind-try", resolver, resolver)
        for path in self.readable:
            yield from ("--ro-bind", path, path)
        for path in (self.root, *self.writable):
            yield from ("--bind", path, path)
        keys = _kept_apart()
        if keys is not None and any(_holds(path, keys) for path in (*_SYSTEM, *self.readable)):
            yield from ("--tmpfs", keys, "--remount-ro", keys)
        yield from ("--remount-ro", "/")


def _warn_of_pipes(places: tuple[str, ...], sockets: bool) -> None:
    """Warn of named pipes, and of sockets if they can be opened: whoever reads there takes orders from inside.

    A look at the start, at so many entries at most: what comes later is not seen.
    """
    for entry in islice(_entries(list(places)), _LOOKED_AT):
        if not entry.is_file(follow_symlinks=False) and _takes_orders(entry, sockets):
            said = f"{entry.path!r} is in the sandbox: what is written to it reaches readers outside the sandbox"
            warnings.warn(said, UnsafeWorkspace, stacklevel=1)


def _entries(waiting: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield everything below these places, without following links."""
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from entries


def _takes_orders(entry: os.DirEntry[str], sockets: bool) -> bool:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or (sockets and stat.S_ISSOCK(mode))
