"""AAP (the Agent Approval Protocol): its own client asks here, and what it runs was approved, once, to the byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from keyturn import App, ExternalAgent, NotAllowed, UserError
from keyturn.policies.rules import Policy, allow, ask, deny
from keyturn.server.settings import ServerSettings
from keyturn.testing import check
from tests.server.programs import peopled
from tests.waiting import until

httpx = pytest.importorskip("httpx", reason="needs agentapprovalprotocol (requirements/dev.txt)")
aap = pytest.importorskip("agentapprovalprotocol", reason="needs agentapprovalprotocol (requirements/dev.txt)")

BASE = "http://localhost/aap"
#: As an adapter may write it: spaces, a number that no float prints alike, a field of a later version.
RAW = (
    '{ "tool":"pay", "arguments" : {"order": "A1",  "amount":5.00, "big":123456789012345678901234567890},'
    ' "timeout":"10m", "server":"bank", "agent_reasoning":"It is due.", "later": [1.50, "x"],'
    ' "context":{"framework":"openai-agents","exact":0.30000000000000004999,"resume":{"run_id":"r1"}} }'
)


@dataclass
class Bank:
    """An app whose server is asked by two instances, and people who decide."""

    app: App
    transport: Any
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def send(self, method: str, path: str, who: str = "ci", **more: Any) -> Any:
        headers = {"authorization": f"Bearer {self.tokens[who]}", "content-type": "application/json"}
        async with httpx.AsyncClient(transport=self.transport) as http:
            made = await http.request(method, f"{BASE}/v1{path}", headers=headers | more.pop("headers", {}), **more)
        if made.status_code >= 400 and made.status_code != 413:  # which the server says before it looks for a route
            assert made.json()["error"]["request_id"] == made.headers["x-request-id"]
        return made

    async def create(self, key: str = "k1", who: str = "ci", raw: Any = RAW, **change: Any) -> Any:
        content = json.dumps(json.loads(raw) | change) if change else raw
        return await self.send("POST", "/requests", who, content=content, headers={"idempotency-key": key})

    async def consume(self, id: str, key: str = "c1", who: str = "ci") -> Any:
        return await self.send("POST", f"/requests/{id}/consume", who, headers={"idempotency-key": key})

    async def outcome(self, id: str, body: Any, who: str = "ci") -> Any:
        return await self.send("POST", f"/requests/{id}/outcome", who, json=body)

    async def code(self, made: Any) -> tuple[int, str]:
        answered = await made
        return answered.status_code, answered.json()["error"]["code"]

    async def row(self, id: str) -> Any:
        [row] = await self.app.inbox.list(run=id.replace("-", ""))
        return row

    async def approve(self, id: str, **words: Any) -> None:
        await self.app.inbox.approve(await self.row(id), by="ben", **words)

    def gate(self, who: str = "ci", **options: Any) -> Any:
        client = aap.AsyncClient(BASE, self.tokens[who], http=httpx.AsyncClient(transport=self.transport))
        return aap.AsyncGate(client, **options)


@asynccontextmanager
async def bank(journal: Any = "memory://", policy: Any = None, **settings: Any) -> AsyncGenerator[Bank]:
    async with App([ExternalAgent()], journal, policy) as app:
        if not (await app.people.directory()).place:
            await peopled(app)
            for name in ("ci", "cd"):
                await app.people.add(name, kind="machine", by="ada")
        made = Bank(app, httpx.ASGITransport(app=app.asgi(ServerSettings(**settings))))
        for name in ("ci", "cd"):
            made.tokens[name] = await app.people.issue_token(name, ["ask"], by="ada")
        made.tokens["reads"] = await app.people.issue_token("ci", ["read"], by="ada")
        made.tokens["none"] = "kt_no_token"
        yield made
        assert (await check(app.journal)).ok


def call(key: str = "r1:c1", **more: Any) -> Any:
    return aap.Call(**{"key": key, "tool": "pay", "arguments": {"order": "A1", "amount": 5.0}, "server": "bank"} | more)


async def decided_when_asked(bank: Bank, verdict: str = "approve", **words: Any) -> None:
    """Decide the next request as soon as there is one."""
    await until(lambda: _any(bank))
    [row] = await bank.app.inbox.list()
    await getattr(bank.app.inbox, verdict)(row, by="ben", **words)


async def _any(bank: Bank) -> bool:
    return bool(await bank.app.inbox.list())


async def test_their_gate_allows_what_was_approved_once_and_gets_every_other_end_in_their_words() -> None:
    async with bank() as desk:
        gate = desk.gate()
        checking = asyncio.ensure_future(gate.check(call()))
        await decided_when_asked(desk)
        allowed = await checking
        assert isinstance(allowed, aap.Allow)
        assert await allowed.report("succeeded", "paid")
        again = await gate.check(call())
        assert (again.status, again.request_id) == ("consumed", allowed.request_id)

        for verdict, words, status, reason in (
            ("reject", {"message": "Ask Ann first."}, "denied", "Denied by ben. Ask Ann first."),
            ("answer", {"output": {"paid": 3}}, "denied", 'Use this as its result: {"paid":3}'),
        ):
            checking = asyncio.ensure_future(gate.check(call(verdict)))
            await decided_when_asked(desk, verdict, **words)
            denied = await checking
            assert denied.status == status
            assert reason in denied.reason

        expired = await desk.gate(timeout="1s").check(call("expires"))
        assert expired.status == "expired"
        await until(lambda: _has_status(desk, expired.request_id, "expired"))  # by its own clock: no one withdrew it
        given_up = await desk.gate(wait_limit=0.2).check(call("gives up"))
        assert given_up.status == "expired"
        shown = json.loads((await desk.send("GET", f"/requests/{given_up.request_id}")).text)
        assert shown["status"] == shown["decision"]["status"] == "cancelled"


async def test_a_request_is_given_back_as_it_was_received_number_by_number() -> None:
    async with bank() as desk:
        made = await desk.create()
        assert made.status_code == 201
        told = made.text
        for part in (
            '"amount":5.00, "big":123456789012345678901234567890',
            '"later":[1.50, "x"]',
            "0.30000000000000004999",
        ):
            assert part in told
        shown = made.json()
        assert shown["status"] == "pending"
        assert made.headers["link"].startswith(f"<http://localhost/requests/{(await desk.row(shown['id'])).id}>")
        spaced = '{"timeout":"10m",' + RAW[1:].replace('"timeout":"10m", ', "").replace("{", "{\n  ")
        again = await desk.create(raw=spaced)
        assert (again.status_code, again.json()["id"]) == (200, shown["id"])
        assert await desk.code(desk.create(arguments={"order": "A2"})) == (409, "idempotency_conflict")
        assert await desk.code(desk.create(timeout="11m")) == (409, "idempotency_conflict")
        assert (await desk.create(who="cd")).json()["id"] != shown["id"]
        row = await desk.row(shown["id"])
        assert row.request.params["amount"] == 5.0
        with pytest.raises((UserError, NotAllowed)):  # an edit cannot travel: it is not offered
            await desk.app.inbox.approve(row, by="ben", edit={"order": "A1", "amount": 4})


async def test_an_approval_is_consumed_by_one_key_and_reported_once() -> None:
    async with bank() as desk:
        id = (await desk.create()).json()["id"]
        assert await desk.code(desk.consume(id)) == (409, "not_approved")
        assert await desk.code(desk.outcome(id, {"status": "failed"})) == (409, "not_consumed")
        waiting = asyncio.ensure_future(desk.send("GET", f"/requests/{id}?wait=25s"))
        await desk.approve(id, undo="300ms")
        assert (await desk.send("GET", f"/requests/{id}")).json()["status"] == "pending"  # it can be undone still
        decision = (await waiting).json()["decision"]
        assert (decision["status"], decision["note"]) == ("approved", "Approved by ben.")
        assert decision["decided_at"] < decision["expires_at"]
        assert await desk.code(desk.send("DELETE", f"/requests/{id}")) == (409, "already_terminal")
        made = await asyncio.gather(*(desk.consume(id, f"c{number}") for number in range(4)))
        [won] = [number for number, each in enumerate(made) if each.status_code == 200]
        lost = {each.json()["error"]["code"] for number, each in enumerate(made) if number != won}
        assert lost == {"already_consumed"}
        assert (await desk.consume(id, f"c{won}")).text == made[won].text
        reported = await desk.outcome(id, {"status": "failed", "note": "no money"})
        assert reported.json()["consumption"]["outcome"]["note"] == "no money"
        assert (await desk.outcome(id, {"status": "failed", "note": "no money"})).text == reported.text
        assert await desk.code(desk.outcome(id, {"status": "succeeded"})) == (409, "outcome_conflict")
        assert (await desk.consume(id, f"c{won}")).status_code == 200
        state = await desk.app.asks.get(id.replace("-", ""), account="ci")
        assert (state.status, state.result) == ("failed", "no money")


async def test_a_policy_decides_at_once_and_one_that_became_stricter_stops_a_consume() -> None:
    policy = Policy(allow(tool="pay"), deny(tool="wipe", reason="Never."))
    async with bank(policy=policy) as desk:
        paid = (await desk.create()).json()
        assert (paid["status"], paid["decision"]["note"]) == ("approved", "Approved by policy.")
        assert (await desk.consume(paid["id"])).status_code == 200
        denied = (await desk.create("k2", tool="wipe")).json()["decision"]
        assert denied["note"].startswith("Denied by policy.")
        later = (await desk.create("k3")).json()["id"]
        desk.app.policy = Policy(ask(tool="pay"))
        assert await desk.code(desk.consume(later)) == (409, "approval_expired")
        assert (await desk.send("GET", f"/requests/{later}")).json()["status"] == "approved"  # as it was told
        assert not await desk.app.inbox.list()  # and no one is asked for what no one would run


async def test_an_approval_that_is_not_consumed_in_time_ends_and_no_one_is_asked_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("keyturn.server.aap.wire.EXECUTE_BY", "400ms")
    async with bank(policy=Policy(allow(tool="read"))) as desk:
        for key, change in (("k1", {}), ("k2", {"tool": "read"})):
            await _ends(desk, key, change)


async def _ends(desk: Bank, key: str, change: Any) -> None:
    id = (await desk.create(key, **change)).json()["id"]
    if not change:
        await desk.approve(id)
    approved = (await desk.send("GET", f"/requests/{id}?wait=25s")).json()
    assert approved["status"] == "approved"
    await until(lambda: _has_status(desk, id, "expired"))
    assert await desk.code(desk.consume(id)) == (409, "approval_expired")
    assert (await desk.send("GET", f"/requests/{id}")).json() == approved
    assert not await desk.app.inbox.list()


async def _has_status(desk: Bank, id: str, status: str) -> bool:
    return (await desk.app.asks.get(id.replace("-", ""), account="ci")).status == status


async def test_a_cancelled_request_is_cancelled_once_and_another_account_sees_none() -> None:
    async with bank() as desk:
        id = (await desk.create()).json()["id"]
        failed = {"status": "failed"}
        paths: list[Any] = [("GET", "", None), ("DELETE", "", None)]
        paths += [("POST", "/outcome", failed), ("POST", "/consume", None)]
        for method, path, body in paths:
            more = {"headers": {"idempotency-key": "x"}, "json": body}
            made = await desk.send(method, f"/requests/{id}{path}", "cd", **more)
            assert (made.status_code, made.json()["error"]["code"]) == (404, "not_found")
            assert made.json()["error"]["message"] == "there is no such request"
        cancelled = await desk.send("DELETE", f"/requests/{id}")
        assert cancelled.json()["status"] == "cancelled"
        assert (await desk.send("DELETE", f"/requests/{id}")).text == cancelled.text
        assert await desk.code(desk.consume(id)) == (409, "not_approved")
        assert (await desk.create()).json()["status"] == "cancelled"


@pytest.mark.trial
async def test_a_second_process_and_a_restart_answer_as_the_first_one(tmp_path: Any) -> None:
    journal = f"sqlite:///{tmp_path}/approvals.db"
    async with bank(journal) as desk:
        id = (await desk.create()).json()["id"]
        pending = await desk.gate(mode="async").check(call("paused"))
        assert isinstance(pending, aap.Pending)
        await desk.approve(pending.request_id)
    async with bank(journal) as desk, bank(journal) as other:
        assert (await other.create()).json()["id"] == id
        found = await asyncio.gather(*(each.gate(mode="async").check(call("paused")) for each in (desk, other, desk)))
        assert sorted(type(each).__name__ for each in found) == ["Allow", "Deny", "Deny"]


async def test_a_call_that_was_consumed_and_is_not_reported_is_in_doubt_and_is_consumed_by_no_other_key(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("keyturn.server.aap.requests.LASTS", "300ms")
    async with bank() as desk:
        id = (await desk.create()).json()["id"]
        await desk.approve(id)
        assert (await desk.send("GET", f"/requests/{id}?wait=25s")).json()["status"] == "approved"
        await desk.consume(id)  # whose answer may come when its claim has ended already
        await until(lambda: _any(desk))
        row = await desk.row(id)
        assert row.kind == "in_doubt"
        assert await desk.code(desk.consume(id, "another")) == (409, "already_consumed")
        shown = (await desk.send("GET", f"/requests/{id}")).json()
        assert (shown["status"], "outcome" in shown["consumption"]) == ("approved", False)
        await desk.app.inbox.resolve(row, "did_not_run", by="ben")
        assert await desk.code(desk.consume(id, "another")) == (409, "already_consumed")


async def test_an_account_has_so_many_open_requests_and_no_more_by_either_way() -> None:
    async with bank(open_asks=3) as desk:
        ids = [(await desk.create(f"k{number}")).json()["id"] for number in range(2)]
        body = json.dumps({"key": "o1", "tool": "pay"})
        bearer = {"authorization": f"Bearer {desk.tokens['ci']}", "content-type": "application/json"}
        async with httpx.AsyncClient(transport=desk.transport, headers=bearer) as http:
            for status in (200, 200):  # the second time it is the same request
                assert (await http.post("http://localhost/v1/asks", content=body)).status_code == status
            refused = await http.post("http://localhost/v1/asks", content=body.replace("o1", "o2"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        assert "this account has 3 open requests" in refused.json()["error"]["message"]
        made = await desk.create("k2")
        assert (made.status_code, made.json()["error"]["type"]) == (429, "rate_limit")
        assert (await desk.create("k0")).status_code == 200
        assert (await desk.create(who="cd")).status_code == 201
        await desk.send("DELETE", f"/requests/{ids[0]}")
        assert (await desk.create("k2")).status_code == 201


async def test_what_is_hostile_is_refused_in_their_form_and_asks_no_one() -> None:
    deep = "[" * 100 + "]" * 100
    hostile = {
        "not json": "{",
        "twice": RAW.replace('"timeout"', '"tool"'),
        "arguments are a list": RAW.replace('{"order"', '[{"order"').replace('890}', '890}]'),
        "too deep": RAW.replace('"A1"', deep),
        "nan": RAW.replace("5.00", "NaN"),
        "rounded": RAW.replace("5.00", "5.0000000000000000000001"),
        "null": RAW.replace('"bank"', "null"),
        "timeout": RAW.replace('"10m"', '"0m"'),
        "timeout for ever": RAW.replace('"10m"', '"99999999h"'),
        "the provider's own": RAW.replace('"later"', '"decision"'),
        "nul": RAW.replace('"pay"', '"p\\u0000y"'),
        "surrogate": RAW.replace('"A1"', '"\\ud800"'),
        "no tool": RAW.replace('"pay"', '""'),
        "list": "[]",
    }  # fmt: skip
    async with bank(body_limit=100_000) as desk:
        for what, raw in hostile.items():
            made = await desk.create(what.replace(" ", "-"), raw=raw)
            assert (made.status_code, made.json()["error"]["type"]) == (400, "invalid_request"), what
        assert (await desk.create(raw=RAW.replace('"A1"', f'"{"x" * 200_000}"'))).status_code == 413
        assert (await desk.send("POST", "/requests", content=RAW)).json()["error"]["param"] == "Idempotency-Key"
        for who, status in (("none", 401), ("reads", 403)):
            assert (await desk.create(who=who)).status_code == status
        id = (await desk.create()).json()["id"]
        for path in ("/requests/..%2Fx", f"/requests/{id.replace('-', '')}", f"/requests/{id[:-1]}z", "/nothing"):
            assert (await desk.send("GET", path)).status_code == 404
        assert (await desk.send("GET", f"/requests/{id}?wait=1")).status_code == 400
        assert (await desk.send("PUT", f"/requests/{id}")).status_code == 405
        ours = (await desk.app.asks.ask(_forged(id), account="ci")).id
        assert (
            await desk.send("GET", f"/requests/{ours[:8]}-{ours[8:12]}-{ours[12:16]}-{ours[16:20]}-{ours[20:]}")
        ).status_code == 404
        assert len(await desk.app.inbox.list()) <= 2


def _forged(id: str) -> Any:
    from keyturn import Ask

    return Ask(key=f"aap {id}", tool="pay", context={"aap": {"timeout": "for ever"}})
