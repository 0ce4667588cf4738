"""A client that declares tasks looks at its held call, answers its questions and cancels it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from keyturn import ExternalAgent
from keyturn.mcp_gate.records import GateRecords
from keyturn.mcp_gate.tasks import TASKS
from tests.mcp_gate.painters import RED, gate_of, red
from tests.mcp_gate.shops import Shop, none_pending, text_of
from tests.server.programs import Port
from tests.waiting import until


class TaskResult(types.Result):
    """A task in place of a result."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"


class TakesTasks(ClientExtension):
    """Declares tasks, and leaves each to the test."""

    identifier = TASKS

    def claims(self) -> list[ResultClaim[Any]]:
        async def never(_task: TaskResult, _context: ClaimContext) -> types.CallToolResult:
            raise AssertionError("the test looks at its tasks")

        return [ResultClaim(result_type="task", model=TaskResult, resolve=never)]


class Looking:
    """A client that declares tasks."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def task(self, arguments: dict[str, Any]) -> str:
        """Call, and return the id of the task that the call becomes."""
        made: Any = await self.client.session.call_tool(
            "paint", arguments, allow_claimed=True, allow_input_required=True
        )
        assert isinstance(made, TaskResult), made
        said = made.model_dump(by_alias=True)
        assert said["status"] == "working"
        return said["taskId"]

    async def sends(self, method: str, task: str, **more: Any) -> dict[str, Any]:
        """Send a request about a task."""
        made = await self.client.session.send_request(
            types.Request[Any, str](method=f"tasks/{method}", params=_Params(taskId=task, **more)), _Answer
        )
        return made.model_dump(by_alias=True)

    async def status(self, task: str) -> Any:
        return (await self.sends("get", task))["status"]

    async def becomes(self, task: str, status: str) -> dict[str, Any]:
        """Look at a task until it has this status, and return it."""

        async def found() -> dict[str, Any] | None:
            said = await self.sends("get", task)
            return said if said["status"] == status else None

        return await until(found)


class _Params(types.RequestParams):
    model_config = ConfigDict(extra="allow")


class _Answer(types.Result):
    model_config = ConfigDict(extra="allow")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


def client_of(server: Server[Any]) -> Client:
    return Client(server, elicitation_callback=red, extensions=[TakesTasks()])


async def test_a_held_call_is_a_task_that_its_client_looks_at_answers_and_cancels(shop: Shop) -> None:
    done: list[str] = []
    async with gate_of(shop, done, "auto") as server, client_of(server) as client:
        looking = Looking(client)
        task = await looking.task({"wall": "north"})
        assert await looking.status(task) == "working"
        await shop.decided("approve")
        [(name, question)] = (await looking.becomes(task, "input_required"))["inputRequests"].items()
        assert question["params"]["message"] == "Which color?"
        await looking.sends("update", task, inputResponses={name: RED.model_dump(by_alias=True, exclude_none=True)})
        made = (await looking.becomes(task, "completed"))["result"]
        assert (made["content"][0]["text"], done) == ("painted red", ["red"])

        other = await looking.task({"wall": "south"})
        await shop.pending()
        await looking.sends("cancel", other)
        await looking.becomes(other, "cancelled")
        assert await none_pending(shop)

        failing = await looking.task({"wall": "fallen"})
        await shop.decided("approve")
        await looking.becomes(failing, "failed")
        assert await looking.sends("update", failing, inputResponses={}) == await looking.sends("cancel", failing)
        await shop.there(shop.port.app.inbox.resolve(await shop.pending(), "did_not_run", by="ada"))
        for unknown in ("none", ""):
            with pytest.raises(MCPError, match="no such task"):
                await looking.status(unknown)
        assert done == ["red"]


async def test_a_rejected_task_says_why_and_a_call_that_needs_nobody_is_no_task(shop: Shop) -> None:
    done: list[str] = []
    async with gate_of(shop, done, "auto") as server, client_of(server) as client:
        looking = Looking(client)
        task = await looking.task({})
        await shop.decided("reject", message="Not today.")
        made = (await looking.becomes(task, "completed"))["result"]
        assert made["isError"]
        assert "Not today." in made["content"][0]["text"]
    async with gate_of(shop, done, "auto", "paint") as server, client_of(server) as client:
        assert text_of(await client.call_tool("paint", {})) == "painted red"


async def test_a_task_goes_on_after_a_restart_of_its_gate_and_is_forwarded_once(shop: Shop, tmp_path: Path) -> None:
    done: list[str] = []
    records = tmp_path / "records.json"

    @asynccontextmanager
    async def looking() -> AsyncGenerator[Looking]:
        async with gate_of(shop, done, "auto", records=GateRecords(records)) as server, client_of(server) as client:
            yield Looking(client)

    async with looking() as first:
        west = await first.task({"wall": "west"})
        asked = await shop.pending()
    async with looking() as second:
        assert await second.status(west) == "working"
        assert (await shop.pending()).run == asked.run
    await shop.decided("approve")  # while no gate is there
    async with looking() as third:
        [name] = (await third.becomes(west, "input_required"))["inputRequests"]
        await third.sends("update", west, inputResponses={name: RED.model_dump(by_alias=True, exclude_none=True)})
        result = (await third.becomes(west, "completed"))["result"]
        assert (result["content"][0]["text"], done) == ("painted red", ["red"])
        south, east = await third.task({"wall": "south"}), await third.task({"wall": "east"})
        rows = {row.params["wall"]: row for row in await shop.there(shop.port.app.inbox.list())}
        await shop.there(shop.port.app.inbox.approve(rows["east"], by="ada"))
        await third.becomes(east, "input_required")  # the server has it
        given_up = await third.task({"wall": "north"})
        await third.sends("cancel", given_up)
    async with looking() as fourth:
        with pytest.raises(MCPError, match="no such task"):
            await fourth.status(given_up)
        assert (await fourth.becomes(west, "completed"))["result"] == result
        lost = (await fourth.becomes(east, "completed"))["result"]
        assert lost["isError"]
        assert "whether it ran is not known" in lost["content"][0]["text"]
        await fourth.sends("cancel", south)
        [doubt] = await until(lambda: _only(shop))
        await shop.there(shop.port.app.inbox.resolve(doubt, "did_not_run", by="ada"))
        with pytest.raises(MCPError, match="call the tool again, and it joins its request"):
            await fourth.status(south)
    other = types.Implementation(name="another", version="1")
    async with (
        gate_of(shop, done, "auto", records=GateRecords(records)) as server,
        Client(server, extensions=[TakesTasks()], client_info=other) as client,
    ):
        with pytest.raises(MCPError, match="no such task"):
            await Looking(client).status(west)
    assert (done, await none_pending(shop)) == (["red"], True)


async def _only(shop: Shop) -> list[Any] | None:
    """Return what is open, once that is one request."""
    rows = [*await shop.there(shop.port.app.inbox.list())]
    return rows if len(rows) == 1 else None
