"""An agent as a tool of another agent.

Calling it only says which agent goes on with which input: the engine opens a frame for it inside the same
run, so that what waits inside, at any depth, waits on the one run. Nothing here runs an agent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, ClassVar, NoReturn, TypedDict, Unpack

from ..core.errors import BadJson, UserError
from ..core.items import Item
from ..core.preview import Preview, Text, redact
from ..core.strict import parse
from .base import Delegate, InvalidArguments, NeedsApproval, Prepared
from .bound import ToolErrorFunction, default_tool_error_function
from .function import FunctionTool
from .options import IsEnabled
from .structured import StructuredInput

DEFAULT_MAX_TURNS = 10
_PLAIN_SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "What the agent is to do."}},
}


class StructuredToolInputBuilderOptions(TypedDict):
    """What an `input_builder` gets: the arguments, what their type says of itself, and its JSON schema if asked for.

    >>> StructuredToolInputBuilderOptions(params={"city": "Oslo"}, summary=None, json_schema=None)["params"]
    {'city': 'Oslo'}
    """

    params: Any
    summary: str | None
    json_schema: dict[str, Any] | None


InputBuilder = Callable[[StructuredToolInputBuilderOptions], str | list[Item] | Awaitable[str | list[Item]]]


class FrameOptions(TypedDict, total=False):
    """How a nested agent is run: the options of `Agent.as_tool` that the engine reads when it opens the frame.

    >>> FrameOptions(max_turns=3)
    {'max_turns': 3}
    """

    custom_output_extractor: Callable[[Any], Any] | None
    on_stream: Callable[[Any], Any] | None
    run_config: Any
    max_turns: int | None
    hooks: Any
    previous_response_id: str | None
    conversation_id: str | None
    session: Any
    on_stream_max_pending_events: int


class AgentTool(FunctionTool):
    """The tool that `Agent.as_tool` makes.

    >>> tool = AgentTool("the agent", "ask_expert", "Asks the expert.")
    >>> tool.prepare({"arguments": '{"input": "Is this clause valid?"}'}).params
    {'input': 'Is this clause valid?'}
    """

    kind: ClassVar[str] = "agent"

    def __init__(
        self,
        agent: Any,
        name: str,
        description: str,
        *,
        is_enabled: IsEnabled = True,
        needs_approval: NeedsApproval = False,
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
        parameters: type[Any] | None = None,
        input_builder: InputBuilder | None = None,
        include_input_schema: bool = False,
        **frame: Unpack[FrameOptions],
    ) -> None:
        self.structured = None if parameters is None else StructuredInput(name, parameters)
        super().__init__(
            name,
            description,
            _PLAIN_SCHEMA if self.structured is None else self.structured.json_schema,
            _run_by_the_engine,
            is_enabled=is_enabled,
            needs_approval=needs_approval,
            # Opening a frame touches nothing; what is inside it has intents of its own.
            idempotent=True,
            secrets=() if self.structured is None else self.structured.secrets,
            failure_error_function=failure_error_function,
        )
        self._identity = {"agent": str(getattr(agent, "name", agent))}
        self.agent, self.input_builder, self.include_input_schema = agent, input_builder, include_input_schema
        self.custom_output_extractor, self.on_stream = frame.get("custom_output_extractor"), frame.get("on_stream")
        self.run_config, self.hooks, self.session = frame.get("run_config"), frame.get("hooks"), frame.get("session")
        self.previous_response_id = frame.get("previous_response_id")
        self.conversation_id = frame.get("conversation_id")
        self.on_stream_max_pending_events = frame.get("on_stream_max_pending_events", 1024)
        self.max_turns = _turns(name, frame.get("max_turns"))

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """The input of the nested agent: one text, or the object that `parameters` describes."""
        text: str = item.get("arguments") or ""
        if self.structured is not None:
            return self.structured.freeze(text)
        try:
            params = parse(text)
        except BadJson as error:
            raise InvalidArguments(f"The arguments of {self.name} are invalid: they are {error}") from None
        if not isinstance(params, dict) or params.keys() != {"input"} or not isinstance(params["input"], str):
            raise InvalidArguments(f'The arguments of {self.name} are invalid: they must be {{"input": "a text"}}')
        return Prepared(text, params, exact=True)

    async def invoke(self, context: Any, prepared: Prepared) -> Delegate:
        """Say which agent answers, and with what input."""
        params = prepared.params
        if self.structured is None and self.input_builder is None:
            return Delegate(self.agent, params["input"], self.max_turns)
        schema = self.params_json_schema
        options = StructuredToolInputBuilderOptions(
            params=params,
            summary=schema.get("description"),
            json_schema=schema if self.include_input_schema else None,
        )
        built = (self.input_builder or _described)(options)
        return Delegate(self.agent, await built if isawaitable(built) else built, self.max_turns)

    def preview(self, params: Any) -> Preview:
        """The text that the nested agent would get, or its structured input."""
        if self.structured is None:
            return Preview((Text(params["input"], label="input"),))
        return super().preview(redact(params, self.secrets))


def _described(options: StructuredToolInputBuilderOptions) -> str:
    parts = ["The input of your task, as JSON:", _json(options["params"])]
    if options["json_schema"] is not None:
        parts += ["The JSON schema of that input. It describes data and gives no instructions:"]
        parts += [_json(options["json_schema"])]
    return "\n\n".join(parts)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _turns(name: str, max_turns: int | None) -> int:
    if max_turns is None:
        return DEFAULT_MAX_TURNS
    if isinstance(max_turns, bool) or max_turns < 1:
        raise UserError(f"tool {name!r}: max_turns must be 1 or more, not {max_turns!r}")
    return max_turns


async def _run_by_the_engine(_context: Any, _arguments: str) -> NoReturn:
    raise UserError(
        "an agent used as a tool is run by the engine, inside the run that calls it; to run the agent by itself "
        "pass it to Runner.run"
    )
