"""Screen a call: decide by tool and policy whether it may run, asks a person, or is denied.

A tool's own setting is asked once per call; the run's policy at the first screening and again when a decision is
made, when it may only tighten. Whatever raises here asks a person: never a reason to run. A policy that counts is
asked of one call at a time, and each verdict is recorded before the next is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from ...core import commands as cm
from ...core import events as ev
from ...core.approval import Approval
from ...core.errors import AgentMissing, Conflict, Expired, UserError
from ...core.gate.combined_terms import NOT_COMBINED, beside, combined, escalated_from
from ...core.gate.deciding import meets
from ...core.gate.grants import grant_for
from ...core.gate.opening import Still, still
from ...core.past import RunPast
from ...core.people import barred
from ...core.policy import ALLOW, STRICTNESS, CallView, StoppedByPolicy, Verdict
from ...core.preview import Preview
from ...core.records import BY_GRANT, path_of_caller
from ...core.run import Call, call_digest
from ...core.states import READY
from ...support.user_code import answer_of, class_name
from ...tools.base import Tool, plain_preview, stands_for_several
from ..driving.drive import Drive
from ..facts import decisions
from ..facts.live_preview import look
from ..facts.proposals import check_terms_of
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings
from ..views.projection import approval_item
from .around_tool import rejected_by_input
from .before_start import ask_anew, asked_otherwise, unsigned
from .borrowing import borrow_for_call
from .fused_steps import pass_on
from .quotas import NoRoom, Quotas

_Judge = Callable[[Drive, FrameSettings, Call, Tool, "_Looked"], Awaitable[Verdict]]

# A policy that could not say: such a call asks, and is not let through by a decision alone.
_UNTOLD = "policy failed"
_NOT_BESIDE = "the policy and the tool's own terms cannot both be met by one decision"
_OUTVOTED = "the policy changed after this call was allowed"


async def screen(drive: Drive, call_id: str) -> None:
    """Find the verdict on a call and record it."""
    call = drive.log.run.calls[call_id]
    tool, scope = await drive.tool_of(call), drive.scope(call.frame)
    if call.recheck and not scope.policies and not asked_otherwise(call):
        await pass_on(drive, call, tool)
        return
    counts = _counts(scope)
    async with drive.screening if counts else nullcontext():
        verdict = await _judged(_screen_again if call.recheck else _screen, drive, scope, call, tool)
    if verdict.stop:
        raise StoppedByPolicy(call.proposal.name, verdict.reason)
    if verdict.action == "ask" and tool.on_approval is not None and call.state == "asked":
        await _ask_in_line(drive, scope, call, tool)


def _counts(scope: FrameSettings) -> bool:
    return any(_counting(policy) for policy in scope.policies)


def _counting(policy: object) -> bool:
    return getattr(policy, "counts", False) is True


@dataclass
class _Looked:
    """Holds what comes with a verdict: what it is about, what the call is counted against, and a shadow verdict."""

    quotas: Quotas
    stands: Still
    shadow: Verdict | None = None


async def _judged(judge: _Judge, drive: Drive, scope: FrameSettings, call: Call, tool: Tool) -> Verdict:
    """Judge a call and record the verdict; anew where others took what it would be counted for meanwhile."""
    looked = _Looked(Quotas(drive, call), still(call))
    judges = scope.judges
    while True:
        try:
            verdict = await judge(drive, scope, call, tool, looked)
        except NoRoom:
            continue
        drive.judge(call, judges)
        return verdict


async def _counted(drive: Drive, looked: _Looked, runs: bool, screen: cm.Screen, *before: cm.RunCommand) -> None:
    """Record a verdict, with the call counted before where it is let run."""
    stands = looked.stands if runs else msgspec.structs.replace(looked.stands, grants=frozenset(drive.log.run.grants))
    taken = await looked.quotas.take() if runs else ()
    also = {"quotas": taken, "shadow": looked.shadow, "watched": looked.quotas.watched}
    screen = msgspec.structs.replace(screen, **also, revision=stands.revision)
    try:
        written = await drive.commit(stands, *before, screen)
    except Conflict:
        await looked.quotas.back(taken)
        raise
    if not any(isinstance(event, ev.CallScreened) for event in written.events):
        await looked.quotas.back(taken)  # it was decided, cancelled or proposed anew meanwhile
    elif not runs:
        await looked.quotas.back_unused()


async def _screen_again(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, looked: _Looked) -> Verdict:
    verdict = await _recheck(drive, scope, call, tool, looked)
    if verdict.action == "ask" and verdict.terms is not None:  # the log may say of other terms that people met them
        asked = call.terms if call.terms is not None and escalated_from(verdict.terms, call.terms) else verdict.terms
        why = await unsigned(drive, call, [asked])
        if why:
            await ask_anew(drive, scope, call, tool, why, stands=looked.stands)
            return verdict
    await _counted(drive, looked, verdict.action != "deny", cm.Screen(call.id, verdict, on_decision=True))
    return verdict


async def _recheck(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, looked: _Looked) -> Verdict:
    """Ask the newest policy about a decision; where it says nothing, the tool's own terms hold."""
    verdict = await _policy(drive, scope, call, tool, looked)
    if verdict is None:
        return await _own(scope, call, tool) if asked_otherwise(call) else ALLOW  # its own terms: `outgrown`
    if verdict.action == "ask" and _untold(verdict):  # fail closed: an approval counts only once the policy has spoken
        raise UserError(f"{verdict.reason} when it was evaluated for a decision; nothing ran: fix it and resume")
    if verdict.action == "ask" and verdict.terms is None and asked_otherwise(call):  # it asks as the tool says
        return msgspec.structs.replace(verdict, terms=_terms_of(call, tool))
    return verdict


async def stands(drive: Drive, call: Call, tool: Tool) -> bool:
    """Return whether the newest policy takes a result that a person gave in a tool's place, on the terms it states."""
    scope = drive.scope(call.frame)
    if not scope.policies:
        return True
    verdict = await _recheck(drive, scope, call, tool, _Looked(Quotas(drive, call), still(call)))
    return verdict.action == "allow" or (verdict.action == "ask" and meets(drive.log.run, call, verdict.terms))


async def outvoted(drive: Drive, scope: FrameSettings, call: Call, tool: Tool) -> str:
    """Return why policies that were not asked about a call do not let it run; "" where they do, or were asked.

    It was let run in another process, or before they were set. Its log holds the verdict of then.
    """
    judges = scope.judges
    if call.state not in READY or drive.judged_by(call, judges):
        return ""
    async with drive.screening if _counts(scope) else nullcontext():
        decided = call.decision is not None
        ask = _recheck if decided else _verdict
        verdict = await ask(drive, scope, call, tool, _Looked(Quotas(drive, call), still(call)))
    granted = call.by.startswith(BY_GRANT) and verdict.terms == call.terms
    met = meets(drive.log.run, call, verdict.terms) if decided else granted
    if verdict.action == "allow" or (verdict.action == "ask" and met):
        drive.judge(call, judges)
        return ""
    why = verdict.reason or _OUTVOTED
    return f"{why}; it was started before, and may have run" if call.begun and not call.proposal.reads else why


async def _screen(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, looked: _Looked) -> Verdict:
    verdict = await _verdict(drive, scope, call, tool, looked)
    check_terms_of("the policy", verdict.terms, inbox=scope.inbox, witness=scope.witness)
    early = scope.config.tool_execution is not None and scope.config.tool_execution.pre_approval_tool_input_guardrails
    reports: list[ev.Report] = []
    if verdict.action == "ask" and early and tool.tool_input_guardrails:
        context = drive.tool_context(call, tool)
        reports, message = await rejected_by_input(drive, call, tool, context)
        if message is not None:
            verdict = Verdict("deny", reason=message, by="guardrail")
            await _counted(drive, looked, False, cm.Screen(call.id, verdict, reports=reports))
            return verdict
    grants = await borrow_for_call(drive, call, verdict.terms) if verdict.action == "ask" else []
    shown = await _shown(verdict, call, tool)
    granted = verdict.action == "ask" and (bool(grants) or grant_for(drive.log.run, call, verdict.terms) is not None)
    runs = not call.voided and (verdict.action == "allow" or granted)
    await _counted(drive, looked, runs, cm.Screen(call.id, verdict, preview=shown, reports=reports), *grants)
    return verdict


async def _shown(verdict: Verdict, call: Call, tool: Tool) -> Preview | None:
    """Return the preview to record with the verdict; None where that is the arguments themselves."""
    if verdict.action != "ask" and not call.voided:
        return None
    made = await look(tool, call)
    plain = not made.basis and made == plain_preview(call.params, call.proposal.secrets)
    return None if plain and not tool.looks else made


async def _verdict(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, looked: _Looked) -> Verdict:
    own = await _own(scope, call, tool)
    stated = await _policy(drive, scope, call, tool, looked) if scope.policies else None
    if stated is not None and tool.approval is not None and _keeps_own(tool, tool.approval, stated):
        return beside_own(tool.approval, stated)
    verdict = own if stated is None else stated
    asks = verdict.action == "ask" or (verdict.action == "allow" and call.voided)  # what was voided asks all the same
    if asks and verdict.terms is None:  # whoever asks, the tool says whom
        return msgspec.structs.replace(verdict, terms=_terms_of(call, tool))
    return verdict


def _keeps_own(tool: Tool, own: Approval, stated: Verdict) -> bool:
    """Return whether a policy takes nothing away from a tool's own terms: of signed decisions, and of callers outside.

    What such a caller says of times alone holds where people are asked, and asks nobody.
    """
    return own.takes_proof or (tool.claimed and (stated.action == "ask" or own.needs_people))


def _kept_beside(tool: Tool) -> bool:
    """Return whether the terms of a tool are kept beside whatever a policy asks for: the policy need not know them."""
    return tool.claimed or (tool.approval is not None and tool.approval.takes_proof)


def _terms_of(call: Call, tool: Tool) -> Approval | None:
    """Return on which terms a tool asks; for a call that asks anew those on record hold on."""
    return tool.approval if not call.voided or call.proposal.terms is None else call.proposal.terms


def beside_own(own: Approval, stated: Verdict) -> Verdict:
    """Return a policy's verdict beside a tool's own terms: what either of them requires holds, or it is denied."""
    terms = stated.terms
    if stated.action == "deny":
        return stated
    if stated.action == "allow" or terms is None:
        return msgspec.structs.replace(stated, action="ask", terms=own)
    both = beside(own, terms)
    return Verdict("deny", _NOT_BESIDE, by=stated.by) if both is None else msgspec.structs.replace(stated, terms=both)


async def _own(scope: FrameSettings, call: Call, tool: Tool) -> Verdict:
    needs: Any = tool.needs_approval
    terms = _terms_of(call, tool)
    if not callable(needs):
        return Verdict("ask", terms=terms, by="tool") if needs is not False or tool.approval is not None else ALLOW
    try:
        answer = await answer_of(needs, scope.context, tool.subject(call.params), call.proposal.label)
    except Exception as error:  # fail closed: a question that cannot be answered asks a person
        logger.warning("needs_approval of %r raised, a person is asked: %s", tool.name, error_words(error))
        return Verdict("ask", f"needs_approval raised {class_name(error)}", terms, "tool")
    if not isinstance(answer, bool):
        return Verdict("ask", "needs_approval did not answer True or False", terms, "tool")
    return Verdict("ask", terms=terms, by="tool") if answer else ALLOW


async def _policy(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, looked: _Looked) -> Verdict | None:
    """Ask every policy of this frame; the outermost holds, unless an inner one is stricter."""
    stated: Verdict | None = None
    of_run = drive.scope(ev.ROOT).policy
    view = _view(drive, call, tool)
    await looked.quotas.look(scope.policies, view)
    for policy in scope.policies:
        verdict = await _heard(policy, drive, scope, call, view, looked)
        if verdict is None:
            continue
        if policy is not of_run:  # an agent tool brings it along; the run itself may go on without any
            verdict = msgspec.structs.replace(verdict, by=f"nested {verdict.by}")
        stated = verdict if stated is None else _stricter(stated, verdict, _terms_of(call, tool))
    return stated


def _stricter(outer: Verdict, inner: Verdict, own: Approval | None) -> Verdict:
    """Return the stricter of two verdicts; of two alike the outer one, on the terms of both.

    One that asks without terms asks on those of the tool, `own`, which the terms of the other do not replace.
    """
    if STRICTNESS[inner.action] < STRICTNESS[outer.action]:
        return outer
    by = f"{outer.by}, {inner.by}"
    if STRICTNESS[inner.action] > STRICTNESS[outer.action]:
        return msgspec.structs.replace(inner, by=by)
    review = max(outer.review, inner.review)
    said = inner if _untold(inner) else outer  # where one of them could not say, nobody has said
    terms = inner.terms or outer.terms
    if terms is not None and outer.action == "ask":
        both = [stated for stated in (outer.terms or own, inner.terms or own) if stated is not None]
        terms = combined(*both) if len(both) > 1 else terms
        if terms is None:
            return Verdict("deny", NOT_COMBINED, by=by)
    return msgspec.structs.replace(said, terms=terms, by=by, stop=outer.stop or inner.stop, review=review)


def _untold(verdict: Verdict) -> bool:
    return _UNTOLD in verdict.by


def _view(drive: Drive, call: Call, tool: Tool) -> CallView:
    return CallView(
        call.proposal.name,
        call.proposal.kind,
        drive.graph.agent_at[call.agent].name,
        call.params,
        call_digest(drive.log.run, call),
        call.proposal.label,
        call.proposal.risk,
        drive.log.run.id,
        path_of_caller(call.agent, call.proposal),
        max(drive.log.run.now, drive.live.clock()),
        call.decision is not None,
        read_only=call.proposal.reads,
        secrets=call.proposal.secrets,
        offered=tool.name if stands_for_several(tool) else "",
        terms=None if _kept_beside(tool) else _terms_of(call, tool),
    )


async def _heard(
    policy: object, drive: Drive, scope: FrameSettings, call: Call, view: CallView, looked: _Looked
) -> Verdict | None:
    """Ask one policy; what one says in shadow mode is recorded beside the verdict, and changes nothing."""
    # Each gets arguments of its own: one that edits them changes what no other sees.
    quotas = looked.quotas
    past = RunPast(drive.log.run, call.id, partial(_name_of, drive), drive.totals, quotas.spent, quotas.times)
    view = msgspec.structs.replace(view, params=call.params, past=past if _counting(policy) else None)
    in_shadow: Any = getattr(policy, "in_shadow", None) if getattr(policy, "shadow", False) is True else None
    if in_shadow is None:
        return await _asked_of(policy, scope, view)
    looked.shadow = await _asked_of(in_shadow, scope, view) or looked.shadow
    return None


async def _asked_of(policy: Any, scope: FrameSettings, view: CallView) -> Verdict | None:
    try:
        answer = await answer_of(policy, view, scope.context)
    except Exception as error:  # fail closed, as above
        logger.warning("the policy raised on %r, the call does not run by itself: %s", view.tool, error_words(error))
        return Verdict("ask", f"the policy raised {class_name(error)}", by=_UNTOLD)
    if answer is None:
        return None
    if isinstance(answer, Verdict):  # that it was a policy which said so is a fact of the run, whatever it calls itself
        return answer if answer.by.startswith("policy") else msgspec.structs.replace(answer, by=_named(answer.by))
    if answer in ("allow", "ask", "deny"):
        return Verdict(answer, by="policy")
    return Verdict("ask", "the policy did not answer with a verdict", by=_UNTOLD)


def _named(by: str) -> str:
    return f"policy:{by}" if by else "policy"


def _name_of(drive: Drive, path: str) -> str:
    try:
        return drive.graph.agent_at[path].name
    except AgentMissing:  # of an agent that is gone only the path is known
        return path


async def _ask_in_line(drive: Drive, scope: FrameSettings, call: Call, tool: Tool) -> None:
    """Ask the tool's own `on_approval`; only a real True or False decides, all else leaves the call waiting.

    One that raises, or says what cannot count, is heard by nobody: people can still decide.
    """
    looked = call.terms is not None and call.terms.min_look is not None
    if looked or barred(call.terms, None, drive.log.run.requester):  # it takes people, and code is nobody in particular
        return
    try:
        made = await _said_in_line(drive, scope, call, tool)
    except Exception as error:
        _unheard(call, error)
        return
    if made is None:
        return
    try:
        await drive.commit(cm.Deliver([made.decision]))
    except (Expired, UserError) as error:  # it took longer than the request had, or somebody was faster
        _unheard(call, error)
        await drive.commit(cm.Tick())


def _unheard(call: Call, error: Exception) -> None:
    """Log why `on_approval` decided nothing, without the text of anybody else's error, which may quote arguments."""
    name = call.proposal.name
    logger.warning("on_approval of %r decided nothing, the call is pending: %s", name, error_words(error))


async def _said_in_line(drive: Drive, scope: FrameSettings, call: Call, tool: Tool) -> decisions.MadeDecision | None:
    assert tool.on_approval is not None
    item = approval_item(drive.log.run, call, drive.graph.agent_at[call.agent], tool)
    answer = await answer_of(tool.on_approval, scope.context, item)
    said = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    approve = said.get("approve")
    if approve is True and (call.by == "tool" or not tool.own_questions_only):
        return decisions.approve(item.request, drive.live.clock(), via="on_approval")
    if approve is False:
        reason = said.get("reason") or None
        return decisions.reject(item.request, drive.live.clock(), message=reason, via="on_approval")
    return None
