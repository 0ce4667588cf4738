"""One person and one state: each waiting call is shown whole, and a typed key decides it.

An empty line and an unknown key decide nothing; Ctrl-C and the end of the input pass through. What a key does is a row
of the table at the end. This file asks and records; it runs nothing. Names, reasons, choices and errors are anybody's
words: they are labelled, never put into a sentence of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, LiteralString, NamedTuple

import msgspec

from ..core.errors import BadJson, KeyturnError
from ..core.preview import Diff, Preview
from ..engine.states.state import RunState
from ..engine.views.items import ToolApprovalItem
from ..policies.grants import Grant
from ..render.names import mixed_script
from ..tools.base import InvalidArguments, tool_digest
from .request import ShownRequest
from .screen import Terminal

_WANTS: dict[str, LiteralString] = {
    "approval": "wants to run",
    "in_doubt": "wants to run",
    "external": "needs an answer for",
}
ROWS = 40  # what a person can be expected to read without asking for the rest

_IN_DOUBT: LiteralString = (
    "It was started, and nobody can say whether it happened: the process died or was stopped in the middle."
)


class Desk:
    """Where one state is decided."""

    def __init__(self, state: RunState[Any], screen: Terminal, by: str | None) -> None:
        self.state = state
        self.screen = screen
        self.by = by
        self.granted: set[tuple[int, str | None]] = set()  # by agent and tool

    def settle(self, item: ToolApprovalItem, place: int, count: int) -> None:
        """Ask about one call until it is decided or left."""
        decided = self.state.undelivered.decisions.get(item.call)
        if decided is not None:
            self.screen.label("Decided before", f"{item.qualified_name}: {decided.verdict}")
            return
        if item.kind == "approval" and _granted(item) in self.granted:
            self.screen.label("What you granted covers it", item.qualified_name or "")
            return
        request = ShownRequest(item)
        self._introduce(item, place, count)
        self.present(request)
        while not self._decided(request):
            pass

    def _decided(self, request: ShownRequest) -> bool:
        """Ask once. True when the call needs no more asking."""
        screen, keys = self.screen, offered(request)
        screen.say()
        screen.offer((letter, key.word) for letter, key in keys.items())
        typed = screen.read("decide").lower()
        key = next((key for letter, key in keys.items() if typed in (letter, key.word)), None)
        if key is None:
            if typed:
                screen.label("Not one of these keys", typed)
                screen.say("Nothing was decided.")
            return False
        if key.runs and not request.seen_whole:
            screen.say("There is more to see first: s shows it.")
            return False
        try:
            return key.act(self, request)
        except KeyturnError as error:
            screen.label("Not decided", str(error))
            return False

    def _introduce(self, item: ToolApprovalItem, place: int, count: int) -> None:
        """Say who wants what, and why it asks."""
        screen = self.screen
        agent = item.agent.name
        tool = item.qualified_name or ""
        screen.say()
        screen.stress("Call {} of {}", place, count)
        screen.label("agent", agent)
        screen.label(_WANTS[item.kind], tool)
        for name in (agent, tool):
            doubt = mixed_script(name)
            if doubt:
                screen.label("Beware", f"the name {name} {doubt}")
        if item.kind == "in_doubt":
            screen.say(_IN_DOUBT)
        if item.request.risk:
            screen.label("Its risk, as the tool states it", item.request.risk)
        if item.reason:
            screen.label("It asks because", item.reason)
        if item.expires_at is not None:
            screen.say("It waits until {:%Y-%m-%d %H:%M} UTC.", item.expires_at)
        if item.difference:
            before, after = (json.dumps(item.difference[side], indent=2) for side in ("before", "after"))
            screen.draw(Preview((Diff(before, after, label="the tool itself changed since it was shown"),)))

    def present(self, request: ShownRequest) -> None:
        """What would run: all of it, or its first rows and a mark that says what is missing."""
        preview = request.preview()
        rows = self.screen.rows(preview)
        request.seen_whole = request.seen_whole or len(rows) <= ROWS
        for row in rows if request.seen_whole else rows[:ROWS]:
            self.screen.show(row)
        if not request.seen_whole:
            self.screen.say("[{} of {} rows are not shown]", len(rows) - ROWS, len(rows))
            self.screen.label("sha256 of the whole", sha256(msgspec.json.encode(preview)).hexdigest())


def _approve(desk: Desk, request: ShownRequest) -> bool:
    desk.state.approve(request.item, edit=request.edit, seen=request.seen(), by=desk.by)
    desk.screen.decided("Approved." if request.edit is None else "Approved as you changed it.", runs=True)
    return True


def _grant(desk: Desk, request: ShownRequest) -> bool:
    item = request.item
    terms = desk.screen.read("for how long? empty: this whole run; 3: three more calls; 2h: two hours")
    grant = Grant(uses=int(terms)) if terms.isdecimal() else Grant(expires=terms or None)
    desk.state.approve(item, edit=request.edit, seen=request.seen(), grant=grant, by=desk.by)
    if not terms:
        desk.granted.add(_granted(item))
    desk.screen.decided(
        "Approved, and so is every later call of this tool by this agent, whatever its arguments.", runs=True
    )
    return True


def _granted(item: ToolApprovalItem) -> tuple[int, str | None]:
    """What a grant for a call is about. Two tools may have one name: those of two servers, say."""
    return id(item.agent), item.name if item.tool is None else tool_digest(item.tool, item.raw_item)


def _reject(desk: Desk, request: ShownRequest) -> bool:
    why = desk.screen.read("why? the model reads it; empty: no reason")
    desk.state.reject(request.item, rejection_message=why or None, by=desk.by)
    desk.screen.decided("Rejected.", runs=False)
    return True


def _answer(desk: Desk, request: ShownRequest) -> bool:
    words = desk.screen.read("its result, as the model reads it")
    if not words:
        desk.screen.say("Nothing was written, so nothing was decided.")
        return False
    desk.state.answer(request.item, words, by=desk.by)
    desk.screen.decided("Answered. The tool does not run.", runs=False)
    return True


_PICK: LiteralString = "one of these, or its number"
_WRITE: LiteralString = "your answer; an object or a list as JSON"


def _tell(desk: Desk, request: ShownRequest) -> bool:
    """Answer what a tool asks. Choices are the model's or a stranger's words."""
    for place, choice in enumerate(request.choices, 1):
        desk.screen.label("choice", f"{place}  {choice}")
    words = desk.screen.read(_PICK if request.choices else _WRITE)
    if not words:
        desk.screen.say("Nothing was written, so nothing was decided.")
        return False
    try:
        answer = request.answer(words)
    except BadJson:
        desk.screen.say("Several choices have these words: type a number. Nothing was decided.")
        return False
    desk.state.answer(request.item, answer, by=desk.by)
    desk.screen.decided("Answered. The tool goes on with it.", runs=True)
    return True


def _refuse(desk: Desk, request: ShownRequest) -> bool:
    why = desk.screen.read("why? its tool hears it; empty: no reason")
    desk.state.reject(request.item, rejection_message=why or None, by=desk.by)
    desk.screen.decided("Refused. The tool is told that there is no answer.", runs=False)
    return True


def _edit(desk: Desk, request: ShownRequest) -> bool:
    """One change: a wrong one is refused with the reason and asked again, an empty one changes nothing."""
    while text := desk.screen.read("name=value, or all arguments as JSON; empty: no change"):
        try:
            request.change(text)
        except (InvalidArguments, BadJson) as error:
            desk.screen.label("Refused, nothing was changed", str(error))
        else:
            desk.screen.say()
            desk.present(request)
            desk.screen.draw(request.difference())
            return False
    return False


def _ran(desk: Desk, request: ShownRequest) -> bool:
    words = desk.screen.read("what came of it? empty: you only know that it ran")
    desk.state.resolve(request.item, "ran", words or None, by=desk.by)
    desk.screen.decided("Noted: it ran.", runs=False)
    return True


def _did_not_run(desk: Desk, request: ShownRequest) -> bool:
    desk.state.resolve(request.item, "did_not_run", by=desk.by)
    desk.screen.decided("Noted: it did not run, and will not.", runs=False)
    return True


def _retry(desk: Desk, request: ShownRequest) -> bool:
    desk.state.resolve(request.item, "retry", by=desk.by)
    desk.screen.decided("It is tried again.", runs=True)
    return True


def _show_all(desk: Desk, request: ShownRequest) -> bool:
    request.seen_whole = True
    desk.present(request)
    return False


def _later(desk: Desk, request: ShownRequest) -> bool:
    desk.screen.decided("Left waiting.", runs=False)
    return True


def _quit(desk: Desk, request: ShownRequest) -> bool:
    raise EOFError


def _explain(desk: Desk, request: ShownRequest) -> bool:
    for letter, key in offered(request).items():
        desk.screen.explain(letter, key.word + ": " + key.meaning)
    desk.screen.say("A decision is for exactly this call and no other.")
    desk.screen.label("digest", request.item.digest)
    return False


class Key(NamedTuple):
    """What a key does; `runs` says that it lets the tool run."""

    word: LiteralString
    act: Callable[[Desk, ShownRequest], bool]
    meaning: LiteralString
    runs: bool = False


KEYS: dict[LiteralString, Key] = {
    "a": Key("approve", _approve, "let exactly this call run", runs=True),
    "e": Key("edit", _edit, "change its arguments; you see the changed call before you approve it"),
    "r": Key("reject", _reject, "do not run it; the model reads your reason"),
    "w": Key("write its result", _answer, "do not run it; the model reads what you write as its result"),
    "g": Key("grant", _grant, "approve it, and later calls of this tool by this agent", runs=True),
    "d": Key("it ran", _ran, "it did happen; the model reads what you know of it"),
    "n": Key("it did not run", _did_not_run, "it did not happen, and is not to"),
    "t": Key("try again", _retry, "run it now, even though it may have run before", runs=True),
    "s": Key("show all", _show_all, "show every row; nothing can be approved before"),
    "l": Key("later", _later, "leave this call waiting"),
    "q": Key("quit", _quit, "leave the run paused"),
    "?": Key("explain", _explain, "say what the keys do"),
}
_OF_QUESTIONS: dict[LiteralString, Key] = {
    "w": Key("answer", _tell, "answer it; the tool goes on with what you write", runs=True),
    "r": Key("reject", _refuse, "give no answer; the tool hears that, and your reason"),
}
_OFFERED: dict[str, tuple[LiteralString, ...]] = {
    "approval": ("a", "e", "r", "w", "g", "l", "q", "?"),
    "external": ("w", "r", "l", "q", "?"),
    "in_doubt": ("d", "n", "t", "l", "q", "?"),
}


def offered(request: ShownRequest) -> dict[LiteralString, Key]:
    """The keys that this call, as it is now, can be decided with."""
    kind = request.item.kind
    letters = _OFFERED[kind] if request.seen_whole else ("s", *_OFFERED[kind])
    without = {"e": request.editable, "w": request.answerable}
    keys = KEYS | _OF_QUESTIONS if kind == "external" else KEYS
    return {letter: keys[letter] for letter in letters if without.get(letter, True)}
