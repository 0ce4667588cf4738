"""The record reads as what happened: a recheck, an edit, a vote and a question, in every place that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from keyturn import Approval, Decider, Inbox, MemoryJournal, Policy, Rule, Runner, RunState, Secret, function_tool
from keyturn.agents.agent import Agent
from keyturn.audit.service import Audit
from keyturn.channels.base import Recipient
from keyturn.channels.messages import NoticedRequest, message_of
from keyturn.chat.drawing import entry_rows
from keyturn.chat.transcript import CallEntry, Transcript
from keyturn.core import commands as cm
from keyturn.core.codec import Log
from keyturn.core.folding import fold
from keyturn.core.request import request_of
from keyturn.core.run import new_run
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.rows import Delivery, RequestRow
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.presenting.event_words import Teller
from keyturn.presenting.recorded import recorded, still_needed
from keyturn.presenting.trail import trail_of
from keyturn.server.api.run_lines import shown_line
from tests.core.samples import Pen, asked, person, tool
from tests.inbox.paying import ANN, BOB

ASKS = Policy(Rule("ask", tool="pay", reason="over the limit"), default="allow")
paid: list[tuple[int, str]] = []


@function_tool
def pay(amount: int, key: Annotated[str, Secret] = "none") -> str:
    """Pay."""
    paid.append((amount, key))
    return "paid"


def agent(tool: Any = pay) -> Agent[Any]:
    call = function_call("pay", {"amount": 5, "key": "s3cr3t"})
    return Agent("desk", model=ScriptedModel(lambda asked: "done" if tool_outputs(asked) else [call]), tools=[tool])


class Record:
    """One run that waited, was decided and went on, as each view shows it."""

    def __init__(self, journal: MemoryJournal, run: str, request: str, log: Log) -> None:
        self.journal, self.run, self.request, self.log = journal, run, request, log

    @classmethod
    async def of(cls, *decide: Callable[[Inbox, Any], Any], tool: Any = pay, policy: Any = ASKS) -> Record:
        paid.clear()
        journal, desk = MemoryJournal(), agent(tool)
        await Runner.run(desk, "go", journal=journal, policy=policy)
        [row] = await Inbox(journal, {"desk": desk}).list()
        for each in decide:
            await each(Inbox(journal, {"desk": desk}), row)
        if (await journal.requests())[0].state != "open":
            await Runner.run(desk, await RunState.load(journal, row.run, desk), journal=journal, policy=policy)
        return cls(journal, row.run, row.id, await log_in(journal, row.run))

    def words(self) -> list[str]:
        """What tail, the run page and the API's words say."""
        teller, run, said = Teller(), new_run(), list[str]()
        for step in self.log.steps:
            fold(run, [step])
            said += [words for event in step.events for words in teller.rows(run, event)]
        return said

    async def trail(self) -> list[tuple[str, str, str]]:
        """What the request's page, the terminal inbox, `show` and the API's detail say."""
        inbox = Inbox(self.journal)
        [row] = await self.journal.requests()
        return [(mark.word, mark.by, str(mark.text or "")) for mark in await inbox.trail(row)]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the API's lines say of events of one kind."""
        run, found = new_run(), list[dict[str, Any]]()
        for number, step in enumerate(self.log.steps):
            fold(run, [step])
            found += [each for each in shown_line(number, run, step).events if each["event"] == kind]
        return found

    async def audit(self) -> list[tuple[str, str, str]]:
        """What the audit's search says, and so its page and exports."""
        return [(each.what, each.verdict, each.by) for each in await Audit(self.journal).search(run=self.run)]

    def chat(self) -> CallEntry:
        transcript, run = Transcript(), new_run()
        for step in self.log.steps:
            fold(run, [step])
            transcript.feed(run, step)
        return next(entry for entry in transcript.entries if isinstance(entry, CallEntry))

    async def message(self) -> str:
        """The title of what a channel sends once it was decided."""
        [row] = await self.journal.requests()
        about = {"at": 7, "verdict": row.state, "by": row.by}
        note = Delivery("slack", "ann", "request.decided", self.run, row.id, about, 1)
        return message_of([NoticedRequest(note, row)], Recipient(person="ann", channel="slack"), "default").title


def approve(by: Decider, **more: Any) -> Callable[[Inbox, Any], Any]:
    return lambda inbox, name: inbox.approve(name, by=by, **more)


async def test_an_approval_is_followed_by_its_recheck_and_never_by_another_wait() -> None:
    made = await Record.of(approve(ANN))
    assert paid == [(5, "s3cr3t")]
    words = [each for each in made.words() if each.startswith("pay ")]
    assert [each.split(") ", 1)[1].split(":")[0].split(" by")[0] for each in words] == [
        "requires approval",
        "is approved",
        "was checked again after the decision, which is upheld",
        "starts",
        "ended",
    ]
    trail = [word for word, _by, _text in await made.trail()]
    assert trail == ["requires approval", "approved", "policy checked again: approval upheld", "started", "ended"]
    audit = await made.audit()
    assert audit == [("verdict", "ask", "policy:1"), ("decision", "approve", "ann"), ("recheck", "upheld", "policy:1")]
    assert [each.verdict for each in await Audit(made.journal).search(verdict="upheld")] == ["upheld"]
    assert len(await Audit(made.journal).search(verdict="ask")) == 1


async def test_a_recheck_that_requires_more_or_denies_says_so() -> None:
    for later, word, happened in (
        (Rule("ask", tool="pay", approval=Approval(role="chief")), "more", "and the policy requires more"),
        (Rule("deny", tool="pay"), "deny", "is denied"),
    ):
        journal, desk = MemoryJournal(), agent()
        await Runner.run(desk, "go", journal=journal, policy=ASKS)
        [row] = await Inbox(journal, {"desk": desk}).list()
        await Inbox(journal, {"desk": desk}).approve(row, by=ANN)
        made = Record(journal, row.run, row.id, await log_in(journal, row.run))
        await Runner.run(desk, await RunState.load(journal, row.run, desk), journal=journal, policy=Policy(later))
        made.log = await log_in(journal, row.run)
        assert any(each.endswith(happened) for each in made.words()), made.words()
        assert ("recheck", word, "policy:1") in await made.audit()


async def test_an_edit_shows_what_was_asked_what_runs_and_who_changed_it_everywhere() -> None:
    made = await Record.of(approve(BOB, edit={"amount": 3, "key": "0ther"}))
    assert paid == [(3, "0ther")]
    old, new = '{"amount": 5, "key": "[redacted]"}', '{"amount": 3, "key": "[redacted]"}'
    [told] = [each for each in made.words() if "with other arguments" in each]
    assert f'{new} in place of {old} by "bob"' in told.replace("\\[", "[").replace("\\]", "]")
    trail = [(word, by, text.replace("\\", "")) for word, by, text in await made.trail()]
    assert trail[1:4] == [
        ("approved with other arguments", "bob", ""),
        ("arguments before the edit", "", old),
        ("arguments after the edit", "bob", new),
    ]
    [event] = made.events("CallDecided")
    assert (event["params_before"], event["params"], event["by"]) == (json.loads(old), json.loads(new), "bob")
    [entry] = await Audit(made.journal).search(verdict="edit")
    assert (json.loads(entry.arguments), json.loads(entry.edited)) == (json.loads(old), json.loads(new))
    assert entry.by == "bob"
    chat = made.chat()
    assert (chat.before, chat.arguments["amount"], chat.by) == (json.loads(old), 3, "bob")
    assert "in place of" in str(list(entry_rows(chat, 80)))
    assert await made.message() == "approved with other arguments by bob: desk asks to run pay"
    assert "s3cr3t" not in str([made.words(), trail, event, entry])


async def test_a_vote_is_one_of_several_approvals() -> None:
    four_eyes = function_tool(_pay, name_override="pay", approval=Approval(quorum=2))
    made = await Record.of(approve(ANN), tool=four_eyes, policy=None)
    assert paid == []
    assert any('has 1 of 2 approvals by "ann"' in each for each in made.words())
    assert ("1 of 2 approvals", "ann", "") in await made.trail()
    assert ("vote", "approve", "ann") in await made.audit()


def _pay(amount: int, key: str = "none") -> str:
    """Pay."""
    paid.append((amount, key))
    return "paid"


async def test_a_question_to_the_agent_is_told_as_a_question_and_not_as_a_rejection() -> None:
    made = await Record.of(lambda inbox, name: inbox.ask_back(name, "Which account?", by=ANN))
    assert paid == []
    [told] = [each for each in made.words() if "Which account?" in each and "by" in each]
    assert "is not decided: the agent is asked a question" in told
    assert ("asked back", "ann", "Which account?") in await made.trail()
    assert made.events("CallDecided")[0]["verdict"] == "asked_back"
    assert ("decision", "asked_back", "ann") in await made.audit()
    assert len(await Audit(made.journal).search(verdict="asked_back")) == 1
    assert (made.chat().verdict, made.chat().decided) == ("asked_back", "question, not a decision, by")
    assert await made.message() == "asked back by ann: desk asks to run pay"
    for everything in (made.words(), await made.trail(), made.events("CallDecided"), await made.audit()):
        assert "reject" not in str(everything)
    model_reads = next(each for each in made.events("CallFinished"))["output"]
    assert "a person asks a question before they decide" in model_reads


def test_a_vote_reads_as_what_its_voter_voted_for() -> None:
    """Votes to answer a call, or to run it again, read as rejections, and to their voters as approvals."""

    def reads(pen: Pen, verdict: str, by: Decider, **more: Any) -> tuple[str, str]:
        pen.decide(verdict, by=by, **more)
        row, trail = RequestRow.of(request_of(pen.run, pen.call())), trail_of(pen.log.steps, pen.call().id)
        own = recorded(row, by.id, trail, pen.now, (), None)
        return next(mark.word for mark in reversed(trail) if mark.by == by.id), "" if own is None else own.heading

    plain, chain = (
        asked(tool("c0", "ask", terms=terms))
        for terms in (Approval(quorum=2), Approval(steps=[Approval(signed=False, role="ops"), Approval(quorum=2)]))
    )
    ada, bob, cyd = person("ada", "ops"), person("bob"), person("cyd")
    assert reads(plain, "answer", ada, output="4") == ("1 of 2 answers", "You answered (1 of 2).")
    for who in (ada, bob, cyd):
        chain.decide("approve", by=who)
    chain.begin()
    chain(cm.LoseCall(chain.call().id, "the power failed"))
    assert reads(chain, "retry", ada) == ("approved step 1 of 2", "You approved step 1 of 2.")
    again = "1 of 2 approvals of another run", "You approved another run (step 2 of 2, 1 of 2)."
    assert reads(chain, "retry", bob) == again
    assert still_needed(request_of(chain.run, chain.call())).endswith(
        "one more approval from any signed-in user is needed."
    )
