"""Every reader of one log tells the same: what people were answered, the audit in each order, its CSV, lists, the gate.

People act at random on requests of every kind of terms, while roles and delegations change and time passes.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from keyturn import Agent, App, Approval, MemoryJournal, NotAllowed, function_tool
from keyturn.audit.checker import check
from keyturn.audit.decisions.entry import AuditEntry
from keyturn.core.errors import Expired, KeyturnError
from keyturn.directory.login import Login
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.playing import HOUR, Clock

pytestmark = pytest.mark.usefixtures("own_key")
PEOPLE = {
    "ben": ["finance"],
    "cyd": ["finance"],
    "dan": ["finance", "ops"],
    "fay": ["ops"],
    "hal": ["chief"],
    "eve": [],
}
TERMS: dict[str, Approval | None] = {
    "anyone": None,
    "role": Approval(role="finance"),
    "quorum": Approval(role="finance", quorum=2, break_glass="chief", expires="1h", on_expiry="ask_again"),
    "users": Approval(users=("ben", "cyd", "eve"), quorum=2, deny_quorum=2),
    "chain": Approval(steps=(Approval(role="finance"), Approval(role="ops"))),
    "confirm": Approval(confirm=True, role="finance"),
    "other": Approval(not_requester=True, expires="30m", on_expiry="escalate", escalate_to=("fay", "role:chief")),
}


def tool(name: str, terms: Approval | None) -> Any:
    def run(amount: int) -> str:
        return f"ran {amount}"

    return function_tool(run, name_override=name, needs_approval=True, approval=terms)


def reply(request: ModelRequest) -> Any:
    if tool_outputs(request):
        return "done"
    asked = json.loads(str(request.input[-1]["content"]))
    return [function_call(name, {"amount": 5}, call_id=f"c{place}") for place, name in enumerate(asked)]


class Office:
    """People who act at random, and what each was answered."""

    def __init__(self, seed: int) -> None:
        self.dice, self.clock = Random(seed), Clock()
        agent = Agent("desk", model=ScriptedModel(reply), tools=[tool(*each) for each in TERMS.items()])
        self.app = App([agent], MemoryJournal(self.clock))
        self.said = Counter[tuple[str, str, str]]()

    async def acts(self) -> None:
        """Do one thing; what is refused was not done."""
        deed = self.dice.choice([self.starts, self.decides, self.decides, self.decides, self.decides, self.changes])
        with suppress(KeyturnError):
            await deed()

    async def starts(self) -> None:
        asked = self.dice.choices(list(TERMS), k=2)
        run = await self.app.start("desk", json.dumps(asked), requester=self.dice.choice(["eve", "ben", None]))
        await self.app.wait(run.id, 30)

    async def decides(self) -> None:
        inbox, rows = self.app.inbox, await self.app.inbox.list()
        if not rows:
            return
        row, who = self.dice.choice(rows), self.dice.choice(list(PEOPLE))
        by, word = (
            Login(who),
            self.dice.choice(["approve"] * 5 + ["edit", "reject", "answer", "asked_back", "withdraw"]),
        )
        if word == "approve":
            glass = self.dice.random() < 0.2
            await inbox.approve(row, by=by, note="so", break_glass=glass)
        elif word == "edit":
            await inbox.approve(row, by=by, edit={"amount": self.dice.randint(6, 9)})
        elif word == "reject":
            await inbox.reject(row, by=by)
        elif word == "answer":
            await inbox.answer(row, "given", by=by)
        elif word == "asked_back":
            await inbox.ask_back(row, "Why?", by=by)
        else:
            await inbox.withdraw(row, by=by)
        self.said[word, who, row.id] += 1
        await self.app.wait(row.run, 30)

    async def changes(self) -> None:
        people, who = self.app.people, self.dice.choice(list(PEOPLE))
        what = self.dice.choice(["time", "give", "take", "lend", "back", "fork"])
        if what == "time":
            self.clock.pass_ms(self.dice.choice([1_000, HOUR // 2, HOUR]))
        elif what == "give":
            await people.give_role("finance", to=who, by="ada")
        elif what == "take":
            await people.take_role("finance", of=who, by="ada")
        elif what == "fork":
            for row in (await self.app.runs())[:1]:  # a fork of a fork, too
                await self.app.fork(row.run)
        elif what == "back":
            self.clock.pass_ms(-self.dice.choice([10, 90_000]))
        else:
            await people.delegate(who, self.dice.choice(list(PEOPLE)), lasts="3d", by=who)


async def everything(app: App) -> list[AuditEntry]:
    """The entries of the audit by each way to read it, of which all agree."""
    entries = await app.audit.search(limit=5_000)
    assert len({each.key for each in entries}) == len(entries)
    by_key = sorted(entries, key=lambda each: each.key)
    assert sorted(await app.audit.search(limit=5_000, newest=True), key=lambda each: each.key) == by_key
    latest, after = list[AuditEntry](), None
    while not latest or after is not None:
        page = await app.audit.latest(limit=17, after=after)
        latest, after = [*latest, *page.entries], page.next
    assert sorted(latest, key=lambda each: each.key) == by_key
    for who in PEOPLE:
        own = [each.key for each in entries if who in (each.by, each.acting_for)]
        assert [each.key for each in await app.audit.search(person=who, limit=5_000)] == own
    return entries


@pytest.mark.trial
@pytest.mark.parametrize("seed", range(6))
async def test_all_readers_of_a_log_tell_what_people_were_answered(seed: int, tmp_path: Path) -> None:
    office = Office(seed)
    app = office.app
    await app.people.start("ada")
    for name, roles in PEOPLE.items():
        await app.people.add(name, roles=roles, by="ada")
    async with app:
        for _ in range(60):
            await office.acts()
        entries = await everything(app)
        told = [each for each in entries if each.via == "person" and each.what in ("decision", "vote", "withdrawal")]
        words = {(each.verdict.replace("undo", "withdraw"), each.by, each.request) for each in told}
        assert words == set(office.said)
        await app.audit.export(tmp_path / "all.csv", format="csv")
        with (tmp_path / "all.csv").open() as table:
            rows = [(row["run"], int(row["line"]), row["verdict"], row["by"]) for row in csv.DictReader(table)]
        assert sorted(rows) == sorted((each.run, each.line, each.verdict, each.by) for each in entries)
        assert (await check(app.journal)).violations == []
        await may_as_listed(app)


async def may_as_listed(app: App) -> None:
    """Whoever a list shows a request to may reject it, and nobody else."""
    for who in PEOPLE:
        for row in await app.inbox.list(kind="approval"):
            listed = row.id in {each.id for each in await app.inbox.list(for_=Login(who))}
            try:
                await app.inbox.reject(row, by=Login(who))
                may = True
            except NotAllowed:
                may = False
            except Expired:  # since the clock moved on
                continue
            assert may is listed, (who, row.tool)
