"""The command `keyturn acp`: stand between an editor and a coding agent that speak ACP."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

from ..core.errors import KeyturnError
from .between import command_of, describe_asking, environment_behind
from .printing import print_labelled
from .with_journal import SERVER, TOKEN, token_of

#: How long a line may be: an edit of a large file is one.
_LONGEST = 256 * 1024 * 1024
_GRACE = 5.0


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    describe_asking(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the agent, over stdio: -- gemini --acp")


def run(arguments: argparse.Namespace) -> int:
    """Pass messages on stdin and stdout until the editor hangs up or the agent ends; return the agent's exit code."""
    command = command_of(arguments)
    server = arguments.server or os.environ.get(SERVER)
    try:
        token = token_of(arguments)
        if not command or not server or not token:
            print_labelled("keyturn acp", f"keyturn acp -- AGENT --acp; set {SERVER} and {TOKEN}, or pass --token-file")
            return 2
        return asyncio.run(_serve(command, server, token))
    except ImportError as error:
        print_labelled("keyturn acp", str(error))
        return 2
    except (KeyturnError, OSError) as error:
        print_labelled("keyturn acp", str(error))
        return 1


async def _serve(command: list[str], server: str, token: str) -> int:
    from ..acp_gate.proxy import AcpGate
    from ..client.client import AsyncClient

    pipe = asyncio.subprocess.PIPE
    agent = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, env=environment_behind(), limit=_LONGEST
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    name = os.path.basename(command[0])
    async with AsyncClient(server, token) as keyturn:
        gate = AcpGate(
            keyturn.asks, name, agent.stdin.write, _print, lambda words: print_labelled("keyturn acp", words)
        )
        editing = asyncio.ensure_future(_pass(await _stdin(), gate.from_editor))
        working = asyncio.ensure_future(_pass(agent.stdout, gate.from_agent))
        await asyncio.wait({editing, working}, return_when=asyncio.FIRST_COMPLETED)
        await gate.close()
        agent.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(agent.wait(), _GRACE)
        if agent.returncode is None:
            agent.kill()
        for task in (editing, working):
            task.cancel()
        await asyncio.gather(editing, working, return_exceptions=True)
        return await agent.wait()


async def _pass(lines: asyncio.StreamReader, to: Callable[[bytes], None]) -> None:
    while line := await lines.readline():
        to(line)


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


async def _stdin() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LONGEST)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
