"""A session is its first requester's: nobody else reads it, or runs under what was granted in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from keyturn import Agent, App, Grant, MemorySession, RunConfig, function_tool
from keyturn.audit.checker import check
from keyturn.core.errors import NotPending
from keyturn.engine.session.owner import AGENT
from keyturn.journal.retention import ended_before
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.server.programs import HOST


class Desk:
    """An app whose sessions are kept in this process, and whose agent pays in every run, then says what it knows."""

    def __init__(self, journal: Any, **config: Any) -> None:
        self.kept: dict[str, MemorySession] = {}
        self.paid: list[int] = []
        self.heard: list[str] = []

        @function_tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        def says(request: ModelRequest) -> Any:
            self.heard.append(str(request.input))
            own = [item for item in request.input if item.get("role") == "user"]
            done = len(tool_outputs(request)) >= len(own)
            return "Done." if done else [function_call("pay", {"amount": 5})]

        agent = Agent("desk", model=ScriptedModel(says), tools=[pay])
        self.app = App([agent], journal, sessions=self.session, run_config=RunConfig(**config))

    def session(self, name: str) -> MemorySession:
        return self.kept.setdefault(name, MemorySession(name))


@asynccontextmanager
async def desk(journal: Any = "memory://", **config: Any) -> AsyncGenerator[tuple[Desk, Any]]:
    made = Desk(journal, **config)
    async with made.app as app:
        people = app.people
        await people.start("ada")
        for person in ("cyd", "eve"):
            await people.add(person, by="ada")
        await people.add("bot", kind="machine", by="ada")
        tokens = {
            name: await people.issue_token(name, ["run", "read"], by="ada") for name in ("ada", "cyd", "eve", "bot")
        }
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi()), base_url=HOST) as http:

            async def start(who: str, session: str, text: str = "Go.", **more: Any) -> Any:
                body = {"agent": "desk", "input": text, "session_id": session, **more}
                shown = {"authorization": f"Bearer {tokens[who]}"}
                return await http.post("/v1/runs", json=body, headers=shown)

            yield made, start


async def test_a_session_is_its_first_requesters_and_is_not_there_for_another() -> None:
    async with desk() as (at, start):
        first = await start("cyd", "s1", "My number is 4929.")
        assert first.status_code == 200
        await at.app.wait(first.json()["run"], 20)
        for who, more in (("eve", {}), ("bot", {"requester": "eve"}), ("ada", {}), ("bot", {})):
            made = await start(who, "s1", "What is the number?", **more)
            assert made.status_code == 404, (who, made.text)
            assert made.json()["error"]["kind"] == "missing"
            assert "cyd" not in made.text
        assert not any("What is the number" in each for each in at.heard)
        assert (await start("cyd", "s1", "And now?")).status_code == 200
        assert (await start("bot", "s1", "And now?", requester="cyd")).status_code == 200
        assert (await start("eve", "s2")).status_code == 200


async def test_what_was_granted_in_a_session_is_good_for_its_owner_alone() -> None:
    async with desk() as (at, start):
        run = (await start("cyd", "s1")).json()["run"]
        await at.app.wait(run, 20)
        [row] = await at.app.inbox.list()
        await at.app.inbox.approve(row, by="ada", grant=Grant(scope="session"))
        await at.app.result(run, 20)
        again = (await start("cyd", "s1")).json()["run"]
        await at.app.result(again, 20)
        assert at.paid == [5, 5]
        for who, more in (("eve", {}), ("bot", {}), ("bot", {"requester": "eve"})):
            assert (await start(who, "s1", **more)).status_code == 404
        assert at.paid == [5, 5]


async def test_of_two_who_come_to_a_new_session_at_once_one_owns_it() -> None:
    async with desk() as (_at, start):
        made = await asyncio.gather(*(start(who, "s1") for who in ("cyd", "eve") * 4))
        statuses = [each.status_code for each in made]
        assert sorted(statuses) in ([200] * 4 + [404] * 4,)
        assert len(set(statuses[::2])) == 1


async def test_a_session_from_before_is_taken_by_the_program_or_an_administrator_and_by_nobody_else() -> None:
    async with desk() as (at, start):
        for name in ("old", "other"):
            await at.session(name).add_items([{"role": "user", "content": "My number is 4929."}])
        for who, more in (("eve", {}), ("bot", {"requester": "eve"}), ("cyd", {})):
            assert (await start(who, "old", **more)).status_code == 404
        await at.app.start("desk", "Go.", session_id="old", requester="cyd")
        assert (await start("eve", "old")).status_code == 404
        assert (await start("cyd", "old")).status_code == 200
        assert (await start("ada", "other")).status_code == 200
        assert (await start("cyd", "other")).status_code == 404
        with pytest.raises(NotPending, match="no session 'old' of this requester"):
            await at.app.start("desk", "Go.", session_id="old", requester="eve")
        assert (await at.app.start("desk", "Go.", session_id="old")).id  # the program for nobody: it is its own word


async def test_an_owner_is_on_record_for_every_process_and_is_never_erased() -> None:
    async with desk(paused_session="queue") as (at, start):
        run = (await start("cyd", "s1")).json()["run"]
        await at.app.wait(run, 20)
        queued = (await start("cyd", "s1")).json()["run"]
        assert (await at.app.get(queued)).status == "queued"
        assert (await start("eve", "s1")).status_code == 404
        [row] = await at.app.runs(agent=AGENT)
        assert (row.status, row.run[:8]) == ("finished", "session-")
        assert row.run not in await ended_before(at.app.journal, 1 << 60)
        assert not [each for each in (await check(at.app.journal)).violations if each.run == row.run]
        other = Desk(at.app.journal)
        with pytest.raises(NotPending):
            await other.app.start("desk", "Go.", session_id="s1", requester="eve")
