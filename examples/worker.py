"""A worker: this program starts runs and decides, and another process, `keyturn worker`, moves them.

Prints:

    started; nothing runs in this process
    waits: rotate
    done, and not by this process
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from keyturn import Agent, App, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs


@function_tool(needs_approval=True)
def rotate(key: str) -> int:
    """Rotate a key."""
    return os.getpid()  # to show who ran it


def reply(request: Any) -> Any:
    return tool_outputs(request).get("c1") or [function_call("rotate", {"key": "staging"}, call_id="c1")]


def app_of(journal: str, *, worker: bool) -> App:
    return App([Agent[None](name="ops", model=ScriptedModel(reply), tools=[rotate])], journal, worker=worker)


async def start_and_decide(app: App) -> None:
    run = await app.start("ops", "Rotate the staging key.")
    print("started; nothing runs in this process")
    await run.wait(timeout=30)
    [request] = await app.inbox.list()
    print("waits:", request.tool)
    await app.inbox.approve(request, by="ann")
    ran_in = (await run.result(timeout=30)).final_output
    print("done, and not by this process" if ran_in != str(os.getpid()) else "done by this process")


def main() -> None:
    with TemporaryDirectory() as folder:
        os.environ["JOURNAL"] = f"sqlite:///{Path(folder, 'runs.db')}"
        command = [sys.executable, "-m", "keyturn.cli.main", "worker", "worker:app", "--log-level", "error"]
        worker = subprocess.Popen(command, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
        asyncio.run(start_and_decide(app_of(os.environ["JOURNAL"], worker=False)))
        worker.terminate()  # it ends well: what was begun is finished
        worker.wait()


if __name__ == "__main__":
    main()
elif "JOURNAL" in os.environ:  # imported by `keyturn worker worker:app`
    app = app_of(os.environ["JOURNAL"], worker=True)
