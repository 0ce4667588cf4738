"""The terminal inbox is live: others decide, time runs out, more comes; and the list never moves under the cursor."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest
from textual.css.stylesheet import Stylesheet
from textual.widgets import Input

from keyturn.core.errors import NotAllowed, StorageError
from keyturn.directory.login import Login
from keyturn.inbox_screen.reading import InboxSeat
from keyturn.inbox_screen.request_view import InboxRequestView
from keyturn.inbox_screen.screen import _ended_by
from keyturn.journal.rows import RequestRow
from keyturn.screens.key_bar import KeyBar
from keyturn.screens.theme import THEME
from tests.inbox_screen.playing_inbox import desk
from tests.server.office import HOSTILE
from tests.table import each

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.trial
async def test_what_is_new_is_announced_and_moves_nothing() -> None:
    async with desk("notices") as at:
        before = at.screen.list.ids
        run = await at.app.start("ops", "Go.", requester="cyd")  # it runs out first, so it belongs above
        await at.app.wait(run.id, 20)
        await at.says("1 new, press n")
        assert at.screen.list.ids == before
        await at.press("n")
        await at.until(lambda: len(at.screen.list.entries) == 2)
        assert [entry.row.tool for entry in at.screen.list.entries] == ["delete_backups", "send_notice"]
        assert at.shown == "send_notice"
        assert at.screen.list.place == 1


@pytest.mark.trial
async def test_somebody_else_decides_while_it_is_looked_at() -> None:
    async with desk("notices", "support") as at:
        await at.at("send_notice")
        await at.app.inbox.reject(await at.row("send_notice"), by=Login("ben"))
        await at.says("No longer pending: ben rejected", "Nothing ran.")
        assert [entry.gone for entry in at.screen.list.entries if entry.row.tool == "send_notice"] == ["rejected"]
        await at.press("a", "r")
        assert not at.asks
        await at.press("n")
        await at.until(lambda: len(at.screen.list.entries) == 1)


@pytest.mark.trial
@each(
    ("state", "ran", "tells"),
    [
        ("reject", False, True),
        ("expire", False, True),
        ("answer", False, True),
        ("void", True, False),  # it was asked about a call that may have run
        ("approve", False, False),  # nobody took it up yet: it is about to run
        ("retry", True, False),
    ],
)
def test_that_nothing_ran_is_said_where_nothing_will(state: str, ran: bool, tells: bool) -> None:
    row = msgspec.structs.replace(_open_row(1), state=state, by="ben", closed_at=0)
    assert ("Nothing ran." in _ended_by(row, 3_000, ran=ran)) is tells


@pytest.mark.trial
async def test_who_comes_second_is_told_who_was_first_and_that_nothing_ran() -> None:
    async with desk("notices") as at:
        await at.press("r")
        await at.until(lambda: at.asks)  # while the reason is typed, somebody else decides
        await at.app.inbox.reject(await at.row("send_notice"), by=Login("ben"))
        at.clock.now += 3 * 3_600_000
        await at.type("Too late.")
        late = r"Not recorded: ben already decided this, (3 h|2 h 59 min)\b.* ago: rejected\. Nothing[\s│:]+ran\."
        await at.until(lambda: re.search(late, at.text()))


@pytest.mark.trial
async def test_two_people_make_a_quorum_on_two_screens() -> None:
    async with desk("support") as at:
        await at.seen()
        await at.press("a")
        await at.says("Recorded: You approved (1 of 2). One more")
        await at.app.inbox.approve(await at.row("refund"), by=Login("ben"))
        await at.says("refunded 129 for A-1042")


@pytest.mark.trial
async def test_time_runs_out_while_it_is_looked_at() -> None:
    async with desk("ops") as at:
        at.clock.now += 10 * 60_000
        await at.screen.look()
        screen: Any = at.screen
        screen._tick()
        await at.says("Expired. Nothing ran.")
        await at.press("a", "r", "w")
        assert not at.asks


async def test_a_long_list_is_bounded() -> None:
    async with desk() as at:
        rows = [_open_row(number) for number in range(10_000)]
        journal: Any = at.app.journal
        journal._mine.rows.requests.update({row.id: row for row in rows})
        await at.screen.look(renew=True)
        await at.says("500 and more pending, first 50 shown")
        assert len(at.screen.list.entries) == 50


def _open_row(number: int) -> RequestRow:
    return RequestRow(f"{number:032x}", "run", f"r/{number}.0", "approval", "pay", "desk", "d" * 64, number)


@pytest.mark.trial
async def test_search_and_filters_narrow_the_list() -> None:
    async with desk("notices", "support", "ops") as at:
        await at.press("slash")
        at.screen.query_one("#search", Input).value = "risk:high"
        await at.until(lambda: [entry.row.tool for entry in at.screen.list.entries] == ["delete_backups"])
        await at.press("escape")
        await at.until(lambda: len(at.screen.list.entries) == 3)
        await at.press("slash")
        at.screen.query_one("#search", Input).value = "refund"
        await at.until(lambda: [entry.row.tool for entry in at.screen.list.entries] == ["refund"])
        await at.press("enter", "m")
        await at.until(lambda: at.screen.chosen.mine)
        assert at.screen.chosen.text == "refund"


async def test_letters_typed_into_the_search_decide_nothing() -> None:
    async with desk("notices") as at:
        await at.seen()
        await at.press("slash", "a", "r", "q")
        assert not at.asks
        assert (await at.row("send_notice") if at.screen.list.ids else (await at.app.inbox.list())[0]).state == "open"


async def test_hostile_text_is_never_markup_and_never_acts() -> None:
    async with desk("stranger") as at:
        text = at.text()
        assert "<script>" in text
        assert "\\u{202e}" in text
        assert not set(text) & {"\u202e", "\x1b", "\u200b"}
        assert HOSTILE not in text


@pytest.mark.trial
async def test_forty_columns_are_enough() -> None:
    async with desk("notices", size=(40, 24)) as at:
        assert at.screen.list.region.height
        assert not at.screen.view.region.height
        await at.press("a", "r")  # nothing that is not on the screen is decided
        assert not at.asks
        await at.press("enter")
        await at.until(lambda: at.screen.view.region.height)
        await at.seen()
        await at.press("a")
        await at.until(lambda: "Recorded" in at.text())
        await at.press("escape")
        await at.until(lambda: at.screen.list.region.height)


@pytest.mark.trial
async def test_no_size_ends_it() -> None:
    async with desk("notices", "sql") as at:
        for size in ((3, 2), (12, 5), (40, 10), (200, 60)):
            await at.pilot.resize_terminal(*size)
            await at.pilot.pause(0.05)
        await at.says("keyturn inbox")


@pytest.mark.trial
async def test_q_leaves() -> None:
    async with desk("notices") as at:
        await at.press("q")
        await at.until(lambda: not at.screen.is_running)


@pytest.mark.trial
async def test_the_keys_stand_in_one_row_and_a_click_on_one_presses_it() -> None:
    async with desk("notices") as at:
        row = at.text().splitlines()[-1]
        assert row == " ^q Quit  j Next  k Before  ⏎ Open  n New  / Search  m Mine  ? Keys"
        await at.pilot.click(KeyBar, offset=(row.index("Keys"), 0))
        await at.says("Keys")


@pytest.mark.trial
async def test_the_palette_is_there_from_the_first_drawing_on(monkeypatch: Any) -> None:
    """A theme that is set on a screen at work has all of its CSS parsed, and each widget styled, a second time."""
    anew: list[object] = []
    monkeypatch.setattr(Stylesheet, "reparse", anew.append)
    async with desk("notices") as at:
        assert at.screen.current_theme is THEME
        assert at.screen.screen.styles.background.hex.lower() == THEME.background
        assert not anew


@pytest.mark.trial
async def test_question_mark_says_what_the_keys_do() -> None:
    async with desk("notices") as at:
        await at.press("question_mark")
        await at.says("Keys", "ask the agent")
        await at.press("escape")
        await at.until(lambda: not at.asks)


async def test_a_letter_after_the_cursor_moved_never_decides_the_request_before(monkeypatch: Any) -> None:
    async with desk("notices", "support") as at:
        await at.seen()
        at.screen.list.go(-at.screen.list.place)
        await at.until(lambda: at.screen.view.request is not None)
        await at.seen()
        before = at.screen.list.at
        reads = at.screen.seat.inbox.facts

        async def slow(name: str, **more: Any) -> RequestRow:
            if name != before:
                await asyncio.Event().wait()
            return await reads(name, **more)

        monkeypatch.setattr(at.screen.seat.inbox, "get", slow)
        await at.press("j", "a", "a", "r")
        assert not at.asks
        assert at.screen.view.request is None
        assert len(await at.app.inbox.list()) == 2


async def test_a_store_that_is_away_while_the_list_is_renewed_ends_nothing(monkeypatch: Any) -> None:
    async with desk("notices") as at:
        lists = at.screen.seat.inbox.page

        async def away(*_given: Any, **_more: Any) -> Any:
            raise StorageError("the disk is gone")

        monkeypatch.setattr(at.screen.seat.inbox, "page", away)
        for key in ("n", "m"):
            await at.press(key)
            await at.says("Journal unreachable", "the disk is gone")
        monkeypatch.setattr(at.screen.seat.inbox, "page", lists)
        assert at.screen.is_running


@pytest.mark.trial
async def test_whoever_is_let_in_no_more_is_shown_nothing(monkeypatch: Any) -> None:
    async with desk("notices") as at:

        async def refused(*_given: Any, **_more: Any) -> Any:
            raise NotAllowed("this login was revoked")

        monkeypatch.setattr(at.screen.seat, "lists", refused)
        await at.press("n")
        await at.says("this login was revoked")
        await at.until(lambda: at.screen.view.detail is None)
        assert not at.screen.list.entries
        assert at.screen.is_running


@pytest.mark.trial
async def test_leaving_while_it_looks_is_no_error(monkeypatch: Any) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    lists = InboxSeat.lists

    async def slow(*given: Any) -> Any:
        asked.set()
        await answered.wait()
        return await lists(*given)

    async with desk("notices") as at:
        monkeypatch.setattr(InboxSeat, "lists", slow)
        looking = asyncio.ensure_future(at.screen.look(renew=True))
        await asked.wait()
    answered.set()
    await looking


def test_an_answer_that_comes_while_the_screen_is_taken_down_is_no_error() -> None:
    """A decision in flight came back to a view without parts, and its worker ended the inbox with a traceback."""
    view = InboxRequestView(lambda: 0, lambda: "")
    view.say("Not recorded", "the server does not answer")
    view.come_up()
    view.redraw()
