"""CrewAI asks over AAP: started by test_adapters.py, in an environment that has it. Its hooks wait, and never pause."""

from __future__ import annotations

import json
import sys
from typing import Any

from agentapprovalprotocol.crewai import ApprovalHooks
from crewai import Agent, BaseLLM
from crewai.tools import tool

URL, TOKEN = sys.argv[1:3]
RAN: list[str] = []
READ: list[str] = []


@tool("pay")
def pay(order: str) -> str:
    """Pay an order."""
    RAN.append(order)
    return f"paid {order}"


class Asks(BaseLLM):
    """Asks for one call after the other in words (ReAct), and reads what came of each."""

    def __init__(self, *orders: str) -> None:
        super().__init__(model="scripted")
        self._orders = [*orders]

    def supports_function_calling(self) -> bool:
        return False

    def supports_stop_words(self) -> bool:
        return False

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        READ.append(str(messages))
        if not self._orders:
            return "Thought: I now know the final answer\nFinal Answer: Done."
        arguments = json.dumps({"order": self._orders.pop(0)})
        return f"Thought: I pay.\nAction: pay\nAction Input: {arguments}"


def agent(*orders: str) -> Agent:
    return Agent(role="desk", goal="Pay.", backstory="Pays.", llm=Asks(*orders), tools=[pay], verbose=False)


def waits() -> dict[str, Any]:
    """Two calls, one approved and one denied; and one on which no one decides."""
    hooks = ApprovalHooks(URL, TOKEN)
    hooks.install()
    agent("ok-1", "no-1").kickoff("Pay.")
    hooks.uninstall()
    late = ApprovalHooks(URL, TOKEN, wait_limit=0.2)
    late.install()
    agent("wait-1").kickoff("Pay.")
    return {"ran": [*RAN], "outputs": READ}


print(json.dumps({"waits": waits()}))
