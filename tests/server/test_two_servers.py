"""Two real servers on one store: one decision wins, and each shows what the other recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from keyturn import Conflict
from keyturn.client import Client
from keyturn.journal.rows import RequestRow
from tests.server.programs import Port


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.trial)])
def shared(request: pytest.FixtureRequest, tmp_path: object) -> str:
    """The URL of an empty store that two processes can share."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("database"))
    return f"sqlite:///{tmp_path}/runs.db"


def said_by(asked: RequestRow, lost: list[Conflict], word: Callable[[RequestRow], Any]) -> None:
    try:
        word(asked)
    except Conflict as error:
        lost.append(error)


@pytest.mark.trial
@pytest.mark.timeout(400)
def test_two_servers_race_and_one_decision_is_made_of_each_request(shared: str) -> None:
    with Port(shared) as one, Port(shared) as two:
        tokens = one.tokens
        with (
            Client(one.url, tokens["bot"]) as bot,
            Client(one.url, tokens["ben"]) as ben,
            Client(two.url, tokens["bea"]) as bea,
        ):
            for number in range(5):
                run = bot.start("desk", "Pay.", requester="cyd", once=f"n{number}")
                with Client(two.url, tokens["bot"]) as there:
                    assert there.start("desk", "Pay.", requester="cyd", once=f"n{number}") == run
                assert bot.wait(run, 30).status == "waiting"
                [asked] = ben.inbox.list(run=run)
                lost = list[Conflict]()
                say = partial(said_by, asked, lost)
                racers = [threading.Thread(target=say, args=(word,)) for word in (ben.inbox.approve, bea.inbox.reject)]
                for racer in racers:
                    racer.start()
                for racer in racers:
                    racer.join(60)
                [error] = lost
                assert (error.winner, error.decision) in (("ben", "approve"), ("bea", "reject"))
                assert bea.inbox.get(asked.id).by == error.winner
                assert bea.result(run, 30).status == "finished"
            decided = [entry for entry in bea.audit.search() if entry.what == "decision" and entry.via == "person"]
            assert len(decided) == 5
            assert ben.audit.verify().ok


@pytest.mark.timeout(400)
def test_one_server_streams_what_another_recorded(shared: str) -> None:
    with Port(shared) as one, Port(shared) as two:
        tokens = one.tokens
        with Client(one.url, tokens["bot"]) as bot, Client(two.url, tokens["ben"]) as ben:
            pages = ben.inbox.pages()
            assert next(pages) == []
            run = bot.start("desk", "Pay.", requester="cyd")
            page = next(pages)
            while not page:
                page = next(pages)
            with Client(one.url, tokens["bea"]) as bea:
                bea.inbox.reject(page[0])
            while page:
                page = next(pages)
            pages.close()
            lines = [line.line for line in ben.events(run)]
            assert lines == list(range(len(lines)))
