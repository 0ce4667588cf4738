"""The realtime example, asked by a client in Python: what waits, what is decided, and what strangers may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from examples.realtime.app import COOKIE, kept_token
from keyturn.testing.loopback.realtime import Say
from tests.examples.calling import TOKEN, Office, office

REFUNDED = "refunded 49.00 euros for A-1042"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-these-tests")
    with office(tmp_path / "calls.db") as made:
        yield made


async def test_a_lookup_runs_and_a_refund_waits_while_the_agent_goes_on_talking(served: Office) -> None:
    async with served.page() as page:
        await page.says("say", text="Where is my order A-1042?")
        await page.until("line", "a blue kettle, delivered on Monday.")
        assert not [told for told in page.told if told["type"] == "asks"]
        await page.says("say", text="Please refund it.")
        asked = await page.until("asks")
        assert (asked["tool"], asked["agent"]) == ("refund", "support")
        assert "Please refund it." in json.dumps(asked["blocks"])
        await page.until("line", "I have just asked")
        await page.decides("approve", asked)
        assert "approved by" in (await page.until("decided"))["words"]
        await page.until("line", f"Good news: we have {REFUNDED}")
        assert page.sound


@pytest.mark.trial
async def test_a_refund_is_rejected_with_words(served: Office) -> None:
    async with served.page() as page:
        await page.says("say", text="Please refund it.")
        await page.decides("reject", await page.until("asks"), words="Send it back first.")
        assert "rejected by" in (await page.until("decided"))["words"]
        await page.until("line", "not agreed to: Send it back first.")


@pytest.mark.parametrize(("verdict", "outcome"), [("approve", REFUNDED), ("reject", "not agreed to")])
async def test_always_is_for_the_calls_that_follow(served: Office, verdict: str, outcome: str) -> None:
    async with served.page() as page:
        await page.says("say", text="Please refund it.")
        await page.decides(verdict, await page.until("asks"), always=True)
        await page.until("line", outcome)
        page.told.clear()
        await page.says("say", text="Refund it once more.")
        await page.until("line", "Refund it once more.")
        await page.until("line", outcome)
        assert not [told for told in page.told if told["type"] == "asks"]


@pytest.mark.trial
async def test_what_no_page_of_ours_says_does_no_harm(served: Office) -> None:
    async with served.page() as page:
        await page.says("say", text="Please refund it.")
        asked = await page.until("asks")
        wrong = ["", "{", "[]", "7", '"say"', "[" * 15_000, '{"type": []}', '{"type": "burn"}', b"odd", bytes(48_002)]
        wrong += ['{"type": "say"}', '{"type": "say", "text": 7}', '{"type": "say", "text": "' + "a" * 5_000 + '"}']
        wrong += ["x" * 100_000, '{"type": "approve"}', '{"type": "reject", "request": {}}']
        for frame in wrong:
            await page.line.send(frame)
            await page.until("told", "That was not understood")
        for changed in ({"digest": "of something else"}, {"request": "nothing"}):
            await page.decides("approve", {**asked, **changed})
            await page.until("told", "Nothing was decided")
        await page.decides("reject", asked, words="No.")
        await page.until("line", "not agreed to: No.")
        await page.decides("approve", asked)
        await page.until("told", "Nothing was decided")
    assert REFUNDED not in json.dumps(served.model.outputs)


async def test_a_foreign_page_and_a_stranger_reach_no_call(served: Office) -> None:
    strangers = [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": served.url.replace("http", "https")}]
    strangers += [
        {"Cookie": ""},
        {"Cookie": f"{COOKIE}=guessed"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ]
    for headers in strangers:
        with pytest.raises(InvalidStatus):
            async with served.page(**headers):
                raise AssertionError(f"{headers} came in")
    assert served.model.lines == []
    async with httpx2.AsyncClient(base_url=served.url, trust_env=False) as client:
        assert (await client.get("/")).status_code == 403
        assert (await client.get("/", params={"token": "ä"})).status_code == 403
        let_in = await client.get("/", params={"token": TOKEN})
        assert (let_in.status_code, let_in.headers["location"]) == (303, "/")
        assert "HttpOnly; Path=/; SameSite=strict" in let_in.headers["set-cookie"]
        page = await client.get("/")
        assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert (await client.get("/app.py")).status_code == 404


@pytest.mark.trial
async def test_somebody_decides_in_the_inbox_first(served: Office) -> None:
    async with served.page() as page:
        await page.says("say", text="Please refund it.")
        asked = await page.until("asks")
        served.does(served.calls.app.inbox.approve(asked["request"], digest=asked["digest"], by="ann"))
        assert (await page.until("decided"))["words"] == "This was approved by ann."
        await page.until("line", REFUNDED)


async def test_a_call_is_taken_up_after_a_restart_and_decided_then(tmp_path: Path) -> None:
    journal = tmp_path / "calls.db"
    with office(journal) as first:
        async with first.page() as page:
            run = (await page.until("call"))["run"]
            await page.says("say", text="Please refund it.")
            asked = await page.until("asks")
            await page.until("line", "I have just asked")
    with office(journal) as second:
        async with second.page(run) as page:
            assert (await page.until("call"))["run"] == run
            await page.until("line", "Please refund it.")
            again = await page.until("asks")
            assert again["request"] == asked["request"]
            await page.decides("approve", again)
            await page.until("line", REFUNDED)


@pytest.mark.trial
async def test_the_newest_window_has_the_call(served: Office) -> None:
    async with served.page() as first:
        run = (await first.until("call"))["run"]
        async with served.page(run) as second:
            await first.until("over", "another window")
            await second.until("call", run)
            await second.says("say", text="Where is my order A-1042?")
            await second.until("line", "a blue kettle")


async def test_a_run_that_is_none_is_told(served: Office) -> None:
    async with served.page("no-such-run") as page:
        await page.until("over", "cannot be taken up")


def test_the_token_is_kept_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "calls.token"
    assert kept_token(path) == kept_token(path)
    assert path.stat().st_mode & 0o077 == 0


async def test_a_page_says_what_it_played_and_an_interruption_names_that(tmp_path: Path) -> None:
    """It counts what the page says of sound that it was sent; what it says of anything else counts for nothing."""
    with office(tmp_path / "calls.db", lambda _line: Say("one two three four five six", 500)) as served:
        async with served.page() as page:
            await page.says("say", text="Talk.")
            voice = await page.until("voice")
            named = {"item": voice["item"], "part": voice["part"]}
            await page.says("played", item="another", part=0, ms=9_000)
            await page.says("played", **named, ms=500)
            await page.says("played", **named, ms=240)
            for wrong in (
                {"ms": -1},
                {"ms": "7"},
                {"ms": 1e300},
                {"ms": True},
                {"part": "x"},
                {"item": 7},
                {"ms": None},
            ):
                await page.says("played", **{**named, "ms": 10, **wrong})
                await page.until("told", "That was not understood")
            await page.says("interrupt")
            await page.until("hush")
            await page.says("played", **named, ms=100)  # on its way as it was cut off
            await page.says("interrupt")
            served.does(served.model.received("conversation.item.truncate", 1, 20))
            await page.says("say", text="Again.")
            await page.until("voice")
        cuts = [each for each in served.model.messages if each["type"] == "conversation.item.truncate"]
        assert [(each["item_id"], each["audio_end_ms"]) for each in cuts] == [(voice["item"], 740)]


@pytest.mark.trial
async def test_a_window_that_takes_over_a_call_which_is_just_beginning_does_not_hang(served: Office) -> None:
    async with served.page() as first:
        run = (await first.until("call"))["run"]

    async def flutter() -> None:
        async with served.page(run) as page:
            await page.until("call", run)

    async with asyncio.timeout(60):
        for _ in range(3):
            await asyncio.gather(*(flutter() for _ in range(3)), return_exceptions=True)
        async with served.page(run) as last:
            await last.until("call", run)
            await last.says("say", text="Where is my order A-1042?")
            await last.until("line", "a blue kettle")
