"""The client against a real server: the words and the errors of an app, streams over breaks, each change once."""

from __future__ import annotations

import asyncio
import ssl
import threading
from types import SimpleNamespace
from typing import Any

import httpx2
import msgspec
import pytest

from keyturn import Agent, Conflict, Grant, NotAllowed, NotPending, RunMissing, RunStopped, UserError, function_tool
from keyturn.client import AsyncClient, Client, ServerError, sending
from keyturn.client.sending import _trusted  # pyright: ignore[reportPrivateUsage]  # no server shows it
from keyturn.core.encodable import moment
from keyturn.journal.rows import RunRow
from keyturn.server.streams import event
from keyturn.testing import ScriptedModel, function_call
from keyturn.wire.responses import LAST, Decided, RunLine, RunSeen
from tests.server.programs import Port
from tests.waiting import turns_of_the_loop


def test_a_run_is_started_decided_and_read() -> None:
    with Port() as port, Client(port.url, port.tokens["bot"]) as bot, Client(port.url, port.tokens["ben"]) as ben:
        run = bot.start("desk", "Pay.", requester="cyd", once="first")
        assert bot.start("desk", "Pay.", requester="cyd", once="first") == run
        assert bot.wait(run, 20).status == "waiting"
        [asked] = ben.inbox.list(mine=True)
        assert (asked.tool, asked.params["card"], asked.run) == ("pay", "[redacted]", run)
        assert ben.inbox.get(asked.id) == asked
        assert ben.inbox.form(asked.id).editable
        assert len(ben.inbox.to_sign(asked, "approve", note="ok")) == 32
        assert ben.inbox.take(asked, lasts="1h").request.claim is not None
        done = ben.inbox.approve(asked, note="ok", grant=Grant(uses=2))
        assert (done.state, done.by) == ("approve", "ben")
        result = bot.result(run, 20)
        assert (result.status, result.output) == ("finished", "Done.")
        assert [line.line for line in ben.events(run)] == list(range(len([*ben.events(run)])))
        assert [each.run for each in ben.runs(state="finished")] == [run]
        assert [each.verdict for each in ben.audit.search(person="ben")] == ["approve", "approve"]
        assert ben.audit.verify().ok
        assert ben.insights.report(days=7).decided == 1
        [grant] = ben.inbox.grants(run=run)
        ben.inbox.revoke(run, grant.id)
        assert ben.inbox.grants(run=run, state="revoked")[0].id == grant.id


@function_tool(needs_approval=True)
def note(text: str) -> str:
    """Note something."""
    return text


def test_what_ends_a_line_of_text_ends_none_of_a_stream() -> None:
    """A model may write U+2028, U+2029 and U+0085: whoever follows a list or a run reads on."""
    text = "one\u2028two\u2029three\u0085four"
    says = ScriptedModel([[function_call("note", {"text": text})], "Done."])
    with Port(more=[Agent("odd", model=says, tools=[note])]) as port, Client(port.url, port.tokens["bot"]) as bot:
        run = bot.start("odd", "Go.", requester="cyd")
        assert bot.wait(run, 20).status == "waiting"
        pages: Any = bot.inbox.pages(patience=0)
        assert [row.params for row in next(pages)] == [{"text": text}]
        pages.close()
        assert len([*bot.events(run, follow=False)]) == 2


@pytest.mark.each
@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, "\ud800", ...], ids=ascii)
async def test_what_is_sent_is_what_was_given_or_is_refused(value: Any) -> None:
    async with AsyncClient("http://localhost", "kt_1_2", transport=httpx2.MockTransport(_unasked)) as client:
        with pytest.raises(UserError, match="every reader reads alike"):
            await client.start("desk", "Go.", context={"value": value})
        with pytest.raises(UserError, match="every reader reads alike"):
            await client.inbox.answer("5e1f", value, revision=1)


@pytest.mark.parametrize("key", ["", "two words", "n\u00e4h", "a\nb", "k" * 201])
async def test_a_name_that_is_no_idempotency_key_is_refused(key: str) -> None:
    async with AsyncClient("http://localhost", "kt_1_2", transport=httpx2.MockTransport(_unasked)) as client:
        with pytest.raises(UserError, match="once="):
            await client.start("desk", "Go.", once=key)


@pytest.mark.parametrize("token", ["", "kt_1 2", "kt_1\n2", "n\u00e4h"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(UserError, match="a token is"):
        AsyncClient("http://localhost", token)


def _unasked(_request: httpx2.Request) -> httpx2.Response:
    raise AssertionError("nothing is sent")


def test_errors_are_those_of_an_app() -> None:
    with Port() as port, Client(port.url, port.tokens["bot"]) as bot, Client(port.url, port.tokens["ben"]) as ben:
        with pytest.raises(RunMissing):
            ben.get("nobody")
        with pytest.raises(NotPending):
            ben.inbox.get("nobody")
        with pytest.raises(UserError, match="no agent"):
            bot.start("nobody", "Go.")
        with pytest.raises(NotAllowed):
            ben.people.add("eve")
        with Client(port.url, "kt_0_0") as stranger, pytest.raises(NotAllowed):
            stranger.runs()
        run = bot.start("desk", "Pay.", requester="cyd")
        bot.wait(run, 20)
        [asked] = ben.inbox.list()
        ben.inbox.reject(asked, message="no")
        with Client(port.url, port.tokens["ada"]) as ada, pytest.raises(Conflict) as lost:
            ada.inbox.approve(asked)
        assert (lost.value.winner, lost.value.decision) == ("ben", "reject")
        assert isinstance(lost.value.at, int)
        second = bot.start("desk", "Pay.", requester="cyd")
        bot.cancel(second, why="enough")
        with pytest.raises(RunStopped):
            bot.result(second, 20)


def test_people_are_changed_by_an_administrator() -> None:
    with Port() as port, Client(port.url, port.tokens["ada"]) as ada:
        ada.people.add("eve", "Eve", roles=["ops"])
        token = ada.people.issue_token("eve", ["read"], label="phone")
        with Client(port.url, token) as eve:
            assert eve.people.me().person.roles == ["ops"]
            with pytest.raises(NotAllowed):
                eve.people.add("mallory")
        given = ada.people.delegate("ada", "ben", lasts="1h")
        ada.people.end_delegation(given)
        ada.people.set("visible", "own")
        ada.people.remove("eve")
        assert "eve" not in [each.id for each in ada.people.list()]


def test_a_stream_misses_nothing_and_doubles_nothing_while_its_server_is_ended_and_another_begins(
    tmp_path: Any,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    first = Port(url)
    seen: list[int] = []
    with first:
        tokens = first.tokens
        with Client(first.url, tokens["bot"]) as bot, Client(first.url, tokens["ben"]) as ben:
            run = bot.start("desk", "Pay.", requester="cyd")
            bot.wait(run, 20)

            def follow() -> None:
                with Client(first.url, tokens["ben"]) as reader:
                    seen.extend(line.line for line in reader.events(run))

            reading = threading.Thread(target=follow)
            reading.start()
            assert len(ben.inbox.list()) == 1
    with Port(url, port=first.port) as second:
        with Client(second.url, tokens["ben"]) as ben:
            [asked] = ben.inbox.list()
            ben.inbox.approve(asked)
            assert ben.result(run, 30).status == "finished"
        reading.join(30)
        assert not reading.is_alive()
        head = second.does(second.app.journal.head(run))
    assert seen == list(range(head))


@pytest.mark.parametrize("follow", [True, False], ids=["followed", "read"])
async def test_a_stream_that_ends_in_order_as_its_server_is_stopped_is_not_all_of_a_run(
    monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    """The run was over when the client asked next, and what it did meanwhile was never told."""
    monkeypatch.setattr(sending, "_PAUSE", 0.0)
    at = moment(1_795_000_000_000)
    row = RunSeen.of(RunRow("5e1f", "desk", "finished", 5, 6))
    cut = [True]

    def serves(request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/events"):
            return httpx2.Response(200, content=msgspec.json.encode(row))
        after = int(request.headers.get("last-event-id", -1))
        there = range(after + 1, 2 if cut else 4)
        events = [event(msgspec.json.encode(RunLine(line, at, [])), id=str(line)) for line in there]
        return httpx2.Response(200, content=b"".join(events) + (b"" if cut and cut.pop() else LAST + b"\n\n"))

    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(serves)) as client:
        assert [line.line async for line in client.events("5e1f", follow=follow)] == [0, 1, 2, 3]


async def test_a_server_that_sends_a_line_again_and_never_its_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_PAUSE", 0.0)
    row = RunSeen.of(RunRow("5e1f", "desk", "finished", 5, 6))
    line = event(msgspec.json.encode(RunLine(0, moment(1_795_000_000_000), [])), id="0")

    def serves(request: httpx2.Request) -> httpx2.Response:
        events = request.url.path.endswith("/events")
        return httpx2.Response(200, content=line if events else msgspec.json.encode(row))

    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(serves)) as client:
        lines = client.events("5e1f")
        assert (await anext(lines)).line == 0
        with pytest.raises(ServerError, match="before its last line"):
            await anext(lines)


@pytest.mark.each
@pytest.mark.parametrize("listed", [True, False], ids=["a list", "a run"])
async def test_a_stream_that_ends_in_order_with_nothing_new_is_asked_for_again_later_and_later(
    monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    pauses: list[float] = []
    row = RunSeen.of(RunRow("5e1f", "desk", "waiting", 5, 6))

    async def paused(seconds: float) -> None:
        pauses.append(seconds)
        await turns_of_the_loop(1)

    def serves(request: httpx2.Request) -> httpx2.Response:
        streams = request.url.path.endswith(("/events", "/stream"))
        return httpx2.Response(200, content=b": keyturn\n\n" if streams else msgspec.json.encode(row))

    monkeypatch.setattr(sending, "asyncio", SimpleNamespace(sleep=paused))
    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(serves)) as client:
        following = asyncio.ensure_future(anext(client.inbox.pages() if listed else client.events("5e1f")))
        while len(pauses) < 8 and not following.done():
            await turns_of_the_loop(1)
        following.cancel()
    assert (pauses[:4], pauses[7]) == ([0.4, 0.8, 1.6, 3.2], 10.0)


def test_a_stream_that_is_cut_now_and_then_is_followed_for_as_long_as_it_lives_between() -> None:
    time = [0.0]
    breaks = sending.StreamBreaks(2, lambda: time[0])
    for _ in range(20):
        time[0] += 3_600
        breaks.cut(ServerError("cut", None))
    breaks.cut(ServerError("cut", None))
    with pytest.raises(ServerError):
        breaks.cut(ServerError("cut", None))


def test_a_list_that_is_followed_shows_what_waits_now() -> None:
    with Port() as port, Client(port.url, port.tokens["bot"]) as bot, Client(port.url, port.tokens["ben"]) as ben:
        pages = ben.inbox.pages()
        assert next(pages) == []
        run = bot.start("desk", "Pay.", requester="cyd")
        page = next(pages)
        while not page:
            page = next(pages)
        assert [row.run for row in page] == [run]
        ben.inbox.reject(page[0])
        while page:
            page = next(pages)


async def test_what_fails_on_the_way_is_sent_again_with_the_same_key_and_not_for_ever() -> None:
    keys: list[str] = []

    def fails(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers.get("idempotency-key", ""))
        if len(keys) < 3:
            raise httpx2.ConnectError("no", request=request)
        return httpx2.Response(200, json={"run": "5e1f"})

    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(fails)) as client:
        assert await client.start("desk", "Go.") == "5e1f"
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]

    def dead(request: httpx2.Request) -> httpx2.Response:
        keys.append("")
        return httpx2.Response(503, json={"error": {"kind": "storage", "message": "away"}})

    keys.clear()
    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(dead)) as client:
        with pytest.raises(Exception, match="away"):
            await client.runs()
    assert len(keys) == 4


@pytest.mark.parametrize("lost", ["the answer", "what was asked next"])
async def test_a_decision_that_may_be_on_record_is_not_called_unrecorded(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A server that had the word answered no more to it, or to who read what it came to, than that it was busy."""
    monkeypatch.setattr(sending, "_PAUSE", 0.0)
    tried: list[str] = []

    def serves(request: httpx2.Request) -> httpx2.Response:
        tried.append(request.method)
        if tried == ["POST"]:
            if lost == "the answer":
                raise httpx2.ReadError("lost", request=request)
            return httpx2.Response(200, content=msgspec.json.encode(done))
        return httpx2.Response(429, json={"error": {"kind": "too_many", "message": "later"}})

    done = Decided("5e1f", "run", "approve", "ben", moment(1_795_000_000_000), 3, settled=True)
    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(serves)) as client:
        with pytest.raises(ServerError, match="later") as failed:
            await client.inbox.decide("5e1f", "approve", digest="d1")
        assert failed.value.uncertain
        with pytest.raises(ServerError, match="later") as failed:
            await client.inbox.decide("5e1f", "approve", digest="d2")
        assert not failed.value.uncertain, "it was never taken"


async def test_who_follows_changes_may_be_cancelled_again_while_the_first_is_seen_to() -> None:
    """As a screen is that was left, and then its loop: the cancellation came out as an error of a generator."""
    ends = asyncio.Event()

    class Slow(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            try:
                await asyncio.Event().wait()
            finally:
                await ends.wait()
            raise AssertionError

    async with AsyncClient("http://localhost:1", "kt_0_0", transport=Slow()) as client:
        following = asyncio.ensure_future(anext(client.inbox.changes()))
        for _ in range(2):
            await turns_of_the_loop(2)
            following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        ends.set()


def test_where_a_server_is_reached_by_plain_http_no_certificate_is_read_and_none_would_be_taken() -> None:
    trusted = _trusted("http://localhost:8080/v1")
    assert isinstance(trusted, ssl.SSLContext)
    assert trusted.cert_store_stats()["x509"] == 0
    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert _trusted("HTTPS://keyturn.example/v1") is True


async def test_an_answer_of_no_keyturn_server_is_said_to_be_one() -> None:
    def web(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text="<html>")

    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(web)) as client:
        with pytest.raises(ServerError, match="check the URL"):
            await client.get("5e1f")


def test_every_word_of_the_async_client_is_one_of_the_other() -> None:
    made = AsyncClient("http://localhost", "t")
    waiting = Client("http://localhost", "t")
    for room in (None, "inbox", "people", "audit", "insights"):
        one = made if room is None else getattr(made, room)
        other = waiting if room is None else getattr(waiting, room)
        words = {name for name in dir(one) if not name.startswith("_")} - {"url"}
        assert words <= set(dir(other)), room
    waiting.close()
    asyncio.run(made.close())


async def test_a_decision_that_is_said_again_with_its_name_is_the_same_word() -> None:
    keys: list[str | None] = []

    def cut(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers.get("idempotency-key"))
        return httpx2.Response(422, json={"error": {"kind": "bad_request", "message": "no"}})

    async with AsyncClient("http://localhost", "kt_1_2", transport=httpx2.MockTransport(cut)) as client:
        inbox = client.inbox
        named: dict[str, Any] = {"digest": "d1", "once": "pressed"}
        for word in (
            lambda: inbox.approve("5e1f", **named),
            lambda: inbox.reject("5e1f", **named),
            lambda: inbox.ask_back("5e1f", "why?", **named),
            lambda: inbox.answer("5e1f", 1, **named),
            lambda: inbox.resolve("5e1f", "ran", **named),
        ):
            with pytest.raises(UserError):
                await word()
    assert keys == ["pressed"] * 5


def test_a_word_with_its_name_is_told_again_what_became_of_it() -> None:
    with Port() as port, Client(port.url, port.tokens["bot"]) as bot, Client(port.url, port.tokens["ben"]) as ben:
        bot.wait(bot.start("desk", "Pay.", requester="cyd"), 20)
        [asked] = ben.inbox.list()
        first = ben.inbox.reject(asked, message="no", once="pressed")
        assert ben.inbox.reject(asked, message="no", once="pressed") == first
        with pytest.raises(UserError):
            ben.inbox.reject(asked, message="another", once="pressed")


@pytest.mark.parametrize(
    "url",
    [
        "http://keyturn.example",
        "http://192.0.2.7:8321",
        "http://localhost.example",
        "http://[2001:db8::1]:80",
        "HTTP://x",
    ],
)
def test_a_token_is_sent_unencrypted_to_this_machine_alone_unless_that_is_allowed(url: str) -> None:
    for made in (AsyncClient, Client):
        with pytest.raises(UserError, match="sent unencrypted"):
            made(url, "kt_1_2")
        assert made(url, "kt_1_2", plain_http=True).url == url
    for here in ("http://localhost:8321", "http://127.0.0.2", "http://[::1]:8321", "https://keyturn.example/desk"):
        assert AsyncClient(here, "kt_1_2").url == here


@pytest.mark.parametrize(
    "url", ["https://ada:pw@keyturn.example", "https://keyturn.example@evil.example", "https://x/?a"]
)
def test_the_url_of_a_server_names_a_host_and_a_path_alone(url: str) -> None:
    with pytest.raises(UserError, match="no user, password, query or fragment"):
        AsyncClient(url, "kt_1_2", plain_http=True)


@pytest.mark.parametrize("name", ["../people/remove", "..", "a/../../people/add?x=", "x#", "x?y", "%2e%2e", "", "a\nb"])
async def test_an_id_leads_a_request_to_no_other_route(name: str) -> None:
    sent = list[str]()

    def answered(request: httpx2.Request) -> httpx2.Response:
        sent.append(str(request.url))
        return httpx2.Response(200, json={})

    async with AsyncClient("http://localhost", "t", transport=httpx2.MockTransport(answered)) as client:
        for doing in (client.get(name), client.cancel(name), client.inbox.get(name), client.inbox.revoke("r", name)):
            with pytest.raises(UserError, match="leads elsewhere"):
                await doing
        with pytest.raises(UserError, match="leads elsewhere"):
            await anext(client.events(name))
    assert not sent
