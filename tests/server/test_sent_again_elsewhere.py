"""What a client sends again, and a balancer leads to another server, is done once and answered the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from keyturn import App, Conflict, MemoryJournal, UserError
from keyturn.audit.checker import check
from keyturn.directory.people import People
from tests.server.programs import HOST, PAID, Program, agents, program

KEY = {"idempotency-key": "click-1"}
CARD = "[redacted]"


@asynccontextmanager
async def beside(at: Program) -> AsyncGenerator[Program]:
    """Another server on the same journal, whose workers are none of its own."""
    other = App(agents(), at.app.journal, worker=False)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=other.asgi()), base_url=HOST) as http:
        yield Program(other, http, at.tokens)
    await other.stop()


async def lines(at: Program, run: str) -> int:
    return await at.app.journal.head(run)


@pytest.mark.parametrize("key", [KEY, {}], ids=["by its key", "without a key"])
async def test_an_approval_with_an_edit_is_one_decision_with_one_answer(key: Any) -> None:
    PAID.clear()
    async with program(MemoryJournal()) as at, beside(at) as there:
        asked = await at.waiting()
        body = {"digest": asked["digest"], "edit": {"to": "bob", "amount": 5, "card": CARD}}
        path = f"/requests/{asked['id']}/approve"
        first = await at.post(path, body, headers=key)
        assert (await at.app.result(asked["run"], 20)).final_output == "Done."
        assert await there.post(path, body, headers=key) == first
        other = await there.ask("POST", path, json=body | {"edit": body["edit"] | {"to": "eve"}}, headers=key)
        assert (other.status_code, PAID) == (409 if not key else 422, ["bob"])
        assert (await check(at.app.journal)).ok


MARKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("take", {"lasts": "1h"}),
    ("snooze", {"lasts": "2h"}),
    ("wake", {}),
    ("let_go", {}),
)


async def test_a_mark_is_made_once_and_takes_no_later_one_off() -> None:
    async with program(MemoryJournal()) as at, beside(at) as there:
        asked = await at.waiting()
        for word, more in MARKS:
            sent: dict[str, Any] = {"json": {"digest": asked["digest"], **more}, "headers": {"idempotency-key": word}}
            path = f"/requests/{asked['id']}/{word}"
            first = await at.ask("POST", path, **sent)
            assert first.status_code == 200
            before = await lines(at, asked["run"])
            assert (await there.ask("POST", path, **sent)).text == first.text
            assert await lines(at, asked["run"]) == before, word
        await at.post(f"/requests/{asked['id']}/take", {"digest": asked["digest"], "lasts": "3h"}, headers=KEY)
        async with beside(at) as third:
            late = await third.post(
                f"/requests/{asked['id']}/let_go", {"digest": asked["digest"]}, headers={"idempotency-key": "let_go"}
            )
        assert late["claim"] is not None, "the claim that came after it stays"
        assert (await check(at.app.journal)).ok


CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("add", {"person": "eli", "roles": ["ops"]}),
    ("give_role", {"role": "finance", "person": "eli"}),
    ("take_role", {"role": "finance", "person": "eli"}),
    ("join", {"group": "night", "person": "eli"}),
    ("leave", {"group": "night", "person": "eli"}),
    ("delegate", {"giver": "ada", "receiver": "ben", "lasts": "1h"}),
    ("mute", {"person": "eli", "lasts": "1h"}),
    ("set", {"name": "time_zone", "value": "Europe/Berlin", "person": "eli"}),
    ("remove", {"person": "eli"}),
    ("issue_token", {"person": "ben", "scopes": ["read"]}),
    ("make_link", {"person": "ben"}),
)


async def test_a_change_of_people_is_made_once() -> None:
    async with program(MemoryJournal()) as at, beside(at) as there:
        for word, body in CHANGES:
            sent: dict[str, Any] = {"json": body, "headers": {"idempotency-key": word}}
            first = await at.ask("POST", f"/people/{word}", **sent)
            assert first.status_code == 200, (word, first.text)
            place = (await there.app.people.directory()).place
            again = await there.ask("POST", f"/people/{word}", **sent)
            if word in ("issue_token", "make_link"):
                assert (again.status_code, again.json()["error"]["kind"]) == (409, "shown_once")
            else:
                assert (again.status_code, again.text) == (200, first.text), word
            assert (await there.app.people.directory()).place == place, word
        await at.post("/people/add", {"person": "eli", "roles": []})
        async with beside(at) as third:
            await third.post("/people/give_role", CHANGES[1][1], headers={"idempotency-key": "give_role"})
            assert "finance" not in (await at.app.people.directory()).roles_of("eli"), "it was given before eli left"
            named = {"idempotency-key": "remove"}
            assert (await third.ask("POST", "/people/remove", json={"person": "ben"}, headers=named)).status_code == 409
        log = (await at.get("/people/log"))["entries"]
        assert all(set(entry) == {"at", "by", "events", "v"} for entry in log)


async def test_a_name_of_a_change_is_forgotten_after_a_day_and_is_for_one_change() -> None:
    now = [1_000_000]
    journal = MemoryJournal(clock=lambda: now[0])
    people = People(journal)
    await people.start("ada")
    await people.once("retry-7", "add ben").add("ben", by="ada")
    await people.once("retry-7", "add ben").add("ben", by="ada")
    with pytest.raises(Conflict, match="something else was done under this name"):
        await people.once("retry-7", "add eve").add("eve", by="ada")
    with pytest.raises(UserError):
        people.once("\ud800")
    now[0] += 25 * 3_600_000
    await people.once("retry-8", "add cyd").add("cyd", by="ada")
    assert [at for _asked, at in (await people.directory()).named.values()] == now


async def test_every_other_word_is_said_once_too() -> None:
    """Words that end something, or are bound to what was shown, need no name: the record knows them."""
    async with program(MemoryJournal()) as at, beside(at) as there:
        first, granted, over = [await at.waiting() for _ in range(3)]
        grant = {"digest": granted["digest"], "grant": {"uses": 3}}
        given = (await at.post(f"/requests/{granted['id']}/approve", grant))["grant"]
        await at.app.result(granted["run"], 20)
        said: tuple[tuple[str, dict[str, Any]], ...] = (
            (f"/requests/{first['id']}/look", {"digest": first["digest"]}),
            (f"/requests/{first['id']}/ask_back", {"digest": first["digest"], "question": "Which account?"}),
            (f"/runs/{granted['run']}/grants/{given}/revoke", {}),
            (f"/runs/{over['run']}/cancel", {"why": "no"}),
        )
        for path, body in said:
            made = await at.post(path, body)
            if "ask_back" in path:
                await at.app.result(first["run"], 20)
            before = [await lines(at, each["run"]) for each in (first, granted, over)]
            assert await there.post(path, body) == made, path
            assert [await lines(at, each["run"]) for each in (first, granted, over)] == before, path
