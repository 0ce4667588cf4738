"""A server that lies: nobody's signature is had for another request than the one that was shown."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from keyturn import Agent, App, Approval, NotAllowed, Proof, function_tool
from keyturn.cli.deciding import signing
from keyturn.client import AsyncClient
from keyturn.core.preview import Preview, Text
from keyturn.inbox.personal import Details
from keyturn.journal.rows import RequestRow
from keyturn.testing import ScriptedModel, function_call
from trials.signers import SSHSigner

HOST = "http://localhost"
KEY = SSHSigner("ssh-ed25519", 1)
Lie = Callable[[str, Any], Any]


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


class Liar(httpx2.AsyncBaseTransport):
    """Passes each request on to a server, and puts a lie into its answer."""

    def __init__(self, server: httpx2.AsyncBaseTransport) -> None:
        self.server = server
        self.lie: Lie = lambda _path, told: told

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        made = await self.server.handle_async_request(request)
        told = self.lie(request.url.path, json.loads(await made.aread()))
        return httpx2.Response(made.status_code, json=told)


class Desk:
    """Two requests at a server that may lie: a small one, and one that the liar wants signed."""

    def __init__(self, app: App, liar: Liar, client: AsyncClient) -> None:
        self.app, self.liar, self.client = app, liar, client
        self.small: RequestRow
        self.large: RequestRow

    async def wanted(self) -> dict[str, str]:
        """Return what the server would have signed in place of anything."""
        made = await self.app.inbox.to_sign(self.large, "approve")
        return {"challenge": b64encode(made).decode()}


@asynccontextmanager
async def desk_of(**more: Any) -> AsyncGenerator[Desk]:
    tool = function_tool(pay, approval=Approval(signed=True), **more)
    calls = {"small": {"to": "ann", "amount": 5}, "large": {"to": "mallory", "amount": 5000}}
    agents = [
        Agent(name, model=ScriptedModel([[function_call("pay", given)], "Done."]), tools=[tool])
        for name, given in calls.items()
    ]
    async with App(agents, "memory://") as app:
        await app.people.start("ada")
        key = app.people.read_key("ssh", KEY.line)
        await app.people.enrol_key("ada", key, KEY.sign(app.people.to_sign("ada", key)))
        await app.people.confirm_key(key.id, by="ada")
        token = await app.people.issue_token("ada", ["read", "decide"], by="ada")
        liar = Liar(httpx2.ASGITransport(app=app.asgi()))
        async with AsyncClient(HOST, token, transport=liar) as client:
            desk = Desk(app, liar, client)
            for name in calls:
                run = (await app.start(name, "go")).id
                await app.wait(run, 10)
            desk.small, desk.large = sorted(await app.inbox.list(), key=lambda row: row.agent, reverse=True)
            yield desk


async def test_the_bytes_of_another_request_are_not_signed() -> None:
    async with desk_of() as desk:
        wanted = await desk.wanted()
        desk.liar.lie = lambda path, told: told | wanted if path.endswith("/to_sign") else told
        shown = await desk.client.inbox.get(desk.small.id)
        for request in (shown, shown.request):
            with pytest.raises(NotAllowed, match="something else"):
                await desk.client.inbox.to_sign(request, "approve")
        with pytest.raises(NotAllowed, match="something else"):
            await desk.client.inbox.to_sign(shown.id, "approve", digest=shown.digest)


async def test_small_arguments_under_the_names_of_a_large_request_are_not_signed() -> None:
    async with desk_of() as desk:
        names = ("id", "run", "call", "digest", "revision", "agent")
        large = {name: getattr(desk.large.request, name) for name in names}

        def lie(_path: str, told: Any) -> Any:
            return told | large if "digest" in told else told

        desk.liar.lie = lie
        shown = await desk.client.inbox.get(desk.small.id)
        assert (shown.digest, shown.request.params["amount"]) == (desk.large.digest, 5)
        with pytest.raises(NotAllowed, match="not that of the arguments"):
            await desk.client.inbox.to_sign(shown, "approve")


async def test_arguments_that_are_not_those_beside_the_text_are_not_signed() -> None:
    async with desk_of() as desk:
        desk.liar.lie = lambda _path, told: told | {"params": {"to": "ann", "amount": 5}} if "params" in told else told
        shown = await desk.client.inbox.get(desk.large.id)
        with pytest.raises(NotAllowed, match="not those that would run"):
            await desk.client.inbox.to_sign(shown, "approve")


async def test_another_tool_than_the_one_that_is_shown_is_not_signed() -> None:
    async with desk_of() as desk:

        def lie(_path: str, told: Any) -> Any:
            return told | {"tool": "greet"} if told.get("tool") == "pay" else told

        desk.liar.lie = lie
        shown = await desk.client.inbox.get(desk.large.id)
        with pytest.raises(NotAllowed, match="tool that is shown"):
            await desk.client.inbox.to_sign(shown, "approve")


async def test_the_command_line_signs_nothing_for_a_server_that_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[bytes] = []

    def sign(challenge: bytes, _key: Any) -> Proof:
        signed.append(challenge)
        return KEY.sign(challenge)

    monkeypatch.setattr(signing, "sign_with_ssh", sign)
    async with desk_of() as desk:
        wanted = await desk.wanted()
        inbox = desk.client.inbox
        row = await inbox.get(desk.small.id)
        desk.liar.lie = lambda path, told: told | wanted if path.endswith("/to_sign") else told
        words: Details = {"digest": row.digest, "note": "fine"}
        with pytest.raises(NotAllowed, match="something else"):
            await signing.sign(inbox, row, "approve", words, "key")
        assert signed == []
        desk.liar.lie = lambda _path, told: told
        proof = await signing.sign(inbox, row, "approve", words, "key")
        done = await inbox.decide(row.id, "approve", **words, proof=proof)
        assert (done.state, len(signed)) == ("approve", 1)


async def test_every_word_that_can_be_signed_is_signed_at_an_honest_server() -> None:
    async with desk_of() as desk:
        inbox = desk.client.inbox
        words: list[tuple[RequestRow, Any, dict[str, Any]]] = [
            (desk.small, "reject", {"message": "no", "note": "why"}),
            (desk.large, "answer", {"output": {"paid": [1, 2.5]}}),
        ]
        for row, verdict, said in words:
            shown = await inbox.get(row.id)
            proof = KEY.sign(await inbox.to_sign(shown, verdict, **said))
            more = dict(said)
            given = [more.pop("output")] if verdict == "answer" else []
            assert (await getattr(inbox, verdict)(shown, *given, proof=proof, **more)).state == verdict


async def test_a_call_with_a_preview_of_its_own_is_signed_by_its_arguments() -> None:
    def drawn(to: str, amount: int) -> Preview:
        return Preview((Text(f"{amount} to {to}"),), basis={"rate": "d1"})

    async with desk_of(preview=drawn) as desk:
        shown = await desk.client.inbox.get(desk.small.id)
        proof = KEY.sign(await desk.client.inbox.to_sign(shown, "approve"))
        assert (await desk.client.inbox.approve(shown, proof=proof)).state == "approve"
