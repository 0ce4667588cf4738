"""Kill -9 at every commit and file change of a deep agent's run, then go on in another process, and look at the files.

`python -m tests.deep.kills SCENARIO BACKEND [EVERY]` prints what it tried and what was broken, as JSON. It forks, so
it is a program of its own; a life ends by SIGKILL, and nothing of its memory is left to the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keyturn import LocalExecutor, Runner, RunState
from keyturn.deep import FilesystemBackend, SandboxBackend, StateBackend, create_deep_agent
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import function_call
from tests.scenarios import script

LATER_MS = 600_000
ROUNDS = 20
GATED = {"write_file": True, "edit_file": True, "execute": True}
FREE = {"execute": False}
# What changes a file on its way into place, each a point at which a life may end.
SYSTEM_CALLS = ("replace", "rename", "link", "unlink", "fsync")


def changes(mark: str = "a") -> list[Any]:
    """A file written, one edited so that twice would show, and a command whose every run leaves a line."""
    edit = {"path": f"/{mark}.cnt", "old_string": "n\n", "new_string": "nn\n"}
    return [
        function_call("write_file", {"path": f"/{mark}.txt", "content": "new\n"}, call_id=f"write {mark}"),
        function_call("edit_file", edit, call_id=f"edit {mark}"),
        function_call("execute", {"command": f"echo x >> {mark}.log"}, call_id=f"run {mark}"),
    ]


def deep(model: Any, backend: Any, rules: dict[str, Any]) -> Any:
    return create_deep_agent(model, backend=backend, interrupt_on=rules, include_execute=True).core_agent()


def alone(backend: Any, rules: dict[str, Any]) -> Any:
    first, *others = changes()
    return create_deep_agent(
        script([first], others, "done"), backend=backend, interrupt_on=rules, include_execute=True
    ).core_agent()


def at_once(backend: Any, rules: dict[str, Any]) -> Any:
    return create_deep_agent(
        script(changes(), "done"), backend=backend, interrupt_on=rules, include_execute=True
    ).core_agent()


def delegated(backend: Any, rules: dict[str, Any]) -> Any:
    task = {"description": "Do it.", "subagent_type": "general-purpose"}
    outer = script([function_call("task", task, call_id="task"), *changes("b")[2:]], "done")
    core = deep(outer, backend, rules)
    asks: Any = next(tool for tool in core.tools if tool.name == "task")
    asks.agents["general-purpose"].model = script(changes(), "inner")
    return core


SCENARIOS = {build.__name__: build for build in (alone, at_once, delegated)}
BACKENDS: dict[str, Callable[[Path], Any]] = {
    "folder": lambda place: FilesystemBackend(place, shell=LocalExecutor(place)),
    "sandbox": SandboxBackend,
    "memory": lambda place: StateBackend({f"/{each.name}": each.read_text() for each in place.iterdir()}),
}


class Fate:
    """Counts the points of a life, and ends it at one of them; it outlives nobody."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def point(self) -> None:
        """Pass a point, or die there."""
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """A store at whose commits a life may end: just before, or just after."""

    def __init__(self, store: Any, fate: Fate) -> None:
        self._store, self._fate = store, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *args: Any, **options: Any) -> None:
        self._fate.point()
        await self._store.append(*args, **options)
        self._fate.point()


class Trial:
    """One run, its folder, and how often a person said that something be done again."""

    def __init__(self, scenario: str, backend: str, rules: dict[str, Any], place: Path) -> None:
        self.build, self.backend, self.rules, self.place = SCENARIOS[scenario], backend, rules, place
        self.files = place / "files"
        self.files.mkdir()
        self.marks = ("a", "b") if scenario == "delegated" else ("a",)
        for mark in self.marks:
            (self.files / f"{mark}.cnt").write_text("n\n")

    def life(self, fate: Fate, ahead: int) -> int:
        """Live once, in a process of its own, and return how it ended: 0, or the signal."""
        child = os.fork()
        if not child:
            code = 1
            try:
                asyncio.run(self._live(fate, ahead))
                code = 0
            except BaseException as error:
                (self.place / "broken").write_text(f"{type(error).__name__}: {error}"[:500])
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    async def _live(self, fate: Fate, ahead: int) -> None:
        watch(fate)
        store = SQLiteJournal(self.place / "runs.db", clock=lambda: time.time_ns() // 1_000_000 + ahead)
        agent = self.build(BACKENDS[self.backend](self.files), self.rules)
        journal: Any = Mortal(store, fate)
        known = list(await store.runs(Query()))
        given: Any = await RunState.load(journal, known[0].run, agent) if known else "go"
        for _ in range(ROUNDS):
            if isinstance(given, RunState):
                self._decide(given)
            result = await Runner.run(agent, given, journal=journal)
            if not result.interruptions:
                (self.place / "answer").write_text(str(result.final_output))
                if self.backend == "memory":  # the files are the run's own, and so is what became of them
                    for path, data in result.context_wrapper.context.files.items():
                        (self.files / path.removeprefix("/")).write_text("\n".join(data["content"]))
                break
            given = await RunState.load(journal, result.run_id, agent)
        (self.place / "points").write_text(str(fate.count))
        await store.close()

    def _decide(self, state: Any) -> None:
        for item in state.get_interruptions():
            if item.kind != "in_doubt":
                self.say("asked", item.name)
                state.approve(item, by="ada")
            elif self.backend == "memory" and item.name != "execute":
                raise AssertionError(f"{item.name} is in doubt, and its files are lost with it")
            elif self.happened(item.name, "b" if "b." in str(item.params) else "a"):
                state.resolve(item, "ran", output="done", by="ada")
            else:
                self.say("again", item.name)
                state.resolve(item, "retry", by="ada")

    def happened(self, tool: str, mark: str) -> bool:
        """Look at the files, as a person would who is asked what became of a call."""
        if tool == "write_file":
            return (self.files / f"{mark}.txt").exists()
        if tool == "edit_file":
            return (self.files / f"{mark}.cnt").read_text() == "nn\n"
        return (self.files / f"{mark}.log").exists()

    def say(self, what: str, name: str) -> None:
        with (self.place / what).open("a") as file:
            file.write(f"{name}\n")

    def broken(self) -> list[str]:
        """What is lost or doubled; a temporary file may be left behind, as the manual says."""
        found: list[str] = []
        if (self.place / "broken").exists():
            found.append((self.place / "broken").read_text())
        expected = {"a.txt": "new\n", "a.cnt": "nn\n", "a.log": "x\n"}
        if "b" in self.marks:
            expected |= {"b.cnt": "n\n", "b.log": "x\n"}
        if self.backend == "memory":  # it has no shell
            expected = {path: text for path, text in expected.items() if not path.endswith(".log")}
        left = [path for path in self.files.iterdir() if not path.name.startswith(".keyturn-")]
        there = {path.name: path.read_text() for path in left}
        if there != expected:
            found.append(f"files {there}, not {expected}")
        answer = self.place / "answer"
        if not answer.exists() or not answer.read_text().startswith("done: "):
            found.append("the run did not end")
        asked = (self.place / "asked").read_text().split() if (self.place / "asked").exists() else []
        if self.rules is GATED and not {"write_file", "edit_file", "execute"} <= set(asked):
            found.append(f"only {asked} were asked for")
        return found


def watch(fate: Fate) -> None:
    """Count the system calls that put files in place, before and after each."""
    for name in SYSTEM_CALLS:
        whole = getattr(os, name)

        def counted(*args: Any, _whole: Any = whole, **options: Any) -> Any:
            fate.point()
            done = _whole(*args, **options)
            fate.point()
            return done

        setattr(os, name, counted)


def tried(scenario: str, backend: str, rules: dict[str, Any], at: int) -> tuple[int, list[str]]:
    """Die at one point, if there is one of that number, and go on: the points of the last life, and what is broken."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(scenario, backend, rules, Path(folder))
        if trial.life(Fate(at), 0) == -signal.SIGKILL:
            trial.life(Fate(0), LATER_MS)
        points = trial.place / "points"
        return int(points.read_text()) if points.exists() else 0, trial.broken()


def main(scenario: str, backend: str, every: int = 1) -> None:
    """Try every point, or every nth of them, of the gated and of the free run."""
    os.environ["KEYTURN_SECRET"] = "the-secret-of-these-tests"
    kills, broken = 0, list[str]()
    for name, rules in (("gated", GATED), ("free", FREE)):
        points, wrong = tried(scenario, backend, rules, 0)
        broken += [f"{name}, uncut: {each}" for each in wrong]
        for at in range(1, points + 1, every):
            kills += 1
            broken += [f"{name}, killed at {at} of {points}: {each}" for each in tried(scenario, backend, rules, at)[1]]
    print(json.dumps({"kills": kills, "broken": broken}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
