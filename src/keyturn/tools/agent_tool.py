"""An agent as a tool of another agent.

Calling it only says which agent goes on with which input: the engine opens a frame for it inside the same
run, so that what waits inside, at any depth, waits on the one run. Nothing here runs an agent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, NoReturn, TypedDict, Unpack, cast

from ..core.errors import UserError
from ..core.items import Item, own_copy
from ..core.preview import Preview, Text
from ..user_code import answer_of
from .base import Delegate, InvalidArguments, NeedsApproval, Prepared
from .function_tool import FunctionTool
from .functions.bound import ToolErrorFunction, default_tool_error_function
from .functions.options import IsEnabled
from .functions.structured import StructuredInput, any_object

DEFAULT_MAX_TURNS = 10
_PLAIN_SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "What the agent is to do."}},
}


class StructuredToolInputBuilderOptions(TypedDict):
    """Holds what an `input_builder` gets: the arguments, a summary of their type, and its JSON schema if requested.

    >>> StructuredToolInputBuilderOptions(params={"city": "Oslo"}, summary=None, json_schema=None)["params"]
    {'city': 'Oslo'}
    """

    params: Any
    summary: str | None
    json_schema: dict[str, Any] | None


InputBuilder = Callable[[StructuredToolInputBuilderOptions], str | list[Item] | Awaitable[str | list[Item]]]


class AgentToolOptions(TypedDict, total=False):
    """Declares the options of `Agent.as_tool`; most are for the engine, which reads them when it opens the frame.

    >>> AgentToolOptions(max_turns=3)
    {'max_turns': 3}
    """

    custom_output_extractor: Callable[[Any], Any] | None
    is_enabled: IsEnabled
    on_stream: Callable[[Any], Any] | None
    run_config: Any
    max_turns: int | None
    hooks: Any
    previous_response_id: str | None
    conversation_id: str | None
    session: Any
    failure_error_function: ToolErrorFunction | None
    needs_approval: NeedsApproval
    parameters: type[Any] | None
    input_builder: InputBuilder | None
    include_input_schema: bool
    on_stream_max_pending_events: int | None


class AgentTool(FunctionTool):
    """Delegates a call to another agent; `Agent.as_tool` makes one.

    >>> tool = AgentTool("the agent", "ask_expert", "Asks the expert.")
    >>> tool.prepare({"arguments": '{"input": "Is this clause valid?"}'}).params
    {'input': 'Is this clause valid?'}
    """

    kind: ClassVar[str] = "agent"

    def __init__(self, agent: Any, name: str, description: str, **options: Unpack[AgentToolOptions]) -> None:
        parameters = options.get("parameters")
        self.structured = None if parameters is None else StructuredInput(name, parameters)
        super().__init__(
            name,
            description,
            _PLAIN_SCHEMA if self.structured is None else self.structured.json_schema,
            _run_by_the_engine,
            is_enabled=options.get("is_enabled", True),
            needs_approval=options.get("needs_approval", False),
            # Opening a frame touches nothing; what is inside it has intents of its own.
            idempotent=True,
            secrets=() if self.structured is None else self.structured.secrets,
            failure_error_function=options.get("failure_error_function", default_tool_error_function),
        )
        self._identity = {"agent": str(getattr(agent, "name", agent))}
        self.agent, self.max_turns = agent, _turns(name, options.get("max_turns"))
        self.input_builder = options.get("input_builder") or _described
        self.plain = self.structured is None and options.get("input_builder") is None
        self.include_input_schema = options.get("include_input_schema", False)
        self.custom_output_extractor = options.get("custom_output_extractor")
        self.on_stream, self.hooks = options.get("on_stream"), options.get("hooks")
        self.run_config, self.session = _own(options.get("run_config")), options.get("session")
        self.previous_response_id = options.get("previous_response_id")
        self.conversation_id = options.get("conversation_id")
        self.on_stream_max_pending_events = _most(name, options.get("on_stream_max_pending_events", 1024))

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Return the input of the nested agent: one text, or the object that `parameters` describes."""
        text: str = item.get("arguments") or ""
        if self.structured is not None:
            return self.structured.freeze(text)
        given = any_object(self.name, text)
        if given.params.keys() != {"input"} or not isinstance(given.params["input"], str):
            raise InvalidArguments(f'The arguments of {self.name} are invalid: they must be {{"input": "a text"}}')
        return given

    async def invoke(self, context: Any, prepared: Prepared) -> Delegate:
        """Return which agent answers, and with what input."""
        params, schema = prepared.params, self.params_json_schema
        if self.plain:
            return Delegate(self.agent, params["input"], self.max_turns)
        asked = own_copy(schema) if self.include_input_schema else None
        given = {"params": params, "summary": schema.get("description"), "json_schema": asked}
        return Delegate(self.agent, await answer_of(self.input_builder, given), self.max_turns)

    def preview(self, params: Any) -> Preview:
        """Show the text that the nested agent would get, or its structured input."""
        if self.structured is None:
            return Preview((Text(params["input"], label="input"),))
        return super().preview(params)


def _described(options: StructuredToolInputBuilderOptions) -> str:
    parts = ["The input of your task, as JSON:", _json(options["params"])]
    if options["json_schema"] is not None:
        parts += ["The JSON schema of that input. It describes data and gives no instructions:"]
        parts += [_json(options["json_schema"])]
    return "\n\n".join(parts)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _own(run_config: Any) -> Any:
    """Return the run configuration of a nested agent, without usage of its own: it counts with the run."""
    limits: Any = getattr(run_config, "usage_limits", None)
    if isinstance(run_config, Mapping):
        limits = cast("Mapping[str, Any]", run_config).get("usage_limits")
    if limits is not None:
        raise UserError("usage_limits are the whole run's, nested agents included: give them to Runner.run")
    return cast("Any", run_config)


def _turns(name: str, max_turns: int | None) -> int:
    if max_turns is None:
        return DEFAULT_MAX_TURNS
    if isinstance(max_turns, bool) or max_turns < 1:
        raise UserError(f"tool {name!r}: max_turns must be 1 or more, not {max_turns!r}")
    return max_turns


def _most(name: str, events: int | None) -> int | None:
    if events is not None and (isinstance(events, bool) or events < 1):
        raise UserError(f"tool {name!r}: on_stream_max_pending_events must be 1 or more, or None, not {events!r}")
    return events


async def _run_by_the_engine(_context: Any, _arguments: str) -> NoReturn:
    raise UserError(
        "an agent used as a tool is run by the engine, inside the run that calls it; to run the agent by itself "
        "pass it to Runner.run"
    )
