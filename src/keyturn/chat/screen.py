"""The terminal assistant: a Textual app in which a person talks with an agent and decides about its calls.

It shows what the conversation holds and passes on what is typed. What is decided goes to the inbox, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, ClassVar, LiteralString

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from ..core.errors import BadJson, KeyturnError
from ..render.escape import escape
from ..screens.asking import LineDialog, TextDialog
from ..screens.drawing import Row, labelled, ours
from ..screens.key_bar import KeyBar
from ..screens.rows import Rows
from ..screens.theme import wear
from .archive import Talk, talks_in
from .conversation import Assistant, ChatConversation
from .deciding import ChatDecidingApp
from .drawing import summary
from .help import help_rows
from .style import CSS
from .transcript import TranscriptEntry
from .widgets.prompt import Prompt
from .widgets.request_view import ChatRequestView
from .widgets.side_view import SideView
from .widgets.talks import TalksDialog
from .widgets.transcript_view import TranscriptView

Told = Callable[[int], Iterable[Row]]
_TALL = 32  # rows from which there is room for a blank one
_WIDE = 100  # columns from which the panel stands beside the conversation
_FRAME_SECONDS = 0.05


class ChatApp(ChatDecidingApp):
    """Holds the screen of one person; its result is the run that can be gone on with, "" where there is none."""

    TITLE = "keyturn chat"
    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", priority=True),
        Binding("escape", "stop", "Stop"),
        Binding("ctrl+g", "go_on", "Continue", priority=True),
        Binding("ctrl+r", "talks", "Earlier", priority=True),
        Binding("ctrl+n", "new", "New", priority=True),
        Binding("ctrl+t", "panel", "Panel", priority=True),
        Binding("ctrl+o", "whole", "Rows", priority=True),
        Binding("ctrl+x", "drop", "Cancel run", priority=True, show=False),
        Binding("f1", "keys", "Help", priority=True),
    ]

    def __init__(self, assistant: Assistant, about: Told, talk: Talk | None = None) -> None:
        super().__init__()
        wear(self)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (_TALL, "-tall")]
        self.assistant = assistant
        self._about = about
        self._talk = talk
        self.conversation = ChatConversation(assistant, self)
        self._stale = False

    def compose(self) -> ComposeResult:
        """Make the screen."""
        yield Rows(self._top_rows, id="top")
        with Horizontal(id="middle"):
            yield TranscriptView(id="talk")
            yield SideView(id="side")
        yield ChatRequestView(id="request")
        yield Rows(self._state_rows, id="state")
        yield Prompt(id="prompt")
        yield KeyBar()

    async def on_mount(self) -> None:
        """Begin, or go on with an earlier conversation."""
        self.query_one(TranscriptView).mount(Rows(self._about, id="about"), before=0)
        self.query_one(Prompt).focus()
        self.set_interval(_FRAME_SECONDS, self._draw_if_stale)
        if self._talk is not None:
            await self._open(self._talk)
        self.changed()

    # -------------------------------------------------------------------------------------- what the conversation says

    def said(self, turn: int, delta: str) -> None:
        """Show a piece of what the assistant is saying."""
        if self.is_running:
            self.query_one(TranscriptView).say(turn, delta)

    def changed(self) -> None:
        """Have the screen drawn anew, soon."""
        self._stale = True

    def _draw_if_stale(self) -> None:
        if self._stale and self.screen_stack and self.is_running:
            self._stale = False
            self.draw()

    def draw(self) -> None:
        """Show the conversation as it stands."""
        talk, main = self.conversation, self.screen_stack[0]
        entries: list[TranscriptEntry] = [entry for past in [*talk.past, talk.now] for entry in past.entries]
        view = main.query_one(TranscriptView)
        view.settle(talk.now.turns, at_work=talk.at_work)
        view.show(entries)
        main.query_one(SideView).show(talk)
        main.query_one("#state", Rows).redraw()
        main.query_one("#top", Rows).redraw()
        self._show_requests(main.query_one(ChatRequestView), main.query_one(Prompt))

    def _show_requests(self, view: ChatRequestView, prompt: Prompt) -> None:
        came_up = view.show(self.conversation.waiting)
        if came_up and not prompt.text and len(self.screen_stack) == 1:
            view.take_focus()
        elif view.request is None and len(self.screen_stack) == 1 and self.focused is not prompt:
            prompt.focus()

    def _top_rows(self, width: int) -> Iterator[Row]:
        title, run = self.conversation.title, self.conversation.run_id[:12]
        told = f"{run}  {escape(' '.join(title.split()), keep='')}" if run else "a new conversation"
        yield [("title", "keyturn chat"), ("quiet", f"  {told}"[: max(width - 12, 0)])]

    def _state_rows(self, width: int) -> Iterator[Row]:
        talk = self.conversation
        if talk.held_by:
            yield from labelled("waits", "waiting for another process to release the run", talk.held_by, width)
        elif talk.fault:
            yield from labelled("bad", "stopped", talk.fault, width)
            yield from ours("quiet", "Press ctrl+g to retry, or send a message.", width)
        elif talk.waiting:
            count = len(talk.waiting)
            if self.query_one(ChatRequestView).has_focus_within:
                yield from ours("waits", "{} pending: press a key below to decide.", width, count)
            else:
                yield from ours("waits", "{} pending: press Tab, then a key, to decide.", width, count)
        elif talk.stopped and talk.open and not talk.at_work:
            yield from ours("waits", "Stopped. Press ctrl+g to continue, or send a message.", width)
        elif talk.at_work:
            yield [("runs", "working"), ("quiet", f"  {summary(talk.now, talk.usage)}")]
        else:
            yield [("good", "ready"), ("quiet", f"  {summary(talk.now, talk.usage)}")]

    # ------------------------------------------------------------------------------------------- what the person says

    def on_descendant_focus(self) -> None:
        """Say where keys go now."""
        for rows in self.screen_stack[0].query("#state").results(Rows) if self.screen_stack else ():
            rows.redraw()

    async def on_prompt_sent(self, message: Prompt.Sent) -> None:
        """Say it; an empty line goes on with what was stopped."""
        if message.text:
            self._do(self.conversation.say(message.text))
        elif self.conversation.can_go_on:
            self.conversation.go_on()
            self.changed()

    def action_stop(self) -> None:
        """Stop the work, or come back to the prompt."""
        if self.conversation.at_work:
            self.conversation.stop()
        self.query_one(Prompt).focus()

    def action_go_on(self) -> None:
        """Go on with a run that was stopped, or try again what failed."""
        if self.conversation.can_go_on:
            self.conversation.go_on()
            self.changed()

    def action_panel(self) -> None:
        """Show the panel, or hide it."""
        self.screen_stack[0].toggle_class("-flipped")

    def action_whole(self) -> None:
        """Show all rows of every entry, or the first ones."""
        self.screen_stack[0].query_one(TranscriptView).toggle()

    def action_keys(self) -> None:
        """Say what the keys do."""
        if self.can_ask:
            self.push_screen(TextDialog("Keys", help_rows))

    def action_drop(self) -> None:
        """Cancel the run, if the person means it."""
        if self.conversation.open and self.can_ask:
            self.run_worker(self._drop())

    async def _drop(self) -> None:
        words: LiteralString = "Pending calls will not run, and running calls are stopped. Type yes to cancel the run."
        typed = await self.push_screen_wait(LineDialog("Cancel this run", words, lambda width: ()))
        if typed == "yes":
            await self._done(self.conversation.drop())

    async def action_new(self) -> None:
        """Begin another conversation; the run of this one stays in the journal."""
        if len(self.screen_stack) == 1:
            await self._open(None)

    def action_talks(self) -> None:
        """List earlier conversations."""
        if self.can_ask:
            self.run_worker(self._choose_talk())

    async def _choose_talk(self) -> None:
        chosen = await self.push_screen_wait(TalksDialog(await talks_in(self.assistant.store)))
        if chosen is not None:
            await self._open(chosen)

    async def _open(self, talk: Talk | None) -> None:
        await self.conversation.close()
        self.conversation = ChatConversation(self.assistant, self, talk)
        self.query_one(TranscriptView).settle(0, at_work=False)
        if talk is not None:
            await self._done(self.conversation.load(talk))
        self.changed()

    async def action_quit(self) -> None:
        """Leave; a run that is not over stays in the journal, and can be gone on with."""
        talk = self.conversation
        await talk.close()
        self.exit(talk.run_id if talk.open else "")

    def action_help_quit(self) -> None:
        """Say how to leave, to somebody who types ctrl+c."""
        self.notify("ctrl+q quits; the run stays in the journal", markup=False)

    def _do(self, work: Awaitable[Any]) -> None:
        self.run_worker(self._done(work))

    async def _done(self, work: Awaitable[Any]) -> None:
        """Wait for work, and show what is wrong with it."""
        try:
            await work
        except (KeyturnError, BadJson) as error:
            self.conversation.fault = str(error)
        self.changed()
