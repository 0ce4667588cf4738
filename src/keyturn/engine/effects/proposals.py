"""Read a model's reply into proposals: which calls it made, of which tools, and what exactly would run.

The provider's call id is a label. The same label with the same content is one call; with other content it is
misbehaviour, found before anything is recorded. Arguments that a tool refuses never reach the gate.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from ...core.errors import BadJson, ModelBehaviorError, UserError
from ...core.events import Proposal
from ...core.items import Item, own_copy, wrong_in
from ...core.policy import Approval
from ...core.preview import Preview
from ...core.records import Gate, Recover
from ...core.run import Call, Frame
from ...core.strict import parse
from ...models.base import ModelResponse
from ...tools.base import InvalidArguments, Tool, not_blank, plain_preview, tool_digest, tool_spec
from ..driving.drive import Drive
from ..run.agents import AgentGraph
from ..run.frame_settings import FrameSettings, Toolset
from .live_preview import recorded

# What may differ between two tellings of one call: its own ids, and what a provider keeps on the item for itself.
_EPHEMERAL = ("id", "status", "provider_data")


class ReplyReading:
    """Reads one reply: its items, the calls among them, and the specs of tools that may ask."""

    def __init__(self, drive: Drive, frame: Frame, toolset: Toolset) -> None:
        self.output: list[Item] = []
        self.proposals: list[Proposal] = []
        self.tools: dict[str, Any] = {}
        self.frame = frame
        self._drive, self._toolset = drive, toolset
        self._scope = drive.scope(frame.id)
        self._seen: dict[str, Item] = {}

    def read(self, response: ModelResponse) -> ReplyReading:
        """Read the reply's items in order."""
        for raw in response.output:
            if wrong := wrong_in(raw):
                raise ModelBehaviorError(f"an item of the model's reply {wrong}; nothing of it was used")
        settled = _settled(response.output, self._toolset, self._seen)
        for raw in response.output:
            label = None if settled and _label(raw) in settled else call_label(raw, self._toolset)
            if label is not None and label in self._seen:
                _check_same(self._seen[label], raw)
                continue
            own = own_copy(raw)
            self.output.append(own)
            if label is not None:
                self._seen[label] = own
                self._call(raw, label)
        return self

    def _call(self, raw: Item, label: str) -> None:
        tool = self._toolset.find(raw)
        place = (_name_of(tool, raw), label, len(self.output) - 1)
        if tool is None:
            self.proposals.append(_unknown(self._scope, self.frame.agent, raw, place))
            return
        if tool.after_siblings and any(other.last for other in self.proposals):
            refused = tool.output(raw, "Multiple handoffs detected, ignoring this one.")
            proposal = Proposal(tool.kind, *place, tool_digest(tool, raw), refused=refused)
        else:
            proposal = propose(self._scope, tool, raw, place)
        if proposal.gate != "allow" and proposal.tool not in self._drive.run.tools and proposal.tool not in self.tools:
            self.tools[proposal.tool] = tool_spec(tool, raw)
        self.proposals.append(proposal)


def _name_of(tool: Tool | None, raw: Item) -> str:
    """Return the name of the tool that a call means, by the tool: policies, grants and people go by it.

    Only a kind that stands for several tools, as a server does, reads there which of them is meant; that is part of
    what the tool is then. A call of a tool that nobody knows is called what it calls itself.
    """
    named: object = raw.get("name")
    if tool is not None and "name" not in tool.identity:
        return tool.name
    if isinstance(named, str) and named:
        return named
    return tool.name if tool is not None else str(raw.get("type"))


def call_label(raw: Mapping[str, Any], toolset: Toolset) -> str | None:
    """Return the provider's id of a call that must be answered here, None for every other item."""
    kind = raw.get("type", "message")
    if kind != "function_call" and toolset.find(raw) is None and not _must_answer(kind, raw):
        return None
    label = raw.get("call_id") or (raw.get("id") if not kind.endswith("_call") else None)
    if not isinstance(label, str) or not label:
        raise ModelBehaviorError(f"the model made a {kind} without a call id; nothing of its reply was used")
    return label


def _must_answer(kind: str, raw: Mapping[str, Any]) -> bool:
    # A call that the provider answers itself may have the field and nothing in it; a request always waits for a word.
    return kind.endswith("_approval_request") or (kind.endswith("_call") and raw.get("call_id") is not None)


def _settled(output: list[Any], toolset: Toolset, seen: Container[str]) -> set[str]:
    """Return the ids of calls whose results stand in the same reply, since the provider ran them.

    What runs here has its result from here: a model that tells of one would have its own words kept as ours.
    """
    results = [raw for raw in output if str(raw.get("type")).endswith("_output") and _label(raw)]
    if not results:
        return set()
    settled = {raw["call_id"] for raw in results}
    calls = [raw for raw in output if _label(raw) in settled and raw.get("type", "").endswith("_call")]
    alone = settled - {raw["call_id"] for raw in calls}
    kinds = {kind for (kind, _name), tool in toolset.by_key.items() if not tool.hosted}
    ours = any((tool := toolset.find(raw)) and not tool.hosted for raw in calls)
    ours = ours or any(label in seen for label in alone)
    if ours or any(raw["call_id"] in alone and raw["type"].removesuffix("_output") in kinds for raw in results):
        raise ModelBehaviorError("the model gave the result of a call that runs here; nothing of its reply was used")
    return settled


def _label(raw: Mapping[str, Any]) -> str | None:
    label = raw.get("call_id")
    return label if isinstance(label, str) else None


def _check_same(*told: Mapping[str, Any]) -> None:
    first, again = [{key: value for key, value in raw.items() if key not in _EPHEMERAL} for raw in told]
    if first != again:
        raise ModelBehaviorError("the model gave two different calls one call id; nothing of its reply was used")


def propose(
    scope: FrameSettings, tool: Tool, raw: Mapping[str, Any], place: tuple[str, str, int], edited: str | None = None
) -> Proposal:
    """Make a proposal of a call of a known tool: what would run, and its own setting's verdict.

    `edited` is what a person had put in place of the model's arguments. Only the tool knows where in a call those are.
    """
    try:
        _check_text(raw)
        prepared = tool.prepare(raw) if edited is None else tool.edit(parse(edited))
    except InvalidArguments as error:
        return Proposal(tool.kind, *place, tool_digest(tool, raw), refused=tool.output(raw, str(error)))
    except BadJson as error:
        refused = tool.output(raw, f"The arguments of {tool.name} are invalid: they are {error}")
        return Proposal(tool.kind, *place, tool_digest(tool, raw), refused=refused)
    own = prepared.text == raw.get("arguments")
    made = Proposal(
        tool.kind,
        *place,
        tool_digest(tool, raw),
        args=None if own else prepared.text,
        gate=_gate(scope, tool),
        terms=tool.approval,
        recover=_recovery(tool),
        last=tool.after_siblings,
        risk=tool.risk,
        **facts_of(tool),
    )
    if tool.approval is not None:
        check_terms_of(f"tool {tool.name!r}", tool.approval, inbox=scope.inbox)
    if made.gate == "ask":
        made = msgspec.structs.replace(made, preview=_preview(tool, prepared.params))
    return made


def facts_of(tool: Tool) -> dict[str, Any]:
    """Return the facts of a tool that faces and gate need once it is not at hand; defaults are left out."""
    facts: dict[str, Any] = {}
    if tool.secrets:
        facts["secrets"] = tool.secrets
    if not tool.editable:
        facts["fixed"] = True
    if not tool.answerable:
        facts["elsewhere"] = True
    return facts


def _preview(tool: Tool, params: Any) -> Preview | None:
    """Return what people are shown of a call, recorded with it; None where that is the arguments themselves."""
    made = tool.preview(params)
    if not isinstance(made, Preview):
        return None
    made = not_blank(made, params, tool.secrets)
    return None if made == plain_preview(params, tool.secrets) else recorded(made)


def _check_text(raw: Mapping[str, Any]) -> None:
    """Refuse arguments that are no text: what a provider parsed may differ from what the model wrote."""
    text = raw.get("arguments")
    if text is not None and not isinstance(text, str):
        raise BadJson("they were sent as a value in place of its text")


def _gate(scope: FrameSettings, tool: Tool) -> Gate:
    """Return the tool's own verdict where nobody needs to be asked for it, "" where the call must be screened."""
    needs = tool.needs_approval
    config = scope.config
    early = config.tool_execution is not None and config.tool_execution.pre_approval_tool_input_guardrails
    asks = bool(needs) or tool.approval is not None
    if config.policy is not None or callable(needs) or tool.on_approval is not None or (tool.looks and asks):
        return ""
    if early and tool.tool_input_guardrails:
        return ""
    return "ask" if asks else "allow"


def _recovery(tool: Tool) -> Recover:
    if tool.idempotent or tool.read_only or tool.after_siblings:
        return "retry"
    return "ask" if tool.check is None else "probe"


def _unknown(scope: FrameSettings, agent_name: str, raw: Mapping[str, Any], place: tuple[str, str, int]) -> Proposal:
    name, label, index = place
    if scope.config.tool_not_found_behavior == "raise_error" or raw.get("type") != "function_call":
        raise ModelBehaviorError(
            f"the model called {name!r}, which agent {agent_name!r} does not have; nothing of its reply was used: "
            'resume to ask it again, or set RunConfig(tool_not_found_behavior="return_error_to_model")'
        )
    text = f"There is no tool named {json.dumps(name)}."
    refused = {"type": "function_call_output", "call_id": label, "output": text}
    return Proposal("unknown", name, label, index, refused=refused)


def revised(scope: FrameSettings, tool: Tool, call: Call) -> Proposal:
    """Propose the same call again for a tool that changed; what a person had edited stays edited."""
    place = (call.proposal.name, call.proposal.label, call.proposal.item)
    edited = call.text if call.edited else None
    made = propose(scope, tool, call.raw, place, edited)
    if made.refused is None and edited is not None:
        made = msgspec.structs.replace(made, args=made.args or edited, edited=True)
    if tool.looks:  # whoever is asked next must be shown the world as it is then
        made = msgspec.structs.replace(made, gate="", preview=None)
    return made


def check_terms(graph: AgentGraph, policy: Any, *, inbox: bool) -> None:
    """Refuse at once terms that need people where there is no inbox; the gate refuses them anyway."""
    for agent in graph.agent_at.values():
        for tool in agent.tools:
            terms = getattr(tool, "approval", None)
            if terms is not None:
                check_terms_of(f"tool {tool.name!r}", terms, inbox=inbox)
    if getattr(policy, "needs_people", False) and not inbox:
        raise no_people("the policy")


def check_terms_of(who: str, terms: Approval | None, *, inbox: bool) -> None:
    """Refuse such terms of one tool or one verdict."""
    if terms is None:
        return
    if terms.needs_people and not inbox:
        raise no_people(who)
    if terms.needs_proof:
        raise UserError(f"{who} takes signed decisions, and nothing here verifies a person's key yet")


def no_people(who: str) -> UserError:
    """Return the error text for terms that nobody here can meet."""
    return UserError(
        f"{who} asks for a role, users, a quorum, a second person or step-up; that needs an inbox "
        "with people who log in: run the agent in an App, or use Approval(expires=..., execute_by=...) alone"
    )
