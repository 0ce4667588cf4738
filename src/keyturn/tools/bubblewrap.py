"""Commands in a sandbox of bubblewrap (Linux): what they can reach is what is named here, and the kernel sees to it.

The file system is read-only, one workspace is writable, homes and temporary directories are empty, there is no network
unless it is asked for, other processes cannot be seen, and no privilege can be gained. Where the kernel or the
machine does not give that, nothing runs: there is no weaker sandbox to fall back to.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.errors import UserError
from .shell_process import LocalExecutor

# What holds other people's sockets, keys and half-written files. It is empty in a sandbox.
_HIDDEN = ("/home", "/root", "/tmp", "/var/tmp", "/run", "/media", "/mnt")
_HOME = "/tmp"
_FLAGS = (
    *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--hostname", "sandbox", "--cap-drop", "ALL", "--die-with-parent", "--new-session"),
)
_UNSANDBOXED = "or, if commands may do whatever this process may, run them with LocalExecutor(...)"


class SandboxUnavailable(UserError):
    """There is no sandbox here, and why; nothing was run.

    >>> issubclass(SandboxUnavailable, UserError)
    True
    """


class BubblewrapExecutor(LocalExecutor):
    """Runs commands in a sandbox: read-only root, one writable `workspace`, no network, an environment of its own.

    Homes, /tmp and /run are empty in it; `readable` shows paths below them (a toolchain in a home, say) and `writable`
    names more that may be written. `network=True` gives it this machine's network.

    >>> executor = BubblewrapExecutor("/srv", timeout=20)
    >>> executor.about()["network"]
    False
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] = ".",
        *,
        network: bool = False,
        readable: tuple[str, ...] = (),
        writable: tuple[str, ...] = (),
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(workspace, timeout=timeout, env={"HOME": _HOME, "TMPDIR": "/tmp", **(env or {})})
        if self.root == "/":
            raise UserError("the workspace of a sandbox is a directory of its own, not the whole file system")
        if isinstance(readable, str) or isinstance(writable, str):
            raise UserError("readable and writable are lists of paths, not one text")
        self.network = network
        self.readable = tuple(os.path.realpath(path) for path in readable)
        self.writable = tuple(os.path.realpath(path) for path in writable)
        self._sound = False

    def about(self) -> dict[str, Any]:
        """Where and how commands run: shown to people, and part of what they approve."""
        return {
            **super().about(),
            "runs": "in a sandbox: the rest of the file system is read-only",
            "network": self.network,
            **({"can also write": list(self.writable)} if self.writable else {}),
            **({"can also read": list(self.readable)} if self.readable else {}),
        }

    async def check(self) -> None:
        """Raise `SandboxUnavailable` unless a sandbox can be made here; nothing of a user's runs."""
        if self._sound:
            return
        program = self._program()
        ran = await super().run(["true"], timeout_ms=20_000)
        if ran.exit_code != 0:
            said = next(iter(ran.stderr.splitlines()), "nothing")
            raise SandboxUnavailable(
                f"{program} cannot make a sandbox here; it said: {said!r}. The kernel must allow user namespaces "
                "(user.max_user_namespaces; on some systems kernel.unprivileged_userns_clone=1 or "
                f"kernel.apparmor_restrict_unprivileged_userns=0); allow them, {_UNSANDBOXED}"
            )
        self._sound = True

    async def run(self, argv: list[str], **options: Any) -> Any:
        """Run one program with its arguments, in the sandbox."""
        await self.check()
        return await super().run(argv, **options)

    def _program(self) -> str:
        found = shutil.which("bwrap", path=os.environ.get("PATH") or os.defpath)
        if found is None:
            raise SandboxUnavailable(
                "there is no sandbox here: the program bwrap is missing. Install bubblewrap "
                f"(the package is called bubblewrap), {_UNSANDBOXED}"
            )
        return found

    def _start(self, argv: list[str], cwd: str, env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        network = [] if self.network else ["--unshare-net"]
        # What a call sets is set inside: around the sandbox it would steer what makes the sandbox (LD_PRELOAD).
        own = [word for name, value in env.items() for word in ("--setenv", name, value)]
        line = [self._program(), *_FLAGS, *network, *self._mounts(), *own, "--chdir", cwd, "--", *argv]
        return line, self._environment()

    def _mounts(self) -> Iterator[str]:
        """The file system from the outside in: what comes later lies over what came before."""
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        hidden = {os.path.realpath(path) for path in (*_HIDDEN, os.path.expanduser("~"))} - {"/"}
        for path in sorted(hidden):
            if os.path.isdir(path):
                yield from ("--tmpfs", path)
        resolver = os.path.realpath("/etc/resolv.conf")
        if self.network and resolver.startswith("/run/"):
            yield from ("--ro-bind-try", resolver, resolver)
        for path in self.readable:
            yield from ("--ro-bind", path, path)
        for path in (self.root, *self.writable):
            yield from ("--bind", path, path)
