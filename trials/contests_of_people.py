"""The contests of several people: a quorum, a role that is taken away, broken glass, escalation, marks, whole lists.

And of those who tell them: two dispatchers of one outbox. A contest is like those of `contests.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from keyturn import Conflict
from keyturn.audit.checker import Told
from keyturn.channels import dispatcher
from keyturn.channels.base import CLAIMED, TOPICS, Channel, Message
from keyturn.channels.dispatcher import Dispatcher
from keyturn.channels.plan import ChannelPlan
from keyturn.core.errors import Expired, NotAllowed, NotPending
from keyturn.core.events import (
    ApprovalWithdrawn,
    CallAskedAgain,
    CallDecided,
    CallMarked,
    VoteCast,
    VoteWithdrawn,
)
from keyturn.core.people import Decider
from keyturn.directory.login import Login
from keyturn.journal.rows import DeliveryQuery, Query, RequestRow

from .arena import CONTENDERS, Arena, at_once
from .contests import Met, decided_in, over, waits

_MOST = {"joint": (2, 1), "joint_deny": (2, 2)}
_REFUSED = (Conflict, NotPending, NotAllowed, Expired)
ROOT = "root"


def known(name: str, *roles: str) -> Decider:
    """Somebody for whom the program vouches."""
    return Decider(name, roles, strength="authenticated")


async def _said(arena: Arena, number: int, request: RequestRow, verdict: str, by: Any, **words: Any) -> Any:
    """Say a word at a contender's inbox: its row, or how it was refused."""
    try:
        row = await getattr(arena.inbox(number), verdict)(request, by=by, **words)
    except _REFUSED as refused:
        return refused
    arena.told.append(Told(request.run, request.call, verdict, by.person if isinstance(by, Login) else by.id))
    return row


async def _settled(arena: Arena, run: str, name: str, broken: list[str]) -> Met:
    """Resume a decided run; its effect happened once if it was approved, and it is over."""
    verdicts = await decided_in(arena, run)
    await arena.resumed(await arena.state(0, run, name), name)
    if len(verdicts) != 1:
        broken.append(f"decided {verdicts}")
    if arena.by_run[run] != (verdicts == ["approve"]):
        broken.append(f"decided {verdicts}, and the effect happened {arena.by_run[run]} times")
    return {}, broken + await over(arena, run)


async def quorums(arena: Arena, dice: random.Random) -> Met:
    """Several vote at once, some of them twice: it is decided by the word that makes the quorum, by no other."""
    name = dice.choice([*_MOST])
    run, request = await arena.paused(name)
    voters = [f"p{dice.randint(1, 5)}" for _ in range(dice.randint(2, 6))]
    words = ["approve" if dice.random() < 0.75 else "reject" for _ in voters]
    votes = [
        _said(arena, number % CONTENDERS, request, word, known(who))
        for number, (who, word) in enumerate(zip(voters, words, strict=True))
    ]
    await at_once(votes, waits(dice, len(votes)))
    if not await decided_in(arena, run):
        for number in range(2):
            await _said(arena, number, request, "reject", known(f"late {number}"))
    _, broken = await _settled(arena, run, name, [])
    return {"votes": len(votes)}, broken + _counted(await _voices(arena, run), *_MOST[name])


async def withdrawn_votes(arena: Arena, dice: random.Random) -> Met:
    """A vote is withdrawn while another one completes the quorum: whichever is first, the call asks on and runs not."""
    run, request = await arena.paused("joint")
    await _said(arena, 0, request, "approve", known("p1"))
    takes_back = arena.inbox(1).withdraw(request, by=known("p1"))
    ended = await at_once([takes_back, _said(arena, 2, request, "approve", known("p2"))], waits(dice, 2))
    events = [event for step in (await arena.log(run)).steps for event in step.events]
    votes = sum(isinstance(event, VoteWithdrawn) for event in events)
    approvals = sum(isinstance(event, ApprovalWithdrawn) for event in events)
    broken = [] if votes + approvals == 1 else [f"{votes} votes and {approvals} approvals were withdrawn"]
    broken += [f"somebody was told {end!r}" for end in ended if not isinstance(end, RequestRow)]
    waiting = await arena.journals[0].requests(Query(run=run, state="open"))
    if [len(row.request.votes) for row in waiting] != [votes]:
        broken.append(f"{len(waiting)} wait, and {votes} of two votes were withdrawn")
    for row in waiting:  # so that the run comes to an end
        await _said(arena, 3, row, "reject", known("late"))
    await arena.resumed(await arena.state(0, run, "joint"), "joint")
    if arena.by_run[run]:
        broken.append(f"the effect happened {arena.by_run[run]} times, on one vote of two")
    if votes:  # an approval that was taken back is decided anew, and that is no second decision
        broken += await over(arena, run)
    return {"votes withdrawn": votes, "withdrawn": approvals}, broken


async def _voices(arena: Arena, run: str) -> list[tuple[str, str, bool]]:
    """Every recorded word in order: who, what, and whether it decided."""
    log = await arena.log(run)
    said = [event for step in log.steps for event in step.events if isinstance(event, VoteCast | CallDecided)]
    return [(str(event.decision.by), event.decision.verdict, isinstance(event, CallDecided)) for event in said]


def _counted(voices: list[tuple[str, str, bool]], approving: int, denying: int) -> list[str]:
    """Count the votes anew: the word that decides is the first with which enough people agree."""
    stands = dict[str, str]()
    for place, (who, verdict, decides) in enumerate(voices):
        stands[who] = verdict
        agree = sum(each == verdict for each in stands.values())
        enough = agree >= (approving if verdict == "approve" else denying)
        if decides != enough:
            return [f"word {place} of {voices} {'decided' if decides else 'did not decide'}"]
        if decides and place != len(voices) - 1:
            return [f"there are words after the decision: {voices}"]
    return []


async def demotions(arena: Arena, dice: random.Random) -> Met:
    """A role is taken away while its holder approves: who decided had it at the place that the decision names."""
    who = await arena.somebody("lead")
    people = arena.people
    run, request = await arena.paused("led")
    ended = await at_once(
        [_said(arena, 1, request, "approve", Login(who)), people(2).take_role("lead", of=who, by=ROOT)],
        waits(dice, 2),
    )
    broken = list[str]()
    if isinstance(ended[0], RequestRow):
        [made] = [e.decision for s in (await arena.log(run)).steps for e in s.events if isinstance(e, CallDecided)]
        place = made.decider.place if made.decider is not None else None
        if place is None or "lead" not in (await people(0).directory(place)).roles_of(who):
            broken.append(f"{who} decided by place {place} of the directory, which gives them no such role")
    elif not isinstance(ended[0], NotAllowed):
        broken.append(f"who lost the role was told {ended[0]!r}")
    other, second = await arena.paused("led")
    late = await _said(arena, 3, second, "approve", Login(who))
    if not isinstance(late, NotAllowed):
        broken.append(f"who had lost the role could decide: {late!r}")
    for left, row in ((run, request), (other, second)):
        await _said(arena, 4, row, "reject", Login(await arena.boss()))
        _, wrong = await _settled(arena, left, "led", [])
        broken += wrong
    return {"refused": int(isinstance(ended[0], NotAllowed))}, broken


async def glasses(arena: Arena, dice: random.Random) -> Met:
    """One breaks the glass while another rejects, and a third without the role tries as well: one of the two stands."""
    run, request = await arena.paused("glassy")
    glass = {"break_glass": True, "note": "it burns"}
    ended = await at_once(
        [
            _said(arena, 1, request, "approve", known("cleo", "chief"), **glass),
            _said(arena, 2, request, "reject", known("lea", "lead")),
            _said(arena, 3, request, "approve", known("mal", "lead"), **glass),
        ],
        waits(dice, 3),
    )
    broken = [f"broke the glass without the role: {ended[2]!r}"] if isinstance(ended[2], RequestRow) else []
    won = [isinstance(end, RequestRow) for end in ended[:2]]
    if sum(won) != 1:
        broken.append(f"not one winner: {ended}")
    verdicts = await decided_in(arena, run)
    if verdicts != (["approve"] if won[0] else ["reject"]):
        broken.append(f"decided {verdicts}: {ended}")
    _, wrong = await _settled(arena, run, "glassy", broken)
    return {"broken glass": int(won[0])}, wrong


async def escalations(arena: Arena, dice: random.Random) -> Met:
    """A request is escalated as its time runs out, while somebody of the first circle approves it."""
    run, request = await arena.paused("climbing")
    assert request.expires_at is not None
    state = await arena.state(2, run, "climbing")
    arena.ahead += request.expires_at - arena.now() - dice.randint(-1, 4)
    lead, chief = known("lea", "lead"), known("cleo", "chief")
    ended = await at_once([_said(arena, 1, request, "approve", lead), arena.resumed(state, "climbing")], waits(dice, 2))
    arena.ahead += 10
    if not await decided_in(arena, run):
        await arena.resumed(await arena.state(0, run, "climbing"), "climbing")
    log = await arena.log(run)
    climbed = any(isinstance(event, CallAskedAgain) for step in log.steps for event in step.events)
    broken = list[str]()
    if isinstance(ended[0], RequestRow) == climbed:
        broken.append(f"escalated: {climbed}, and who approved was told {ended[0]!r}")
    if climbed:
        row = await arena.inbox(3).get(request.id)
        late = await _said(arena, 3, row, "approve", lead)
        if not isinstance(late, NotAllowed):
            broken.append(f"who is not asked any more could decide: {late!r}")
        await _said(arena, 4, row, "approve", chief)
    _, wrong = await _settled(arena, run, "climbing", broken)
    return {"escalated": int(climbed)}, wrong


async def claims(arena: Arena, dice: random.Random) -> Met:
    """Several are on a request, or put it off, while one approves it: marks restrict nobody, and none is lost."""
    run, request = await arena.paused()
    count = dice.randint(2, CONTENDERS - 1)
    marks = [
        _said_mark(arena, number, request, dice.choice(("take", "take", "snooze")), known(f"m{number}"))
        for number in range(count)
    ]
    ended = await at_once([_said(arena, 0, request, "approve", known("ada")), *marks], waits(dice, count + 1))
    log = await arena.log(run)
    said = [event for step in log.steps for event in step.events if isinstance(event, CallMarked)]
    kept = Counter(event.decider.id for event in said)
    broken = [] if isinstance(ended[0], RequestRow) else [f"a mark kept a decision out: {ended[0]!r}"]
    for number, end in enumerate(ended[1:]):
        if isinstance(end, RequestRow) != bool(kept[f"m{number}"]):
            broken.append(f"m{number} was told {end!r}, and the log has {kept}")
    _, wrong = await _settled(arena, run, "pay", broken)
    return {"marks": len(said)}, wrong


async def _said_mark(arena: Arena, number: int, request: RequestRow, mark: str, by: Decider) -> Any:
    try:
        return await getattr(arena.inbox(number), mark)(request, by=by, lasts="10m")
    except _REFUSED as refused:
        return refused


async def lists(arena: Arena, dice: random.Random) -> Met:
    """Two decide the same list at once, each in an order of their own: each request has one winner, and one loser."""
    begun = [await arena.paused() for _ in range(dice.randint(2, 6))]
    rows = [request for _, request in begun]
    orders = [dice.sample(rows, len(rows)) for _ in range(2)]
    ended = await at_once(
        [
            arena.inbox(1).approve_all(orders[0], by=known("ada")),
            arena.inbox(2).reject_all(orders[1], by=known("bob")),
        ],
        waits(dice, 2),
    )
    won = Counter(outcome.request for outcomes in ended for outcome in outcomes if outcome.ok)
    broken = [f"{request.id} was decided {won[request.id]} times" for request in rows if won[request.id] != 1]
    for run, _ in begun:
        _, wrong = await _settled(arena, run, "pay", [])
        broken += wrong
    return {"requests": len(rows)}, broken


class _Ledger(Channel):
    """Writes down what is told, of which request, in the arena: it outlives who tells."""

    name = "ledger"
    every_event = True
    sends_topics = frozenset({*TOPICS, CLAIMED})

    def __init__(self, told: Counter[tuple[str, str]]) -> None:
        self._told = told

    async def send(self, message: Message) -> None:
        self._told[message.request, message.topic] += 1


async def dispatchers(arena: Arena, dice: random.Random) -> Met:
    """Several dispatchers go for one outbox, and some stop early: each notice is told, and the lease is given back."""
    dispatcher.TTL_MS = 2_000  # who stands by looks again after half of it
    told = Counter[tuple[str, str]]()
    plan = ChannelPlan([_Ledger(told)])
    at_work = [Dispatcher(journal, plan) for journal in arena.journals[: dice.randint(2, 4)]]
    tasks = [asyncio.ensure_future(each.run()) for each in at_work]
    expected = set[tuple[str, str]]()
    for number in range(dice.randint(2, 6)):
        run, request = await arena.paused()
        expected |= {(request.id, "request.created"), (request.id, "request.decided")}
        await _said(arena, 5, request, "reject", known("ada"))
        await arena.resumed(await arena.state(0, run))
        if number < len(at_work) - 1 and dice.random() < 0.4:
            at_work[number].stop()
    async with asyncio.timeout(30):
        while await arena.journals[0].outbox(1) or await arena.journals[0].deliveries(DeliveryQuery(limit=1)):
            await asyncio.sleep(0.005)
    for each in at_work:
        each.stop()
    await asyncio.gather(*tasks)
    claim = await arena.journals[0].claim(dispatcher.LEASE, "who looks", 1_000)
    await arena.journals[0].release(claim)
    broken = [f"{request} was never told {topic}" for request, topic in sorted(expected - set(told))]
    return {"told": sum(told[each] for each in expected)}, broken
