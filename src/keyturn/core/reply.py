"""Apply a model's reply to a run: propose its calls, or refuse the whole of it, and count its usage.

A reply is taken whole or not at all. What becomes of its calls is in `gate.py`.
"""

from __future__ import annotations

from msgspec.structs import replace

from . import commands as cm
from . import events as ev
from .call_ids import call_id
from .errors import Conflict, ModelBehaviorError, UserError
from .gate.lending import is_about
from .gate.opening import Events, open_run
from .gate.verdicts import screened
from .items import Item
from .policy import Verdict
from .run import Frame, Run
from .states import OVER
from .strict import parse
from .usage import Counts, addable


def record_reply(run: Run, c: cm.RecordReply) -> Events:
    """Record a model's reply; the calls that are known to ask do so at once."""
    frame = run.frames.get(c.frame)
    asked = frame is not None and frame.phase == "model" and frame.guarding != "before" and run.status not in OVER
    if frame is None or not asked or c.turn not in (None, frame.turn) or c.agent not in (None, frame.agent):
        raise Conflict("this reply answers a question that is not asked, or no longer")
    labels = {proposal.label for proposal in c.proposals}
    if len(labels) != len(c.proposals) or "" in labels:
        raise ModelBehaviorError("the model's reply has calls without an id of their own")
    check_usage(c.usage)
    for proposal in c.proposals:
        if not 0 <= proposal.item < len(c.output):
            raise ModelBehaviorError("the model's reply has no item for one of its calls")
        check_proposal(proposal, c.output[proposal.item])
    made = keyed(run, _screen_the_rejected(run, frame, c.proposals) if run.grants else c.proposals)
    heard = None if c.heard is None or c.heard >= len(frame.items) else max(c.heard, 0)
    about = c.usage, c.response_id, c.request_id, c.tools, c.judged, c.model, heard
    yield ev.ReplyRecorded(c.frame, c.output, made, *about)
    for index, proposal in enumerate(made):  # without a barrier, calls of earlier replies may be open: they are left
        call = run.calls.get(call_id(frame.id, frame.turn, index)) if proposal.gate == "ask" else None
        if call is not None and call.state == "proposed":
            yield from screened(run, call, Verdict("ask", terms=proposal.terms, by="tool"))


def refuse_reply(run: Run, c: cm.RefuseReply) -> Events:
    """Count the usage of a reply of which nothing else can be recorded."""
    open_run(run)
    check_usage(c.usage)
    yield ev.ReplyRefused(c.frame, c.usage, c.model)


def check_usage(usage: Counts) -> None:
    """Refuse a usage that cannot be added."""
    if not addable(usage):
        raise ModelBehaviorError("the model's reply counts a usage that cannot be added")


def _screen_the_rejected(run: Run, frame: Frame, proposals: list[ev.Proposal]) -> list[ev.Proposal]:
    """Screen the calls of a tool that a standing rejection is about, and not allow them at once."""
    never = [grant for grant in run.grants.values() if grant.verdict == "reject"]
    return [
        replace(made, gate="")
        if made.gate == "allow" and any(is_about(run, grant, frame.agent, made) for grant in never)
        else made
        for made in proposals
    ]


def keyed(run: Run, proposals: list[ev.Proposal]) -> list[ev.Proposal]:
    """Give all calls with secrets the key of the first one in the run: equal calls of one run have equal shapes."""
    key = run.key
    for made in proposals:
        key = key or made.key
    if not key:
        return proposals
    return [replace(made, key=key) if made.key and made.key != key else made for made in proposals]


def check_proposal(proposal: ev.Proposal, raw: Item) -> None:
    """Check that what may come to run is frozen text and strict JSON."""
    if proposal.refused is None:
        text = raw.get("arguments") if proposal.args is None else proposal.args
        if not isinstance(text, str):
            raise UserError("a call is proposed with the text of what will run")
        parse(text or "{}")
