"""A real server over SSE: called, asking, killed within a call, started again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyturn import MCPServerError, MCPServerSse
from tests.mcp.conftest import calling, log, logged, run


async def test_a_server_that_asks_is_killed_within_a_call_and_started_again(programs: Any, shop: Path) -> None:
    program = programs("sse")
    options: dict[str, Any] = {"require_approval": {"always": {"tool_names": ["pay", "slow"]}}}
    async with MCPServerSse({"url": program.url}, name="shop", client_session_timeout_seconds=20, **options) as server:
        agent = calling(server, calls=("asks", {"amount": 5}))
        state = (await run(agent)).to_state()
        state.answer(state.get_interruptions()[0], {"ok": True})
        assert (await run(agent, state)).final_output == "accept: ok=True reason=''"
        calls = [("picture", {}), ("broken", {}), ("slow", {}), ("pay", {"to": "ada", "amount": 2})]
        agent = calling(server, calls=calls)
        result = await run(agent)
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        resumed = asyncio.create_task(run(agent, state))
        await logged(shop, "slow began")
        program.kill()
        result = await resumed
        assert {item.name: item.kind for item in result.interruptions} == {"slow": "in_doubt", "pay": "approval"}
        outputs = {each["call_id"]: each["output"] for each in result.to_input_list() if "output" in each}
        assert (outputs["c1"][0]["type"], outputs["c2"]) == ("input_image", "Error executing tool broken")
        program.start()
        state = result.to_state()
        slow, pay = state.get_interruptions()
        state.resolve(slow, "did_not_run")
        state.approve(pay)
        assert (await run(agent, state, streamed=True)).final_output.endswith("paid 2 to ada")
        assert log(shop) == ["asks 5 accept", "slow began", "pay ada 2"]


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MCPServerError, match="could not be connected: ConnectError"):
        await MCPServerSse({"url": "http://127.0.0.1:1/sse"}).connect()
