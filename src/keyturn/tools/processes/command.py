"""Run commands on this machine without a sandbox: each in its own session, with a timeout and bounded output.

What a call may not reach by itself: the secrets in this process's environment (only the names in `PASSED` and those
that are given are passed on), and a terminal or any other input. It is no wall: a command that runs here can
do what this process can. `bubblewrap.py` is the wall.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any, ClassVar

from ...core.digest import canonical
from ...core.errors import UserError
from ...core.settable import Rules, Sealed, must
from ...core.values import is_positive
from ...support.marking import mark
from ..base import ToolProblem
from ..functions.path_arguments import plain_path
from ..shell_calls import ShellCallOutcome, ShellCommandOutput, ShellResult
from .output import Kept, allowed_length, fitted
from .supervised import Ended, Keeper, Launch

PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"


class LocalExecutor(Sealed):
    """Runs commands on this machine as this process's user, without a sandbox.

    Commands start in `root`, and none takes longer than `timeout` seconds; a request may ask for less. `env` is set for
    them; of this process's environment they get PATH, HOME, the locale and the names in `inherit`.

    >>> executor = LocalExecutor("/tmp", timeout=20)
    >>> executor.about()["runs"]
    'on this machine, not in a sandbox'
    """

    # Values that every executor of this kind sets, of which nothing is to be told.
    _always: ClassVar[Mapping[str, str]] = {}
    _rules: ClassVar[Rules] = {"timeout": must(is_positive, "a positive number of seconds")}

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
        inherit: tuple[str, ...] = (),
    ) -> None:
        if isinstance(inherit, str):
            raise UserError("inherit must be a list of names of environment variables, not one string")
        self.root = os.path.realpath(root)
        self.timeout = timeout
        self.inherit = tuple(inherit)
        self.env = dict(env or {})
        self.shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"

    def about(self) -> dict[str, Any]:
        """Return where and how commands run: shown to people, and part of what they approve."""
        passed, values = sorted({*self.inherit, *self.env}), self._values()
        return {
            "runs": "on this machine, not in a sandbox",
            "in": self.root,
            "shell": self.shell,
            "seconds": self.timeout,
            **({"environment": passed} if passed else {}),
            **({"its values": values} if values else {}),
        }

    async def __call__(self, request: Any) -> ShellResult:
        """Run a request of `ShellTool` or of `LocalShellTool`."""
        action = request.data.action
        if hasattr(action, "command"):
            if action.user is not None:
                raise ToolProblem("The command was not run: this shell cannot become another user.")
            ran = await self.run(
                action.command, cwd=action.working_directory or "", env=action.env, timeout_ms=action.timeout_ms
            )
            return ShellResult([ran])
        return await self._one_by_one(action.commands, action.timeout_ms, action.max_output_length)

    async def _one_by_one(self, commands: list[str], timeout_ms: int | None, length: int | None) -> ShellResult:
        done: list[ShellCommandOutput] = []
        for command in commands:
            line = [self.shell, "-c", "--", command]
            done.append(await self.run(line, timeout_ms=timeout_ms, max_output=length))
            done[-1].command = command
            if done[-1].outcome.type == "timeout":
                left = len(commands) - len(done)
                done[-1].stderr += f"\n[not run after this: {left} of {len(commands)} commands]" if left else ""
                break
        return ShellResult(done, length)

    async def run(
        self,
        argv: list[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
        max_output: int | None = None,
    ) -> ShellCommandOutput:
        """Run one program with its arguments, in `cwd` below the root."""
        named = {**self._environment(), **(env or {})}
        if any("\0" in text for text in (*argv, *named, *named.values())):
            raise ToolProblem("The command was not run: it holds a NUL character, at which it would end unseen.")
        place = self._inside(cwd)
        seconds = self.timeout if timeout_ms is None else min(timeout_ms / 1000, self.timeout)
        length = allowed_length(max_output)
        kept = [Kept(length), Kept(length)]
        launch = self._start([_found(argv[0], named), *argv[1:]], place, env or {})
        try:
            ended = await Keeper().run(launch, place, kept, seconds)
        finally:
            for file in launch.files:
                os.close(file)
        return _output(ended, kept, seconds, length)

    def place(self, cwd: str) -> str:
        """Return the one spelling of a directory below the root: relative, links resolved; others as they are.

        >>> LocalExecutor(".").place("./a/../b")
        'b'
        """
        place = os.path.realpath(os.path.join(self.root, cwd))
        below = os.path.commonpath([place, self.root]) == self.root
        return os.path.relpath(place, self.root) if below else plain_path(cwd)

    def _inside(self, cwd: str) -> str:
        """Return a directory below the root, links resolved."""
        place = os.path.realpath(os.path.join(self.root, cwd))
        if place != self.root and os.path.commonpath([place, self.root]) != self.root:
            raise ToolProblem("The command was not run: its working directory is outside of the workspace.")
        if not os.path.isdir(place):
            raise ToolProblem("The command was not run: its working directory does not exist.")
        return place

    def _environment(self) -> dict[str, str]:
        passed = {name: os.environ[name] for name in (*PASSED, *self.inherit) if name in os.environ}
        passed.setdefault("PATH", PLAIN_PATH)
        return {**passed, **self.env}

    def _values(self) -> str:
        """Return a MAC that tells other values from these, "" where there are none: they may be secrets.

        Without the key nobody finds a short one by it.
        """
        inherited = {name: os.environ[name] for name in self.inherit if name in os.environ}
        given = {name: value for name, value in {**inherited, **self.env}.items() if self._always.get(name) != value}
        text = canonical([type(self).__qualname__, self.root, given])
        return mark("environment", text) if given else ""

    def _start(self, argv: list[str], cwd: str, env: Mapping[str, str]) -> Launch:
        """Return what is started; a sandbox puts itself in front, and `env` is the call's own."""
        return Launch(argv, {**self._environment(), **env})


def _found(program: str, environment: Mapping[str, str]) -> str:
    """Find the file of a program, as the system would with this environment."""
    found = program if "/" in program else shutil.which(program, path=environment.get("PATH") or PLAIN_PATH)
    if not found:
        raise ToolProblem("The command was not run: there is no such program here.")
    return found


def _output(ended: Ended, kept: list[Kept], seconds: float, length: int) -> ShellCommandOutput:
    notes: list[str] = []
    if ended.timed_out:
        notes.append(f"[stopped after {seconds:g} s]")
    elif ended.found:
        notes.append(f"[{ended.found} of its processes were still running and were ended]")
    room = max(length - sum(len(note) + 1 for note in notes), 0)
    stdout, stderr = fitted(kept[0], kept[1], room)
    outcome = ShellCallOutcome("timeout") if ended.timed_out else ShellCallOutcome("exit", ended.exit_code)
    return ShellCommandOutput(stdout, "\n".join([*([stderr] if stderr else []), *notes]), outcome)
