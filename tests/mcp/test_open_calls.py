"""A question of a server of the older protocol is asked of the one call that it can be of, or of none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn.mcp.calls import CallRefused, OpenCalls, Parked
from tests.waiting import turns_of_the_loop


@pytest.mark.parametrize(
    ("end", "parked"),
    [("result", True), (CallRefused("no"), True), (ConnectionError("gone"), False), ("cancelled", False)],
    ids=["answered", "refused", "lost", "given up"],
)
async def test_a_question_of_two_calls_is_of_the_second_only_if_the_first_was_answered(end: Any, parked: bool) -> None:
    calls, loop = OpenCalls(), asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()

    async def work(future: Any) -> Any:
        return await future

    both = [asyncio.ensure_future(calls.run(work(each), None)) for each in (first, second)]
    await turns_of_the_loop()
    asked = asyncio.ensure_future(calls.ask("really?"))
    await turns_of_the_loop()
    if end == "cancelled":
        both[0].cancel()
    elif isinstance(end, Exception):
        first.set_exception(end)
    else:
        first.set_result(end)
    await asyncio.wait(both[:1])
    await turns_of_the_loop()
    assert both[1].done() == parked
    if parked:
        assert isinstance(await both[1], Parked)
        asked.cancel()
    else:
        assert await asked is None
    calls.drop()
    await asyncio.gather(*both, asked, return_exceptions=True)


async def test_a_call_that_began_after_a_question_is_not_asked_it() -> None:
    async def work() -> str:
        return "done"

    calls = OpenCalls()
    asked = asyncio.ensure_future(calls.ask("really?"))
    late = asyncio.ensure_future(calls.run(work(), None))
    assert await asked is None
    assert await late == "done"
