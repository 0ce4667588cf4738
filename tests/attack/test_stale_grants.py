"""An approval that is not executed in its time lets nothing run, whether a person or a standing decision gave it."""

from __future__ import annotations

import time
from typing import Any

from keyturn import Approval, Grant, RunConfig, ToolExecutionConfig, function_tool
from keyturn.core.policy import Verdict
from tests.attack.world import clerk
from tests.playing import play
from tests.waiting import until


async def test_what_a_grant_let_run_long_ago_asks_again(streamed: bool) -> None:
    """One of two calls waits for the other, which takes longer than an approval is good for."""
    paid: list[int] = []

    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        ends = time.monotonic() + 0.005
        await until(lambda: time.monotonic() > ends)
        return "paid"

    def policy(call: Any, _context: Any) -> Verdict:
        return Verdict("ask", terms=None if call.params["amount"] == 1 else Approval(execute_by="1ms"))

    agent = clerk(pay, [{"amount": 1}], [{"amount": 2}, {"amount": 3}])
    config = RunConfig(policy=policy, tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    state = (await play(agent, run_config=config, streamed=streamed)).to_state()
    state.approve(state.get_interruptions()[0], grant=Grant(expires="1h"))
    result = await play(agent, state, run_config=config, streamed=streamed)
    assert paid.count(2) + paid.count(3) <= 1
    assert {call.request.reason for call in result.interruptions} == {
        "the approval was not executed in time and has expired"
    }
