"""From a model's reply to proposals: which calls it made, of which tools, and what exactly would run.

The provider's call id is a label. The same label with the same content is one call; with other content it is
misbehaviour, found before anything is recorded. Arguments that a tool refuses never reach the gate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.digest import canonical
from ..core.errors import BadJson, ModelBehaviorError, UserError
from ..core.events import Proposal
from ..core.items import Item
from ..core.run import Call, Frame
from ..models.base import ModelResponse
from ..tools.base import InvalidArguments, Tool, tool_digest
from .drive import Drive
from .scope import Scope, Toolset

_EPHEMERAL = ("id", "status")


async def proposals(
    drive: Drive, frame: Frame, toolset: Toolset, response: ModelResponse
) -> tuple[list[Item], list[Proposal], dict[str, Any]]:
    """The reply's items, the calls among them as proposals, and what the model knew of tools that may ask."""
    scope = drive.scope(frame.id)
    output: list[Item] = []
    made: list[Proposal] = []
    tools: dict[str, Any] = {}
    seen: dict[str, Item] = {}
    for raw in response.output:
        label = call_label(raw, toolset)
        if label is None:
            output.append(dict(raw))
            continue
        if _repeated(seen, label, raw):
            continue
        output.append(dict(raw))
        tool = toolset.find(raw.get("type", "function_call"), raw.get("name"))
        proposal = _proposal(
            scope, agent_name=frame.agent, tool=tool, raw=raw, place=(label, len(output) - 1), made=made
        )
        made.append(proposal)
        if tool is not None and proposal.gate != "allow" and proposal.tool not in drive.run.tools:
            tools[proposal.tool] = tool.spec()
    return output, made, tools


def call_label(raw: Mapping[str, Any], toolset: Toolset) -> str | None:
    """The provider's id of a call that must be answered here, None for every other item."""
    kind = raw.get("type", "message")
    if kind != "function_call" and toolset.find(kind, raw.get("name")) is None and not _must_answer(kind, raw):
        return None
    label = raw.get("call_id") or (raw.get("id") if not kind.endswith("_call") else None)
    if not isinstance(label, str) or not label:
        raise ModelBehaviorError(f"the model made a {kind} without a call id; nothing of its reply was used")
    return label


def _must_answer(kind: str, raw: Mapping[str, Any]) -> bool:
    return kind.endswith("_call") and "call_id" in raw


def _repeated(seen: dict[str, Item], label: str, raw: Mapping[str, Any]) -> bool:
    content = {key: value for key, value in raw.items() if key not in _EPHEMERAL}
    before = seen.setdefault(label, content)
    if before is content:
        return False
    if before != content:
        raise ModelBehaviorError("the model gave two different calls one call id; nothing of its reply was used")
    return True


def _proposal(
    scope: Scope,
    *,
    agent_name: str,
    tool: Tool | None,
    raw: Mapping[str, Any],
    place: tuple[str, int],
    made: list[Proposal],
) -> Proposal:
    label, index = place
    name = raw.get("name") or (tool.name if tool is not None else str(raw.get("type")))
    if tool is None:
        return _unknown(scope, agent_name, raw, (name, label, index))
    spec = tool_digest(tool)
    if tool.after_siblings and any(other.last for other in made):
        refused = tool.output(raw, "Multiple handoffs detected, ignoring this one.")
        return Proposal(tool.kind, name, label, index, spec, refused=refused)
    return propose(scope, tool, raw, (name, label, index))


def propose(scope: Scope, tool: Tool, raw: Mapping[str, Any], place: tuple[str, str, int]) -> Proposal:
    """One call of a known tool as a proposal: what would run, and what the tool's own setting says of it."""
    name, label, index = place
    try:
        prepared = tool.prepare(raw)
    except (InvalidArguments, BadJson) as error:
        refused = tool.output(raw, f"Invalid arguments for tool {name!r}: {error}")
        return Proposal(tool.kind, name, label, index, tool_digest(tool), refused=refused)
    own = prepared.exact and prepared.text == raw.get("arguments")
    return Proposal(
        tool.kind,
        name,
        label,
        index,
        tool_digest(tool),
        args=None if own else prepared.text,
        gate=_gate(scope, tool),
        terms=tool.approval,
        recover=_recovery(tool),
        last=tool.after_siblings,
    )


def _gate(scope: Scope, tool: Tool) -> str:
    """The tool's own verdict where nobody needs to be asked for it, "" where the call must be screened."""
    needs = tool.needs_approval
    config = scope.config
    early = config.tool_execution is not None and config.tool_execution.pre_approval_tool_input_guardrails
    if config.policy is not None or callable(needs) or tool.on_approval is not None:
        return ""
    if early and tool.tool_input_guardrails:
        return ""
    return "ask" if needs or tool.approval is not None else "allow"


def _recovery(tool: Tool) -> str:
    if tool.idempotent or tool.read_only or tool.after_siblings:
        return "retry"
    return "ask" if tool.check is None else "probe"


def _unknown(scope: Scope, agent_name: str, raw: Mapping[str, Any], place: tuple[str, str, int]) -> Proposal:
    name, label, index = place
    if scope.config.tool_not_found_behavior == "raise_error" or raw.get("type") != "function_call":
        raise ModelBehaviorError(
            f"the model called {name!r}, which agent {agent_name!r} does not have; nothing of its reply was used: "
            'resume to ask it again, or set RunConfig(tool_not_found_behavior="return_error_to_model")'
        )
    text = f"There is no tool named {json.dumps(name)}."
    refused = {"type": "function_call_output", "call_id": label, "output": text}
    return Proposal("unknown", name, label, index, refused=refused)


def revised(scope: Scope, tool: Tool, call: Call) -> Proposal:
    """The same call proposed anew for a tool that changed."""
    place = (call.proposal.name, call.proposal.label, call.proposal.item)
    if call.decision is not None and call.decision.args is not None:
        return propose(scope, tool, {**call.raw, "arguments": call.decision.args}, place)
    return propose(scope, tool, call.raw, place)


def check_terms(tools: list[Any], *, people: bool) -> None:
    """Refuse terms that need authenticated people where there is no inbox that knows any."""
    if people:
        return
    for tool in tools:
        terms = getattr(tool, "approval", None)
        if terms is not None and terms.needs_people:
            raise UserError(
                f"tool {tool.name!r} asks for a role, users, a quorum, a second person or step-up; that needs an inbox "
                "with people who log in: run the agent in an App, or use Approval(expires=..., execute_by=...) alone"
            )


def frozen_edit(tool: Tool, edit: Any) -> str:
    """A person's changed arguments as the text that will run."""
    return (
        tool.edit(edit if not isinstance(edit, str) else json.loads(edit)).text if edit is not None else canonical({})
    )
