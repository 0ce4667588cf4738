"""Show one request whole: what would run first, then what is known of it, and the letters that this person has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, LiteralString

from textual.app import ComposeResult

from ..presenting.recorded import FINAL, starts_with
from ..presenting.shown_request import ShownRequest
from ..screens.call_view import CallView, Letter
from ..screens.drawing import Row, labelled, ours
from ..screens.rows import Rows
from .drawing import head_rows, known_rows, payload_rows
from .reading import Detail

#: What each letter does; each needs one of the verdicts beside it, none where there is none.
_LETTERS: dict[str, tuple[Letter, str]] = {
    "a": (Letter("approve", runs=True), "approve"),
    "e": (Letter("edit"), "edit"),
    "r": (Letter("reject"), "reject"),
    "w": (Letter("write its result"), "answer"),
    "g": (Letter("approve and grant", runs=True), "approve"),
    "d": (Letter("it ran"), "ran"),
    "N": (Letter("it did not run"), "did_not_run"),
    "t": (Letter("run it again", runs=True), "retry"),
    "y": (Letter("it was right"), "right"),
    "b": (Letter("ask the agent"), "reject"),
    "x": (Letter("all identical", runs=True), "approve"),
}
_FIRST = ("u", "a", "r", "e", "w", "d", "N", "y", "t", "s")  # that are named where there is little room
_FEW = 4
_ROOMY = 60  # columns
_BESIDE = {"c": Letter("claim"), "z": Letter("snooze")}
_VOTED = {"u": Letter("withdraw your vote")}
_APPROVED = {"u": Letter("withdraw the approval")}
_GLASS = {"!": Letter("emergency override", runs=True)}
_REST = {"s": Letter("show more")}


class InboxRequestView(CallView):
    """Shows a request, and passes on the letters that are typed."""

    def __init__(self, now: Callable[[], int], at: Callable[[], str], **options: Any) -> None:
        super().__init__(**options)
        self._now = now
        self._at = at  # the id of the request that the cursor is on
        self.detail: Detail | None = None
        self._told_late = False

    def compose(self) -> ComposeResult:
        """Put who asks, and the question, above all."""
        yield Rows(self._head_rows, id="head")
        yield from super().compose()

    @property
    def request(self) -> ShownRequest | None:
        """Return the request that is shown, in this person's hands; none once the cursor has moved on from it."""
        detail = self.detail
        return None if detail is None or detail.row.id != self._at() else detail.request

    @property
    def late(self) -> bool:
        """Return whether its time is up, whatever was recorded of that so far."""
        ends = None if self.detail is None else self.detail.row.expires_at
        return ends is not None and ends <= self._now()

    def show(self, detail: Detail | None) -> bool:
        """Show a request; return whether another one came up, or the same one asked anew."""
        before, self.detail = self.detail, detail
        if detail is not None and before is not None and before.request is detail.request:
            self.redraw()
            return False
        self._told_late = False
        same = before is not None and detail is not None and before.row.id == detail.row.id
        self.come_up(keeps=same)
        return detail is not None

    def redraw(self) -> None:
        """Draw it anew, with what stands above it."""
        if self.is_drawn:
            self.query_one("#head", Rows).redraw()
        super().redraw()

    def tick(self) -> None:
        """Draw the time that is left; where none is, there are no letters any more."""
        self.query_one("#head", Rows).redraw()
        if self.detail is not None and self.late and self.detail.row.state == "open" and not self._told_late:
            self._told_late = True
            self.query_one("#asked-keys", Rows).redraw()
            self.say("Expired. Nothing ran.")

    def letters(self, request: ShownRequest) -> dict[str, Letter]:
        """Return the letters that this person has for this request, as it stands now."""
        detail = self.detail
        if detail is not None and detail.recorded is not None and detail.recorded.undo == "approval":
            return dict(_APPROVED)
        if detail is None or detail.row.state != "open" or self.late:
            return {}
        made = {} if request.seen_whole else dict(_REST)
        verbs = detail.standing.verbs
        without = set[str]()
        if detail.row.kind != "approval":
            without |= {"b", "x", "e", "g"}
        if detail.standing.signs:
            without |= {"x", "g"}
        if detail.row.kind == "external":
            made["w"] = Letter("answer")
        if "wrong" in verbs:
            made["N"] = Letter("it was wrong")
        offered = {letter: each for letter, (each, verb) in _LETTERS.items() if verb in verbs and letter not in without}
        made = {letter: made.get(letter, each) for letter, each in offered.items()} | made
        if detail.standing.glass:
            made |= _GLASS
        if detail.standing.withdraws:
            made |= _VOTED
        if request.edit is not None:
            made.pop("x", None)
        return made | _BESIDE

    def say_why_not(self, letter: str) -> None:
        """Say why a letter does nothing here: the one that withdraws, or one that this person may not use."""
        if self.request is None or self.detail is None:
            return
        made, why = self.detail.recorded, self.detail.standing.why
        if letter == "u":
            self.say("Nothing to withdraw", "you have no vote on this request" if made is None else made.then, "waits")
        elif letter in _LETTERS and why:
            self.say("Nothing was recorded", why, "waits")

    def renew_notice(self, before: str, text: str) -> None:
        """Say something else where this is still what is said."""
        if self._notice and self._notice[0][2] == before != text:
            style, lead, _ = self._notice[0]
            self.say(lead, text, style)

    def key_words(self, request: ShownRequest) -> list[tuple[str, LiteralString]]:
        """Return the keys as they stand below the request; where there is little room, the first of them."""
        words = super().key_words(request)
        standing = None if self.detail is None else self.detail.standing
        if (
            standing is not None
            and standing.withdraws
            and standing.voted in ("approve", "edit")
            and request.edit is None
        ):
            words = [each for each in words if each[0] != "a"]  # it repeats the vote, and is no next step
        if self.size.width >= _ROOMY or len(words) <= _FEW:
            return words
        return [*(each for each in words if each[0] in _FIRST), ("?", "all keys")]

    def asked_rows(self, width: int) -> Iterator[Row]:
        """Draw what would run."""
        if self.detail is not None:
            yield from payload_rows(self.detail, width)

    def known_rows(self, width: int) -> Iterator[Row]:
        """Draw what is known of it, and last what others wrote."""
        if self.detail is not None:
            yield from known_rows(self.detail, self._now(), width)

    def _notice_rows(self, width: int) -> Iterator[Row]:
        """Draw what was recorded or refused; before that, when the call starts, and what cannot be undone."""
        detail, request = self.detail, self.request
        keys = {} if request is None else dict(self.key_words(request))
        yield from super()._notice_rows(width)
        if detail is not None and not self._notice and "a" in keys:
            yield from labelled("quiet", "note", starts_with(detail.row.request), width)
        if detail is not None and not self._notice and "d" in keys:
            yield from labelled("quiet", "note", FINAL, width)

    def _head_rows(self, width: int) -> Iterator[Row]:
        if self.detail is None:
            yield from ours("quiet", "Requests appear here when a tool or a policy requires approval.", width)
        else:
            yield from head_rows(self.detail, self._now(), width)
