"""A program that is not written with Keyturn asks, claims what was approved once, and reports what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Ask,
    AskState,
    Conflict,
    ExternalAgent,
    NotAllowed,
    NotPending,
    RunMissing,
    UserError,
)
from keyturn.asks.service import AskService
from keyturn.client.client import AsyncClient
from keyturn.client.sending import ServerError
from keyturn.core.errors import BadJson, KeyturnError, LogDamaged
from keyturn.directory.login import Login
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.memory import MemoryJournal
from keyturn.policies.grants import Grant
from keyturn.policies.rules import Policy, deny
from keyturn.presenting.list_row import row_of
from keyturn.presenting.source import RequestSource, source_of
from keyturn.server.places import StreamPlaces, TooManyStreams
from keyturn.testing import ScriptedModel, check
from tests.channels.telling import Recorder
from tests.server.programs import peopled
from tests.waiting import turns_of_the_loop, until

ARGUMENTS = '{"order": "A1",  "amount": 5.0}'


def refund(key: str = "o1", **more: Any) -> Ask:
    given: dict[str, Any] = {"arguments": ARGUMENTS} | more
    return Ask(key=key, tool="refund", **given)


@asynccontextmanager
async def office(journal: Any = "memory://", policy: Any = None, agents: Any = None) -> AsyncGenerator[App]:
    async with App(agents or [ExternalAgent()], journal, policy) as app:
        yield app
        assert (await check(app.journal)).ok


async def pending(app: App, state: AskState) -> Any:
    """Wait until people are asked."""
    await app.wait(state.id, 30)
    [row] = await app.inbox.list(run=state.id)
    return row


async def approved(app: App, state: AskState, **words: Any) -> AskState:
    await app.inbox.approve(await pending(app, state), by="ben", **words)
    return await app.asks.wait(state.id, 30)


async def test_what_was_approved_is_claimed_once_and_to_the_byte() -> None:
    async with office() as app:
        asked = await app.asks.ask(refund(reasoning="The customer asked.", context={"host": "build-7"}))
        assert asked.status == "pending"
        with pytest.raises(Conflict, match="no decision was made yet"):
            await app.asks.claim(asked.id, "", "job")
        state = await approved(app, asked, note="ok")
        assert (state.status, state.arguments, state.decided_by) == ("approved", ARGUMENTS, "ben")
        claims = [app.asks.claim(state.id, state.digest, f"job {number}") for number in range(4)]
        made = await asyncio.gather(*claims, return_exceptions=True)
        [won] = [each for each in made if isinstance(each, AskState)]
        assert all(isinstance(each, Conflict) for each in made if each is not won)
        name = won.claimed_by.removeprefix("external ")
        assert await app.asks.claim(state.id, state.digest, name) == won
        with pytest.raises(Conflict, match="another caller claimed"):
            await app.asks.report(state.id, "job 9", "succeeded")
        wrong: Any
        for wrong in (("error", None), ("succeeded", object()), ("succeeded", "\ud800"), ("failed", float("nan"))):
            with pytest.raises((UserError, BadJson)):
                await app.asks.report(state.id, name, *wrong)
        done = await app.asks.report(state.id, name, "succeeded", {"paid": 5})
        assert (done.status, done.result, done.attempts) == ("succeeded", {"paid": 5}, 1)
        assert await app.asks.report(state.id, name, "succeeded", {"paid": 5}) == done
        with pytest.raises(Conflict, match="no claim to report"):
            await app.asks.report(state.id, name, "failed")
        assert (await app.get(state.id)).status == "finished"


async def test_a_report_that_is_sent_again_is_answered_as_it_was() -> None:
    reports: list[Any] = [("succeeded", None), ("succeeded", "null"), ("failed", "boom"), ("unknown", "it hung up")]
    async with office() as app:
        for number, (outcome, result) in enumerate(reports):
            state = await approved(app, await app.asks.ask(refund(f"o{number}")))
            await app.asks.claim(state.id, state.digest, "job")
            first = await app.asks.report(state.id, "job", outcome, result)
            assert await app.asks.report(state.id, "job", outcome, result) == first
            assert first.result == (None if outcome == "unknown" else result)


async def test_secrets_of_arguments_without_a_name_are_hidden_and_the_journal_checks() -> None:
    async with office() as app:
        for number, text in enumerate(('"s3"', "5", "null", '[{"pin": "s3"}]')):
            row = await pending(app, await app.asks.ask(refund(f"o{number}", arguments=text, secrets=("pin",))))
            assert "s3" not in row.body
            await app.inbox.reject(row, by="ben")


async def test_a_key_names_one_request_and_an_account_sees_its_own() -> None:
    async with office() as app:
        first = await app.asks.ask(refund(), account="ci")
        assert (await app.asks.ask(refund(), account="ci")).id == first.id
        assert (await app.asks.ask(refund(), account="cd")).id != first.id
        with pytest.raises(Conflict, match="other words"):
            await app.asks.ask(refund(arguments="{}"), account="ci")
        with pytest.raises(RunMissing):
            await app.asks.get(first.id, account="cd")
        with pytest.raises(RunMissing):
            await app.asks.get("none", account="cd")
        for text in (
            {"tool": ""},
            {"description": "\ud800"},
            {"reasoning": "\0"},
            {"risk": "\ud800"},
            {"secrets": ("\ud800",)},
        ):
            with pytest.raises(UserError):
                Ask(**{"key": "o1", "tool": "refund"} | text)
        often = Approval(role="ops", expires="1ms", on_expiry="ask_again", max_asks=10**9)
        for terms in (msgspec.structs.replace(often, role=None), Approval(steps=[Approval(role="ops"), often])):
            with pytest.raises(UserError, match="at most 20"):  # each of which notifies every approver
                refund(terms=terms)
        for wrong in ("{", '{"a": 1, "a": 2}', "NaN"):
            with pytest.raises(UserError, match="must be the text of JSON"):
                refund(arguments=wrong)
        for rounded in ("12345678901234567.0", "1e-400", "0.30000000000000004999", "0e99999999999999999999"):
            with pytest.raises(UserError, match="more digits than a float holds"):
                refund(arguments=f'{{"amount": {rounded}}}')
        for exact in ("0.1", "1E2", "-0.0", "5.00", "12345678901234567890", '"1e-400"'):
            assert refund(arguments=exact).arguments == exact


async def test_a_run_of_another_agent_is_no_request_and_an_agent_is_named() -> None:
    desk = Agent("desk", model=ScriptedModel(["hi"]))
    async with office(agents=[desk, ExternalAgent("ci"), ExternalAgent("coding")]) as app:
        other = await app.start("desk", "hi")
        with pytest.raises(RunMissing):
            await app.asks.get(other.id)
        with pytest.raises(UserError, match="it has: ci, coding"):
            await app.asks.ask(refund())
        assert (await app.asks.ask(refund(), agent="coding")).status == "pending"
    async with office(agents=[desk]) as app:
        with pytest.raises(UserError, match="add one"):
            await app.asks.ask(refund())


async def test_an_edit_reaches_the_caller_and_is_what_it_claims() -> None:
    async with office() as app:
        state = await approved(app, await app.asks.ask(refund()), edit={"order": "A1", "amount": 3})
        assert (state.edited, state.arguments) == (True, '{"amount":3,"order":"A1"}')
        with pytest.raises(Conflict, match="not the call as you were shown"):
            await app.asks.claim(state.id, "0" * 64, "job")
        assert (await app.asks.claim(state.id, state.digest, "job")).arguments == state.arguments


async def test_an_edit_fits_the_schema_that_the_caller_states() -> None:
    states = {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}}
    async with office() as app:
        row = await pending(app, await app.asks.ask(refund(schema=states)))
        for wrong in ([1], "x", 5, {}, {"order": 1}):
            with pytest.raises(KeyturnError, match="arguments of refund are invalid"):
                await app.inbox.approve(row, by="ben", edit=wrong)
        state = await approved(app, await app.asks.ask(refund("o2", arguments="[1]")), edit=[2])
        assert state.arguments == "[2]"


async def test_rejected_answered_expired_and_withdrawn_are_told_and_not_claimed() -> None:
    async with office() as app:
        no, given, late, gone = [
            await app.asks.ask(refund(str(number), terms=terms))
            for number, terms in enumerate((None, None, Approval(expires=0.05), None))
        ]
        await app.inbox.reject(await pending(app, no), by="ben", message="Too much.")
        await app.inbox.answer(await pending(app, given), {"paid": 1}, by="ben")
        await app.asks.withdraw(gone.id, why="not needed")
        states = [await app.asks.wait(each.id, 30) for each in (no, given, late, gone)]
        assert [each.status for each in states] == ["rejected", "answered", "expired", "withdrawn"]
        assert (states[0].note, states[1].result) == ("Too much.", {"paid": 1})
        for each in states:
            with pytest.raises(Conflict):
                await app.asks.claim(each.id, each.digest, "job")
        assert (await app.asks.withdraw(gone.id)).status == "withdrawn"
        with pytest.raises(Conflict, match="cannot be withdrawn"):
            await app.asks.withdraw(given.id)


async def test_a_caller_that_does_not_report_leaves_the_call_in_doubt_and_a_person_says_what_became_of_it() -> None:
    async with office() as app:
        state = await approved(app, await app.asks.ask(refund()))
        await app.asks.claim(state.id, state.digest, "job", lasts=0.2)
        await app.asks.hold(state.id, "job", lasts=0.4)
        with pytest.raises(Conflict, match="another caller"):
            await app.asks.hold(state.id, "other")
        doubt = await until_status(app, state.id, "in_doubt")
        assert doubt.reason == "the caller that claimed it did not report its outcome in time"
        with pytest.raises(Conflict, match="in doubt"):
            await app.asks.report(state.id, "job", "succeeded")
        [row] = await app.inbox.list(run=state.id)
        assert row.kind == "in_doubt"
        await app.inbox.resolve(row, "retry", by="ben")
        again = await until_status(app, state.id, "approved")
        assert again.digest != state.digest
        with pytest.raises(Conflict, match="not the call as you were shown"):
            await app.asks.claim(state.id, state.digest, "job")
        assert (await app.asks.claim(state.id, again.digest, "job")).attempts == 2
        with pytest.raises(Conflict, match="already claimed"):  # a claim of the first attempt that comes late
            await app.asks.claim(state.id, state.digest, "job")
        unknown = await app.asks.report(state.id, "job", "unknown", "the connection was cut")
        assert (unknown.status, unknown.reason) == ("in_doubt", "the connection was cut")


async def until_status(app: App, ask: str, status: str) -> AskState:
    async def there() -> AskState | None:
        state = await app.asks.get(ask)
        return state if state.status == status else None

    return await until(there)


async def test_an_approval_that_is_not_claimed_in_time_asks_again() -> None:
    async with office() as app:
        asked = await app.asks.ask(refund(terms=Approval(execute_by=0.1)))
        state = await approved(app, asked)
        await until(lambda: _asked_twice(app, state.id))
        with pytest.raises(Conflict):
            await app.asks.claim(state.id, state.digest, "job")
        assert (await app.asks.get(state.id)).attempts == 0


async def _asked_twice(app: App, ask: str) -> bool:
    state = await app.asks.get(ask)
    return state.status == "pending" and state.asked > 1


async def test_a_claim_outlives_the_cancellation_of_its_run_and_is_in_doubt_by_its_time() -> None:
    async with office() as app:
        for name, lasts in (("reports", "1m"), ("is silent", "200ms")):
            state = await approved(app, await app.asks.ask(refund(name)))
            await app.asks.claim(state.id, state.digest, "job", lasts=lasts)
            await app.inbox.cancel(state.id, by="ann")
            assert (await app.asks.get(state.id)).status == "claimed"
            if name == "reports":
                await app.asks.hold(state.id, "job")
                assert (await app.asks.report(state.id, "job", "succeeded", "paid")).status == "succeeded"
            else:
                assert (await until_status(app, state.id, "in_doubt")).claimed_until is None


async def test_who_comes_between_changes_what_a_withdrawal_and_a_report_rest_on(monkeypatch: Any) -> None:
    """Found by racing processes: a claim and a withdrawal both succeeded, and the report of that claim was refused."""
    append, first = MemoryJournal.append, list[Any]()

    async def late(self: Any, *given: Any) -> Any:
        if first:
            await first.pop()()
        return await append(self, *given)

    monkeypatch.setattr(MemoryJournal, "append", late)
    async with office() as app:
        state = await approved(app, await app.asks.ask(refund()))
        first.append(lambda: app.asks.claim(state.id, state.digest, "job"))
        with pytest.raises(Conflict, match="cannot be withdrawn: it is claimed"):
            await app.asks.withdraw(state.id)
        assert (await app.get(state.id)).status != "cancelled"
        first.append(lambda: app.inbox.cancel(state.id, by="ann"))
        assert (await app.asks.report(state.id, "job", "succeeded", "paid")).status == "succeeded"
        again = await approved(app, await app.asks.ask(refund("o2")))
        await app.asks.claim(again.id, again.digest, "job")
        first.append(lambda: app.asks.report(again.id, "job", "succeeded"))
        assert (await app.asks.report(again.id, "job", "succeeded")).status == "succeeded"
        twice = await app.asks.ask(refund("o3"))
        await pending(app, twice)
        first.append(lambda: app.asks.withdraw(twice.id))
        assert (await app.asks.withdraw(twice.id)).status == "withdrawn"


async def test_a_claim_that_is_cancelled_holds_up_no_other(monkeypatch: Any) -> None:
    lease, taken = MemoryJournal.claim, asyncio.Event()

    async def slow(self: Any, run: str, *given: Any) -> Any:
        made = await lease(self, run, *given)
        if run == state.id and not taken.is_set():
            taken.set()
            await turns_of_the_loop(3)  # its answer is on its way
        return made

    monkeypatch.setattr("keyturn.asks.service._TRIES", 3)
    async with office() as app:
        state = await approved(app, await app.asks.ask(refund()))
        monkeypatch.setattr(MemoryJournal, "claim", slow)
        claiming = asyncio.ensure_future(app.asks.claim(state.id, state.digest, "job"))
        await taken.wait()
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        assert (await app.asks.claim(state.id, state.digest, "job")).claimed_by == "external job"


async def test_no_worker_and_no_resume_runs_what_a_caller_is_to_run(tmp_path: Any) -> None:
    journal = f"sqlite:///{tmp_path}/j.db"
    async with office(journal) as app:
        state = await approved(app, await app.asks.ask(refund()))
    async with office(journal) as app:  # another process takes the run up
        assert (await until_status(app, state.id, "approved")).attempts == 0
        await app.asks.claim(state.id, state.digest, "job")
    async with office(journal) as app:  # what a caller has is not lost with a worker
        assert (await app.asks.get(state.id)).status == "claimed"
        await app.asks.report(state.id, "job", "failed", "no funds")
        assert (await app.asks.get(state.id)).result == "no funds"


async def test_a_grant_covers_later_requests_of_the_same_account() -> None:
    async with office() as app:
        first = await app.asks.ask(refund(), account="ci", requester="ci")
        await app.inbox.approve(await pending(app, first), by="ben", grant=Grant(scope="agent"))
        second = await app.asks.ask(refund("o2"), account="ci")
        second = await app.asks.wait(second.id, 30, account="ci")
        assert second.status == "approved"
        assert (await app.asks.claim(second.id, second.digest, "job", account="ci")).status == "claimed"
        other = await app.asks.ask(refund("o3"), account="cd", requester="ci")
        assert (await pending(app, other)).state == "open"


async def test_the_client_asks_with_the_words_of_the_app() -> None:
    async with office() as app:
        people = await peopled(app)
        tokens: dict[str, str] = {}
        for name in ("ci", "cd"):
            await app.people.add(name, kind="machine", by="ada")
            tokens[name] = await app.people.issue_token(name, ["ask"], by="ada")
        transport = httpx2.ASGITransport(app=app.asgi())
        ci, cd = (AsyncClient("http://localhost", tokens[name], transport=transport) for name in ("ci", "cd"))
        async with ci, cd:
            asked = await ci.asks.ask(refund(terms=Approval(not_requester=True)), requester="cyd")
            assert (await ci.asks.ask(refund(terms=Approval(not_requester=True)), requester="cyd")).id == asked.id
            row = await pending(app, asked)
            assert (row.request.requester, row.params) == ("cyd", {"order": "A1", "amount": 5.0})
            with pytest.raises(NotAllowed):
                await app.inbox.approve(row, by=Login("cyd"))
            waiting = asyncio.ensure_future(ci.asks.wait(asked.id, 30))
            await app.inbox.approve(row, by=Login("ben"), undo="300ms")
            state = await waiting
            assert (state.status, state.arguments) == ("approved", ARGUMENTS)
            with pytest.raises(NotPending):
                await cd.asks.claim(state.id, state.digest, "job")
            held = await ci.asks.claim(state.id, state.digest, "job", lasts="1h")
            assert held.claimed_until is not None
            await ci.asks.hold(state.id, "job", lasts="2h")
            with pytest.raises(Conflict):
                await ci.asks.withdraw(state.id)
            assert (await ci.asks.report(state.id, "job", "succeeded", "done")).result == "done"
            with pytest.raises(Conflict):
                await ci.asks.ask(refund(arguments="{}"), requester="cyd")
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            forged = {"agent": "external", "input": (await log_in(app.journal, asked.id)).run.input}
            token = {"authorization": f"Bearer {people['bot']}"}
            assert (await http.post("/v1/runs", json=forged, headers=token)).status_code == 422
            named = {"key": "k", "tool": "refund", "requester": "cyd"}  # and so ada would approve her own call
            token = {"authorization": f"Bearer {people['only ask']}"}
            assert (await http.post("/v1/asks", json=named, headers=token)).status_code == 403


async def test_people_are_notified_of_a_request_from_outside_and_that_it_was_decided() -> None:
    mail = Recorder()
    async with App([ExternalAgent()], "memory://", channels=[mail]) as app:
        asked = await app.asks.ask(refund())
        await until(lambda: mail.told)
        await approved(app, asked)
        await until(lambda: len(mail.told) == 2)
        assert mail.topics == ["created", "decided"]
        assert "refund" in mail.told[0].title


async def test_a_client_waits_on_where_the_server_has_no_place_for_it_or_is_away(monkeypatch: Any) -> None:
    def full(_places: StreamPlaces, _person: str) -> None:
        raise TooManyStreams(5)

    def away(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503)

    for name in ("keyturn.client.asks._PAUSE", "keyturn.client.sending._PAUSE"):
        monkeypatch.setattr(name, 0.01)
    monkeypatch.setattr(StreamPlaces, "check", full)  # as 20 other calls of the account that wait do
    async with office() as app:
        await peopled(app)
        await app.people.add("ci", kind="machine", by="ada")
        token = await app.people.issue_token("ci", ["ask"], by="ada")
        async with AsyncClient("http://localhost", token, transport=httpx2.ASGITransport(app=app.asgi())) as ci:
            asked = await ci.asks.ask(refund())
            assert (await ci.asks.wait(asked.id, 0.1)).status == "pending"
            waiting = asyncio.ensure_future(ci.asks.wait(asked.id, 30))
            await app.inbox.approve(await pending(app, asked), by="ben")
            assert (await waiting).status == "approved"
        async with AsyncClient("http://localhost", token, transport=httpx2.MockTransport(away)) as ci:
            with pytest.raises(ServerError):
                await ci.asks.wait(asked.id, 0.1)


async def test_what_is_secret_is_shown_nowhere_and_the_caller_gets_it() -> None:
    text = '{"order": "A1", "card": "4929-SECRET"}'
    async with office() as app:
        await peopled(app)
        asked = await app.asks.ask(refund(arguments=text, secrets=("card",)), account="ci")
        row = await pending(app, asked)
        assert "SECRET" not in row.body
        transport = httpx2.ASGITransport(app=app.asgi())
        token = await app.people.issue_token("ada", ["read", "decide"], by="ada")
        async with AsyncClient("http://localhost", token, transport=transport) as client:
            detail = await client.inbox.detail(row.id)
            lines = [line async for line in client.events(asked.id, words=True, follow=False)]
        for shown in (detail, lines):
            assert "SECRET" not in str(shown)
        assert "ci requests approval to run refund." in str(detail)
        await app.inbox.approve(row, by="ben")
        state = await app.asks.wait(asked.id, 30, account="ci")
        assert (await app.asks.claim(state.id, state.digest, "job", account="ci")).arguments == text


async def test_an_approval_that_can_be_undone_is_pending_until_then_and_holds_up_no_claim() -> None:
    async with office() as app:
        asked = await app.asks.ask(refund())
        row = await pending(app, asked)
        waiting = asyncio.ensure_future(app.asks.wait(asked.id, 30))
        await app.inbox.approve(row, by="ben", undo="300ms")
        shown = await app.asks.get(asked.id)
        assert (shown.status, shown.undo_until is not None) == ("pending", True)
        with pytest.raises(Conflict, match="can be undone until"):
            await app.asks.claim(asked.id, shown.digest, "job")
        state = await waiting
        assert (state.status, state.undo_until) == ("approved", None)
        assert (await app.asks.claim(state.id, state.digest, "job")).status == "claimed"

        asked = await app.asks.ask(refund("o2"))
        row = await app.inbox.approve(await pending(app, asked), by="ben", undo="60s")
        await app.inbox.withdraw(row, by="ben")
        shown = await app.asks.get(asked.id)
        assert (shown.status, shown.undo_until, shown.asked) == ("pending", None, 2)

        await app.inbox.approve(await pending(app, asked), by="ben", undo="60s")
        await app.inbox.cancel(asked.id, by="ann")
        shown = await app.asks.get(asked.id)
        assert (shown.status, shown.undo_until) == ("withdrawn", None)


async def test_a_list_says_from_where_a_request_comes_as_its_caller_states_it() -> None:
    async with office() as app:
        stated = refund(context={"framework": "Claude Code", "host": "build-7", "folder": "/srv/" + "long/" * 30})
        row = await pending(app, await app.asks.ask(stated))
        shown = row_of(row, 0).path
        assert shown.startswith(f"{row.agent} (Claude Code · host build-7 · folder /srv/")
        assert len(shown) < 90
        assert row_of(await pending(app, await app.asks.ask(refund("o2"))), 0).path == row.agent


async def test_a_framework_is_not_read_as_another_part_of_a_source() -> None:
    read = {name: name for name in ("host x", "framework", "framework host x", "host", "Codex")}
    async with office() as app:
        for key, framework in (read | {"folder /a · host y": "folder /a - host y", "·": "", "x ·": "x"}).items():
            asked = await app.asks.ask(refund(key, context={"framework": key, "host": "build-7"}))
            source = source_of((await pending(app, asked)).request)
            assert source == RequestSource(framework, "build-7"), key


async def test_requests_behind_one_whose_log_is_damaged_are_withdrawn(monkeypatch: Any) -> None:
    async with office() as app:
        rows = [await pending(app, await app.asks.ask(refund(str(n)), account="bot")) for n in range(3)]
        within = AskService.withdraw

        async def withdraw(self: AskService, id: str, **more: Any) -> AskState:
            if id == rows[1].run:
                raise LogDamaged(id, 1, "its seal does not fit")
            return await within(self, id, **more)

        monkeypatch.setattr(AskService, "withdraw", withdraw)
        await app.asks.withdraw_all("bot", why="deleted")
        assert [row.run for row in await app.inbox.list()] == [rows[1].run]


async def test_decisions_that_run_nothing_are_delivered_once_and_nothing_else_is_let_run_so() -> None:
    async with office() as app:
        asked = await app.asks.ask(refund())
        with pytest.raises(UserError, match="a call of 'resume'"):
            refund("o2", delivers=(asked.id,))
        for more in ({"server": "billing"}, {"description": "Resume a subscription."}, {"schema": {"type": "object"}}):
            with pytest.raises(UserError, match="of no server"):
                Ask(key="d0", tool="resume", delivers=(asked.id,), **more)
        with pytest.raises(UserError, match="once"):
            Ask(key="d0", tool="resume", delivers=(asked.id, asked.id))
        gone = await app.asks.withdraw((await app.asks.ask(refund("o3"))).id)
        with pytest.raises(Conflict, match="it is withdrawn"):
            await app.asks.ask(Ask(key="d0", tool="resume", delivers=(gone.id,)))
        delivery = Ask(key="d1", tool="resume", delivers=(asked.id,))
        with pytest.raises(Conflict, match="it is pending"):
            await app.asks.ask(delivery)
        await app.inbox.reject(await pending(app, asked), by="ada")
        await until(lambda: _ended(app, asked))
        with pytest.raises(RunMissing):
            await app.asks.ask(delivery, account="eve")
        made = await app.asks.wait((await app.asks.ask(delivery)).id, 30)
        claims = [app.asks.claim(made.id, made.digest, name) for name in ("one", "two")]
        results = await asyncio.gather(*claims, return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == ["AskState", "Conflict"]
    async with office(policy=Policy(deny(tool="resume"))) as app:
        asked = await app.asks.ask(refund())
        await app.inbox.reject(await pending(app, asked), by="ada")
        await until(lambda: _ended(app, asked))
        made = await app.asks.ask(Ask(key="d1", tool="resume", delivers=(asked.id,)))
        assert (await app.asks.wait(made.id, 30)).status == "rejected"


async def _ended(app: App, state: AskState) -> bool:
    return (await app.asks.get(state.id)).ended
