"""Handoffs: an agent gives the conversation to another agent, as a call of a tool that the model sees.

A handoff is a tool that runs after its siblings and answers with a `Handover`. What the next agent sees and
what the run records of it is the engine's business.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, cast

from ..core.errors import UserError
from ..core.items import Item
from ..core.nested_agent import NestedAgent
from ..core.preview import Json, Preview, Text, redact
from ..core.settable import CALLBACK, FLAG, TEXT, Rule, described, must, one_of, own_of, refusal, refused, then
from ..core.strict import JsonValue
from ..support.user_code import answer_of
from ..tools.base import Handover, Prepared, Tool, redacts
from ..tools.functions.structured import StructuredInput, any_object
from .agent_base import AgentBase, snake_name, takes
from .context import RunContextWrapper, TContext
from .handoff_input import HandoffInputData as HandoffInputData
from .handoff_input import HandoffInputFilter as HandoffInputFilter
from .handoff_input import nest_handoff_history
from .hooks import TAgent

_NO_INPUT: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


OnHandoff = Callable[..., Any]


class Go(Generic[TAgent]):
    """Resolves to one fixed agent, past the user's callback."""

    def __init__(self, agent: TAgent, on_handoff: OnHandoff | None, structured: StructuredInput | None) -> None:
        self.agent, self.structured = agent, structured
        self._on_handoff = on_handoff

    def to(self, agent: AgentBase[Any]) -> Go[Any]:
        """Return the same to another agent."""
        return Go(agent, self._on_handoff, self.structured)

    async def __call__(self, context: RunContextWrapper[Any], arguments: str) -> TAgent:
        if self._on_handoff is not None:
            given = () if self.structured is None else (self.structured.value(arguments),)
            await answer_of(self._on_handoff, context, *given)
        return self.agent


def _name(handoff: object, name: str, value: object) -> Any:
    """Keep one name under both of its names."""
    if not isinstance(value, str) or not value:
        raise refusal(handoff, name, "a non-empty string", value)
    own_of(handoff)["name"] = own_of(handoff)["tool_name"] = value
    return value


def _invoker(handoff: object, go: object) -> None:
    """Follow the invoker, which knows where it leads, so that a copy with another description still does."""
    own = own_of(handoff)
    known = cast("Go[Any] | None", go if isinstance(go, Go) else None)
    own["agent"], own["_structured"] = (known.agent, known.structured) if known is not None else (None, None)
    own["secrets"] = known.structured.secrets if known is not None and known.structured is not None else ()


def _target(handoff: object, name: str, value: object) -> Any:
    own = own_of(handoff)
    go = own.get("on_invoke_handoff")
    if not isinstance(go, Go):
        raise AttributeError(f"{name!r} of {described(handoff)} cannot be set: on_invoke_handoff says where it leads")
    target = _agent(value, described(handoff))
    own["on_invoke_handoff"] = cast("Go[Any]", go).to(target)
    own["agent_name"] = target.name
    return value


_ALWAYS = "a handoff is done after the calls beside it, and can be done again"
HANDOFF_RULES: dict[str, Rule] = {
    "name": _name,
    "tool_name": _name,
    "tool_description": TEXT,
    "input_json_schema": must(lambda value: isinstance(value, dict), "a dict"),
    "on_invoke_handoff": then(must(callable, "a callable (context, arguments)"), _invoker),
    "agent_name": TEXT,
    "agent": _target,
    "input_filter": CALLBACK,
    "nest_handoff_history": one_of(True, False, None),
    "strict_json_schema": FLAG,
    **dict.fromkeys(("check", "announced", "after_siblings", "idempotent", "read_only"), refused(_ALWAYS)),
}


@dataclass(eq=False)
class Handoff(Tool, Generic[TContext, TAgent]):
    """Hands the conversation over, as a tool of the model.

    `handoff` makes one for an agent; make one by hand for full control.

    Where no `input_filter` says what the next agent sees, here or in the `RunConfig`, `nest_handoff_history` says
    whether it sees the conversation told in one message; None leaves that to the `RunConfig`.

    >>> from keyturn.agents.agent import Agent
    >>> to_billing = handoff(Agent("Billing", handoff_description="Knows invoices."))
    >>> to_billing.tool_name, to_billing.tool_description
    ('transfer_to_billing', 'Handoff to the Billing agent to handle the request. Knows invoices.')
    """

    kind: ClassVar[str] = "handoff"
    _rules = HANDOFF_RULES
    announced = False
    after_siblings = True
    # Deciding who goes on can be done again: a crash in the middle is not worth a person's time.
    idempotent = True

    tool_name: str
    tool_description: str
    input_json_schema: dict[str, Any]
    on_invoke_handoff: Callable[[RunContextWrapper[Any], str], Awaitable[TAgent]]
    agent_name: str
    input_filter: HandoffInputFilter | None = None
    nest_handoff_history: bool | None = None
    strict_json_schema: bool = True
    is_enabled: bool | Callable[[Any, Any], bool | Awaitable[bool]] = True
    name: str = field(init=False, repr=False)
    agent: TAgent | None = field(init=False, repr=False)
    _structured: StructuredInput | None = field(init=False, repr=False)
    _spec: dict[str, Any] | None = field(default=None, init=False, repr=False)

    def _described(self) -> str:
        """Return what errors call it."""
        return f"handoff {vars(self).get('tool_name', '')!r}"

    def _refusal(self, name: str, may_be: str, value: object) -> Exception:
        """Return the error for a value that an attribute cannot have."""
        return UserError(f"{self._described()}: {name} must be {may_be}, not {value!r}")

    @property
    def nested(self) -> NestedAgent:  # pyright: ignore[reportIncompatibleVariableOverride]  # it follows from what is set
        """Return the agent that goes on, where `on_invoke_handoff` always leads to the same one."""
        return NestedAgent(self.agent)

    @property
    def description(self) -> str:
        """Return what the model is told of the handoff."""
        return self.tool_description

    @property
    def params_json_schema(self) -> dict[str, Any]:
        """Return the schema of the arguments, under the name it has for every other tool."""
        return self.input_json_schema

    def spec(self) -> dict[str, Any]:
        """Return name, description, schema and target: the same dict until one of them is replaced."""
        told = self._spec
        if (
            told is None
            or told["name"] is not self.tool_name
            or told["description"] is not self.tool_description
            or told["schema"] is not self.input_json_schema
            or told["agent"] != self.agent_name
        ):
            told = {"kind": self.kind, "name": self.tool_name, "description": self.tool_description}
            told |= {"schema": self.input_json_schema, "agent": self.agent_name}
            self._spec = told
        return told

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Validate the model's arguments; where the schema has none, whatever it wrote counts as none, but no text."""
        text: str = item.get("arguments") or ""
        if self._structured is not None:
            return self._structured.freeze(text)
        if not self.input_json_schema.get("properties") and not text.startswith('"'):  # as of a call in a text
            return Prepared("{}")
        return any_object(self.name, text)

    async def invoke(self, context: RunContextWrapper[Any], prepared: Prepared) -> Handover:
        """Find out who goes on, and hand over."""
        target = _agent(await self.on_invoke_handoff(context, prepared.text), f"handoff {self.tool_name!r}")
        check_handoff(getattr(context, "agent", None), target, self)
        return Handover(target, self.get_transfer_message(target), self.input_filter or self._nesting(context))

    def _nesting(self, context: object) -> HandoffInputFilter | None:
        """Return the filter that nests the conversation, where that is wanted and the run has no filter."""
        config: Any = getattr(context, "run_config", None)
        nested = self.nest_handoff_history
        if nested is None:
            nested = getattr(config, "nest_handoff_history", False)
        if not nested or getattr(config, "handoff_input_filter", None) is not None:
            return None
        return partial(nest_handoff_history, history_mapper=getattr(config, "handoff_history_mapper", None))

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the call's result as the model reads it."""
        text = value.text if isinstance(value, Handover) else str(value)
        return {"type": "function_call_output", "call_id": item["call_id"], "output": text}

    @redacts
    def preview(self, params: JsonValue) -> Preview:
        """Show who would go on, and with what input."""
        target = Text(f"Hand the conversation over to {self.agent_name}.")
        return Preview((target, Json(redact(params, self.secrets))) if params else (target,))

    def get_transfer_message(self, agent: AgentBase[Any]) -> str:
        """Return the text of the call's result: who goes on."""
        return json.dumps({"assistant": agent.name})

    @classmethod
    def default_tool_name(cls, agent: AgentBase[Any]) -> str:
        """Return the tool's name where none is given."""
        return snake_name(f"transfer_to_{agent.name}")

    @classmethod
    def default_tool_description(cls, agent: AgentBase[Any]) -> str:
        """Return the tool's description where none is given."""
        about = agent.handoff_description or ""
        return f"Handoff to the {agent.name} agent to handle the request. {about}".strip()


def handoff(
    agent: TAgent,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    input_type: type[Any] | None = None,
    input_filter: HandoffInputFilter | None = None,
    nest_handoff_history: bool | None = None,
    is_enabled: bool | Callable[[Any, Any], bool | Awaitable[bool]] = True,
) -> Handoff[Any, TAgent]:
    """Make a handoff to an agent, with a callback, an input or a filter of its own.

    `on_handoff` is called with the context, and with the input where `input_type` says what the model must give.
    `nest_handoff_history=True` tells the next agent the conversation in one message.

    >>> from keyturn.agents.agent import Agent
    >>> handoff(Agent("FAQ"), tool_name_override="ask_faq").name
    'ask_faq'
    """
    target = _agent(agent, "a handoff")
    name = Handoff.default_tool_name(target) if tool_name_override is None else tool_name_override
    described = tool_description_override
    structured = None if input_type is None else StructuredInput(name, input_type)
    _check_callback(name, on_handoff, structured)

    return Handoff[Any, TAgent](
        tool_name=name,
        tool_description=Handoff.default_tool_description(target) if described is None else described,
        input_json_schema=_NO_INPUT if structured is None else structured.json_schema,
        on_invoke_handoff=Go(agent, on_handoff, structured),
        agent_name=target.name,
        input_filter=input_filter,
        nest_handoff_history=nest_handoff_history,
        is_enabled=is_enabled,
    )


def _agent(value: object, what: str) -> AgentBase[Any]:
    if isinstance(value, AgentBase):
        return cast("AgentBase[Any]", value)
    raise UserError(f"{what} must lead to an agent, not to {type(value).__name__}")


def _check_callback(name: str, on_handoff: object, structured: StructuredInput | None) -> None:
    if on_handoff is None:
        if structured is not None:
            raise UserError(f"handoff {name!r}: input_type needs an on_handoff that takes the input")
        return
    if not callable(on_handoff):
        raise UserError(f"handoff {name!r}: on_handoff must be callable, not {type(on_handoff).__name__}")
    wanted = "one argument: the context" if structured is None else "two arguments: the context and the input"
    if not takes(on_handoff, 1 if structured is None else 2):
        raise UserError(f"handoff {name!r}: on_handoff must take {wanted}")


def check_handoff(source: Any, target: Any, entry: Any) -> None:
    """Refuse a handoff between an agent of a realtime session and one of a run, and a filter without effect."""
    talked_to: bool = getattr(source, "realtime", False)
    if source is None:
        return
    if target is not None and getattr(target, "realtime", False) != talked_to:
        remedy = (
            "is not a RealtimeAgent; hand over to one, or pass the agent as a tool: as_tool(...)"
            if talked_to
            else "is a RealtimeAgent; hand over to an Agent, which a run can ask"
        )
        raise UserError(f"handoffs of agent {source.name!r}: {target.name!r} {remedy}")
    if talked_to and isinstance(entry, Handoff) and (entry.input_filter or entry.nest_handoff_history):
        raise UserError(
            f"handoffs of agent {source.name!r}: input_filter= and nest_handoff_history= have no effect in a realtime "
            "session, where the provider keeps the conversation; leave them out"
        )


def handoffs_of(agent: Any) -> list[Handoff[Any, Any]]:
    """Return the handoffs of an agent; a plain agent among them is wrapped once and stays the same tool."""
    made: dict[int, Handoff[Any, Any]] = agent.__dict__.setdefault("_handoffs", {})
    return [
        cast("Handoff[Any, Any]", entry) if isinstance(entry, Handoff) else _wrapped(agent, entry, made)
        for entry in agent.handoffs
    ]


def _wrapped(owner: AgentBase[Any], entry: object, made: dict[int, Handoff[Any, Any]]) -> Handoff[Any, Any]:
    if not isinstance(entry, AgentBase):
        what = f"an Agent or a Handoff, not {type(entry).__name__}"
        raise UserError(f"handoffs of agent {owner.name!r}: an entry must be {what}")
    target = cast("AgentBase[Any]", entry)
    known = made.get(id(target))
    if (
        known is None
        or known.agent is not target
        # The model is told the name and description that the target has now, not those it had before.
        or known.agent_name != target.name
        or known.tool_description != Handoff.default_tool_description(target)
    ):
        known = made[id(target)] = handoff(target)
    return known
