"""A person decides in the terminal inbox: each letter, what it asks for, and what it does not do."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

import pytest
from textual.widgets import Input, TextArea

from keyturn import App, MemoryJournal
from keyturn.inbox.desk import Inbox
from keyturn.inbox_screen.request_view import InboxRequestView
from keyturn.journal.rows import Query
from keyturn.screens.letters_app import LettersApp
from keyturn.screens.quiet import Quiet
from tests.inbox_screen.playing_inbox import desk, sitting
from tests.server.office import Clock, office, opened, peopled

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.trial
async def test_a_call_is_shown_whole_with_who_decides_and_the_models_words_last() -> None:
    async with desk("ops") as at:
        text = at.text()
        order = [
            "wants to run: delete_backups",
            "api-2026-11-01",
            'who decides: approval from role "ops"',
            "Written by the model",
        ]
        places = [text.index(words) for words in order]
        assert places == sorted(places)
        assert "▲ high risk" in text
        assert "9 min left" in text or "8 min left" in text


async def test_a_approves_exactly_what_was_shown_and_the_result_comes_live() -> None:
    async with desk("notices") as at:
        await at.seen()
        await at.says("note: once approved, the call starts at once, and then cannot be undone.")
        await at.press("a")
        await at.says("Recorded: You approved this call", "outcome: approved by ada", "sent to #ops")
        assert (await at.row("send_notice")).state == "approve"
        await at.press("u")
        await at.says("Nothing to withdraw: It ran, and returned its result.")


@pytest.mark.trial
async def test_high_risk_takes_the_key_twice() -> None:
    async with desk("ops") as at:
        await at.seen()
        await at.press("a")
        await at.says("High risk: press a again")
        assert (await at.row("delete_backups")).state == "open"
        await at.press("a")
        await at.says("Recorded: You approved this call")


async def test_nothing_runs_before_its_last_row_was_on_the_screen() -> None:
    async with desk("sql", size=(100, 24)) as at:
        await at.press("a")
        await at.says("not all rows are shown yet")
        assert (await at.row("run_sql")).state == "open"
        await at.press("x")
        await at.says("not all rows are shown yet")
        await at.seen()
        await at.press("a")
        await at.says("Recorded: You approved this call")


async def test_a_key_that_was_being_typed_when_it_came_up_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk("notices", "support") as at:
        await at.seen()
        monkeypatch.setattr(Quiet, "grace", 60.0)
        await at.press("j")
        await at.until(lambda: at.shown == "send_notice")
        await at.press("a")
        await at.says("this just appeared")
        assert (await at.row("send_notice")).state == "open"


async def test_a_key_that_was_meant_for_another_request_decides_none_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `x` shows comes when it was looked up: by then its person may have gone on, or be typing."""
    async with desk("notices", "notices", "ops") as at:
        await at.at("send_notice")
        await at.seen()
        looked_up, alike = asyncio.Event(), at.screen.seat.alike

        async def late(request: Any) -> Any:
            await looked_up.wait()
            return await alike(request)

        monkeypatch.setattr(at.screen.seat, "alike", late)
        await at.press("x", "k")
        looked_up.set()
        await at.until(lambda: not at.screen._acting)
        assert not at.asks
        await at.at("send_notice")
        await at.seen()
        await at.press("x")
        await at.until(lambda: at.asks)
        dialog: Any = at.screen.screen
        dialog._quiet.drawn(monotonic() + 60)
        await at.press("a")
        await at.says("this just appeared")
        assert (await at.row("send_notice")).state == "open"
        dialog._quiet.drawn(0.0)
        await at.press("a")
        await at.says("Recorded: 2 of 2")


async def test_a_letter_of_a_request_that_was_left_decides_by_no_other_ones_terms() -> None:
    """What is of high risk takes the key twice, also where one of no risk is on the screen by the time it is read."""
    async with desk("ops", "notices") as at:
        await at.at("delete_backups")
        await at.seen()
        letter = InboxRequestView.Chosen("a", at.screen.view.request or pytest.fail("it is shown"), monotonic())
        await at.at("send_notice")
        at.screen.on_call_view_chosen(letter)
        LettersApp.on_call_view_chosen(at.screen, letter)
        await at.says("Nothing was recorded", "delete_backups")
        assert {(await at.row(tool)).state for tool in ("delete_backups", "send_notice")} == {"open"}


async def test_what_came_of_a_request_is_not_said_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk("notices", "ops") as at:
        await at.at("send_notice")
        await at.seen()
        answered, decide = asyncio.Event(), at.screen.seat.decide

        async def late(*given: Any, **details: Any) -> Any:
            await answered.wait()
            return await decide(*given, **details)

        monkeypatch.setattr(at.screen.seat, "decide", late)
        await at.press("a")
        await at.at("delete_backups")
        answered.set()
        await at.says("Recorded: send_notice, request")


@pytest.mark.trial
async def test_r_rejects_with_a_reason_that_the_terms_want() -> None:
    async with desk("ops") as at:
        await at.press("r")
        await at.until(lambda: at.asks)
        await at.says("Enter sends it, Escape leaves without it.")
        await at.type("")
        await at.until(lambda: not at.asks)
        assert (await at.row("delete_backups")).state == "open"
        await at.press("r")
        await at.until(lambda: at.asks)
        await at.type("Not those three.")
        await at.says("Recorded: You rejected this call", "Not those three.")


async def test_e_changes_the_call_which_is_shown_before_it_runs() -> None:
    async with desk("notices") as at:
        await at.press("e")
        await at.until(lambda: at.asks)
        at.screen.screen.query_one("#field-0", TextArea).text = "#dev"
        await at.press("ctrl+s")
        await at.says("your change", "#dev")
        assert (await at.row("send_notice")).state == "open"
        await at.seen()
        await at.press("a")
        await at.says("Recorded: You approved this call with other", "sent to #dev")


@pytest.mark.trial
async def test_w_answers_a_question_by_the_number_of_a_choice() -> None:
    async with desk("asker") as at:
        await at.says("◆ question", "choice: 2  Hamburg")
        await at.press("w")
        await at.says("note: The agent continues with your answer at once: it cannot be undone.")
        await at.type("")
        await at.says("Nothing was recorded: the line was empty")
        await at.press("w")
        await at.until(lambda: at.asks)
        await at.type("2")
        await at.says("Recorded: You answered", "Hamburg")


@pytest.mark.trial
async def test_g_approves_calls_like_it() -> None:
    async with desk("notices") as at:
        await at.seen()
        await at.press("g")
        await at.until(lambda: at.asks)
        at.screen.screen.query_one("#where", Input).focus()
        await at.press("enter")
        await at.says("Recorded: You approved this call")
        assert len(await at.app.inbox.grants()) == 1


async def test_without_the_app_the_grant_that_is_proposed_is_the_narrowest_of_the_very_arguments() -> None:
    async with App(office(), MemoryJournal(clock=Clock())) as app:
        await peopled(app)
        await opened(app, "notices")
        async with sitting(app, Clock(), "ada", inbox=Inbox(app.journal, (), app.people)) as at:
            await at.seen()
            await at.press("g")
            await at.until(lambda: at.asks)
            where = at.screen.screen.query_one("#where", Input).value
            [row] = await app.journal.requests(Query(state="open"))
            assert isinstance(row.params, dict)
            assert row.params
            assert all(json.dumps(value) in where for value in row.params.values()), where


@pytest.mark.trial
async def test_b_asks_the_agent_back_and_nothing_runs() -> None:
    async with desk("notices") as at:
        await at.press("b")
        await at.until(lambda: at.asks)
        await at.type("Who reads it?")
        await at.says("Recorded: You asked the agent a question", "question: ada asked the agent", "Who reads it?")
        assert (await at.row("send_notice")).state in ("reject", "asked_back")


@pytest.mark.trial
async def test_x_says_one_word_for_all_of_one_shape() -> None:
    async with desk("notices") as at:
        run = await at.app.start("notices", "Do your work.", requester="cyd")
        await at.app.wait(run.id, 20)
        await at.says("1 new, press n")
        await at.seen()
        await at.press("x")
        await at.until(lambda: at.asks)
        await at.says("2 pending calls of this tool with these arguments")
        await at.press("a")
        await at.says("Recorded: 2 of 2")
        assert not await at.app.inbox.list()


@pytest.mark.trial
async def test_c_claims_and_lets_go_and_z_puts_it_off() -> None:
    async with desk("notices") as at:
        await at.press("c")
        await at.says("Claimed", "claimed by: ada")
        await at.press("c")
        await at.says("Released")
        await at.press("z")
        await at.says("Snoozed for 1 hour")
        await at.press("m")
        await at.until(lambda: not at.screen.list.entries)
        assert "No pending requests match." in at.text()


@pytest.mark.trial
async def test_a_quorum_shows_its_progress_and_takes_two() -> None:
    async with desk("support") as at:
        await at.seen()
        await at.press("a")
        await at.says("Recorded: You approved (1 of 2). One more approval", "ada approved")
        row = await at.row("refund")
        assert row.state == "open"


@pytest.mark.trial
async def test_who_may_not_decide_has_no_letters_and_is_told_why() -> None:
    async with desk("ops", person="ben") as at:
        await at.says("You cannot decide it")
        await at.press("a", "r", "w")
        assert not at.asks
        assert (await at.row("delete_backups")).state == "open"


@pytest.mark.trial
async def test_a_signed_one_says_how_it_is_signed() -> None:
    async with desk("treasury") as at:
        await at.seen()
        await at.press("a")
        await at.says("your signature is required", "--sign")
        assert (await at.row("wire")).state == "open"


@pytest.mark.trial
async def test_the_models_words_are_those_with_which_it_proposed_the_call_also_once_the_run_is_over() -> None:
    async with desk("ci") as at:
        await at.press("r")
        await at.until(lambda: at.asks)
        await at.type("No.")
        await at.says("Recorded: You rejected this call")
        run = at.screen.view.detail.row.run if at.screen.view.detail else ""
        await at.app.run(run).result(20)
        await at.screen.look()
        assert "The branch has diverged." in at.text()
        assert "It is done." not in at.text()
