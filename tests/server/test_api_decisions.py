"""Decisions over HTTP: once each, whatever is repeated; by whoever may, seen by whoever may see."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import httpx2
import pytest

from keyturn import Agent, App, MemoryJournal
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.server.settings import ServerSettings
from tests.server.programs import HOST, PAID, Program, agents, pay, program, restart
from tests.table import each

KEY = {"idempotency-key": "click-1"}


async def decisions(at: Program, run: str) -> list[str]:
    """Who decided what in a run, as its audit says."""
    entries = (await at.get(f"/audit?run={run}"))["entries"]
    return [f"{each['what']} {each['verdict']} {each['by']}" for each in entries if each.get("via") == "person"]


async def test_the_same_key_a_hundred_times_is_one_decision_and_one_answer() -> None:
    async with program() as at:
        asked = await at.waiting()
        body = {"digest": asked["digest"], "note": "fine"}
        path = f"/requests/{asked['id']}/approve"
        made = await asyncio.gather(*[at.ask("POST", path, json=body, headers=KEY) for _ in range(100)])
        assert {each.status_code for each in made} == {200}
        assert len({each.text for each in made}) == 1
        assert await decisions(at, asked["run"]) == ["decision approve ada"]


async def test_another_server_answers_the_same_from_the_record() -> None:
    journal = MemoryJournal()
    async with program(journal) as at:
        asked = await at.waiting()
        body = {"digest": asked["digest"], "grant": {"uses": 3}}
        path = f"/requests/{asked['id']}/approve"
        first = await at.ask("POST", path, json=body, headers=KEY)
        other = App(agents(), journal)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=other.asgi()), base_url=HOST) as http:
            there = Program(other, http, at.tokens)
            again = [await there.ask("POST", path, json=body, headers=KEY) for _ in range(3)]
        await other.stop()
        assert {each.text for each in again} == {first.text}
        assert await decisions(at, asked["run"]) == ["decision approve ada", "grant approve ada"]


async def test_a_key_is_good_for_one_body_and_for_its_own_person() -> None:
    async with program() as at:
        asked = await at.waiting("bank")
        path = f"/requests/{asked['id']}/approve"
        assert (await at.ask("POST", path, "ben", json={"digest": asked["digest"]}, headers=KEY)).status_code == 200
        other = await at.ask("POST", path, "ben", json={"digest": asked["digest"], "note": "no"}, headers=KEY)
        assert (other.status_code, other.json()["error"]["kind"]) == (422, "other_body")
        bea = await at.ask("POST", path, "bea", json={"digest": asked["digest"]}, headers=KEY)
        assert bea.json()["by"] == "bea"
        assert bea.json()["settled"] is True
        for key in ("", "a b", "x" * 201, "\u00e9"):
            bad = await at.ask("POST", path, "ben", json={}, headers={b"idempotency-key": key.encode()})
            assert bad.status_code == 422, key


async def test_a_start_with_a_key_is_one_run_on_every_server() -> None:
    async with program() as at:
        body = {"agent": "desk", "input": "Pay."}
        made = await asyncio.gather(*[at.ask("POST", "/runs", "bot", json=body, headers=KEY) for _ in range(20)])
        assert len({each.json()["run"] for each in made}) == 1
        run = await at.app.start("desk", "Pay.", requester="bot", once="http bot click-1")
        assert run.id == made[0].json()["run"]
        other = await at.ask("POST", "/runs", "bot", json=body | {"input": "Pay more."}, headers=KEY)
        assert other.status_code == 422
        assert len((await at.get("/runs"))["runs"]) == 1


async def test_who_comes_second_is_told_who_was_first() -> None:
    async with program() as at:
        asked = await at.waiting()
        await at.post(f"/requests/{asked['id']}/reject", {"digest": asked["digest"], "message": "no"}, "cyd")
        late = await at.ask("POST", f"/requests/{asked['id']}/approve", json={"digest": asked["digest"]})
        told = late.json()["error"]
        assert late.status_code == 409
        assert (told["kind"], told["winner"], told["decision"]) == ("conflict", "cyd", "reject")
        assert told["at"].endswith("Z")
        assert late.headers["content-type"] == "application/json"


async def test_a_word_names_what_was_shown() -> None:
    async with program() as at:
        asked = await at.waiting()
        path = f"/requests/{asked['id']}/approve"
        assert (await at.ask("POST", path, json={})).status_code == 422
        assert (await at.ask("POST", path, json={"digest": "0" * 64})).status_code == 409
        assert (await at.ask("POST", path, json={"revision": asked["revision"] + 1})).status_code == 409
        assert (await at.post(path, {"revision": asked["revision"]}))["verdict"] == "approve"


async def test_an_edit_is_checked_by_its_tool_and_a_secret_stays_what_it_was() -> None:
    async with program() as at:
        asked = await at.waiting()
        form = await at.get(f"/requests/{asked['id']}/form")
        assert form["editable"] is True
        assert form["params"] == {"to": "ann", "amount": 5, "card": "[redacted]"}
        path = f"/requests/{asked['id']}/approve"
        wrong = await at.ask("POST", path, json={"digest": asked["digest"], "edit": {"to": "ann", "amount": "x"}})
        assert wrong.status_code == 422
        PAID.clear()
        made = await at.post(path, {"digest": asked["digest"], "edit": form["params"] | {"to": "bob"}})
        assert made["verdict"] == "edit"
        assert (await at.get(f"/runs/{asked['run']}/result?wait=20"))["status"] in ("running", "finished")
        assert (await at.app.result(asked["run"], 20)).final_output == "Done."
        assert PAID == ["bob"]


async def test_a_batch_decides_each_by_itself() -> None:
    async with program() as at:
        rows = [await at.waiting() for _ in range(3)]
        alike = await at.get(f"/requests/{rows[0]['id']}/alike")
        assert {each["id"] for each in alike["requests"]} == {rows[0]["id"]}  # its card is secret
        await at.post(f"/requests/{rows[1]['id']}/reject", {"digest": rows[1]["digest"]})
        named = [{"id": each["id"], "digest": each["digest"]} for each in rows]
        named += [{"id": "nobody", "digest": "0"}, {"id": rows[2]["id"], "digest": rows[2]["digest"]}]
        made = (await at.post("/approve_all", {"requests": named}))["outcomes"]
        assert [each["ok"] for each in made] == [True, False, True, False, True]
        assert [each["error"]["kind"] for each in made if each["error"]] == ["conflict", "missing"]


async def test_two_vote_and_a_vote_is_taken_for_a_vote() -> None:
    async with program() as at:
        asked = await at.waiting("bank")
        path = f"/requests/{asked['id']}/approve"
        assert (await at.ask("POST", path, "dan", json={"digest": asked["digest"]})).status_code == 403
        assert (await at.post(path, {"digest": asked["digest"]}, "ben"))["settled"] is False
        assert (await at.post(path, {"digest": asked["digest"]}, "ben"))["settled"] is False
        assert (await at.post(path, {"digest": asked["digest"]}, "bea"))["settled"] is True


async def test_of_a_request_that_was_decided_there_is_nothing_to_sign() -> None:
    async with program() as at:
        asked = await at.waiting()
        path, said = f"/requests/{asked['id']}/to_sign", {"verdict": "approve", "digest": asked["digest"]}
        assert (await at.ask("POST", path, json=said)).status_code == 200
        await at.post(f"/requests/{asked['id']}/approve", {"digest": asked["digest"]})
        late = await at.ask("POST", path, json=said)
        assert (late.status_code, late.json()["error"]["winner"]) == (409, "ada")


async def test_a_request_is_taken_put_off_and_asked_back_about() -> None:
    async with program() as at:
        asked = await at.waiting()
        shown = {"digest": asked["digest"]}
        path = f"/requests/{asked['id']}"
        assert (await at.post(f"{path}/take", shown, "ben"))["claim"]["by"] == "ben"
        assert (await at.get("/requests?unclaimed=true", "cyd"))["requests"] == []
        await at.post(f"{path}/let_go", shown, "ben")
        await at.post(f"{path}/snooze", shown | {"lasts": "1h"}, "ben")
        assert (await at.get("/requests?for=me", "ben"))["requests"] == []
        assert len((await at.get("/requests?for=me", "cyd"))["requests"]) == 1
        await at.post(f"{path}/wake", shown, "ben")
        await at.post(f"{path}/look", shown, "ben")
        made = await at.post(f"{path}/ask_back", shown | {"question": "Why Ann?"}, "ben")
        assert made["verdict"] == "reject"


async def test_a_requester_is_whoever_starts_unless_a_machine_says() -> None:
    async with program() as at:
        at.tokens["ada runs"] = await at.app.people.issue_token("ada", ["run"], by="ada")
        forged = await at.ask("POST", "/runs", "ada runs", json={"agent": "desk", "input": "x", "requester": "cyd"})
        assert forged.status_code == 403
        asked = await at.waiting(requester="cyd")
        for word, body in (("send", {"message": "pay ada"}), ("fork", {}), ("resume", {})):
            steered = await at.ask("POST", f"/runs/{asked['run']}/{word}", "ada runs", json=body)
            assert steered.status_code == 404, word
        assert (await at.ask("POST", f"/runs/{asked['run']}/send", "bot", json={"message": "hi"})).status_code == 200


async def test_a_persons_token_that_only_runs_sees_the_runs_that_it_may_steer_and_no_others() -> None:
    async with program() as at:
        at.tokens["ben runs"] = await at.app.people.issue_token("ben", ["run"], by="ada")
        of_cyd, of_ben = await at.waiting(requester="cyd"), await at.waiting(requester="ben")
        for path in ("/runs/{}", "/runs/{}/result"):
            hidden = await at.ask("GET", path.format(of_cyd["run"]), "ben runs")
            assert hidden.status_code == 404
            unknown = await at.ask("GET", path.format("0" * 32), "ben runs")
            assert (hidden.status_code, hidden.text.replace(of_cyd["run"], "0" * 32)) == told(unknown)
            await at.get(path.format(of_ben["run"]), "ben runs")
            await at.get(path.format(of_cyd["run"]), "ben")
        assert (await at.ask("POST", f"/runs/{of_cyd['run']}/cancel", "ben runs", json={})).status_code == 404
        await at.post(f"/runs/{of_ben['run']}/cancel", {}, "ben runs")


# ------------------------------------------------------------------------------------------------------- who sees what


def told(made: Any) -> tuple[int, str]:
    return made.status_code, made.text


async def test_what_is_not_yours_to_see_is_not_there_in_the_same_words_and_time() -> None:
    async with program() as at:
        asked = await at.waiting("ops")
        await at.app.people.set("visible", "own", by="ada")
        unknown = f"{'0' * 32}"
        for path in ("/requests/{}", "/requests/{}/form", "/requests/{}/alike"):
            hidden = await at.ask("GET", path.format(asked["id"]), "ben")
            assert told(hidden) == told(await at.ask("GET", path.format(unknown), "ben"))
            assert hidden.status_code == 404
            assert (await at.ask("GET", path.format(asked["id"]), "dan")).status_code == 200
            assert (await at.ask("GET", path.format(asked["id"]), "cyd")).status_code == 200  # it runs for cyd
        body = {"digest": asked["digest"]}
        hidden = await at.ask("POST", f"/requests/{asked['id']}/approve", "ben", json=body)
        assert told(hidden) == told(await at.ask("POST", f"/requests/{unknown}/approve", "ben", json=body))
        assert (await at.ask("POST", f"/requests/{asked['id']}/approve", "cyd", json=body)).status_code == 403
        for path in ("/requests", "/requests?state=all", "/runs", "/grants"):
            found = await at.get(path, "ben")
            assert next(iter(found.values())) == []
        run = await at.ask("GET", f"/runs/{asked['run']}", "ben")
        assert run.text.replace(asked["run"], unknown) == (await at.ask("GET", f"/runs/{unknown}", "ben")).text
        for path in ("/audit", "/audit/verify", "/insights", "/metrics", "/policies", "/policies/shadow"):
            assert (await at.ask("GET", path, "ben")).status_code == 403
            assert (await at.ask("GET", path, "ada")).status_code == 200
        times = {name: await taken(at, f"/requests/{name}") for name in (asked["id"], unknown)}
        hidden_s, unknown_s = times.values()
        assert abs(hidden_s - unknown_s) < 0.05


async def test_a_run_is_seen_by_who_sees_a_request_behind_a_page_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyturn.server.visibility._PAGE", 1)
    calls = [function_call("restart", {"host": "db1"}), function_call("pay", {"to": "ann", "amount": 5, "card": "x"})]
    async with program(more=[Agent("both", model=ScriptedModel([calls]), tools=[restart, pay])]) as at:
        await at.app.people.set("visible", "own", by="ada")
        begun = await at.post("/runs", {"agent": "both", "input": "Go.", "requester": "cyd"}, "bot")
        await at.app.wait(begun["run"], 30)
        assert (await at.ask("GET", f"/runs/{begun['run']}", "ben")).status_code == 200
        other = await at.waiting("ops")
        assert (await at.ask("GET", f"/runs/{other['run']}", "ben")).status_code == 404


async def taken(at: Program, path: str) -> float:
    spent: list[float] = []
    for _ in range(9):
        begun = time.perf_counter()
        await at.ask("GET", path, "ben")
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


async def test_another_tenants_requests_are_not_there() -> None:
    whole: Any = MemoryJournal()
    async with program(whole) as one, program(whole.of("other")) as other:
        asked = await one.waiting()
        body = {"digest": asked["digest"]}
        there = await other.ask("POST", f"/requests/{asked['id']}/approve", json=body)
        nobody = await other.ask("POST", f"/requests/{'0' * 32}/approve", json=body)
        assert told(there) == told(nobody)
        assert (await other.get("/requests"))["requests"] == []
        foreign = await other.ask("GET", "/requests", headers={"authorization": f"Bearer {one.tokens['ada']}"})
        assert foreign.status_code == 401
        assert (await one.get(f"/requests/{asked['id']}"))["state"] == "open"


async def test_a_token_that_was_revoked_opens_nothing() -> None:
    async with program() as at:
        asked = await at.waiting()
        for token in await at.app.people.tokens("ben"):
            await at.post("/people/revoke_token", {"token": token.id})
        assert (await at.ask("GET", "/me", "ben")).status_code == 401
        path = f"/requests/{asked['id']}/approve"
        assert (await at.ask("POST", path, "ben", json={"digest": asked["digest"]})).status_code == 401


async def test_a_machine_and_a_token_that_runs_decide_nothing() -> None:
    async with program() as at:
        asked = await at.waiting()
        refused = await at.ask("POST", f"/requests/{asked['id']}/approve", "bot", json={"digest": asked["digest"]})
        assert refused.status_code == 403
        for person, scopes in (("bot", ["decide"]), ("ben", ["decide", "run"])):
            made = await at.ask("POST", "/people/issue_token", json={"person": person, "scopes": scopes})
            assert made.status_code in (403, 422)


async def test_only_an_administrator_changes_the_directory_or_exports_all_of_it() -> None:
    async with program() as at:
        for word, body in (("add", {"person": "eve"}), ("give_role", {"role": "admin", "person": "ben"})):
            assert (await at.ask("POST", f"/people/{word}", "ben", json=body)).status_code == 403
        assert (await at.ask("POST", "/audit/export", "ben", json={"format": "jsonl"})).status_code == 403
        assert (await at.ask("POST", "/audit/export", "ben", json={"format": "csv"})).status_code == 200
        whole = await at.ask("POST", "/audit/export", json={"format": "jsonl"})
        assert whole.status_code == 200
        assert whole.text.startswith("{")
        [ben] = (await at.get("/people?person=ben", "cyd"))["people"]
        assert ben["addresses"] is None
        assert (await at.ask("GET", "/settings", "ben")).status_code == 403


async def test_no_answer_shows_what_a_tool_marks_as_secret() -> None:
    async with program() as at:
        asked = await at.waiting()
        run = asked["run"]
        await at.post(f"/requests/{asked['id']}/approve", {"digest": asked["digest"], "edit": {
            "to": "bob", "amount": 7, "card": "4929-4929-SECRET"}})  # fmt: skip
        await at.app.result(run, 20)
        paths = [f"/requests/{asked['id']}", "/requests?state=all", f"/runs/{run}", f"/runs/{run}/events", "/audit"]
        paths += [f"/runs/{run}/result", "/insights/suggestions", "/policies/shadow", "/metrics"]
        for path in paths:
            assert "4929-4929-SECRET" not in (await at.ask("GET", path)).text, path
        assert "4929-4929-SECRET" not in (await at.ask("POST", "/audit/export", json={})).text
        replayed = await at.ask("POST", "/policies/replay", json={"policy": 'default = "ask"'})
        assert replayed.status_code == 200
        assert "4929-4929-SECRET" not in replayed.text


async def test_who_reads_is_put_on_record_where_the_directory_says_so() -> None:
    async with program() as at:
        asked = await at.waiting()
        await at.post("/people/set", {"name": "record_reads", "value": True})
        one = f"/requests/{asked['id']}"
        for who, path in (("ben", one), ("dan", "/requests"), ("cyd", f"{one}/form"), ("ben", "/audit")):
            await at.get(path, who)
        await at.app.cancel(asked["run"])
        assert (await at.ask("GET", f"/runs/{asked['run']}/events", "bea")).status_code == 200
        read = {(each.by.id, each.how) for each in await at.app.audit.reads() if each.by is not None}
        assert read == {("ben", "request"), ("dan", "list"), ("cyd", "request"), ("ben", "search"), ("bea", "log")}


async def test_who_is_shown_arguments_by_an_answer_to_a_change_is_on_record() -> None:
    async with program() as at:
        asked = await at.waiting()
        await at.post("/people/set", {"name": "record_reads", "value": True})
        shown = {"digest": asked["digest"]}
        words = [("cyd", "wake", shown), ("dan", "let_go", shown), ("bea", "snooze", {**shown, "lasts": "1h"})]
        for who, word, body in [*words, ("ben", "take", shown)]:
            answer = await at.post(f"/requests/{asked['id']}/{word}", body, who)
            assert answer["params"]["to"] == "ann"
            assert [each.how for each in await at.app.audit.reads(person=who)] == ["request"], word


async def test_who_is_shown_what_was_made_of_arguments_is_on_record() -> None:
    async with program() as at:
        asked = await at.waiting()
        grant = {"where": {"to": "ann"}, "expires": "1h"}
        await at.post(f"/requests/{asked['id']}/approve", {"digest": asked["digest"], "grant": grant}, "ben")
        await at.post("/people/set", {"name": "record_reads", "value": True})
        assert "ann" in str(await at.get("/grants", "bea"))
        await at.get("/insights/suggestions", "dan")
        read = [(each.by.id, each.how, each.what) for each in await at.app.audit.reads() if each.by is not None]
        assert read == [("bea", "list", "grants"), ("dan", "search", "suggestions")]


async def test_a_setting_of_the_server_takes_the_words_that_it_knows() -> None:
    async with program() as at:
        for value in ("mine", True, ["own"]):
            assert (await at.ask("POST", "/people/set", json={"name": "visible", "value": value})).status_code == 422
        person = {"name": "visible", "value": "own", "person": "ben"}
        assert (await at.ask("POST", "/people/set", json=person)).status_code == 422


async def test_pages_neither_skip_nor_repeat() -> None:
    async with program() as at:
        rows = [(await at.waiting())["id"] for _ in range(7)]
        found: list[str] = []
        after: str | None = None
        while True:
            page = await at.get(f"/requests?limit=2{f'&after={after}' if after else ''}")
            found += [each["id"] for each in page["requests"]]
            after = page["next"]
            if after is None:
                break
        assert sorted(found) == sorted(rows)
        assert len(found) == 7


async def test_a_long_poll_returns_when_the_page_is_another_one() -> None:
    async with program() as at:
        page = await at.get("/requests")
        waiting = asyncio.ensure_future(at.get(f"/requests?wait=25&token={page['token']}"))
        asked = await at.waiting()
        later = await asyncio.wait_for(waiting, 10)
        assert [each["id"] for each in later["requests"]] == [asked["id"]]
        begun = time.monotonic()
        same = await at.get(f"/requests?wait=1&token={later['token']}")
        assert same["token"] == later["token"]
        assert time.monotonic() - begun >= 0.9


BAD = [
    b'{"digest": "a", "digest": "b"}',
    b'{"digest": NaN}',
    b'{"note": "\\ud800"}',
    b"[" * 100_000,
    b'{"digest": 5}',
    b'{"unknown": 1}',
    b'"text"',
    b"\xef\xbb\xbf{}",
    b'{"revision": 1e999}',
    b'{"revision": true}',
]


@each("body", BAD)
async def test_a_body_that_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    async with program() as at:
        headers = {"content-type": "application/json"}
        made = await at.ask("POST", "/requests/0/approve", content=body, headers=headers)
        assert made.status_code == 422, made.text
        assert made.json()["error"]["kind"] == "bad_json"


async def test_a_body_is_json_of_bounded_length() -> None:
    async with program(settings=ServerSettings(body_limit=1_000)) as at:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            made = await at.ask("POST", "/people/add", content=b'{"person": "eve"}', headers={"content-type": kind})
            assert made.status_code == 415, kind

        async def chunks() -> Any:
            for _ in range(50):
                yield b" " * 100

        json_kind = {"content-type": "application/json"}
        long = await at.ask("POST", "/people/add", content=b" " * 1_001, headers=json_kind)
        assert long.status_code == 413
        chunked = await at.ask("POST", "/people/add", content=chunks(), headers=json_kind)
        assert chunked.status_code == 413, chunked.text
