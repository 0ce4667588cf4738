"""An approval chain on pages, in the API and in the lists: what is due, whose it is, and what a vote comes to."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2

from keyturn import Agent, App, Approval, Decider, MemoryJournal, ToolContext, function_tool
from keyturn.audit.checker import check
from keyturn.directory.login import Login
from keyturn.directory.recipients import DirectoryRecipients
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.tools.base import NeedsInput
from tests.server.office import opened, peopled
from tests.server.web.test_moment_of_decision import button, words
from tests.server.web.visiting import Visiting


@function_tool(approval=Approval(steps=[Approval(role="ops", expires="4h"), Approval(role="finance")]))
def wire(to: str, amount: int) -> str:
    """Wire money."""
    return f"wired {amount} to {to}"


def bank() -> Agent[Any]:
    return Agent("bank", model=ScriptedModel([function_call("wire", {"to": "ann", "amount": 5}), "ok"]), tools=[wire])


async def chained() -> tuple[App, dict[str, str], str]:
    app = App([bank()], MemoryJournal())
    tokens = await peopled(app)
    return app, tokens, (await opened(app))["bank"]


async def test_each_step_is_shown_to_those_whose_it_is() -> None:
    app, tokens, name = await chained()
    async with app:
        ada, ben, page = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"]), f"/requests/{name}"
        for person, channel in (("ada", "mail"), ("ben", "mail")):
            await app.people.set_address(person, channel, f"{person}@example.org", by="ada")
        told = DirectoryRecipients(app.people)

        async def notified() -> list[str]:
            return [each.person for each in await told((await app.inbox.get(name)).request)]

        first = words(await ada.see(page))
        assert 'who decides step 1 of 2: approval from role "ops" then approval from role "finance"' in first
        early = await ben.see(page)
        assert "You can decide step 2 of 2, once the steps before it are approved." in words(early)
        assert (button("approve") in early.text, await notified()) == (False, ["ada"])
        answer = await ada.send(f"{page}/decide", {**await ada.fields(page), "verdict": "approve"})
        assert answer.status_code in (200, 303)
        own = await ada.see(page)
        assert (
            'You approved step 1 of 2. Step 2 of 2: one approval from role "finance" is needed: ben. Withdraw my vote'
            in words(own)
        )
        assert "approved step 1 of 2 ada" in words(own)
        assert (button("approve") in own.text, await notified()) == (False, ["ben"])
        due = await ben.see(page)
        assert (button("approve") in due.text, "approved step 1 of 2 ada" in words(due)) == (True, True)
        assert (f"{page}/edit" in due.text, f"{page}/grant" in due.text) == (False, False)
        await ben.decide(name, "approve")
        assert (await app.inbox.get(name)).state == "approve"


async def test_a_form_of_an_earlier_step_decides_nothing_of_the_next() -> None:
    app, tokens, name = await chained()
    async with app:
        await app.people.give_role("ops", to="ben", by="ada")
        ben, page = Visiting(app, tokens["ben"]), f"/requests/{name}"
        old = {**await ben.fields(page), "verdict": "approve"}
        await Visiting(app, tokens["ada"]).decide(name, "approve")
        late = await ben.send(f"{page}/decide", old)
        assert "no longer the one that was shown" in words(late)
        assert (await app.inbox.get(name)).request.votes == ()


async def test_a_page_is_told_what_became_of_its_request_whatever_its_list_shows() -> None:
    """Who had met a step, and lists what is theirs to decide, was told that the request was no longer pending."""
    app, tokens, name = await chained()
    async with app:
        ada, run = Visiting(app, tokens["ada"]), (await app.inbox.get(name)).run
        await ada.decide(name, "approve")
        told = json.loads((await ada.first_event(f"/live?mine=1&run={run}")).partition("data: ")[2])
        assert (told["rows"], told["open"]) == ([], [f"{name}.2"])


async def test_the_auditor_counts_a_look_in_the_step_in_which_somebody_looked() -> None:
    """Each chain that was decided on pages, which record looks, was reported to be counted otherwise than logged."""
    clock = [1_790_000_000_000]
    app = App([bank()], MemoryJournal(lambda: clock[0]))
    await peopled(app)
    name = (await opened(app))["bank"]
    async with app:
        for person in ("ada", "ben"):
            clock[0] += 60_000
            await app.inbox.looked(await app.inbox.get(name), by=Login(person))
            clock[0] += 5_000
            await app.inbox.approve(await app.inbox.get(name), by=Login(person))
    assert (await check(app.journal)).violations == []


async def test_the_auditor_names_a_voter_once_though_another_voted_in_their_place() -> None:
    @function_tool(approval=Approval(steps=[Approval(role="ops", quorum=2), Approval(role="finance")]))
    def wire(to: str) -> str:
        """Wire money."""
        return f"wired to {to}"

    model = ScriptedModel([function_call("wire", {"to": "ann"}), "ok"])
    app = App([Agent("bank", model=model, tools=[wire])], MemoryJournal())
    name = (await opened(app))["bank"]
    for who, principal in (("ben", ""), ("eve", "ben"), ("cyd", "")):  # two people, of whom one is there twice
        by = Decider(who, roles=("ops",), strength="authenticated", acting_for=principal)
        await app.inbox.approve(await app.inbox.get(name), by=by)
    assert (await app.inbox.get(name)).request.not_for == ("ben", "eve", "cyd")
    assert (await check(app.journal)).violations == []


async def test_a_chain_is_decided_over_http_and_the_audit_names_each_step() -> None:
    app, _tokens, name = await chained()
    async with app:
        tokens = {who: await app.people.issue_token(who, ["decide", "read"], by="ada") for who in ("ada", "ben")}
        transport = httpx2.ASGITransport(app=app.asgi())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:

            async def ask(who: str, method: str, path: str, **body: Any) -> Any:
                given: dict[str, Any] = {"json": body} if method == "POST" else {}
                return await http.request(
                    method, f"/v1{path}", headers={"authorization": f"Bearer {tokens[who]}"}, **given
                )

            asked = (await ask("ada", "GET", f"/requests/{name}")).json()
            shown = asked.get("request", asked)
            assert (shown["step"], shown["steps"], shown["terms"]["then"]) == (1, 2, {"role": "finance"})
            mine = (await ask("ben", "GET", "/requests?for=me")).json()["requests"]
            early = await ask("ben", "POST", f"/requests/{name}/approve", digest=shown["digest"])
            assert (mine, early.status_code) == ([], 403)
            made = await ask("ada", "POST", f"/requests/{name}/approve", digest=shown["digest"])
            assert (made.status_code, made.json()["settled"]) == (200, False)
            again = await ask("ada", "POST", f"/requests/{name}/approve", digest=shown["digest"])
            assert (again.status_code, again.json()["line"]) == (200, made.json()["line"])
            due = (await ask("ben", "GET", "/requests?for=me")).json()["requests"][0]
            assert (due["step"], [vote["by"] for vote in due["met"][0]["votes"]], due["revision"]) == (2, ["ada"], 2)
            last = await ask("ben", "POST", f"/requests/{name}/approve", digest=due["digest"])
            assert last.json()["settled"] is True
        run = (await app.inbox.get(name)).run
        await app.result(run, 20)
        session = await app.people.begin_session("ada", "password", lasts="1h")
        page = words(await Visiting(app, session).see(f"/runs/{run}"))
        assert re.search(r"approved step 1 of 2.*step 2 of 2", page)
        assert (await app.audit.verify()).faults == []


async def test_what_a_tool_asks_after_its_chain_is_no_step_of_it_and_the_record_agrees() -> None:
    """Its request has no steps any more, and who voted in them may answer it where its terms let them."""

    @function_tool(approval=Approval(steps=[Approval(role="ops"), Approval(role="finance")]))
    def wire(context: ToolContext[Any], to: str) -> Any:
        """Wire money."""
        return "wired" if context.resumed else NeedsInput({"question": "From which account?"})

    model = ScriptedModel([function_call("wire", {"to": "ann"}), "ok"])
    app = App([Agent("bank", model=model, tools=[wire])], MemoryJournal())
    await peopled(app)
    async with app:
        name = (await opened(app))["bank"]
        for person in ("ada", "ben"):
            await app.inbox.approve(await app.inbox.get(name), by=Login(person))
        run = (await app.inbox.get(name)).run
        await app.wait(run, 20)
        [asked] = await app.inbox.list()
        shown = asked.request
        assert (asked.kind, shown.step, shown.steps, shown.met, shown.not_for) == ("external", 0, 0, (), ())
        assert (await check(app.journal)).ok
        await app.inbox.answer(asked, "main", by=Login("ben"))
        await app.result(run, 20)
        assert (await check(app.journal)).ok
