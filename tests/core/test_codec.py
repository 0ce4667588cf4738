"""Lines: what is written is read back to the byte, and what is no step of a run is refused without being quoted."""

import json
from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core import upcasts
from keyturn.core.approval import Approval
from keyturn.core.codec import Log, decode, encode
from keyturn.core.decide import step
from keyturn.core.errors import StateRejected
from keyturn.core.folding import fold
from keyturn.core.people import Decider, Proof, Strength
from keyturn.core.policy import Verdict
from keyturn.core.preview import Command, Diff, Json, Preview, Text
from keyturn.core.records import Gate, Recover, Via, Word
from keyturn.core.run import new_run
from keyturn.core.upcasts import VERSION, readable, upcast
from keyturn.core.usage import Counts
from tests.core.samples import Pen, asked, everything, grant, nested, person, reply, result, says, tool, user
from tests.effort import some
from tests.table import each

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KINDS: list[type[Any]] = [*get_args(ev.AnyEvent)]


def full_log() -> Pen:
    """A log with nearly every event."""
    twice = Approval(expires="1h", quorum=2, on_expiry="ask_again")
    made = (tool("c0", "ask", terms=twice), tool("c1"), tool("c2", "ask"))
    pen = nested(*made, prefix="p", guarded="beside")
    pen(cm.GuardFrame("r/1.0", [ev.Report("g", "input", info={"a": 1.5})]), cm.SaveContext({"user": "é"}))
    pen(cm.Tick(), at=3_600_000)
    pen(cm.Tick(), at=3_600_001)
    for by in ("ada", "bob"):
        pen.decide("edit", "r/1.0/1.0", by=person(by, "ops"), note="ok", args='{"n":2}', basis={"x": "5e1f"})
    pen.begin("r/1.0/1.1")
    pen(cm.LoseCall("r/1.0/1.1", "the power failed"))
    pen.decide("ran", "r/1.0/1.1", output=[1, None], proof=Proof("ssh", "k", b"\x00\xff"))
    given = grant(agent="a/b", where={"n": {"le": 3}}, uses=2)
    pen(cm.Deliver([pen.decision("approve", "r/1.0/1.2", by="ada")], [given]))
    pen(cm.AddInput("r", [user("wait")]), cm.Fail("Error"), cm.Resume(12), cm.Revoke("g", person("ada")))
    pen(cm.RecordRestore("a copy"), cm.Resume(unlimited=True))
    for call in ("r/1.0/1.0", "r/1.0/1.2"):
        pen.decide("did_not_run", call, by="ada")
    pen(cm.CloseFrame("r/1.0", "Error", result("outer")))
    pen(reply(tool("c0", ""), tool("c1")))
    looked = Preview((Diff("a", "b", path="x"), Json([1.5])), basis={"x": "5e1f"})
    pen(cm.Screen("r/2.0", Verdict("ask"), preview=looked), cm.StartCall("r/2.1", "t1"))
    pen.decide("reject", "r/2.0")
    pen.end("r/2.0")
    pen(cm.NeedInput("r/2.1", {"question": "which?"}, [1], Preview((Text("which?"),))))
    pen.decide("answer", "r/2.1", output={"this": 1})
    pen.begin("r/2.1")
    pen.end("r/2.1")
    pen(reply(), cm.WroteSession("r", 3))
    pen(cm.JudgeFrame("r", final=True, output={"answer": 42}))
    return pen


# ------------------------------------------------------------------------------------------------------- round trips


def test_a_line_is_read_back_to_the_byte() -> None:
    pen = full_log()
    lines = pen.log.lines()
    assert [encode(decode(line)) for line in lines] == lines
    assert [decode(line) for line in lines] == pen.log.steps
    assert all(b"\n" not in line for line in lines)


def test_a_log_is_read_back_as_the_same_run() -> None:
    pen = full_log()
    read = Log.read(pen.log.lines())
    assert everything(read.run) == everything(pen.run)
    assert read.lines() == pen.log.lines()


@each("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=some(20))  # of each kind; together they are thousands
@given(data=st.data())
def test_every_event_makes_the_round_trip(kind: type[Any], data: st.DataObject) -> None:
    step = ev.Step(data.draw(st.integers(0, 2**53)), [data.draw(events(kind))])
    line = encode(step)
    assert (decode(line), encode(decode(line)), decode(line.decode())) == (step, line, step)


def events(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Events of a kind, with anything in their fields that may be there."""
    fields = {field.name: FIELDS.get((kind, field.name), _field(field)) for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


def _field(field: Any) -> st.SearchStrategy[Any]:
    return JSON if field.type is Any else st.from_type(field.type) if field.type is not list else st.lists(JSON)


ITEM: Any = st.dictionaries(st.text(), JSON, max_size=3)
TERMS: Any = st.sampled_from(
    [
        None,
        Approval(),
        Approval(role="lead", users=("ada", "bob"), quorum=3, deny_quorum=2, expires="90s", reason="required"),
        Approval(expires=1.5, execute_by="1h", on_expiry="escalate", escalate_to=("cyd",), step_up=True),
    ]
)
TEXTS: Any = st.none() | st.text()
NAMES: Any = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
DECIDER: Any = st.none() | st.builds(
    Decider, NAMES, st.lists(NAMES, max_size=2).map(tuple), st.sampled_from(get_args(Strength)), st.booleans()
)
PROOF: Any = st.none() | st.builds(Proof, st.text(), st.text(), st.binary())
COUNTED: Any = st.lists(st.integers(0, 2**53), max_size=7).map(lambda numbers: Counts(*numbers))
DECISION: Any = st.builds(
    ev.Decision, st.text(), st.sampled_from(get_args(Word)), st.text(), st.integers(0, 2**53),
    decider=DECIDER, via=st.sampled_from(get_args(Via)), grant=TEXTS, note=TEXTS, message=TEXTS, args=TEXTS, runs=TEXTS,
    basis=st.none() | st.dictionaries(st.text(), st.text(), max_size=2), output=JSON, proof=PROOF, metadata=JSON,
)  # fmt: skip
BLOCK: Any = st.one_of(
    st.builds(Text, st.text(), st.text()),
    st.builds(Command, st.text(), st.text(), st.text()),
    st.builds(Diff, st.text(), st.text(), st.text(), st.text()),
    st.builds(Json, JSON, st.text()),
)
PREVIEW: Any = st.none() | st.builds(
    Preview, st.lists(BLOCK, max_size=3).map(tuple), st.text(), st.dictionaries(st.text(), st.text(), max_size=2)
)
PROPOSAL: Any = st.builds(
    ev.Proposal, st.text(), st.text(), st.text(), st.integers(0, 9), tool=st.text(), args=TEXTS,
    refused=st.none() | ITEM, gate=st.sampled_from(get_args(Gate)), terms=TERMS, last=st.booleans(),
    recover=st.sampled_from(get_args(Recover)), edited=st.booleans(), risk=TEXTS, fixed=st.booleans(),
    secrets=st.lists(st.text(), max_size=2).map(tuple), elsewhere=st.booleans(), preview=PREVIEW,
)  # fmt: skip
REPORTS: Any = st.lists(st.builds(ev.Report, st.text(), st.text(), st.booleans(), JSON), max_size=2)
GRANT: Any = st.builds(
    ev.GrantTerms, st.text(), st.text(), st.text(), where=st.none() | ITEM, uses=st.none() | st.integers(0, 9),
    decider=DECIDER, reach=st.text(), call=TEXTS,
)  # fmt: skip
VIEW = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2) | ITEM)
FIELDS: dict[tuple[type[Any], str], Any] = {
    (ev.RunStarted, "input"): st.text() | st.lists(ITEM),
    (ev.RunStarted, "about"): ITEM,
    (ev.RunResumed, "limits"): st.none() | ITEM,
    (ev.RunResumed, "about"): ITEM,
    (ev.FrameOpened, "items"): st.lists(ITEM | st.integers(0, 99), max_size=3),
    (ev.InputAdded, "items"): st.lists(ITEM, max_size=2),
    (ev.ReplyRecorded, "output"): st.lists(ITEM, max_size=2),
    (ev.ReplyRecorded, "proposals"): st.lists(PROPOSAL, max_size=2),
    (ev.ReplyRecorded, "tools"): ITEM,
    (ev.ReplyRecorded, "usage"): COUNTED,
    (ev.ReplyRefused, "usage"): COUNTED,
    (ev.CallAskedAgain, "terms"): TERMS,
    (ev.GrantRevoked, "decider"): DECIDER,
    (ev.RunCancelled, "decider"): DECIDER,
    (ev.RunResumed, "decider"): DECIDER,
    (ev.CallMarked, "decider"): DECIDER.filter(lambda who: who is not None),
    (ev.CallLooked, "decider"): DECIDER.filter(lambda who: who is not None),
    (ev.ReviewGiven, "decider"): DECIDER.filter(lambda who: who is not None),
    (ev.ApprovalWithdrawn, "decider"): DECIDER.filter(lambda who: who is not None),
    (ev.CallScreened, "terms"): TERMS,
    (ev.CallScreened, "review"): st.floats(0, 1),
    (ev.CallScreened, "preview"): PREVIEW,
    (ev.CallScreened, "shadow"): st.none() | st.builds(Verdict, st.sampled_from(["allow", "ask", "deny"]), st.text()),
    (ev.CallNeeds, "preview"): PREVIEW,
    (ev.CallLost, "preview"): PREVIEW,
    (ev.VoteCast, "decision"): DECISION,
    (ev.VoteWithdrawn, "decision"): DECISION,
    (ev.CallDecided, "decision"): DECISION,
    (ev.DrillEnded, "decision"): DECISION,
    (ev.CallVoided, "proposal"): PROPOSAL,
    (ev.CallVoided, "tools"): ITEM,
    (ev.CallFinished, "item"): ITEM,
    (ev.GrantGiven, "grant"): GRANT,
    (ev.GrantBorrowed, "grant"): GRANT,
    (ev.HandedOff, "view"): st.none() | VIEW,
    (ev.HistoryCompacted, "view"): VIEW,
    (ev.HistoryCompacted, "usage"): COUNTED,
    (ev.GuardrailReported, "reports"): REPORTS,
}


@pytest.mark.parametrize("half", ["\ud83d", "a\udc00b"])
def test_half_a_character_does_not_cost_the_run(half: str) -> None:
    pen = asked()
    pen(cm.AddInput("r", [user(half)]), cm.SaveContext({half: [half]}))
    lines, shown = pen.log.lines(), half.encode("utf-8", "replace").decode()
    assert decode(lines[-1]).events == [ev.InputAdded("r", [user(shown)]), ev.ContextSaved({shown: [shown]})]
    assert encode(decode(lines[-1])) == lines[-1]
    assert Log.of(asked_again(pen).text(len(pen.log))).lines() == lines


def asked_again(pen: Pen) -> Log:
    """The same steps in a log that has written none of them yet."""
    return Log(list(pen.log.steps))


def test_an_event_says_no_more_than_it_must() -> None:
    assert (
        encode(ev.Step(7, [ev.CallStarted("r/1.0")])) == b'{"v":2,"at":7,"events":[{"e":"CallStarted","call":"r/1.0"}]}'
    )


# ---------------------------------------------------------------------------------------------------------- refusals


def line_of(*written: dict[str, Any], version: int = int(VERSION)) -> bytes:
    return json.dumps({"v": version, "at": 1, "events": list(written)}, separators=(",", ":")).encode()


SECRET = "hunter2"
BAD_LINES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"hunter2",
    b'"hunter2"',
    b"\xff\xfe",
    b'{"v":2,"at":"hunter2","events":[]}',
    b'{"v":2,"at":1}',
    b'{"v":2,"events":[]}',
    b'{"v":2,"at":1.5,"events":[]}',
    b'{"v":2,"at":NaN,"events":[]}',
    b'{"v":2,"at":1,"events":{"e":"hunter2"}}',
    b'{"v":2,"at":1,"events":[]}{"hunter2":1}',
    b'{"v":true,"at":1,"events":[]}',
    b'{"v":"2","at":1,"events":[]}',
    b'{"v":2.0,"at":1,"events":[]}',
    b'{"at":1,"v":2,"events":[]}',
    line_of({"e": SECRET}),
    line_of({"e": "CallStarted", "call": "r/1.0", SECRET: 1}),
    line_of({"e": "VoteCast", "decision": {"call": "c", "verdict": "approve", "digest": "d", "at": 1, SECRET: 1}}),
    b'{"v":2,"at":1,"events":[],"hunter2":1}',
    line_of({"call": SECRET}),
    line_of({"e": "CallStarted", "call": 5, "x": SECRET}),
    line_of({"e": "CallStarted"}),
    line_of({"e": "ContextSaved"}),
    line_of({"e": "CallScreened", "call": "c", "action": "ask", "terms": {"expires": SECRET}}),
    line_of({"e": "CallScreened", "call": "c", "action": "ask", "terms": {"quorum": 0}}),
    line_of({"e": "CallScreened", "call": "c", "action": "ask", "terms": {"on_expiry": SECRET}}),
    b'{"v":2,"at":1,"events":[{"e":"ContextSaved","context":' + b"[" * 50_000 + b"]" * 50_000 + b"}]}",
]


def assert_says_nothing(error: StateRejected) -> None:
    assert type(error) is StateRejected
    assert SECRET not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert "use the state as it was saved" in str(error)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b'{"at":1,"events":[]}', "written by an older format"),
        (b'{"v":1,"at":1,"events":[]}', "written by an older format"),
        (b'{"v":3,"at":1,"events":[],"later":1}', "written by a newer Keyturn"),
    ],
)
def test_a_line_of_another_version_is_refused_by_name(line: bytes, named: str) -> None:
    """L2: a restriction that a newer version writes is never dropped by an older one without a word."""
    for read in (lambda: decode(line), lambda: Log.read([line]), lambda: Log.of(line.decode())):
        with pytest.raises(StateRejected, match=named):
            read()


@each("line", BAD_LINES)
def test_what_is_no_step_is_refused_without_a_word_of_it(line: bytes) -> None:
    for read in (lambda: decode(line), lambda: Log.read([line]), lambda: Log.read([*full_log().log.lines(), line])):
        with pytest.raises(StateRejected) as caught:
            read()
        assert_says_nothing(caught.value)


@pytest.mark.parametrize("line", ["", "\ud800", '{"at":1,"events":[{"e":"ContextSaved","context":"\\ud800"}]}'])
def test_a_text_is_refused_alike(line: str) -> None:
    with pytest.raises(StateRejected):
        decode(line)


IMPOSSIBLE: list[list[ev.AnyEvent]] = [
    [ev.CallStarted("r/1.0")],
    [ev.InputAdded(SECRET, [])],
    [ev.ToolsJudged("r")],
    [ev.ReplyRecorded("r", [], [tool("c0")[1]])],
    [ev.CallFinished("r/1.0", {})],
    [ev.GrantUsed(SECRET, "r/1.0")],
    [ev.FrameClosed("r/9.9")],
    [ev.CallScreened("r/1.0", SECRET)],
    [ev.HandedOff("r", "b", [[1]])],
    [ev.RunStarted("run", "salt", "x"), ev.RunResumed(3)],
]


@each("events_", IMPOSSIBLE, ids=lambda events_: type(events_[-1]).__name__)
def test_steps_that_make_no_run_are_refused(events_: list[ev.AnyEvent]) -> None:
    begin = [] if isinstance(events_[0], ev.RunStarted) else asked().log.lines()
    if not isinstance(events_[0], ev.CallScreened | ev.CallFinished | ev.CallStarted):
        begin = begin[:1]
    with pytest.raises(StateRejected) as caught:
        Log.read([*begin, encode(ev.Step(2, events_))])
    assert_says_nothing(caught.value)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_brings_anything_but_a_run_or_a_refusal(place: int, change: int) -> None:
    text = bytearray(b"\n".join(full_log().log.lines()))
    text[place % len(text)] ^= change
    with suppress(StateRejected):
        Log.read(bytes(text).split(b"\n"))


@given(st.permutations(range(8)))
def test_no_order_of_lines_brings_anything_but_a_run_or_a_refusal(order: list[int]) -> None:
    lines = full_log().log.lines()
    try:
        Log.read([lines[place] for place in order])
    except StateRejected:
        assert order != sorted(order)


# --------------------------------------------------------------------------------------------------------------- Log


def test_lines_are_written_when_asked_for_and_once() -> None:
    pen = asked()
    first = pen.log.lines()
    pen.decide("approve")
    assert pen.log.lines()[: len(first)] == first
    assert all(one is other for one, other in zip(pen.log.lines(), pen.log.lines(), strict=True))
    assert pen.log.lines(1) == pen.log.lines()[:1]


def test_a_line_that_was_written_elsewhere_is_kept_as_it_is() -> None:
    pen = asked()
    events_ = pen.decide("approve")
    log = Log.read(pen.log.lines(2))
    fold(log.run, [ev.Step(0, events_)])
    log.run.seq -= 1
    log.append(ev.Step(0, events_), b'{ "at": 0 }')
    assert (log.lines()[-1], len(log), log.run.seq) == (b'{ "at": 0 }', 3, 3)
    assert log.lines()[:2] == pen.log.lines(2)


def test_lines_are_kept_as_they_were_read() -> None:
    spaced = [line.replace(b'"at":', b'"at": ') for line in asked().log.lines()]
    log = Log.read(spaced)
    assert log.lines() == spaced


def test_what_others_appended_is_folded_and_what_was_only_decided_is_forgotten() -> None:
    theirs, mine = asked(), asked()
    theirs.decide("reject", by="ada")
    decided = mine.decision("approve")
    step(mine.run, cm.Deliver([decided]), 5)
    assert mine.state() == "approved"
    mine.log.refold()
    assert mine.log.extend(theirs.log.lines()[2:]) == theirs.log.steps[2:]
    assert everything(mine.run) == everything(theirs.run)
    assert mine.log.lines() == theirs.log.lines()


def test_a_copy_goes_its_own_way() -> None:
    pen = asked()
    before, copied = everything(pen.run), pen.log.copy()
    assert everything(copied.run) == before
    line = encode(ev.Step(5, step(copied.run, cm.Deliver([pen.decision("approve")]), 5)))
    copied.refold()
    copied.extend([line])
    assert everything(pen.run) == before != everything(copied.run)
    assert len(pen.log) + 1 == len(copied) == len(copied.lines())


@pytest.mark.each
@pytest.mark.parametrize("line", [b"{", encode(ev.Step(1, [ev.CallStarted("r/9.9")]))])
def test_a_log_that_others_spoilt_is_refused_and_left_as_it_was(line: bytes) -> None:
    pen = asked()
    before, lines = everything(pen.run), list(pen.log.lines())
    with pytest.raises(StateRejected):
        pen.log.extend([line])
    assert (everything(pen.run), pen.log.lines(), len(pen.log)) == (before, lines, 2)


def test_refolding_forgets_what_was_not_appended() -> None:
    pen = asked()
    before = everything(pen.run)
    step(pen.run, cm.AddInput("r", [says("x")]), 9)
    pen.log.refold()
    assert everything(pen.run) == before


@given(st.lists(st.integers(0, 22), max_size=5))
def test_a_text_is_the_lines_however_it_was_come_by(counts: list[int]) -> None:
    pen = full_log()
    lines = pen.log.lines()
    whole = b"\n".join(lines).decode()
    read = Log.of(whole)
    assert everything(read.run) == everything(pen.run)
    for count in (min(count, len(lines)) for count in counts):
        assert pen.log.text(count) == read.text(count) == b"\n".join(lines[:count]).decode()
    assert read.lines() == lines
    assert read.says(whole)
    assert not read.says(whole + "\n")


def test_a_text_that_is_no_log_is_refused() -> None:
    for text in ("hunter2", line_of({"e": SECRET}).decode(), encode(ev.Step(1, [ev.CallStarted("x")])).decode()):
        with pytest.raises(StateRejected) as caught:
            Log.of(text)
        assert_says_nothing(caught.value)


def test_no_text_is_a_run_that_has_not_started() -> None:
    assert Log.of("").run == Log.read([]).run == new_run()


# ----------------------------------------------------------------------------------------------------------- upcasts


def shout(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "e": event["e"].upper()}


def rename(event: dict[str, Any]) -> dict[str, Any]:
    return {"e": "CallStarted", "call": event["id"]} if event["e"] == "BEGUN" else event


TABLE = {"0": ("1", shout), "1": (VERSION, rename)}


def test_an_old_event_goes_through_every_version_between() -> None:
    assert upcast({"e": "begun", "id": "r/1.0"}, "0", TABLE) == {"e": "CallStarted", "call": "r/1.0"}
    assert upcast({"e": "BEGUN", "id": "r/1.0"}, "1", TABLE) == {"e": "CallStarted", "call": "r/1.0"}
    assert upcast({"e": "begun"}, VERSION, TABLE) == {"e": "begun"}
    assert readable(TABLE) == ["0", "1", VERSION]


def test_every_version_that_is_known_leads_to_this_one() -> None:
    for version in readable():
        seen: list[str] = []
        while version != VERSION:
            assert version not in seen
            seen.append(version)
            version = upcasts.UPCASTS[version][0]


def test_an_old_log_is_read_and_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(upcasts.UPCASTS, "0", TABLE["0"])
    monkeypatch.setitem(upcasts.UPCASTS, "1", (VERSION, lambda event: restored(rename(event))))
    new = asked(tool("c0")).log.lines()
    old = [*(line.replace(b'"v":2', b'"v":0') for line in new), line_of({"e": "begun", "id": "r/1.0"}, version=0)]
    log = Log.read(old)
    assert log.run.calls["r/1.0"].state == "started"
    assert Log.read(log.lines()).run == log.run
    assert Log.of(b"\n".join(old).decode()).run == log.run


def restored(event: dict[str, Any]) -> dict[str, Any]:
    names = {kind.__name__.upper(): kind.__name__ for kind in KINDS}
    return {**event, "e": names.get(event["e"], event["e"])}


@pytest.mark.parametrize(
    "line",
    [
        *(b"{", b"[]", b"{}", b'{"v":0,"at":1,"events":5}', b'{"v":0,"at":1,"events":[5]}', b'{"v":0}'),
        *(line_of({"e": SECRET}, version=0), line_of({}, version=0)),
    ],
)
def test_an_old_line_that_is_none_is_refused(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(upcasts.UPCASTS, "0", TABLE["0"])
    monkeypatch.setitem(upcasts.UPCASTS, "1", TABLE["1"])
    with pytest.raises(StateRejected) as caught:
        decode(line)
    assert_says_nothing(caught.value)


@pytest.mark.parametrize("error", [KeyError, IndexError, AttributeError, TypeError, ValueError, RecursionError])
def test_an_upcast_that_fails_refuses_the_line(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_event: dict[str, Any]) -> dict[str, Any]:
        raise error(SECRET)

    monkeypatch.setitem(upcasts.UPCASTS, "0", (VERSION, fails))
    with pytest.raises(StateRejected) as caught:
        decode(line_of({"e": "begun"}, version=0))
    assert_says_nothing(caught.value)
