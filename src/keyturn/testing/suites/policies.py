"""The shared suite of the policies room: what every policy promises, whoever wrote it.

Subclass `PolicySuite`, say how a policy that gives a certain answer is made, and pytest runs the rest; nothing but
pytest is needed. Which calls a policy looks at, and what it makes of them, is tested beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ...agents.agent import Agent
from ...agents.context import RunContextWrapper
from ...core.errors import UserError
from ...core.events import CallScreened
from ...core.policy import CallView
from ...engine.result import RunResult
from ...engine.run.log_cache import forget
from ...engine.runner import Runner
from ...engine.states.state import RunState
from ...models.scripted.model import function_call
from ...tools.function import function_tool
from .tool_case import script

NONSENSE = "perhaps"


class PolicySuite:
    """Tests a policy: subclass it in a test module, name the class `Test...`, and implement `make_policy`.

    >>> class TestMine(PolicySuite):
    ...     def make_policy(self, answer):
    ...         def policy(call, context):
    ...             if isinstance(answer, Exception):
    ...                 raise answer
    ...             return answer
    ...         return policy
    >>> hasattr(TestMine, "test_what_it_denies_does_not_run")
    True
    """

    streamed: bool
    done: list[str]

    def make_policy(self, answer: object) -> Any:
        """Make a policy that says this of every call.

        `answer` is "allow", "ask" or "deny"; None for a policy that says nothing; an exception for one that raises it;
        or "perhaps", which is no answer at all.
        """
        raise NotImplementedError("say how a policy with this answer is made")

    def make_limit(self, action: str) -> Any:
        """Make a policy that says "ask" or "deny" where `amount` is over 100, and "allow" of all others.

        None for a policy that never looks at arguments: then there is nothing to try.
        """
        return None

    @pytest.fixture(autouse=True, params=["plain", "streamed"])
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Run each test plain and streamed, in a world of its own, with no key of the user's."""
        monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-suite-of-policies")
        self.streamed, self.done = request.param == "streamed", []
        yield
        forget()

    def agent(self, needs_approval: bool) -> Agent[Any]:
        """Make an agent with one tool, which it calls once."""

        async def pay(to: str, amount: int = 5) -> str:
            self.done.append(to)
            return f"paid {to}"

        tool = function_tool(pay, needs_approval=needs_approval, risk="high")
        call = function_call("pay", {"to": "ada"}, call_id="c1")
        return Agent("desk", model=script([dict(call)]), tools=[tool])

    def payer(self, amount: object) -> Agent[Any]:
        """Make an agent that pays an amount once, with a tool that takes texts as well."""

        async def pay(to: str, amount: int | float | str | None = None) -> str:
            self.done.append(to)
            return f"paid {to} {amount}"

        call = function_call("pay", {"to": "ada", "amount": amount}, call_id="c1")
        return Agent("desk", model=script([dict(call)]), tools=[function_tool(pay)])

    def run(self, agent: Agent[Any], given: Any, answer: Any) -> RunResult:
        """Run or resume under a policy that says this."""
        return asyncio.run(self._played(agent, given, self.make_policy(answer)))

    async def _played(self, agent: Agent[Any], given: Any, policy: Any) -> RunResult:
        if not self.streamed:
            return await Runner.run(agent, given, policy=policy)
        stream = Runner.run_streamed(agent, given, policy=policy)
        async for _event in stream.stream_events():
            pass
        return stream.run_loop_task.result()

    def waiting(self, answer: Any = "ask", *, needs_approval: bool = False) -> tuple[Agent[Any], RunState[Any]]:
        """Make a run whose call waits."""
        agent = self.agent(needs_approval)
        result = self.run(agent, "go", answer)
        assert [item.call_id for item in result.interruptions] == ["c1"]
        assert self.done == []
        return agent, result.to_state()

    @pytest.mark.parametrize("needs_approval", [False, True])
    def test_what_it_allows_runs(self, needs_approval: bool) -> None:
        result = self.run(self.agent(needs_approval), "go", "allow")
        assert (result.final_output, self.done) == ("done: c1", ["ada"])

    @pytest.mark.parametrize("needs_approval", [False, True])
    def test_what_it_denies_does_not_run(self, needs_approval: bool) -> None:
        result = self.run(self.agent(needs_approval), "go", "deny")
        assert (result.final_output, result.interruptions) == ("done: c1", []), "the model is told, and goes on"
        assert self.done == []

    @pytest.mark.parametrize("answer", ["ask", NONSENSE, LookupError("hunter2")], ids=["ask", "nonsense", "raises"])
    def test_what_it_does_not_clearly_allow_asks(self, answer: object) -> None:
        _agent, state = self.waiting(answer)
        [item] = state.get_interruptions()
        assert answer == "ask" or item.reason, "where something is wrong with the policy, the request says so"
        assert "hunter2" not in item.reason

    @pytest.mark.parametrize("action", ["ask", "deny"])
    def test_what_it_cannot_tell_of_the_arguments_does_not_run(self, action: str) -> None:
        policy = self.make_limit(action)
        if policy is None:
            pytest.skip("this policy never looks at arguments")
        for amount in (500, 100.5, "500", "\u0665\u0660\u0660", "a lot", None):
            asyncio.run(self._played(self.payer(amount), "go", policy))
            assert self.done == [], f"{amount!r} ran though nobody can tell that it is not over 100"
        asyncio.run(self._played(self.payer(100), "go", policy))
        assert self.done == ["ada"]

    def test_where_it_says_nothing_the_tool_decides(self) -> None:
        assert self.run(self.agent(needs_approval=False), "go", None).final_output == "done: c1"
        assert self.done == ["ada"]
        self.done.clear()
        self.waiting(None, needs_approval=True)

    def test_it_is_asked_of_what_will_run(self) -> None:
        policy, seen = self.make_policy("ask"), list[CallView]()

        def listening(call: CallView, context: RunContextWrapper[Any]) -> Any:
            seen.append(call)
            return policy(call, context)

        result = asyncio.run(self._played(self.agent(needs_approval=False), "go", listening))
        [item], [call] = result.interruptions, seen
        assert (call.tool, call.agent, call.call_id, call.risk) == ("pay", "desk", "c1", "high")
        assert (call.params, call.digest) == (item.params, item.digest) == ({"to": "ada", "amount": 5}, item.digest)

    def test_it_is_asked_again_at_the_decision_and_may_be_stricter(self) -> None:
        agent, state = self.waiting()
        state.approve(state.get_interruptions()[0])
        result = self.run(agent, state, "deny")
        assert (result.final_output, self.done) == ("done: c1", []), "what was denied meanwhile does not run"
        assert [event.action for event in _screenings(result)] == ["ask", "deny"], "both verdicts are recorded"

    @pytest.mark.parametrize("answer", ["allow", "ask", None])
    def test_an_approval_stands_where_it_is_no_stricter(self, answer: object) -> None:
        agent, state = self.waiting()
        state.approve(state.get_interruptions()[0])
        result = self.run(agent, state, answer)
        assert (result.final_output, self.done) == ("done: c1", ["ada"])
        assert len(_screenings(result)) == 2

    def test_an_edit_is_asked_about_as_it_was_edited(self) -> None:
        agent, state = self.waiting()
        state.approve(state.get_interruptions()[0], edit={"to": "bob"})
        policy, seen = self.make_policy("allow"), list[Any]()

        def listening(call: CallView, context: RunContextWrapper[Any]) -> Any:
            seen.append(call.params)
            return policy(call, context)

        asyncio.run(self._played(agent, state, listening))
        assert (seen, self.done) == ([{"to": "bob", "amount": 5}], ["bob"])

    @pytest.mark.parametrize("answer", ["allow", "deny", LookupError("no")], ids=["allow", "deny", "raises"])
    def test_it_never_undoes_what_a_person_refused(self, answer: object) -> None:
        agent, state = self.waiting()
        state.reject(state.get_interruptions()[0])
        assert self.run(agent, state, answer).final_output == "done: c1"
        assert self.done == []

    @pytest.mark.parametrize("answer", ["allow", "deny"])
    def test_nobody_asks_it_of_a_call_that_still_waits(self, answer: object) -> None:
        agent, state = self.waiting()
        result = self.run(agent, state, answer)
        assert [item.call_id for item in result.interruptions] == ["c1"], "its verdict is a fact of the run"
        assert (self.done, len(_screenings(result))) == ([], 1)

    def test_a_saved_run_is_resumed_under_a_policy_or_not_at_all(self) -> None:
        agent, state = self.waiting()
        state.approve(state.get_interruptions()[0])
        text = state.to_string()
        forget()
        state = asyncio.run(RunState.from_string(agent, text))
        with pytest.raises(UserError, match="policy"):
            asyncio.run(self._played(agent, state, None))
        assert self.done == []
        assert self.run(agent, state, "allow").final_output == "done: c1"
        assert self.done == ["ada"]

    def test_a_nested_agent_is_under_the_policy_too(self) -> None:
        inner = self.agent(needs_approval=False)
        call = {"type": "function_call", "call_id": "n1", "name": "ask_expert", "arguments": '{"input": "go"}'}
        tool = inner.as_tool("ask_expert", "Asks the expert.", needs_approval=True)
        outer = Agent("front", model=script([call]), tools=[tool])
        assert self.run(outer, "go", "deny").final_output == "done: n1"
        result = self.run(outer, "go", "allow")
        assert (result.final_output, self.done) == ("done: n1", ["ada"])
        assert len(_screenings(result)) == 2, "of the agent, and of the tool inside"


def _screenings(result: RunResult) -> list[CallScreened]:
    steps = result.to_state().live.log.steps
    return [event for step in steps for event in step.events if isinstance(event, CallScreened)]
