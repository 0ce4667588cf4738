"""The tool `task`: a subagent answers one call, in a frame of the same run.

What waits inside it waits on the one run, and the interrupts of the agents above hold there.
Nothing here runs an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..agents.agent import Agent
from ..core.nested_agent import NestedAgent
from ..core.preview import Preview, Text
from ..tools.base import Delegate, InvalidArguments, Prepared
from ..tools.context import RunContextWrapper
from ..tools.function_tool import FunctionTool
from ..tools.functions.bound import BoundFunction, default_tool_error_function
from ..tools.functions.schema import function_schema


async def task(description: str, subagent_type: str) -> str:
    """Give a task to a subagent, which does it by itself and reports once, with nothing but its answer.

    It knows nothing of this conversation: say all that it needs to know, and what it is to report.

    Args:
        description: The whole task.
        subagent_type: The name of the subagent.
    """
    raise NotImplementedError  # the engine opens a frame for the subagent


_SCHEMA = function_schema(task, context_types=(RunContextWrapper,))


class TaskTool(FunctionTool):
    """Delegates a call to one of several subagents.

    >>> tool = TaskTool({"research": (Agent("research"), "Looks things up.", 10)})
    >>> tool.prepare({"arguments": '{"description": "Find it.", "subagent_type": "research"}'}).params["subagent_type"]
    'research'
    """

    kind: ClassVar[str] = "agent"
    agents: Mapping[str, Agent[Any]]

    def __init__(self, subagents: Mapping[str, tuple[Agent[Any], str, int]]) -> None:
        listed = "\n".join(f"- {name}: {description}" for name, (_, description, _) in subagents.items())
        super().__init__(
            "task",
            f"{_SCHEMA.description}\n\nThe subagents:\n{listed}",
            _SCHEMA.params_json_schema,
            BoundFunction(task, _SCHEMA, default_tool_error_function),
            # Opening a frame touches nothing; what is inside it has intents of its own.
            idempotent=True,
        )
        self.agents = {name: agent for name, (agent, _, _) in subagents.items()}
        self._turns = {name: turns for name, (_, _, turns) in subagents.items()}

    @property
    def nested(self) -> NestedAgent:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows from what is set
        """Return the subagents, by name."""
        return NestedAgent(agents=self.agents)

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Parse the task; a subagent that is not there is refused."""
        prepared = super().prepare(item)
        name = prepared.params["subagent_type"]
        if name not in self.agents:
            raise InvalidArguments(
                f"The arguments of task are invalid: there is no subagent {name!r}; there are {', '.join(self.agents)}."
            )
        return prepared

    async def invoke(self, context: object, prepared: Prepared) -> Delegate:
        """Return which agent answers, and with what input."""
        params = prepared.params
        name = params["subagent_type"]
        return Delegate(self.agents[name], params["description"], self._turns[name])

    def preview(self, params: dict[str, Any]) -> Preview:
        """Show the task that the subagent would get."""
        return Preview((Text(params["description"], label=f"a task for {params['subagent_type']}"),))
