"""Decisions signed with a person's own key: what the inbox takes, and what a worker starts, whoever wrote the log."""

from __future__ import annotations

from random import Random
from typing import Annotated, Any

import httpx2
import msgspec
import pytest
from msgspec.structs import replace

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    Grant,
    MemoryJournal,
    NotAllowed,
    Policy,
    Proof,
    ProofRefused,
    Rule,
    Runner,
    Secret,
    UserError,
)
from keyturn import function_tool as tool_of
from keyturn.audit.checker import check
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.challenge import decision_challenge, decision_text
from keyturn.core.people import Decider
from keyturn.core.policy import Verdict
from keyturn.core.run import call_digest, request_id
from keyturn.directory import events as de
from keyturn.directory.book import Book
from keyturn.directory.people import Login, People
from keyturn.directory.signed import trusted_keys
from keyturn.engine.run.log_cache import log_in
from keyturn.testing import ScriptedModel, function_call
from tests.effort import AT_LENGTH
from tests.server.programs import HOST
from tests.waiting import until_status
from trials.signers import SSHSigner

SIGNED = Approval(signed=True)


class Desk:
    """An app whose agent pays once somebody signed, people with keys, and what was paid."""

    def __init__(self, journal: Any, terms: Approval = SIGNED, *calls: Any, **options: Any) -> None:
        self.paid: list[int] = []

        @tool_of(needs_approval=True, approval=terms)
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        replies = [*(calls or ([function_call("pay", {"amount": 5}, call_id="c1")],)), "Done."]
        self.app = App([Agent("desk", model=ScriptedModel(replies), tools=[pay])], journal, **options)
        self.keys = {name: SSHSigner("ssh-ed25519", number) for number, name in enumerate(("ada", "bob", "cyd"))}

    async def people(self) -> People:
        """Ada, Bob and Cyd, each with a confirmed key; Ada's is the first, and she confirmed the others."""
        people = self.app.people
        await people.start("ada")
        for name in ("ada", "bob", "cyd"):
            if name != "ada":
                await people.add(name, by="ada")
            await self.enrol(name, self.keys[name])
        return people

    async def enrol(self, name: str, signer: SSHSigner) -> str:
        """Enrol a key, and have Ada confirm it."""
        people = self.app.people
        key = people.read_key("ssh", signer.line)
        await people.enrol_key(name, key, signer.sign(people.to_sign(name, key)))
        first = len(await people.keys()) == 1
        proof = None if first else self.keys["ada"].sign(await people.to_confirm(key.id))
        await people.confirm_key(key.id, by="ada", proof=proof)
        return key.id

    async def waiting(self) -> Any:
        """Start a run, and return its request."""
        self.run = await self.app.start("desk", "Pay 5.", requester="dan")
        await until_status(self.app, self.run.id, "waiting")
        [request] = await self.app.inbox.list(run=self.run.id)
        return request

    async def signed(self, name: str, request: Any, verdict: Any = "approve", **words: Any) -> Proof:
        """What somebody's own key makes of a decision."""
        return self.keys[name].sign(await self.app.inbox.to_sign(request, verdict, **words))


@pytest.fixture
def journal(own_key: None) -> MemoryJournal:
    return MemoryJournal()


async def test_a_decision_that_its_persons_key_signed_lets_the_call_run(own_key: None, store: Any) -> None:
    desk = Desk(store)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        proof = await desk.signed("bob", request, note="seen")
        await desk.app.inbox.approve(request, by=Login("bob"), proof=proof, note="seen")
        assert (await desk.run.result(10)).final_output == "Done."
    assert desk.paid == [5]
    assert (await check(store)).ok


async def test_a_signed_vote_is_withdrawn_by_a_signature_and_cannot_be_replayed(own_key: None, store: Any) -> None:
    desk = Desk(store, Approval(signed=True, quorum=2))
    async with desk.app:
        await desk.people()
        request, inbox = await desk.waiting(), desk.app.inbox
        vote = await desk.signed("bob", request)
        request = await inbox.approve(request, by=Login("bob"), proof=vote)
        with pytest.raises(NotAllowed, match="sign it with your own key"):
            await inbox.withdraw(request, by=Login("bob"))
        proof = await desk.signed("bob", request, "withdraw", note="no")
        with pytest.raises(ProofRefused):
            await inbox.withdraw(request, by=Login("bob"), proof=proof, note="yes")
        request = await inbox.withdraw(request, by=Login("bob"), proof=proof, note="no")
        with pytest.raises(ProofRefused):
            await inbox.approve(request, by=Login("bob"), proof=vote)
        for name in ("bob", "cyd"):
            request = await inbox.approve(request, by=Login(name), proof=await desk.signed(name, request))
        assert (await desk.run.result(10)).final_output == "Done."
    assert (await check(store)).ok


@pytest.mark.parametrize("door", ["person", "http"])
async def test_a_signed_vote_is_withdrawn_at_each_door(journal: Any, door: str) -> None:
    desk = Desk(journal, Approval(signed=True, quorum=2))
    async with desk.app as app:
        people = await desk.people()
        request, bob = await desk.waiting(), app.inbox.as_person("bob")
        await bob.decide(request, "approve", proof=await desk.signed("bob", request))
        request = await app.inbox.get(request.id)
        proof = await desk.signed("bob", request, "withdraw", note="no")
        if door == "person":
            await bob.withdraw(request, proof=proof, note="no")
        else:
            token = await people.issue_token("bob", by="ada")
            said = {"digest": request.digest, "note": "no", "proof": msgspec.to_builtins(proof)}
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi()), base_url=HOST) as http:
                path, key = f"/v1/requests/{request.id}/withdraw", {"authorization": f"Bearer {token}"}
                answer = await http.post(path, json=said, headers={**key, "idempotency-key": "w1"})
            assert answer.status_code == 200, answer.text
        assert (await app.inbox.get(request.id)).request.votes == ()
    assert (await check(journal)).ok


async def test_an_edit_and_a_rejection_are_signed_as_they_are(journal: Any) -> None:
    desk = Desk(journal, SIGNED, [function_call("pay", {"amount": 5})], [function_call("pay", {"amount": 6})])
    async with desk.app:
        await desk.people()
        request, edit = await desk.waiting(), {"amount": 2}
        proof = await desk.signed("bob", request, "edit", edit=edit)
        with pytest.raises(ProofRefused):
            await desk.app.inbox.approve(request, by=Login("bob"), edit={"amount": 200}, proof=proof)
        with pytest.raises(ProofRefused):
            await desk.app.inbox.approve(request, by=Login("bob"), proof=proof)
        await desk.app.inbox.approve(request, by=Login("bob"), edit=edit, proof=proof)
        await until_status(desk.app, desk.run.id, "waiting")
        [second] = await desk.app.inbox.list()
        proof = await desk.signed("cyd", second, "reject", message="No.")
        await desk.app.inbox.reject(second, by=Login("cyd"), message="No.", proof=proof)
        assert (await desk.run.result(10)).final_output == "Done."
    assert desk.paid == [2]


async def test_a_signed_edit_of_a_call_with_a_secret_verifies_and_its_challenge_is_keyed(journal: Any) -> None:
    ran: list[tuple[str, str]] = []

    @tool_of(needs_approval=True, approval=SIGNED)
    def login(user: str, pin: Annotated[str, Secret]) -> str:
        """Log in."""
        ran.append((user, pin))
        return "in"

    desk = Desk(journal)
    calls = [function_call("login", {"user": "ann", "pin": "4711"})]
    desk.app = App([Agent("desk", model=ScriptedModel([calls, "Done."]), tools=[login])], journal)
    async with desk.app:
        await desk.people()
        request, edit = await desk.waiting(), {"user": "bob", "pin": "[redacted]"}
        proof = await desk.signed("bob", request, "edit", edit=edit)
        with pytest.raises(ProofRefused):
            await desk.app.inbox.approve(request, by=Login("bob"), edit=edit | {"user": "eve"}, proof=proof)
        await desk.app.inbox.approve(request, by=Login("bob"), edit=edit, proof=proof)
        assert (await desk.run.result(10)).final_output == "Done."
    assert ran == [("bob", "4711")]
    assert (await check(journal)).ok
    run = (await log_in(journal, request.run)).run
    made = run.decided[request.call]
    text = decision_text("default", request.id, 1, made)
    assert text.startswith('["keyturn decision 2"')
    assert "4711" not in text
    assert decision_text("default", request.id, 1, replace(made, key="other")) != text


async def test_nobody_decides_without_their_own_signature(journal: Any) -> None:
    desk = Desk(journal)
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        proof = await desk.signed("bob", request)
        inbox = desk.app.inbox
        with pytest.raises(NotAllowed, match="signed with the approver's own key"):
            await inbox.approve(request, by=Login("bob"))
        for wrong, by in (
            (proof, "cyd"),
            (replace(proof, key=desk.keys["cyd"].public.id), "cyd"),
            (replace(proof, data=proof.data[:-40]), "bob"),
            (SSHSigner("ssh-ed25519", 9).sign(await inbox.to_sign(request, "approve")), "bob"),
            (await desk.signed("bob", request, note="other words"), "bob"),
            (await desk.signed("bob", request, "reject"), "bob"),
        ):
            with pytest.raises(ProofRefused):
                await inbox.approve(request, by=Login(by), proof=wrong)
        with pytest.raises(UserError, match="without a grant"):
            await inbox.approve(request, by=Login("bob"), proof=proof, grant=Grant())
        assert desk.paid == []
        await inbox.approve(request, by=Login("bob"), proof=proof)
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_signature_for_one_request_fits_no_other_and_no_later_asking(journal: Any) -> None:
    desk = Desk(journal)
    async with desk.app:
        await desk.people()
        first = await desk.waiting()
        proof = await desk.signed("bob", first)
        await desk.app.inbox.approve(first, by=Login("bob"), proof=proof)
        await desk.run.result(10)
        desk.app.agents["desk"].model = ScriptedModel([[function_call("pay", {"amount": 5}, call_id="c1")], "Done."])
        second = await desk.waiting()
        with pytest.raises(ProofRefused):
            await desk.app.inbox.approve(second, by=Login("bob"), proof=proof)
    assert desk.paid == [5]


async def test_of_a_quorum_each_signs(journal: Any) -> None:
    desk = Desk(journal, Approval(signed=True, quorum=2))
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        for name in ("bob", "cyd"):
            await desk.app.inbox.approve(request, by=Login(name), proof=await desk.signed(name, request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_key_that_was_revoked_meanwhile_lets_nothing_run(own_key: None) -> None:
    journal = MemoryJournal()
    desk = Desk(journal, Approval(signed=True, quorum=2))
    async with desk.app:
        people = await desk.people()
        request = await desk.waiting()
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        await people.revoke_key(desk.keys["bob"].public.id, by="ada")
        await desk.app.inbox.approve(request, by=Login("cyd"), proof=await desk.signed("cyd", request))
        await until_status(desk.app, desk.run.id, "waiting")
        [again] = await desk.app.inbox.list()
        assert "revoked" in again.reason
    assert desk.paid == []


# Enrolling ----------------------------------------------------------------------------------------------------------


async def test_a_key_is_enrolled_by_who_has_it_and_once(journal: Any) -> None:
    desk = Desk(journal)
    people = await desk.people()
    stolen = people.read_key("ssh", desk.keys["ada"].line)
    with pytest.raises(ProofRefused):
        await people.enrol_key("bob", stolen, desk.keys["bob"].sign(people.to_sign("bob", stolen)))
    own = desk.keys["bob"]
    with pytest.raises(Conflict, match="another user's already"):
        await people.enrol_key("cyd", own.public, own.sign(people.to_sign("cyd", own.public)))


async def test_a_key_counts_when_somebody_else_has_signed_for_it(journal: Any) -> None:
    desk = Desk(journal)
    people = await desk.people()
    await people.give_role("admin", to="bob", by="ada")
    fresh = SSHSigner("ssh-ed25519", 7)
    await people.enrol_key("bob", fresh.public, fresh.sign(people.to_sign("bob", fresh.public)))
    said = await people.to_confirm(fresh.public.id)
    for by, proof in (
        ("bob", desk.keys["bob"].sign(said)),  # the owner
        ("ada", None),
        ("cyd", desk.keys["cyd"].sign(said)),  # no administrator
        ("ada", desk.keys["bob"].sign(said)),
        ("ada", fresh.sign(said)),
        ("ada", desk.keys["ada"].sign(b"x" * 32)),
    ):
        with pytest.raises(NotAllowed):
            await people.confirm_key(fresh.public.id, by=by, proof=proof)
    await people.confirm_key(fresh.public.id, by="ada", proof=desk.keys["ada"].sign(said))
    assert fresh.public.id in trusted_keys(await people.directory(), people.tenant)
    place = (await people.directory()).place
    unknown = SSHSigner("ssh-ed25519", 8)
    await people.confirm_key(fresh.public.id, by="cyd", proof=unknown.sign(said))  # it is confirmed: nothing is read
    assert (await people.directory()).place == place


# The inbox's process in somebody else's hands -----------------------------------------------------------------------


async def forge(desk: Desk, request: Any, made: ev.Decision) -> None:
    """Write a decision past the inbox, with the keys that seal the journal, as one who owns its process."""
    await desk.app.inbox.tell(request.run, cm.Deliver([made]))


async def test_a_worker_starts_nothing_on_signatures_that_were_forged_or_moved(own_key: None) -> None:
    """The gate before the start: each of them, written to the log by whoever holds all keys but the people's."""
    dice, journal, forged = Random(7), MemoryJournal(), 200 if AT_LENGTH else 27
    desk = Desk(journal, Approval(signed=True))
    async with desk.app:
        people = await desk.people()
        mallory = SSHSigner("ssh-ed25519", 66)
        request = await desk.waiting()
        true = await desk.signed("bob", request, "reject")  # of this request, and another word
        for number in range(forged):
            log = await log_in(journal, request.run)
            call = log.run.calls[request.call]
            asked = (request_id(log.run, call.id), call.revision)
            who = dice.choice(["ada", "bob", "cyd"])
            bare = ev.Decision(call.id, "approve", call_digest(log.run, call), log.run.now)
            said = decision_challenge(people.tenant, *asked, bare)
            mine = mallory.sign(said)
            proofs = [
                mine,
                replace(mine, key=desk.keys[who].public.id),
                replace(true, key=desk.keys[who].public.id),
                Proof("ssh", desk.keys[who].public.id, dice.randbytes(80)),
                Proof("none", desk.keys[who].public.id, true.data),
                desk.keys["cyd" if who != "cyd" else "bob"].sign(said),  # a colleague's, who said nothing here as them
                desk.keys[who].sign(decision_challenge("other", *asked, bare)),
                desk.keys[who].sign(decision_challenge(people.tenant, asked[0], asked[1] + 1, bare)),
                desk.keys[who].sign(decision_challenge(people.tenant, *asked, replace(bare, note="other"))),
            ]
            proof = proofs[number % len(proofs)]
            signed = Decider(who, ("admin", "finance"), "signed", place=number)
            await forge(desk, request, replace(bare, decider=signed, proof=proof))
            await until_status(desk.app, request.run, "waiting")
            assert desk.paid == [], number
        [left] = await desk.app.inbox.list()
        assert left.revision == forged + 1
        await desk.app.inbox.approve(left, by=Login("bob"), proof=await desk.signed("bob", left))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_key_that_was_written_into_the_directory_is_not_trusted(own_key: None) -> None:
    """Whoever owns the inbox's process can write that a key is Bob's and confirmed; nobody signed that it is."""
    desk = Desk(MemoryJournal())
    async with desk.app:
        await desk.people()
        mallory = SSHSigner("ssh-ed25519", 66)
        key = mallory.public
        request = await desk.waiting()
        written = [
            de.KeyEnrolled(key.id, "bob", "ssh", key.data),
            de.KeyConfirmed(key.id, mallory.sign(await desk.app.inbox.to_sign(request, "approve"))),
        ]
        await Book(desk.app.journal).change(Decider("ada"), lambda _now, _at: written)
        proof = mallory.sign(await desk.app.inbox.to_sign(request, "approve"))
        made = ev.Decision(request.call, "approve", request.digest, decider=Decider("bob", (), "signed"), proof=proof)
        await forge(desk, request, made)
        await until_status(desk.app, request.run, "waiting")
        [again] = await desk.app.inbox.list()
        assert "not confirmed" in again.reason
    assert desk.paid == []


async def test_terms_that_were_taken_out_of_the_log_still_hold(own_key: None) -> None:
    """The tool itself says that it takes signatures: what the log says of its terms takes nothing back."""
    desk = Desk(MemoryJournal())
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        log = await log_in(desk.app.journal, request.run)
        call = log.run.calls[request.call]
        bare = replace(call.proposal, terms=None)
        await desk.app.inbox.tell(
            request.run, cm.VoidCall(call.id, bare, "forged"), cm.Screen(call.id, Verdict("ask", by="tool"))
        )
        [again] = await desk.app.inbox.list()
        assert again.request.terms is None
        await desk.app.inbox.approve(again, by="mallory")
        await until_status(desk.app, request.run, "waiting")
    assert desk.paid == []


async def test_a_policy_takes_signatures_as_a_tool_does(own_key: None) -> None:
    desk = Desk(MemoryJournal(), Approval(), policy=Policy(Rule("ask", tool="pay", approval=SIGNED)))
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        with pytest.raises(NotAllowed):
            await desk.app.inbox.approve(request, by=Login("bob"))
        await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))
        await desk.run.result(10)
    assert desk.paid == [5]


async def test_a_worker_may_be_told_which_key_to_begin_with(own_key: None) -> None:
    journal = MemoryJournal()
    desk = Desk(journal, SIGNED, trusted_keys=[SSHSigner("ssh-ed25519", 5).public.id])
    async with desk.app:
        await desk.people()
        request = await desk.waiting()
        with pytest.raises(ProofRefused, match="not confirmed"):
            await desk.app.inbox.approve(request, by=Login("bob"), proof=await desk.signed("bob", request))


async def test_terms_that_take_signatures_need_an_app(own_key: None) -> None:
    desk = Desk(MemoryJournal())
    with pytest.raises(UserError, match="verified only when the agent runs in an App"):
        await Runner.run(desk.app.agents["desk"], "Pay 5.", journal=MemoryJournal())
