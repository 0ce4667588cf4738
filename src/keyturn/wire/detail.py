"""Hold what stands beside one request, as it goes over the wire: what you can do, what was said, what happened."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from ..core.digest import canonical
from ..core.encodable import in_milliseconds, moment
from ..core.strict import parse
from ..presenting.asking import Standing
from ..presenting.call_history import EditedArguments
from ..presenting.exchange import Exchange, Question
from ..presenting.facts import RequestFacts
from ..presenting.message_context import Context
from ..presenting.notifications import Notification
from ..presenting.pressure import KINDS, Sign
from ..presenting.recorded import Recorded
from ..presenting.trail import TrailMark
from ..render.escape import Escaped, arrived, escape
from .responses import RequestSeen


class StandingSeen(msgspec.Struct, frozen=True):
    """Says what you can do about a request, and why not where you cannot."""

    verbs: list[str]
    why: str
    voted: str
    glass: bool
    signs: bool
    withdraws: bool = False

    @classmethod
    def of(cls, standing: Standing) -> StandingSeen:
        """Show what somebody can do."""
        return cls(list(standing.verbs), *standing[1:])

    @property
    def standing(self) -> Standing:
        """Return what it shows."""
        return Standing(tuple(self.verbs), self.why, self.voted, self.glass, self.signs, self.withdraws)


class SignSeen(msgspec.Struct, frozen=True):
    """Describes one way in which the model's words press, and the words that do."""

    kind: str
    words: str


class ContextSeen(msgspec.Struct, frozen=True):
    """Holds what was said before the call: what the run was asked, and what the model wrote; escaped, and clipped."""

    task: str | None
    words: list[str]
    signs: list[SignSeen]

    @classmethod
    def of(cls, context: Context) -> ContextSeen:
        """Show what was said before a call."""
        signs = [SignSeen(each.kind, str(each.words)) for each in context.signs]
        return cls(_plain(context.task), list(map(str, context.words)), signs)

    @property
    def context(self) -> Context:
        """Return what it shows; whatever could act is escaped once more."""
        signs = tuple(Sign(each.kind, each.words) for each in self.signs if each.kind in KINDS)
        return Context(_arrived(self.task), tuple(map(arrived, self.words)), signs)


class MarkSeen(msgspec.Struct, frozen=True):
    """Describes one thing that happened to the call; `line` is that of the run's log, and `text` is escaped."""

    line: int
    at: datetime
    word: str
    by: str
    text: str | None
    kind: str

    @classmethod
    def of(cls, mark: TrailMark) -> MarkSeen:
        """Show one thing that happened."""
        return cls(mark.line, moment(mark.at), mark.word, mark.by, _plain(mark.text), mark.kind)

    @property
    def mark(self) -> TrailMark:
        """Return what it shows; whatever could act is escaped once more."""
        word = escape(self.word, keep="")
        return TrailMark(self.line, in_milliseconds(self.at), word, self.by, _arrived(self.text), self.kind)


class NotificationSeen(msgspec.Struct, frozen=True):
    """Describes one notification of the request.

    `state` is delivered, sending, scheduled, queued, retrying or failed; `at` is when it was delivered, or when the
    next attempt is due.
    """

    person: str
    channel: str
    about: str
    state: str
    at: datetime
    note: str

    @classmethod
    def of(cls, given: Notification) -> NotificationSeen:
        """Show one notification."""
        return cls(given.person, given.channel, given.about, given.state, moment(given.at), given.note)

    @property
    def notification(self) -> Notification:
        """Return what it shows; whatever could act is escaped once more."""
        about, state, note = (escape(text, keep="") for text in (self.about, self.state, self.note))
        return Notification(self.person, self.channel, about, state, in_milliseconds(self.at), note)


class EditSeen(msgspec.Struct, frozen=True):
    """Holds the arguments of an edited call as they were asked and as they were approved, secrets redacted."""

    before: Any
    after: Any


class RecordedSeen(msgspec.Struct, frozen=True):
    """Says what you did about the request and what comes of it.

    `undo` is what you can withdraw: your `vote`, the `approval`, or "" for nothing. The call starts in `left`
    milliseconds, where it is held for that long.
    """

    heading: str
    then: str
    undo: Literal["", "vote", "approval"] = ""
    left: int = 0

    @property
    def recorded(self) -> Recorded:
        """Return what it shows; whatever could act is escaped."""
        return Recorded(escape(self.heading, keep=""), escape(self.then, keep=""), self.undo, self.left)


class QuestionSeen(msgspec.Struct, frozen=True):
    """Describes a question to the agent, and its answer once it has one; escaped, and clipped.

    `before` and `after` are ids: of the request that was asked about, and of the one that the agent made then; "" is
    this request, or none.
    """

    before: str
    by: str
    question: str
    asked_at: datetime
    answer: list[str]
    answered_at: datetime | None
    after: str

    @classmethod
    def of(cls, given: Question) -> QuestionSeen:
        """Show one question."""
        each = given.exchange
        answered = moment(each.answered_at) if each.answered_at else None
        words = list(map(str, each.answer))
        return cls(given.before, each.by, str(each.question), moment(each.asked_at), words, answered, given.after)

    @property
    def question_shown(self) -> Question:
        """Return what it shows; whatever could act is escaped once more."""
        answered = 0 if self.answered_at is None else in_milliseconds(self.answered_at)
        asked, words = in_milliseconds(self.asked_at), tuple(map(arrived, self.answer))
        made = Exchange(self.before, self.by, arrived(self.question), asked, words, answered, self.after)
        return Question(made, self.before, self.after)


class RequestDetail(msgspec.Struct, frozen=True):
    """Holds a request and what stands beside it.

    `lines` is how many lines the run's log has, `ran` says whether the call was started, and `edited` what an approval
    with other arguments made of them. `recorded` is what you did about it, `people` can still approve it, `missed` says
    that it expired and that you could have decided it, and `thread` holds the questions to the agent.
    """

    request: RequestSeen
    standing: StandingSeen
    context: ContextSeen
    trail: list[MarkSeen]
    lines: int
    ran: bool
    now: datetime
    notified: list[NotificationSeen] = []
    edited: EditSeen | None = None
    recorded: RecordedSeen | None = None
    people: list[str] = []
    missed: bool = False
    thread: list[QuestionSeen] = []

    @classmethod
    def of(cls, facts: RequestFacts, now: int) -> RequestDetail:
        """Show a request with what stands beside it."""
        marks = [MarkSeen.of(mark) for mark in facts.trail]
        notified = [NotificationSeen.of(each) for each in facts.notified]
        beside = StandingSeen.of(facts.standing), ContextSeen.of(facts.context)
        sides = None if facts.edited is None else (facts.edited.before, facts.edited.after)
        edited = None if sides is None else EditSeen(*(parse(text or "{}") for text in sides))
        made = None if facts.recorded is None else RecordedSeen(*facts.recorded)
        more = made, list(facts.people), facts.missed, [QuestionSeen.of(each) for each in facts.thread]
        return cls(
            RequestSeen.of(facts.row), *beside, marks, facts.lines, facts.ran, moment(now), notified, edited, *more
        )

    @property
    def facts(self) -> RequestFacts:
        """Return what it shows; whatever could act is escaped once more."""
        beside = self.standing.standing, self.context.context, [each.mark for each in self.trail]
        notified = [each.notification for each in self.notified]
        sides = None if self.edited is None else (canonical(self.edited.before), canonical(self.edited.after))
        edited = None if sides is None else EditedArguments(*sides)
        made = None if self.recorded is None else self.recorded.recorded
        people = [escape(each, keep="") for each in self.people]
        more = made, people, self.missed, [each.question_shown for each in self.thread]
        return RequestFacts(self.request.row, *beside, self.lines, self.ran, notified, edited, *more)


def _plain(text: Escaped | None) -> str | None:
    return None if text is None else str(text)


def _arrived(text: str | None) -> Escaped | None:
    return None if text is None else arrived(text)
