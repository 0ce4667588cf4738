"""Take a person's letter for a request, ask what goes with it, and hand it to the inbox, which alone decides.

What was refused is told where it was tried: who was first, by which word, how long before, and whether anything ran.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, LiteralString, Unpack

from ..core.approval import Approval
from ..core.errors import BadJson, KeyturnError
from ..core.people import Proof
from ..inbox.naming import Outcome
from ..inbox.personal import SIGNABLE, Details, Marking, Verdict, signed_of
from ..journal.rows import RequestRow
from ..presenting.asking import STATES, is_held, unrecorded
from ..presenting.recorded import ANSWERS, Recorded, overrules, starts_with
from ..presenting.shown_request import ShownRequest
from ..screens.asking import TextDialog
from ..screens.call_view import CallView
from ..screens.editing import EditDialog
from ..screens.granting import GrantDialog
from ..screens.letters_app import LettersApp
from ..screens.quiet import Quiet
from .dialogs import AlikeDialog
from .help import help_rows
from .reading import Detail, InboxSeat
from .request_view import InboxRequestView
from .signing import SignDialog, sign_off_screen

_AGAIN = 5.0  # seconds within which a second key means it


class InboxDecidingApp(LettersApp[None]):
    """Decides the request of its view, for who sits at it."""

    seat: InboxSeat
    _meant: tuple[str, str, float] = ("", "", 0.0)

    @property
    def view(self) -> InboxRequestView:
        """Return the view of the request."""
        return self.screen_stack[0].query_one(InboxRequestView)

    def now(self) -> int:
        """Return the journal's time."""
        raise NotImplementedError

    async def look(self, *, renew: bool = False) -> None:
        """See what is so now."""
        raise NotImplementedError

    @property
    def away(self) -> str:
        """Return why nothing can be read now, "" where it can."""
        raise NotImplementedError

    async def act(self, letter: str, request: ShownRequest) -> None:
        """Do what a letter says of the request, whose terms are those of the view."""
        if self._shows(request):
            await LETTERS[letter](self, request)
        else:
            self.say_of(request, "Nothing was recorded: you moved to another request first", style="waits")

    def on_call_view_chosen(self, message: CallView.Chosen) -> None:
        """Do what a letter says of the request, where that can be recorded."""
        if self.away:
            self.view.say("Nothing was recorded: the connection is lost. Try again once it is back.")
            message.prevent_default()

    def _shows(self, request: ShownRequest) -> bool:
        """Return whether a request is on the screen, asked as it was when its person had it before them."""
        shown = self.view.request
        return shown is not None and _asking(shown) == _asking(request)

    def say_of(self, request: ShownRequest, lead: LiteralString, text: str = "", style: LiteralString = "bad") -> None:
        """Say what came of a letter: beside its request, or with its name where another one is on the screen."""
        item, detail = request.item, self.view.detail
        if detail is None or detail.row.id != item.request_id:
            text = f"{item.qualified_name}, request {item.request_id[:8]}{': ' if text else ''}{text}"
        self.view.say(lead, text, style)

    def _say_refused(self, request: ShownRequest, error: Exception) -> None:
        why = unrecorded(error, self.now())
        self.say_of(request, why.heading, why.why)

    async def record(
        self, request: ShownRequest, word: Callable[[], Awaitable[RequestRow]], done: LiteralString = "Recorded"
    ) -> None:
        """Record a word on a request, or show what the gate has against it."""
        name = request.item.request_id
        self._own.add(name)  # that it changed is said here, with what came of this decision
        try:
            row = await word()
        except (KeyturnError, BadJson) as error:
            await self.look()
            self._say_refused(request, error)
            detail = self.view.detail
            if detail is not None and detail.row.id == name and detail.row.state == "open":
                self._own.discard(name)
            return
        await self.look()
        text = await self._came_of(row)
        self.say_of(request, done, text, "good")
        self._came = name, text

    async def _came_of(self, row: RequestRow) -> str:
        """Say what came of a decision that was just made, and which key undoes it."""
        try:
            return came_words(row, (await self.seat.reads(row.id)).recorded)
        except KeyturnError:  # it is on record, and what came of it cannot be read
            return came_words(row, None)

    def say_what_came(self, detail: Detail) -> None:
        """Say anew what came of a decision that was made here, as long as that is still what is said below."""
        name, said = self._came
        if name == detail.row.id and said:
            text = came_words(detail.row, detail.recorded)
            self.view.renew_notice(said, text)
            self._came = name, text

    async def deliver(self, request: ShownRequest, verdict: Verdict, **details: Unpack[Details]) -> None:
        """Record a verdict on exactly what was shown, signed where the terms want that."""
        if verdict in SIGNABLE and self._signs():
            proof = await self._signed(request, _signed_as(verdict, details), details)
            if proof is None:
                return
            details["proof"] = proof
        await self.record(request, lambda: self.seat.decide(request, verdict, **details))

    async def mark_request(
        self, request: ShownRequest, mark: Marking, done: LiteralString, lasts: str | None = None
    ) -> None:
        """Mark exactly what was shown."""
        await self.record(request, lambda: self.seat.marks(request, mark, lasts), done)

    async def approve_call(self, request: ShownRequest) -> None:
        """Approve exactly what was shown; what is of high risk takes the key twice."""
        await self._approve(request)

    async def _approve(self, request: ShownRequest, **more: Any) -> None:
        if self._is_high() and not self._signs() and not self._meant_it(request):
            starts = starts_with(request.item.request)
            lead: LiteralString = "High risk: press a again to approve"
            self.view.say(lead, f"{request.item.qualified_name or ''}; {starts}", "waits")
            return
        note = await self._reason(request, "approve")
        if note is None:
            return
        noted: dict[str, Any] = {"note": note} if note else {}
        await self.deliver(request, "approve", edit=request.edit, seen=request.seen(), **noted, **more)

    async def break_glass(self, request: ShownRequest) -> None:
        """Approve alone in an emergency, with a reason; others are told."""
        words: LiteralString = "Reason. You approve it alone; others are notified, and it is reviewed afterwards."
        why = await self._needed(request, "Emergency override", words)
        if why:
            await self.deliver(request, "approve", break_glass=True, note=why)

    async def grant_calls(self, request: ShownRequest) -> None:
        """Approve it with a grant that the person sees."""
        grant = await self.push_screen_wait(GrantDialog(request, session=False))
        if grant is not None:
            await self._approve(request, grant=grant)

    async def edit_call(self, request: ShownRequest) -> None:
        """Change its arguments; what was changed is shown before it can be approved."""
        if not request.editable:
            self.view.say("An edit is validated by its tool: open the inbox with --app module:app")
        elif await self.push_screen_wait(EditDialog(request, self.seat.edits)):
            self.view.redraw()

    async def reject_call(self, request: ShownRequest) -> None:
        """Reject it, with a reason that the model reads."""
        needed = self._terms().reason != "optional"
        words: LiteralString = (
            "reason, which the model reads" if needed else "reason, which the model reads; empty: none"
        )
        asks = self._needed if needed else self.line_for
        why = await asks(request, "Reject it", words, overrules(request.item.request))
        if why is None:
            return
        noted: dict[str, Any] = {"note": why} if needed else {}
        await self.deliver(request, "reject", message=why or None, **noted)

    async def ask_back(self, request: ShownRequest) -> None:
        """Ask the agent a question back: the call does not run."""
        words: LiteralString = "your question; the call does not run until the agent proposes it again"
        question = await self._needed(request, "Ask the agent", words)
        if question:
            await self.deliver(request, "ask_back", message=question)

    async def answer_call(self, request: ShownRequest) -> None:
        """Answer what is asked, or give the call's result."""
        question = request.item.kind == "external"
        words: LiteralString = "the result that the model reads"
        if question:
            words = "a choice, or its number" if request.choices else "your answer; an object or a list in JSON"
        final = ANSWERS if question else ""
        typed = await self._needed(request, "Answer it" if question else "Write its result", words, final)
        if typed:
            try:
                output = request.answer(typed) if question else typed
            except BadJson as error:
                self.say_of(request, "Not recorded", str(error))
                return
            await self.deliver(request, "answer", output=output)

    async def call_ran(self, request: ShownRequest) -> None:
        """Say that a call in doubt ran."""
        typed = await self.line_for(request, "It ran", "its result, if you know it; empty: unknown")
        if typed is not None:
            await self.deliver(request, "ran", output=typed or None)

    async def say_no(self, request: ShownRequest) -> None:
        """Say that a call in doubt did not run, or that one was wrong to let run, and why."""
        if request.item.kind != "review":
            await self.deliver(request, "did_not_run")
            return
        why = await self._needed(request, "It should not have run", "reason, for the audit log")
        if why:
            await self.deliver(request, "wrong", note=why)

    async def call_was_right(self, request: ShownRequest) -> None:
        """Say that it was right to let a call run."""
        await self.deliver(request, "right")

    async def retry_call(self, request: ShownRequest) -> None:
        """Have a call in doubt run again."""
        if self._meant_it(request):
            await self.deliver(request, "retry")
        else:
            self.view.say("It may have run already: press t again to run it once more", style="waits")

    async def decide_alike(self, request: ShownRequest) -> None:
        """Show the requests of the same tool with the same arguments, and say one word for all of them."""
        try:
            rows = await self.seat.alike(request)
        except KeyturnError as error:
            self._say_refused(request, error)
            return
        if not (self.can_ask and self._shows(request)):  # its person has gone on
            return
        rows = [row for row in rows if row.request.preview == request.item.request.preview]  # what was seen of one
        if len(rows) == 1:
            self.view.say("No other pending request has this tool and these arguments", style="waits")
            return
        if any(map(is_held, rows)) and not self._meant_it(request):
            self.view.say("High risk: press x again to decide all of them", request.item.qualified_name or "", "waits")
            return
        word = await self.push_screen_wait(AlikeDialog(rows, self.now()))
        if word is None:
            return
        note = await self._reason(request, word)
        if note is None:
            return
        try:
            outcomes = await self.seat.decide_all(word, rows, note or None)
        except KeyturnError as error:
            self._say_refused(request, error)
            return
        await self.look()
        self._tell_all(request, outcomes)

    def _tell_all(self, request: ShownRequest, outcomes: Sequence[Outcome]) -> None:
        refused = [outcome.error for outcome in outcomes if outcome.error is not None]
        said = f"{len(outcomes) - len(refused)} of {len(outcomes)}"
        if refused:
            why = unrecorded(refused[0], self.now()).why
            self.say_of(request, "Recorded", f"{said}; first failure: {why}")
        else:
            self.say_of(request, "Recorded", said, "good")

    async def claim(self, request: ShownRequest) -> None:
        """Say that you are on it, or not any more."""
        mark = request.item.request.claim if self.view.detail is None else self.view.detail.row.request.claim
        on_it = mark is not None and mark.by == self.seat.person and mark.until.timestamp() * 1000 > self.now()
        if on_it:
            await self.mark_request(request, "let_go", "Released")
        else:
            await self.mark_request(request, "take", "Claimed")

    async def put_off(self, request: ShownRequest) -> None:
        """Put it off for an hour, for yourself."""
        await self.mark_request(request, "snooze", "Snoozed for 1 hour", "1h")

    async def withdraw(self, request: ShownRequest) -> None:
        """Withdraw one's own vote while others are still needed, or an approval before its call starts."""
        await self.deliver(request, "withdraw")

    def _terms(self) -> Approval:
        detail = self.view.detail
        terms = None if detail is None else detail.row.request.terms
        return terms or Approval()

    async def _reason(self, request: ShownRequest, word: str) -> str | None:
        """Ask for a reason where the terms want one; None leaves it."""
        wanted = self._terms().reason
        if wanted == "required" or (wanted == "on_reject" and word == "reject"):
            return await self._needed(request, "Reason, for the audit log", "a reason is required")
        return ""

    async def _needed(
        self, request: ShownRequest, title: LiteralString, words: LiteralString, note: str = ""
    ) -> str | None:
        """Ask for a line that may not be empty; None where there is none, and an empty one is refused in words."""
        typed = await self.line_for(request, title, words, note)
        if typed == "":
            self.say_of(request, "Nothing was recorded: the line was empty", style="waits")
        return typed or None

    def _signs(self) -> bool:
        """Return whether it takes the person's signature."""
        return self.view.detail is not None and self.view.detail.standing.signs

    async def _signed(self, request: ShownRequest, verdict: Verdict, details: Details) -> Proof | None:
        """Have the person sign what they say of what was shown; None where nothing was signed, and why is said."""
        try:
            key = await self.seat.key()
            challenge = await self.seat.challenge(request, verdict, details)
            if not (self.can_ask and self._shows(request)):
                self.say_of(request, "Nothing was signed: you moved to another request first", style="waits")
                return None
            if not await self.push_screen_wait(SignDialog(request, signed_of(verdict, details)[0], key)):
                return None
            return sign_off_screen(self, challenge, key)
        except (KeyturnError, BadJson) as error:
            self.say_of(request, "Not recorded, your signature is required", f"{error}. {self._elsewhere()}")
            return None

    def _elsewhere(self) -> str:
        """Say how it is signed elsewhere."""
        detail = self.view.detail
        return "" if detail is None else f"In another terminal: {self.seat.signing(detail.row)}"

    def _is_high(self) -> bool:
        return self.view.detail is not None and is_held(self.view.detail.row)

    def _meant_it(self, request: ShownRequest) -> bool:
        """Return whether this is the second time, soon after the first, for exactly this call as it is changed."""
        item, now = request.item, self.pressed_at
        about = f"{item.request_id} {item.digest} {request.edit!r}"
        before, self._meant = self._meant, (about, "", now)
        meant = before[0] == about and Quiet.grace <= now - before[2] <= _AGAIN
        if meant:
            self._meant = ("", "", 0.0)
        return meant

    def action_keys(self) -> None:
        """Say what the keys do."""
        if self.can_ask:
            self.push_screen(TextDialog("Keys", help_rows))

    def __init__(self) -> None:
        super().__init__()
        self._own = set[str]()  # requests that were decided here: nobody is told of those
        self._came = ("", "")  # the request that was decided last, and what was said of it


def came_words(row: RequestRow, made: Recorded | None) -> str:
    """Return what came of a decision, and which key undoes it."""
    if made is None:
        return "" if row.state == "open" else STATES.get(row.state, row.state)
    if made.undo == "approval":
        return f"{made.heading} {made.then.removesuffix('.')}: press u."
    return f"{made.heading} {made.then}{' Press u to withdraw your vote.' if made.undo else ''}"


def _asking(request: ShownRequest) -> tuple[str, str, int]:
    return request.item.request_id, request.item.digest, request.item.request.revision


def _signed_as(verdict: Verdict, details: Details) -> Verdict:
    """Return the verdict that is signed: an approval with other arguments is an edit."""
    return "edit" if verdict == "approve" and details.get("edit") is not None else verdict


LETTERS: dict[str, Callable[[InboxDecidingApp, ShownRequest], Awaitable[None]]] = {
    "a": InboxDecidingApp.approve_call,
    "g": InboxDecidingApp.grant_calls,
    "e": InboxDecidingApp.edit_call,
    "r": InboxDecidingApp.reject_call,
    "w": InboxDecidingApp.answer_call,
    "d": InboxDecidingApp.call_ran,
    "N": InboxDecidingApp.say_no,
    "y": InboxDecidingApp.call_was_right,
    "t": InboxDecidingApp.retry_call,
    "b": InboxDecidingApp.ask_back,
    "x": InboxDecidingApp.decide_alike,
    "c": InboxDecidingApp.claim,
    "z": InboxDecidingApp.put_off,
    "u": InboxDecidingApp.withdraw,
    "!": InboxDecidingApp.break_glass,
}
