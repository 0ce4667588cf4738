"""A person at the keyboard decides: what waits is shown whole, and nothing but a typed choice approves it.

No model's or tool's text reaches the terminal except through the escaping renderer. An empty line, an unknown key,
Ctrl-C and the end of the input never decide anything. This file asks and records; it runs nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from .core.digest import canonical
from .core.errors import BadJson, KeyturnError, UserError
from .core.preview import REDACTED, Diff, Preview, Text, redact
from .core.strict import parse
from .engine.items import ItemHelpers, MessageOutputItem, ToolApprovalItem
from .engine.result import RunResult
from .engine.state import RunState
from .engine.stream import RunResultStreaming
from .policies.grants import Grant
from .render.escape import escape
from .render.names import mixed_script
from .render.terminal import render, wants_colour
from .tools.base import InvalidArguments

ROWS = 40  # what a person can be expected to have read without asking for the rest

_KEYS = {
    "a": ("approve", "let exactly this call run"),
    "e": ("edit", "change its arguments first; you see the changed call before you approve it"),
    "r": ("reject", "do not run it; the model reads your reason"),
    "w": ("write its result", "do not run it; the model reads what you write as the tool's result"),
    "g": ("grant", "approve it, and later calls of this tool by this agent"),
    "d": ("it ran", "it did happen; the model reads what you say of it"),
    "n": ("it did not run", "it never happened, and is not to"),
    "t": ("try again", "run it now, even if it may have run before"),
    "s": ("show all", "show every row: nothing can be approved before"),
    "l": ("later", "leave this call waiting"),
    "q": ("quit", "leave the run paused"),
    "?": ("explain", "say more about this call and these keys"),
}
_OFFERED = {"approval": "aerwglq?", "external": "wrlq?", "in_doubt": "dntlq?"}
_NEEDS_ALL = "agt"

_IN_DOUBT = "It was started, and nobody can say whether it happened: the process died or was stopped in the middle."


class Undecided(KeyturnError):
    """Nobody decided. Nothing that waits was approved; `state` is the paused run, to be saved or resumed.

    It carries the decisions that were made before somebody left.

    >>> Undecided(RunState(None, "hi", Agent("a"))).state.get_interruptions()
    []
    """

    def __init__(self, state: RunState[Any]) -> None:
        self.state = state
        super().__init__(
            "nobody decided, and nothing that waits has run; keep the run with error.state.to_string() and resume it "
            "when somebody has"
        )


def decide(
    waiting: RunResult | RunResultStreaming | RunState[Any],
    *,
    by: str | None = None,
    ask: Callable[[str], str] | None = None,
    show: Callable[[str], object] = print,
    colour: bool | None = None,
    width: int | None = None,
) -> RunState[Any]:
    """Ask the person at the keyboard about each waiting call; the state that comes back holds the decisions.

    Give it to the runner: `result = await Runner.run(agent, decide(result))`. Raises `Undecided` at the end of the
    input, at Ctrl-C, and when nothing was decided. `ask` and `show` stand for `input` and `print`.

    >>> decide(RunState(None, "hi", Agent("a")), ask=lambda prompt: "q").get_interruptions()
    []
    """
    state = waiting if isinstance(waiting, RunState) else waiting.to_state()
    items = state.get_interruptions()
    desk = _Desk(state, by, ask, show)
    desk.colour = wants_colour(sys.stdout) if colour is None else colour
    desk.width = width or shutil.get_terminal_size((100, 24)).columns
    try:
        desk.show_words(waiting)
        for place, item in enumerate(items, 1):
            desk.settle(item, f"{place} of {len(items)}")
    except (EOFError, KeyboardInterrupt):
        raise Undecided(state) from None
    if items and not state.undelivered.decisions:
        raise Undecided(state)
    return state


class _Desk:
    """One person and one state: what was granted so far, and how things are shown."""

    def __init__(
        self, state: RunState[Any], by: str | None, ask: Callable[[str], str] | None, show: Callable[[str], object]
    ) -> None:
        self.state, self.by, self.show = state, by, show
        self.ask = ask or input
        self.typed = ask is None
        self.colour = False
        self.width = 100
        self._granted: set[tuple[int, str | None]] = set()

    # -------------------------------------------------------------------------------------------------- one call

    def settle(self, item: ToolApprovalItem, place: str) -> None:
        """Ask about one call until it is decided or left."""
        if any(one.call == item.call for one in self.state.undelivered.decisions):
            return
        if self._covers(item):
            self.say(f"{_name(item)} needs no answer: what you granted covers it.")
            return
        request = _Request(item)
        self.introduce(request, place)
        while True:
            if not request.whole:
                self.say(f"{request.hidden} more rows: s shows them, and nothing can be approved before.")
            keys = _offered(request)
            self.say("  ".join(f"{self.bold(key)} {_KEYS[key][0]}" for key in keys))
            self._forget_what_was_typed()
            key = self.ask("  decide > ").strip()
            if key in keys and self._act(request, key):
                return
            if key and key not in keys:
                self.say(f"{escape(key, keep='')!r} is not one of {', '.join(keys)}. Nothing was decided.")

    def _act(self, request: _Request, key: str) -> bool:
        """Do what a key says; True when the call needs no more asking."""
        if key in _NEEDS_ALL and not request.whole:
            return False
        item = request.item
        try:
            return bool(_ACTS[key](self, request, item))
        except (UserError, KeyturnError) as error:
            self.say(f"Not decided: {escape(str(error), keep='')}")
            return False

    def _approve(self, request: _Request, item: ToolApprovalItem) -> bool:
        self.state.approve(item, edit=request.edit, by=self.by)
        self.say("Approved as you changed it." if request.edit is not None else "Approved.")
        return True

    def _grant(self, request: _Request, item: ToolApprovalItem) -> bool:
        terms = self.ask("  For how long? Empty: this whole run. 3: three more calls. 2h: two hours. > ").strip()
        grant = Grant(uses=int(terms)) if terms.isdigit() else Grant(expires=terms or None)
        self.state.approve(item, edit=request.edit, grant=grant, by=self.by)
        if not terms:
            self._granted.add((id(item.agent), item.tool_name))
        self.say(f"Approved, and later calls of {_name(item)} too, whatever their arguments.")
        return True

    def _covers(self, item: ToolApprovalItem) -> bool:
        return item.kind == "approval" and (id(item.agent), item.tool_name) in self._granted

    def _reject(self, request: _Request, item: ToolApprovalItem) -> bool:
        why = self.ask("  Why? The model reads this; empty gives no reason. > ").strip()
        self.state.reject(item, rejection_message=why or None, by=self.by)
        self.say("Rejected.")
        return True

    def _answer(self, request: _Request, item: ToolApprovalItem) -> bool:
        words = self.ask("  The result, as the model reads it > ").strip()
        if not words:
            self.say("Nothing was written, so nothing was decided.")
            return False
        self.state.answer(item, words, by=self.by)
        self.say("Answered; the tool does not run.")
        return True

    def _ran(self, request: _Request, item: ToolApprovalItem) -> bool:
        words = self.ask("  What came of it? Empty: you only know that it ran. > ").strip()
        self.state.resolve(item, "ran", words or None, by=self.by)
        return True

    def _did_not_run(self, request: _Request, item: ToolApprovalItem) -> bool:
        self.state.resolve(item, "did_not_run", by=self.by)
        return True

    def _retry(self, request: _Request, item: ToolApprovalItem) -> bool:
        self.state.resolve(item, "retry", by=self.by)
        return True

    def _later(self, request: _Request, item: ToolApprovalItem) -> bool:
        self.say("Left waiting.")
        return True

    def _quit(self, request: _Request, item: ToolApprovalItem) -> bool:
        raise EOFError

    def _show_all(self, request: _Request, item: ToolApprovalItem) -> bool:
        request.whole = True
        self.present(request)
        return False

    def _explain(self, request: _Request, item: ToolApprovalItem) -> bool:
        for key in _offered(request):
            self.say(f"{self.bold(key)} {_KEYS[key][0]}: {_KEYS[key][1]}")
        self.say(f"Your decision is for exactly these bytes: digest {item.digest}")
        return False

    def _edit(self, request: _Request, item: ToolApprovalItem) -> bool:
        """One change: a wrong one is refused with the reason and asked again, an empty one changes nothing."""
        while True:
            text = self.ask("  name=value, or all arguments as JSON; empty changes nothing > ").strip()
            if not text:
                return False
            try:
                request.change(text)
                break
            except (InvalidArguments, BadJson) as error:
                self.say(f"Refused, and nothing was changed: {escape(str(error), keep='')}")
        self.present(request)
        self.draw(request.difference())
        return False

    # -------------------------------------------------------------------------------------------------- what is seen

    def introduce(self, request: _Request, place: str) -> None:
        """Who wants what, why it asks, and what exactly would run."""
        item = request.item
        self.show("")
        self.say(self.bold(f"{escape(item.agent.name, keep='')} wants to run {_name(item)}") + f"  ({place})")
        for name in (item.agent.name, item.qualified_name or ""):
            doubt = mixed_script(name)
            if doubt:
                self.say(f"Beware: the name {escape(name, keep='')} {doubt}.")
        if item.kind == "in_doubt":
            self.say(_IN_DOUBT)
        if item.reason:
            self.say(f"It asks because: {escape(item.reason, keep='')}")
        if item.difference:
            sides = {side: json.dumps(value, indent=2) for side, value in item.difference.items()}
            self.draw(Preview((Diff(sides["before"], sides["after"], label="the tool itself changed"),)))
        self.present(request)

    def present(self, request: _Request) -> None:
        """The preview of what would run now: all of it, or its first rows with a mark of how many there are."""
        rows = self.rows(request.preview())
        request.whole = request.whole or len(rows) <= ROWS
        request.hidden = 0 if request.whole else len(rows) - ROWS
        for row in rows if request.whole else rows[:ROWS]:
            self.show(row)

    def show_words(self, waiting: Any) -> None:
        """What the model itself said just before, marked as its own words."""
        if isinstance(waiting, RunState):
            return
        said = [item for item in waiting.new_items if not isinstance(item, ToolApprovalItem)]
        last = next((item for item in reversed(said) if isinstance(item, MessageOutputItem)), None)
        words = "" if last is None else ItemHelpers.text_message_output(last)
        if words:
            self.draw(Preview((Text(words, label="the model's own words, which nobody checked"),)))

    def draw(self, preview: Preview) -> None:
        """A preview, whole."""
        for row in self.rows(preview):
            self.show(row)

    def rows(self, preview: Preview) -> list[str]:
        """A preview as rows, all set in by as much."""
        drawn = render(preview, colour=self.colour, width=self.width - 2)
        return ["  " + row if row else "" for row in drawn.split("\n")]

    def say(self, words: str) -> None:
        """A line of ours."""
        self.show("  " + words)

    def bold(self, words: str) -> str:
        """Words that stand out, where there is colour."""
        return f"\x1b[1m{words}\x1b[0m" if self.colour else words

    def _forget_what_was_typed(self) -> None:
        """What was typed before a call was on the screen cannot be a decision about it."""
        if not self.typed or not sys.stdin.isatty():
            return
        try:
            import termios
        except ImportError:  # not a Unix terminal: nothing to forget with
            return
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


class _Request:
    """One waiting call in a person's hands: what it was, and what they would make of it."""

    def __init__(self, item: ToolApprovalItem) -> None:
        self.item = item
        self.edit: dict[str, Any] | None = None
        self.whole = False
        self.hidden = 0

    @property
    def editable(self) -> bool:
        """Whether there are named arguments, and a tool to check them."""
        return self.item.tool is not None and isinstance(self.item.params, dict)

    def preview(self) -> Preview:
        """What would run if it were approved now."""
        return self.item.preview if self.edit is None else self.item.tool.preview(self.edit)

    def change(self, text: str) -> None:
        """Take a change, or raise: the tool checks it as it checks the model's arguments."""
        now = self._arguments()
        if text.startswith("{"):
            wanted: Any = _unredacted(parse(text), self._shown(now), now)
        else:
            name, equals, value = text.partition("=")
            if not equals:
                raise BadJson("neither name=value nor a JSON object")
            wanted = {**now, name.strip(): _value(value.strip(), now.get(name.strip()))}
        self.edit = self.item.tool.edit(wanted).params
        self.whole = False

    def difference(self) -> Preview:
        """The arguments as the model gave them and as they are now."""
        before, after = (
            json.dumps(self._shown(value), indent=2, ensure_ascii=False) for value in (self._own(), self.edit)
        )
        return Preview((Diff(before, after, label="your change"),))

    def _own(self) -> dict[str, Any]:
        """The true arguments: `params` shows secrets redacted, and a mark must never run as a password."""
        return cast("dict[str, Any]", parse(self.item.text or "{}"))

    def _arguments(self) -> dict[str, Any]:
        return self._own() if self.edit is None else self.edit

    def _shown(self, value: Any) -> Any:
        return redact(value, self.item.tool.secrets)


def _unredacted(wanted: Any, shown: Any, true: Any) -> Any:
    """`wanted` with each mark that was left as it was shown replaced by what it stood for."""
    if wanted == REDACTED and shown == REDACTED:
        return true
    if isinstance(wanted, dict) and isinstance(shown, dict) and isinstance(true, dict):
        before, values = cast("dict[str, Any]", shown), cast("dict[str, Any]", true)
        given = cast("dict[str, Any]", wanted)
        return {name: _unredacted(value, before.get(name), values.get(name)) for name, value in given.items()}
    return wanted


def _value(text: str, now: Any) -> Any:
    """What was typed as a value: a text stays one where one stood, all else is read as JSON if it is."""
    if isinstance(now, str) and not text.startswith('"'):
        return text
    try:
        return parse(text)
    except BadJson:
        return text


def _name(item: ToolApprovalItem) -> str:
    return escape(item.qualified_name or "", keep="")


def _offered(request: _Request) -> str:
    keys = _OFFERED[request.item.kind]
    keys = keys if request.editable else keys.replace("e", "")
    return keys if request.whole else "s" + keys


_ACTS: Mapping[str, Callable[[_Desk, _Request, ToolApprovalItem], bool]] = {
    "a": _Desk._approve,
    "e": _Desk._edit,
    "r": _Desk._reject,
    "w": _Desk._answer,
    "g": _Desk._grant,
    "d": _Desk._ran,
    "n": _Desk._did_not_run,
    "t": _Desk._retry,
    "s": _Desk._show_all,
    "l": _Desk._later,
    "q": _Desk._quit,
    "?": _Desk._explain,
}
