"""The demo's two processes: one starts the run and is killed at the pause, the other takes it up from a file.

The file is the only thing that passes from one to the other. Leaving at a prompt decides nothing: the run stays in
the file, and `keyturn demo --resume` goes on with it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agents.agent import Agent
from ..console.decisions import Undecided, decide
from ..console.screen import Screen
from ..core.errors import Conflict, StateRejected
from ..core.preview import Diff, Preview
from ..engine.runner import Runner
from ..engine.state import RunState
from ..engine.stream import RunResultStreaming
from .demo_agent import TASK, demo_agent, demo_model
from .demo_script import scripted
from .demo_voice import Voice
from .demo_world import AT_FIRST, World

LEFT = 3  # the exit code of a process that a person left at a prompt


@dataclass(frozen=True)
class Stage:
    """One process of the demo: its agent, its world, and the file that holds the run."""

    state_file: Path
    voice: Voice
    agent: Agent[Any]
    played: bool

    @classmethod
    def at(cls, state_file: Path, *, played: bool) -> Stage:
        """A stage of this process."""
        return cls(state_file, Voice(Screen.here()), demo_agent(demo_model()[0]), played)

    @property
    def world(self) -> World:
        """The world beside the run's file."""
        return World(self.state_file.with_name("world.json"))

    async def first(self) -> int:
        """Start the run, save it where it pauses, and kill this process."""
        voice = self.voice
        voice.rule(f"process {os.getpid()}")
        voice.tell("you", TASK)
        running = Runner.run_streamed(self.agent, TASK, context={"world": str(self.world.path)})
        await self._watch(running)
        self._save(running.to_state())
        voice.tell("", "All of the run is in that file, signed. Nobody has decided anything yet.")
        try:
            self._enter("press Enter, and this process is killed")
        except (EOFError, KeyboardInterrupt):
            return self._left()
        voice.say()
        voice.tell("killed", f"kill -9 {os.getpid()}")
        sys.stdout.flush()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return 1

    async def second(self) -> int:
        """Take the run up from its file, let a person decide, and go on until it is finished."""
        voice, before = self.voice, self.state_file.read_text()
        voice.rule(f"process {os.getpid()}")
        voice.tell("loads", str(self.state_file))
        state = await RunState.from_string(self.agent, before)
        if not state.get_interruptions():
            voice.tell("finished", "This run is over; nothing waits.")
            return 0
        while state.get_interruptions():
            show = voice.screen.show
            try:
                state = decide(state, by="you, in the demo", ask=scripted(state, show) if self.played else None)
            except Undecided as left:
                voice.say()
                self._save(left.state)
                return self._left()
            voice.say()
            running = Runner.run_streamed(self.agent, state)
            await self._watch(running)
            state = running.to_state()
            self._save(state)
        voice.tell("finished", "What ops said last is its final answer.")
        await self._show_what_is_refused(before)
        self._show_world()
        return 0

    async def _watch(self, running: RunResultStreaming) -> None:
        """Tell what happens as it happens."""
        async for event in running.stream_events():
            if event.type == "approval_requested_stream_event":
                item = event.item
                self.voice.tell("waits", f"{item.name}  {json.dumps(item.params, ensure_ascii=False)}")
            elif event.type == "run_item_stream_event":
                self._tell_item(event.item, running)
        self.voice.say()

    def _tell_item(self, item: Any, running: RunResultStreaming) -> None:
        if item.type == "message_output_item":
            self.voice.tell("ops", item.raw_item.content[0].text)
        elif item.type == "tool_call_output_item":
            self.voice.tell("result", f"{_name_of(running, item.call_id)}  {item.output}")

    async def _show_what_is_refused(self, before: str) -> None:
        """The state that was used already, and one with a changed byte: neither runs anything."""
        voice = self.voice
        voice.rule("what is refused")
        old = await RunState.from_string(self.agent, before)
        for item in old.get_interruptions():
            old.approve(item)
        try:
            await Runner.run(self.agent, old)
        except Conflict as error:
            voice.say("The state that was loaded above, approved and resumed a second time:")
            voice.tell("refused", f"Conflict: {error}")
        at = before.index("2026-07-01")
        forged = f"{before[:at]}1026-07-01{before[at + 10 :]}"
        voice.say()
        try:
            await RunState.from_string(self.agent, forged)
        except StateRejected as error:
            voice.say(f"The same file with one byte changed, the one at {at}:")
            voice.tell("refused", f"StateRejected: {error}")

    def _show_world(self) -> None:
        self.voice.rule("what became of the world")
        first = json.dumps(AT_FIRST, indent=2) + "\n"
        self.voice.screen.draw(Preview((Diff(first, self.world.text(), path=self.world.path.name),)))
        self.voice.screen.say()

    def _save(self, state: RunState[Any]) -> None:
        """Write the run to its file, whole or not at all."""
        text = state.to_string()
        draft = self.state_file.with_suffix(".draft")
        draft.write_text(text)
        os.replace(draft, self.state_file)
        self.voice.tell("saved", f"{self.state_file}  {len(text):,} bytes")

    def _enter(self, what: str) -> None:
        if self.played or not sys.stdin.isatty():
            return
        self.voice.screen.say()
        self.voice.screen.read(what)

    def _left(self) -> int:
        self.voice.say()
        self.voice.say("You left, so the run waits; nothing was approved by that. To go on, today or in a week:")
        self.voice.screen.copied(f"keyturn demo --resume {shlex.quote(str(self.state_file))}")
        return LEFT


def _name_of(running: RunResultStreaming, call_id: str) -> str:
    """The tool of a call, which may have been made before this process was there."""
    calls = (item for item in running.new_items if item.type == "tool_call_item" and item.call_id == call_id)
    return next((call.tool_name for call in calls), "")
