"""Attacks on who decides: by people of the directory, and by whoever holds the journal and the keys that seal it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import (
    Agent,
    App,
    Approval,
    MemoryJournal,
    NotAllowed,
    Policy,
    Proof,
    ProofRefused,
    Rule,
    RunHooks,
    Runner,
    RunState,
    UserError,
)
from keyturn.core import events as ev
from keyturn.core.challenge import decision_challenge
from keyturn.core.people import Decider
from keyturn.core.run import call_digest, edit_digest
from keyturn.directory import people as people_module
from keyturn.directory.book import NAME
from keyturn.directory.people import Login, People
from keyturn.directory.provisioning import Claims
from keyturn.directory.sign_ins import LinkRefused
from keyturn.engine.run.log_cache import log_in
from keyturn.proofs.base import Checked
from keyturn.testing import ScriptedModel, function_call
from tests.directory.test_signed import SIGNED, Desk, forge
from tests.table import each
from tests.waiting import until, until_status
from trials.signers import SSHSigner


@pytest.fixture
def journal(own_key: None) -> MemoryJournal:
    return MemoryJournal()


async def write(desk: Desk, run: str, *events: Any) -> None:
    """Write events into a run's log past everything, as one who holds the journal and the keys that seal it."""
    journal: Any = desk.app.journal
    log = await log_in(journal, run)
    start = len(log)
    await journal.append(run, start, [log.sealed(ev.Step(log.run.now, list(events)))])


async def asked_again(desk: Desk, request: Any, kind: str = "approval") -> Any:
    """Wait until a worker has put a request anew."""

    async def anew() -> bool:
        row = await desk.app.inbox.get(request.id)
        return row.state == "open" and row.revision > request.revision and row.kind == kind

    await until(anew)
    return await desk.app.inbox.get(request.id)


async def bare(desk: Desk, request: Any) -> tuple[Any, ev.Decision]:
    """Return a run as it stands, and an approval of its request that nobody gave."""
    log = await log_in(desk.app.journal, request.run)
    call = log.run.calls[request.call]
    return log.run, ev.Decision(call.id, "approve", call_digest(log.run, call), log.run.now)


# What is signed is what runs ----------------------------------------------------------------------------------------


async def test_a_signed_approval_that_came_to_name_other_arguments_runs_nothing(journal: Any) -> None:
    desk = Desk(journal)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        proof = await desk.signed("bob", request)
        run, made = await bare(desk, request)
        call = run.calls[request.call]
        evil = '{"amount":5000}'
        who = Decider("bob", (), "signed")
        forged = replace(made, decider=who, proof=proof, args=evil, runs=edit_digest(run, call, evil, None))
        await write(desk, request.run, ev.CallDecided(forged))
        await asked_again(desk, request)
        again = await desk.app.inbox.get(request.id)
        assert "other arguments" in again.reason
    assert desk.paid == []


async def test_what_a_program_tells_the_tool_is_signed_as_well(journal: Any) -> None:
    desk = Desk(journal)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        proof = await desk.signed("bob", request)
        _run, made = await bare(desk, request)
        who = Decider("bob", (), "signed")
        await forge(desk, request, replace(made, decider=who, proof=proof, metadata={"to": "me"}))
        await asked_again(desk, request)
    assert desk.paid == []


@pytest.mark.parametrize(
    ("own", "logged"),
    [
        (Approval(signed=True, quorum=2), Approval(signed=True)),
        (Approval(signed=True, users=["ada"]), Approval(signed=True)),
        (Approval(signed=True, not_requester=True), Approval(signed=True)),
    ],
)
async def test_the_terms_of_the_tool_hold_whatever_the_log_says_of_them(journal: Any, own: Any, logged: Any) -> None:
    desk = Desk(journal, own)
    async with desk.app:
        await desk.people()
        desk.run = await desk.app.start("desk", "Pay 5.", requester="BOB")
        await until_status(desk.app, desk.run.id, "waiting")
        [request] = await desk.app.inbox.list()
        run, _made = await bare(desk, request)
        weaker = replace(run.calls[request.call].proposal, terms=logged)
        await write(
            desk,
            request.run,
            ev.CallVoided(request.call, weaker, "forged", {}),
            ev.CallScreened(request.call, "ask", "", "tool", logged, run.now, None),
        )
        weak = await desk.app.inbox.get(request.id)
        _run, made = await bare(desk, weak)
        proof = desk.keys["bob"].sign(decision_challenge("default", weak.id, weak.revision, made))
        await forge(desk, weak, replace(made, decider=Decider("bob", (), "signed"), proof=proof))
        await asked_again(desk, weak)
    assert desk.paid == []


async def test_a_delegation_that_is_in_no_directory_lets_nobody_decide(journal: Any) -> None:
    desk = Desk(journal, Approval(signed=True, users=["ada"]))
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        for place in (None, 3, 99):
            _run, made = await bare(desk, request)
            proof = desk.keys["bob"].sign(decision_challenge("default", request.id, request.revision, made))
            who = Decider("bob", (), "signed", acting_for="ada", place=place)
            await forge(desk, request, replace(made, decider=who, proof=proof))
            request = await asked_again(desk, request)
        assert "cut back" in request.reason
    assert desk.paid == []


async def test_a_delegate_signs_in_the_others_place(journal: Any) -> None:
    desk = Desk(journal, Approval(signed=True, users=["ada"]))
    async with desk.app:
        people = await desk.people()
        await people.delegate("ada", "bob", lasts="1h")
        request = await desk.waiting()
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_policys_terms_are_verified_even_where_the_log_forgot_them(journal: Any) -> None:
    desk = Desk(journal, Approval(), policy=Policy(Rule("ask", tool="pay", approval=SIGNED)))
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        run, _made = await bare(desk, request)
        call = run.calls[request.call]
        await write(
            desk,
            request.run,
            ev.CallVoided(call.id, call.proposal, "forged", {}),
            ev.CallScreened(call.id, "ask", "", "policy", None, run.now, None),
        )
        _run, made = await bare(desk, request)
        junk = Proof("ssh", desk.keys["bob"].public.id, b"junk")
        request = await desk.app.inbox.get(request.id)
        await forge(desk, request, replace(made, decider=Decider("bob", (), "signed"), proof=junk))
        await asked_again(desk, request)
    assert desk.paid == []


@pytest.mark.parametrize("rule", [Rule("allow", tool="pay"), Rule("ask", tool="pay", approval=Approval(expires="1h"))])
async def test_a_policy_takes_nothing_from_a_tool_that_takes_signatures(journal: Any, rule: Any) -> None:
    desk = Desk(journal, Approval(signed=True, quorum=2), policy=Policy(rule))
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        assert request.request.terms.needs_proof
        for name in ("bob", "cyd"):
            assert desk.paid == []
            await desk.app.inbox.approve(request, by=Login(name), proof=await desk.signed(name, request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_key_that_is_revoked_between_the_check_and_the_start_lets_nothing_run(journal: Any) -> None:
    desk = Desk(journal)

    revoked: list[bool] = []

    class Slow(RunHooks[Any]):
        async def on_tool_start(self, *_args: Any, **_words: Any) -> None:
            if not revoked:
                revoked.append(True)
                await desk.app.people.revoke_key(desk.keys["bob"].public.id, by="ada")

    desk.app.hooks = Slow()
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        assert "revoked" in (await asked_again(desk, request)).reason
    assert desk.paid == []


async def test_a_result_in_the_tools_place_is_signed_too(journal: Any) -> None:
    desk = Desk(journal)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        inbox = desk.app.inbox
        with pytest.raises(NotAllowed):
            await inbox.answer(request, "paid", by=Login("bob"))
        _run, made = await bare(desk, request)
        junk = Proof("ssh", desk.keys["bob"].public.id, b"junk")
        forged = replace(made, verdict="answer", output="paid 5000", decider=Decider("bob", (), "signed"), proof=junk)
        await forge(desk, request, forged)
        result = await desk.run.result(10)
        said = str(result.to_input_list())
        assert "lacks a required signature" in said
        assert "paid 5000" not in said
        desk.app.agents["desk"].model = ScriptedModel([[function_call("pay", {"amount": 5})], "Done."])
        second = await desk.waiting()
        proof = await desk.signed("bob", second, "answer", output="paid by hand")
        await inbox.answer(second, "paid by hand", by=Login("bob"), proof=proof)
        assert "paid by hand" in str((await desk.run.result(10)).to_input_list())
    assert desk.paid == []


async def test_several_people_can_sign_that_a_call_in_doubt_runs_again(journal: Any) -> None:
    desk = Desk(journal, Approval(signed=True, quorum=2))
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        _run, made = await bare(desk, request)
        await write(
            desk, request.run, ev.CallDecided(replace(made, decider=Decider("bob"))), ev.CallStarted(request.call)
        )
        doubt = await asked_again(desk, request, "in_doubt")
        for name in ("bob", "cyd"):
            proof = await desk.signed(name, doubt, "retry")
            await desk.app.inbox.resolve(doubt, "retry", by=Login(name), proof=proof)
        await desk.run.result(10)
    assert desk.paid == [5]


class Deep(Desk):
    """A desk whose agent asks another as a tool, which pays: one of the two takes signatures."""

    def __init__(self, journal: Any, inner: Approval | None, outer: Approval | None) -> None:
        super().__init__(journal)
        pay = self.app.agents["desk"].tools[0]
        pay.approval = inner
        pay.needs_approval = inner is not None
        calls = [[function_call("pay", {"amount": 5}, call_id="c2")], "Paid."]
        clerk = Agent("clerk", model=ScriptedModel(calls), tools=[pay])
        tool = clerk.as_tool("ask_clerk", "Ask the clerk.", needs_approval=outer is not None)
        tool.approval = outer
        chief = Agent(
            "desk", model=ScriptedModel([[function_call("ask_clerk", {"input": "Pay."})], "Done."]), tools=[tool]
        )
        self.app = App([chief], journal)


@pytest.mark.parametrize(("inner", "outer"), [(SIGNED, None), (None, SIGNED), (SIGNED, SIGNED)])
async def test_at_every_depth_nothing_starts_unsigned(journal: Any, inner: Any, outer: Any) -> None:
    desk = Deep(journal, inner, outer)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        for _layer in filter(None, (inner, outer)):
            [request] = await desk.app.inbox.list()
            _run, made = await bare(desk, request)
            junk = Proof("ssh", desk.keys["bob"].public.id, b"junk")
            await forge(desk, request, replace(made, decider=Decider("bob", (), "signed"), proof=junk))
            request = await asked_again(desk, request)
            assert desk.paid == []
            await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
            await until(partial(_moved_on, desk, request))
        assert (await desk.run.result(10)).final_output == "Done."
    assert desk.paid == [5]


async def _moved_on(desk: Desk, request: Any) -> bool:
    row = await desk.app.get(request.run)
    waits = await desk.app.inbox.list()
    return row.status == "finished" or any(each.id != request.id for each in waits)


async def test_where_nobody_can_verify_nothing_starts(journal: Any) -> None:
    """`Runner.run` on the journal of an app, with a signature that is good."""
    desk = Desk(journal, SIGNED)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
    await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
    agent = desk.app.agents["desk"]
    state = await RunState.load(journal, request.run, agent)
    with pytest.raises(UserError, match="in an App"):
        await Runner.run(agent, state, journal=journal)
    copied = await RunState.from_string(agent, state.to_string())
    with pytest.raises(UserError):
        await Runner.run(agent, copied)
    assert desk.paid == []


async def test_who_writes_the_whole_directory_is_not_trusted_where_the_first_key_is_named(journal: Any) -> None:
    """Mallory, with every key but those of people, begins the directory anew, with a key of their own as the first."""
    mallory = SSHSigner("ssh-ed25519", 66)
    ada = SSHSigner("ssh-ed25519", 0)
    desk = Desk(journal, SIGNED, trusted_keys=[ada.public.id])
    async with desk.app:
        people = desk.app.people
        await people.start("ada")
        key = mallory.public
        await people.enrol_key("ada", key, mallory.sign(people.to_sign("ada", key)))
        await people.confirm_key(key.id, by="ada")
        request = await desk.waiting()
        desk.keys["ada"] = mallory
        proof = await desk.signed("ada", request)
        with pytest.raises(ProofRefused):
            await desk.app.inbox.approve(request, by=Login("ada"), proof=proof)
        _run, made = await bare(desk, request)
        await forge(desk, request, replace(made, decider=Decider("ada", ("admin",), "signed"), proof=proof))
        await asked_again(desk, request)
    assert desk.paid == []


# People that are one ------------------------------------------------------------------------------------------------


async def test_a_requester_written_in_another_case_is_the_requester(journal: Any) -> None:
    desk = Desk(journal, Approval(not_requester=True))
    async with desk.app:
        await desk.app.people.start("ada")
        run = await desk.app.start("desk", "Pay 5.", requester="Ada")
        await until_status(desk.app, run.id, "waiting")
        [request] = await desk.app.inbox.list()
        with pytest.raises(NotAllowed, match="other than the requester"):
            await desk.app.inbox.approve(request, by=Login("ada"))
    assert desk.paid == []


async def test_ids_that_read_alike_are_one_voice(journal: Any) -> None:
    desk = Desk(journal, Approval(quorum=2))
    async with desk.app:
        request = await desk.waiting()
        for name in ("ada", "ADA", "\uff41da"):
            await desk.app.inbox.approve(request, by=Decider(name, strength="authenticated"))
        assert (await desk.app.inbox.get(request.id)).state == "open"
        assert desk.paid == []


async def test_an_id_of_two_scripts_is_not_given(journal: Any) -> None:
    people = People(journal)
    await people.start("ada")
    with pytest.raises(UserError, match="Cyrillic"):
        await people.add("b\u043eb", by="ada")


async def test_a_machine_decides_nothing_whoever_vouches_for_it(journal: Any) -> None:
    desk = Desk(journal, Approval())
    async with desk.app:
        await desk.app.people.start("ada")
        await desk.app.people.add("robot", kind="machine", by="ada")
        request = await desk.waiting()
        with pytest.raises(NotAllowed, match="service account, which cannot decide"):
            await desk.app.inbox.approve(request, by=Login("robot"))
    assert desk.paid == []


# Tokens -------------------------------------------------------------------------------------------------------------


async def test_a_login_ends_with_its_token(journal: Any) -> None:
    desk = Desk(journal, Approval(role="finance"))
    async with desk.app:
        people = desk.app.people
        await people.start("ada")
        await people.add("bob", roles=["finance"], by="ada")
        token = await people.issue_token("bob", by="bob")
        login = await people.login(token)
        request = await desk.waiting()
        await people.revoke_token(token, by="ada")
        for stale in (login, Login("bob", token="none"), login._replace(scopes=("decide", "people"))):
            with pytest.raises(NotAllowed, match="no longer valid"):
                await desk.app.inbox.approve(request, by=stale)
    assert desk.paid == []


@each(
    "gone, back",
    [
        (lambda p: p.remove("cyd", by="ada"), lambda p: p.add("cyd", roles=["admin"], by="ada")),
        (lambda p: p.take_role("admin", of="cyd", by="ada"), lambda p: p.give_role("admin", to="cyd", by="ada")),
        (lambda p: p.leave("heads", "dan", by="ada"), lambda p: p.join("heads", "dan", by="ada")),
        (
            lambda p: p.take_role("admin", group="heads", by="ada"),
            lambda p: p.give_role("admin", group="heads", by="ada"),
        ),
        (lambda p: p.map_claims("eve", Claims()), lambda p: p.map_claims("eve", Claims(roles=("admin",)))),
    ],
)
async def test_what_an_administrator_issued_to_others_stays_ended_when_they_are_one_again(gone: Any, back: Any) -> None:
    people = People(MemoryJournal())
    await people.start("ada")
    await people.add("bob", roles=["finance"], by="ada")
    await people.add("job", kind="machine", by="ada")
    await people.add("cyd", roles=["admin"], by="ada")
    for name in ("dan", "eve"):
        await people.add(name, by="ada")
    await people.give_role("admin", group="heads", by="ada")
    await people.join("heads", "dan", by="ada")
    await people.map_claims("eve", Claims(roles=("admin",)))
    issued = {by: await people.issue_token("bob", ["decide"], by=by) for by in ("ada", "bob", "cyd", "dan", "eve")}
    links = {by: await people.make_link("bob", by=by) for by in ("ada", "cyd", "dan", "eve")}
    job = await people.issue_token("job", ["ask"], by="cyd")
    admins = set((await people.directory()).admins())
    await gone(people)
    [lost] = admins - set((await people.directory()).admins())
    await back(people)
    assert set((await people.directory()).admins()) == admins
    with pytest.raises(NotAllowed, match="revoked"):
        await people.login(issued.pop(lost))
    with pytest.raises(LinkRefused) as refused:
        await people.use_link(links.pop(lost))
    assert refused.value.why == "revoked"
    assert [(await people.login(token)).person for token in (*issued.values(), job)] == ["bob"] * 4 + ["job"]
    assert (await people.use_link(links["ada"])).person == "bob"


async def test_a_login_changes_the_directory_by_its_scopes_only(journal: Any) -> None:
    people = People(journal)
    await people.start("ada")
    admin = await people.login(await people.issue_token("ada", ["people"], by="ada"))
    phone_token = await people.issue_token("ada", ["decide"], by="ada")
    phone = await people.login(phone_token)
    for change in (
        lambda: people.add("eve", by=phone),
        lambda: people.issue_token("ada", ["people"], by=phone),
        lambda: people.issue_token("ada", ["decide"], by=admin),
        lambda: people.issue_token("ada", ["people"], by=admin._replace(scopes=("people", "decide"))),
        lambda: people.delegate("ada", "bob", lasts="1h", by=phone),
        lambda: people.make_link("ada", by=phone),
    ):
        with pytest.raises(NotAllowed):
            await change()
    await people.add("bob", by=admin)
    assert (await people.entries())[-1].by == Decider("ada", (), "authenticated")
    await people.issue_token("ada", ["people"], by=admin)
    await people.revoke_token(phone_token, by=phone)
    with pytest.raises(NotAllowed):
        await people.login(phone_token)


async def test_wrong_links_keep_nobody_from_changing_the_directory(journal: Any) -> None:
    people = People(journal)
    await people.start("ada")
    epoch = (await journal.claim(NAME, "look", 1_000)).epoch
    for _ in range(5):
        with pytest.raises(NotAllowed):
            await people.use_link("kt_aa_bb")
    with pytest.raises(NotAllowed):
        await people.use_link("")
    assert epoch == 2


# The count of a key -------------------------------------------------------------------------------------------------


async def test_of_two_signatures_with_one_count_one_is_taken(journal: Any, monkeypatch: Any) -> None:
    desk = Desk(journal, SIGNED)
    people = await desk.people()
    monkeypatch.setattr(people_module, "check_decision", lambda *_a, **_w: Checked(count=6))
    made = ev.Decision("r/1.0", "approve", "d", proof=Proof("ssh", desk.keys["bob"].public.id, b"x"))
    made = replace(made, decider=Decider("bob", (), "signed"))
    both = [people.check_proof(("r", 1), made), People(journal).check_proof(("r", 1), made)]
    found = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(each).__name__ for each in found) == ["NoneType", "ProofRefused"]
    assert ProofRefused in map(type, found)
