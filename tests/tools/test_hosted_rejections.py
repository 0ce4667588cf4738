"""A standing rejection of a hosted server's tool is about that one server's."""

from __future__ import annotations

from typing import Any, cast

import pytest

from keyturn import MemoryJournal, Runner
from keyturn.audit.checker import check
from tests.playing import through_text
from tests.tools.test_hosted_mcp import agent_of, asks, server_of

pytestmark = pytest.mark.usefixtures("own_key")


async def test_a_rejection_for_good_is_about_the_tool_of_one_server(saved: bool) -> None:
    rounds = [asks("r1")], [asks("r2", server="wiki"), asks("r3", '{"path": "b"}')]
    agent, _ = agent_of(*rounds, tools=[server_of(), server_of("wiki")])
    journal = MemoryJournal()
    result = await Runner.run(agent, "go", journal=journal)
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True)
    cast("Any", agent.tools[0]).tool_config = server_of(server_url="https://moved.example.com/mcp").tool_config
    state = await through_text(agent, state, journal=journal) if saved else state
    result = await Runner.run(agent, state, journal=journal)
    assert [item.call_id for item in result.interruptions] == ["r2"]
    assert (await check(journal)).violations == []
