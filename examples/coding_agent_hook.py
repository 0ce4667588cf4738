"""The hook of a coding agent: what Claude Code sends to it before a command runs, and what it answers.

`keyturn hook install claude-code` writes the hook into the agent's settings. This program plays the agent.

Prints:
make test: allow, approved in Keyturn
rm -rf build: deny, rejected by ada: Not on a Friday.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn

from keyturn import App, ExternalAgent


@asynccontextmanager
async def served(app: App) -> AsyncGenerator[str]:
    server = uvicorn.Server(uvicorn.Config(app.asgi(), port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


async def hook(command: str, environment: dict[str, str]) -> str:
    call = {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": "/srv/app", "tool_use_id": command}
    sent = json.dumps({**call, "tool_name": "Bash", "tool_input": {"command": command}}).encode()
    program = [sys.executable, "-m", "keyturn", "hook", "claude-code", "--wait", "60"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe, env={**os.environ, **environment})
    answer = json.loads((await process.communicate(sent))[0])["hookSpecificOutput"]
    return f"{command}: {answer['permissionDecision']}, {answer['permissionDecisionReason']}"


async def main() -> None:
    async with App([ExternalAgent()], "memory://") as app, served(app) as url:
        await app.people.start("ada")
        await app.people.add("laptop", kind="machine", by="ada")
        token = await app.people.issue_token("laptop", ["ask"], by="ada")
        for command in ("make test", "rm -rf build"):
            asking = asyncio.create_task(hook(command, {"KEYTURN_SERVER": url, "KEYTURN_TOKEN": token}))
            while not (rows := await app.inbox.list()):
                await asyncio.sleep(0.01)
            if command == "make test":
                await app.inbox.approve(rows[0], by="ada")
            else:
                await app.inbox.reject(rows[0], by="ada", message="Not on a Friday.")
            print(await asking)


if __name__ == "__main__":
    asyncio.run(main())
