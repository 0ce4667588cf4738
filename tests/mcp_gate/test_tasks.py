"""A client that declares tasks looks at its held call, answers its questions and cancels it."""

from __future__ import annotations

from collections.abc import Iterator
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


async def test_a_task_ends_with_its_gate_and_the_call_that_is_repeated_joins_its_request(
    shop: Shop, tmp_path: Path
) -> None:
    done: list[str] = []
    path = tmp_path / "records.json"
    async with gate_of(shop, done, "auto", records=GateRecords(path)) as server, client_of(server) as client:
        task = await Looking(client).task({"wall": "west"})
        asked = await shop.pending()
    async with gate_of(shop, done, "auto", records=GateRecords(path)) as server, client_of(server) as client:
        looking = Looking(client)
        with pytest.raises(MCPError, match="call the tool again, and it joins its request"):
            await looking.status(task)
        again = await looking.task({"wall": "west"})
        row = await shop.decided("reject", message="Not the west.")
        made = (await looking.becomes(again, "completed"))["result"]
        assert "Not the west." in made["content"][0]["text"]
        assert (row.run, await none_pending(shop), done) == (asked.run, True, [])
