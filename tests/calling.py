"""The ways by which a call comes to be asked about, each as one row of the table of callers. No test is here.

A way calls `refund` as its programs do, and says what ran. What a way cannot do, and which test elsewhere proves a law
through it, is said in its row: a way that another room has tests for needs nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, ClassVar, NamedTuple

from mcp import Client
from mcp.server import MCPServer

from keyturn import Agent, Ask, ExternalAgent, function_tool
from keyturn.client.client import AsyncClient
from keyturn.core.errors import KeyturnError
from keyturn.engine.run.new_ids import new_id
from keyturn.gating import Gated
from keyturn.gating.errors import GatedCallError
from keyturn.hooks.hook import answered
from keyturn.hooks.hosts import host_named
from keyturn.hooks.server import AskServer
from keyturn.mcp_gate.changes import ListChanges
from keyturn.mcp_gate.exchanges import Exchanges
from keyturn.mcp_gate.holding import Holding
from keyturn.mcp_gate.permission_prompt import TOOL, prompt_server
from keyturn.mcp_gate.pins import Pins
from keyturn.mcp_gate.proxy import McpGate
from keyturn.mcp_gate.records import GateRecords
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.server.programs import Port
from tests.waiting import until_status

Arguments = dict[str, Any]
NOWHERE = "http://localhost:1"
WAIT = 30.0


class Outcome(NamedTuple):
    """What came of a call: the arguments that it ran with, None where it did not run; and what its caller was told."""

    ran: Arguments | None
    words: str = ""


class Place:
    """A server with an inbox, and a service account that asks there."""

    def __init__(self, port: Port) -> None:
        self.port, self.app = port, port.app
        self.ran: list[Arguments] = []
        port.does(port.app.people.add("caller", kind="machine", by="ada"))
        self.token: str = port.does(port.app.people.issue_token("caller", ["ask"], by="ada"))

    async def there(self, made: Any) -> Any:
        """Run a coroutine in the loop of the server."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made, self.port.loop))


class Way:
    """One way; `title` heads its column, and `needs` names a package that may be absent.

    `why_not` says of a law why it is none here, `proven` which test elsewhere has it.
    """

    title: ClassVar[str]
    edits: ClassVar[bool] = True
    needs: ClassVar[str] = "keyturn"
    why_not: ClassVar[Mapping[str, str]] = {}
    proven: ClassVar[Mapping[str, str]] = {}

    def __init__(self, place: Place, arguments: Arguments, server: str = "") -> None:
        self.place, self.arguments = place, arguments
        self.server = server or place.port.url
        self.name = new_id()  # of this call alone: `id()` is also that of an object that was there before

    async def call(self) -> Outcome:
        """Make the call as a program of this way does, wait, run it once it may, and say what ran."""
        raise NotImplementedError


class OwnAgent(Way):
    title = "Agents of an app"
    why_not: ClassVar[Mapping[str, str]] = {"unreachable": "is in the same process"}
    proven: ClassVar[Mapping[str, str]] = {
        "doubt": "tests/behaviour/test_in_doubt.py::test_a_process_that_died_inside_a_tool_leaves_the_call_in_doubt"
    }

    async def call(self) -> Outcome:
        run = await self.place.there(self.place.app.start("clerk", json.dumps(self.arguments)))
        made = await self.place.there(_finished(self.place, run.id))
        ran = self.place.ran[-1] if self.place.ran else None
        return Outcome(ran, str(made.final_output))


async def _finished(place: Place, run: str) -> Any:
    await until_status(place.app, run, "finished")
    return await place.app.result(run)


def clerk(ran: list[Arguments]) -> Agent[Any]:
    """Return an agent of the app that calls `refund` with the arguments in its input, and says what came of it."""

    @function_tool(needs_approval=True)
    def refund(order: str, amount: int) -> str:
        """Refund an order."""
        ran.append({"order": order, "amount": amount})
        return "refunded"

    def step(request: ModelRequest) -> Any:
        outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
        return str(outputs[-1]) if outputs else [function_call("refund", json.loads(str(request.input[0]["content"])))]

    return Agent("clerk", model=ScriptedModel(step), tools=[refund])


class GatedFunctionCall(Way):
    title = "`@gated`"
    proven: ClassVar[Mapping[str, str]] = {
        "doubt": "tests/gating/test_gated.py::"
        "test_a_process_that_dies_in_the_call_leaves_it_in_doubt_and_runs_it_no_second_time"
    }

    async def call(self) -> Outcome:
        gate = Gated(self.server, token=self.place.token)

        @gate
        def refund(order: str, amount: int) -> str:
            self.place.ran.append({"order": order, "amount": amount})
            return "refunded"

        try:
            words = await refund.aio(**self.arguments)
            return Outcome(self.place.ran[-1], words)
        except (GatedCallError, KeyturnError) as error:
            return Outcome(None, str(error))
        finally:
            await asyncio.to_thread(gate.close)


class Api(Way):
    title = "`/v1/asks`"
    proven: ClassVar[Mapping[str, str]] = {
        "doubt": "tests/asks/test_asks.py::"
        "test_a_caller_that_does_not_report_leaves_the_call_in_doubt_and_a_person_says_what_became_of_it"
    }

    async def call(self) -> Outcome:
        async with AsyncClient(self.server, self.place.token) as client:
            try:
                asked = Ask(key=self.name, tool="refund", arguments=json.dumps(self.arguments))
                state = await client.asks.wait((await client.asks.ask(asked)).id, WAIT)
                if state.status != "approved":
                    return Outcome(None, state.note or state.status)
                claim = await client.asks.claim(state.id, state.digest, "caller")
                self.place.ran.append(json.loads(claim.arguments))
                await client.asks.report(state.id, "caller", "succeeded")
                return Outcome(self.place.ran[-1])
            except KeyturnError as error:
                return Outcome(None, str(error))


class Aap(Way):
    title = "Agent Approval Protocol"
    edits = False
    needs = "agentapprovalprotocol"
    proven: ClassVar[Mapping[str, str]] = {
        "doubt": "tests/server/aap/test_requests.py::"
        "test_a_call_that_was_consumed_and_is_not_reported_is_in_doubt_and_is_consumed_by_no_other_key"
    }

    async def call(self) -> Outcome:
        from agentapprovalprotocol import Allow, AsyncClient, AsyncGate, Call

        patience = 1.0 if self.server == NOWHERE else WAIT
        async with aclosing(AsyncClient(f"{self.server}/aap", self.place.token)) as client:
            gate = AsyncGate(client, wait_limit=patience)
            verdict = await gate.check(Call(key=self.name, tool="refund", arguments=self.arguments))
            if not isinstance(verdict, Allow):
                return Outcome(None, verdict.reason)
            self.place.ran.append(self.arguments)
            await verdict.report("succeeded")
            return Outcome(self.place.ran[-1])


class Gate(Way):
    title = "`keyturn gate`"
    proven: ClassVar[Mapping[str, str]] = {
        "doubt": "tests/mcp_gate/test_gate.py::test_a_server_that_dies_after_the_claim_leaves_the_call_in_doubt"
    }

    async def call(self) -> Outcome:
        up = MCPServer("shop")

        @up.tool()
        def refund(order: str, amount: int) -> str:
            self.place.ran.append({"order": order, "amount": amount})
            return "refunded"

        async with AsyncClient(self.server, self.place.token) as keyturn, Client(up) as behind:
            gate = McpGate(behind, Exchanges(), ListChanges(), Pins(GateRecords()), Holding(keyturn.asks, WAIT))
            await gate.begin()
            async with Client(gate.server()) as client:
                made: Any = await client.call_tool("refund", self.arguments)
            return Outcome(None if made.is_error else self.place.ran[-1], made.content[0].text)


class Hook(Way):
    host: ClassVar[str]
    event: ClassVar[str] = "PreToolUse"
    why_not: ClassVar[Mapping[str, str]] = {"doubt": "releases the call; the agent reports no outcome"}

    async def call(self) -> Outcome:
        sent = {
            "hook_event_name": self.event, "session_id": "s1", "cwd": "/srv", "tool_name": "refund",
            "tool_input": self.arguments, "tool_use_id": self.name, "timestamp": self.name,
        }  # fmt: skip
        server = AskServer(self.server, self.place.token)
        host = host_named(self.host)
        made = await asyncio.to_thread(answered, host, json.dumps(sent), server, WAIT, signals=False)
        server.close()
        return self._read(made.stdout)

    def _read(self, text: str) -> Outcome:
        """Read an answer as the agent does."""
        answer = json.loads(text or "{}")
        own = answer.get("hookSpecificOutput", {})
        if "deny" in (answer.get("decision"), own.get("permissionDecision")):
            return Outcome(None, own.get("permissionDecisionReason") or answer.get("reason"))
        self.place.ran.append(own.get("updatedInput") or own.get("tool_input") or self.arguments)
        return Outcome(self.place.ran[-1])


class ClaudeCode(Hook):
    title = "Hook of Claude Code"
    host = "claude-code"


class Codex(Hook):
    title = "Hook of Codex CLI"
    host = "codex"


class Gemini(Hook):
    title = "Hook of Gemini CLI"
    host, event = "gemini", "BeforeTool"


class PermissionPrompt(Way):
    title = "Permission prompt of Claude Code"
    why_not: ClassVar[Mapping[str, str]] = Hook.why_not

    async def call(self) -> Outcome:
        served = prompt_server(lambda: AskServer(self.server, self.place.token), WAIT)
        sent = {"tool_name": "refund", "input": self.arguments, "tool_use_id": self.name}
        async with Client(served) as client:
            made: Any = await client.call_tool(TOOL, sent)
        answer = json.loads(made.content[0].text)
        if answer["behavior"] == "deny":
            return Outcome(None, answer["message"])
        self.place.ran.append(answer["updatedInput"])
        return Outcome(self.place.ran[-1])


class LangGraph(Way):
    title = "LangGraph mirror"
    needs = "langgraph"
    proven: ClassVar[Mapping[str, str]] = {
        "doubt": "tests/langgraph/test_mirror.py::"
        "test_a_process_that_dies_after_its_claim_leaves_the_calls_in_doubt_and_nothing_is_resumed"
    }

    async def call(self) -> Outcome:
        from keyturn.langgraph import Mirror
        from tests.langgraph.programs import GO, of, refunding, resumed

        graph, thread = refunding(self.place.ran, self.arguments), self.name
        await graph.ainvoke(GO, of(thread))
        try:
            async with Mirror(graph, self.server, token=self.place.token) as mirror:
                await mirror.ask(thread)
                made = await resumed(lambda: mirror.resume(thread))
        except KeyturnError as error:
            return Outcome(None, str(error))
        words = [message.content for message in made["messages"] if message.type == "tool"]
        return Outcome(self.place.ran[-1] if self.place.ran else None, str(words[-1]))


#: A row for each way; one that is tested elsewhere says so in `proven`.
WAYS: tuple[type[Way], ...] = (
    OwnAgent,
    GatedFunctionCall,
    Api,
    Aap,
    Gate,
    ClaudeCode,
    Codex,
    Gemini,
    PermissionPrompt,
    LangGraph,
)


def agents_of(ran: list[Arguments]) -> list[Agent[Any]]:
    """Return the agents of an app for all ways."""
    return [ExternalAgent(), clerk(ran)]
