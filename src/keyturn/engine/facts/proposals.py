"""Propose a call of a known tool: what exactly would run, and what its own setting says of it.

The facts of a tool are taken once, when its call is proposed; policy, people and the tool get those same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...core.approval import Approval
from ...core.errors import BadJson, ModelBehaviorError, UserError
from ...core.events import Proposal
from ...core.items import Item
from ...core.preview import Preview
from ...core.records import Gate, Recover
from ...core.strict import parse
from ...tools.base import (
    InvalidArguments,
    Tool,
    plain_preview,
    shown_preview,
    stands_for_several,
    tool_digest,
)
from ..run.frame_settings import FrameSettings, Toolset
from ..run.new_ids import new_id
from ..run.open_run import OpenRun
from .live_preview import recorded


def called_name(tool: Tool | None, raw: Item) -> str:
    """Return the name of the tool that a call means, by the tool: policies, grants and people go by it.

    Only a kind that stands for several tools, as a server does, reads there which of them is meant; that is part of
    what the tool is then. A call of a tool that nobody knows is called what it calls itself.
    """
    named: object = raw.get("name")
    if tool is not None and not stands_for_several(tool):
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
        return refused_as(tool, raw, place, str(error))
    except BadJson as error:
        return refused_as(tool, raw, place, f"The arguments of {tool.name} are invalid: they are {error}")
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
        check_terms_of(f"tool {tool.name!r}", tool.approval, inbox=scope.inbox, witness=scope.witness)
    if made.gate == "ask":
        made = msgspec.structs.replace(made, preview=_preview(tool, prepared.params))
    return made


def refused_as(tool: Tool, raw: Mapping[str, Any], place: tuple[str, str, int], words: str) -> Proposal:
    """Make the proposal of a call that is refused as it is made; what it was given may be secret all the same."""
    return Proposal(tool.kind, *place, tool_digest(tool, raw), refused=tool.output(raw, words), secrets=tool.secrets)


def facts_of(tool: Tool) -> dict[str, Any]:
    """Return the facts of a tool that faces and gate need once it is not at hand; defaults are left out."""
    facts: dict[str, Any] = {}
    if tool.secrets:
        facts["secrets"] = tool.secrets
        facts["key"] = new_id()
    if tool.read_only:
        facts["reads"] = True
    if not tool.editable:
        facts["fixed"] = True
    if not tool.answerable:
        facts["elsewhere"] = True
    if tool.go_ahead is not None:
        facts["by_provider"] = True
    if server := _server_of(tool):
        facts["server"] = server
    if tool.claimed:
        facts["claimed"] = True
    if tool.final:
        facts["final"] = True
    return facts


def _server_of(tool: Tool) -> str:
    """Return the server that a tool stands for, or that a caller outside says it is of; "" for any other tool."""
    if stands_for_several(tool):
        return tool.name
    return str(tool.spec().get("server", "")) if tool.claimed else ""


def _preview(tool: Tool, params: object) -> Preview | None:
    """Return what people are shown of a call, recorded with it; None where that is the arguments themselves."""
    made = tool.preview(params)
    if not isinstance(made, Preview):
        return None
    made = shown_preview(tool, made, params, tool.secrets)
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
    asks = needs is not False or tool.approval is not None  # whatever is no plain False asks
    if scope.policies or callable(needs) or tool.on_approval is not None or (tool.looks and asks):
        return ""
    if early and tool.tool_input_guardrails:
        return ""
    return "ask" if asks else "allow"


def _recovery(tool: Tool) -> Recover:
    if tool.idempotent or tool.read_only or tool.after_siblings:
        return "retry"
    return "ask" if tool.check is None else "probe"


def check_terms(live: OpenRun, scope: FrameSettings, *, inbox: bool) -> None:
    """Refuse at once terms that need people where there is no inbox, and limits of several runs without a journal.

    The gate refuses those terms anyway, and what cannot be counted is over every limit.
    """
    policy: Any = scope.policy
    if live.journal is None and getattr(policy, "counts_for_several_runs", False) is True:
        raise UserError(
            "the policy has a limit of a session, requester, agent or tenant, which is counted in a journal: run with "
            "journal=, or leave out of= to limit each run by itself"
        )
    for agent in live.graph.agent_at.values():
        if getattr(agent.own_policy(), "needs_people", False) and not inbox:
            raise no_people(f"agent {agent.name!r}")
        for tool in agent.tools:
            terms = getattr(tool, "approval", None)
            if terms is not None:
                check_terms_of(f"tool {tool.name!r}", terms, inbox=inbox, witness=scope.witness)
    if getattr(policy, "needs_people", False) and not inbox:
        raise no_people("the policy")


def check_terms_of(who: str, terms: Approval | None, *, inbox: bool, witness: bool) -> None:
    """Refuse such terms of one tool or one verdict."""
    if terms is None:
        return
    if terms.needs_people and not inbox:
        raise no_people(who)
    if terms.takes_proof and not witness:
        raise UserError(f"{who} requires signed decisions, which are verified only when the agent runs in an App")


def no_people(who: str) -> UserError:
    """Return the error text for terms that nobody here can meet."""
    return UserError(
        f"{who} asks for a role, users, a quorum, a second person or step-up; that needs an inbox "
        "with people who log in: run the agent in an App, or use Approval(expires=..., execute_by=...) alone"
    )
