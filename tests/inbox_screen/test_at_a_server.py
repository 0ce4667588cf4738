"""The terminal inbox at a server: the same screen over HTTP, which says when nobody is reached and loses no word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from textual.widgets import TextArea

from keyturn import App, MemoryJournal
from keyturn.client import AsyncClient, ServerError
from keyturn.directory.login import Login
from keyturn.inbox_screen.reading import InboxSeat
from keyturn.inbox_screen.screen import InboxApp
from keyturn.wire.detail import ContextSeen, MarkSeen, SignSeen
from tests.inbox_screen.playing_inbox import Desk
from tests.server.office import HOSTILE, Clock, Served, office, opened, peopled

pytestmark = pytest.mark.usefixtures("undrawn")


class Line(httpx2.AsyncBaseTransport):
    """Carries what is said to a server, unless it is cut; `deaf` answers are lost on the way back."""

    def __init__(self) -> None:
        self.real = httpx2.AsyncHTTPTransport()
        self.cut = False
        self.deaf = ""
        self.keys: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.cut:
            raise httpx2.ConnectError("cut")
        answer = await self.real.handle_async_request(request)
        if self.deaf and request.url.path.endswith(self.deaf):
            self.keys.append(request.headers["idempotency-key"])
            await answer.aread()
            raise httpx2.ReadError("lost")
        return answer


class Remote(Desk):
    """One screen at a server."""

    line: Line
    served: Served
    token: str

    def does(self, coroutine: Any) -> Any:
        return asyncio.to_thread(self.served.does, coroutine)


@asynccontextmanager
async def remote(*names: str, size: tuple[int, int] = (120, 40)) -> AsyncGenerator[Remote]:
    """Serve an office in which these agents ask, and sit at it as ada."""
    app = App(office(), MemoryJournal())
    with Served(app) as served:
        await asyncio.to_thread(served.does, peopled(app))
        token = await asyncio.to_thread(served.does, app.people.issue_token("ada", ["read", "decide"], by="ada"))
        if names:
            await asyncio.to_thread(served.does, opened(app, *names))
        line = Line()
        async with AsyncClient(served.url, token, transport=line) as client:
            screen = InboxApp(InboxSeat(client.inbox, "ada"))
            async with screen.run_test(size=size) as pilot:
                at = Remote(screen, pilot, app, Clock())
                at.line, at.served, at.token = line, served, token
                await at.until(lambda: len(screen.list.entries) >= len(names))
                await at.until(lambda: not names or at.shown)
                yield at


async def state(at: Remote, name: str) -> tuple[str, str]:
    row = await at.does(at.app.inbox.get(name))
    return row.state, row.by


async def test_a_request_is_shown_whole_and_approved() -> None:
    async with remote("support") as at:
        await at.says("refund", "A-1042", "Written by the model", "the customer asks for the money", "never arrived")
        name = at.screen.list.at
        await at.seen()
        await at.press("a")
        await at.says("Recorded: You approved (1 of 2).", "needed: ben. Press u")
        assert (await at.does(at.app.inbox.get(name))).request.votes[0].by == "ada"
        await at.says("your vote")


@pytest.mark.trial
async def test_what_comes_is_announced_and_can_be_rejected() -> None:
    async with remote("notices") as at:
        await at.does(opened(at.app, "ci"))
        await at.says("1 new, press n")
        await at.press("n")
        await at.at("run_shell")
        name = at.screen.list.at
        await at.press("r")
        await at.until(lambda: at.asks)
        await at.type("not today")
        await at.says("Recorded", "rejected")
        assert await state(at, name) == ("reject", "ada")


@pytest.mark.trial
async def test_an_edit_is_checked_by_the_tool_at_the_server_and_shown_before_it_runs() -> None:
    async with remote("notices") as at:
        name = at.screen.list.at
        await at.press("e")
        await at.until(lambda: at.asks)
        at.screen.screen.query_one("#field-0", TextArea).text = "#general"
        await at.press("ctrl+s")
        await at.until(lambda: not at.asks)
        await at.says("your change", "#general")
        await at.seen()
        await at.press("a")
        await at.says("Recorded")
        assert await state(at, name) == ("edit", "ada")


@pytest.mark.trial
async def test_an_edit_that_the_tool_refuses_changes_nothing() -> None:
    async with remote("support") as at:
        await at.press("e")
        await at.until(lambda: at.asks)
        at.screen.screen.query_one("#field-1", TextArea).text = '"many"'
        await at.press("ctrl+s")
        await at.says("Invalid, nothing was changed")
        await at.press("escape")
        assert at.screen.view.request is not None
        assert at.screen.view.request.edit is None


@pytest.mark.trial
async def test_what_somebody_else_decides_meanwhile_is_said_where_it_stands() -> None:
    async with remote("notices") as at:
        name = at.screen.list.at
        await at.does(at.app.inbox.reject(await at.does(at.app.inbox.get(name)), by=Login("ben")))
        await at.says("No longer pending", "ben rejected")
        assert await state(at, name) == ("reject", "ben")


@pytest.mark.trial
async def test_who_comes_second_is_told_who_was_first() -> None:
    async with remote("notices") as at:
        name = at.screen.list.at
        await at.seen()
        request = at.screen.view.request
        assert request is not None
        await at.does(at.app.inbox.reject(await at.does(at.app.inbox.get(name)), by=Login("ben")))
        await at.screen.approve_call(request)
        await at.says("ben already decided this", "ago: rejected. Nothing ran.")
        assert await state(at, name) == ("reject", "ben")


@pytest.mark.trial
async def test_a_word_is_bound_to_what_was_shown() -> None:
    async with remote("notices") as at:
        request = at.screen.view.request
        assert request is not None
        request.item.request = request.item.request.__class__(
            **{name: getattr(request.item.request, name) for name in request.item.request.__struct_fields__}
            | {"digest": "f" * 64}
        )
        await at.seen()
        await at.press("a")
        await at.says("Not recorded", "no longer")
        assert (await state(at, at.screen.list.at))[0] == "open"


@pytest.mark.trial
async def test_a_lost_server_is_said_and_nothing_is_decided_until_it_is_back() -> None:
    async with remote("notices") as at:
        name = at.screen.list.at
        await at.seen()
        at.line.cut = True
        await at.press("n")
        await at.says("Server unreachable", "send_notice")
        await at.press("a")
        await at.says("Nothing was recorded")
        at.line.cut = False
        await at.until(lambda: not at.screen.away)
        assert (await state(at, name))[0] == "open"
        assert "Server unreachable" not in at.text()
        await at.press("a")
        await at.says("Recorded")
        assert await state(at, name) == ("approve", "ada")


@pytest.mark.trial
async def test_a_word_whose_answer_was_lost_is_the_same_word_when_it_is_pressed_again() -> None:
    async with remote("support") as at:
        name = at.screen.list.at
        await at.seen()
        at.line.deaf = "/approve"
        await at.press("a")
        await at.says("May have been recorded", "does not answer")
        at.line.deaf = ""
        await at.until(lambda: not at.screen.away)
        sent: Any = at.screen.seat.inbox
        assert set(sent._names) == set(at.line.keys)
        await at.press("a")
        await at.says("1 of 2")
        assert len((await at.does(at.app.inbox.get(name))).request.votes) == 1
        await at.until(lambda: not list(sent._names))


@pytest.mark.trial
async def test_whoever_is_let_in_no_more_is_told_so_and_shown_nothing() -> None:
    async with remote("notices") as at:
        for each in await at.does(at.app.people.tokens("ada")):
            await at.does(at.app.people.revoke_token(each.id, by="ada"))
        await at.press("n")
        await at.says("expired or revoked")
        await at.until(lambda: at.screen.view.detail is None)
        assert not at.screen.list.entries
        assert "send_notice" not in at.text()


@pytest.mark.trial
async def test_what_others_wrote_is_escaped_on_this_side_too() -> None:
    async with remote("stranger") as at:
        await at.says("send_notice")
        await at.seen()
        assert not {"\u202e", "\u200b", "\x1b"} & set(at.text())
        assert HOSTILE not in at.text()


@pytest.mark.trial
async def test_a_signed_call_says_how_it_is_signed() -> None:
    async with remote("treasury", size=(160, 48)) as at:
        await at.seen()
        await at.press("a")
        await at.says("your signature is required", "--server", "--sign")
        assert (await state(at, at.screen.list.at))[0] == "open"


def test_what_a_lying_server_sends_unescaped_is_escaped_on_arrival() -> None:
    bad = "a\x1b[2J\u202e"
    told = ContextSeen(bad, [bad, "kept: \\u{1b}"], [SignSeen("no such kind", bad)]).context
    assert told.task == "a\\u{1b}[2J\\u{202e}"
    assert told.words == ("a\\u{1b}[2J\\u{202e}", "kept: \\u{1b}")
    assert not told.signs
    mark = MarkSeen(1, datetime(2026, 1, 1, tzinfo=UTC), bad, "", bad, "").mark
    assert (mark.word, mark.text) == ("a\\u{1b}[2J\\u{202e}", "a\\u{1b}[2J\\u{202e}")


@pytest.mark.trial
async def test_one_word_for_several_whose_answer_was_lost_is_the_same_word_when_it_is_said_again() -> None:
    async with remote("notices", "ci") as at:
        rows = list(await at.screen.seat.alike(await request_of(at)))
        at.line.deaf = "/reject_all"
        with pytest.raises(ServerError):
            await at.screen.seat.decide_all("reject", rows, "no")
        at.line.deaf = ""
        sent: Any = at.screen.seat.inbox
        assert set(sent._names) == set(at.line.keys)
        [outcome] = await at.screen.seat.decide_all("reject", rows, "no")
        assert (outcome.ok, list(sent._names)) == (True, [])
        assert await state(at, rows[0].id) == ("reject", "ada")


async def request_of(at: Remote) -> Any:
    await at.until(lambda: at.screen.view.request is not None)
    return at.screen.view.request
