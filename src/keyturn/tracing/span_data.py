"""What a span is about, one class for each kind: what trace processors read, and what `function_span` makes.

Each class says itself twice: as attributes in the words of `genai.py`, which every tracer understands, and as the
`export()` that trace backends for agents take. Nothing here starts a span or knows who listens.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Attributes = dict[str, Any]


class SpanData(abc.ABC):
    """What a span is about.

    `type` tells the kinds apart.

    >>> sorted(SpanData.__abstractmethods__)
    ['attributes', 'export', 'span_name', 'type']
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def type(self) -> str:
        """The kind of span."""

    @property
    @abc.abstractmethod
    def span_name(self) -> str:
        """The name of such a span in OpenTelemetry."""

    @abc.abstractmethod
    def export(self) -> Attributes:
        """The data as a plain dict, for backends."""

    @abc.abstractmethod
    def attributes(self) -> Attributes:
        """The data as attributes of a span; what is None is left out by the tracer."""


@dataclass(slots=True)
class AgentSpanData(SpanData):
    """An agent at work.

    >>> AgentSpanData("Support", tools=["refund"]).export()["tools"]
    ['refund']
    """

    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "agent"

    @property
    def span_name(self) -> str:
        return f"invoke_agent {self.name}"

    def export(self) -> Attributes:
        return {
            "type": self.type,
            "name": self.name,
            "handoffs": self.handoffs,
            "tools": self.tools,
            "output_type": self.output_type,
        }

    def attributes(self) -> Attributes:
        return {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.name,
            "keyturn.agent.handoffs": self.handoffs,
            "keyturn.agent.tools": self.tools,
            "keyturn.agent.output_type": self.output_type,
        }


@dataclass(slots=True)
class FunctionSpanData(SpanData):
    """A tool that ran.

    `input` is the text of its arguments.

    >>> FunctionSpanData("refund", '{"order":"A-1"}', "done").span_name
    'execute_tool refund'
    """

    name: str
    input: str | None
    output: Any
    mcp_data: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "function"

    @property
    def span_name(self) -> str:
        return f"execute_tool {self.name}"

    def export(self) -> Attributes:
        output = None if self.output is None else str(self.output)
        told = {"type": self.type, "name": self.name, "input": self.input, "output": output}
        return {**told, "mcp_data": self.mcp_data}

    def attributes(self) -> Attributes:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.name,
            "gen_ai.tool.call.arguments": self.input,
            "gen_ai.tool.call.result": self.output,
            "keyturn.mcp.data": self.mcp_data,
        }


@dataclass(slots=True)
class GenerationSpanData(SpanData):
    """A question to a model and its reply.

    >>> GenerationSpanData(model="gpt-5", usage={"input_tokens": 9}).attributes()["gen_ai.usage.input_tokens"]
    9
    """

    input: Sequence[Mapping[str, Any]] | None = None
    output: Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "generation"

    @property
    def span_name(self) -> str:
        return f"chat {self.model}" if self.model else "chat"

    def export(self) -> Attributes:
        return {
            "type": self.type,
            "input": self.input,
            "output": self.output,
            "model": self.model,
            "model_config": self.model_config,
            "usage": self.usage,
        }

    def attributes(self) -> Attributes:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": self.model,
            "gen_ai.input.messages": self.input,
            "gen_ai.output.messages": self.output,
            **{f"gen_ai.request.{name}": value for name, value in (self.model_config or {}).items()},
            **{f"gen_ai.usage.{name}": value for name, value in (self.usage or {}).items()},
        }


@dataclass(slots=True)
class ResponseSpanData(SpanData):
    """A reply of the Responses API, for code that asks it by itself; Keyturn's own questions are generations.

    >>> from types import SimpleNamespace
    >>> ResponseSpanData(SimpleNamespace(id="resp_1")).export()["response_id"]
    'resp_1'
    """

    response: Any = None
    input: Any = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "response"

    @property
    def span_name(self) -> str:
        return "chat"

    @property
    def response_id(self) -> str | None:
        """The reply's id, None before there is one."""
        return getattr(self.response, "id", None)

    def export(self) -> Attributes:
        return {"type": self.type, "response_id": self.response_id, "usage": self.usage}

    def attributes(self) -> Attributes:
        used = {f"gen_ai.usage.{name}": value for name, value in (self.usage or {}).items()}
        return {"gen_ai.operation.name": "chat", "gen_ai.response.id": self.response_id, **used}


@dataclass(slots=True)
class HandoffSpanData(SpanData):
    """A conversation handed from one agent to another.

    >>> HandoffSpanData("Triage", "Refunds").span_name
    'handoff Refunds'
    """

    from_agent: str | None
    to_agent: str | None

    @property
    def type(self) -> str:
        return "handoff"

    @property
    def span_name(self) -> str:
        return f"handoff {self.to_agent}" if self.to_agent else "handoff"

    def export(self) -> Attributes:
        return {"type": self.type, "from_agent": self.from_agent, "to_agent": self.to_agent}

    def attributes(self) -> Attributes:
        return {"keyturn.handoff.from": self.from_agent, "keyturn.handoff.to": self.to_agent}


@dataclass(slots=True)
class GuardrailSpanData(SpanData):
    """A guardrail's look, and whether it triggered.

    >>> GuardrailSpanData("no_secrets", triggered=True).export()
    {'type': 'guardrail', 'name': 'no_secrets', 'triggered': True}
    """

    name: str
    triggered: bool = False

    @property
    def type(self) -> str:
        return "guardrail"

    @property
    def span_name(self) -> str:
        return f"guardrail {self.name}"

    def export(self) -> Attributes:
        return {"type": self.type, "name": self.name, "triggered": self.triggered}

    def attributes(self) -> Attributes:
        return {"keyturn.guardrail.name": self.name, "keyturn.guardrail.triggered": self.triggered}


@dataclass(slots=True)
class MCPListToolsSpanData(SpanData):
    """A listing of an MCP server's tools.

    >>> MCPListToolsSpanData("files", ["read"]).export()["result"]
    ['read']
    """

    server: str | None = None
    result: list[str] | None = None

    @property
    def type(self) -> str:
        return "mcp_tools"

    @property
    def span_name(self) -> str:
        return f"tools/list {self.server}" if self.server else "tools/list"

    def export(self) -> Attributes:
        return {"type": self.type, "server": self.server, "result": self.result}

    def attributes(self) -> Attributes:
        return {"mcp.method.name": "tools/list", "keyturn.mcp.server": self.server, "keyturn.mcp.tools": self.result}


@dataclass(slots=True)
class CustomSpanData(SpanData):
    """A span of the user's own, and every span of Keyturn's that has no class of its own.

    >>> CustomSpanData("look up", {"shop.order": 17}).attributes()
    {'shop.order': 17}
    """

    name: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def type(self) -> str:
        return "custom"

    @property
    def span_name(self) -> str:
        return self.name

    def export(self) -> Attributes:
        return {"type": self.type, "name": self.name, "data": self.data}

    def attributes(self) -> Attributes:
        return dict(self.data)


@dataclass(slots=True)
class TaskSpanData(SpanData):
    """A piece of work that several turns belong to.

    >>> TaskSpanData("nightly report").export()["data"]["sdk_span_type"]
    'task'
    """

    name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "task"

    @property
    def span_name(self) -> str:
        return f"task {self.name}"

    def export(self) -> Attributes:
        return {"type": "custom", "name": self.type, "data": _marked(self, {"name": self.name})}

    def attributes(self) -> Attributes:
        return {"keyturn.task": self.name, **_used(self.usage)}


@dataclass(slots=True)
class TurnSpanData(SpanData):
    """One turn of an agent.

    >>> TurnSpanData(2, "Support").span_name
    'turn 2'
    """

    turn: int
    agent_name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        return "turn"

    @property
    def span_name(self) -> str:
        return f"turn {self.turn}"

    def export(self) -> Attributes:
        told = {"turn": self.turn, "agent_name": self.agent_name}
        return {"type": "custom", "name": self.type, "data": _marked(self, told)}

    def attributes(self) -> Attributes:
        return {"keyturn.turn": self.turn, "gen_ai.agent.name": self.agent_name, **_used(self.usage)}


def _marked(data: TaskSpanData | TurnSpanData, told: Attributes) -> Attributes:
    """The data of a kind that backends know as a custom span with a mark."""
    usage = {} if data.usage is None else {"usage": data.usage}
    return {"sdk_span_type": data.type, **told, **usage}


def _used(usage: Mapping[str, Any] | None) -> Attributes:
    return {f"gen_ai.usage.{name}": value for name, value in (usage or {}).items()}
