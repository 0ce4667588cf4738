"""The battery's third part: several people, who they are and what they signed, shared limits, lists, and who is told.

A trial asserts, as in `battery.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import App, Approval, Budget, Conflict, Expired, Inbox, NotPending, Policy, Runner
from keyturn.channels.base import Channel, Message
from keyturn.channels.dispatcher import Dispatcher
from keyturn.channels.plan import Attempts, ChannelPlan
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.errors import NotAllowed
from keyturn.core.people import Decider, Proof
from keyturn.core.policy import Verdict
from keyturn.core.records import Decision
from keyturn.core.run import call_digest
from keyturn.directory.login import Login
from keyturn.engine.driving.writer import write_to
from keyturn.engine.run.log_cache import log_in
from keyturn.engine.states.fork import forked
from keyturn.journal.memory import MemoryJournal
from keyturn.journal.rows import DeliveryQuery
from keyturn.policies.rules import ask
from keyturn.testing import ScriptedModel
from trials.battery_deciders import refused_for
from trials.bench import Bench, Pen, Trial, call
from trials.lifecycle import script
from trials.signers import SSHSigner

PEOPLE: list[Trial] = []
ADA = Decider("ada", strength="authenticated")


def trial(function: Trial) -> Trial:
    """Put a trial into this part of the battery."""
    PEOPLE.append(function)
    return function


# A quorum -----------------------------------------------------------------------------------------------------------


@trial
async def who_acts_for_somebody_is_one_with_them(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(quorum=2))
    pen.decide(pen.word(decider=ADA))
    pen.decide(pen.word(decider=Decider("dan", strength="authenticated", acting_for="ada")))
    assert pen.state == "asked"
    pen.decide(pen.word(by="bob"))
    assert pen.state == "approved"


@trial
async def ids_that_read_alike_are_one_person(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(quorum=2))
    pen.decide(pen.word(by="ada"))
    pen.decide(pen.word(by="\uff21da"))
    assert pen.state == "asked"


@trial
async def each_step_of_a_chain_is_approved_by_people_of_its_own(b: Bench) -> None:
    def by(name: str, *roles: str) -> Decider:
        return Decider(name, roles, "authenticated")

    steps = Approval(steps=[Approval(role="manager"), Approval(role="finance")])
    pen = b.pen().asks(terms=steps)
    both = [by("ivo", "manager", "finance"), by("mia", "manager", "finance")]
    pen(cm.Deliver([pen.word(decider=who) for who in both]))
    assert pen.state == "asked"
    with suppress(NotAllowed):
        pen.decide(pen.word(decider=both[0]))
    assert pen.state == "asked"
    pen.decide(pen.word(decider=by("gus", "finance")))
    assert pen.state == "approved"


@trial
async def a_rejection_takes_as_many_as_it_says(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(quorum=2, deny_quorum=2))
    pen.decide(pen.word("reject", by="ada"))
    assert pen.state == "asked"
    pen.decide(pen.word("reject", by="bob"))
    assert pen.state == "rejected"


# What is said beside decisions --------------------------------------------------------------------------------------


@trial
async def what_has_begun_is_not_taken_back(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word())
    pen.start()
    pen.refuses(Conflict, cm.Withdraw("r/1.0", ADA))
    assert pen.state == "started"


def _one_of_two(b: Bench, **terms: Any) -> Pen:
    """Return a request that two approve, of which ada has voted on it."""
    pen = b.pen().asks(terms=Approval(role="ops", quorum=2, **terms))
    pen.decide(pen.word(by="ada", roles=("ops",)))
    return pen


def _withdraws(pen: Pen, who: str = "ada", vote: str = "approve") -> cm.Withdraw:
    shown = call_digest(pen.log.run, pen.log.run.calls["r/1.0"])
    return cm.Withdraw("r/1.0", Decider(who, ("ops",), "authenticated"), shown, vote=vote)


@trial
async def a_withdrawn_vote_is_no_vote(b: Bench) -> None:
    pen = _one_of_two(b)
    first = pen.word(by="ada", roles=("ops",))
    pen(_withdraws(pen))
    pen.decide(pen.word(by="bob", roles=("ops",)))
    assert pen.state == "asked"
    with pytest.raises(Conflict):  # the vote from before, delivered once more
        pen.decide(first)
    pen.decide(replace(first, withdrawals=1))
    assert pen.state == "approved"


@trial
async def a_vote_is_withdrawn_by_its_voter_in_time(b: Bench) -> None:
    pen = _one_of_two(b, expires="1m")
    pen.refuses(NotPending, _withdraws(pen, "bob"))
    pen.now += 61_000
    pen.refuses(Expired, _withdraws(pen))


@trial
async def a_rejection_that_came_too_late_undoes_nothing(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops", deny_quorum=2))
    pen.decide(pen.word("reject", by="ada", roles=("ops",)))
    command = _withdraws(pen, vote="reject")
    pen.decide(pen.word(by="bob", roles=("ops",)))
    pen.refuses(Conflict, command)
    assert pen.state == "approved"


@trial
async def a_call_starts_once_its_approval_cannot_be_undone(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word(undo_ms=5_000))
    pen.passes()
    pen.now += 4_999
    pen.refuses(Conflict, cm.StartCall("r/1.0", "t1"))
    pen.now += 1
    pen(cm.StartCall("r/1.0", "t1"))
    assert pen.state == "started"


@trial
async def only_who_may_decide_marks(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops"))
    shown = call_digest(pen.log.run, pen.log.run.calls["r/1.0"])
    pen.refuses(NotAllowed, cm.MarkCall("r/1.0", shown, "claim", ADA, pen.now + 1_000))
    pen(cm.MarkCall("r/1.0", shown, "claim", Decider("bob", ("ops",), "authenticated"), pen.now + 1_000))
    assert pen.log.run.calls["r/1.0"].claim is not None


@trial
async def the_glass_is_broken_with_a_reason(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops", break_glass="chief"))
    chief = pen.word(by="cleo", roles=("chief",), broke_glass=True)
    with pytest.raises(Exception, match="note="):
        pen.decide(chief)
    assert pen.state == "asked"


@trial
async def who_may_break_the_glass_has_no_say_without(b: Bench) -> None:
    pen = b.pen().asks(terms=Approval(role="ops", break_glass="chief"))
    refused_for(pen, pen.word(by="cleo", roles=("chief",)))


@trial
async def who_confirms_is_not_who_decides(b: Bench) -> None:
    """The person for whom the run acts says yes, and has no part in the quorum of the others."""
    pen = b.pen().asks(terms=Approval(confirm=True, quorum=2))
    pen.decide(pen.word(by="req"))
    with suppress(NotAllowed):  # or it is the word that they said already
        pen.decide(pen.word(by="req"))
    pen.decide(pen.word(by="ada"))
    assert pen.state == "asked"
    pen.decide(pen.word(by="bob"))
    assert pen.state == "approved"


# Forks --------------------------------------------------------------------------------------------------------------


@trial
async def nothing_open_crosses_into_a_fork(b: Bench) -> None:
    """One vote of two is no vote in a fork, and a rejection for good is one there as well."""
    pen = b.pen().asks(terms=Approval(quorum=2))
    pen.decide(pen.word())
    fork = b.pen()
    fork.log = forked(pen.log, None, fork.now)
    assert not fork.log.run.calls["r/1.0"].votes
    fork.decide(fork.word(by="bob"))
    assert fork.state == "asked"
    pen = b.pen().asks(count=2)
    no = pen.word("reject")
    pen(cm.Deliver([no], [ev.GrantTerms("g", "desk", "t1", "reject", decider=no.decider)]))
    fork = b.pen()
    fork.log = forked(pen.log, None, fork.now)
    fork(cm.Screen("r/1.1", Verdict("allow")))
    assert fork.stands("r/1.1") == "rejected"


@trial
async def an_approved_agent_is_in_no_fork(b: Bench) -> None:
    pen = b.pen().asks()
    pen.decide(pen.word())
    pen.start()
    pen(cm.OpenFrame("r/1.0", "desk/inner", [], 5))
    fork = b.pen()
    fork.log = forked(pen.log, None, fork.now)
    assert fork.state == "asked"


@trial
async def who_confirmed_is_none_of_the_others(b: Bench) -> None:
    """A program vouches for the requester under another id than the run has."""
    pen = b.pen().asks(terms=Approval(confirm=True, role="ops"))
    sure = pen.word(roles=("ops",))
    pen.decide(replace(sure, decider=replace(sure.decider, requester=True)))
    pen.refuses(NotAllowed, cm.Deliver([pen.word(roles=("ops",))]))


# Lists --------------------------------------------------------------------------------------------------------------


@trial
async def a_list_is_decided_as_it_was_shown(b: Bench) -> None:
    clock = [1_780_000_000_000]
    journal = b.journal(lambda: clock[0])
    terms = Approval(expires="1h", on_expiry="ask_again")
    agent = b.agent(call("pay", 1), tools=[b.tool(needs_approval=True, approval=terms)])
    state = (await Runner.run(agent, "go", journal=journal)).to_state()
    inbox = Inbox(journal)
    shown = await inbox.list()
    clock[0] += 2 * 3_600_000
    await Runner.run(agent, state)
    [outcome] = await inbox.approve_all(shown, by=ADA)
    assert not outcome.ok
    assert (await inbox.get(shown[0].id)).state == "open"


@trial
async def what_is_alike_has_the_same_arguments(b: Bench) -> None:
    journal = b.journal()
    for x in (1, 1, 2):
        await Runner.run(b.agent(call("pay", x)), "go", journal=journal)
    first, *_ = await Inbox(journal).list()
    alike = await Inbox(journal).alike(first)
    assert {row.request.params["x"] for row in alike} == {1}
    assert len(alike) == 2


# Limits that runs share ---------------------------------------------------------------------------------------------


def counting() -> Pen:
    """A log that counts for several runs."""
    pen = Pen()
    pen(cm.Start("quota-x", "salt", "", {"quota": "x", "per_ms": None}, "keyturn:quota", [], None))
    pen(cm.TakeQuota("run 1", "r/1.0", "a", "3", "5"))
    return pen


@trial
async def a_limit_has_room_for_what_it_says(b: Bench) -> None:
    pen = counting()
    pen.refuses(NotPending, cm.TakeQuota("run 2", "r/1.0", "a", "3", "5"))
    pen(cm.TakeQuota("run 2", "r/1.0", "a", "2", "5"))
    assert pen.log.run.spent == 5


@trial
async def a_call_is_counted_once(b: Bench) -> None:
    pen = counting()
    pen(cm.TakeQuota("run 1", "r/1.0", "a", "3", "5"))
    assert pen.log.run.spent == 3


@trial
async def a_closed_count_counts_nothing(b: Bench) -> None:
    pen = counting()
    pen(cm.CloseQuota())
    pen.refuses(Conflict, cm.TakeQuota("run 2", "r/1.0", "a", "1", "5"))


@trial
async def what_others_spent_counts(b: Bench) -> None:
    journal, asked = b.journal(), list[int]()
    policy = Policy(ask(tool="spend", over=Budget("x", 5, of="tenant")))
    for _ in range(3):
        agent = b.agent(call("spend", 2), tools=[b.tool("spend", needs_approval=False)])
        asked.append(len((await Runner.run(agent, "go", journal=journal, policy=policy)).interruptions))
    assert (asked, len(b.done)) == ([0, 0, 1], 2)


# Who is who ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def desk(b: Bench, terms: Approval) -> AsyncGenerator[tuple[App, Any]]:
    """An app with a directory, and a request that waits in it."""
    app = App([b.agent(call("pay", 1), tools=[b.tool(approval=terms)])], b.journal())
    async with app:
        await app.people.start("root")
        await app.people.add("ada", roles=["ops"], by="root")
        await app.people.add("dan", by="root")
        run = await app.start("desk", "go")
        await app.wait(run.id, 5)
        [row] = await app.inbox.list()
        yield app, row


async def refused(app: App, row: Any, who: Login) -> None:
    """See somebody refused, and the request open."""
    with pytest.raises(NotAllowed):
        await app.inbox.approve(row, by=who)
    assert (await app.inbox.get(row.id)).state == "open"


@trial
async def a_role_that_was_taken_away_counts_no_more(b: Bench) -> None:
    async with desk(b, Approval(role="ops")) as (app, row):
        await app.people.take_role("ops", of="ada", by="root")
        await refused(app, row, Login("ada"))


@trial
async def who_left_decides_no_more(b: Bench) -> None:
    async with desk(b, Approval(role="ops")) as (app, row):
        token = await app.people.issue_token("ada", by="root")
        login = await app.people.login(token)
        await app.people.remove("ada", by="root")
        await refused(app, row, login)


@trial
async def a_token_that_was_revoked_decides_nothing(b: Bench) -> None:
    async with desk(b, Approval(role="ops")) as (app, row):
        token = await app.people.issue_token("ada", by="root")
        login = await app.people.login(token)
        await app.people.revoke_token(token, by="root")
        await refused(app, row, login)


@trial
async def a_delegation_has_an_end(b: Bench) -> None:
    async with desk(b, Approval(role="ops")) as (app, row):
        made = await app.people.delegate("ada", "dan", lasts="1h")
        await app.people.end_delegation(made.id, by="ada")
        await refused(app, row, Login("dan"))


@trial
async def a_machine_decides_nothing(b: Bench) -> None:
    async with desk(b, Approval()) as (app, row):
        await app.people.add("robot", kind="machine", by="root")
        await refused(app, row, Login("robot"))


# What somebody signed -----------------------------------------------------------------------------------------------


async def _signers(app: App) -> SSHSigner:
    """Ada with a key that counts."""
    signer = SSHSigner("ssh-ed25519", 1)
    await app.people.start("ada")
    key = app.people.read_key("ssh", signer.line)
    await app.people.enrol_key("ada", key, signer.sign(app.people.to_sign("ada", key)))
    await app.people.confirm_key(key.id, by="ada")
    return signer


@asynccontextmanager
async def signing(b: Bench, journal: MemoryJournal, count: int = 1) -> AsyncGenerator[tuple[App, SSHSigner, list[Any]]]:
    """An app whose calls take signatures, Ada's key, and requests that wait."""
    agent = b.agent(tools=[b.tool(approval=Approval(signed=True))])
    agent.model = ScriptedModel(script([call("pay", 1)], "done"))
    app = App([agent], journal)
    async with app:
        signer = await _signers(app)
        for _ in range(count):
            await app.wait((await app.start("desk", "go")).id, 5)
        yield app, signer, [*await app.inbox.list()]


@trial
async def what_an_inbox_forged_starts_nothing(b: Bench) -> None:
    """The process of the inbox is in an attacker's hands: it records what nobody signed, and a worker looks."""
    journal = MemoryJournal()
    async with signing(b, journal) as (app, signer, [row]):
        log = await log_in(journal, row.run)
        who = Decider("ada", strength="signed", place=(await app.people.directory()).place)
        proof = Proof("ssh", signer.public.id, signer.sign(b"another decision").data)
        made = Decision(row.call, "approve", digest=row.digest, at=await journal.now(), decider=who, proof=proof)
        await write_to(journal, log, cm.Deliver([made]))
        for _ in range(50):
            await asyncio.sleep(0.01)
            if await app.inbox.list():  # it asks anew
                break
    assert b.done == []


@trial
async def what_somebody_signed_is_for_one_request(b: Bench) -> None:
    async with signing(b, b.journal(), 2) as (app, signer, [first, second]):
        proof = signer.sign(await app.inbox.to_sign(first, "approve"))
        with pytest.raises(NotAllowed):
            await app.inbox.approve(second, by=Login("ada"), proof=proof)
        await app.inbox.approve(first, by=Login("ada"), proof=proof)
        assert [row.id for row in await app.inbox.list()] == [second.id]


# Who is told --------------------------------------------------------------------------------------------------------


class _Deaf(Channel):
    """A channel that fails at first."""

    name = "deaf"

    def __init__(self) -> None:
        self.tries, self.told = 0, list[str]()

    async def send(self, message: Message) -> None:
        self.tries += 1
        if self.tries < 3:
            raise OSError("not now")
        self.told.append(message.topic)


@trial
async def what_could_not_be_told_is_told_again(b: Bench) -> None:
    journal, channel = b.journal(), _Deaf()
    await b.paused(journal=journal)
    quick = Attempts(most=9, first=0.01, longest=0.02)
    teller = Dispatcher(journal, ChannelPlan([channel], attempts=quick), dice=Random(1))
    task = asyncio.ensure_future(teller.run())
    for _ in range(200):
        await asyncio.sleep(0.01)
        if not await journal.outbox(1) and not await journal.deliveries(DeliveryQuery(limit=1)):
            break
    teller.stop()
    await task
    assert channel.told == ["request.created"]
