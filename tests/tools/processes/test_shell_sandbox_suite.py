"""The shell tool keeps the promises of the room of tools in its sandbox too, where there is one."""

from __future__ import annotations

from typing import Any

from keyturn import BubblewrapExecutor, ShellCommandRequest, ShellResult, ShellTool
from keyturn.testing.crash import Effects
from tests.tools import test_shell
from tests.tools.processes.test_bubblewrap import sandboxed


@sandboxed
class TestShellToolInASandbox(test_shell.TestShellToolInReality):
    """What happened is what a command wrote, from inside the sandbox."""

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        sandbox = BubblewrapExecutor(self.root, timeout=20)

        async def executor(request: ShellCommandRequest) -> ShellResult:
            result = await sandbox(request)
            effects.record(request.ctx_wrapper, result.output[0].stdout)
            return result

        return ShellTool(executor, **settings)
