"""The agent of external callers: its model is the caller, which asked for one call, and its tool runs at that caller.

There is no second gate and no second store: what an external caller asks is a run like any other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper
from ..core.digest import canonical
from ..core.errors import BadJson, UserError
from ..core.items import Item
from ..core.preview import Preview
from ..core.strict import parse
from ..models.base import Model, ModelResponse
from ..presenting.source import stated_in
from ..support.json_schema import misfit
from ..tools.base import InvalidArguments, Prepared, Tool, ToolProblem, redacts
from .ask import AskedBy
from .shown import preview_of

_ALONE = "an ExternalAgent runs what external callers ask: use App.asks, the API or @gated, and not Runner.run"


def asked_in(items: object) -> AskedBy:
    """Return what the input of a run asks, and by which account."""
    asked = AskedBy.read(items)
    if asked is None:
        raise UserError(_ALONE)
    return asked


class ExternalTool(Tool):
    """Describes the tool of an external caller: it is never called here."""

    kind = "external_function"
    claimed = True
    _source = ""
    announced = False

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = dict(spec)
        self.name = spec["name"]
        self.needs_approval = not spec.get("delivers", False)

    @classmethod
    def of(cls, asked: AskedBy) -> ExternalTool:
        """Make the tool of a request, on the terms that its caller wishes; another account's is another tool."""
        ask = asked.ask
        spec: dict[str, Any] = {"type": "external_function", "name": ask.tool, "server": ask.server}
        spec |= {"description": ask.description}
        spec |= {"account": asked.account} if asked.account else {}
        spec |= {"delivers": True} if ask.delivers else {}
        made = cls(spec if ask.schema is None else spec | {"schema": ask.schema})
        made.approval = ask.terms
        made.risk = ask.risk
        made.secrets = ask.secrets
        made.editable = ask.editable
        made.final = not ask.ask_again
        made._source = stated_in(ask.context).text
        return made

    def spec(self) -> dict[str, Any]:
        """Return what identifies the tool."""
        return self._spec

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Return the arguments to the byte."""
        text = item["arguments"]
        try:
            parse(text or "{}")
        except BadJson as error:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: they are {error}") from None
        return Prepared(text)

    def edit(self, params: Any) -> Prepared:
        """Return the arguments as a person made them, where they fit the caller's schema."""
        problem = misfit(self._spec.get("schema", {}), params)
        if problem is not None:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: {problem}")
        return Prepared(canonical(params))

    @redacts
    def preview(self, params: Any) -> Preview:
        """Return what people are shown: the arguments, by their shape."""
        return preview_of(params, self.secrets, self._source)

    async def invoke(self, context: Any, prepared: Prepared) -> Any:
        """Refuse: the caller that asked carries it out."""
        raise ToolProblem(f"{self.name} is carried out by the caller that asked for it")

    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        """Return the result as the caller reported it."""
        text = value if isinstance(value, str) else canonical(value)
        return {"type": "function_call_output", "call_id": item["call_id"], "output": text}


class _Tools:
    """Brings the tool of each run to its agent: the one that its caller asked for."""

    of_callers = True  # a rule may name the server of the tool below the agent

    async def tools_for(self, context: RunContextWrapper[Any], agent: object) -> list[Any]:
        """Return the tool that this run asks for."""
        return [ExternalTool.of(asked_in(context.turn_input))]

    def recorded_tool(self, spec: Mapping[str, Any], agent: object) -> Any:
        """Return a tool as the log recorded it; None for another kind."""
        return ExternalTool(spec) if spec.get("type") == "external_function" else None


class _Caller(Model):
    """Answers as the caller did: with the call that it asked for, and with nothing more once that has its result."""

    provider = "external"

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Item],
        *_asked: object,
        **_options: object,
    ) -> ModelResponse:
        """Return the call that was asked for, or the end."""
        ask = asked_in(input).ask
        done = [item for item in cast("list[Item]", input) if item.get("type") == "function_call_output"]
        if done:
            return ModelResponse([_message(str(done[-1].get("output", "")))])
        call = {"type": "function_call", "call_id": ask.key, "name": ask.tool, "arguments": ask.arguments}
        return ModelResponse([*([_message(ask.reasoning)] if ask.reasoning else []), call])

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Stream the reply, whole."""
        made = await self.get_response(*args, **options)
        yield {"type": "response.completed", "response": {"id": None, "output": made.output, "usage": None}}


def _message(text: str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}


class ExternalAgent(Agent[Any]):
    """Stands for agents, scripts and services that are not written with Keyturn, and that run their calls themselves.

    They ask by `App.asks`, by `POST /v1/asks` or by `@gated`. Policies, people, grants and audit are those of any
    call; rules name this agent by its name.

    >>> ExternalAgent("ci").name
    'ci'
    """

    def __init__(self, name: str = "external", **settings: Any) -> None:
        own: dict[str, Any] = {"model": _Caller(), "mcp_servers": [_Tools()]}
        super().__init__(name, **own | settings)
