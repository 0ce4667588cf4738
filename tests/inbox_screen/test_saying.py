"""What the terminal inbox says of a decision as it goes on, of what was missed, and of a key that does nothing."""

from __future__ import annotations

import pytest

from keyturn.core.commands import Tick
from keyturn.directory.login import Login
from tests.inbox_screen.playing_inbox import desk

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.trial
async def test_what_a_vote_came_to_is_said_anew_once_another_approver_completes_it() -> None:
    async with desk("support") as at:
        await at.seen()
        await at.press("a")
        await at.says("Recorded: You approved (1 of 2). One more")
        await at.app.inbox.approve(await at.row("refund"), by=Login("ben"))
        await at.says("Recorded: You and ben approved this call. It ran, and returned its result.")
        assert "One more approval" not in at.text()


async def test_what_was_missed_stays_in_the_list_and_what_was_decided_does_not() -> None:
    async with desk("ops", "notices") as at:
        at.clock.now += 10 * 60_000
        expired, rejected = await at.row("delete_backups"), await at.row("send_notice")
        await at.app.inbox.tell(expired.run, Tick())
        await at.app.inbox.reject(rejected, by=Login("ben"))
        await at.says("2 decided; press n to hide them")
        await at.press("n")
        await at.until(lambda: [entry.row.tool for entry in at.screen.list.entries] == ["delete_backups"])
        await at.says("expired", "You missed this one.")
        assert "press n to hide" not in at.text()
        await at.press("n")
        assert [entry.gone for entry in at.screen.list.entries] == ["expired"]


@pytest.mark.trial
async def test_a_key_that_its_reader_may_not_use_says_why() -> None:
    async with desk("ops", person="ben") as at:
        await at.says("You cannot decide it")
        await at.press("a")
        await at.says("Nothing was recorded: You cannot decide it: it requires the role 'ops'")


@pytest.mark.trial
async def test_a_bare_name_reads_how_to_sign_in() -> None:
    async with desk("ops", person="ada", unverified=True) as at:
        await at.says("as ada, an unverified name", "a name alone", "Sign in: open the inbox with --token-file FILE")
