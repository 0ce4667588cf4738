"""Rules and plain functions keep the promises of policies, and the suite finds what does not."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import CallView, Policy, Rule
from keyturn.testing import PolicySuite


class TestRules(PolicySuite):
    def make_policy(self, answer: Any) -> Policy:
        def when(_call: CallView, _context: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer if answer == "perhaps" else True

        if answer is None:
            return Policy(Rule("allow", tool="another"))
        return Policy(Rule(answer if answer in ("allow", "ask", "deny") else "allow", when=when))

    def make_limit(self, action: Any) -> Policy:
        return Policy(Rule(action, tool="pay", where={"amount": {"gt": 100}}), default="allow")


class TestFunction(PolicySuite):
    def make_policy(self, answer: Any) -> Any:
        def policy(_call: CallView, _context: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return policy

    def make_limit(self, action: str) -> Any:
        def policy(call: CallView, _context: Any) -> Any:
            amount = call.params["amount"]
            return "allow" if isinstance(amount, int | float) and amount <= 100 else action

        return policy


class TestAsyncFunction(PolicySuite):
    def make_policy(self, answer: Any) -> Any:
        async def policy(_call: CallView, _context: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return policy

    def make_limit(self, action: str) -> Any:
        limit = TestFunction().make_limit(action)

        async def policy(call: CallView, context: Any) -> Any:
            return limit(call, context)

        return policy


class Lenient(PolicySuite):
    """Denies nothing, whatever it was told."""

    def make_policy(self, answer: Any) -> Any:
        return lambda _call, _context: "ask" if answer == "deny" else answer


class Coercing(PolicySuite):
    """Takes what it cannot compare for nothing."""

    def make_policy(self, answer: Any) -> Any:
        return lambda _call, _context: answer

    def make_limit(self, action: str) -> Any:
        def policy(call: CallView, _context: Any) -> Any:
            amount = call.params["amount"]
            return action if isinstance(amount, int | float) and amount > 100 else "allow"

        return policy


def test_the_suite_finds_a_policy_that_takes_what_it_cannot_tell_for_no() -> None:
    suite = Coercing()
    suite.streamed, suite.done = False, []
    with pytest.raises(AssertionError, match="'500' ran"):
        suite.test_what_it_cannot_tell_of_the_arguments_does_not_run("deny")


def test_the_suite_finds_a_policy_that_does_not_deny() -> None:
    suite = Lenient()
    suite.streamed, suite.done = False, []
    with pytest.raises(AssertionError):
        suite.test_what_it_denies_does_not_run(needs_approval=False)
    with pytest.raises(AssertionError):
        suite.test_it_is_asked_again_at_the_decision_and_may_be_stricter()
