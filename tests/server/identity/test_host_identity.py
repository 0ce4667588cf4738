"""The host's own sign-in: believed from the host's own process alone, and only for as long as it says so."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from keyturn import UserError
from keyturn.audit.directory import faults_of
from keyturn.directory.events import written
from keyturn.server.host_identity import HostHeader
from keyturn.server.settings import HostUser, ServerSettings
from tests.server.identity.door import ORIGIN, Browser, Door

HEADER = "x-remote-user"


class SaysWho:
    """The host's own middleware, which sets a header of those whom it has signed in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.user = app, ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.user:
            scope["headers"] = [*scope["headers"], (HEADER.encode(), self.user.encode())]
        await self.app(scope, receive, send)


class Hosted:
    """A door that is mounted in another app, which signs people in by its own means."""

    def __init__(self, identity: Any, **settings: Any) -> None:
        self.door = Door(identity=identity, **settings)
        self.host = SaysWho(Starlette(routes=[Mount("/inbox", self.door.served)]))
        self.whole: Any = self.host

    async def made(self) -> Hosted:
        await self.door.peopled()
        self.door.served = self.whole
        return self

    def browser(self, **headers: str) -> Browser:
        return Browser(self.door, "192.0.2.7", ORIGIN, headers)

    async def enters(self, **headers: str) -> tuple[int, Browser]:
        browser = self.browser(**headers)
        answer = await browser.post("/inbox/login/host", {"next": "/account"})
        return answer.status_code, browser


@pytest.fixture
async def hosted(own_key: None) -> Hosted:
    made = Hosted(HEADER)
    made.whole = HostHeader(made.host, HEADER)
    return await made.made()


async def test_whom_the_host_signed_in_is_signed_in_here_and_only_as_long(hosted: Hosted) -> None:
    hosted.host.user = "bob"
    page = await hosted.browser().get("/inbox/login?next=/runs")
    assert "Continue as bob" in page.text
    assert "data-go-on" in page.text
    before = (await hosted.door.people.directory()).place
    await hosted.browser().get("/inbox/login")
    assert (await hosted.door.people.directory()).place == before, "looking begins no session"
    status, browser = await hosted.enters()
    assert (status, (await browser.get("/inbox/account")).status_code) == (303, 200)
    [session] = await hosted.door.people.sessions("bob")
    assert session.session == "host"
    for other in ("ada", "", "BOB", "nobody"):
        hosted.host.user = other
        assert (await browser.get("/inbox/account")).status_code == 303, other
        assert (await browser.get("/inbox/v1/me")).status_code == 401, other
    hosted.host.user = "bob"
    assert (await browser.get("/inbox/account")).status_code == 200
    await hosted.door.people.remove("bob", by="ada")
    assert (await browser.get("/inbox/account")).status_code == 303
    assert (await hosted.enters())[0] == 403, "the host knows them, and the directory does not any more"


@pytest.mark.parametrize("name", ["X-Remote-User", "x-remote-user", "X_Remote_User", "x_remote-user", "X-REMOTE-USER"])
async def test_a_header_that_a_client_sends_signs_nobody_in(hosted: Hosted, name: str) -> None:
    status, browser = await hosted.enters(**{name: "ada"})
    assert (status, browser.token) == (403, "")
    assert "Continue as" not in (await hosted.browser(**{name: "ada"}).get("/inbox/login")).text
    hosted.host.user = "bob"
    _status, browser = await hosted.enters(**{name: "ada"})
    assert [each.id for each in (await hosted.door.people.sessions("ada"))] == []
    assert len(await hosted.door.people.sessions("bob")) == 1
    assert (await hosted.browser(**{name: "ada"}).get("/inbox/v1/me")).status_code == 401, "a header is no token"


async def test_a_header_is_believed_nowhere_but_below_what_takes_it_out(
    own_key: None, caplog: pytest.LogCaptureFixture
) -> None:
    bare = await Hosted(HEADER).made()
    inside = Hosted(HEADER)
    inside.host.app = HostHeader(inside.host.app, HEADER)
    await inside.made()
    other = Hosted(HEADER)
    other.whole = HostHeader(other.host, "x-another")
    await other.made()
    for hosted in (bare, inside, other):
        hosted.host.user = "ada"
        with caplog.at_level(logging.ERROR, logger="keyturn.server"):
            assert (await hosted.enters(**{HEADER: "ada"}))[0] == 403
    assert "HostHeader" in caplog.text


async def test_two_headers_are_nobody(hosted: Hosted) -> None:
    inner = hosted.host.app
    second = SaysWho(inner)
    hosted.host.app = second
    hosted.host.user, second.user = "bob", "ada"
    assert (await hosted.enters())[0] == 403


class Says:
    """Stands for the host's code: returns what a test says, or raises it."""

    def __init__(self) -> None:
        self.answer: Any = None

    async def __call__(self, request: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_a_callable_says_who_and_what_the_host_gives_them_and_takes_it_at_once(own_key: None) -> None:
    says = Says()
    hosted = await Hosted(says).made()
    people = hosted.door.people
    says.answer = HostUser("bob", groups=("desk",), roles=("finance",))
    status, browser = await hosted.enters()
    assert (status, (await people.directory()).roles_of("bob")) == (303, {"ops", "finance"})
    says.answer = HostUser("bob", roles=())
    assert (await browser.get("/inbox/account")).status_code == 303, "it says less now: they are signed in anew"
    _status, browser = await hosted.enters()
    assert (await people.directory()).roles_of("bob") == {"ops"}
    says.answer = HostUser("bob", roles=("admin",))
    await hosted.enters()
    await people.take_role("admin", of="ada", by="bob")
    says.answer = HostUser("bob", roles=())
    _status, last = await hosted.enters()
    assert (await people.directory()).admins() == ["bob"], "the last administrator stays one"
    assert (await last.get("/inbox/account")).status_code == 200, "and is not signed in anew for ever"
    assert [*faults_of([written(each) for each in await people.entries()])] == []


@pytest.mark.each
@pytest.mark.parametrize("answer", [None, "", 5, True, "robot", "nobody", ["ada"], RuntimeError("no"), HostUser("")])
async def test_what_says_nobody_signs_nobody_in(own_key: None, answer: Any) -> None:
    says = Says()
    hosted = await Hosted(says).made()
    says.answer = "bob"
    _status, browser = await hosted.enters()
    says.answer = answer
    assert (await hosted.enters())[0] == 403
    assert (await browser.get("/inbox/account")).status_code == 303


async def test_a_session_of_the_host_is_worth_nothing_where_the_settings_do_not_name_it(hosted: Hosted) -> None:
    hosted.host.user = "bob"
    _status, browser = await hosted.enters()
    alone = Door(journal=hosted.door.app.journal)
    thief = alone.browser()
    thief.cookies.set("keyturn_session", browser.token)
    assert (await thief.get("/account")).status_code == 303
    assert (await thief.post("/login/host", {"next": "/"})).status_code == 403


async def test_who_signed_out_is_not_signed_in_again_by_looking_and_where_the_host_signs_in_is_said(
    own_key: None,
) -> None:
    says = Says()
    hosted = await Hosted(says, identity_url="/accounts/login").made()
    assert 'href="/accounts/login"' in (await hosted.browser().get("/inbox/login")).text
    says.answer = "bob"
    page = await hosted.browser().get("/inbox/login?out=yes")
    assert ("Continue as bob" in page.text, "data-go-on" in page.text) == (True, False)
    crossed = hosted.browser()
    answer = await crossed.client.post("/inbox/login/host", headers={"origin": "https://evil.example"})
    assert (answer.status_code, crossed.token) == (403, "")


@pytest.mark.each
@pytest.mark.parametrize("wrong", [{"identity": 5}, {"identity": "x remote"}, {"identity_url": "javascript:x"}])
def test_settings_of_a_host_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(UserError):
        ServerSettings(**wrong)
