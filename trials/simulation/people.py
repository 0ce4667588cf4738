"""People at random: they approve, reject, edit, answer, click twice, come late, come together, change their minds.

A person acts through some process that is alive then, and learns what it says if it lives to say it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

from keyturn import Grant, RunState
from keyturn.core.errors import KeyturnError
from keyturn.directory.login import Login
from keyturn.journal.rows import Query, RequestRow

from .made import journal_time
from .seen import Word
from .site import Said, Site
from .who import CROWD, LAST, LEADS, ROOT, friend_of
from .world import World

ACTS = (
    "visits", "visits twice", "visits in pairs", "says", "says stale", "retries", "adds", "revokes", "cancels",
    "marks", "withdraws", "shifts a role", "delegates", "forks", "reviews",
)  # fmt: skip
HOW_OFTEN = (22, 6, 6, 36, 6, 9, 5, 3, 2, 4, 10, 4, 9, 6, 4)
VERDICTS = ("approve", "reject", "edit", "answer", "always", "never")


class Person:
    """Somebody who decides."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.dice = world, name, world.people_dice
        self._old: list[RequestRow] = []
        self.rejects = False  # what cannot be approved any more, such as a step whose approver may not approve now

    async def act(self, run: str, sites: list[Site]) -> None:
        """Do one thing about a run."""
        act = self.dice.choices(ACTS, HOW_OFTEN)[0] if self.world.plan.knobs.crowd else "visits"
        if self.world.is_outside(run) and act.startswith("visits"):
            act = "says"  # nobody holds it in hand
        site, other = self.dice.choice(sites), self.dice.choice(sites)
        self.world.count(f"people: {act}")
        self.world.note(f"{self.name} {act} {run[:4]} at {site.process.name}")
        if act == "visits in pairs":
            friend = Person(self.world, friend_of(self.name))
            await asyncio.gather(
                self.asks(site, lambda: self.visit(site, run)), friend.asks(other, lambda: friend.visit(other, run))
            )
        else:
            await self.asks(site, lambda: self._does(act, site, run))

    async def _does(self, act: str, site: Site, run: str) -> None:
        if act == "visits":
            await self.visit(site, run)
        elif act == "visits twice":
            await self.visit(site, run, clicks=2)
        elif act == "says":
            await self.say(site, run)
        elif act == "says stale":
            if self._old:
                await self.deliver(site, self.dice.choice(self._old))
        elif act == "retries":
            await self.retry(site, run)
        elif act == "adds":
            await site.told("send", run, lambda: site.app.send(run, "and then?"))
        elif act == "revokes":
            await site.tried("revoke", lambda: self._revoke(site, run))
        elif act == "marks":
            await site.tried("mark", lambda: self._mark(site, run))
        elif act == "withdraws":
            await self._withdraw(site, run)
        elif act == "shifts a role":
            await site.tried("shift", lambda: self._shift(site))
        elif act == "forks":
            await self._fork(site, run)
        elif act == "reviews":
            await site.tried("reviews", lambda: self._review(site))
        elif act == "delegates":
            await site.tried("delegate", lambda: self._delegate(site))
        else:
            await site.told("cancel", run, lambda: site.app.cancel(run, by=self.name, why="changed my mind"))

    async def asks(self, site: Site, work: Callable[[], Awaitable[object]]) -> None:
        """Have it done by a process, and wait for its answer as long as people wait."""
        loop = self.world.loop
        answered = loop.create_future()

        async def served() -> None:
            await work()
            if not answered.done():
                answered.set_result(None)

        if not site.process.alive:
            return
        loop.begin(site.process, served())
        try:
            await asyncio.wait_for(answered, 300.0)
        except TimeoutError:
            self.world.count("people: got no answer")

    async def retry(self, site: Site, run: str, max_turns: int = 20) -> None:
        """Take up a run, which may have failed."""
        if site.by_app:
            await site.tried("resume", lambda: site.app.resume(run, max_turns))
        else:
            await site.move(run, max_turns=max_turns)

    async def _revoke(self, site: Site, run: str) -> None:
        grants = await site.store.grants(Query(run=run, state="open"))
        if grants:
            await site.app.inbox.revoke(run, self.dice.choice(grants).id, by=self.name)

    async def _mark(self, site: Site, run: str) -> None:
        """Be on a request, or put it off, or no more."""
        rows = await site.app.inbox.list(run=run)
        if rows:
            mark = self.dice.choice(("take", "take", "snooze", "let_go", "wake"))
            lasts = {"lasts": "60s"} if mark in ("take", "snooze") else {}
            await getattr(site.app.inbox, mark)(self.dice.choice(rows), by=Login(self.name), **lasts)

    async def _withdraw(self, site: Site, run: str) -> None:
        """Take an approval back, as far as it has not been executed, or withdraw a vote."""
        rows = await site.rows(run)
        decided = [row for row in rows if row.state in ("approve", "edit", "retry")]
        decided += [row for row in rows if any(vote.by == self.name for vote in row.request.votes)]
        if decided:
            row = self.dice.choice(decided)
            await site.told("withdraw", run, lambda: site.app.inbox.withdraw(row.id, by=Login(self.name), run=run))

    async def _fork(self, site: Site, run: str) -> None:
        """Let a run go on a second time from where it waits, or from an earlier place."""
        if self.world.plan.kinds.forks and self.world.forks < 3:
            self.world.forks += 1
            at = None if self.dice.random() < 0.7 else self.dice.randint(1, 8)
            await site.tried("fork", lambda: site.app.fork(run, at))

    async def _review(self, site: Site) -> None:
        """Say of calls that ran whether that was right."""
        for row in await site.store.requests(Query(kind="review", state="open")):
            await self.review(site, row)

    async def review(self, site: Site, row: RequestRow) -> None:
        """Say it of one."""
        verdict = self.dice.choice(("right", "wrong"))
        said = f"review {row.call.removeprefix('review:')} {verdict} {self.name}"
        if await site.tried("review", lambda: site.app.inbox.review(row, verdict, by=Login(self.name), note="looked")):
            self.world.kept[said, row.run] += 1

    async def _shift(self, site: Site) -> None:
        """Take a role from somebody, or give it back."""
        change = site.app.people.take_role if self.dice.random() < 0.5 else site.app.people.give_role
        who = {"of" if change == site.app.people.take_role else "to": self.dice.choice(CROWD)}
        await change(LEADS, by=ROOT, **who)

    async def _delegate(self, site: Site) -> None:
        """Let another decide in somebody's place for a while."""
        giver, receiver = self.dice.choice(LAST), self.dice.choice(CROWD)
        await site.app.people.delegate(giver, receiver, lasts=self.dice.choice(("30s", "300s")))

    # On a state in hand --------------------------------------------------------------------------------------------

    async def visit(self, site: Site, run: str, clicks: int = 1) -> None:
        """Open a run, look, think, decide on its state, and resume it."""
        state = await site.load(run)
        if state is None:
            return
        said = list[Said]()
        for item in state.get_interruptions():
            if self.world.calm or self.dice.random() < 0.8:
                said += self.decide(state, item)
        if not self.world.calm:
            await asyncio.sleep(self.dice.choice((0.0, 0.0, 1.0, 20.0, 100.0)))
        if clicks == 1:
            await site.drive(state, said)
        else:
            await asyncio.gather(*(site.drive(state, said) for _ in range(clicks)))

    def decide(self, state: RunState[Any], item: Any) -> list[Said]:
        """Say one thing of one request, on a state in hand."""
        word, extra = self._word(item.kind, item.digest, item.params, item.request_id)
        try:
            self._put(state, item, word, extra)
        except KeyturnError as error:
            self.world.count(f"refused: {type(error).__name__}")
            return []
        self.world.meddle(item.params)
        self.world.meddle(item.raw_item)
        self._said(item.request_id, item.run_id, item.call, word, extra)
        return [(item.call, word)]

    def _put(self, state: RunState[Any], item: Any, word: Word, extra: dict[str, Any]) -> None:
        if word.verdict in ("approve", "edit"):
            state.approve(item, edit=extra.get("edit"), grant=extra.get("grant"), by=self.name)
        elif word.verdict == "reject":
            state.reject(item, extra.get("always", False), rejection_message=extra.get("message"), by=self.name)
        elif word.verdict == "answer":
            state.answer(item, extra["output"], by=self.name)
        else:
            state.resolve(item, word.verdict, output=extra.get("output"), by=self.name)  # type: ignore[arg-type]

    # On the list ---------------------------------------------------------------------------------------------------

    async def say(self, site: Site, run: str) -> None:
        """Decide requests of the list at once, without holding the run or waiting for it to move."""
        try:
            rows = await site.app.inbox.list(run=run)
        except KeyturnError as error:
            site.refused("list", error)
            return
        self._old += rows[:1]
        for row in rows:
            if self.world.calm or self.dice.random() < 0.8:
                await self.deliver(site, row)

    async def deliver(self, site: Site, row: RequestRow) -> None:
        """Decide one request of the list, perhaps long after it was listed."""
        if row.kind == "review":
            await self.review(site, row)
            return
        word, extra = self._word(row.kind, row.digest, json.loads(row.body).get("params"), row.id)
        if (word.verdict, extra) == ("approve", {}) and row.kind == "approval" and self.dice.random() < 0.15:
            extra = {"glass": not self.world.calm}
        if not self.world.calm:
            await asyncio.sleep(self.dice.choice((0.0, 0.5, 100.0)))
        if word.verdict == "approve" and self.world.is_outside(row.run) and self.dice.random() < 0.4:
            extra = {"grant": replace(extra.get("grant", Grant()), scope="agent")}
        word.at = journal_time()
        shown: Any = row.id if self.dice.random() < 0.3 else row
        named = {"revision": row.revision} if shown is row.id and self.dice.random() < 0.5 else {"digest": row.digest}
        self._said(row.id, row.run, row.call, word, extra)
        if await site.tried("decide", lambda: self._decide(site, shown, named, (word, extra))):
            self.world.acknowledged.append((row.run, row.call, word))

    async def _decide(self, site: Site, request: Any, named: Any, said: tuple[Word, dict[str, Any]]) -> None:
        """Decide what was shown: the row itself, or its id with its digest or revision, as somebody who logged in."""
        word, extra = said
        inbox, how = site.app.inbox, {"by": Login(self.name), **named}
        if extra.get("glass"):
            await inbox.approve(request, break_glass=True, note="it burns", **how)
        elif word.verdict in ("approve", "edit"):
            undo: Any = {"undo": "5s"} if self.dice.random() < 0.1 and not self.world.calm else {}
            await inbox.approve(request, edit=extra.get("edit"), grant=extra.get("grant"), **undo, **how)  # type: ignore[arg-type]
        elif word.verdict == "reject":
            always, message = extra.get("always", False), extra.get("message")
            await inbox.reject(request, message=message, always=always, **how)  # type: ignore[arg-type]
        elif word.verdict == "answer":
            await inbox.answer(request, extra["output"], **how)  # type: ignore[arg-type]
        else:
            await inbox.resolve(request, word.verdict, extra.get("output"), **how)  # type: ignore[arg-type]

    # What they say -------------------------------------------------------------------------------------------------

    def _said(self, key: str, run: str, call: str, word: Word, extra: dict[str, Any]) -> None:
        world = self.world
        standing = "grant" in extra or "always" in extra
        world.count(f"decision: {word.verdict}{' always' if standing else ''}")
        world.note(f"{self.name} says {word.verdict} of {call} {extra or ''}")
        world.witness.said(key, word)
        if standing:
            seen = world.witness.runs[run].calls[call]
            world.witness.standing.add((run, seen.agent, seen.tool, word.verdict))

    def _word(self, kind: str, digest: str, params: Any, key: str) -> tuple[Word, dict[str, Any]]:
        verdict, extra = self._thought(kind, params, key)
        args = f'{{"n":{extra["edit"]["n"]},"note":"edited"}}' if "edit" in extra else None
        return Word(self.name, verdict, digest, args, journal_time()), extra

    def _thought(self, kind: str, params: Any, key: str) -> tuple[str, dict[str, Any]]:
        dice = self.dice
        if kind == "in_doubt":
            return self._of_doubt(dice, key)
        if kind == "external":
            asked = dice.choice(("answer", "answer", "answer", "reject"))
            return asked, {"output": "yes"} if asked == "answer" else {"message": "no"}
        if self.rejects:
            return "reject", {}
        numbered = isinstance(params, dict) and "n" in params
        verdict = dice.choices(VERDICTS, (52, 14, 12, 8, 10, 2))[0]
        if verdict == "edit" and numbered:
            return "edit", {"edit": {"n": dice.randrange(100), "note": "edited"}}
        if verdict == "always":
            where: Any = {"n": {"le": 60}} if numbered and dice.random() < 0.5 else None
            return "approve", {"grant": Grant(where, dice.choice((None, "100s")), dice.choice((None, 1, 3)))}
        if verdict == "never":
            return "reject", {"always": True}
        if verdict == "answer":
            return "answer", {"output": "by hand"}
        return "reject" if verdict == "reject" else "approve", {}

    def _of_doubt(self, dice: Random, key: str) -> tuple[str, dict[str, Any]]:
        self.world.count("doubts decided")
        happened = self.world.effects.get(key)
        if dice.random() < 0.15:
            return "retry", {}
        if happened:
            return "ran", {"output": happened[0]}
        return dice.choice(("retry", "did_not_run")), {}
