"""What a page says once somebody decided: what was recorded, who is still needed, and what can be undone."""

from __future__ import annotations

import html
import re
import threading
from typing import Any

import pytest

from keyturn import Agent, App, Approval, CustomTool, MemoryJournal, Runner, RunState, function_tool
from keyturn.core.errors import LogDamaged
from keyturn.directory.login import Login
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call
from keyturn.server.web import inbox
from keyturn.server.web.beside import edit_of
from keyturn.tools.base import OutcomeUnknown
from keyturn.wire.detail import RequestDetail
from tests.server.office import Clock, office, opened, peopled
from tests.server.web.visiting import Visiting
from tests.waiting import until_status

PARTIAL = {"hx-request": "true"}


async def staffed(*names: str, agents: Any = None) -> tuple[App, dict[str, str], dict[str, str]]:
    app = App(office() if agents is None else agents, MemoryJournal())
    tokens = await peopled(app)
    return app, tokens, await opened(app, *names)


def words(answer: Any) -> str:
    """Return the words of a page without its tags, each space once."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def button(verdict: str) -> str:
    return f'name="verdict" value="{verdict}"'


async def test_the_answer_names_who_is_still_needed_and_the_used_button_is_gone() -> None:
    app, tokens, asked = await staffed("support")
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        name, page = asked["support"], f"/requests/{asked['support']}"
        for reader, named in ((ada, "you, ben"), (ben, "ada, you")):
            seen = words(await reader.see(page))
            assert f'2 approvals from role "finance" are needed: {named}.' in seen
            # only an administrator can configure a channel
            assert ("No notification channel is configured" in seen) == (reader is ada)
        form = {**await ada.fields(page), "verdict": "approve"}
        answer = await ada.send(f"{page}/decide", form, **PARTIAL)
        told = 'You approved (1 of 2). One more approval from role "finance" is needed: ben. Withdraw my vote'
        assert told in words(answer)
        assert (button("approve") in answer.text, button("reject") in answer.text) == (False, True)
        assert "1 of 2 approvals" in answer.text.split("<template data-row>")[1]
        seen = await ben.see(page)
        assert "Rejecting ends the request for everyone and overrules 1 approval. It cannot be undone." in words(seen)
        assert 'One more approval from role "finance" is needed: you.' in words(seen)
        again = await ada.decide(name, "withdraw")
        assert again.status_code == 303
        open_again = await ada.see(page)
        assert (button("approve") in open_again.text, "You approved" in open_again.text) == (True, False)
        assert "vote withdrawn ada" in words(open_again)
        assert "You withdrew your vote. 2 approvals from role" in words(open_again)
        for visitor in (ada, ben):
            await visitor.decide(name, "approve")
        whole = words(await ada.see(page))
        assert "You and ben approved this call." in whole
        assert "Approved by ada and ben" in whole
        assert "You and ada approved this call." in words(await ben.see(page))


async def test_an_undone_approval_of_a_quorum_says_that_all_votes_went_with_it() -> None:
    app = App(office(), MemoryJournal())
    tokens, asked = await peopled(app), await opened(app, "support")
    await app.stop()
    app.embedded = False
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        page = f"/requests/{asked['support']}"
        assert "others decide" not in words(await ben.see("/"))
        assert "others decide" in words(await Visiting(app, tokens["cyd"]).see("/"))  # who asked for it
        await ben.decide(asked["support"], "approve")
        assert "1 of 2 approvals you approved" in words(await ben.see("/"))
        await ada.decide(asked["support"], "approve")
        before = await app.journal.head((await app.inbox.get(asked["support"])).run)
        await ada.decide(asked["support"], "withdraw")
        await ada.send(f"{page}/looked", await ada.fields(page))
        told = 'All votes were withdrawn with it. 2 approvals from role "finance" are needed: you, ben.'
        assert told in words(await ada.see(page))
        changed = await ben.see(f"{page}?since={before}", **PARTIAL)
        assert "ada : approval withdrawn, with the votes of others" in words(changed)
        assert "ada withdrew the approval, and with it your vote. 2 approvals from role" in words(await ben.see(page))
        await ben.decide(asked["support"], "approve")
        await ada.decide(asked["support"], "reject", note="paid", message="It was paid.")
        assert "ada decided it, against your vote: rejected." in words(await ben.see(page))


async def test_an_open_page_is_drawn_as_a_whole_with_its_row_and_with_what_others_did() -> None:
    clock = Clock()
    app = App(office(), MemoryJournal(clock))
    tokens, asked = await peopled(app), await opened(app, "support", "ops")
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        page = f"/requests/{asked['support']}"
        [head] = re.findall(r'data-from="/requests/\w+" data-head="(\d+)"', (await ben.see(page)).text)
        [before] = re.findall(r'data-stand="(\w+)"', (await ben.see(f"/rows?row={asked['support']}")).text)
        await ada.decide(asked["support"], "take")
        await ada.decide(asked["support"], "approve")
        anew = await ben.see(f"{page}?since={head}", **PARTIAL)
        assert "Changed while this page was open. ada : claimed; ada : 1 of 2 approvals." in words(anew)
        assert f'data-since="{head}"' in anew.text
        [after] = re.findall(r'data-stand="(\w+)"', anew.text)
        assert (after != before, "claimed by ada" in anew.text.split("<template data-row>")[1]) == (True, True)
        assert "Changed while" not in (await ada.see(f"{page}?since={head}", **PARTIAL)).text  # their own doing
        await app.stop()
        clock.now += 600_000
        late, row = await ada.see(f"/requests/{asked['ops']}"), await ada.see(f"/rows?row={asked['ops']}&row=none")
        assert "The deadline passed" in words(late)
        assert "Its deadline passed: it is being rejected." in words(late)
        assert (button("approve") in late.text, "data-until" in late.text) == (False, False)
        assert (words(row).count("deadline passed"), row.text.count("<li>")) == (1, 1)


async def test_an_approval_is_undone_before_its_call_starts_but_for_high_risk() -> None:
    app, tokens, asked = await staffed("notices", "ci")
    async with app:
        ada = Visiting(app, tokens["ada"], undo="60s")
        page = f"/requests/{asked['notices']}"
        await ada.decide(asked["notices"], "approve")
        held = await ada.see(page)
        assert ('data-undo="' in held.text, button("withdraw") in held.text) == (True, True)
        await ada.decide(asked["notices"], "withdraw")
        assert (await app.inbox.get(asked["notices"])).state == "open"
        assert "You withdrew the approval. The call did not run, and is pending approval" in words(await ada.see(page))
        risky = words(await ada.see(f"/requests/{asked['ci']}"))
        assert "High risk: once approved, the call starts at once, and then cannot be undone." in risky
        await ada.decide(asked["ci"], "approve")
        assert "data-undo" not in (await ada.see(f"/requests/{asked['ci']}")).text


async def test_an_edited_call_shows_what_was_requested_and_what_was_approved() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['notices']}"
        changed = {**await ada.fields(f"{page}/edit"), "arg.channel": "#dev", "arg.text": "Short."}
        [mark] = re.findall(r'name="looked" value="([0-9a-f]{64})"', (await ada.send(f"{page}/change", changed)).text)
        await ada.send(f"{page}/edit", {**changed, "looked": mark})
        await app.result((await app.inbox.get(asked["notices"])).run, 20)
        shown = words(await ada.see(page))
        approved, changed = shown.index("As approved"), shown.index("Changes to what was requested")
        assert approved < shown.index('channel: "#dev"') < changed < shown.index("#ops")
        assert "The result sent to #dev" in shown  # without the notice of the edit, which the model reads


async def test_the_text_of_a_tool_that_takes_nothing_else_is_shown_as_requested_and_as_approved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = list[int]()

    def noting(steps: Any, call: str) -> Any:
        threads.append(threading.get_ident())
        return edit_of(steps, call)

    monkeypatch.setattr(inbox, "edit_of", noting)
    query = CustomTool("query", "Runs a query.", lambda _context, text: f"ran {text}", needs_approval=True)
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "query", "input": "select 1"}
    agents = [Agent("desk", model=ScriptedModel([call, "ok"]), tools=[query])]
    app, tokens, asked = await staffed("desk", agents=agents)
    async with app:
        row = await app.inbox.get(asked["desk"])
        await app.inbox.approve(row.id, by="ada", edit="select 2", digest=row.digest)
        await app.result(row.run, 20)
        shown = words(await Visiting(app, tokens["ada"]).see(f"/requests/{row.id}"))
        assert "The result ran select 2 As approved" in shown
        changes = shown.index("Changes to what was requested")
        assert changes < shown.index("select 1", changes) < shown.index("select 2", changes)
    assert threads
    assert threading.get_ident() not in threads, "a long change would stop the server for seconds"


async def test_an_edit_that_was_undone_stays_and_the_page_says_what_would_run_now() -> None:
    app, tokens, asked = await staffed("notices")
    async with app:
        ada, page = Visiting(app, tokens["ada"], undo="60s"), f"/requests/{asked['notices']}"
        changed = {**await ada.fields(f"{page}/edit"), "arg.channel": "#dev", "arg.text": "Short."}
        [mark] = re.findall(r'name="looked" value="([0-9a-f]{64})"', (await ada.send(f"{page}/change", changed)).text)
        await ada.send(f"{page}/edit", {**changed, "looked": mark})
        await ada.decide(asked["notices"], "withdraw")
        shown = words(await ada.see(page))
        told = shown.index("ada changed the arguments. What is shown here runs")
        assert told < shown.index('channel: "#dev"', told) < shown.index("Changes to what was requested")
        await ada.decide(asked["notices"], "approve")
        assert (await app.inbox.get(asked["notices"])).state == "approve"
        facts = await app.inbox.as_person(Login("ada", ("read",))).facts(asked["notices"])
        sent = RequestDetail.of(facts, 0)  # what a terminal at a server gets
        assert sent.edited is not None
        assert (sent.edited.after["channel"], sent.facts.recorded) == ("#dev", facts.recorded)


async def test_a_rejected_question_takes_a_reason() -> None:
    app, tokens, asked = await staffed("asker")
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['asker']}"
        asked_page = await ada.see(page)
        assert 'data-opens="words" data-says="Reject this question"' in asked_page.text
        assert "If no choice is right, reject the question with a reason" in words(asked_page)
        await ada.decide(asked["asker"], "reject", message="Neither: it is Kiel.")
        await app.result((await app.inbox.get(asked["asker"])).run, 20)
        shown = words(await ada.see(page))
        assert "You rejected this question. The agent reads that it was not answered, with your reason" in shown
        assert "Choices: Bremen , Hamburg ." in shown


@function_tool(needs_approval=True)
def tag(names: list[str], amount: int) -> str:
    """Tag."""
    return f"tagged {names}"


async def test_a_condition_of_a_grant_is_filled_in_for_each_argument_in_its_own_type() -> None:
    app, tokens, asked = await staffed("support")
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['support']}"
        form = {**await ada.fields(f"{page}/grant"), "which": "fields", "way.amount": "le", "value.amount": "150"}
        assert "arguments where amount is at most 150" in words(await ada.send(f"{page}/covers", form))
        wrong = await ada.send(f"{page}/covers", {**form, "value.amount": "many"})
        assert "amount: enter a number" in words(wrong)


@function_tool(needs_approval=True)
def mail(to: str, cc: list[str] | None = None) -> str:
    """Mail."""
    return f"mailed {to} and {cc}"


async def test_a_list_that_was_left_out_has_rows_in_the_edit_form_and_stays_left_out_if_they_are_empty() -> None:
    call = function_call("mail", {"to": "ann"})
    app, tokens, asked = await staffed("desk", agents=[Agent("desk", model=ScriptedModel([call, "ok"]), tools=[mail])])
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['desk']}"
        form = await ada.fields(f"{page}/edit")
        assert "as JSON" not in (await ada.see(f"{page}/edit")).text
        assert "No changes yet." in (await ada.send(f"{page}/change", form)).text
        drawn = words(await ada.send(f"{page}/change", {**form, "arg.cc": "bob\r\ncyd"}))
        assert 'cc: ["bob", "cyd"]' in drawn


async def test_a_list_has_rows_and_what_a_field_takes_is_said_of_it() -> None:
    call = function_call("tag", {"names": ["a", "b"], "amount": 1})
    app, tokens, asked = await staffed("desk", agents=[Agent("desk", model=ScriptedModel([call, "ok"]), tools=[tag])])
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['desk']}"
        form = await ada.fields(f"{page}/edit")
        assert ">\na\nb</textarea>" in (await ada.see(f"{page}/edit")).text
        wrong = await ada.send(f"{page}/edit", {**form, "arg.names": "a\nb", "arg.amount": "many"})
        assert "amount: enter a number." in words(wrong)
        assert 'value="many"' in wrong.text
        drawn = await ada.send(f"{page}/change", {**form, "arg.names": "a\r\n\r\nc\r\n", "arg.amount": "1"})
        assert 'names: ["a", "c"]' in words(drawn)


async def test_a_question_that_was_answered_without_another_request_stays_in_the_list() -> None:
    replies: list[Any] = [[function_call("tag", {"names": ["a"], "amount": 1})], "The second list."]
    app, tokens, asked = await staffed("desk", agents=[Agent("desk", model=ScriptedModel(replies), tools=[tag])])
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['desk']}"
        assert "This request closes, and the call does not run." in words(await ada.see(page))
        await ada.decide(asked["desk"], "ask_back", message="Which list?")
        await app.result((await app.inbox.get(asked["desk"])).run, 20)
        assert "The agent answered. It did not request approval again. Read the answer" in words(await ada.see(page))
        assert asked["desk"] in (await ada.see("/")).text


async def _unreadable(*_asked: Any) -> Any:
    raise LogDamaged("5e1f", 0, "does not fold")


async def test_a_question_and_its_answer_stand_with_the_request_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    call = [function_call("tag", {"names": ["a"], "amount": 1})]
    replies: list[Any] = [call, [assistant_message("The second list."), *call], "ok"]
    agent = Agent("desk", model=ScriptedModel(replies), tools=[tag])
    app, tokens, asked = await staffed("desk", agents=[agent])
    await app.stop()  # the agent does not answer yet
    app.embedded = False
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['desk']}"
        await ada.decide(asked["desk"], "ask_back", message="Which list?")
        listed = await ada.see("/")
        assert "Questions to agents" in words(listed)
        assert asked["desk"] in listed.text
        assert "Which list? The agent has not answered yet." in words(await ada.see(page))
        decides = Visiting(app, await app.people.issue_token("ada", ("decide",), by="ada"), program=True)
        assert "Questions to agents" not in words(await decides.see(page))  # it may not read lists
        with monkeypatch.context() as damaged:
            damaged.setattr("keyturn.server.web.lately.log_in", _unreadable)
            assert "No pending requests." in words(await ada.see("/"))
        run = (await app.inbox.get(asked["desk"])).run
        await Runner.run(agent, await RunState.load(app.journal, run, agent))
        [row] = await app.inbox.list()
        assert "Questions to agents" not in words(await ada.see("/"))
        seen = words(await ada.see(f"/requests/{row.id}"))
        assert "ada asked the agent" in seen
        assert seen.index("Which list?") < seen.index("The second list.")
        assert (
            f'Read the answer</a> or <a href="/requests/{row.id}">open the new request</a>'
            in (await ada.see(page)).text
        )


async def test_a_grant_says_how_many_of_the_latest_requests_it_would_have_covered() -> None:
    app, tokens, _asked = await staffed("notices", "notices", "notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        name = (await app.inbox.list())[0].id
        page = await ada.see(f"/requests/{name}/grant")
        assert "It would have covered 2 of the last 2 requests for this tool." in words(page)
        assert 'value="requester" checked' in page.text
        form = {**await ada.fields(f"/requests/{name}/grant"), "limit": "lasts", "lasts": "1h", "which": "0"}
        narrow = await ada.send(f"/requests/{name}/covers", {**form, "scope": "run"})
        assert "in this run only, for 1 h. It would have covered 0 of the last 2" in words(narrow)
        assert await app.inbox.grants() == []


async def test_a_call_in_doubt_has_three_equal_buttons_and_running_it_again_is_asked_twice() -> None:
    starts: list[int] = []

    @function_tool(needs_approval=True, approval=Approval(reason="required"))
    def charge(amount: int) -> str:
        """Charge."""
        starts.append(amount)
        if len(starts) == 1:
            raise OutcomeUnknown("the line broke")
        return "charged"

    model = ScriptedModel([[function_call("charge", {"amount": 5})], "ok"])
    app, tokens, asked = await staffed("desk", agents=[Agent("desk", model=model, tools=[charge])])
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['desk']}"
        await ada.decide(asked["desk"], "approve", note="due")
        run = (await app.inbox.get(asked["desk"])).run
        await until_status(app, run, "waiting")
        seen = await ada.see(page)
        assert re.findall(r'value="(\w+)" class="(\w+)"', seen.text)[-3:] == [
            ("ran", "second"),
            ("did_not_run", "second"),
            ("retry", "second"),
        ]
        assert "“It ran” and “It did not run” cannot be undone." in words(seen)
        asked_again = await ada.decide(asked["desk"], "retry", note="the bank says no")
        assert "Run it again? It was started 1 time." in words(asked_again)
        assert 'value="the bank says no"' in asked_again.text
        assert starts == [5]
        await ada.decide(asked["desk"], "retry", again="1", note="the bank says no")
        assert (await app.result(run, 20)).final_output == "ok"
        assert starts == [5, 5]
        assert "Resolved by ada : run again" in words(await ada.see(page))


async def test_an_answer_and_a_result_stand_on_the_page_of_their_request() -> None:
    app, tokens, asked = await staffed("asker")
    async with app:
        ada, page = Visiting(app, tokens["ada"]), f"/requests/{asked['asker']}"
        await ada.decide(asked["asker"], "answer", output="Hamburg")
        assert "The answer, given by ada Hamburg" in words(await ada.see(page))
        row = words(await ada.see("/audit?verdict=answer"))
        assert "answer: Hamburg" in row


async def test_a_rejection_asks_for_one_reason_and_a_grant_says_that_its_call_starts_at_once() -> None:
    app, tokens, asked = await staffed("ops", "notices")
    async with app:
        ada = Visiting(app, tokens["ada"])
        form = (await ada.see(f"/requests/{asked['ops']}")).text
        assert 'data-label="Reason, for the model and the audit log" data-needed' in form
        assert 'class="field reason fallback"' in form  # without a script it is the only one
        grant = await ada.see(f"/requests/{asked['notices']}/grant")
        assert "This call starts at once and cannot be undone." in words(grant)
        given = {**await ada.fields(f"/requests/{asked['notices']}/grant"), "limit": "uses", "uses": "3", "which": "0"}
        await ada.send(f"/requests/{asked['notices']}/grant", {**given, "scope": "run"})
        await ada.decide(asked["ops"], "reject", note="too old", message="Keep them.")
        created, rejected = [words(await ada.see(f"/audit?verdict={each}")) for each in ("grant", "reject")]
        assert re.search(r"grant created ada .* covers arguments where .* for 3 calls", created)
        assert "to the agent: Keep them." in rejected
        assert "grant created" not in rejected.split("newest first")[1]


async def test_runs_are_found_by_the_first_characters_of_their_ids_in_one_word_for_each_status() -> None:
    app, tokens, asked = await staffed("asker", "notices")
    async with app:
        ada, run = Visiting(app, tokens["ada"]), (await app.inbox.get(asked["asker"])).run
        found = await ada.see(f"/runs?run={run[:8]}")
        assert re.findall(r'href="/runs/(\w+)"><span', found.text) == [run]
        assert '<option value="waiting">pending approval</option>' in found.text
        assert "No run matches." in words(await ada.see("/runs?run=zzzz"))
        agents = words(await ada.see("/agents"))
        assert "requires an answer every call is a question that an approver answers any user may answer" in agents
