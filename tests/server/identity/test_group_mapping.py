"""Claims of an identity provider give groups and roles: at each sign-in and refresh, never more than they say."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from keyturn import MemoryJournal, UserError
from keyturn.audit.directory import faults_of
from keyturn.directory.events import ClaimsMapped, written
from keyturn.directory.login import id_in
from keyturn.server.settings import ClaimRule, OidcSettings
from tests.server.identity.door import PASSWORD, Browser, Door
from tests.server.identity.provider import CLIENT, SECRET, LoopbackProvider
from tests.server.identity.test_oidc import sent_back
from tests.server.office import Clock

BOB = "bob@example.com"
HOUR = 3_600_000
RULES = (
    ClaimRule(value="5e1f-finance", role="finance"),
    ClaimRule(value="5e1f-desk", group="desk"),
    ClaimRule(value="5e1f-chiefs", role="admin"),
    ClaimRule(claim="realm_access.roles", value="keyturn", role="audit"),
)


@pytest.fixture
def provider() -> Generator[LoopbackProvider]:
    made = LoopbackProvider()
    yield made
    made.close()


class Company:
    """A server of a company whose provider says who is in which group."""

    def __init__(self, provider: LoopbackProvider, **settings: Any) -> None:
        self.provider, self.clock = provider, Clock()
        given: dict[str, Any] = {
            "issuer": provider.issuer,
            "client": CLIENT,
            "secret": SECRET,
            "rules": RULES,
            **settings,
        }
        self.door = Door(journal=MemoryJournal(self.clock), oidc=OidcSettings(**given))

    async def made(self) -> Company:
        await self.door.peopled()
        await self.door.people.add(BOB, by="ada", roles=["ops"])
        await self.door.people.give_role("refunds", group="desk", by="ada")
        return self

    async def signed_in(self, *groups: str, **claims: Any) -> Browser:
        self.provider.claims |= {"groups": [*groups], **claims}
        browser = self.door.browser()
        answer = await browser.post("/login/oidc/callback", await sent_back(browser))
        assert answer.status_code == 303, answer.text
        return browser

    async def roles(self, person: str = BOB) -> set[str]:
        return set((await self.door.people.directory()).roles_of(person))

    async def renewed(self, browser: Browser, **fields: str) -> httpx2.Response:
        """Follow a browser whose session is to be confirmed: to the provider, which asks nothing, and back."""
        back = {**(await sent_back(browser, "/account", renew="yes")), **fields}
        return await browser.post("/login/oidc/callback", back)

    async def faults(self) -> list[Any]:
        return [*faults_of([written(each) for each in await self.door.people.entries()])]


@pytest.fixture
async def company(own_key: None, provider: LoopbackProvider) -> Company:
    return await Company(provider).made()


async def test_groups_of_the_provider_give_roles_and_a_group_that_is_lost_takes_them(company: Company) -> None:
    await company.signed_in("5e1f-finance", "5e1f-desk", "another", realm_access={"roles": ["keyturn"]})
    assert await company.roles() == {"ops", "finance", "refunds", "audit"}
    place = (await company.door.people.directory()).place
    await company.signed_in("5e1f-finance", "5e1f-desk", realm_access={"roles": ["keyturn"]})
    assert (await company.door.people.directory()).place == place + 1, "the session, and nothing of groups"
    assert not any(isinstance(each, ClaimsMapped) for each in (await company.door.people.entries())[-1].events)
    await company.signed_in("5e1f-desk", realm_access="keyturn")
    assert await company.roles() == {"ops", "refunds"}, "given by an administrator, and by the group that is left"
    await company.signed_in()
    assert await company.roles() == {"ops"}
    assert await company.faults() == []


async def test_five_hundred_groups_in_a_token_are_read_and_only_those_of_rules_recorded(company: Company) -> None:
    many = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(500)]
    await company.signed_in(*many, "5e1f-finance", *many)
    assert await company.roles() == {"ops", "finance"}
    events = [each for entry in await company.door.people.entries() for each in entry.events]
    [event] = [each for each in events if isinstance(each, ClaimsMapped)]
    assert (event.groups, event.roles) == ((), ("finance",))


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": "5e1f"},
        {"groups": "5E1F-FINANCE"},
        {"groups": {"5e1f-finance": True}},
        {"groups": [["5e1f-finance"], 5, None]},
        {"groups": None},
        {"realm_access": ["keyturn"]},
        {"realm_access": {"roles": {"keyturn": 1}}},
        {"realm_access.roles.": "keyturn"},
    ],
    ids=str,
)
async def test_a_claim_of_another_shape_gives_nothing(company: Company, claims: dict[str, Any]) -> None:
    await company.signed_in(**claims)
    assert await company.roles() == {"ops"}


async def test_a_provider_that_leaves_out_the_groups_takes_none_away_and_signs_nobody_in(company: Company) -> None:
    await company.signed_in("5e1f-finance")
    company.provider.claims.pop("groups")
    company.provider.claims["_claim_names"] = {"groups": "src1"}
    browser = company.door.browser()
    answer = await browser.post("/login/oidc/callback", await sent_back(browser))
    assert (answer.status_code, "left out the claim" in answer.text) == (403, True)
    assert await company.roles() == {"ops", "finance"}


async def test_a_session_is_confirmed_at_the_provider_after_an_hour_and_a_lost_group_takes_the_role(
    company: Company,
) -> None:
    browser = await company.signed_in("5e1f-finance")
    session = id_in(browser.token)
    company.clock.now += HOUR
    company.provider.claims["groups"] = []
    assert (await browser.get("/account")).headers["location"] == "/login?next=/account"
    assert (await browser.get("/v1/me")).status_code == 401
    sent = await browser.get("/login?next=/account")
    assert sent.headers["location"] == "/login/oidc?renew=yes&next=%2Faccount"
    assert (await company.renewed(browser)).headers["location"] == "/account"
    assert "prompt" in company.provider.last
    assert (await browser.get("/account")).status_code == 200
    assert id_in(browser.token) == session, "it is the same session: a refresh adds none"
    assert await company.roles() == {"ops"}
    place = (await company.door.people.directory()).place
    company.clock.now += HOUR
    assert (await company.renewed(browser)).status_code == 303
    assert (await company.door.people.directory()).place == place, "nothing changed, and nothing was recorded"
    assert await company.faults() == []


async def test_a_user_who_is_gone_at_the_provider_has_no_session_after_the_refresh(company: Company) -> None:
    browser = await company.signed_in("5e1f-finance")
    company.clock.now += HOUR
    refused = await company.renewed(browser, error="login_required", code="")
    assert (refused.status_code, "Sign in again" in refused.text) == (200, True)
    assert (await browser.get("/account")).status_code == 303
    denied = await company.renewed(browser, error="access_denied", code="")
    assert denied.status_code == 403
    assert (await browser.get("/account")).status_code == 303


async def test_a_refresh_signs_in_no_other_account_and_confirms_no_other_session(company: Company) -> None:
    await company.door.people.add("eve@example.com", by="ada")
    browser = await company.signed_in("5e1f-finance")
    company.clock.now += HOUR
    company.provider.claims |= {"sub": "eve", "email": "eve@example.com"}
    other = await company.renewed(browser)
    assert (other.status_code, "as eve@example.com" in other.text) == (403, True)
    company.provider.claims |= {"sub": "5e1f", "email": BOB}
    thief = await company.signed_in("5e1f-finance")
    company.clock.now += HOUR
    assert (await company.renewed(browser)).status_code == 303
    jar = {cookie.name: cookie.value or "" for cookie in browser.cookies.jar}
    thief.cookies.set("keyturn_confirmed", jar["keyturn_confirmed"])
    assert (await thief.get("/account")).status_code == 303, "it is bound to the session"
    at, mac = jar["keyturn_confirmed"].split(".", 1)
    forged = company.door.browser()
    forged.cookies.set("keyturn_session", browser.token)
    forged.cookies.set("keyturn_confirmed", f"{int(at) + 9 * HOUR}.{mac}")
    company.clock.now += HOUR
    assert (await forged.get("/account")).status_code == 303, "nobody writes a later time"


async def test_the_last_administrator_stays_one_and_the_log_says_so(
    company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    await company.signed_in("5e1f-chiefs")
    await company.door.people.take_role("admin", of="ada", by=BOB)
    with caplog.at_level(logging.WARNING, logger="keyturn.server"):
        await company.signed_in()
    assert await company.roles() == {"ops", "admin"}
    assert "no other administrator is left" in caplog.text
    await company.door.people.give_role("admin", to="ada", by=BOB)
    await company.signed_in()
    assert await company.roles() == {"ops"}
    assert await company.faults() == []


async def test_claims_are_for_who_signed_in_by_them_and_end_with_their_person(company: Company) -> None:
    await company.signed_in("5e1f-finance")
    await company.door.people.set_password(BOB, await company.door.sign_in.passwords.hashed(PASSWORD), by=BOB)
    assert (await company.door.browser().log_in(BOB)).status_code == 303
    assert await company.roles() == {"ops", "finance"}, "a password says nothing of groups"
    await company.door.people.remove(BOB, by="ada")
    await company.door.people.add(BOB, by="ada")
    assert await company.roles() == set()


async def test_a_claim_names_an_id_in_any_case_and_never_a_display_name(company: Company) -> None:
    await company.signed_in(email="Bob@Example.com")
    company.provider.claims |= {"sub": "eve", "email": "Ada L."}
    browser = company.door.browser()
    answer = await browser.post("/login/oidc/callback", await sent_back(browser))
    assert (answer.status_code, browser.token) == (403, "")


def test_rules_and_refreshes_that_make_no_sense_are_refused() -> None:
    wrongs: list[dict[str, str]] = [
        {"value": "x"},
        {"value": "", "role": "x"},
        {"value": "x", "role": "a", "group": "b"},
    ]
    for wrong in wrongs:
        with pytest.raises(UserError):
            ClaimRule(**wrong)
    for refresh in ("5s", "90d"):
        with pytest.raises(UserError):
            OidcSettings(issuer="https://login.example", client="keyturn", refresh=refresh)
    assert OidcSettings(issuer="https://login.example", client="keyturn").refresh_ms is None
