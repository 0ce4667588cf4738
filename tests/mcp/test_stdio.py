"""Real programs over stdio: called, crashed, killed, hanging, flooding, and never left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from keyturn import MCPServerError, MCPServerStdio
from keyturn.mcp import pipes
from keyturn.testing import approve_all
from tests.mcp.conftest import calling, liar, log, over_stdio
from tests.playing import play
from tests.waiting import until


async def test_a_program_is_called_and_its_world_is_small(shop: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with over_stdio(shop, require_approval={"pay": "always", "weather": "never"}) as server:
        agent = calling(server, calls=[("pay", {"to": "ada", "amount": 3}), ("weather", {"city": "Rome"})])
        result = await play(agent)
        [item] = result.interruptions
        assert (item.name, log(shop)) == ("pay", [])
        said = (await play(agent, approve_all(result))).final_output
        assert said.startswith("paid 3 to ada | ")
        assert "21.5" in said
        assert log(shop) == ["pay ada 3"]
        assert (await server.call_tool("picture", {})).content[0].mime_type == "image/png"
        names = (await server.call_tool("secrets", {})).content[0].text.split(",")
        assert "SHOP" in names
        assert not {"OPENAI_API_KEY", "KEYTURN_SECRET"} & set(names)


async def test_a_crash_within_a_call_is_in_doubt_and_the_next_finds_a_new_process(streamed: bool, shop: Path) -> None:
    async with liar("crash", str(shop / "log"), require_approval="always") as server:
        agent = calling(server, calls=[("say", {}), ("other", {})])
        result = await play(agent, streamed=streamed)
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await play(agent, state, streamed=streamed)
        assert {item.name: item.kind for item in result.interruptions} == {"say": "in_doubt", "other": "approval"}
        assert "Connection closed" in result.interruptions[0].reason
        state = result.to_state()
        say, other = state.get_interruptions()
        state.resolve(say, "ran", output="it crashed")
        state.approve(other)
        assert (await play(agent, state, streamed=streamed)).final_output == "it crashed | said by other"
        assert log(shop) == ["x"], "never silently again"


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_process_that_died_within_a_call_that_only_reads(trusted: bool, shop: Path) -> None:
    """That it only reads is the server's word, and counts where the user trusts it."""
    options: dict[str, Any] = {"trust_annotations": trusted, "max_retry_attempts": 1}
    async with liar("moody", str(shop / "log"), **options) as server:
        result = await play(calling(server, calls=("say", {})))
        assert [item.kind for item in result.interruptions] == ([] if trusted else ["in_doubt"])
        assert result.final_output == ("said by say" if trusted else None)
        assert log(shop) == ["xx" if trusted else "x"]


@pytest.mark.trial
async def test_a_process_killed_between_calls_is_started_again() -> None:
    async with liar("plain") as server:
        [first] = pipes._GROUPS
        os.kill(first, 9)
        line = vars(server)["_connection"]
        await until(lambda: not line.alive)  # a call before that is in doubt
        assert (await play(calling(server, calls=("say", {})))).final_output == "said by say"
        assert first not in pipes._GROUPS


async def test_garbage_between_messages_is_skipped() -> None:
    async with liar("garbage") as server:
        assert (await play(calling(server, calls=("say", {})))).final_output == "said by say"


@pytest.mark.parametrize("how", ["endless line", "noise", "no result", "hang"])
async def test_what_floods_or_hangs_is_in_doubt_and_bounded(how: str) -> None:
    async with liar(how, seconds=0.7 if how == "hang" else 10) as server:
        [item] = (await play(calling(server, calls=("say", {})), streamed=how == "hang")).interruptions
        assert (item.kind, item.name) == ("in_doubt", "say")


@pytest.mark.trial
async def test_a_result_of_100_mb_is_not_read() -> None:
    async with liar("100 MB", seconds=20) as server:
        [item] = (await play(calling(server, calls=("say", {})))).interruptions
        assert item.kind == "in_doubt"


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (
            MCPServerStdio({"command": "no-such-program-anywhere"}),
            "No such file.*: no-such-program-anywhere",
        ),
        (MCPServerStdio({"command": sys.executable, "args": ["-c", "pass"]}, name="gone"), "could not be connected"),
        (liar("silent", connect_timeout_seconds=0.3), "it did not answer within 0.3 s"),
        (MCPServerStdio({"command": sys.executable, "cwd": "/nowhere/at/all"}), "No such file or directory"),
    ],
    ids=["no program", "ends at once", "says nothing", "no directory"],
)
async def test_a_program_that_cannot_be_connected_is_an_error_and_gone(server: Any, says: str) -> None:
    with pytest.raises(MCPServerError, match=says) as raised:
        await server.connect()
    assert not raised.value.may_have_acted


async def test_a_program_that_will_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    script = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(60)
"""
    noted = tmp_path / "pids"
    server = MCPServerStdio(
        {"command": sys.executable, "args": ["-c", script, str(noted)]}, name="stubborn", connect_timeout_seconds=1
    )
    with pytest.raises(MCPServerError, match="did not answer"):
        await server.connect()
    for pid in map(int, noted.read_text().split()):
        assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
