"""A run as the design documents tell it: plain dicts, every rule said once and slowly, nothing shared with the code.

`do` answers whether a command is accepted. What it refuses leaves it as it was, because it works on a copy.
"""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.digest import canonical, digest, same
from keyturn.core.durations import milliseconds
from keyturn.core.usage import Counts
from tests.core.reference_rules import (
    MOST,
    Refused,
    alike,
    chain,
    counts,
    fits,
    glass,
    is_json,
    is_text,
    is_value,
    need,
    steps,
    twofold,
    word_of,
)
from tests.core.reference_seen import DEAD, READY
from tests.core.reference_time import Time

WAITS = ("asked", "in_doubt", "needs")
MAY = {"asked": "approve edit reject answer", "in_doubt": "ran did_not_run retry", "needs": "answer reject"}
DONE = ("finished", "failed")
AFTER = {"approve": "approved", "edit": "edited", "reject": "rejected", "answer": "answered", "retry": "approved"}
NOBODY = ("grant", "clock", "probe")
_WORDS = re.compile("(?<!^)(?=[A-Z])")


class Reference(Time):
    """What is true of a run, by the book."""

    def __init__(self) -> None:
        super().__init__()
        self.status, self.now, self.waits, self.told = "new", 0, 0, None
        self.frames: dict[str, Any] = {}
        self.calls: dict[str, Any] = {}
        self.decided: dict[str, Any] = {}
        self.grants: dict[str, Any] = {}
        self.usage = [0] * 7

    def do(self, command: cm.RunCommand, now: int) -> bool:
        before = pickle.dumps(vars(self))
        try:
            self.now = now
            need(self.status != "new" or isinstance(command, (cm.Start, cm.Queue)))
            getattr(self, _WORDS.sub("_", type(command).__name__).lower())(command)
        except Refused:
            vars(self).update(pickle.loads(before))
            return False
        return True

    # The run ---------------------------------------------------------------------------------------------------------

    def alive(self) -> None:
        need(self.status in ("running", "failed"))

    def start(self, c: cm.Start) -> None:
        need(self.status == "new")
        self.status, self.id, self.requester, self.salt = "running", c.run, c.requester, c.salt
        self.open_agent("r", c)
        self.frames["r"]["barrier"] = c.barrier

    def open_agent(self, name: str, c: Any) -> None:
        self.frames[name] = {
            "agent": c.agent, "items": list(c.items), "limit": c.max_turns, "guard": c.guarded, "tripped": False,
            "guards": c.guarded, "unseen": 0,
            "turn": 0, "then": "model", "calls": [], "queued": [], "called": False, "unread": False,
            "barrier": True,
        }  # fmt: skip

    def fail(self, c: cm.Fail) -> None:
        if self.status == "running":
            self.status = "failed"

    def record_restore(self, c: cm.RecordRestore) -> None:
        if self.status not in ("running", "failed"):
            return
        waits = self.waiting()
        doubtful = [call for call in self.calls.values() if self.may_have_run(call)]
        heard = any(call["votes"] or call["met"] or call["withdrawn"] for call in waits)
        if self.told == c.why and not doubtful and not heard:
            return  # it was told, and nothing was said or let run since
        for call in doubtful:
            if call["state"] == "proposed":
                self.void(call, call["proposal"])
            else:
                self.doubt(call)
        for call in waits:
            self.from_first(call)
            self.ask_again(call)
        for call in self.waiting():
            call["revoked"] = True
        self.status, self.told = "failed", c.why

    def may_have_run(self, call: Any) -> bool:
        """Whether a call may have run after a copy of its store was made, by all that the copy says."""
        unjudged = call["state"] == "proposed" and not call["voided"]
        return unjudged or (call["state"] in (*READY, "started") and call["id"] not in self.frames)

    def cancel(self, c: cm.Cancel) -> None:
        self.alive()
        self.status = "cancelled"

    def save_context(self, c: cm.SaveContext) -> None:
        """It is data of the caller."""

    def wrote_session(self, c: cm.WroteSession) -> None:
        need(c.frame in self.frames)

    # Frames ----------------------------------------------------------------------------------------------------------

    def open(self, name: str) -> list[Any]:
        return [self.calls[call] for call in self.frames[name]["calls"] if self.calls[call]["state"] not in DONE]

    def asks(self, name: str, what: str) -> bool:
        """Whether a frame waits for this: its model, or a judgement of what was said and done."""
        return name in self.frames and self.frames[name]["then"] == what and not self.held(name)

    def sends(self, name: str) -> bool:
        """Whether a frame's model is asked next with calls that its provider runs."""
        rides = [call["proposal"].by_provider and call["state"] in READY for call in self.open(name)]
        return bool(rides) and all(rides) and all(self.may_run(call) for call in self.open(name))

    def held(self, name: str) -> bool:
        """Whether a frame waits for its calls: only where there is a barrier."""
        return bool(self.frames[name]["barrier"] and self.open(name))

    def open_frame(self, c: cm.OpenFrame) -> None:
        self.alive()
        self.call(c.call, "started")
        need(c.call not in self.frames)
        self.open_agent(c.call, c)

    def refuse_reply(self, c: cm.RefuseReply) -> None:
        self.alive()
        self.count(c.usage)

    def count(self, usage: Counts) -> None:
        need(all(type(count) is int and 0 <= count <= MOST for count in counts(usage)))
        self.usage = [sum(pair) for pair in zip(self.usage, counts(usage), strict=True)]

    def add_input(self, c: cm.AddInput) -> None:
        self.alive()
        need(c.frame in self.frames)
        frame = self.frames[c.frame]
        if frame["guards"] and frame["barrier"]:
            frame["unseen"] += len(c.items)
            frame["guard"] = frame["guard"] or {"before": "ahead", "beside": "along"}[frame["guards"]]
        frame["queued" if self.held(c.frame) else "items"] += c.items
        frame["unread"] = True
        if not self.held(c.frame) and not frame["called"]:
            frame["then"] = "model"  # an answer that nobody took yet is answered, not judged

    def record_reply(self, c: cm.RecordReply) -> None:
        self.alive()
        need(self.asks(c.frame, "model") and self.frames[c.frame]["guard"] != "before")
        need(c.agent in (None, self.frames[c.frame]["agent"]))
        labels = [proposal.label for proposal in c.proposals]
        need(len(set(labels)) == len(labels) and all(labels))
        need(
            all(p.refused or is_json(c.output[p.item]["arguments"] if p.args is None else p.args) for p in c.proposals)
        )
        self.count(c.usage)
        frame = self.frames[c.frame]
        frame["turn"] += 1
        frame["items"] += c.output
        frame["then"] = "judge" if frame["barrier"] and (c.judged or not c.proposals) else "model"
        frame |= {"called": bool(c.proposals), "unread": False}
        made = [f"{c.frame}/{frame['turn']}.{place}" for place in range(len(c.proposals))]
        for place, proposal in enumerate(c.proposals):
            name = made[place]
            frame["calls"].append(name)
            call = {
                "id": name,
                "frame": c.frame,
                "agent": frame["agent"],
                "raw": c.output[proposal.item],
                "times": 0,
            }
            call |= {"state": "proposed", "item": None, "voided": False, "rounds": 0, "opened": 0, "let": None}
            self.calls[name] = call | {"warned": False, "since": 0, "acted": False, "doubted": False}
            self.propose(self.calls[name], proposal)
        for call in [self.calls[name] for name in made]:
            self.enter(call)

    def judge_frame(self, c: cm.JudgeFrame) -> None:
        self.alive()
        need(self.asks(c.frame, "judge"))
        frame = self.frames[c.frame]
        need(not frame["guard"] and not frame["tripped"])
        need(not c.final or (c.item is None) == (c.frame == "r"))
        if any(report.tripped for report in c.reports):
            frame["tripped"] = True
        elif c.final and not frame["unread"]:
            self.close(c.frame, c.item, "finished")
        else:
            frame["then"] = "model"

    def close_frame(self, c: cm.CloseFrame) -> None:
        self.alive()
        if c.frame in self.frames and c.frame != "r":
            below = [name for name in self.calls if name.startswith(c.frame + "/") and name not in self.frames]
            need(all(self.calls[name]["state"] not in ("started", "in_doubt") for name in below))
            self.close(c.frame, c.item, "failed")

    def close_run(self, c: cm.CloseRun) -> None:
        self.alive()
        need("r" in self.frames)
        root = self.frames["r"]
        need(not self.open("r") and not root["guard"] and not root["tripped"])
        if any(report.tripped for report in c.reports):
            root["tripped"] = True
        else:
            root["items"] += c.items
            self.close("r", None, "finished")

    def close(self, name: str, item: Any, state: str) -> None:
        inside = name + "/"
        self.calls = {call: value for call, value in self.calls.items() if not call.startswith(inside)}
        self.frames = {frame: value for frame, value in self.frames.items() if not frame.startswith(inside)}
        if name == "r":
            self.status = "finished"
        else:
            del self.frames[name]
            self.settle(self.calls[name], item, state)

    # Calls -----------------------------------------------------------------------------------------------------------

    def call(self, name: str, *states: str) -> Any:
        need(name in self.calls and self.calls[name]["state"] in states)
        return self.calls[name]

    def propose(self, call: Any, proposal: Any) -> None:
        args = call["raw"]["arguments"] if proposal.args is None else proposal.args
        call |= {"proposal": proposal, "args": args, "decision": None, "votes": {}, "terms": None, "recheck": False}
        call |= {"basis": None, "asks": None, "warned": False, "let": None, "revoked": False, "marks": {}}
        call |= {"granted": None, "granted_at": 0, "sure": None, "approved": False, "met": [], "withdrawn": []}

    def enter(self, call: Any) -> None:
        """What a call is as soon as it is proposed."""
        proposal = call["proposal"]
        if proposal.refused is not None:
            self.settle(call, proposal.refused, "failed")
        elif proposal.gate == "ask" or (proposal.gate == "allow" and call["voided"]):
            self.ask(call, proposal.terms)
        elif proposal.gate == "allow" and not self.rejected(call):
            call["state"] = "allowed"

    def rejected(self, call: Any) -> bool:
        """Whether a standing rejection is about a call's tool: then nothing is allowed unseen."""
        about = [grant["terms"] for grant in self.grants.values() if not grant["revoked"]]
        what = (call["agent"], call["proposal"].tool)
        return any((terms.agent, terms.tool) == what and terms.verdict == "reject" for terms in about)

    def settle(self, call: Any, item: Any, state: str) -> None:
        call |= {"state": state, "item": item}
        frame = self.frames[call["frame"]]
        if not frame["barrier"]:
            frame["items"].append(self.calls.pop(call["id"])["item"])
            frame["calls"].remove(call["id"])
        elif not self.open(call["frame"]):
            frame["items"] += [self.calls.pop(name)["item"] for name in frame["calls"]] + frame["queued"]
            frame |= {"calls": [], "queued": []}

    def screen(self, c: cm.Screen) -> None:
        call = self.calls.get(c.call)
        recheck = call is not None and call["recheck"] and call["state"] in READY
        if call is None or self.status in ("finished", "cancelled"):
            return
        if recheck != c.on_decision or not (recheck or call["state"] == "proposed"):
            return  # it was said of something else
        need(c.preview is None or is_value(c.preview.basis))
        if recheck:
            if c.verdict.action == "deny" and call["acted"] and call["state"] != "supplied":
                self.doubt(call)
                return
            call |= {"recheck": False} | ({"state": "denied"} if c.verdict.action == "deny" else {})
            if c.verdict.action == "ask" and not self.meets(call, c.verdict.terms):
                self.take_back(call, c.verdict.terms)
        elif c.verdict.action == "deny":
            call["state"] = "denied"
        elif c.verdict.action == "allow" and not self.never_again(call, c.verdict.terms):
            call |= {"state": "allowed", "terms": c.verdict.terms}
            self.sample(call, c.verdict.review)
        else:
            self.ask(call, c.verdict.terms, c.preview, c.verdict.review)

    def meets(self, call: Any, terms: Any) -> bool:
        """Whether those who decided a call could have done so on other terms."""
        made = call["let"] if call["decision"].via == "probe" else call["decision"]
        if made is None:
            return False
        if terms is None or terms == self.stated(call):
            return True
        if made.broke_glass:
            if not self.read(call, terms, made, made.at):
                return False
            return terms.break_glass is not None and fits(glass(terms), made.decider, made.proof, self.requester)
        return self.meet_all(call, made, terms)

    def take_back(self, call: Any, terms: Any) -> None:
        """Let a call run no more: people are asked again, and what was started before is not forgotten."""
        if call["acted"]:
            self.doubt(call)
            if terms is not None and terms != call["terms"]:
                call |= {"terms": terms, "met": []}
                self.ask_again(call)
            return
        args, looked = call["args"], call["basis"] is not None
        self.void(call, call["proposal"])
        call["args"] = args
        if not looked:  # else it is looked at again first
            self.ask(call, terms)

    def never_again(self, call: Any, terms: Any) -> bool:
        call["terms"] = terms
        return call["voided"] or [grant["terms"].verdict for grant in self.covering(call)][-1:] == ["reject"]

    def ask(self, call: Any, terms: Any, preview: Any = None, share: float = 0) -> None:
        since = self.begins(call, terms)
        call |= {"terms": terms, "share": share, "met": []}
        covering = [] if call["voided"] else self.covering(call)
        if covering and covering[-1]["terms"].verdict == "approve":
            covering[-1]["uses"] += 1
            call |= {"state": "allowed", "granted": covering[-1]["terms"].id, "granted_at": self.now}
            self.sample(call, max(share, covering[-1]["terms"].review), covering[-1]["terms"].decider)
            return
        self.waits += 1
        call |= {"state": "asked", "since": since, "order": self.waits, "voided": False, "votes": {}}
        call["basis"] = preview.basis if preview is not None else None
        if covering:
            self.decide_by(covering[-1], call)

    def doubt(self, call: Any) -> None:
        self.waits += 1
        self.from_first(call)
        call["revoked"] |= call["state"] != "started"
        call |= {"state": "in_doubt", "order": self.waits, "times": call["times"] + 1, "votes": {}, "recheck": False}
        call |= {"since": self.now, "marks": {}, "sure": None, "doubted": True, "withdrawn": []}

    def start_call(self, c: cm.StartCall) -> None:
        need(self.status == "running")
        call = self.call(c.call, *READY)
        need(not call["recheck"] and not self.stale(call) and c.tool == call["proposal"].tool)
        need(self.may_run(call))
        call |= {"state": "started", "acted": call["acted"] or call["proposal"].recover != "retry"}

    def finish_call(self, c: cm.FinishCall) -> None:
        call = self.call(c.call, "started", *DEAD, *(READY if c.failed else ()))
        need(call["state"] == "started" or self.status in ("running", "failed"))
        need(c.call not in self.frames)
        if call["state"] in READY and call["acted"] and call["state"] != "supplied":
            self.doubt(call)
            return
        self.settle(call, c.item, "failed" if c.failed and call["state"] not in DEAD else "finished")

    def lose_call(self, c: cm.LoseCall) -> None:
        call = self.call(c.call, "started")
        if c.call not in self.frames:
            made = call["proposal"]
            if (c.again and made.recover == "retry") or (c.unsent and made.by_provider):
                call |= {"state": "allowed", "acted": call["doubted"] if made.by_provider else call["acted"]}
            else:
                self.doubt(call)

    def hand_off(self, c: cm.HandOff) -> None:
        self.alive()
        call = self.call(c.call, "started")
        frame, queued = self.frames[call["frame"]], list(self.frames[call["frame"]]["queued"])
        need(c.call not in self.frames and (not frame["barrier"] or len(self.open(call["frame"])) == 1))
        self.settle(call, c.item, "finished")
        if c.view is not None:
            parts = [frame["items"][part[0] : part[1]] if isinstance(part, list) else [part] for part in c.view]
            frame["items"] = [item for part in parts for item in part] + queued
        frame |= {"agent": c.agent, "then": "model"}

    def void_call(self, c: cm.VoidCall) -> None:
        self.alive()
        call = self.call(c.call, "asked", *READY)
        need(c.proposal.label == call["proposal"].label)
        need(c.proposal.refused or is_json(call["raw"]["arguments"] if c.proposal.args is None else c.proposal.args))
        if call["acted"]:
            self.doubt(call)
            return
        self.void(call, c.proposal)
        self.enter(call)

    def void(self, call: Any, proposal: Any) -> None:
        self.decided.pop(call["id"], None)
        self.propose(call, proposal)
        call |= {"state": "proposed", "voided": True, "times": call["times"] + 1}

    # Deciding --------------------------------------------------------------------------------------------------------

    def waiting(self) -> list[Any]:
        waits = [call for call in self.calls.values() if call["state"] in WAITS]
        return sorted(waits, key=lambda call: call["order"])

    def shown(self, call: Any) -> str:
        args = canonical(json.loads(call["args"] or "{}"))
        seen = [canonical(more) for more in (call["basis"], call["times"], call["asks"]) if more]
        return digest(self.id, call["id"], call["agent"], call["proposal"].tool, args, *seen)

    def needed(self, call: Any, verdict: str) -> int:
        terms = self.asked_now(call)
        if call["state"] == "needs" or verdict in ("ran", "did_not_run"):
            return 1
        return 1 if terms is None else terms.deny_quorum if verdict == "reject" else terms.quorum

    def deliver(self, c: cm.Deliver) -> None:
        given: list[Any] = []
        for made in c.decisions:
            if not self.repeats(made):
                self.check(made)
                need(all(alike(other, made) for other in given if other.call == made.call))
                given.append(made)
        asked: dict[str, Any] = {}
        for grant in c.grants:
            self.alive()
            if grant.id not in self.grants:
                beside = self.beside(grant, c.decisions)
                fresh = [made for made in beside if not self.repeats(made)]
                need(fresh or grant.decider in [self.decided[made.call].decider for made in beside])
                asked[grant.id] = self.calls[beside[0].call]["terms"]
        for made in given:
            overtaken = self.calls[made.call]["met"] and made.digest != self.shown(self.calls[made.call])
            if not overtaken and not self.repeats(made):  # else another of them met its step
                self.vote(self.calls[made.call], made)
        for terms in c.grants:
            if terms.id not in self.grants:
                grant = {"terms": terms, "uses": 0, "revoked": False, "asked": asked[terms.id]}
                self.grants[terms.id] = grant
                for call in self.waiting():
                    if call["state"] == "asked" and not self.late(call) and self.covers(grant, call):
                        self.decide_by(grant, call)

    def repeats(self, made: Any) -> bool:
        before, call = self.decided.get(made.call), self.calls.get(made.call)
        met: list[Any] = [] if call is None else [vote for step in call["met"] for vote in step["votes"]]
        met += [call["sure"]] if call is not None and call["state"] == "asked" and self.sure(call) else []
        if any(self.very(vote, made) for vote in met):
            return True
        waits = call is not None and call["state"] in WAITS
        return before is not None and alike(before, made) and (not waits or self.very(before, made))

    def very(self, one: Any, other: Any) -> bool:
        return alike(one, other) and (one.decider, one.via) == (other.decider, other.via)

    def check(self, made: Any) -> None:
        self.alive()
        need(made.call not in self.decided or self.decided[made.call].verdict != "expire")
        call = self.call(made.call, *WAITS)
        asked, proposal = call["state"] == "asked", call["proposal"]
        need(made.verdict in MAY[call["state"]].split())
        need(made.digest == self.shown(call))
        need(
            (made.verdict == "edit") == (made.args is not None)
            and (made.args is None or (made.args and is_json(made.args)))
        )
        need(is_value(made.output) and all(text is None or is_text(text) for text in (made.note, made.message)))
        need(not asked or not self.late(call))
        need(self.may(call, made) and self.in_its_way(call, made))
        need(made.verdict != "edit" or not proposal.fixed)
        need(made.verdict != "answer" or not asked or not proposal.elsewhere)
        reason = call["terms"].reason if call["terms"] and asked else "optional"
        wanted = reason == "required" or (reason == "on_reject" and made.verdict == "reject")
        need(not wanted or made.note or made.message)

    def may(self, call: Any, made: Any) -> bool:
        """Whether somebody may say a word on a call: a person, or what is no person, and not both."""
        if made.grant is not None or (made.via != "person" and made.decider is not None):
            return False
        if made.via == "probe" and call["state"] == "in_doubt" and call["proposal"].recover == "probe":
            return made.verdict != "retry" or not call["revoked"]
        if made.broke_glass and (call["terms"] is None or call["terms"].break_glass is None):
            return False
        terms = glass(call["terms"]) if made.broke_glass else self.asked_now(call)
        if self.spoke(call, made) or not self.is_fresh(call, made):
            return False
        read = self.read(call, terms, made, min(made.at or self.now, self.now))
        return made.via not in NOBODY and fits(terms, made.decider, made.proof, self.requester) and read

    def agreeing(self, call: Any, made: Any) -> list[Any]:
        """The votes for the same, that have not gone stale."""
        limit = call["terms"].execute_by if call["terms"] else None
        last = milliseconds(limit) if limit else MOST
        return [
            vote for vote in call["votes"].values()
            if vote.verdict == made.verdict
            and self.now <= vote.at + last
            and (made.verdict == "reject" or (vote.args, vote.basis) == (made.args, made.basis))
            and (made.verdict == "reject" or same(vote.output, made.output))
        ]  # fmt: skip

    def vote(self, call: Any, made: Any) -> None:
        made = replace(made, at=min(made.at or self.now, self.now))  # when it was said, and never of the future
        if twofold(call["terms"]) and not self.sure(call) and made.verdict == "approve" and not made.broke_glass:
            call["sure"] = made
            return
        most = 1 if made.via == "probe" or made.broke_glass else self.needed(call, made.verdict)
        if most > 1:
            others = [vote.decider for vote in self.agreeing(call, made) if vote.decider.id != made.decider.id]
            if len({word_of(who) for who in [*others, made.decider]}) < most:
                before = next((vote for vote in self.agreeing(call, made) if vote.decider == made.decider), None)
                if before is None or not alike(before, made) or before.basis != made.basis:
                    call["votes"][made.decider.id] = made
                return
        together = made.via != "probe" and not made.broke_glass and call["state"] != "needs"
        if self.left(call) and made.verdict in ("approve", "retry") and together:
            self.step_is_met(call, made)
            return
        self.decide(call, made)

    def decide(self, call: Any, made: Any) -> None:
        made = replace(made, at=made.at or self.now)
        self.decided[call["id"]] = made
        if made.verdict in ("approve", "edit", "retry") and made.via != "probe" and call["state"] != "needs":
            call |= {"let": made, "revoked": False}
        elif made.verdict == "retry":
            call |= {"acted": False, "doubted": False}
        call["approved"] |= made.verdict in ("approve", "edit")
        for_its_tool = call["state"] == "needs" and call["wants"] == "answer"
        recheck = for_its_tool or made.verdict in ("approve", "edit", "retry")
        state = "supplied" if for_its_tool else AFTER.get(made.verdict, made.verdict)
        args = call["args"] if made.args is None else made.args
        call |= {"state": state, "decision": made, "args": args, "recheck": recheck}
        if made.broke_glass:
            self.ask_others(call, made.decider)

    # Grants -------------------------------------------------------------------------------------------------

    def covers(self, grant: Any, call: Any) -> bool:
        terms, params = grant["terms"], json.loads(call["args"] or "{}")
        where: dict[str, Any] = terms.where or {}
        every = chain(call["terms"]) or [None]
        sure = call["sure"] and self.sure(call)
        due = [steps(each)[-1 if sure else 0] for each in every
               if each is None or self.several(each, terms.verdict) == 1]  # fmt: skip
        return (
            not grant["revoked"]
            and (terms.agent, terms.tool) == (call["agent"], call["proposal"].tool)
            and terms.call in (None, call["id"])
            and (terms.uses is None or grant["uses"] < terms.uses)
            and (terms.expires_at is None or self.now < terms.expires_at)
            and all(self.within(params, name, most, terms) for name, most in where.items())
            and (
                terms.verdict == "reject"
                or not (twofold(call["terms"]) or (call["terms"] and call["terms"].min_look) or call["met"])
            )
            and (terms.verdict == "reject" or len(every) == 1)
            and any(fits(each, terms.decider, None, self.requester) for each in due)
        )

    def within(self, params: Any, name: str, most: Any, terms: Any) -> bool:
        """Whether arguments are those of a grant; "never again" holds where nobody can tell, too."""
        return params[name] <= most["le"] if name in params else terms.verdict == "reject"

    def beside(self, grant: Any, decisions: list[Any]) -> list[Any]:
        """The words of its giver on calls like those a standing decision is about, with which it comes."""
        need(grant.verdict in ("approve", "reject"))
        need(grant.call is None and (grant.verdict == "approve" or not grant.reach))
        beside: list[Any] = []
        for made in decisions:
            call = self.calls.get(made.call)
            if call is not None and (call["agent"], call["proposal"].tool) == (grant.agent, grant.tool):
                both = twofold(call["terms"]) and made.verdict != "reject"
                most = 1 if call["terms"] is None else self.several(call["terms"], made.verdict)
                need(call["state"] != "asked" or (most == 1 and not both and not made.broke_glass))
                need(made.verdict == "reject" or not self.of_several(call))
                looks = call["terms"] is not None and call["terms"].min_look and made.verdict != "reject"
                need(call["state"] != "asked" or not looks)
                alike_ = (made.verdict == "reject") == (grant.verdict == "reject")
                if alike_ and made.via not in NOBODY and made.decider == grant.decider:
                    beside.append(made)
        return beside

    def decide_by(self, grant: Any, call: Any) -> None:
        terms = grant["terms"]
        grant["uses"] += 1
        self.decide(call, cm.Decision(call["id"], terms.verdict, self.shown(call), via="grant", grant=terms.id))
        if terms.verdict == "approve":
            self.sample(call, max(terms.review, call.get("share", 0)), terms.decider)
