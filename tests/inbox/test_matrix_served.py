"""Roles, quorum, expiry, edits and signatures once more, by all that is real: an app, its directory, keys, a worker.

`enough` are those whose words let the call run, one after the other: `ops` has the role, `any` has not, `*` signs with
their own key. `too little` are those of whom none does, alone and all together. Each row is tried with an approval and
with an edit; with an expiry also too late.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from keyturn import Agent, App, Approval, MemoryJournal, function_tool
from keyturn.audit.checker import check
from keyturn.core.errors import Conflict, Expired, NotAllowed
from keyturn.directory.login import Login
from keyturn.testing import ScriptedModel, function_call
from trials.signers import SSHSigner

#  role | quorum | expires | signed || enough       | too little
TABLE = """
   -    | 1      | -       | -      || any1         |
   -    | 1      | 1h      | -      || any1         |
   -    | 1      | -       | signed || any1*        | any1 ops1
   -    | 1      | 1h      | signed || any1*        | any1
   -    | 2      | -       | -      || any1 any2    | any1 any1
   -    | 2      | 1h      | -      || any1 ops1    | any1
   -    | 2      | -       | signed || any1* ops1*  | any1* any1* any2
   -    | 2      | 1h      | signed || any1* any2*  | any1*
   ops  | 1      | -       | -      || ops1         | any1 any2
   ops  | 1      | 1h      | -      || ops1         | any1
   ops  | 1      | -       | signed || ops1*        | ops1 any1*
   ops  | 1      | 1h      | signed || ops1*        | ops1 any1*
   ops  | 2      | -       | -      || ops1 ops2    | any1 any2 ops1
   ops  | 2      | 1h      | -      || ops1 ops2    | ops1 ops1
   ops  | 2      | -       | signed || ops1* ops2*  | ops1 ops2 any1* any2* ops1*
   ops  | 2      | 1h      | signed || ops1* ops2*  | ops1* any1*
"""
ROWS = [[cell.strip() for cell in line.replace("||", "|").split("|")] for line in TABLE.strip().splitlines()]
NAMES = ("any1", "any2", "ops1", "ops2")
KEYS = {name: SSHSigner("ssh-ed25519", number) for number, name in enumerate(NAMES)}


class Desk:
    """An app, the request that waits in it, and what ran."""

    def __init__(self, row: list[str], *, edits: bool) -> None:
        self.role, self.quorum, self.expires, self.signed = row[:4]
        self.edit = {"n": 7} if edits else None
        self.run, self.row = "", cast("Any", None)
        self.ran: list[int] = []
        self.now = 1_780_000_000_000
        self.journal = MemoryJournal(lambda: self.now)
        model = ScriptedModel([[function_call("pay", {"n": 1}, call_id="c1")], "done"])
        self.app = App([Agent("desk", model=model, tools=[self.tool()])], self.journal)

    def tool(self) -> Any:
        def pay(n: int) -> str:
            self.ran.append(n)
            return f"paid {n}"

        terms = Approval(
            role=None if self.role == "-" else self.role,
            quorum=int(self.quorum),
            expires=None if self.expires == "-" else self.expires,
            signed=self.signed == "signed",
        )
        return function_tool(pay, approval=terms)

    async def say(self, who: str) -> None:
        """Approve the request, or edit it, as somebody who logged in, and perhaps with their signature."""
        words: dict[str, Any] = {} if self.edit is None else {"edit": self.edit}
        name = who.strip("*")
        if who.endswith("*"):
            verdict: Any = "approve" if self.edit is None else "edit"
            words["proof"] = KEYS[name].sign(await self.app.inbox.to_sign(self.row, verdict, **words))
        await self.app.inbox.approve(self.row, by=Login(name), **words)


@asynccontextmanager
async def desk_of(row: list[str], word: str) -> AsyncGenerator[Desk]:
    """A desk with everybody in its directory, and a request that waits."""
    desk = Desk(row, edits=word == "edit")
    async with desk.app as app:
        await app.people.start("root")
        for name in NAMES:
            await app.people.add(name, roles=["ops"] if name.startswith("ops") else [], by="root")
        await app.people.give_role("admin", to="any1", by="root")
        for name in NAMES:
            key = app.people.read_key("ssh", KEYS[name].line)
            await app.people.enrol_key(name, key, KEYS[name].sign(app.people.to_sign(name, key)))
            first = name == NAMES[0]
            proof = None if first else KEYS[NAMES[0]].sign(await app.people.to_confirm(key.id))
            await app.people.confirm_key(key.id, by=NAMES[0], proof=proof)
        desk.run = (await app.start("desk", "go")).id
        await app.wait(desk.run, 5)
        [desk.row] = await app.inbox.list()
        yield desk
    assert (await check(desk.journal)).violations == []


@pytest.mark.parametrize("word", ["approve", "edit"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:4]))
async def test_enough_people_let_it_run_and_too_few_do_not(own_key: None, row: list[str], word: str) -> None:
    async with desk_of(row, word) as desk:
        for who in row[5].split():
            try:
                await desk.say(who)
            except (NotAllowed, Conflict):
                continue
        assert [waits.id for waits in await desk.app.inbox.list()] == [desk.row.id]
        assert desk.ran == []
        for who in row[4].split():
            await desk.say(who)
        assert (await desk.app.result(desk.run, 5)).final_output == "done"
    assert desk.ran == [7 if word == "edit" else 1]


@pytest.mark.parametrize("word", ["approve", "edit"])
@pytest.mark.parametrize("row", [row for row in ROWS if row[2] != "-"], ids=lambda row: " ".join(row[:4]))
async def test_the_last_of_them_comes_too_late(own_key: None, row: list[str], word: str) -> None:
    async with desk_of(row, word) as desk:
        *first, last = row[4].split()
        for who in first:
            await desk.say(who)
        desk.now = desk.row.expires_at + 1
        with pytest.raises((Expired, Conflict)):
            await desk.say(last)
    assert desk.ran == []


def test_the_table_has_every_combination_once() -> None:
    terms = [tuple(row[:4]) for row in ROWS]
    assert len(set(terms)) == len(terms) == 2 * 2 * 2 * 2
