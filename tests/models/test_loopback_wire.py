"""The loopback server itself: HTTP as a client sees it, the script, and every way in which it can misbehave."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.server import Fault, HttpReply, HttpRequest, LoopbackServer


class Echo(LoopbackServer):
    """A provider with the smallest format there is: the texts of a step, as JSON or as events."""

    base_path = "/base"

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        said = [part["text"] for item in step.output for part in item["content"]]
        streamed = request.json is not None and request.json.get("stream")
        return HttpReply.stream([{"type": "said", "text": text} for text in said]) if streamed else HttpReply.json(said)

    def error(self, status: int, message: str) -> Any:
        return {"message": message}

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        return (404, "not here") if request.path != "/base/ask" else None


async def post(server: LoopbackServer, body: Any = None, path: str = "/ask", **options: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(verify=False) as client:
        return await client.post(server.base_url + path, json=body or {}, **options)


async def test_it_answers_in_turn_and_remembers_what_it_was_asked() -> None:
    async with Echo(["one", ["two", "three"]]) as server:
        assert (await post(server, {"n": 1}, headers={"X-Mine": "yes"})).json() == ["one"]
        assert (await post(server, path="/ask?deep=1")).json() == ["two", "three"]
    first, second = server.requests
    assert (first.method, first.path, first.json) == ("POST", "/base/ask", {"n": 1})
    assert first.headers["x-mine"] == "yes"
    assert (second.path, second.query, second.json) == ("/base/ask", "deep=1", {})


async def test_one_line_serves_many_requests_and_many_lines_at_once() -> None:
    async with Echo(lambda request: str(request.json["n"])) as server, httpx2.AsyncClient(verify=False) as client:
        for n in range(3):
            assert (await client.post(f"{server.base_url}/ask", json={"n": n})).json() == [str(n)]
        answers = await asyncio.gather(*(post(server, {"n": n}) for n in range(5)))
        assert [answer.json() for answer in answers] == [[str(n)] for n in range(5)]


async def test_it_runs_in_a_thread_for_code_that_blocks() -> None:
    with Echo(["one", "two"]) as server:
        for text in ("one", "two"):
            assert httpx2.post(f"{server.base_url}/ask", verify=False).json() == [text]


async def test_events_end_and_can_be_named() -> None:
    async with Echo([["a", "b"]]) as server:
        lines = (await post(server, {"stream": True})).text.split("\n")
    assert lines == ['data: {"type":"said","text":"a"}', "", 'data: {"type":"said","text":"b"}', "", ""]
    named = HttpReply.stream([{"type": "said"}, "[DONE]"], named=True)
    assert named.parts == (b'event: said\ndata: {"type":"said"}\n\n', b"data: [DONE]\n\n")


async def test_what_it_refuses_costs_no_step() -> None:
    async with Echo(["one"]) as server:
        assert (await post(server, path="/elsewhere")).status_code == 404
        assert (await post(server)).json() == ["one"]


@pytest.mark.each
@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ([], "IndexError: it has 0 steps"),
        (lambda request: request.json["missing"], "KeyError: 'missing'"),
        ([object()], "InvalidModelStep: step 1"),
    ],
)
async def test_a_mistake_in_the_script_comes_back_as_an_error(script: Any, complaint: str) -> None:
    async with Echo(script) as server:
        answer = await post(server)
    assert answer.status_code == 400
    assert complaint in answer.json()["message"]


async def test_functions_may_wait_and_give_any_step() -> None:
    opened = asyncio.Event()

    async def later(request: HttpRequest) -> Any:
        await opened.wait()
        return Fault(ModelStep("late", delay=0))

    async with Echo([ModelStep(responder=later), Fault(HttpReply.json("as it is"))]) as server:
        waiting = asyncio.ensure_future(post(server))
        opened.set()
        assert (await waiting).json() == ["late"]
        assert (await post(server)).json() == "as it is"


async def test_it_is_not_running_until_it_is_entered() -> None:
    with pytest.raises(RuntimeError, match="enter it"):
        _ = Echo().url


async def test_an_error_status_has_the_providers_body_and_headers() -> None:
    async with Echo(
        [Fault(status=429, message="slow down", headers={"retry-after": "7"}), Fault(status=529)]
    ) as server:
        limited, overloaded = await post(server), await post(server)
    assert (limited.status_code, limited.headers["retry-after"], limited.json()) == (429, "7", {"message": "slow down"})
    assert overloaded.status_code == 529


async def test_a_wrong_body() -> None:
    async with Echo([Fault(body=b'{"half"')]) as server:
        answer = await post(server)
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


async def test_slow_bytes_come_whole() -> None:
    text = "東京" * 20
    async with Echo([Fault(text, pieces=1), Fault(text, pieces=7)]) as server:
        assert (await post(server)).json() == [text]
        assert (await post(server, {"stream": True})).text.count("\n\n") == 1


STORY = ["one", "two", "three"]


@pytest.mark.parametrize(
    ("fault", "came"),
    [
        (Fault(STORY, events=0), None),
        (Fault(STORY, events=2), 2),
        (Fault(STORY, events=2, half=True), 2.5),
        (Fault(STORY, half=True), 2.5),
    ],
)
async def test_a_dropped_stream(fault: Fault, came: float | None) -> None:
    pieces: list[bytes] = []

    async def read(client: httpx2.AsyncClient) -> None:
        async with client.stream("POST", f"{server.base_url}/ask", json={"stream": True}) as answer:
            async for piece in answer.aiter_raw():
                pieces.append(piece)

    async with Echo([fault]) as server, httpx2.AsyncClient(verify=False) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await read(client)
    got = b"".join(pieces)
    assert got.count(b"\n\n") == int(came or 0)
    assert bool(got.rpartition(b"\n\n")[2]) == (came == 2.5)


async def test_a_stream_that_ends_too_early_but_properly() -> None:
    async with Echo([Fault(STORY, events=1, polite=True), Fault(STORY, events=0, polite=True)]) as server:
        assert (await post(server, {"stream": True})).text.count("\n\n") == 1
        assert (await post(server, {"stream": True})).text == ""


async def test_half_a_body() -> None:
    async with Echo([Fault("hello", half=True)]) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(server)


async def test_a_stalled_stream_is_the_clients_to_leave() -> None:
    async with Echo([Fault(STORY, events=1, stall=True)]) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await post(server, {"stream": True}, timeout=0.05)


async def test_errors_of_a_step_are_errors_of_the_wire() -> None:
    class Limited(Exception):
        status_code = 429

    async with Echo([ModelStep(error=Limited("no")), ModelStep(error=OSError()), "done"]) as server:
        assert (await post(server)).status_code == 429
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(server)
        assert (await post(server)).json() == ["done"]
