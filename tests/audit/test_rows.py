"""The rows of requests and grants, derived from the log alone: what the engine writes passes, what lies is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.audit.log import read_step
from keyturn.audit.rows import DerivedRows, Fault
from keyturn.audit.run import AuditedRun
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.approval import Approval
from keyturn.core.policy import Verdict
from keyturn.core.preview import Preview, Text
from keyturn.engine.views.rows import replayed
from keyturn.journal.rows import Changes, RequestRow
from tests.audit.forging import CALL, asking, lost, started
from tests.core.samples import Pen, asked, grant, person, reply, start, tool, user
from tests.core.world import World, complete
from tests.effort import some

SECRET = '{"auth":{"token":"s3","user":"ann"},"list":[{"key":"k1"}],"n":1}'
NAMES = ("auth.token", "list.key")


def derived(steps: list[ev.Step]) -> DerivedRows:
    automaton = AuditedRun("run")
    rows = DerivedRows(automaton)
    for step in steps:
        read_step(automaton, step)
        rows.feed(step)
    return rows


def written(pen: Pen) -> Changes:
    """The rows that the engine makes of a run."""
    return replayed(list(pen.log.steps))


def faults(pen: Pen, change: Callable[[RequestRow], RequestRow] | None = None) -> list[Fault]:
    """What the checker has against the engine's rows of a run, where every request's is changed."""
    made, rows = written(pen), derived(list(pen.log.steps))
    requests = made.opened if change is None else [change(row) for row in made.opened]
    return [*rows.compare_requests(requests), *rows.compare_grants(made.grants)]


def says(**changed: Any) -> Callable[[RequestRow], RequestRow]:
    """A row whose body says something else; None takes it away."""

    def change(row: RequestRow) -> RequestRow:
        told = json.loads(row.body) | changed
        kept = {name: value for name, value in told.items() if value is not None}
        return replace(row, body=json.dumps(kept))

    return change


def secret(**more: Any) -> Pen:
    return asked(tool("c0", "ask", SECRET, secrets=NAMES, **more))


def voting() -> Pen:
    pen = asked(tool("c0", "ask", SECRET, secrets=NAMES, terms=Approval(quorum=2)), requester="eve")
    pen.decide("edit", by="ada", args='{"auth":{"token":"s4"},"n":2}', note="so")
    return pen


def looked() -> Pen:
    pen = asked(tool("c0", ""))
    pen(cm.Screen(CALL, Verdict("ask", "risky"), preview=Preview((Text("a diff"),), "sum", {"a": "1"})))
    return pen


def changed_tool() -> Pen:
    pen = asked(tool("c0", "ask"))
    again = replace(pen.call().proposal, tool="t2")
    pen(cm.VoidCall(CALL, again, "its tool changed", {"t1": {"name": "t"}, "t2": {"name": "t", "more": True}}))
    return pen


def ticked(*at: int, **terms: Any) -> Pen:
    pen = asked(tool("c0", "ask", risk="high", terms=Approval(expires="50ms", **terms)))
    for each in at:
        pen(cm.Tick(), at=each)
    return pen


def restored(pen: Pen) -> Pen:
    pen(cm.RecordRestore("a copy was put back"), at=pen.now + 5)
    return pen


def edited_and_lost() -> Pen:
    return lost(started(secret(), "edit", args='{"auth":{"token":"s5"}}'))


def granted() -> Pen:
    pen = asked(tool("c0", "ask"), tool("c1", "ask"), tool("c2", "ask", '{"n":9}'))
    pen(cm.Deliver([pen.decision("approve", by="ada")], [grant(where={"n": 1})]))
    pen(cm.Revoke("g"))
    return pen


def open_ended() -> Pen:
    pen = Pen()
    pen(start(barrier=False))
    pen(reply(tool("c0", "ask")))
    pen(reply(tool("c1", "ask")))
    pen.decide("approve")
    pen.begin()
    pen.end()
    return pen


def begun() -> Pen:
    """Make a call that a named process started, on the word of ada, and that was lost."""
    pen = Pen()
    specs = {"t1": {"description": "Pays.", "schema": {}}}
    pen(start(), reply(tool("c0", "ask"), tools=specs))
    pen.decide("approve", by="ada")
    pen(*pen.screened(), cm.StartCall(CALL, "t1", by="worker-7"), at=5_000)
    pen(cm.LoseCall(CALL, "lost"), at=9_000)
    return pen


RUNS: list[Callable[[], Pen]] = [
    asked,
    secret,
    voting,
    looked,
    changed_tool,
    ticked,
    lambda: ticked(60, on_expiry="ask_again"),
    lambda: ticked(60, 120, on_expiry="ask_again", max_asks=2),
    lambda: ticked(60, on_expiry="escalate", escalate_to=["bob", "role:bosses"]),
    lost,
    asking,
    edited_and_lost,
    lambda: restored(voting()),
    lambda: restored(started()),
    lambda: restored(asking()),
    granted,
    open_ended,
    begun,
    lambda: asked(tool("c0", "ask", fixed=True), tool("c1", "ask", elsewhere=True), tool("c2", "ask", "")),
]


def test_what_the_engine_writes_is_what_the_log_says() -> None:
    for make in RUNS:
        assert faults(make()) == [], make


@pytest.mark.trial
@settings(max_examples=some(15))
@given(seed=st.integers(0, 2**32))
def test_so_it_is_at_every_line_of_any_run(seed: int) -> None:
    world, pen = World(seed), Pen()
    pen(world.begin())
    complete(pen, world)
    for count in range(1, len(pen.log.steps) + 1, 4):
        steps = list(pen.log.steps)[:count]
        made, rows = replayed(steps), derived(steps)
        assert [*rows.compare_requests(made.opened), *rows.compare_grants(made.grants)] == []


LIES: list[tuple[str, Callable[[], Pen], Callable[[RequestRow], RequestRow]]] = [
    ("I4", asked, says(params={"n": 2})),
    ("I4", asked, says(params={"n": True})),
    ("I4", asked, says(arguments='{"n":2}')),
    ("I4", asked, says(preview={"blocks": [{"kind": "text", "text": "read only"}]})),
    ("I4", asked, says(label="c9")),
    ("I4", looked, says(preview=None)),
    ("I4", asking, says(requests={"q": 2})),
    ("I4", changed_tool, says(difference=None)),
    ("I4", secret, says(params=json.loads(SECRET))),
    ("I4", secret, says(arguments=SECRET)),
    ("I4", secret, says(params={"auth": "[redacted]", "list": "[redacted]", "n": "[redacted]"})),
    ("I4", secret, says(params={"auth": {"token": "[redacted]", "user": "[redacted]"}, "list": [], "n": 1})),
    ("I4", asked, says(params={"n": "[redacted]"})),
    ("I4", asked, lambda row: replace(row, digest="0")),
    ("I8", secret, says(secrets=None)),
    ("I8", voting, says(votes=None)),
    ("I8", voting, says(votes=[{"by": "bob", "verdict": "approve", "at": 0}])),
    ("I8", voting, says(terms=None)),
    ("I8", voting, says(requester="ada")),
    ("I8", asked, says(verdicts=["approve"])),
    ("I8", lambda: ticked(60, on_expiry="ask_again"), says(revision=1)),
    ("I8", asked, says(tool_kind="shell")),
    ("I8", asked, says(more=1)),
    ("I8", ticked, lambda row: replace(row, expires_at=None)),
    ("I8", ticked, lambda row: replace(row, risk="")),
    ("I8", asked, lambda row: replace(row, body=row.body[:-1] + ',"params":{"n":1}}')),
    ("I8", asked, lambda row: replace(row, body='{"params":1e999}')),
    ("I8", asked, lambda row: replace(row, body="[]")),
    ("I6", asked, lambda row: replace(row, state="void")),
    *[("I8", begun, says(**{name: None})) for name in ("path", "started_at", "started_by", "former", "description")],
    ("I8", begun, says(**dict.fromkeys(("path", "started_at", "started_by", "former", "description")))),
    ("I8", begun, says(started_by="worker-8")),
    ("I8", begun, says(started_at=1)),
    ("I8", begun, says(former={"by": "eve", "verdict": "approve", "at": 0})),
    ("I8", asked, says(path="a > boss")),
]


def test_a_row_that_an_earlier_version_wrote_is_no_lie() -> None:
    assert faults(asked(), says(**dict.fromkeys(("path", "description")))) == []
    assert faults(lost(), says(**dict.fromkeys(("path", "started_at", "started_by", "former", "description")))) == []


def test_an_agent_without_a_name_has_a_path() -> None:
    pen = Pen()
    pen(start(agent=""), reply(tool("out")))
    pen.begin()
    pen(cm.OpenFrame(CALL, "b", [user("x")], 5), reply(tool("c0", "ask"), frame=CALL))
    assert faults(pen) == []


def test_what_people_are_shown_is_what_would_run_without_its_secrets() -> None:
    """Finding d of the redesign: secrets stood in clear in the rows of a tool that was gone."""
    for invariant, make, change in LIES:
        found = faults(make(), change)
        assert found, (invariant, make)
        assert invariant in {each for each, _what in found}, found


def test_no_secret_is_in_any_row() -> None:
    for make in (secret, voting, edited_and_lost, lambda: restored(voting())):
        assert not any(word in row.body for row in written(make()).opened for word in ("s3", "s4", "s5", "k1"))


def test_rows_that_are_missing_or_too_many_are_found() -> None:
    pen = granted()
    made, rows = written(pen), derived(list(pen.log.steps))
    assert {each for each, _what in rows.compare_requests([])} == {"I6"}
    assert {each for each, _what in rows.compare_grants([])} == {"I8"}
    [terms] = made.grants
    for invariant, lie in (
        ("I1", {"uses": 7}),
        ("I1", {"revoked": False}),
        ("I8", {"body": "{}"}),
        ("I8", {"tool": "x"}),
    ):
        assert {each for each, _what in rows.compare_grants([replace(terms, **lie)])} == {invariant}
    assert "I1" in {each for each, _what in rows.compare_grants([terms, replace(terms, id="h")])}
    assert "I8" in {each for each, _what in rows.compare_requests([*made.opened, replace(made.opened[0], id="x")])}


def test_a_person_who_decides_closes_the_row() -> None:
    pen = asked(tool("c0", "ask", terms=Approval(users=("ada",))))
    pen.decide("reject", by=person("ada"))
    [row] = written(pen).opened
    assert (row.state, row.by) == ("reject", "ada")
    assert faults(pen) == []
