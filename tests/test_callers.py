"""Every way by which a call comes, every law of a call, the same outcome; a table of the manual is drawn from these.

`python -m tests.test_callers` writes the table of docs/doors.md anew.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keyturn import Approval, Conflict, Expired, NotPending
from keyturn.directory.login import Login
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.rows import Query
from keyturn.policies.rules import Policy, ask
from keyturn.testing import check
from tests.calling import NOWHERE, WAYS, Arguments, Outcome, OwnAgent, Place, Way, agents_of
from tests.server.programs import Port
from tests.sources import nodes
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "doors.md"
SENT: Arguments = {"order": "A1", "amount": 5}
ADA, BEN = Login("ada"), Login("ben")


class Case:
    """One call of one way, and the people who decide about it."""

    def __init__(self, place: Place, way: type[Way]) -> None:
        self.place, self.way = place, way

    def calls(self, server: str = "") -> asyncio.Task[Outcome]:
        return asyncio.ensure_future(self.way(self.place, dict(SENT), server).call())

    async def pending(self) -> Any:
        async def listed() -> Any:
            return await self.place.there(self.place.app.inbox.list())

        return (await until(listed))[0]

    async def says(self, verdict: str, row: Any, by: Any = ADA, **words: Any) -> Any:
        return await self.place.there(getattr(self.place.app.inbox, verdict)(row, by=by, **words))

    def rules(self, **terms: Any) -> None:
        self.place.app.policy = Policy(ask(tool="refund", approval=Approval(**terms)))


async def bound(case: Case) -> None:
    """What runs is what an approver was shown, or what they edited it to."""
    calling = case.calls()
    row = await case.pending()
    assert (row.tool, row.params) == ("refund", SENT)
    edited = {"order": "A1", "amount": 3}
    await case.says("approve", row, **({"edit": edited} if case.way.edits else {}))
    wanted = edited if case.way.edits else SENT
    assert (await calling).ran == wanted
    assert case.place.ran == [wanted]


async def once(case: Case) -> None:
    """One approval runs the call once: a repeated decision, and another claim, run nothing."""
    calling = case.calls()
    row = await case.pending()
    await case.says("approve", row)
    assert (await calling).ran == SENT
    await case.says("approve", row)
    if case.way is not OwnAgent:
        state = await case.place.there(case.place.app.asks.get(row.run, account="caller"))
        with pytest.raises(Conflict):
            await case.place.there(case.place.app.asks.claim(row.run, state.digest, "thief", account="caller"))
    assert case.place.ran == [SENT]


async def rejected(case: Case) -> None:
    """A rejected call does not run, and its caller reads why."""
    calling = case.calls()
    await case.says("reject", await case.pending(), message="Not on a Friday.")
    made = await calling
    assert made.ran is None
    assert "Not on a Friday." in made.words
    assert case.place.ran == []


async def unreachable(case: Case) -> None:
    """Without an answer of the server the call does not run (fail closed)."""
    assert (await case.calls(NOWHERE)).ran is None
    assert case.place.ran == []


async def doubt(_case: Case) -> None:
    """A call whose caller, or its server, dies after the claim is in doubt, and is not run again without a decision."""
    raise AssertionError("a process dies: each way has a test of its own")


async def expiry(case: Case) -> None:
    """A request that expired runs nothing, and can no longer be decided."""
    case.rules(expires=0.05)
    assert (await case.calls()).ran is None
    [row] = await case.place.there(case.place.app.journal.requests(Query(newest=True, limit=1)))
    assert (row.tool, row.request.terms.expires) == ("refund", 0.05)
    with pytest.raises((Expired, NotPending, Conflict)):
        await case.says("approve", row)
    assert case.place.ran == []


async def quorum(case: Case) -> None:
    """Terms of a policy hold: with a quorum of two, one approver alone runs nothing."""
    case.rules(quorum=2)
    calling = case.calls()
    row = await case.pending()
    await case.says("approve", row)
    [again] = await case.place.there(case.place.app.inbox.list())
    assert (again.id, len(again.request.votes), calling.done()) == (row.id, 1, False)
    await case.says("approve", again, BEN)
    assert (await calling).ran == SENT
    assert case.place.ran == [SENT]


async def audit(case: Case) -> None:
    """The journal passes every check, and names who decided."""
    calling = case.calls()
    row = await case.pending()
    await case.says("approve", row, note="ok")
    await calling
    log = await case.place.there(log_in(case.place.app.journal, row.run))
    events = [event for step in log.steps for event in step.events if type(event).__name__ == "CallDecided"]
    assert [(event.decision.by, event.decision.note) for event in events] == [("ada", "ok")]
    assert (await case.place.there(check(case.place.app.journal))).ok


LAWS: dict[str, Callable[[Case], Awaitable[None]]] = {
    law.__name__: law for law in (bound, once, rejected, unreachable, doubt, expiry, quorum, audit)
}


def own_cells() -> Iterator[tuple[type[Way], str]]:
    """The cells that are tried here."""
    return ((way, law) for way in WAYS for law in LAWS if law not in way.why_not and law not in way.proven)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    ran: list[Arguments] = []
    with Port(more=agents_of(ran)) as port:
        made = Place(port)
        made.ran = ran
        yield made


@pytest.mark.parametrize(
    ("way", "law"), [pytest.param(*cell, id=f"{cell[0].__name__}-{cell[1]}") for cell in own_cells()]
)
async def test_a_law_holds_by_whatever_way_a_call_comes(place: Place, way: type[Way], law: str) -> None:
    pytest.importorskip(way.needs)
    place.ran.clear()
    try:
        await LAWS[law](Case(place, way))
    finally:
        place.app.policy = None


def test_what_other_tests_prove_is_there_and_each_cell_has_one_proof() -> None:
    for way in WAYS:
        assert not set(way.why_not) & set(way.proven), way.title
        assert {*way.why_not, *way.proven} <= set(LAWS), way.title
        for node in way.proven.values():
            path, _, name = node.partition("::")
            assert name in {getattr(each, "name", "") for each in nodes(ROOT / path)}, node


def table() -> str:
    """Each law and each way: tried, proven by a test elsewhere, or why it is none there."""
    rows = [f"| law | {' | '.join(way.title for way in WAYS)} |", f"|---{'|---' * len(WAYS)}|"]
    for name, law in LAWS.items():
        cells = [way.why_not.get(name, "kept") for way in WAYS]
        rows.append(f"| {inspect.getdoc(law)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def elsewhere() -> str:
    """Which test proves a law that is not tried here."""
    return "\n".join(
        f"- {way.title}, `{law}`: `{node.partition('::')[0]}`, `{node.partition('::')[2]}`"
        for way in WAYS
        for law, node in way.proven.items()
    )


BEGIN, END = "<!-- callers: begin -->", "<!-- callers: end -->"


def drawn() -> str:
    return f"{BEGIN}\n\n{table()}\n\n{elsewhere()}\n\n{END}"


def test_the_table_of_callers_in_the_manual_is_of_today() -> None:
    assert drawn() in PAGE.read_text(encoding="utf-8"), "run `python -m tests.test_callers`"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(f"(?s){BEGIN}.*{END}", lambda _found: drawn(), text), encoding="utf-8")
