"""The laws of the core, whatever comes: any command in any place, any order of doing things, a crash at any commit.

`Commands` sends what could be sent, right and wrong, and holds the run against the reference and the auditor.
`Schedules` lets a world that answers from content alone do things in any order, with crashes, and always ends alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import astuple, replace

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import Log, decode, encode
from keyturn.core.effects import pending
from keyturn.core.errors import KeyturnError
from keyturn.core.gate.reviews import review_digest
from keyturn.core.people import Proof
from keyturn.core.policy import Verdict
from keyturn.core.preview import Preview, Text
from keyturn.core.run import Run, call_digest, copy_run
from keyturn.core.usage import Counts
from tests.core.auditor import Auditor
from tests.core.drawn import OPS, PEOPLE, TERMS
from tests.core.reference_kinds import AnyRun
from tests.core.run_views import assert_goes_on, over, view
from tests.core.samples import Pen, everything, grant, person, reply, result, says, start, tool, user
from tests.core.world import World, complete, crash, outcome, restore
from tests.effort import some

SWEEPING = settings.get_current_profile_name() == "sweep"


def budget(examples: int, steps: int) -> settings:
    """So many runs of so many steps in `make test`; in a sweep as many as were asked for."""
    return settings(max_examples=settings().max_examples if SWEEPING else some(examples), stateful_step_count=steps)


# What commands are made of. Small worlds: what matters is what meets what.

Draw = Callable[[Any], Any]
Maker = Callable[[Any, Draw, str], cm.RunCommand]
GUARDED = st.sampled_from(["", "", "", "before", "beside"])
LIMIT = st.sampled_from([None, None, 1, 3])
ARGS = st.sampled_from([None, '{"n":1}', '{"n":2}', '{ "n": 2 }', "{", ""])
GATE = st.sampled_from(["allow", "ask", "ask", ""])
RECOVER = st.sampled_from(["ask", "ask", "retry", "probe"])
VIA = st.sampled_from(["person"] * 20 + ["on_approval", "probe", "probe", "grant", "clock"])
PROOF = st.sampled_from([Proof("ssh", "k", b"x")] * 5 + [None])
NOTES = st.sampled_from([None, "so", "so", "so", "so", "so", "so", "so", "\ud800"])
SURE = st.sampled_from([True] * 7 + [False])
RARELY = SURE.map(lambda sure: not sure)
LATER = st.sampled_from([0, 0, 0, 1, 30, 100])
REPORTS = st.sampled_from([[], [], [ev.Report("g", "x")], [ev.Report("g", "x"), ev.Report("h", "x", tripped=True)]])
WORDS = {
    "in_doubt": ["ran", "did_not_run", "retry", "retry"],
    "asked": ["approve"] * 3 + ["edit"] * 2 + ["reject", "answer"],
    "needs": ["answer"] * 3 + ["reject"],
}
SHARE = st.sampled_from([0, 0, 0, 0.5, 1])
LOOKS = st.sampled_from([None, {}, {"a": "1"}, {"a": "2"}, {"a": "\ud800"}])
USAGE = st.sampled_from([Counts(1, 7, 3), Counts(0, 7), Counts(), Counts(2, 1, 1, 1, 1, 1, 1), Counts(1, -1)])
WANTS = st.sampled_from(["answer", "answer", "result", "approval", "approval"])
QUESTIONS = st.sampled_from([{"q": 1}, {"q": 1}, "which?", None, "\udc00"])


@st.composite
def proposals(draw: st.DrawFn) -> list[Any]:
    """A few calls, as a model might make them and a tool might take them."""
    made: list[Any] = []
    for place in range(draw(st.sampled_from([1, 2, 2, 3, 3, 0]))):
        label = draw(st.sampled_from([f"c{place}"] * 15 + ["c0", ""]))
        settings_: dict[str, Any] = {
            "tool": draw(st.sampled_from(["t1", "t1", "t2"])),
            "terms": draw(TERMS),
            "recover": draw(RECOVER),
            "last": draw(RARELY),
            "fixed": draw(RARELY),
            "elsewhere": draw(RARELY),
            "by_provider": draw(RARELY),
            "args": draw(st.none() | st.sampled_from(['{"n":1}', '{"n":3,"m":1}'])),
        }
        arguments = draw(st.sampled_from(['{"n":1}', '{"n":2}', '{"n":3}'] * 5 + ["{", ""]))
        if draw(RARELY):
            settings_["refused"] = result(label, "refused")
        made.append(tool(label, draw(GATE), arguments, **settings_))
    return made


class Commands(RuleBasedStateMachine):
    """Any command in any place, beside the reference: some that fit, in any order, and some that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.pen, self.reference, self.auditor = Pen(), AnyRun(), Auditor()
        self.said: list[ev.Decision] = []
        self.turns = 0

    @property
    def run(self) -> Run:
        return self.pen.run

    def do(self, command: cm.RunCommand, later: int = 0) -> None:
        """Send a command to both: they agree, what was refused changed nothing, and what happened keeps the laws."""
        before, now = everything(self.run), self.pen.now + later
        usage, length, other = astuple(self.run.usage), len(self.pen.log), copy_run(self.run)
        expected = self.reference.do(command, now)
        try:
            self.pen(command, at=now)
            accepted = True
        except KeyturnError:
            accepted = False
        assert accepted == expected, f"accepted: {accepted}, should be: {expected}; {command}"
        assert accepted or everything(self.run) == before
        assert everything(other) == before, "a twin is not moved with it"
        assert all(now_ >= then for now_, then in zip(astuple(self.run.usage), usage, strict=True))
        assert self.run.turns >= self.turns
        self.turns = self.run.turns
        self.auditor.read(self.pen.log.steps[length:])
        self.check()

    def check(self) -> None:
        assert view(self.run) == self.reference.view()
        assert len(pending(self.run)) == len(set(pending(self.run)))
        assert set(pending(self.run)) == self.reference.pending()
        assert_goes_on(self.run)
        assert self.auditor.usage == self.run.usage
        for name, frame in self.run.frames.items():
            assert over(self.run) or self.auditor.desks[name].items == frame.items

    @invariant()
    def the_log_is_the_run(self) -> None:
        lines = self.pen.log.lines()
        assert everything(Log.read(lines).run) == everything(self.run)
        assert [encode(decode(line)) for line in lines[-3:]] == lines[-3:]

    @initialize(guarded=GUARDED, limit=LIMIT, prefix=st.sampled_from([None, "p"]), barrier=SURE)
    def begin(self, guarded: str, limit: int | None, prefix: str | None, barrier: bool) -> None:
        self.do(cm.Tick())
        self.do(start(guarded=guarded, max_turns=limit, prefix=prefix, requester="eve", barrier=barrier))

    @precondition(lambda self: not over(self.run) and any(not frame.barrier for frame in self.run.frames.values()))
    @rule(data=st.data())
    def talk(self, data: st.DataObject) -> None:
        """A model that nobody asks says something, perhaps under another agent."""
        if data.draw(RARELY):
            self.do(self.switch_agent(data.draw, "r"))
        agent = data.draw(st.sampled_from([None, self.pen.root().agent, "b"]))
        self.do(replace(self.reply(data.draw, "r"), agent=agent), data.draw(LATER))

    @precondition(lambda self: not over(self.run))
    @rule(data=st.data(), count=st.integers(1, 6))
    def go_on(self, data: st.DataObject, count: int) -> None:
        """Do things that are to be done, in some way in which they may be done."""
        for _ in range(count):
            for make, name in self.fitting(data.draw):
                self.do(make(self, data.draw, name), data.draw(LATER))

    @precondition(lambda self: not over(self.run))
    @rule(data=st.data(), count=st.integers(1, 6))
    def go_on_and_on(self, data: st.DataObject, count: int) -> None:
        self.go_on(data, count)

    @rule(data=st.data())
    def stray(self, data: st.DataObject) -> None:
        """Send anything, anywhere."""
        names = [*self.run.frames, *self.run.calls, *list(self.run.decided)[:1], "r/9.9"]
        make = data.draw(st.sampled_from(MAKERS))
        self.do(make(self, data.draw, data.draw(st.sampled_from(names))), data.draw(LATER))

    @rule(data=st.data(), again=st.booleans(), many=st.integers(0, 3))
    def decide(self, data: st.DataObject, again: bool, many: int) -> None:
        """Deliver several words at once, some that were said before."""
        names = st.sampled_from([*[*self.run.groups["wait"]] * 4, *self.run.calls, "r/9.9"])
        made = [self.decision(data.draw, data.draw(names)) for _ in range(many)]
        if again and self.said:
            made.append(data.draw(st.sampled_from(self.said)))
        grants = [self.terms(data.draw, made)] if data.draw(RARELY) else []
        self.do(cm.Deliver(made, grants, made[:1] if data.draw(RARELY) else []))

    @precondition(lambda self: self.run.groups["wait"])
    @rule(data=st.data(), who=st.permutations(["ada", "bob", "cyd"]))
    def decide_together(self, data: st.DataObject, who: list[str]) -> None:
        """Several people say the same of one call, now or one after the other."""
        name = data.draw(st.sampled_from([*self.run.groups["wait"]]))
        said = self.decision(data.draw, name)
        made = [replace(said, decider=person(by, "ops", strength="signed"), via="person") for by in who]
        if data.draw(st.booleans()):
            self.do(cm.Deliver(made))
        else:
            for each in made:
                self.do(cm.Deliver([each]))

    @precondition(lambda self: self.run.groups["wait"])
    @rule(data=st.data())
    def confirm_and_decide(self, data: st.DataObject) -> None:
        """The requester says yes, and others say the same then."""
        name = data.draw(st.sampled_from([*self.run.groups["wait"]]))
        said = replace(
            self.decision(data.draw, name), via="person", verdict="approve", args=None, basis=None, output=None
        )
        for by in ("eve", "ada", "bob"):
            self.do(cm.Deliver([replace(said, decider=person(by, "ops", strength="signed"))]))

    @precondition(lambda self: self.run.groups["wait"])
    @rule(data=st.data())
    def go_through_a_chain(self, data: st.DataObject) -> None:
        """People of several steps look at it and say yes, each to what is asked then."""
        name = data.draw(st.sampled_from([*self.run.groups["wait"]]))
        people = [person("eve", "ops", strength="signed"), person("ada", strength="signed"), person("cyd"), OPS]
        for who in [*people, person("dan"), person("gus", "chief")][: data.draw(st.integers(1, 6))]:
            if name in self.run.groups["wait"]:
                call = self.run.calls[name]
                self.do(cm.RecordLook(name, call_digest(self.run, call), who))
                self.do(cm.Tick(), 1)
            if name in self.run.groups["wait"]:
                shown, verdict = call_digest(self.run, call), "retry" if call.state == "in_doubt" else "approve"
                made = ev.Decision(name, verdict, shown, decider=who, proof=Proof("ssh", "k", b"x"), note="so")
                self.said.append(made)
                self.do(cm.Deliver([made]))

    @precondition(lambda self: self.run.groups["wait"])
    @rule(data=st.data(), later=st.sampled_from([0, 29, 30]))
    def look_and_decide(self, data: st.DataObject, later: int) -> None:
        """Somebody has it on the screen for a while and decides then."""
        name = data.draw(st.sampled_from([*self.run.groups["wait"]]))
        who = data.draw(PEOPLE.filter(lambda who: who is not None))
        self.do(cm.RecordLook(name, call_digest(self.run, self.run.calls[name]), who))
        self.do(cm.Tick(), later)
        if name in self.run.calls:
            said = replace(self.decision(data.draw, name), at=self.pen.now, via="person", decider=who)
            self.do(cm.Deliver([said]))

    @precondition(lambda self: self.run.reviews)
    @rule(data=st.data())
    def say_of_it(self, data: st.DataObject) -> None:
        self.do(self.review(data.draw, data.draw(st.sampled_from([*self.run.reviews]))))

    @rule(later=st.sampled_from([0, 20, 60, 200]))
    def tick(self, later: int) -> None:
        self.do(cm.Tick(), later)

    def fitting(self, draw: Draw) -> list[tuple[Maker, str]]:
        """Something that may be done now, on what it may be done."""
        fitting = [(make, effect.on) for effect in pending(self.run) for make in FITTING[effect.do]]
        at_work = [name for name in self.run.groups["started"] if name not in self.run.frames]
        fitting += [(make, name) for name in at_work for make in FITTING["started"]]
        fitting += [(make, name) for name in self.run.groups["wait"] for make in FITTING["wait"]]
        return [draw(st.sampled_from(fitting))] if fitting else []

    # Makers of one command each, on a frame or a call of that name ---------------------------------------------------

    def label(self, name: str) -> str:
        return self.run.calls[name].proposal.label if name in self.run.calls else "c0"

    def start_again(self, _draw: Draw, _name: str) -> cm.RunCommand:
        return start()

    def reply(self, draw: Draw, name: str) -> cm.RunCommand:
        return replace(reply(*draw(proposals()), frame=name, judged=draw(RARELY)), usage=draw(USAGE))

    def screen(self, draw: Draw, name: str) -> cm.RunCommand:
        action = draw(st.sampled_from(["allow", "ask", "ask", "deny"]))
        verdict = Verdict(action, terms=draw(TERMS), review=0 if action == "deny" else draw(SHARE))
        basis = draw(LOOKS)
        preview = None if basis is None else Preview((Text("it"),), basis=basis)
        call = self.run.calls.get(name)
        decided = call is not None and call.recheck
        return cm.Screen(name, verdict, decided == draw(SURE), draw(REPORTS), preview)

    def decision(self, draw: Draw, name: str) -> ev.Decision:
        call = self.run.calls.get(name)
        state = (
            call.state if call is not None and call.state in WORDS and draw(SURE) else draw(st.sampled_from([*WORDS]))
        )
        verdict = draw(st.sampled_from(WORDS[state]))
        known = call is not None and call.proposal.refused is None and draw(SURE)
        shown = call_digest(self.run, call) if call is not None and known else "0" * 64
        args = draw(ARGS) if (verdict == "edit") == draw(SURE) else None
        output = draw(st.sampled_from(["x", 1, True, None])) if verdict in ("answer", "ran") else None
        at = max(0, self.pen.now - draw(st.sampled_from([0, 0, 0, 0, 60])))
        basis = draw(st.sampled_from([None, None, {"a": "1"}])) if verdict == "edit" else None
        via = draw(VIA)
        who = draw(PEOPLE) if via == "person" or draw(RARELY) else None
        made = ev.Decision(
            name, verdict, shown, at, who, via,
            note=draw(NOTES), args=args, basis=basis, output=output, proof=draw(PROOF),
            broke_glass=verdict == "approve" and draw(RARELY), confirms=draw(RARELY),
            asks_back=draw(RARELY) and draw(RARELY), message=draw(st.sampled_from([None, None, "why?"])),
            withdrawals=0 if call is None else len(call.withdrawn),
        )  # fmt: skip
        self.said.append(made)
        return made

    def deliver(self, draw: Draw, name: str) -> cm.RunCommand:
        return cm.Deliver([self.decision(draw, name)])

    def terms(self, draw: Draw, made: list[ev.Decision]) -> ev.GrantTerms:
        callers = sorted({call.agent for call in self.run.calls.values()}) or ["a"]
        tools = sorted({call.proposal.tool for call in self.run.calls.values()}) or ["t1"]
        return grant(
            f"g{draw(st.integers(0, 5))}",
            agent=draw(st.sampled_from(callers)),
            tool=draw(st.sampled_from(tools)),
            by=made[0].decider if made and draw(SURE) else draw(PEOPLE),
            verdict=draw(st.sampled_from(["approve"] * 5 + ["reject", "answer"])),
            where=draw(st.sampled_from([None, None, {"n": {"le": 1}}, {"m": {"le": 9}}])),
            uses=draw(st.sampled_from([None, 1, 1, 2, 0])),
            expires_at=draw(st.sampled_from([None, None, self.pen.now + 40, self.pen.now])),
            reach=draw(st.sampled_from(["", "", "here", "there"])),
            review=draw(SHARE),
        )

    def give(self, draw: Draw, name: str) -> cm.RunCommand:
        """Decide on a call, and on those like it for good."""
        made = [replace(self.decision(draw, name), via="person")]
        terms = self.terms(draw, made)
        call = self.run.calls.get(name)
        if call is not None and draw(SURE):
            verdict = "reject" if made[0].verdict == "reject" else "approve"
            terms = replace(terms, agent=call.agent, tool=call.proposal.tool, verdict=verdict)
        return cm.Deliver(made if draw(SURE) else [], [terms])

    def digest(self, draw: Draw, name: str) -> str:
        """What is shown of a call, or was shown of something else."""
        call = self.run.calls.get(name)
        known = call is not None and call.proposal.refused is None and draw(SURE)
        return call_digest(self.run, call) if call is not None and known else "0" * 64

    def mark(self, draw: Draw, name: str) -> cm.RunCommand:
        """Say that somebody is on it, or puts it off; or that they do not any more."""
        until = draw(st.sampled_from([None, 1, 40, 0, 32 * 86_400_000]))
        who = draw(PEOPLE.filter(lambda who: who is not None))
        kind = draw(st.sampled_from(["claim", "snooze"]))
        return cm.MarkCall(name, self.digest(draw, name), kind, who, None if until is None else self.pen.now + until)

    def look(self, draw: Draw, name: str) -> cm.RunCommand:
        """Say that somebody has it on the screen."""
        return cm.RecordLook(name, self.digest(draw, name), draw(PEOPLE.filter(lambda who: who is not None)))

    def review(self, draw: Draw, name: str) -> cm.RunCommand:
        """Say whether something was rightly let run."""
        which = draw(st.sampled_from([*self.run.reviews, name]))
        review = self.run.reviews.get(which)
        shown = "0" * 64 if review is None or draw(RARELY) else review_digest(self.run, review)
        word = draw(st.sampled_from(["right", "wrong"]))
        return cm.GiveReview(which, shown, word, draw(PEOPLE.filter(lambda who: who is not None)), draw(NOTES))

    def withdraw(self, draw: Draw, name: str) -> cm.RunCommand:
        """Take an approval back, or a vote."""
        who = draw(PEOPLE.filter(lambda who: who is not None))
        proof = draw(PROOF)
        return cm.Withdraw(
            name, who, self.digest(draw, name) if draw(st.booleans()) else None, draw(NOTES), proof=proof
        )

    def revoke(self, draw: Draw, _name: str) -> cm.RunCommand:
        return cm.Revoke(draw(st.sampled_from([*self.run.grants, "g9"])), draw(PEOPLE))

    def lend(self, draw: Draw, _name: str) -> cm.RunCommand:
        """Lend a grant to a call of another run."""
        reaches, calls = st.sampled_from([["here"], ["there", "here"], []]), st.sampled_from(["r/1.0", "r/2.0"])
        which = draw(st.sampled_from([*self.run.grants, "g9"]))
        return cm.LendGrant(which, draw(reaches), draw(st.sampled_from(["other", "other", "run"])), draw(calls))

    def borrow(self, draw: Draw, name: str) -> cm.RunCommand:
        """Take over what another run lent to a call of this one, or to one that is to come."""
        made = self.terms(draw, [])
        call = self.run.calls.get(name)
        about = (made.agent, made.tool) if call is None else (call.agent, call.proposal.tool)
        wrong = draw(RARELY)
        made = replace(
            made, id=f"{made.id}@{name}", agent=about[0], tool=about[1], call=None if wrong else name, uses=1,
            verdict=draw(st.sampled_from(["approve"] * 5 + ["reject"])),
            reach=draw(st.sampled_from(["here"] * 5 + [""])),
        )  # fmt: skip
        return cm.BorrowGrant(made, draw(st.sampled_from(["home"] * 5 + ["run", ""])))

    def start_call(self, draw: Draw, name: str) -> cm.RunCommand:
        call = self.run.calls.get(name)
        return cm.StartCall(name, call.proposal.tool if call is not None and draw(SURE) else "t9", draw(REPORTS))

    def finish_call(self, draw: Draw, name: str) -> cm.RunCommand:
        text = draw(st.sampled_from(["one", "two"]))
        return cm.FinishCall(name, result(self.label(name), text), failed=draw(RARELY), reports=draw(REPORTS))

    def need_input(self, draw: Draw, name: str) -> cm.RunCommand:
        basis = draw(LOOKS) if draw(RARELY) else None
        preview = None if basis is None else Preview((Text("it"),), basis=basis)
        return cm.NeedInput(name, draw(QUESTIONS), draw(st.sampled_from([None, 1])), preview, draw(WANTS))

    def compact_history(self, draw: Draw, name: str) -> cm.RunCommand:
        frame = self.run.frames.get(name)
        seen = draw(st.integers(0, 3)) if frame is None else max(0, len(frame.items) - draw(st.sampled_from([0, 0, 1])))
        kept = draw(st.sampled_from([[], [[0, 1]], [[1, seen]], [[seen, seen]], [[1, 0]], [[0, 1], [seen - 1, seen]]]))
        return cm.CompactHistory(name, [*kept, user("so far")], seen, draw(USAGE))

    def lose_call(self, draw: Draw, name: str) -> cm.RunCommand:
        return cm.LoseCall(name, "lost", again=draw(SURE), unsent=draw(RARELY))

    def open_frame(self, draw: Draw, name: str) -> cm.RunCommand:
        if name.count("/") > 2:
            return cm.LoseCall(name, "too deep")
        return cm.OpenFrame(name, draw(st.sampled_from(["a", "b"])), [user(name)], draw(LIMIT), draw(GUARDED))

    def hand_off(self, draw: Draw, name: str) -> cm.RunCommand:
        view_ = draw(st.sampled_from([None, [[0, 1]], [[0, 99], user("seen")], [user("only")]]))
        return cm.HandOff(name, result(self.label(name), "over"), "b", view_)

    def switch_agent(self, draw: Draw, name: str) -> cm.RunCommand:
        return cm.SwitchAgent(name, draw(st.sampled_from(["a", "b"])))

    def void_call(self, draw: Draw, name: str) -> cm.RunCommand:
        label = self.label(name) if draw(SURE) else "cx"
        new, args, gate = draw(st.sampled_from(["t1", "t3"])), draw(ARGS), draw(GATE)
        refused = result(label, "gone") if draw(RARELY) else None
        made = ev.Proposal("function", "t", label, 0, new, args, refused, gate, draw(TERMS), "ask", draw(RARELY))
        return cm.VoidCall(name, made, "the tool changed")

    def guard_frame(self, draw: Draw, name: str) -> cm.RunCommand:
        frame = self.run.frames.get(name)
        return cm.GuardFrame(name, draw(REPORTS), 0 if frame is None else len(frame.unseen))

    def judge_frame(self, draw: Draw, name: str) -> cm.RunCommand:
        item = result(self.label(name), "answer") if (name != "r") == draw(SURE) else None
        reports = draw(REPORTS) if draw(RARELY) else []
        return cm.JudgeFrame(
            name, final=draw(RARELY if name == "r" else st.booleans()), output="x", item=item, reports=reports
        )

    def close_frame(self, _draw: Draw, name: str) -> cm.RunCommand:
        return cm.CloseFrame(name, "Error", result(self.label(name), "sorry"))

    def close_run(self, draw: Draw, _name: str) -> cm.RunCommand:
        return cm.CloseRun("sorry", [says("sorry")], draw(REPORTS))

    def add_input(self, draw: Draw, name: str) -> cm.RunCommand:
        return cm.AddInput(name, [user(draw(st.sampled_from(["and", "but"])))])

    def write_session(self, draw: Draw, name: str) -> cm.RunCommand:
        return cm.WroteSession(name, draw(st.integers(0, 3)))

    def save_context(self, draw: Draw, _name: str) -> cm.RunCommand:
        return cm.SaveContext({"n": draw(st.integers(0, 1))})

    def fail(self, _draw: Draw, _name: str) -> cm.RunCommand:
        return cm.Fail("Error")

    def resume(self, draw: Draw, _name: str) -> cm.RunCommand:
        limits = {"requests": 3} if draw(RARELY) else None
        return cm.Resume(draw(st.sampled_from([None, 2, 9])), draw(RARELY), limits)

    def restored(self, draw: Draw, _name: str) -> cm.RunCommand:
        return cm.RecordRestore(draw(st.sampled_from(["a copy", "another copy"]))) if draw(RARELY) else cm.Tick()

    def refuse(self, draw: Draw, name: str) -> cm.RunCommand:
        return cm.RefuseReply(name, draw(USAGE), "m")

    def cancel(self, draw: Draw, _name: str) -> cm.RunCommand:
        return cm.Cancel(OPS) if draw(RARELY) else cm.Tick()

    def teardown(self) -> None:
        """Any prefix is a run that goes on, and ends when it is let."""
        lines = self.pen.log.lines()
        for count in range(len(lines), 0, -1 if SWEEPING else -max(1, len(lines) // 3)):
            pen = Pen(Log.read(lines[:count]))
            assert_goes_on(pen.run)
            if not over(pen.run) and pen.run.drill is None:
                if pen.run.queued:
                    pen(cm.Begin([user("hi")]))
                crash(pen)
                pen(cm.Tick())
                complete(pen, World(count))
                Auditor().read(pen.log.steps)


FITTING: dict[str, list[Maker]] = {
    "guard": [Commands.guard_frame],
    "model": [Commands.reply] * 5 + [Commands.refuse, Commands.compact_history],
    "exhausted": [Commands.resume, Commands.close_run, Commands.close_frame],
    "tripped": [Commands.close_frame, Commands.cancel],
    "judge": [Commands.judge_frame],
    "screen": [Commands.screen] * 3 + [Commands.borrow],
    "run": [Commands.start_call] * 4 + [Commands.void_call, Commands.finish_call, Commands.withdraw],
    "settle": [Commands.finish_call],
    "started": [Commands.finish_call, Commands.need_input, Commands.open_frame] * 2
    + [Commands.hand_off, Commands.lose_call],
    "wait": [Commands.deliver] * 6
    + [Commands.give, Commands.void_call, Commands.mark, Commands.look, Commands.withdraw],
}
MAKERS: list[Maker] = sorted(
    {make for makes in FITTING.values() for make in makes}
    | {Commands.start_again, Commands.revoke, Commands.add_input, Commands.write_session, Commands.save_context}
    | {Commands.fail, Commands.resume, Commands.restored, Commands.lend, Commands.borrow, Commands.review}
    | {Commands.switch_agent},
    key=lambda make: make.__name__,
)


class Schedules(RuleBasedStateMachine):
    """One world, things done in any order, crashes at any commit: always the same end."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world, self.pen = World(seed), Pen()
        self.pen(self.world.begin())
        first = Pen(Log.read(self.pen.log.lines()))
        self.expected = complete(first, self.world)

    @rule(picks=st.lists(st.integers(0, 99), min_size=1, max_size=6))
    def act(self, picks: list[int]) -> None:
        for pick in picks:
            acts = self.world.acts(self.pen.run)
            if acts:
                self.pen(*self.world.commands(self.pen.run, acts[pick % len(acts)]), at=self.pen.now + 1)
            assert_goes_on(self.pen.run)

    @rule()
    def crash(self) -> None:
        self.pen = Pen(Log.read(self.pen.log.lines()))
        crash(self.pen)

    @rule()
    def restore(self) -> None:
        """A copy of the store was put in place: everybody is asked once more, and it comes to the same."""
        restore(self.pen, f"copy of {len(self.pen.log)}")

    @rule(back=st.integers(1, 30))
    def lose_the_end(self, back: int) -> None:
        """A log that was cut at a commit is a log."""
        self.pen = Pen(Log.read(self.pen.log.lines(max(1, len(self.pen.log) - back))))
        crash(self.pen)

    def teardown(self) -> None:
        if not hasattr(self, "expected"):
            return
        assert complete(self.pen, self.world) == self.expected
        Auditor().read(self.pen.log.steps)


Commands.TestCase.settings = budget(50, 40)
Schedules.TestCase.settings = budget(60, 20)


@pytest.mark.sweep
class TestCommands(Commands.TestCase):
    """See `Commands`."""


@pytest.mark.sweep
class TestSchedules(Schedules.TestCase):
    """See `Schedules`."""


@pytest.mark.sweep
@budget(25, 1)
@given(seed=st.integers(0, 2**32))
def test_every_prefix_resumes_to_the_same_end(seed: int) -> None:
    """Cut at every commit; what was started is lost, what is in doubt ran, everything else is answered as before."""
    world, pen = World(seed), Pen()
    pen(world.begin())
    expected = complete(pen, world)
    lines = pen.log.lines()
    for count in range(1, len(lines) + 1):
        cut = Pen(Log.read(lines[:count]))
        assert_goes_on(cut.run)
        crash(cut)
        assert complete(cut, world) == expected
        Auditor().read(cut.log.steps)
    assert outcome(pen.run) == expected
