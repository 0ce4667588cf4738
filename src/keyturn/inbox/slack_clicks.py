"""Decide requests by clicks in Slack, as the person whom the directory has under that Slack user.

Slack's signature says which user of which workspace clicked; the directory says who that is, and the inbox whether they
may. A user whom the directory does not know, or whose address nobody confirmed, decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..channels.messages import shows_whole
from ..channels.slack import escaped
from ..channels.slack_replies import SlackClick, SlackReplies
from ..core.drill_words import drill_outcome
from ..core.encodable import in_milliseconds
from ..core.errors import Conflict, KeyturnError, NotAllowed, NotPending, UserError
from ..directory.login import DECIDE, Login
from ..directory.people import People
from ..directory.recipients import reached_by
from ..journal.rows import RequestRow
from ..presenting.asking import vote_of
from .desk import Inbox

_UNKNOWN = (
    "no user has your Slack account as a confirmed address, so nothing was decided: confirm it under My account, or "
    "ask an administrator"
)
_LOST = "It may have been decided, and the answer was lost: open the request to see"
_DONE = {"approve": "You approved it.", "reject": "You rejected it."}


def _done(verdict: str, row: RequestRow) -> str:
    """Say what a click came to: a vote that did not settle the request is not said to have done so."""
    return f"Your vote is recorded: {vote_of(row.request)}." if row.state == "open" else _DONE[verdict]


class SlackAnswer(msgspec.Struct, frozen=True):
    """Says what became of a click, escaped for Slack: to be shown to who clicked, and to nobody else.

    >>> SlackAnswer("You approved it.", "ada", decided=True).decided
    True
    """

    text: str
    person: str = ""
    decided: bool = False
    response_url: str = ""


class SlackDesk:
    """Takes the interactions of one Slack workspace, `team`, and decides by them.

    `channel` is the name of the channel in the directory's addresses: a person's address there is their Slack user id.

    >>> SlackDesk.__name__
    'SlackDesk'
    """

    def __init__(
        self, inbox: Inbox, people: People, replies: SlackReplies, *, team: str, channel: str = "slack"
    ) -> None:
        if not team or not team.strip():
            raise UserError("team= is the id of your Slack workspace, T...: users of others have ids of their own")
        self._inbox = inbox
        self._people = people
        self._replies = replies
        self._team = team
        self._channel = channel

    async def answer(self, body: bytes, headers: Mapping[str, str], *, now: float | None = None) -> list[SlackAnswer]:
        """Decide what was clicked; raise `SlackRefused` for what is no request of Slack's."""
        return [await self._decided(click) for click in self._replies.verify(body, headers, now=now)]

    async def person_of(self, click: SlackClick) -> str | None:
        """Return who clicked; None for somebody of another workspace, or whom the directory does not know."""
        if click.team != self._team:
            return None
        return reached_by(await self._people.directory(), self._channel, click.user)

    async def _decided(self, click: SlackClick) -> SlackAnswer:
        person = await self.person_of(click)
        if person is None:
            return SlackAnswer(_UNKNOWN, response_url=click.response_url)
        login = Login(person, (DECIDE,))
        try:
            if click.verdict == "open":
                await self._looked(click, login)
                return SlackAnswer("", person, response_url=click.response_url)
            row = await self._inbox.get(click.request)
            _check_later(click, person, row)
            if click.verdict == "approve":
                _check_seen(row)
            verdict = "approve" if click.verdict == "approve" else "reject"
            done = await self._inbox.as_person(login).decide(click.request, verdict, revision=click.revision)
        except NotAllowed as error:
            return SlackAnswer(
                f"You may not decide this: {escaped(str(error))}", person, response_url=click.response_url
            )
        except KeyturnError as error:
            said = _LOST if error.uncertain else "Nothing was decided"
            return SlackAnswer(f"{said}: {escaped(str(error))}", person, response_url=click.response_url)
        return SlackAnswer(
            drill_outcome(done.state) or _done(click.verdict, done),
            person,
            decided=True,
            response_url=click.response_url,
        )

    async def _looked(self, click: SlackClick, login: Login) -> None:
        """Note that somebody opened a request, if its button says which and they may see it."""
        if click.request:
            try:
                await self._inbox.get(click.request, for_=login)
            except NotPending:
                return
            await self._inbox.looked(click.request, by=login)


def _check_seen(row: RequestRow) -> None:
    """Refuse a click that approves what no message shows whole, whatever button it came by."""
    if row.state == "open" and not shows_whole(row):
        raise UserError("it is too long to be approved by a click: open it, and approve it there")


def _check_later(click: SlackClick, person: str, row: RequestRow) -> None:
    """Refuse a click from before its user withdrew a vote: another worker, or this one before a restart, had it."""
    if any(made.by == person and in_milliseconds(made.at) >= click.at * 1_000 for made in row.request.withdrawn):
        raise Conflict("this click was made before you withdrew your vote: click again to vote anew")
