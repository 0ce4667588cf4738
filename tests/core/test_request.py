"""A request: what everybody is shown of a waiting call, from the run alone, and never a secret in it."""

from __future__ import annotations

from typing import Any

import msgspec

from keyturn.core import commands as cm
from keyturn.core.approval import Approval
from keyturn.core.call_ids import call_id, frame_of, is_below, place_of
from keyturn.core.digest import canonical
from keyturn.core.empties import owned
from keyturn.core.encodable import moment
from keyturn.core.gate.opening import OPENING
from keyturn.core.policy import Verdict
from keyturn.core.preview import REDACTED, Json, Preview, Text
from keyturn.core.request import Request, request_of, waiting_calls
from keyturn.core.run import call_digest, call_shape, request_id
from keyturn.core.shown_items import shown_call
from tests.core.samples import Pen, asked, nested, person, reply, tool

CALL, HOUR = "r/1.0", 3_600_000
SECRET = "hunter2"
ARGUMENTS = '{"to":"ann","key":"hunter2","auth":{"token":"hunter2","user":1}}'
SECRETS = ("key", "auth.token")
SHOWN = {"to": "ann", "key": REDACTED, "auth": {"token": REDACTED, "user": 1}}


def shown(pen: Pen, call: str = CALL) -> Request:
    """The request, made from the log alone; it is the same as that of the run in hand."""
    read = pen.copy()
    made = request_of(read.run, read.call(call))
    assert made == request_of(pen.run, pen.call(call))
    return made


def secretive(gate: str = "ask", **facts: Any) -> Pen:
    return asked(tool("c0", gate, ARGUMENTS, secrets=SECRETS, **facts), tool("c1", "ask", tool="t2"))


def text_of(made: Any) -> str:
    return msgspec.json.encode(made).decode()


# ------------------------------------------------------------------------------------------------- what is shown of it


def test_a_request_says_what_would_run_and_what_may_be_said() -> None:
    terms = Approval(expires="1h", role="ops")
    pen = asked(tool("c0", "", risk="high"), requester="eve")
    pen(cm.Screen(CALL, Verdict("ask", "over the limit", terms)), at=7)
    made = shown(pen)
    assert made == Request(
        id=request_id(pen.run, CALL),
        run="run",
        call=CALL,
        kind="approval",
        tool="t",
        agent="a",
        digest=call_digest(pen.run, pen.call()),
        asked_at=moment(7),
        expires_at=moment(HOUR + 7),
        reason="over the limit",
        risk="high",
        tool_digest="t1",
        label="c0",
        arguments='{"n":1}',
        params={"n": 1},
        preview=Preview((Json({"n": 1}),)),
        terms=terms,
        verdicts=("approve", "edit", "reject", "answer"),
        requester="eve",
        path="a",
        shape=call_shape(pen.call()),
    )


def test_a_request_makes_the_round_trip() -> None:
    pen = secretive(terms=Approval(quorum=2, users=("ada", "bob")))
    pen.decide("approve", by="ada", note="so")
    made = shown(pen)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Request) == made


def test_the_words_that_can_be_said_are_those_that_the_gate_takes() -> None:
    """Each of them is taken, and what is left out is refused; the facts of the tool are in the log."""
    for facts in ({}, {"fixed": True}, {"elsewhere": True}, {"fixed": True, "elsewhere": True}):
        for state in ("asked", "in_doubt", "needs"):
            pen = waiting(state, **facts)
            taken = {("asked", "edit"): "fixed", ("asked", "answer"): "elsewhere"}
            words = [word for word in OPENING[state] if taken.get((state, word)) not in facts]
            assert shown(pen).verdicts == tuple(words)
            for word in words:
                other = pen.copy()
                other.decide(word, args='{"n":2}' if word == "edit" else None)
                assert other.state() != state


def waiting(state: str, **facts: Any) -> Pen:
    beside = tool("c1", "ask", tool="t2")
    pen = asked(tool("c0", "ask" if state == "asked" else "allow", **facts), beside)
    if state != "asked":
        pen.begin()
        pen(cm.LoseCall(CALL, "lost") if state == "in_doubt" else cm.NeedInput(CALL, {"q": 1}, {"private": SECRET}))
    return pen


def test_a_doubt_and_a_question_are_requests() -> None:
    doubt, question = shown(waiting("in_doubt")), shown(waiting("needs"))
    assert (doubt.kind, doubt.verdicts, doubt.reason, doubt.expires_at) == (
        "in_doubt", ("ran", "did_not_run", "retry"), "lost", None,
    )  # fmt: skip
    assert (question.kind, question.verdicts, question.requests) == ("external", ("answer", "reject"), {"q": 1})
    assert question.preview == Preview((Json({"q": 1}),))
    assert SECRET not in text_of(question), "what a tool goes on from is its own"


def test_a_doubt_is_dated_by_when_it_was_lost() -> None:
    """What it says of itself stays while nothing happens to it, whatever else happens in its run."""
    pen = asked(tool("c0", "allow"), tool("c1", "ask", terms=Approval(expires="1h")))
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"), at=5)
    before = shown(pen)
    assert before.asked_at == moment(5)
    pen(cm.SaveContext({"n": 1}), at=HOUR)
    assert shown(pen) == before


def test_requests_stand_in_the_order_in_which_the_model_made_them() -> None:
    pen = asked(*(tool(f"c{place}", "ask" if place != 10 else "allow") for place in range(12)))
    pen.begin("r/1.10")
    pen(cm.OpenFrame("r/1.10", "a/b", [], 5))
    pen(reply(tool("x", "ask"), tool("y", "ask"), frame="r/1.10"))
    pen(cm.VoidCall("r/1.0", pen.call().proposal, "changed"))
    names = [call.id for call in waiting_calls(pen.run)]
    assert names == [*(f"r/1.{place}" for place in range(10)), "r/1.10/1.0", "r/1.10/1.1", "r/1.11"]


def test_a_nested_agents_request_names_its_agent() -> None:
    pen = nested(tool("c0", "ask"))
    assert (shown(pen, "r/1.0/1.0").agent, shown(pen, "r/1.0/1.0").call) == ("a/b", "r/1.0/1.0")


# ------------------------------------------------------------------------------------------------------------- secrets


def test_secrets_are_redacted_by_what_was_recorded_though_no_tool_is_there() -> None:
    """Redesign 1d: a request needs no live tool, so there is none that could be missing."""
    pen = secretive()
    made = shown(pen)
    assert (made.params, made.arguments, made.secrets) == (SHOWN, canonical(SHOWN), SECRETS)
    assert made.preview == Preview((Json(SHOWN),))
    assert SECRET not in text_of(made)
    assert SECRET not in text_of(shown_call(pen.call()))
    assert shown_call(waiting("asked").call())["arguments"] == '{"n":1}'


def test_secrets_are_redacted_in_every_state_in_which_a_call_waits() -> None:
    for act in (cm.LoseCall(CALL, "lost"), cm.NeedInput(CALL, {"q": 1})):
        pen = secretive("allow")
        pen.begin()
        pen(act)
        assert SECRET not in text_of(shown(pen))


def test_the_digest_is_of_what_runs_and_not_of_what_is_shown() -> None:
    other = asked(tool("c0", "ask", ARGUMENTS.replace(SECRET, "other")), tool("c1", "ask", tool="t2"))
    assert shown(secretive()).digest != shown(other).digest


def test_votes_are_shown_without_secrets() -> None:
    pen = secretive(terms=Approval(quorum=2, deny_quorum=2))
    pen.decide("edit", by="ada", args=ARGUMENTS.replace("ann", "bob"), note="to bob", basis={"x": "1"})
    pen.decide("reject", by=person("bob", "ops"))
    made = shown(pen)
    [ada, bob] = made.votes
    assert (ada.by, ada.verdict, ada.params, ada.note) == ("ada", "edit", {**SHOWN, "to": "bob"}, "to bob")
    assert (bob.by, bob.verdict, bob.params) == ("bob", "reject", None)
    assert SECRET not in text_of(made)


def test_an_edit_that_is_in_doubt_is_shown_as_it_ran_without_secrets() -> None:
    """A preview that was recorded for other arguments is not shown for these."""
    pen = secretive("", preview=Preview((Text("to ann"),)))
    pen(cm.Screen(CALL, Verdict("ask")))
    assert shown(pen).preview == Preview((Text("to ann"),))
    pen.decide("edit", args=ARGUMENTS.replace("ann", "bob"))
    pen.begin()
    pen(cm.LoseCall(CALL, "lost"))
    made = shown(pen)
    assert (made.params, made.preview) == ({**SHOWN, "to": "bob"}, Preview((Json({**SHOWN, "to": "bob"}),)))
    assert SECRET not in text_of(made)


# ------------------------------------------------------------------------------------------------------------ askings


def test_the_revision_grows_with_each_asking_and_the_digest_with_it() -> None:
    pen = asked(
        tool("c0", "ask", terms=Approval(expires="1h", on_expiry="ask_again", max_asks=9, execute_by="1h")),
        tool("c1", "ask", tool="t2"),
    )
    seen = [shown(pen)]

    def again(act: Any) -> None:
        act()
        seen.append(shown(pen))

    def approve_and(*commands: cm.RunCommand) -> None:
        pen.decide("approve")
        pen.begin()
        pen(*commands)

    again(lambda: pen(cm.Tick(), at=pen.now + HOUR + 1))
    again(lambda: pen(cm.VoidCall(CALL, pen.call().proposal, "changed")))
    again(lambda: pen(cm.RecordRestore("a copy"), cm.Resume()))
    again(lambda: (pen.decide("approve"), pen(cm.Tick(), at=pen.now + HOUR + 1)))
    again(lambda: approve_and(cm.NeedInput(CALL, {"q": 1})))
    again(lambda: (pen.decide("answer"), pen.begin(), pen(cm.NeedInput(CALL, {"q": 1}))))
    again(lambda: pen(cm.RecordRestore("another copy"), cm.Resume()))
    again(lambda: (pen.decide("answer"), pen.begin(), pen(cm.LoseCall(CALL, "lost"))))
    again(lambda: pen(cm.RecordRestore("a third copy"), cm.Resume()))
    assert [made.revision for made in seen] == list(range(1, len(seen) + 1))
    assert len({made.digest for made in seen}) == len(seen)
    assert {made.id for made in seen} == {request_id(pen.run, CALL)}


def test_what_changed_about_the_tool_is_shown() -> None:
    from_, to = {"name": "t", "description": "old"}, {"name": "t", "description": "new"}
    pen = asked()
    assert shown(pen).difference is None
    owned(pen.run, "tools")["t1"] = from_
    made = msgspec.structs.replace(pen.call().proposal, tool="t2")
    pen(cm.VoidCall(CALL, made, "the tool changed", {"t2": to}))
    assert request_of(pen.run, pen.call()).difference == {"before": from_, "after": to}
    pen(cm.VoidCall(CALL, made, "to be sure"))
    assert request_of(pen.run, pen.call()).difference is None


# ----------------------------------------------------------------------------------------------------------- call ids


def test_a_call_is_named_by_where_it_stands() -> None:
    name = call_id(call_id("r", 10, 2), 1, 0)
    assert (name, frame_of(name), place_of(name)) == ("r/10.2/1.0", "r/10.2", [(10, 2), (1, 0)])
    assert [frame for frame in ("r", "r/10.2", "r/10", "r/1", name) if is_below(name, frame)] == ["r", "r/10.2"]
    assert sorted([name, "r/9.3", "r/10.10", "r/10.2"], key=place_of) == ["r/9.3", "r/10.2", name, "r/10.10"]


def test_a_shape_is_of_the_tool_and_the_true_arguments() -> None:
    """Equal whatever run and call it is; secrets count, and are not to be seen in it."""

    def shape(arguments: str = '{"n":1}', **facts: Any) -> str:
        return shown(asked(tool("c0", "ask", arguments, **facts))).shape

    assert shape() == shape('{ "n": 1 }') == shape(secrets=("n",))
    assert len({shape(), shape('{"n":2}'), shape(tool="t2"), shape('{"n":2}', secrets=("n",), tool="t3")}) == 4
    two = asked(tool("c0", "ask"), tool("c1", "ask"))
    assert len({request_of(two.run, call).shape for call in two.run.calls.values()}) == 1
