"""The shared suite of the doors: what a decision means and what refuses it, whichever way it comes in.

A door is a way to decide a waiting call: a state in hand, the context, the console, the inbox, and whatever is built
on them. Subclass `DecisionDoorSuite`, say how a word is said through the door, and pytest runs every law of a decision.
"""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import pytest

from ...agents.agent import Agent
from ...core.approval import Approval
from ...core.errors import Conflict, Expired, KeyturnError, NotAllowed, NotPending, UserError
from ...engine.runner import Runner
from ...engine.states.state import RunState
from ...engine.views.items import ToolApprovalItem
from ...inbox.desk import Inbox
from ...journal.memory import MemoryJournal
from ...models.scripted.model import ScriptedModel, function_call
from ...policies.grants import Grant
from ...policies.rule import deny
from ...policies.rules import Policy
from ...tools.base import OutcomeUnknown
from ...tools.function import FunctionTool, function_tool
from .door_case import ANN, BOB, EVE, Case, as_requester, payment


class DecisionDoorSuite:
    """Tests a door: subclass it in a test module, name the class `Test...`, and implement `say`.

    `cannot` are the words that the door does not have: any of edit, answer, grant, where, resolve, note, message.
    `knows_people` says that it can tell who somebody is; else every name is only claimed.

    >>> class TestMine(DecisionDoorSuite):
    ...     async def say(self, case, word, item, **words):
    ...         row = await case.inbox.get(item.request_id)
    ...         await getattr(case.inbox, word)(row, by="ann", **words)
    >>> hasattr(TestMine, "test_an_approval_lets_exactly_that_call_run")
    True
    """

    cannot: ClassVar[frozenset[str]] = frozenset()
    knows_people: ClassVar[bool] = False

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        """Decide a call: `word` is approve, reject, answer or resolve.

        `words` may hold edit, grant, note, by; message and always for a rejection; output for an answer; outcome and
        output for a call in doubt. What the door refuses raises the error that it was refused with.
        """
        raise NotImplementedError("say how a decision is made through this door")

    async def shown(self, case: Case) -> str:
        """Return all that the door shows of what waits, as a text."""
        return "\n".join(repr(item.request) + repr(item.arguments) for item in await case.waiting())

    def make_agent(self, model: ScriptedModel, tool: FunctionTool) -> Agent[Any]:
        """Make the agent, named clerk, whose calls of this tool wait."""
        return Agent("clerk", model=model, tools=[tool])

    # What the laws are tried on --------------------------------------------------------------------------------------

    async def paused(self, *calls: Any, tool: FunctionTool | None = None, requester: str | None = None) -> Case:
        """Make a run that waits over these calls of `pay`; one of them unless others are given."""
        done: list[Any] = []
        time = [1_000_000]
        made = tool if tool is not None else payment(done)
        journal = MemoryJournal(lambda: time[0])
        given = calls or (("c1", {"to": "ada", "amount": 5}),)
        replies = [[function_call("pay", arguments, call_id=label) for label, arguments in given]]
        agent = self.make_agent(ScriptedModel([*replies, "done", "done again", "and again"]), made)
        case = Case(agent, journal, done, time)
        state: RunState[Any] = RunState(agent.own_context(), "go", agent)
        start = state.undelivered.start
        assert start is not None
        start["requester"] = requester
        case.run = (await Runner.run(agent, state, journal=journal)).run_id
        return case

    async def gated(self, terms: Approval, requester: str | None = None) -> Case:
        """Make a run that waits on these terms."""
        done: list[Any] = []
        case = await self.paused(tool=payment(done, approval=terms), requester=requester)
        case.done = done
        return case

    def without(self, *words: str) -> bool:
        """Return whether the door lacks one of these words, so that there is nothing to test."""
        return bool(self.cannot & set(words))

    async def refused(self, case: Case, error: type[KeyturnError], word: str, item: object, **words: Any) -> None:
        """Check that a word is refused with such an error, and that nothing ran and nothing was lost by it."""
        before = len(case.done)
        with pytest.raises(error):
            await self._said_and_done(case, word, item, **words)
        case.hand = None
        assert len(case.done) == before, "what was refused has run"

    async def _said_and_done(self, case: Case, word: str, item: Any, **words: Any) -> None:
        await self.say(case, word, item, **words)
        await case.go_on()

    # Laws ------------------------------------------------------------------------------------------------------------

    async def test_an_approval_lets_exactly_that_call_run(self) -> None:
        """An approval runs exactly that call, once; its siblings stay pending."""
        case = await self.paused(("c1", {"to": "ada", "amount": 1}), ("c2", {"to": "bob", "amount": 2}))
        await self.say(case, "approve", await case.item("c1"))
        result = await case.go_on()
        assert case.done == [("ada", 1)]
        assert [item.call_id for item in result.interruptions] == ["c2"]

    async def test_a_rejection_runs_nothing_and_reaches_the_model(self) -> None:
        """A rejected call does not run, and the model reads the reason."""
        case = await self.paused()
        words = {} if self.without("message") else {"message": "not today"}
        await self.say(case, "reject", await case.item(), **words)
        assert (await case.go_on()).final_output == "done"
        assert case.done == []
        assert words.get("message", "not approved") in case.told()

    async def test_an_answer_stands_in_for_the_tool(self) -> None:
        """A person's answer reaches the model as the result, and the tool does not run."""
        if self.without("answer"):
            return
        case = await self.paused()
        await self.say(case, "answer", await case.item(), output="paid by hand")
        await case.go_on()
        assert (case.done, "paid by hand" in case.told()) == ([], True)

    async def test_an_edit_is_checked_and_runs_as_it_is(self) -> None:
        """An edit is validated by the tool, runs byte for byte, and the model reads that it was made."""
        if self.without("edit"):
            return
        case = await self.paused()
        await self.refused(case, KeyturnError, "approve", await case.item(), edit={"to": "ada", "amount": "much"})
        await self.say(case, "approve", await case.item(), edit={"to": "ada", "amount": 3})
        await case.go_on()
        assert case.done == [("ada", 3)]
        assert "A person changed the arguments" in case.told()

    async def test_what_is_fixed_cannot_be_edited(self) -> None:
        """An edit of arguments that cannot be edited is refused, as recorded of the tool."""
        if self.without("edit"):
            return
        tool = payment([])
        tool.editable = False
        case = await self.paused(tool=tool)
        tool.editable = True  # the live tool says otherwise now, and is not asked
        await self.refused(case, UserError, "approve", await case.item(), edit={"to": "ada", "amount": 3})

    async def test_what_runs_elsewhere_cannot_be_answered(self) -> None:
        """An answer to a call that cannot be answered is refused, as recorded of the tool."""
        if self.without("answer"):
            return
        tool = payment([])
        tool.answerable = False
        case = await self.paused(tool=tool)
        tool.answerable = True
        await self.refused(case, UserError, "answer", await case.item(), output="paid by hand")

    async def test_a_decision_names_the_asking_that_was_shown(self) -> None:
        """A decision on an earlier request is refused if the call was requested again since, with another content."""
        case = await self.paused()
        stale = await case.item()
        case.agent.tools = [payment(case.done, description="Pays, and tells everybody.")]
        await Inbox(case.journal).approve(stale.request, by="somebody else")
        result = await case.go_on()  # the tool changed: the approval is void, and it asks again
        assert [item.revision for item in result.interruptions] == [2]
        await self.refused(case, KeyturnError, "approve", stale)
        assert case.done == []

    async def test_a_call_of_another_run_cannot_be_decided(self) -> None:
        """An item of another run, or of none, decides nothing."""
        case = await self.paused()
        other = await (await self.paused()).item()
        await self.refused(case, KeyturnError, "approve", other)
        assert (await case.item()).revision == 1

    async def test_the_same_word_twice_is_one_word(self) -> None:
        """A repeated decision is recorded once and runs the call once."""
        case = await self.paused()
        item = await case.item()
        await self.say(case, "approve", item)
        with contextlib.suppress(Conflict, NotPending):
            await self.say(case, "approve", item)
        await case.go_on()
        assert case.done == [("ada", 5)]

    async def test_the_first_word_stands(self) -> None:
        """Once a decision is recorded a different one is refused, and the call does not run a second time."""
        case = await self.paused(("c1", {"to": "ada", "amount": 1}), ("c2", {"to": "bob", "amount": 2}))
        item = await case.item("c1")
        await Inbox(case.journal).reject(item.request, by="zoe")
        await self.refused(case, KeyturnError, "approve", item)
        assert case.done == []

    async def test_what_ran_out_cannot_be_decided(self) -> None:
        """A decision that is delivered after the request expired is refused, whatever clock its door has."""
        case = await self.gated(Approval(expires="1m"))
        item = await case.item()
        case.time[0] += 120_000
        await self.refused(case, Expired, "approve", item)
        await case.go_on()
        assert case.done == []

    async def test_the_newest_policy_has_the_last_word(self) -> None:
        """A policy that changed while the call was pending applies to the decision, and its denial wins."""
        case = await self.paused()
        await self.say(case, "approve", await case.item())
        case.policy = Policy(deny(tool="pay"))
        result = await case.go_on()
        assert (case.done, result.final_output) == ([], "done")

    async def test_a_reason_that_is_required_is_required(self) -> None:
        """A decision without a reason is refused if the terms require one."""
        case = await self.gated(Approval(reason="required"))
        await self.refused(case, UserError, "approve", await case.item())
        if not self.without("note"):
            await self.say(case, "approve", await case.item(), note="as agreed")
            await case.go_on()
            assert case.done == [("ada", 5)]

    async def test_who_only_claims_a_name_meets_no_terms_for_people(self) -> None:
        """A name alone meets neither role, users, a quorum, nor `not_requester`."""
        for terms in (
            Approval(role="ops"),
            Approval(users=("ann",)),
            Approval(quorum=2),
            Approval(deny_quorum=2),
            Approval(not_requester=True),
        ):
            case = await self.gated(terms, requester="eve")
            for word in ("approve", "reject"):
                await self.refused(case, NotAllowed, word, await case.item(), by="ann")
            assert [item.call_id for item in await case.waiting()] == ["c1"], terms

    async def test_only_whom_the_terms_name_decides(self) -> None:
        """Users and roles are checked for every decision; a person who has neither is refused."""
        if not self.knows_people:
            return
        for terms in (Approval(role="ops"), Approval(users=("ann", "zoe"))):
            case = await self.gated(terms)
            await self.refused(case, NotAllowed, "approve", await case.item(), by=EVE)
            await self.refused(case, NotAllowed, "reject", await case.item(), by=EVE)
            await self.say(case, "approve", await case.item(), by=ANN)
            await case.go_on()
            assert case.done == [("ada", 5)], terms

    async def test_the_requester_does_not_decide(self) -> None:
        """With `not_requester` the requester is refused; so is every user if the requester is unknown."""
        if not self.knows_people:
            return
        case = await self.gated(Approval(not_requester=True), requester="ann")
        await self.refused(case, NotAllowed, "approve", await case.item(), by=ANN)
        await self.refused(case, NotAllowed, "approve", await case.item(), by=as_requester(BOB))
        await self.say(case, "approve", await case.item(), by=BOB)
        await case.go_on()
        assert case.done == [("ada", 5)]
        unknown = await self.gated(Approval(not_requester=True))
        await self.refused(unknown, NotAllowed, "approve", await unknown.item(), by=BOB)

    async def test_the_requester_confirms_before_others_decide(self) -> None:
        """With `confirm` the requester confirms first, and no other user for them; then the approvers decide."""
        if not self.knows_people:
            return
        case = await self.gated(Approval(confirm=True, role="ops"), requester="eve")
        await self.refused(case, NotAllowed, "approve", await case.item(), by=ANN)
        await self.say(case, "approve", await case.item(), by=EVE)
        item = await case.item()
        assert (case.done, item.request.waits_for) == ([], "others")
        await self.say(case, "approve", item, by=ANN)
        await case.go_on()
        assert case.done == [("ada", 5)]

    async def test_a_quorum_is_of_distinct_people(self) -> None:
        """A quorum is a number of users: two votes of one user are one."""
        if not self.knows_people:
            return
        case = await self.gated(Approval(quorum=2))
        for _ in range(2):
            await self.say(case, "approve", await case.item(), by=ANN)
        await case.go_on()
        assert case.done == []
        [item] = await case.waiting()
        assert [vote.by for vote in item.request.votes] == ["ann"]
        await self.say(case, "approve", item, by=BOB)
        await case.go_on()
        assert case.done == [("ada", 5)]

    async def test_a_quorum_takes_no_standing_decision(self) -> None:
        """One approver cannot grant later calls of a tool that requires two."""
        if not self.knows_people or self.without("grant"):
            return
        case = await self.gated(Approval(quorum=2))
        await self.refused(case, NotAllowed, "approve", await case.item(), by=ANN, grant=Grant())

    async def test_a_grant_covers_what_it_says_and_can_be_taken_back(self) -> None:
        """A grant approves what it certainly covers, of the same tool of the same agent, until it is revoked."""
        if self.without("where"):
            return
        calls = [(f"c{amount}", {"to": "ada", "amount": amount}) for amount in (1, 2, 300)]
        case = await self.paused(*calls)
        await self.say(case, "approve", await case.item("c1"), grant=Grant(where={"amount": {"le": 100}}))
        result = await case.go_on()
        assert sorted(case.done) == [("ada", 1), ("ada", 2)]
        assert [item.call_id for item in result.interruptions] == ["c300"]
        state = await case.state()
        [grant] = state.grants
        await case.inbox.revoke(case.run, grant.id, by="ann")
        assert (await case.state()).grants == []

    async def test_secrets_are_shown_nowhere(self) -> None:
        """What a tool marked as secret is redacted as recorded, even if the tool is missing."""
        tool = payment([])
        tool.secrets = ("to",)
        case = await self.paused(("c1", {"to": "hunter2", "amount": 5}), tool=tool)
        case.agent.tools = []
        assert "hunter2" not in await self.shown(case)

    async def test_a_call_in_doubt_takes_a_word_of_its_own(self) -> None:
        """A call in doubt cannot be approved; a person resolves it, and that has no second effect."""
        if self.without("resolve"):
            return
        case = await self.doubted()
        item = await case.item()
        await self.refused(case, NotPending, "approve", item)
        await self.say(case, "resolve", item, outcome="ran", output="it did")
        await case.go_on()
        assert case.done == [("ada", 5)]
        assert "it did" in case.told()

    async def test_a_second_word_on_a_doubt_is_not_a_second_effect(self) -> None:
        """A retry that is sent twice, where the call was lost in between, runs once for each request that was shown."""
        if self.without("resolve"):
            return
        case = await self.doubted()
        item = await case.item()
        await self.say(case, "resolve", item, outcome="retry")
        await case.go_on()  # it is lost again
        assert len(case.done) == 2
        try:
            await self.say(case, "resolve", item, outcome="retry")
            await case.go_on()
        except KeyturnError:
            case.hand = None
        assert len(case.done) == 2

    async def test_words_that_no_store_holds_are_refused(self) -> None:
        """A lone surrogate or a NUL in what a person writes is never recorded."""
        if self.without("message"):
            return
        for text in ("no \ud83d", "no \x00"):
            case = await self.paused()
            try:
                await self.say(case, "reject", await case.item(), message=text)
            except UserError:
                assert [item.call_id for item in await case.waiting()] == ["c1"]
                continue
            await case.go_on()
            assert text not in case.told(), "what a terminal cannot hold was not typed"

    async def doubted(self) -> Case:
        """Make a run with a call whose outcome is unknown."""
        done: list[Any] = []

        async def pay(to: str, amount: int) -> str:
            done.append((to, amount))
            raise OutcomeUnknown("the line went dead")

        case = await self.paused(tool=function_tool(pay, failure_error_function=None, needs_approval=True))
        case.done = done
        await case.inbox.approve((await case.item()).request, by="zoe")
        await case.go_on()
        assert [item.kind for item in await case.waiting()] == ["in_doubt"]
        return case
