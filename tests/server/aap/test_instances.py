"""Instances of AAP: a provisioner adds agents whose receivers were verified, and a decision wakes them, once."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
import uvicorn

from keyturn import App, ExternalAgent, MemoryJournal, UserError
from keyturn.asks.webhooks import CallerWebhooks
from keyturn.audit.directory import faults_of
from keyturn.core.errors import NotAllowed
from keyturn.core.people import Decider
from keyturn.directory import events as ev
from keyturn.directory.events import written
from keyturn.directory.instances import instance_id
from keyturn.directory.login import Login
from keyturn.journal.rows import DeliveryQuery
from keyturn.testing import check
from tests.server.programs import Port
from tests.waiting import until

httpx = pytest.importorskip("httpx", reason="needs agentapprovalprotocol (requirements/dev.txt)")
aap = pytest.importorskip("agentapprovalprotocol", reason="needs agentapprovalprotocol (requirements/dev.txt)")
receiving = pytest.importorskip("agentapprovalprotocol.receiver", reason="needs agentapprovalprotocol")

SECRETS = {"/acme": receiving.new_secret(), "/umbrella": receiving.new_secret()}
NOWHERE = "http://127.0.0.1:1/hook"


class Desk:
    """A real server, and a provisioner of instances that asks it."""

    def __init__(self, port: Port) -> None:
        self.port, self.base = port, f"{port.url}/aap"
        for name in ("fleet", "other"):
            port.does(port.app.people.add(name, kind="machine", by="ada"))
        self.tokens: dict[str, str] = {
            name: port.does(port.app.people.issue_token(name, ["provision"], by="ada")) for name in ("fleet", "other")
        }

    async def there(self, made: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made, self.port.loop))

    async def send(self, method: str, path: str = "", who: str = "fleet", key: str = "", body: Any = None) -> Any:
        token = self.tokens.get(who, who)
        headers = {"authorization": f"Bearer {token}"} | ({"idempotency-key": key} if key else {})
        async with httpx.AsyncClient(timeout=60) as http:
            made = await http.request(method, f"{self.base}/v1/instances{path}", headers=headers, json=body)
        return made.status_code, (json.loads(made.text) if made.text else {})

    async def code(self, made: Any) -> tuple[int, str]:
        status, body = await made
        return status, body["error"]["code"]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Port(more=[ExternalAgent()], channels=[CallerWebhooks(loopback=True)]) as port:
        yield Desk(port)
        assert port.does(check(port.app.journal)).ok


@pytest.fixture(autouse=True)
async def clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    """Close what the SDK leaves open: its users close a client, and a receiver makes one for each provision."""
    made: list[Any] = []
    begin = aap.AsyncClient.__init__

    def noted(client: Any, *given: Any, **named: Any) -> None:
        begin(client, *given, **named)
        made.append(client)

    monkeypatch.setattr(aap.AsyncClient, "__init__", noted)
    yield
    for client in made:
        await client.aclose()


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[str]:
    """Serve the receiver of a harness on a port, and return its URL."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
        serving = asyncio.ensure_future(server.serve([listening]))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/aap/events"
        finally:
            server.should_exit = True
            await serving


class Harness:
    """A program that pauses its call, and that a webhook wakes: it asks the provider again, and runs what it allows."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.woken = 0
        self.receiver = receiving.Receiver(resumers={"core": self.resume})

    async def resume(self, handle: Any, request: Any) -> None:
        self.woken += 1
        verdict = await self.gate.check(self.call(handle["order"]))
        if isinstance(verdict, aap.Allow):
            self.ran.append(handle["order"])
            await verdict.report("succeeded")

    @property
    def gate(self) -> Any:
        return aap.AsyncGate(self.receiver.client, mode="async")

    def call(self, order: str) -> Any:
        resume = {"framework": "core", "order": order}
        return aap.Call(key=order, tool="pay", arguments={"order": order}, resume=resume)

    async def provision(self, desk: Desk, url: str, **more: Any) -> Any:
        token = desk.tokens["fleet"]
        return await self.receiver.provision(provider_url=desk.base, provisioner_token=token, url=url, **more)


async def test_a_decision_wakes_a_paused_program_over_a_real_webhook_and_its_call_runs_once(desk: Desk) -> None:
    harness = Harness()
    async with served(harness.receiver.asgi()) as url:
        made = await harness.provision(desk, url, instance_name="laptop")
        assert (made.instance_name, made.expires_at) == ("laptop", None)
        again = await harness.provision(desk, url, instance_name="laptop")
        assert (again.instance_id, again.token) == (made.instance_id, made.token)
        assert made.secret not in str(await desk.there(desk.port.app.people.entries()))
        for order, decide in (("a1", "approve"), ("a2", "reject")):
            paused = await harness.gate.check(harness.call(order))
            assert isinstance(paused, aap.Pending)
            [row] = await desk.there(desk.port.app.inbox.list())
            assert row.request.requester.startswith("fleet.")
            await desk.there(getattr(desk.port.app.inbox, decide)(row, by="ben"))
            await until(lambda: _delivered(desk))
        await until(lambda: harness.woken == 2 and harness.ran)
        assert harness.ran == ["a1"]
        await harness.receiver.wake(paused.request_id)
        assert harness.ran == ["a1"]


async def test_two_tenants_with_one_channel_and_instances_of_one_name_each_hear_at_their_own_receiver() -> None:
    """Each has looked up its receiver as the messages are sent."""
    journal, heard, under_way = MemoryJournal(), list[tuple[str, Any]](), asyncio.Barrier(2)

    class Channel(CallerWebhooks):
        async def send(self, message: Any) -> None:
            await under_way.wait()
            await super().send(message)

    channel = Channel(loopback=True)

    async def receiver(scope: Any, receive: Any, send: Any) -> None:
        text = (await receive())["body"]
        told = json.loads(text)
        if "challenge" not in told:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            receiving.verify(SECRETS[scope["path"]], headers, text)
            heard.append((scope["path"], told["request_id"]))
        body = json.dumps({"challenge": told.get("challenge")}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async with served(receiver) as url, AsyncExitStack() as opened:
        asked = list[tuple[Any, str]]()
        for path, secret in SECRETS.items():
            app = App([ExternalAgent()], journal.of(path[1:]), channels=[channel])
            await opened.enter_async_context(app)
            provisions = await _provisioned(app)
            client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi()), base_url="http://localhost")
            await opened.enter_async_context(client)
            hook = {"type": "webhook", "url": url.replace("/aap/events", path), "signing_secret": secret}
            body = {"delivery": hook | {"registration_id": str(uuid4())}}
            made = await client.post("/aap/v1/instances", json=body, headers=provisions)
            token = made.json()["credential"]["token"]
            call = {"key": "order-7", "tool": "pay"}
            state = await client.post("/v1/asks", json=call, headers={"authorization": f"Bearer {token}"})
            asked.append((app, state.json()["id"]))
        for app, id in asked:
            await app.wait(id, 30)
        rows = [(app, (await app.inbox.list(run=id))[0]) for app, id in asked]
        await asyncio.gather(*(app.inbox.reject(row, by="ben") for app, row in rows))
        await until(lambda: len(heard) == 2)
        assert sorted(heard) == sorted((path, str(UUID(hex=id))) for path, (_, id) in zip(SECRETS, asked, strict=True))


async def _provisioned(app: App) -> dict[str, str]:
    """Return the headers of a provisioner that submits an instance: of the same name in each app."""
    await app.people.start("ada")
    await app.people.add("cloud", kind="machine", by="ada")
    token = await app.people.issue_token("cloud", ["provision"], by="ada")
    return {"authorization": f"Bearer {token}", "idempotency-key": "laptop-7"}


async def _delivered(desk: Desk) -> bool:
    journal = desk.port.app.journal
    return not await desk.there(journal.outbox()) and not await desk.there(journal.deliveries(DeliveryQuery()))


async def test_a_receiver_that_does_not_echo_its_challenge_gets_no_instance(desk: Desk) -> None:
    before = await desk.there(desk.port.app.people.entries())
    harness, other = Harness(), Harness()
    async with served(harness.receiver.asgi()) as url:
        with pytest.raises(aap.WebhookVerificationFailed):  # a receiver that expects another registration
            await other.provision(desk, url)
    with pytest.raises(aap.WebhookVerificationFailed):  # and one that there is not
        await harness.provision(desk, NOWHERE)

    async def yes(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"challenge": "yes"}'})

    async with served(yes) as url:
        assert await desk.code(desk.send("POST", key="k", body=_delivery(url))) == (422, "webhook_verification_failed")
    for url in ("ftp://x/", "https://u:p@agent.example/", "https://[::1/"):
        sent = desk.send("POST", key="k", body=_delivery(url))
        assert await desk.code(sent) == (400, "invalid_webhook_url"), url
    other_kind = _delivery(NOWHERE)
    other_kind["delivery"]["type"] = "socket"
    assert await desk.code(desk.send("POST", key="k", body=other_kind)) == (400, "unsupported_delivery_type")
    bodies: list[Any] = [{"delivery": None, "x": 1}, {"instance_name": ""}, [], _delivery(NOWHERE, "whsec_c2hvcnQ=")]
    for wrong in bodies:
        assert (await desk.send("POST", key="k", body=wrong))[0] == 400, wrong
    assert await desk.there(desk.port.app.people.entries()) == before


def _delivery(url: str, secret: str = "") -> dict[str, Any]:
    told = {"type": "webhook", "url": url, "registration_id": str(uuid4())}
    return {"delivery": told | {"signing_secret": secret or receiving.new_secret()}}


async def test_an_instance_is_added_once_shown_to_its_provisioner_alone_and_its_token_asks_alone(desk: Desk) -> None:
    made = await asyncio.gather(*(desk.send("POST", key="i1", body={"instance_name": "one"}) for _ in range(3)))
    assert sorted(status for status, _ in made) == [200, 200, 201]
    [body] = {json.dumps(each, sort_keys=True) for _, each in made}
    instance, token = json.loads(body)["instance"], json.loads(body)["credential"]["token"]
    assert await desk.code(desk.send("POST", key="i1", body={})) == (409, "idempotency_conflict")
    assert await desk.send("GET", f"/{instance['id']}") == (200, {"id": instance["id"], "name": "one"})
    nobody = await desk.there(desk.port.app.people.issue_token("ada", ["people"], by="ada"))
    for who, status in (("other", 404), (token, 403), (nobody, 403), ("kt_no", 401)):
        for method in ("GET", "DELETE"):
            assert (await desk.send(method, f"/{instance['id']}", who))[0] == status, (who, method)
    client = aap.AsyncClient(desk.base, desk.tokens["fleet"])
    with pytest.raises(aap.AAPError):  # a provisioner requests no approval
        await client.create({"tool": "pay", "arguments": {}, "timeout": "10m"}, "k")
    status, body = await desk.send("PATCH", f"/{instance['id']}", key="u1", body={"instance_name": "two"})
    assert (status, body["name"]) == (200, "two")
    assert (await desk.send("PATCH", f"/{instance['id']}", key="u2", body={"instance_name": "three"}))[0] == 200
    status, body = await desk.send("PATCH", f"/{instance['id']}", key="u1", body={"instance_name": "two"})
    assert (status, body["name"]) == (200, "three")  # which is not overwritten
    renamed = desk.send("PATCH", f"/{instance['id']}", key="u1", body={"instance_name": "four"})
    assert await desk.code(renamed) == (409, "idempotency_conflict")


async def test_a_receiver_is_replaced_once_verified_and_an_instance_that_is_deleted_asks_and_hears_no_more(
    desk: Desk,
) -> None:
    first, second = Harness(), Harness()
    async with served(first.receiver.asgi()) as url, served(second.receiver.asgi()) as moved:
        made = await first.provision(desk, url)
        path = f"/{made.instance_id}"
        second.receiver.secret, second.receiver.registration_id = receiving.new_secret(), str(uuid4())
        second.receiver.client = first.receiver.client
        delivery = {
            "type": "webhook", "url": moved, "registration_id": second.receiver.registration_id,
            "signing_secret": second.receiver.secret,
        }  # fmt: skip
        wrong = {"instance_name": "moved", "delivery": delivery | {"registration_id": str(uuid4())}}
        assert await desk.code(desk.send("PATCH", path, key="m1", body=wrong)) == (422, "webhook_verification_failed")
        assert (await desk.send("GET", path))[1]["delivery"]["url"] == url
        status, body = await desk.send("PATCH", path, key="m1", body={"delivery": delivery})
        assert (status, body["delivery"]) == (200, {k: v for k, v in delivery.items() if k != "signing_secret"})
        await first.gate.check(first.call("b1"))
        [row] = await desk.there(desk.port.app.inbox.list())
        await desk.there(desk.port.app.inbox.approve(row, by="ben"))
        await until(lambda: second.ran == ["b1"])
        assert first.woken == 0

        await first.gate.check(first.call("b2"))
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {made.token}"}) as http:
            theirs = {"key": "k1", "tool": "pay", "requester": "ada"}  # by our own API, for another requester
            assert (await http.post(f"{desk.port.url}/v1/asks", json=theirs)).status_code == 200
        for _ in range(2):
            assert (await desk.send("DELETE", path))[0] == 204
        assert not await desk.there(desk.port.app.inbox.list())
        await until(lambda: _delivered(desk))
        assert (await desk.send("GET", path))[0] == 404
        assert (await desk.send("PATCH", path, key="m2", body={"instance_name": "back"}))[0] == 404
        with pytest.raises(aap.ProvisionError) as refused:
            await first.provision(desk, url)
        assert refused.value.code == "instance_deleted"
        denied = await aap.AsyncGate(aap.AsyncClient(desk.base, made.token)).check(first.call("b3"))
        assert isinstance(denied, aap.Deny)
        assert (first.woken, second.ran) == (0, ["b1"])


async def test_a_provisioner_hands_out_nothing_that_outlasts_its_token_and_changes_nothing_else(desk: Desk) -> None:
    people = desk.port.app.people
    await desk.there(people.add("brief", kind="machine", by="ada"))
    brief = await desk.there(people.issue_token("brief", ["provision"], by="ada", expires="1h"))
    status, body = await desk.send("POST", who=brief, key="i1", body={})
    assert (status, body["instance"]["name"].startswith("brief.")) == (201, True)
    assert body["credential"]["expires_at"].endswith("Z")
    await desk.there(people.add("fleet.own", kind="machine", by="ada"))  # which is no instance, whatever its name
    for method, key, more in (("DELETE", "", None), ("GET", "", None), ("PATCH", "u1", {"instance_name": "x"})):
        status, _ = await desk.send(method, f"/{instance_id('fleet.own')}", key=key, body=more)
        assert status == 404, method
    login = Login("fleet", ("provision",), desk.tokens["fleet"].split("_")[1])
    for refused in (
        people.add("eve", by=login),
        people.provision_instance(lambda _now: [ev.PersonAdded("eve")], by=Login("fleet", ("ask",))),
        people.provision_instance(lambda _now: [ev.PersonAdded("eve")], by=Login("ada", ("provision",))),
        people.issue_token("ada", ["provision"], by="ada"),
        people.issue_token("fleet", ["provision", "ask"], by="ada"),
    ):
        with pytest.raises((NotAllowed, UserError)):
            await desk.there(refused)


async def test_a_token_of_an_instance_is_of_no_use_in_another_tenant_that_has_one_of_the_same_name() -> None:
    journal, made = MemoryJournal(), list[tuple[Any, str]]()
    for tenant in ("acme", "umbrella"):
        app = App([ExternalAgent()], journal.of(tenant), worker=False)
        headers = await _provisioned(app)
        client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi()), base_url="http://localhost")
        path = "/aap/v1/instances"
        tokens = [(await client.post(path, json={}, headers=headers)).json()["credential"]["token"] for _ in range(2)]
        assert tokens[0] == tokens[1], "the same one each time"
        made.append((client, tokens[0]))
    for at, (client, _own) in enumerate(made):
        for whose, (_other, token) in enumerate(made):
            asked = await client.get("/v1/asks/none", headers={"authorization": f"Bearer {token}"})
            assert asked.status_code == (404 if at == whose else 401), (at, whose)
        await client.aclose()


def test_the_auditor_accepts_what_a_provisioner_may_make_and_nothing_else() -> None:
    made: list[ev.Entry] = [
        ev.Entry(1, Decider("ada"), [ev.PersonAdded("ada"), ev.RoleGiven("admin", "ada")]),
        ev.Entry(2, Decider("ada"), [ev.PersonAdded(name, kind="machine") for name in ("fleet", "fleet.own")]),
        ev.Entry(3, Decider("ada"), [ev.TokenIssued("t1", "fleet", "d", ("provision",))]),
        ev.Entry(4, Decider("fleet"), [
            ev.PersonAdded("fleet.1", kind="machine"), ev.SettingChanged("instance", {}, "fleet.1"),
            ev.TokenIssued("t2", "fleet.1", "d", ("ask",)),
        ]),
    ]  # fmt: skip
    faulty: list[list[Any]] = [
        [ev.PersonAdded("fleet.2")],
        [ev.PersonAdded("eve", kind="machine")],
        [ev.SettingChanged("other", 1, "fleet.1")],
        [ev.TokenIssued("t3", "fleet.1", "d", ("ask", "run"))],
        [ev.PersonRemoved("ada")],
        [ev.PersonRemoved("fleet.own")],
        [ev.SettingChanged("instance", {}, "fleet.own")],
        [ev.TokenIssued("t3", "fleet.own", "d", ("ask",))],
        [ev.SettingChanged("instance", None, "fleet.1")],
    ]
    assert not list(faults_of([written(entry) for entry in made]))
    for events in faulty:
        found = [*made, ev.Entry(5, Decider("fleet"), events)]
        assert list(faults_of([written(entry) for entry in found])), events
    revoked = ev.Entry(5, Decider("ada"), [ev.TokenRevoked("t1")])
    late = ev.Entry(6, Decider("fleet"), [ev.PersonRemoved("fleet.1")])
    assert list(faults_of([written(entry) for entry in (*made, revoked, late)]))
    assert not list(faults_of([written(entry) for entry in (*made, late)]))
