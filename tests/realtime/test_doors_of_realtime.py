"""A live session is a door like any other: every law of a decision holds for calls of a model that is talked to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from keyturn import Decider
from keyturn.core.errors import KeyturnError
from keyturn.engine.views.items import ToolApprovalItem
from keyturn.journal.memory import MemoryJournal
from keyturn.policies.rule import deny
from keyturn.policies.rules import Policy
from keyturn.realtime import AssistantMessageItem, RealtimeAgent, RealtimeRunner, RealtimeSession
from keyturn.realtime.conversation import text_of
from keyturn.testing.suites.door_case import Case, payment
from keyturn.testing.suites.doors import DecisionDoorSuite

from .own_model import TalkingModel, quiet


@dataclass
class Outcome:
    """What a session came to so far, as the suite asks for it."""

    interruptions: list[ToolApprovalItem]
    final_output: str | None


@dataclass
class Live(Case):
    """A case whose run is a session that goes on by itself."""

    session: RealtimeSession = field(init=False)
    model: TalkingModel = field(init=False)

    async def go_on(self) -> Any:
        await quiet(self.session)
        said = [item for item in self.session.history if isinstance(item, AssistantMessageItem)]
        return Outcome(await self.waiting(), text_of(said[-1]) if said else None)

    def told(self) -> str:
        return " ".join(dict(self.model.outputs()).values())


class RealtimeDoorSuite(DecisionDoorSuite):
    """Begins a session whose model calls `pay`."""

    sessions: ClassVar[list[RealtimeSession]] = []
    judged = False

    @pytest.fixture(autouse=True)
    async def closed(self) -> AsyncGenerator[None]:
        yield
        while self.sessions:
            await self.sessions.pop().close(end=False)

    async def paused(self, *calls: Any, tool: Any = None, requester: str | None = None) -> Case:
        done: list[Any] = []
        time = [1_000_000]
        journal = MemoryJournal(lambda: time[0])
        agent = RealtimeAgent("clerk", tools=[tool if tool is not None else payment(done)])
        case = Live(agent, journal, done, time)
        case.model = TalkingModel()

        def newest(call: Any, context: Any) -> Any:
            return None if case.policy is None else case.policy(call, context)

        runner = RealtimeRunner(
            agent, model=case.model, journal=journal, requester=requester, policy=(self.judged and newest) or None
        )
        case.session = await (await runner.run()).enter()
        case.session.opened().live.clock = lambda: time[0]  # the journal's
        self.sessions.append(case.session)
        case.run = case.session.run_id
        for label, arguments in calls or (("c1", {"to": "ada", "amount": 5}),):
            await case.model.calls("pay", arguments, label)
        await quiet(case.session)
        return case

    async def test_the_newest_policy_has_the_last_word(self) -> None:
        """A policy that denies by the time of the decision is asked about it, and its denial stands."""
        self.judged = True
        case = await self.paused()
        case.policy = Policy(deny(tool="pay"))
        await self.say(case, "approve", await case.item())
        result = await case.go_on()
        assert (case.done, result.final_output) == ([], "done")

    async def test_a_decision_names_the_asking_that_was_shown(self) -> None:
        """A word on an earlier asking is no word on this one: the tool changed since, and the call asked again."""
        case = await self.paused()
        stale = await case.item()
        tool: Any = case.agent.tools[0]
        tool.description = "Pays, and tells everybody."
        await case.inbox.approve(stale.request, by="somebody else")
        result = await case.go_on()
        assert [item.revision for item in result.interruptions] == [2]
        await self.refused(case, KeyturnError, "approve", stale)
        assert case.done == []


class TestSession(RealtimeDoorSuite):
    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        assert isinstance(case, Live)
        by = words.pop("by", None)
        if "message" in words:
            words["rejection_message"] = words.pop("message")
        named = by.id if isinstance(by, Decider) else by
        await getattr(case.session, f"{word}_tool_call")(item, by=named, **words)


class TestInboxBesideASession(RealtimeDoorSuite):
    knows_people: ClassVar[bool] = True

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        await getattr(case.inbox, word)(item, **{"by": "zoe", **words})
