"""Show one person each waiting call of one state, whole, and take a typed key as the decision.

An empty line and an unknown key decide nothing; Ctrl-C and the end of the input pass through. What a key does is a row
of the table at the end. This file asks and records; it runs nothing. Names, reasons, choices and errors are anybody's
words: they are labelled, never put into a sentence of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, LiteralString, NamedTuple

import msgspec

from ..core.errors import BadJson, KeyturnError
from ..core.records import Decision
from ..engine.states.state import RunState
from ..engine.views.items import ToolApprovalItem
from ..presenting.message_context import context_of
from ..presenting.proposed_grants import grant_for, how_long, proposed_grants
from ..presenting.shown_request import ShownRequest
from ..render.length import FIRST, is_long
from ..tools.base import InvalidArguments
from .given import GivenGrants
from .introduction import introduce, list_calls, point_out
from .screen import Terminal, interruptible


class ConsoleDesk:
    """Decides the calls of one state with a person."""

    def __init__(self, state: RunState[Any], screen: Terminal, by: str | None) -> None:
        self.state = state
        self.screen = screen
        self.by = by
        self.items: list[ToolApprovalItem] = []
        self.granted = GivenGrants()
        self.together: set[str] = set()  # calls that were decided at once with another one

    def settle_all(self, items: list[ToolApprovalItem]) -> None:
        """Say what is to come, and ask about one call after another."""
        self.items = items
        if len(items) > 1:
            list_calls(self.screen, items)
        for place, item in enumerate(items, 1):
            self.settle(item, place, len(items))

    def settle(self, item: ToolApprovalItem, place: int, count: int) -> None:
        """Ask about one call until it is decided or left."""
        decided = self.decision(item)
        if decided is not None:
            if item.call not in self.together:
                self.screen.label("Already decided", f"{item.qualified_name}: {decided.verdict}")
            return
        if self.granted.cover(item):
            self.screen.label("Covered by your grant", item.qualified_name or "")
            return
        request = ShownRequest(item)
        introduce(self.screen, item, place, count)
        point_out(self.screen, context_of(self.state.live.log.steps, item.call))
        self.present(request)
        while not self._decided(request):
            pass

    def decision(self, item: ToolApprovalItem) -> Decision | None:
        """Return what was decided about a call on this state, or None."""
        return self.state.undelivered.decisions.get(item.call)

    def rest(self, request: ShownRequest) -> list[ToolApprovalItem]:
        """Return the calls after this one that wait for approval as well."""
        calls = [item.call for item in self.items]
        later = self.items[calls.index(request.item.call) + 1 :] if request.item.call in calls else []
        return [
            item
            for item in later
            if item.kind == "approval" and not self.decision(item) and not self.granted.cover(item)
        ]

    def _decided(self, request: ShownRequest) -> bool:
        """Ask once; return True when the call needs no more asking."""
        screen, keys = self.screen, offered(request, together=bool(self.rest(request)))
        screen.say()
        screen.rule("Your decision")
        screen.offer((letter, key.word) for letter, key in keys.items())
        typed = screen.read("decide").lower()
        key = next((key for letter, key in keys.items() if typed in (letter, key.word)), None)
        if key is None:
            if typed:
                screen.label("Unknown key", typed)
                screen.say("Nothing was decided.")
            return False
        if key.runs and not request.seen_whole:
            screen.say("Not all rows are shown yet: press s first.")
            return False
        try:
            with interruptible():  # a tool is asked as well, which may take long
                return key.act(self, request)
        except KeyturnError as error:
            screen.label("Not decided", str(error))
            return False

    def leave(self) -> None:
        """Say what is kept of what was decided, to somebody who leaves."""
        kept = [(place, item, self.decision(item)) for place, item in enumerate(self.items, 1)]
        decided = [(place, item, made) for place, item, made in kept if made is not None]
        self.screen.say()
        if not decided:
            self.screen.say("Stopped. Nothing was decided, and no pending call has run.")
            return
        self.screen.say("Stopped. {} of {} calls are decided and kept; none of them has run.", len(decided), len(kept))
        for place, item, made in decided:
            self.screen.label("kept", f"{place}  {item.qualified_name}: {made.verdict}")

    def present(self, request: ShownRequest) -> None:
        """Show what would run: all of it, or its first rows and a mark that says what is missing."""
        rows = self.screen.rows(request.lines())
        request.seen_whole = request.seen_whole or not is_long(request.lines())
        for row in rows if request.seen_whole else rows[:FIRST]:
            self.screen.show(row)
        if not request.seen_whole:
            self.screen.say("[{} of {} rows are not shown]", max(len(rows) - FIRST, 0), len(rows))
            whole = sha256(msgspec.json.encode(request.preview())).hexdigest()
            self.screen.label("sha256 of the full preview", whole)


def _approve(desk: ConsoleDesk, request: ShownRequest) -> bool:
    desk.state.approve(request.item, edit=request.edit, seen=request.seen(), by=desk.by)
    desk.screen.decided("Approved." if request.edit is None else "Approved as you changed it.", runs=True)
    return True


def _grant(desk: ConsoleDesk, request: ShownRequest) -> bool:
    """Propose grants made of these arguments; an empty line grants nothing and decides nothing."""
    screen, item = desk.screen, request.item
    screen.say("A grant approves future calls of this tool by this agent. The first option is the narrowest:")
    made = proposed_grants(request.true_arguments, item.request.secrets, complete=request.complete)
    for number, each in enumerate(made, 1):
        screen.label("grant", f"{number}  {each.words}")
    chosen = {str(number): each for number, each in enumerate(made, 1)}.get(screen.read(_WHICH_GRANT))
    if chosen is None:
        screen.say("No such grant; nothing was decided.")
        return False
    screen.label("It would cover this call, and future calls with", chosen.words)
    terms = screen.read(_HOW_LONG)
    if not terms:
        screen.say("No grant was created; nothing was decided.")
        return False
    grant = grant_for(chosen, terms)
    desk.state.approve(item, edit=request.edit, seen=request.seen(), grant=grant, by=desk.by)
    if grant.uses is None and grant.expires is None:
        desk.granted.add(item, chosen.where)
    screen.decided("Approved, and a grant was created for future calls.", runs=True)
    screen.label("granted", f"{chosen.words}; {how_long(grant)}")
    return True


_WHICH_GRANT: LiteralString = "number of the grant; empty: no grant"
_HOW_LONG: LiteralString = "valid for? run: until this run ends; 3: three calls; 2h: two hours; empty: no grant"


def _reject(desk: ConsoleDesk, request: ShownRequest) -> bool:
    why = desk.screen.read("reason, which the model reads; empty: none")
    desk.state.reject(request.item, rejection_message=why or None, by=desk.by)
    desk.screen.decided("Rejected.", runs=False)
    return True


def _answer(desk: ConsoleDesk, request: ShownRequest) -> bool:
    words = desk.screen.read("the result that the model reads")
    if not words:
        desk.screen.say("The answer was empty; nothing was decided.")
        return False
    desk.state.answer(request.item, words, by=desk.by)
    desk.screen.decided("Answered. The tool does not run.", runs=False)
    return True


_PICK: LiteralString = "a choice, or its number"
_WRITE: LiteralString = "your answer; an object or a list in JSON"


def _tell(desk: ConsoleDesk, request: ShownRequest) -> bool:
    """Ask for an answer to what a tool asks; choices are the model's or a stranger's words."""
    for place, choice in enumerate(request.choices, 1):
        desk.screen.label("choice", f"{place}  {choice}")
    words = desk.screen.read(_PICK if request.choices else _WRITE)
    if not words:
        desk.screen.say("The answer was empty; nothing was decided.")
        return False
    try:
        answer = request.answer(words)
    except BadJson:
        desk.screen.say("More than one choice has this text: type its number. Nothing was decided.")
        return False
    desk.state.answer(request.item, answer, by=desk.by)
    desk.screen.decided("Answered. The tool continues with your answer.", runs=True)
    return True


def _refuse(desk: ConsoleDesk, request: ShownRequest) -> bool:
    why = desk.screen.read("reason, which the tool receives; empty: none")
    desk.state.reject(request.item, rejection_message=why or None, by=desk.by)
    desk.screen.decided("Rejected. The tool receives no answer.", runs=False)
    return True


def _edit(desk: ConsoleDesk, request: ShownRequest) -> bool:
    """Take one change: a wrong one is refused with the reason and asked again, an empty one changes nothing."""
    while text := desk.screen.read("what to change: a name, name=value, or all arguments as JSON; empty: no change"):
        try:
            if not _changed(desk, request, text):
                desk.screen.say("Nothing was changed.")
                continue
        except (InvalidArguments, BadJson, ValueError, OSError) as error:
            desk.screen.label("Invalid, nothing was changed", str(error))
        else:
            desk.screen.say()
            desk.present(request)
            desk.screen.say()
            desk.screen.draw(request.difference())
            return False
    return False


def _changed(desk: ConsoleDesk, request: ShownRequest, text: str) -> bool:
    """Change one argument, starting from its value if only its name was typed; return False if it stays."""
    if text not in request.arguments:
        request.change(text)
        return True
    typed = desk.screen.amend("new value; empty: no change", request.present(text))
    if typed is None:
        return False
    request.put(text, typed)
    return True


def _decide_rest(desk: ConsoleDesk, request: ShownRequest) -> bool:
    """Show the calls that wait beside this one, and take one decision for all of them."""
    screen = desk.screen
    others, left = _shown_beside(desk, request)
    screen.say()
    if left:
        screen.say("[not included, because of their length: {}; shown one by one]", left)
    screen.rule("Your decision on {} calls at once", len(others) + 1)
    screen.offer((("a", "approve them all"), ("r", "reject them all")))
    typed = screen.read("decide on all; empty: one by one").lower()
    if typed not in ("a", "r"):
        screen.say("Nothing was decided.")
        return False
    why = screen.read("reason, which the model reads; empty: none") if typed == "r" else ""
    kept = [each for each in (request, *others) if _took(desk, each, typed, why)]
    desk.together |= {each.item.call for each in kept}
    if len(kept) <= len(others):
        screen.say("{} of {} are decided.", len(kept), len(others) + 1)
        return request in kept
    told: LiteralString = "All of them are approved." if typed == "a" else "All of them are rejected."
    screen.decided(told, runs=typed == "a")
    return True


def _took(desk: ConsoleDesk, request: ShownRequest, typed: str, why: str) -> bool:
    """Record one decision for a call; return False if it was refused, which is shown with the call's place."""
    item = request.item
    try:
        if typed == "a":
            desk.state.approve(item, edit=request.edit, seen=request.seen(), by=desk.by)
        else:
            desk.state.reject(item, rejection_message=why or None, by=desk.by)
    except KeyturnError as error:
        desk.screen.label("Not decided", f"call {desk.items.index(item) + 1}: {error}")
        return False
    return True


def _shown_beside(desk: ConsoleDesk, request: ShownRequest) -> tuple[list[ShownRequest], int]:
    """Show the other calls whole, as far as a person can be expected to read on; and how many that leaves."""
    shown = list[ShownRequest]()
    rest = desk.rest(request)
    spare = FIRST * 3
    for item in rest:
        other = ShownRequest(item)
        spare -= len(desk.screen.rows(other.lines()))
        if spare < 0:
            break
        introduce(desk.screen, item, desk.items.index(item) + 1, len(desk.items))
        other.seen_whole = True
        desk.present(other)
        shown.append(other)
    return shown, len(rest) - len(shown)


def _ran(desk: ConsoleDesk, request: ShownRequest) -> bool:
    words = desk.screen.read("its result, if you know it; empty: unknown")
    desk.state.resolve(request.item, "ran", words or None, by=desk.by)
    desk.screen.decided("Recorded: it ran.", runs=False)
    return True


def _did_not_run(desk: ConsoleDesk, request: ShownRequest) -> bool:
    desk.state.resolve(request.item, "did_not_run", by=desk.by)
    desk.screen.decided("Recorded: it did not run, and will not run.", runs=False)
    return True


def _retry(desk: ConsoleDesk, request: ShownRequest) -> bool:
    desk.state.resolve(request.item, "retry", by=desk.by)
    desk.screen.decided("It will run again.", runs=True)
    return True


def _show_all(desk: ConsoleDesk, request: ShownRequest) -> bool:
    request.seen_whole = True
    desk.present(request)
    return False


def _later(desk: ConsoleDesk, request: ShownRequest) -> bool:
    desk.screen.decided("Left pending.", runs=False)
    return True


def _quit(desk: ConsoleDesk, request: ShownRequest) -> bool:
    raise EOFError


def _explain(desk: ConsoleDesk, request: ShownRequest) -> bool:
    for letter, key in offered(request, together=bool(desk.rest(request))).items():
        desk.screen.explain(letter, key.word + ": " + key.meaning)
    desk.screen.say("A decision applies to exactly this call.")
    desk.screen.label("digest", request.item.digest)
    return False


class DecisionKey(NamedTuple):
    """Describes what a key does; `runs` says that it lets the tool run."""

    word: LiteralString
    act: Callable[[ConsoleDesk, ShownRequest], bool]
    meaning: LiteralString
    runs: bool = False


KEYS: dict[LiteralString, DecisionKey] = {
    "a": DecisionKey("approve", _approve, "approve exactly this call", runs=True),
    "e": DecisionKey("edit", _edit, "edit its arguments; the edited call is shown before you approve it"),
    "r": DecisionKey("reject", _reject, "reject it; the model reads your reason"),
    "w": DecisionKey("write its result", _answer, "do not run it; the model reads your text as its result"),
    "g": DecisionKey("grant", _grant, "approve it, and create a grant for similar future calls", runs=True),
    "o": DecisionKey(
        "this and the others", _decide_rest, "see the other calls, then decide all of them at once", runs=True
    ),
    "d": DecisionKey("it ran", _ran, "it ran; the model reads the result, if you know it"),
    "n": DecisionKey("it did not run", _did_not_run, "it did not run, and will not run"),
    "t": DecisionKey("run it again", _retry, "run it again, although it may have run already", runs=True),
    "s": DecisionKey("show all", _show_all, "show all rows, which is required before you approve"),
    "l": DecisionKey("later", _later, "leave this call pending"),
    "q": DecisionKey("quit", _quit, "leave the run paused"),
    "?": DecisionKey("explain", _explain, "explain the keys"),
}
_OF_QUESTIONS: dict[LiteralString, DecisionKey] = {
    "w": DecisionKey("answer", _tell, "answer it; the tool continues with your answer", runs=True),
    "r": DecisionKey("reject", _refuse, "give no answer; the tool receives your reason"),
}
_OFFERED: dict[str, tuple[LiteralString, ...]] = {
    "approval": ("a", "e", "r", "w", "g", "o", "l", "q", "?"),
    "external": ("w", "r", "l", "q", "?"),
    "in_doubt": ("d", "n", "t", "l", "q", "?"),
}


def offered(request: ShownRequest, *, together: bool = False) -> dict[LiteralString, DecisionKey]:
    """Return the keys that this call, as it is now, can be decided with."""
    kind = request.item.kind
    letters = _OFFERED[kind] if request.seen_whole else ("s", *_OFFERED[kind])
    without = {"e": request.editable, "w": request.answerable, "o": together}
    keys = KEYS | _OF_QUESTIONS if kind == "external" else KEYS
    return {letter: keys[letter] for letter in letters if without.get(letter, True)}
