"""Start, stop and kill the demo's worker: a process of its own, as it is where it matters."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

_ENDS_WITHIN = 10.0


class WorkerProcess:
    """Runs `keyturn worker` on the demo's app; what it says goes to a file of the demo's folder."""

    def __init__(self, home: Path) -> None:
        self._log = home / "worker.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def number(self) -> int:
        """Return the number of the process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, or another one."""
        # -P: what lies in the working directory is not to be imported.
        command = [sys.executable, "-P", "-m", "keyturn.cli.office.worker"]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    async def kill(self) -> int:
        """Kill it as a machine would that loses its power; return its number."""
        number = self.number
        await self._end(signal.SIGKILL)
        return number

    async def cut_short(self) -> None:
        """Tell it to end at once: what it was in the middle of is in doubt."""
        await self._end(signal.SIGTERM, signal.SIGTERM)

    async def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            await self._end(signal.SIGTERM, signal.SIGTERM)

    async def _end(self, *signals: signal.Signals) -> None:
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            for number in signals:
                process.send_signal(number)
                await asyncio.sleep(0.2)
        try:
            await asyncio.wait_for(process.wait(), _ENDS_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()
        self._process = None
