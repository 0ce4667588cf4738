"""LangChain's deep agents: `create_deep_agent` with its defaults and a checkpointer in memory."""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from ..script import FINAL, PROMPT
from . import langgraph_thread as thread
from .langgraph_agent import Scripted


class Writing(Scripted):
    """Writes what the script says."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        call = self.script.reply()
        message = AIMessage(content=FINAL)
        if call is not None:
            label, path, content = call
            arguments = {"file_path": path, "content": content}
            tool_call = {"name": "write_file", "args": arguments, "id": label, "type": "tool_call"}
            message = AIMessage(content="", tool_calls=[tool_call])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Driver:
    """One agent, files in its state; it gives the answer and whether it waits."""

    def __init__(self, script: Any, rules: dict[str, bool]) -> None:
        waits: dict[str, Any] = {"interrupt_on": rules, "checkpointer": InMemorySaver()} if rules else {}
        self.agent = create_deep_agent(Writing(script=script), **waits)
        self.state: Any = {}

    async def start(self) -> tuple[Any, bool]:
        given = {"messages": [{"role": "user", "content": PROMPT}]}
        self.state = await self.agent.ainvoke(given, thread.new_thread())
        return (self, self.state), "__interrupt__" in self.state

    def files(self) -> int:
        return len(self.state.get("files", {}))
