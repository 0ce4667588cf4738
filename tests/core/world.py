"""A world that answers every effect from content alone, so that neither order nor a crash can change what comes of it.

What a model, a policy, a person, a guardrail or a tool says depends on a seed and on what it was shown, never on when.
It keeps nothing: what there is to do is read off the run, as an engine would after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.digest import canonical, digest
from keyturn.core.effects import pending, sent_along
from keyturn.core.gate.words import in_two_steps
from keyturn.core.items import Item
from keyturn.core.people import Decider, Proof
from keyturn.core.policy import Verdict
from keyturn.core.preview import Preview, Text
from keyturn.core.run import Call, Frame, Run, call_digest, in_chain, terms_now
from keyturn.core.usage import Counts
from tests.core.samples import Pen, result, says, user

TURNS, DEPTH = 3, 2
PAIR = Approval(quorum=2, deny_quorum=2)
OTHERS = Approval(role="ops", not_requester=True, signed=True, expires="9w", on_expiry="ask_again")
CHANGED = "what was looked at has changed"

# The tools there are: how each is proposed, beside its name.
TOOLS: dict[str, dict[str, Any]] = {
    "free": {"gate": "allow"},
    "pure": {"gate": "allow", "recover": "retry"},
    "ask": {"gate": "ask"},
    "always": {"gate": "ask"},
    "pair": {"gate": "ask", "terms": PAIR},
    "others": {"gate": "ask", "terms": OTHERS, "recover": "probe"},
    "fixed": {"gate": "ask", "fixed": True, "elsewhere": True, "secrets": ("n",)},
    "screen": {"gate": ""},
    "looking": {"gate": ""},
    "question": {"gate": "allow"},
    "asking question": {"gate": "ask", "recover": "retry"},
    "inner question": {"gate": "allow"},
    "asking inner question": {"gate": "ask", "terms": OTHERS},
    "outer question": {"gate": "allow", "recover": "retry"},
    "bad": {},
    "agent": {"gate": "allow", "recover": "retry"},
    "asking agent": {"gate": "ask", "recover": "retry"},
    "handoff": {"gate": "allow", "recover": "retry", "last": True},
    "asking handoff": {"gate": "ask", "recover": "retry", "last": True},
}


class Act(NamedTuple):
    """One thing the world can do now: an effect, the end of a call that is at work, or a person's word."""

    do: str
    on: str


class World:
    """What answers, for one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def dice(self, *content: object) -> Random:
        """Chance that is the same for the same content."""
        return Random(digest(self.seed, *content))

    def begin(self) -> cm.Start:
        dice = self.dice("start")
        guarded, limit = dice.choice(("", "before", "beside")), dice.choice((1, 2, 9, None))
        prefix = dice.choice((None, "p"))
        return cm.Start(
            "run", "salt", "hi", {}, "a", [user(f"hi {self.seed}")], limit, guarded, prefix, requester="eve"
        )

    def acts(self, run: Run) -> list[Act]:
        """All that can be done now, in the order in which a careful world would do it."""
        acts = [Act(effect.do, effect.on) for effect in pending(run)]
        if run.status in ("finished", "cancelled"):
            return acts
        acts += [Act("finish", call.id) for call in run.groups["started"].values() if call.id not in run.frames]
        return acts + [Act("decide", call_id) for call_id in run.groups["wait"]]

    def commands(self, run: Run, act: Act) -> list[cm.RunCommand]:
        """What doing one thing reports back, all in one step."""
        return _DO[act.do](self, run, act.on)

    def guard(self, run: Run, frame_id: str) -> list[cm.RunCommand]:
        frame = run.frames[frame_id]
        # Beside the model it would be a race whether the model was asked at all.
        trips = frame_id != ev.ROOT and frame.guarding == "before" and self.dice("guard", frame.items[0]).random() < 0.2
        return [cm.GuardFrame(frame_id, [ev.Report("g", "input", trips)], len(frame.unseen))]

    def tripped(self, run: Run, frame_id: str) -> list[cm.RunCommand]:
        if frame_id == ev.ROOT:
            return [cm.Cancel(why="a guardrail said stop")]
        return [cm.CloseFrame(frame_id, "Tripped", result(run.calls[frame_id].proposal.label, "tripped"))]

    def exhausted(self, run: Run, frame_id: str) -> list[cm.RunCommand]:
        if frame_id == ev.ROOT:
            return [cm.Fail("MaxTurnsExceeded"), cm.Resume(run.turns + 5)]
        return [cm.CloseFrame(frame_id, "MaxTurns", result(run.calls[frame_id].proposal.label, "too long"))]

    def model(self, run: Run, frame_id: str) -> list[cm.RunCommand]:
        frame = run.frames[frame_id]
        if frame.phase == "calls":  # its provider runs them before it replies
            return [cm.StartCall(call.id, call.proposal.tool) for call in sent_along(run, frame)]
        dice = self.dice("model", frame.agent, frame.turn, frame.items)
        deep = frame_id.count("/")
        most = 0 if frame.turn >= TURNS - deep else 3
        kinds = [kind for kind in TOOLS if deep < DEPTH or "agent" not in kind]
        names = [dice.choice(kinds) for _ in range(dice.randint(0, most) or dice.randint(0, most))]
        made = [self.call(dice, name, place, names) for place, name in enumerate(names)]
        output = [raw for raw, _proposal in made] or [says(f"answer {dice.randrange(1000)}")]
        usage = Counts(1, dice.randrange(9), dice.randrange(9))
        judged = dice.random() < 0.2
        return [cm.RecordReply(frame_id, output, [proposal for _raw, proposal in made], usage, judged=judged)]

    def call(self, dice: Random, name: str, place: int, names: list[str]) -> tuple[Item, ev.Proposal]:
        label, arguments = f"c{place}", canonical({"n": dice.randrange(100)})
        raw = {"type": "function_call", "call_id": label, "name": name, "arguments": arguments}
        terms: dict[str, Any] = {"tool": f"tool:{name}", **TOOLS[name]}
        second = terms.get("last") and any("handoff" in other for other in names[:place])
        if name == "bad" or second:
            terms = {"refused": result(label, f"refused {arguments}")}
        elif dice.random() < 0.3:
            terms["args"] = canonical({"n": dice.randrange(100), "more": True})
        return raw, ev.Proposal("function", name, label, place, **terms)

    def screen(self, run: Run, call_id: str) -> list[cm.RunCommand]:
        call = run.calls[call_id]
        if call.recheck:
            return [cm.Screen(call_id, self.newest(call), on_decision=True)]
        if call.proposal.name == "looking":
            seen = "another" if call.voided == CHANGED else "one"
            return [cm.Screen(call_id, Verdict("ask"), preview=Preview((Text(seen),), basis={"it": seen}))]
        action = self.first(call)
        return [cm.Screen(call_id, Verdict(action, reason=f"{action} it"))]

    def first(self, call: Call) -> Any:
        """What the policy says of a call that it sees for the first time."""
        return self.dice("screen", call.text).choice(("allow", "ask", "deny"))

    def let(self, call: Call) -> bool:
        """Whether a call would run without a person's word, if its store had not been restored meanwhile."""
        return call.proposal.name == "always" or (call.proposal.name == "screen" and self.first(call) == "allow")

    def newest(self, call: Call) -> Verdict:
        """What the newest policy says of a person's word: nothing new of what needed none."""
        if self.let(call) or (call.approval is None and call.supplied is None):
            return Verdict("allow")
        return Verdict(self.dice("policy", call.text).choice(("allow", "ask", "deny")))

    def run(self, run: Run, call_id: str) -> list[cm.RunCommand]:
        call = run.calls[call_id]
        seen = call.preview is not None and call.preview.basis == {"it": "one"}
        if seen and self.dice("meanwhile", call.text).random() < 0.5:
            again = replace(call.proposal, args=call.text, edited=call.edited)
            return [cm.VoidCall(call_id, again, CHANGED)]
        return [cm.StartCall(call_id, run.calls[call_id].proposal.tool)]

    def finish(self, run: Run, call_id: str) -> list[cm.RunCommand]:
        call = run.calls[call_id]
        label, dice = call.proposal.label, self.dice("tool", call.proposal.name, call.text)
        if "agent" in call.proposal.name:
            guarded, limit = dice.choice(("", "before", "beside")), dice.choice((1, 9, None))
            return [cm.OpenFrame(call_id, f"{call.agent}/b", [user(self.output(call))], limit, guarded)]
        if "handoff" in call.proposal.name and run.frames[call.frame].open == 1:
            items = run.frames[call.frame].items
            view = dice.choice([None, [[0, len(items)], user("seen")], [[0, 1], user("filtered")]])
            return [cm.HandOff(call_id, result(label, "over"), f"{call.agent}+", view)]
        if "inner" in call.proposal.name and call.approval is None:
            return [cm.NeedInput(call_id, {"limit": 1}, wants="approval")]
        if "outer" in call.proposal.name:
            return [cm.NeedInput(call_id, {"job": dice.randrange(100)}, wants="result")]
        told = self.told(call)
        if "inner" not in call.proposal.name and "question" in call.proposal.name and len(told) < dice.randint(0, 3):
            return [cm.NeedInput(call_id, {"question": dice.randrange(100)}, told)]
        return [cm.FinishCall(call_id, result(label, self.output(call) + " ".join(told)), failed=dice.random() < 0.1)]

    def told(self, call: Call) -> list[str]:
        """What a tool that asks was answered so far."""
        if "question" not in call.proposal.name or call.need is None or call.supplied is None:
            return []
        return [*(call.need.state or []), str(call.supplied.output)]

    def output(self, call: Call) -> str:
        """What a tool gives for what it is given; also what a person finds out that it gave."""
        return f"{call.proposal.name} of {call.text}"

    def settle(self, run: Run, call_id: str) -> list[cm.RunCommand]:
        call = run.calls[call_id]
        told = {"denied": "denied", "rejected": "no"}.get(call.state)
        if told is None and call.decision is not None:
            told = str(call.decision.output)
        return [cm.FinishCall(call_id, result(call.proposal.label, told or "nothing"))]

    def judge(self, run: Run, frame_id: str) -> list[cm.RunCommand]:
        frame = run.frames[frame_id]
        dice = self.dice("judge", frame.items)
        if frame.results and dice.random() < 0.5:
            return [cm.JudgeFrame(frame_id, final=False)]
        answer = f"answer of {digest(frame.items)[:8]}"
        item = None if frame_id == ev.ROOT else result(run.calls[frame_id].proposal.label, answer)
        return [cm.JudgeFrame(frame_id, final=True, output=answer, item=item)]

    def decide(self, run: Run, call_id: str) -> list[cm.RunCommand]:
        call = run.calls[call_id]
        by = self.who(run, call)
        if by is None:  # whoever could decide this step voted in an earlier one: they take that back
            voter = call.met[-1].votes[-1].decider or Decider("")
            return [cm.Withdraw(call_id, replace(voter, strength="signed"), proof=Proof("ssh", voter.id, b"so"))]
        floor = None if call.terms is None else call.terms.min_look_ms
        if floor is not None and run.now - call.looks.get(by.id, run.now) < floor:
            return [cm.RecordLook(call_id, call_digest(run, call), by)]
        made = ev.Decision(
            call_id, "ran", call_digest(run, call), run.now, by, note="so", proof=Proof("ssh", by.id, b"so")
        )
        if call.state == "in_doubt":
            return [cm.Deliver([self.of_a_doubt(call, made)])]
        if call.need is not None and call.state == "needs":
            return self.answer(call, made)
        name, dice = call.proposal.name, self.dice("person", call.proposal.name, call.text)
        if name == "always":
            uses = dice.choice((None, 1, 2))
            terms = ev.GrantTerms(f"g {call_id}", call.agent, call.proposal.tool, uses=uses, decider=by)
            return [cm.Deliver([replace(made, verdict="approve")], [terms])]
        verdict = "approve" if self.let(call) else dice.choice(("approve", "edit", "reject", "answer"))
        if (verdict == "edit" and call.proposal.fixed) or (verdict == "answer" and call.proposal.elsewhere):
            verdict = "approve"
        words: dict[str, Any] = {}
        if verdict in ("edit", "answer") and (in_two_steps(call) or in_chain(call)):
            verdict = "approve"
        if verdict == "edit":
            words["args"] = canonical({"n": dice.randrange(100), "edited": True})
        if verdict == "answer":
            words["output"] = f"a person's {dice.randrange(100)}"
        return [cm.Deliver([replace(made, verdict=verdict, **words)])]

    def who(self, run: Run, call: Call) -> Decider | None:
        """Somebody who may decide this call and has not said anything of it yet; None where nobody is left."""
        terms = terms_now(run, call) or Approval()
        voters = [] if call.state == "needs" else [vote.decider for step in call.met for vote in step.votes]
        said = {*call.votes, *(name for who in voters if who is not None for name in (who.id, who.acting_for))}
        if terms.confirm:
            return None if run.requester in said else Decider(run.requester or "", (), "signed")
        names = (*terms.users, *(() if terms.users and terms.role is None else ("ada", "bob", "cyd", "dan", "fay")))
        others = [name for name in names if name not in said and (name != run.requester or call.met)]
        return Decider(others[0], () if terms.role is None else (terms.role,), "signed") if others else None

    def of_a_doubt(self, call: Call, made: ev.Decision) -> ev.Decision:
        """What a person finds out: it did what it does. What goes on by itself they let go on.

        A question whose answer the policy denies ends as it would without the doubt: denied.
        """
        if "question" in call.proposal.name and call.reason.startswith("the policy denies"):
            return replace(made, output="denied")
        goes_on = any(word in call.proposal.name for word in ("question", "agent", "handoff"))
        if not call.begun or (goes_on and not call.reason.startswith(("the policy denies", "it was not started"))):
            return replace(made, verdict="retry")
        return replace(made, output=self.output(call))

    def answer(self, call: Call, made: ev.Decision) -> list[cm.RunCommand]:
        """What a person says to a tool's question, or that they will not say it."""
        assert call.need is not None
        dice = self.dice("answer", call.text, call.need.requests, call.need.state)
        words = dice.choice(({"verdict": "answer", "output": f" {dice.randrange(100)}"}, {"verdict": "reject"}))
        return [cm.Deliver([replace(made, **words)])]


_DO: dict[str, Callable[[World, Run, str], list[cm.RunCommand]]] = {
    name: getattr(World, name)
    for name in ("guard", "tripped", "exhausted", "model", "screen", "run", "finish", "settle", "judge", "decide")
}


class Outcome(NamedTuple):
    """What a run came to, and nothing of how."""

    status: str
    output: Any
    agent: str
    usage: Counts
    turns: int
    items: list[Item | int]
    tape: list[str]


def outcome(run: Run) -> Outcome:
    root: Frame = run.frames[ev.ROOT]
    tape = sorted(canonical(item) for item in root.tape)
    return Outcome(run.status, run.output, run.last_agent, run.usage, run.turns, root.items, tape)


def crash(pen: Pen) -> None:
    """What a new holder of the run says first: of what was started and is at work no longer."""
    lost = [call.id for call in pen.run.groups["started"].values() if call.id not in pen.run.frames]
    pen(*(cm.LoseCall(call_id, "the process ended") for call_id in lost))


def restore(pen: Pen, why: str) -> None:
    """What is said of a run whose store was restored from a copy, and that somebody takes it up again."""
    if pen.run.status in ("running", "failed"):
        pen(cm.RecordRestore(why), cm.Resume())


def complete(pen: Pen, world: World, most: int = 600) -> Outcome:
    """Let the world do what is to be done, first things first, until the run is over."""
    for _ in range(most):
        if pen.run.status == "failed":
            pen(cm.Resume())
        acts = world.acts(pen.run)
        if not acts and pen.run.status in ("running", "failed") and not pen.root().barrier:
            pen(cm.CloseRun("bye", []))  # nothing is open, and its model says no more
        if not acts:
            break
        commands = world.commands(pen.run, acts[0])
        pen(*commands)
        if isinstance(commands[0], cm.RecordLook):  # and they read it
            pen(cm.SaveContext({"read until": pen.now + 30}), cm.Tick(), at=pen.now + 30)
    assert pen.run.status in ("finished", "cancelled"), f"{pen.run.status} after {len(pen.log)} steps, {pen.does()}"
    return outcome(pen.run)
