"""Keyturn's deep agents, through their public names only."""

from __future__ import annotations

from typing import Any

from keyturn import DeferredToolRequests, ModelResponse
from keyturn.deep import DeepAgentDeps, StateBackend, create_deep_agent
from keyturn.testing import function_call

from ..script import FINAL, PROMPT
from .keyturn import Model, message


class Scripted(Model):
    """Writes what the script says."""

    def __init__(self, script: Any) -> None:
        self.script = script

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        call = self.script.reply()
        if call is None:
            return ModelResponse([message(FINAL)])
        label, path, content = call
        arguments = {"path": path, "content": content}
        return ModelResponse([function_call("write_file", arguments, call_id=label)])

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Driver:
    """One agent, files in memory; it gives the result and whether it waits."""

    def __init__(self, script: Any, rules: dict[str, bool]) -> None:
        self.agent = create_deep_agent(Scripted(script), interrupt_on=rules, backend=StateBackend())
        self.deps = DeepAgentDeps()

    async def start(self) -> tuple[Any, bool]:
        result = await self.agent.run(PROMPT, deps=self.deps, max_turns=None)
        return result, isinstance(result.output, DeferredToolRequests)

    def files(self) -> int:
        return len(self.deps.files)
