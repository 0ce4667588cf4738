"""The tools of a deep agent wait as all others: every law of a decision holds for what `interrupt_on` asks."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

from keyturn import Agent, Decider
from keyturn.deep import create_deep_agent
from keyturn.engine.views.items import ToolApprovalItem
from keyturn.testing import ScriptedModel
from keyturn.testing.suites.doors import Case, DecisionDoorSuite
from keyturn.tools.function_tool import FunctionTool


class DeepDoorSuite(DecisionDoorSuite):
    """Asks by `interrupt_on` in the place of the tool's own setting."""

    def make_agent(self, model: ScriptedModel, tool: FunctionTool) -> Agent[Any]:
        rule: Any = tool.approval or tool.needs_approval
        bare = copy(tool)
        bare.needs_approval, bare.approval = False, None
        return create_deep_agent(model, tools=[bare], interrupt_on={"pay": rule}, name="clerk").core_agent()


class TestInboxOfDeep(DeepDoorSuite):
    knows_people: ClassVar[bool] = True

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        await getattr(case.inbox, word)(item, **{"by": "zoe", **words})


class TestStateOfDeep(DeepDoorSuite):
    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        by = words.pop("by", None)
        case.hand = case.hand or await case.state()
        if "message" in words:
            words["rejection_message"] = words.pop("message")
        getattr(case.hand, word)(item, by=by.id if isinstance(by, Decider) else by, **words)
