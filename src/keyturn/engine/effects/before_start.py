"""List what must be checked before a call may start, for the fused start and for the plain one.

A start that is recorded together with what came before it is only right where this list is empty; a start by itself
looks at each thing on it. Because both read it here, neither can lack what the other has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ...core import commands as cm
from ...core.approval import Approval
from ...core.gate.combined_terms import escalated_from
from ...core.gate.opening import Still, still
from ...core.gate.verdicts import meets_now
from ...core.people import Decider
from ...core.preview import Preview
from ...core.records import BY_GRANT
from ...core.run import Call, Run, stated_terms
from ...support.threads import all_busy
from ...tools.base import Tool, tool_digest, tool_spec
from ...tools.gates import always_asks
from ...tools.known_digests import is_tool
from ..driving.drive import Drive
from ..driving.home import stands_open
from ..logger import logger
from ..run.frame_settings import FrameSettings
from .proposals import revised

First = Literal[
    "home", "policy", "verdict", "tool", "terms", "proof", "grant", "guardrails", "slot", "world", "hooks", "question",
    "claim",
]  # fmt: skip


#: Why a call asks anew whose tool states other terms than it was decided on.
OUTGROWN = "the terms of its tool have changed, and the decision does not meet them: approval is requested again"
#: Why one does whose tool is another one.
ANOTHER_TOOL = "the tool changed after it was shown: compare its description and schema before you decide again"
_NO_RETRY = "the tool is not the one that was shown, so no retry runs it: resolve the call as ran or did_not_run"


def before_start(drive: Drive, scope: FrameSettings, call: Call, tool: Tool) -> list[First]:
    """List what comes before the start of a call.

    That is: the process in which it stands open, the newest policy's word on a decision, the policies that were not
    asked about the call, the tool and its own terms as they are now, the signatures of people, who gave the grant,
    input guardrails, a free slot and thread, the world that the call was shown with, hooks, the question by which a
    provider runs it, and the claim of a caller outside.
    """
    first: list[First] = ["home"] if stands_open(call) else []
    undecided = call.recheck or call.state == "asked"
    if undecided and (scope.policies or asked_otherwise(call)):
        first.append("policy")
    elif not drive.judged_by(call, scope.judges):
        first.append("verdict")
    if not is_tool(tool, call.raw, call.proposal.tool):
        first.append("tool")
    if outgrown(drive.log.run, call, tool):
        first.append("terms")
    if (terms := terms_of(call, tool)) and takes_proof(terms):
        first.append("proof")
    if _known(drive, _granted_by(call)) is not None:
        first.append("grant")
    if tool.tool_input_guardrails:
        first.append("guardrails")
    if scope.slots or (tool.blocking and all_busy()):
        first.append("slot")
    if tool.looks:
        first.append("world")
    if hooked(drive, scope, call.agent):
        first.append("hooks")
    if call.proposal.by_provider:
        first.append("question")
    if call.proposal.claimed:
        first.append("claim")
    return first


def outgrown(run: Run, call: Call, tool: Tool) -> bool:
    """Return whether the tool asks on other terms now than it did, and what let the call run does not meet them.

    The terms on record hold as well: a decision met them before it was taken. Where a policy stated the terms, it
    states them now.
    """
    own = tool.approval
    if call.decision is None and call.proposal.gate == "allow":  # nobody was asked
        return own is not None or always_asks(tool)
    if call.decision is None and not call.by and always_asks(tool):  # a callable of the tool let it run
        return True
    if own is None or own in (call.proposal.terms, stated_terms(call)) or call.state == "supplied":
        return False
    if call.decision is None and not call.by.startswith(BY_GRANT):
        return (
            call.state == "asked"
        )  # else a policy, or a callable of the tool, let it run: its word is not on these terms
    return not asked_otherwise(call) and not meets_now(run, call, own)


def terms_of(call: Call, tool: Tool | None) -> list[Approval]:
    """Return the terms that hold for a call: those on which it asked, and its tool's own, whatever the log says."""
    own, asked = None if tool is None else tool.approval, stated_terms(call)
    if own is not None and escalated_from(own, asked):
        own = None
    if own is None and asked is None:
        return []
    return [terms for terms in dict.fromkeys((asked, own)) if terms is not None]


def takes_proof(terms: Iterable[Approval]) -> bool:
    """Return whether people must have signed what they decide of a call."""
    return any(each.takes_proof for each in terms)


async def unsigned(drive: Drive, call: Call, terms: Sequence[Approval]) -> str:
    """Return why the word of people on a call is not signed as it must be; "" where it is, or need not be."""
    if not takes_proof(terms):
        return ""
    witness = drive.live.witness
    why = (
        "signatures cannot be verified here" if witness is None else await witness.objection(drive.log.run, call, terms)
    )
    if why:
        logger.warning("the decision on call %s of %r is not valid: %s", call.id, call.proposal.name, why)
    return why


async def lapsed(drive: Drive, call: Call, terms: Sequence[Approval]) -> str:
    """Return why the grant that let a call run does not apply any more; "" where it does."""
    return await giver_left(drive, _granted_by(call), terms)


async def giver_left(drive: Drive, giver: Decider | None, terms: Sequence[Approval]) -> str:
    """Return why the person of the directory who gave a grant could not give it now; "" where they could."""
    known = _known(drive, giver)
    if known is None or drive.live.witness is None:
        return ""
    return await drive.live.witness.lapsed(known, terms, drive.log.run.requester)


def _known(drive: Drive, giver: Decider | None) -> Decider | None:
    """Return who gave a grant, where the directory can be asked about them."""
    asked = giver is not None and giver.place is not None and drive.live.witness is not None
    return giver if asked else None


def _granted_by(call: Call) -> Decider | None:
    """Return who gave the grant that let a call run, of this run or of another; None where it was let run otherwise."""
    granted = call.by.startswith(BY_GRANT) if call.decision is None else call.decision.via == "grant"
    return call.giver if granted else None


def asked_otherwise(call: Call) -> bool:
    """Return whether people were asked on a policy's terms and not on the tool's own."""
    own, asked = call.proposal.terms, stated_terms(call)
    return own is not None and asked != own and not escalated_from(own, asked)


def hooked(drive: Drive, scope: FrameSettings, agent: str) -> bool:
    """Return whether hooks watch an agent."""
    return scope.hooks is not None or drive.graph.agent_at[agent].hooks is not None


async def ask_anew(
    drive: Drive,
    scope: FrameSettings,
    call: Call,
    tool: Tool,
    why: str,
    changed: Preview | None = None,
    stands: Still | None = None,
) -> None:
    """Void the approval and propose the call anew, since what would run, or on what terms, is not what was shown.

    `changed` is what it would do now, `stands` what the reason was found of. A call in doubt keeps its tool, so that no
    retry runs another one.
    """
    stands = stands or still(call)
    if call.acted and why == ANOTHER_TOOL:
        why = _NO_RETRY
    terms = tool.approval if why == OUTGROWN else None
    spec = {tool_digest(tool, call.raw): tool_spec(tool, call.raw)}
    await drive.commit(stands, cm.VoidCall(call.id, revised(scope, tool, call), why, spec, terms, changed))
