"""A journal works through pgbouncer in transaction mode, where each transaction may have another session."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from keyturn import Agent, App, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs
from tests.needs import missing
from tests.waiting import until_now

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")


@pytest.fixture
def pooler(database: str, tmp_path: Path) -> Generator[str]:
    """The URL of the database through a pooler that has two sessions of it."""
    if PROGRAM is None:
        pytest.skip(missing("pgbouncer"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    to = conninfo_to_dict(database)
    where = " ".join(f"{name}={to[name]}" for name in ("host", "port", "dbname", "user", "password") if name in to)
    ini = tmp_path / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\nkeyturn = {where}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        "unix_socket_dir =\npool_mode = transaction\nauth_type = any\ndefault_pool_size = 2\n"
    )
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    ini.chmod(0o644)
    as_nobody = ["-u", "nobody"] if os.geteuid() == 0 else []
    url = f"postgresql://{to['user']}@127.0.0.1:{port}/keyturn"
    with subprocess.Popen([PROGRAM, "-q", *as_nobody, ini], stderr=subprocess.DEVNULL) as running:
        try:
            until_now(lambda: _answers(url))
            yield f"{url}?pooled=1"
        finally:
            running.kill()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


async def test_runs_are_started_approved_and_ended_through_a_pooler_in_transaction_mode(pooler: str) -> None:
    """Found as it was: 16 of 60 starts failed, since a prepared statement was another session's."""

    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda items: "done" if tool_outputs(items) else [function_call("pay", {})])
    apps = [App([Agent("desk", model=model, tools=[pay])], pooler) for _ in range(2)]
    async with apps[0] as app, apps[1] as other:
        await other.at_work()
        runs = await asyncio.gather(*(app.start("desk", "go") for _ in range(12)))
        for run in runs:
            await app.wait(run.id, 60)
        for row in await other.inbox.list():
            await other.inbox.approve(row, by="ann")
        assert [(await app.result(run.id, 60)).final_output for run in runs] == ["done"] * len(runs)
