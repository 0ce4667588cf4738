"""One seed from its first act to its last: processes and people in bad weather, then calm, then every run must end.

After the weather each run must be open with a reason that somebody can see, or over. In the calm somebody decides all
that waits, and then each must be over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from keyturn import Policy
from keyturn.audit.checker import Told, check
from keyturn.core.effects import pending
from keyturn.core.errors import KeyturnError
from keyturn.core.run import Run
from keyturn.directory.people import People
from keyturn.engine.run import log_cache
from keyturn.engine.run.log_cache import log_in
from keyturn.engine.run.used_states import THIS_PROCESS
from keyturn.journal.rows import Query

from .backup import Backup, settle_put_back
from .callers import Caller, caller_process, carry_out_last
from .claims import overdue
from .kinds import Outside
from .knobs import Knobs
from .loop import Process, Stuck
from .made import Made
from .people import Person
from .plan import draw
from .site import Site
from .talks import attend
from .telling import tell_all
from .turns import check_session
from .who import CROWD, LAST, NAME, ROOT, everybody
from .world import World

OVER = ("finished", "cancelled")
MOST_STEPS, MOST_SECONDS = 60_000, 40_000.0


@dataclass
class Outcome:
    """What came of one seed."""

    seed: int
    violations: list[str]
    counts: Counter[str]
    tale: list[str]
    lines: dict[str, list[bytes]]


def simulate(seed: int, knobs: Knobs | None = None, *, told: bool = False) -> Outcome:
    """Play one seed; the engine must see a made world (`made_world`)."""
    plan = draw(seed, knobs or Knobs())
    world = World(plan, told=told)
    Made.loop, Made.dice = world.loop, plan.dice("ids")
    log_cache.forget()  # of another seed the same run may be known
    THIS_PROCESS.forget()
    stage = Stage(world)
    try:
        main = world.loop.begin(Process("stage"), stage.play())
        world.loop.run(main, MOST_STEPS, MOST_SECONDS)
    except Stuck as stuck:
        world.wrong(f"it hangs: {stuck}")
    except KeyturnError as error:  # a log that cannot be read any more, say
        world.wrong(f"nobody can go on: {error}")
    finally:
        for ended in world.loop.ended:
            world.wrong(ended)
        world.closed = True
        world.loop.bury()
    lines = {run: log.lines for run, log in world.store._mine.logs.items()}  # type: ignore[attr-defined]
    world.counts["runs"], world.counts["calls"] = len(world.witness.runs), world.witness.calls
    world.counts["seconds"] = round(world.loop.now)
    world.counts += world.witness.counts
    return Outcome(seed, world.violations, world.counts, world.tale, lines)


class Stage:
    """Who is on it, and what happens when."""

    def __init__(self, world: World) -> None:
        self.world, self.sites = world, list[Site]()
        self.street, self.callers = Process("street"), list[Process]()
        self._asked = 0
        self._shut = False  # while an older copy of the store is put back

    async def play(self) -> None:
        """The whole of it."""
        world, plan = self.world, self.world.plan
        await self._found()
        for number in range(plan.processes):
            self._open(f"site {number}")
        for _ in range(plan.runs):
            world.loop.begin(self.street, self._start())
        for number in range(plan.kinds.queued):
            world.loop.begin(self.street, self._start(f"question {number}"))
        for name in CROWD[: world.people_dice.randint(1, 3)]:
            world.loop.begin(self.street, self._person(Person(world, name)))
        for _ in range(plan.talks):
            world.loop.begin(self.street, self._talk())
        for outside in plan.kinds.outside:
            for number in range(outside.processes):
                self._call(outside, number)
        if plan.restores:
            world.loop.begin(self.street, self._restore())
        while world.loop.now < plan.chaos:
            await asyncio.sleep(7.0)
            asked = self._asked == plan.runs + plan.talks + plan.kinds.queued
            if asked and len(world.asked) == len(plan.kinds.outside) and not self._open_runs():
                break
        await self._close()
        await self._end_all()
        await tell_all(world)
        await check_all(world)
        check_session(world)

    async def _found(self) -> None:
        """Begin the directory."""
        people = People(self.world.store)
        await people.start(ROOT)
        for name, roles in everybody().items():
            await people.add(name, roles=roles, by=ROOT)
        self.world.witness.read(NAME, await self.world.store.read(NAME))

    def _open(self, name: str) -> None:
        """Start a process; when it dies another takes its place."""
        world, fate = self.world, self.world.fate
        mortal = fate.random() < world.plan.death_rate
        left = fate.choice((20, 100, 300, 900)) if mortal else None
        left = left and fate.randrange(left)
        skew = fate.choice((0, 0, 0, 3_600_000, -3_600_000)) if world.plan.knobs.skew else 0
        site = Site(world, name, left, skew)
        site.process.ended = lambda: self._died(site)
        self.sites.append(site)
        world.loop.begin(site.process, site.serve())
        if world.plan.kinds.late:
            world.loop.begin(site.process, site.assign_late(world.plan.dice(name).choice((0.5, 10.0, 60.0))))
        if fate.random() < 0.2:
            world.loop.begin(self.street, self._retire(site, fate.choice((5.0, 60.0, 200.0))))

    async def _retire(self, site: Site, after: float) -> None:
        """Ask a process to stop, and stop it hard if it does not in good time."""
        await asyncio.sleep(after)
        if site in self.sites and self.world.plan.knobs.deaths:
            self.world.count("asked to stop")
            self.world.note(f"{site.process.name} is asked to stop")
            await Person(self.world, "system").asks(site, site.app.stop)
            self.world.loop.kill(site.process)

    def _died(self, site: Site) -> None:
        if site in self.sites:
            self.sites.remove(site)
            self.world.count("deaths")
            self.world.note(f"{site.process.name} is dead")
            if self.world.fate.random() < 0.3:
                self.world.version = 2
            self.world.loop.begin(self.street, self._replace(f"{site.process.name}'"))

    async def _replace(self, name: str) -> None:
        await asyncio.sleep(self.world.fate.choice((0.1, 2.0, 90.0)))
        while self._shut:
            await asyncio.sleep(1.0)
        self._open(name)

    async def _restore(self) -> None:
        """Lose the store, put a backup in its place, and settle that before anybody works on it."""
        world, dice = self.world, self.world.plan.dice("restores")
        for number in range(dice.choice((1, 1, 2))):
            await asyncio.sleep(dice.choice((0.5, 5.0, 40.0)))
            backup = Backup(world)
            await asyncio.sleep(dice.choice((0.5, 5.0, 40.0, 200.0)))
            self._shut = True
            for site in self.sites.copy():
                world.loop.kill(site.process)
            backup.put_back()
            world.count("restores")
            world.note("---- a backup is put back ----")
            await settle_put_back(world, self.street, f"restore {number}")
            self._shut = False

    async def _start(self, queued: str = "") -> None:
        world = self.world
        dice = world.queue_dice if queued else world.people_dice
        await asyncio.sleep(dice.choice((0.0, 0.0, 3.0, 30.0)))
        while not self.sites:
            await asyncio.sleep(1.0)
        site = dice.choice(self.sites)
        await Person(world, "caller").asks(site, lambda: site.start(queued))
        self._asked += 1

    async def _person(self, person: Person) -> None:
        world = self.world
        while True:
            await asyncio.sleep(world.people_dice.choice((1.0, 5.0, 20.0, 60.0)))
            runs = self._open_runs()
            if not runs or not self.sites:
                continue
            run = world.people_dice.choice([run for run in runs if world.is_outside(run)] * 3 + runs)
            if world.talked(run):
                await self._calls_again(person, run)
            else:
                await person.act(run, self.sites)

    async def _talk(self) -> None:
        """Somebody calls."""
        dice = self.world.talk_dice
        await asyncio.sleep(dice.choice((0.0, 3.0, 30.0)))
        while not self.sites:
            await asyncio.sleep(1.0)
        person, site, seconds = Person(self.world, CROWD[0]), dice.choice(self.sites), dice.choice((1.0, 20.0, 100.0))
        await person.asks(site, lambda: site.tried("talk", lambda: attend(site, None, person, seconds)))
        self._asked += 1

    async def _calls_again(self, person: Person, run: str) -> None:
        """Somebody takes a conversation up again, or decides what waits in it, or ends it."""
        dice = self.world.talk_dice
        site, roll, seconds = dice.choice(self.sites), dice.random(), dice.choice((1.0, 20.0, 100.0))
        if roll < 0.5:
            await person.asks(site, lambda: site.tried("talk", lambda: attend(site, run, person, seconds)))
        elif roll < 0.95:
            await person.asks(site, lambda: person.say(site, run))
        else:
            await person.asks(site, lambda: site.told("cancel", run, lambda: site.app.cancel(run, by=person.name)))

    def _call(self, outside: Outside, number: int) -> None:
        """Start a process of a caller outside; when it dies another takes its place."""
        world, process = self.world, caller_process(self.world, outside, number)
        process.ended = lambda: self._hung_up(outside, number)
        self.callers.append(process)
        world.loop.begin(process, Caller(world, outside, f"worker {number}").live(self.sites))

    def _hung_up(self, outside: Outside, number: int) -> None:
        if not self.world.calm:
            self.world.count("callers: deaths")
            self.world.loop.begin(self.street, self._call_anew(outside, number))

    async def _call_anew(self, outside: Outside, number: int) -> None:
        await asyncio.sleep(self.world.call_dice.choice((0.1, 5.0, 90.0)))
        self._call(outside, number)

    def _open_runs(self) -> list[str]:
        return [run for run, seen in self.world.witness.runs.items() if not seen.over]

    async def _close(self) -> None:
        """Stop everything at once, as when the power fails."""
        world = self.world
        while self._shut:  # nobody begins before it is settled
            await asyncio.sleep(1.0)
        sites, self.sites = self.sites, []
        for site in sites:
            world.loop.kill(site.process)
        world.loop.kill(self.street)
        world.calm_down()
        for caller in self.callers:
            world.loop.kill(caller)
        world.note("---- calm ----")
        await asyncio.sleep(130.0)  # by now every hold has run out
        due = set(await world.store.due(1_000))
        for row in await world.store.runs():
            run = (await log_in(world.store, row.run)).run
            to_do = run.status == "running" and (pending(run) or _flying(run))
            if (to_do or _unreported(run)) and row.run not in due:
                world.wrong(f"run {row.run[:4]} has something to do and nobody will look at it")
            _check_open(world, run)

    async def _end_all(self) -> None:
        """In the calm somebody decides whatever waits: every run must end, or have failed for a reason that stays."""
        world = self.world
        site, (person, second) = Site(world, "last", drills=False), [Person(world, name) for name in LAST[:2]]
        if site.config.policy is None and world.plan.kinds.late_policy:  # what began under one resumes under one
            site.config.policy = site.app.policy = Policy()
        world.loop.begin(site.process, site.serve())
        runs, late = list[str](), list[str]()
        for number in range(60):
            await asyncio.sleep(20.0)
            person.rejects = second.rejects = number > 30
            runs = [run for run in self._open_runs() if not await self._tripped(run)]
            late = overdue(world.witness.runs)
            if not runs and not late:
                break
            for run in runs:
                await self._help(person, second, site, run)
        world.loop.kill(site.process)
        for each in late:
            world.wrong(each)
        for run in runs:
            world.wrong(f"run {run[:4]} does not end: {_stands((await log_in(world.store, run)).run)}")

    async def _help(self, person: Person, second: Person, site: Site, run: str) -> None:
        """Decide what waits, on the list or in hand, and see that it goes on."""
        if site.by_app or self.world.talked(run) or self.world.people_dice.random() < 0.5:
            await person.asks(site, lambda: person.say(site, run))
            await second.asks(site, lambda: second.say(site, run))
        else:
            await person.asks(site, lambda: person.visit(site, run))
        if self.world.is_outside(run):
            await carry_out_last(self.world, site, run)
        [row] = await self.world.store.runs(Query(run=run))
        if row.status == "set_aside":
            await person.asks(site, lambda: site.tried("resume", lambda: site.app.resume(run, 200, by=person.name)))
        elif self.world.talked(run):
            await person.asks(site, lambda: site.tried("talk", lambda: attend(site, run, person, 60.0)))
        elif row.status == "failed":
            await person.asks(site, lambda: person.retry(site, run, max_turns=200))

    async def _tripped(self, name: str) -> bool:
        """A tripwire is not taken back: such a run has failed and says so."""
        run = (await log_in(self.world.store, name)).run
        return run.status == "failed" and any(frame.tripped is not None for frame in run.frames.values())


def _flying(run: Run) -> bool:
    return any(call not in run.frames for call in run.groups["started"])


def _unreported(run: Run) -> bool:
    return any(call.held_until is not None for call in run.groups["started"].values())  # all are over by now


def _stands(run: Run) -> str:
    states = {call.id: call.state for call in run.calls.values()}
    return f"{run.status} {run.error}, calls {states}, to do {pending(run)}"


def _check_open(world: World, run: Run) -> None:
    """Whatever is not over has something to do, or waits for somebody who can see why."""
    if run.status in OVER or run.status == "failed":
        return
    if run.queued and "r" not in run.frames:  # it has its turn once those before it are over
        return
    talks = "r" in run.frames and not run.frames["r"].barrier  # it may be that nobody says anything
    outside = any(call.proposal.claimed for call in run.groups["run"].values())  # its caller may claim it
    if not pending(run) and not run.groups["wait"] and not _flying(run) and not talks and not outside:
        world.wrong(f"run {run.id[:4]} is open and nothing is pending: {_stands(run)}")
    world.counts["doubts seen"] += sum(call.state == "in_doubt" for call in run.groups["wait"].values())


async def check_all(world: World) -> None:
    """What must hold of every log at the end, whatever happened: the checker reads the store and believes nothing."""
    told = [Told(run, call, word.verdict) for run, call, word in world.acknowledged]
    effects = {key: count for key, acts in world.effects.items() if (count := len(acts) - world.unwritten[key])}
    report = await check(world.store, effects=effects, acknowledged=told)
    for violation in report.violations:
        world.wrong(str(violation))
    for lost in [*world.witness.not_kept(world.kept), *world.witness.not_told()]:
        world.wrong(lost)
    for row in await world.store.runs():
        world.count(f"ended: {row.status}")
