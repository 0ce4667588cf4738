"""An agent as a tool of another agent.

Calling it only says which agent goes on with which input: the engine opens a frame for it inside the same
run, so that what waits inside, at any depth, waits on the one run. Nothing here runs an agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn, TypedDict, Unpack, cast

from ..core.errors import UserError
from ..core.items import own_copy
from ..core.nested_agent import NestedAgent
from ..core.preview import Preview, Text
from ..core.settable import unexpected
from ..support.user_code import answer_of
from .agent_tool_rules import AGENT_TOOL_RULES, InputBuilder, described_input
from .agent_tool_rules import StructuredToolInputBuilderOptions as StructuredToolInputBuilderOptions
from .base import Delegate, InvalidArguments, NeedsApproval, Prepared, redacts
from .function_tool import FunctionTool
from .functions.bound import ToolErrorFunction, default_tool_error_function
from .functions.options import IsEnabled
from .functions.structured import StructuredInput, any_object

_PLAIN_SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "What the agent is to do."}},
}


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
    agent: Any
    max_turns: int
    run_config: Any
    hooks: Any
    session: Any
    conversation_id: str | None
    previous_response_id: str | None
    structured: StructuredInput | None
    custom_output_extractor: Callable[[Any], Any] | None
    on_stream: Callable[[Any], Any] | None
    input_builder: InputBuilder
    include_input_schema: bool
    on_stream_max_pending_events: int | None
    _rules = AGENT_TOOL_RULES
    _remedies: ClassVar[Mapping[str, str]] = {
        "parameters": "make another tool with as_tool(parameters=...): its schema is made of them"
    }

    def __init__(self, agent: Any, name: str, description: str, **options: Unpack[AgentToolOptions]) -> None:
        for option in options.keys() - AgentToolOptions.__annotations__.keys():
            raise unexpected("AgentTool()", option, AgentToolOptions.__annotations__)
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
        self.agent, self.max_turns = agent, cast("Any", options.get("max_turns"))
        self.input_builder = cast("Any", options.get("input_builder"))
        self.include_input_schema = options.get("include_input_schema", False)
        self.custom_output_extractor = options.get("custom_output_extractor")
        self.on_stream, self.hooks = options.get("on_stream"), options.get("hooks")
        self.run_config, self.session = options.get("run_config"), options.get("session")
        self.previous_response_id = options.get("previous_response_id")
        self.conversation_id = options.get("conversation_id")
        self.on_stream_max_pending_events = options.get("on_stream_max_pending_events", 1024)

    @property
    def nested(self) -> NestedAgent:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows from what is set
        """Return the agent that answers, and what it runs under, as they are set now."""
        return NestedAgent(
            self.agent,
            run_config=self.run_config,
            hooks=self.hooks,
            session=self.session,
            conversation_id=self.conversation_id,
            previous_response_id=self.previous_response_id,
            on_stream=self.on_stream,
            on_stream_max_pending_events=self.on_stream_max_pending_events,
            structured=self.structured is not None,
            custom_output_extractor=self.custom_output_extractor,
        )

    @property
    def plain(self) -> bool:
        """Return whether the nested agent gets the one text that the model wrote."""
        return self.structured is None and self.input_builder is described_input

    def _identity(self) -> Mapping[str, str]:
        return {"agent": str(getattr(self.agent, "name", self.agent))}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Return the input of the nested agent: one text, or the object that `parameters` describes."""
        text: str = item.get("arguments") or ""
        if self.structured is not None:
            return self.structured.freeze(text)
        given = any_object(self.name, text)
        if given.params.keys() != {"input"} or not isinstance(given.params["input"], str):
            raise InvalidArguments(f'The arguments of {self.name} are invalid: they must be {{"input": "a text"}}')
        return given

    async def invoke(self, context: object, prepared: Prepared) -> Delegate:
        """Return which agent answers, and with what input."""
        params, schema = prepared.params, self.params_json_schema
        if self.plain:
            return Delegate(self.agent, params["input"], self.max_turns)
        asked = own_copy(schema) if self.include_input_schema else None
        given = {"params": params, "summary": schema.get("description"), "json_schema": asked}
        return Delegate(self.agent, await answer_of(self.input_builder, given), self.max_turns)

    @redacts
    def preview(self, params: dict[str, Any]) -> Preview:
        """Show the text that the nested agent would get, or its structured input."""
        if self.structured is None and self._preview is None and not self.secrets:
            return Preview((Text(params["input"], label="input"),))
        return super().preview(params)


async def _run_by_the_engine(_context: object, _arguments: str) -> NoReturn:
    raise UserError(
        "an agent used as a tool is run by the engine, inside the run that calls it; to run the agent by itself "
        "pass it to Runner.run"
    )
