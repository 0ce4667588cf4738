"""What a review found about calls that were started and lost: a probe renewed an approval, and a denial forgot them."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, Approval, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.core import commands as cm
from keyturn.core.errors import NotAllowed
from keyturn.core.policy import Verdict
from keyturn.inbox.desk import Inbox
from keyturn.policies.rules import Policy, Rule
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import OutcomeUnknown
from tests.core.samples import Pen, asked, tool

DAY = 86_400_000
CALL = "r/1.0"


class Lost:
    """An agent whose approved call was started, and of which nobody knows what became."""

    def __init__(self, check: Any = None, **terms: Any) -> None:
        self.time, self.paid, self.works = [1_700_000_000_000], list[str](), False
        self.journal = MemoryJournal(lambda: self.time[0])

        def pay(to: str) -> str:
            if not self.works:
                raise OutcomeUnknown("the line went dead")
            self.paid.append(to)
            return "paid"

        self.tool = function_tool(pay, check=check, approval=Approval(**terms))
        model = ScriptedModel([[function_call("pay", {"to": "ada"}, call_id="c1")], "done"])
        self.agent = Agent("clerk", model=model, tools=[self.tool])
        self.run = ""

    async def begin(self) -> None:
        """Come to the doubt."""
        result = await Runner.run(self.agent, "go", journal=self.journal)
        self.run = result.run_id
        state = result.to_state()
        state.approve(result.interruptions[0], by="ann")
        result = await Runner.run(self.agent, state)
        assert [item.kind for item in result.interruptions] == ["in_doubt"]
        self.works = True

    async def go_on(self, policy: Policy | None = None) -> Any:
        state = await RunState.load(self.journal, self.run, self.agent)
        result = await Runner.run(self.agent, state, policy=policy)
        assert (await check(self.journal)).violations == []
        return result


def did_not_run(_context: Any) -> bool:
    return False


async def test_what_a_check_found_lets_an_approval_that_still_counts_go_on() -> None:
    lost = Lost(did_not_run, execute_by="1h")
    await lost.begin()
    assert (await lost.go_on()).final_output == "done"
    assert lost.paid == ["ada"]


async def test_what_a_check_found_does_not_renew_an_approval_that_went_stale() -> None:
    lost = Lost(did_not_run, execute_by="1h")
    await lost.begin()
    lost.time[0] += 30 * DAY
    result = await lost.go_on()
    assert ([item.kind for item in result.interruptions], lost.paid) == (["approval"], [])


async def test_what_a_check_found_does_not_pass_by_the_newest_policy() -> None:
    lost = Lost(did_not_run)
    await lost.begin()
    stricter = Policy(Rule("ask", approval=Approval(reason="required")))
    result = await lost.go_on(stricter)
    assert ([item.kind for item in result.interruptions], lost.paid) == (["approval"], [])
    result = await lost.go_on(Policy(Rule("deny", reason="closed")))
    assert lost.paid == []


async def test_a_call_that_nobody_was_asked_about_is_asked_about_where_the_newest_policy_asks() -> None:
    lost = Lost(did_not_run)
    lost.tool.approval = None
    result = await Runner.run(lost.agent, "go", journal=lost.journal)
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    lost.run, lost.works = result.run_id, True
    result = await lost.go_on(Policy(Rule("ask")))
    assert ([item.kind for item in result.interruptions], lost.paid) == (["approval"], [])


def test_after_a_restore_a_check_lets_nothing_run() -> None:
    pen = asked(tool("c0", "ask", recover="probe"))
    pen.decide("approve")
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    pen(cm.RecordRestore("its store was brought back", "n1"))
    pen.refuses(NotAllowed, cm.Deliver([pen.decision("retry", via="probe")]))
    pen(cm.Deliver([pen.decision("ran", via="probe")]))  # that it ran is a fact
    assert pen.state() == "ran"


def retried() -> Pen:
    pen = asked()
    pen.decide("approve")
    pen.begin()
    pen(cm.LoseCall(CALL, "the power failed"))
    pen.decide("retry")
    return pen


@pytest.mark.parametrize("how", ["denied", "failed"])
def test_what_was_started_and_will_not_be_again_is_in_doubt(how: str) -> None:
    """The model read "denied" of an effect that had happened, and nobody was asked any more."""
    pen = retried()
    if how == "denied":
        pen(cm.Screen(CALL, Verdict("deny", "closed"), on_decision=True))
    else:
        pen(*pen.screened())
        pen(cm.FinishCall(CALL, {"type": "function_call_output", "call_id": "c0", "output": "no"}, failed=True))
    assert pen.state() == "in_doubt"
    pen.decide("ran", output="it did")
    assert pen.state() == "ran"


async def test_a_denial_of_a_retry_asks_a_person_what_became_of_it() -> None:
    lost = Lost()
    await lost.begin()
    [row] = await lost.journal.requests()
    await Inbox(lost.journal).resolve(row, "retry", by="ann")
    result = await lost.go_on(Policy(Rule("deny", reason="closed")))
    assert ([item.kind for item in result.interruptions], lost.paid) == (["in_doubt"], [])
    assert "denies" in result.interruptions[0].reason
