"""The demo's two processes: one starts the run and is killed at the pause, the other resumes it from a file.

The file is the only thing that passes from one to the other. Leaving at a prompt decides nothing: the run stays in
the file, and `keyturn demo --resume` goes on with it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, LiteralString

from ..agents.agent import Agent
from ..console.decisions import Undecided, decide
from ..console.screen import Terminal
from ..core.errors import Conflict, KeyturnError, StateRejected, UserError
from ..core.preview import Diff, Preview
from ..engine.runner import Runner
from ..engine.states.state import RunState
from ..engine.stream import RunResultStreaming
from ..engine.views.item_texts import ItemHelpers
from .demo_agent import AT_FIRST, TASK, World, demo_agent
from .demo_player import SCRIPTED, Player
from .demo_voice import DemoVoice
from .printing import command

TURNS = 30  # enough for any model that means well
LEFT = 3  # the exit code of a process that a person left at a prompt


@dataclass(frozen=True)
class Stage:
    """Runs one process of the demo: its model, its world, and the file that holds the run."""

    state_file: Path
    voice: DemoVoice
    player: Player | None  # None is the one that began
    played: bool

    @classmethod
    def at(cls, state_file: Path, player: Player | None, *, played: bool) -> Stage:
        """Make a stage in this process."""
        return cls(state_file, DemoVoice(Terminal.here()), player, played)

    @property
    def world(self) -> World:
        """Return the world beside the run's file."""
        return World(self.state_file.with_name("world.json"))

    async def first(self) -> int:
        """Start the run, save it where it pauses, and kill this process."""
        voice, player = self.voice, self.player or Player(SCRIPTED)
        voice.rule("process {}", os.getpid())
        voice.note("you", TASK)
        context = {"world": str(self.world.path), "model": player.name}
        running = Runner.run_streamed(demo_agent(player.model()), TASK, context=context, max_turns=TURNS)
        await self._watch(running, player)
        if not running.interruptions:
            voice.note("finished", "It asked for nothing that waits for a person, so there is nothing to decide.")
            self._show_world()
            return 0
        self._save(running.to_state())
        voice.note("", "All of the run is in that file, signed. Nobody has decided anything yet.")
        try:
            self._enter("press Enter, and this process is killed")
        except (EOFError, KeyboardInterrupt):
            return self._left()
        voice.say()
        voice.note("killed", "kill -9 {}", os.getpid())
        sys.stdout.flush()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return 1

    async def second(self) -> int:
        """Take the run up from its file, let a person decide, and go on until it is finished."""
        voice, before = self.voice, self.state_file.read_text()
        voice.rule("process {}", os.getpid())
        voice.tell("loads", str(self.state_file))
        state = await RunState.from_string(demo_agent(None), before)
        player = self.player or Player(state.context.context.get("model", SCRIPTED))
        voice.tell("model", player.sentence())
        agent = demo_agent(player.model())
        if not _goes_on(state):
            voice.note("finished", "This run is over; nothing waits.")
            return 0
        while _goes_on(state):
            try:
                state = self._decided(state)
            except Undecided as left:
                voice.say()
                self._save(left.state)
                return self._left()
            running = Runner.run_streamed(agent, state)
            try:
                await self._watch(running, player)
            except KeyturnError:
                self._save(running.to_state())
                self._go_on_with("The run stopped, and what ran is in the file. To go on from there:")
                raise
            state = running.to_state()
            self._save(state)
        voice.note("finished", "What ops said last is its final answer.")
        await self._show_what_is_refused(agent, before)
        self._show_world()
        return 0

    def _decided(self, state: RunState[Any]) -> RunState[Any]:
        """Return the state with a person's decisions; a run that failed half-way may wait for none."""
        if not state.get_interruptions():
            return state
        ask = scripted(state, self.voice.screen.show) if self.played else None
        made = decide(state, by="you, in the demo", ask=ask)
        self.voice.say()
        return made

    async def _watch(self, running: RunResultStreaming, player: Player) -> None:
        """Print events as they come; a provider's error is told in words."""
        try:
            await self._tell(running)
        except KeyturnError:
            raise
        except Exception as error:
            told = player.trouble(error)
            if told is None:
                raise
            raise UserError(told) from error

    async def _tell(self, running: RunResultStreaming) -> None:
        async for event in running.stream_events():
            if event.type == "approval_requested_stream_event":
                item = event.item
                self.voice.tell("waits", f"{item.name}  {json.dumps(item.params, ensure_ascii=False)}")
            elif event.type == "run_item_stream_event":
                self._tell_item(event.item, running)
        self.voice.say()

    def _tell_item(self, item: Any, running: RunResultStreaming) -> None:
        if item.type == "message_output_item":
            self.voice.tell("ops", ItemHelpers.text_message_output(item) or "(nothing)")
        elif item.type == "tool_call_output_item":
            self.voice.tell("result", f"{_name_of(running, item.call_id)}  {item.output}")

    async def _show_what_is_refused(self, agent: Agent[Any], before: str) -> None:
        """Show that a used state and one with a changed byte are refused."""
        voice = self.voice
        voice.rule("what is refused")
        old = await RunState.from_string(agent, before)
        for item in old.get_interruptions():
            old.approve(item)
        try:
            await Runner.run(agent, old)
        except Conflict as error:
            voice.say("The state that was loaded above, approved and resumed a second time:")
            voice.tell("refused", f"Conflict: {error}")
        at = before.index("2026-07-01") if "2026-07-01" in before else before.index("staging")
        forged = f"{before[:at]}1{before[at + 1 :]}"
        voice.say()
        try:
            await RunState.from_string(agent, forged)
        except StateRejected as error:
            voice.screen.say("The same file with one byte changed, the one at {}:", at)
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

    def _enter(self, what: LiteralString) -> None:
        if self.played or not sys.stdin.isatty():
            return
        self.voice.screen.say()
        self.voice.screen.read(what)

    def _left(self) -> int:
        self._go_on_with("The run waits; nothing was approved by leaving. To go on, today or in a week:")
        return LEFT

    def _go_on_with(self, why: LiteralString) -> None:
        self.voice.say()
        self.voice.say(why)
        self.voice.screen.copied(f"{command()} demo --resume", shlex.quote(str(self.state_file)))


def _goes_on(state: RunState[Any]) -> bool:
    """Return whether there is something to decide, or to try again."""
    return bool(state.get_interruptions()) or state.live.run.status == "failed"


def _name_of(running: RunResultStreaming, call_id: str) -> str:
    """Return the tool of a call, which may have been made before this process was there."""
    calls = (item for item in running.new_items if item.type == "tool_call_item" and item.call_id == call_id)
    return next((call.tool_name or "" for call in calls), "")


_LINES: dict[str, list[str]] = {
    "rotate_key": ["a"],
    "delete_backups": ["e", "names=all of them", 'names=["api-2026-03-01", "api-2026-07-01"]', "a"],
    "restart_service": ["r", "Not in the middle of the day."],
    "ask_person": ["w", "The API is restarted tonight at 02:00."],
    "send_notice": ["g", "3", "run"],
}


def scripted(state: RunState[Any], show: Callable[[str], object]) -> Callable[[str], str]:
    """Return a stand-in for `input` that shows what it types.

    It answers what waits in a state, then its input ends.
    """
    decided = state.undelivered.decisions
    waiting = (item for item in state.get_interruptions() if item.call not in decided)
    lines = chain.from_iterable(_LINES.get(item.name or "", ["l"]) for item in waiting)

    def ask(prompt: str) -> str:
        typed = next(lines, None)
        if typed is None:
            raise EOFError
        show(prompt + typed)
        return typed

    return ask
