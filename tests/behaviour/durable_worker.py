"""A worker that tests start as a process of its own: approve one run's call, and perhaps die around its effect."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from keyturn import Agent, Conflict, Runner, RunState, function_tool
from keyturn.testing import ScriptedModel, assistant_message

URL, RUN, EFFECTS, WHEN, STREAMED, *GO = sys.argv[1:]


@function_tool(needs_approval=True)
async def pay(amount: int) -> str:
    if WHEN == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(EFFECTS).open("a") as effects:
        effects.write(f"paid {amount}\n")
    if WHEN == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {amount}"


async def work() -> str:
    agent = Agent(name="desk", model=ScriptedModel([assistant_message("done")]), tools=[pay])
    state = await RunState.load(URL, RUN, agent)
    if not state.get_interruptions():
        return "Conflict"
    state.approve(state.get_interruptions()[0])
    try:
        if STREAMED == "True":
            stream = Runner.run_streamed(agent, state)
            async for _event in stream.stream_events():
                pass
            return str(stream.final_output)
        return str((await Runner.run(agent, state)).final_output)
    except Conflict:
        return "Conflict"


if __name__ == "__main__":
    while GO and not Path(GO[0]).exists():
        time.sleep(0.001)
    print(asyncio.run(work()))
