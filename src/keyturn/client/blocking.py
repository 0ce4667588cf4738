"""The same client for programs without an event loop: each word waits for its answer.

Nothing is written twice: the words are those of the async client, done in a loop of its own, in a thread of its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from ..support.own_loop import OwnLoop
from .asks import AsyncAsks
from .client import AsyncClient
from .inbox import AsyncInbox
from .people import AsyncPeople
from .records import AsyncAudit, AsyncInsights, AsyncPolicies

P = ParamSpec("P")
T = TypeVar("T")


class _Room(Protocol):
    """Has words of the async client, and the loop in which they are said."""

    _loop: OwnLoop
    _words: Any


def _waits(word: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Make a word of the async client one that waits."""

    @wraps(word)
    def waited(self: _Room, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.result(word(self._words, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]  # our own

    return waited


def _yields(word: Callable[Concatenate[Any, P], AsyncGenerator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Make a stream of the async client one that waits."""

    @wraps(word)
    def waited(self: _Room, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        loop = self._loop  # pyright: ignore[reportPrivateUsage]  # our own
        events = word(self._words, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]  # our own
        try:
            while (found := loop.result(_next(events))) is not None:
                yield found
        finally:
            if loop.running:  # else the client was closed first, and the stream with it
                loop.result(_closed(events))

    return waited


async def _next(events: AsyncGenerator[T]) -> T | None:
    return await anext(events, None)


async def _closed(events: AsyncGenerator[Any]) -> None:
    await events.aclose()


class _Words:
    """Holds words of the async client, and the loop in which they are said."""

    def __init__(self, loop: OwnLoop, words: Any) -> None:
        self._loop, self._words = loop, words


class Inbox(_Words):
    """Lists and decides the pending requests of a server, and waits for each answer."""

    @property
    def server(self) -> str:
        """Return the URL of the server."""
        return self._words.server

    who = _waits(AsyncInbox.who)
    now = _waits(AsyncInbox.now)
    changes = _yields(AsyncInbox.changes)
    list = _waits(AsyncInbox.list)
    page = _waits(AsyncInbox.page)
    pages = _yields(AsyncInbox.pages)
    row = _waits(AsyncInbox.row)
    get = _waits(AsyncInbox.get)
    facts = _waits(AsyncInbox.facts)
    item = _waits(AsyncInbox.item)
    detail = _waits(AsyncInbox.detail)
    form = _waits(AsyncInbox.form)
    alike = _waits(AsyncInbox.alike)
    looked = _waits(AsyncInbox.looked)
    review = _waits(AsyncInbox.review)
    decide = _waits(AsyncInbox.decide)
    decide_all = _waits(AsyncInbox.decide_all)
    mark = _waits(AsyncInbox.mark)
    take = _waits(AsyncInbox.take)
    let_go = _waits(AsyncInbox.let_go)
    snooze = _waits(AsyncInbox.snooze)
    wake = _waits(AsyncInbox.wake)
    preview_edit = _waits(AsyncInbox.preview_edit)
    approve = _waits(AsyncInbox.approve)
    reject = _waits(AsyncInbox.reject)
    ask_back = _waits(AsyncInbox.ask_back)
    answer = _waits(AsyncInbox.answer)
    resolve = _waits(AsyncInbox.resolve)
    withdraw = _waits(AsyncInbox.withdraw)
    challenge = _waits(AsyncInbox.challenge)
    keys = _waits(AsyncInbox.keys)
    to_sign = _waits(AsyncInbox.to_sign)
    approve_all = _waits(AsyncInbox.approve_all)
    reject_all = _waits(AsyncInbox.reject_all)
    grants = _waits(AsyncInbox.grants)
    grant_rows = _waits(AsyncInbox.grant_rows)
    revoke = _waits(AsyncInbox.revoke)


class Asks(_Words):
    """Asks a server for approval of calls that the program runs itself, and waits for each answer."""

    ask = _waits(AsyncAsks.ask)
    get = _waits(AsyncAsks.get)
    wait = _waits(AsyncAsks.wait)
    claim = _waits(AsyncAsks.claim)
    hold = _waits(AsyncAsks.hold)
    report = _waits(AsyncAsks.report)
    withdraw = _waits(AsyncAsks.withdraw)


class People(_Words):
    """Lists and changes who is who at a server, and waits for each answer."""

    me = _waits(AsyncPeople.me)
    directory = _waits(AsyncPeople.directory)
    log = _waits(AsyncPeople.log)
    settings = _waits(AsyncPeople.settings)
    list = _waits(AsyncPeople.list)
    tokens = _waits(AsyncPeople.tokens)
    keys = _waits(AsyncPeople.keys)
    delegations = _waits(AsyncPeople.delegations)
    add = _waits(AsyncPeople.add)
    remove = _waits(AsyncPeople.remove)
    forget_subject = _waits(AsyncPeople.forget_subject)
    give_role = _waits(AsyncPeople.give_role)
    take_role = _waits(AsyncPeople.take_role)
    join = _waits(AsyncPeople.join)
    leave = _waits(AsyncPeople.leave)
    set_address = _waits(AsyncPeople.set_address)
    confirm_address = _waits(AsyncPeople.confirm_address)
    mute = _waits(AsyncPeople.mute)
    set = _waits(AsyncPeople.set)
    delegate = _waits(AsyncPeople.delegate)
    end_delegation = _waits(AsyncPeople.end_delegation)
    issue_token = _waits(AsyncPeople.issue_token)
    revoke_token = _waits(AsyncPeople.revoke_token)
    enrol_key = _waits(AsyncPeople.enrol_key)
    confirm_key = _waits(AsyncPeople.confirm_key)
    revoke_key = _waits(AsyncPeople.revoke_key)
    make_link = _waits(AsyncPeople.make_link)


class Audit(_Words):
    """Searches, verifies and exports the record of a server, and waits for each answer."""

    search = _waits(AsyncAudit.search)
    reads = _waits(AsyncAudit.reads)
    verify = _waits(AsyncAudit.verify)
    export = _waits(AsyncAudit.export)


class Insights(_Words):
    """Tells how people decide at a server, and waits for each answer."""

    report = _waits(AsyncInsights.report)
    suggestions = _waits(AsyncInsights.suggestions)


class Policies(_Words):
    """Shows and tries policies at a server, and waits for each answer."""

    get = _waits(AsyncPolicies.get)
    shadow = _waits(AsyncPolicies.shadow)
    replay = _waits(AsyncPolicies.replay)


class Client(_Words):
    """Uses a server with the words of an `App`, and waits for each answer; `AsyncClient` is the same for a loop.

    >>> with Client("https://keyturn.example", "kt_1_2") as client:
    ...     client
    Client('https://keyturn.example')
    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, transport: Any = None, plain_http: bool = False
    ) -> None:
        made = AsyncClient(url, token, timeout=timeout, transport=transport, plain_http=plain_http)
        super().__init__(OwnLoop("keyturn-client"), made)
        self.url = url
        self.asks = Asks(self._loop, made.asks)
        self.inbox = Inbox(self._loop, made.inbox)
        self.people = People(self._loop, made.people)
        self.audit = Audit(self._loop, made.audit)
        self.insights = Insights(self._loop, made.insights)
        self.policies = Policies(self._loop, made.policies)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._loop.running:
            self._loop.result(self._words.close())
        self._loop.close()

    def now(self) -> int:
        """Return the server's time in milliseconds, as its last answer told it."""
        return self._words.now()

    start = _waits(AsyncClient.start)
    runs = _waits(AsyncClient.runs)
    get = _waits(AsyncClient.get)
    story = _waits(AsyncClient.story)
    wait = _waits(AsyncClient.wait)
    result = _waits(AsyncClient.result)
    send = _waits(AsyncClient.send)
    cancel = _waits(AsyncClient.cancel)
    fork = _waits(AsyncClient.fork)
    resume = _waits(AsyncClient.resume)
    events = _yields(AsyncClient.events)
