"""Passkeys in a browser with an authenticator in software: enrolled, logged in by, and what they sign runs."""

from __future__ import annotations

import json
from collections.abc import Generator
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from keyturn import App, MemoryJournal
from keyturn.audit.checker import check
from tests.server.office import Served, cookie, office, opened, peopled
from tests.waiting import until

AUTHENTICATOR = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
                 "isUserVerified": True, "automaticPresenceSimulation": True}  # fmt: skip


class Device:
    """A window with an authenticator, and what its console complains of."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self.context = browser.new_context(viewport={"width": 1000, "height": 800})
        self.context.set_default_timeout(15_000)
        self.page: Page = self.context.new_page()
        self.served = served
        self.trouble: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda said: self.trouble.append(said.text) if said.type == "error" else None)
        self.cdp: Any = self.context.new_cdp_session(self.page)
        self.cdp.send("WebAuthn.enable")
        self.key: str = self.cdp.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})["authenticatorId"]

    def comes_in(self, token: str) -> None:
        self.has([cookie(self.served, token)])

    def has(self, cookies: Any) -> None:
        """Put cookies into the browser."""
        self.context.add_cookies(cookies)

    def sees(self, path: str) -> Page:
        self.page.goto(self.served.url + path)
        return self.page

    def enrols(self, label: str) -> None:
        self.sees("/account")
        self.page.get_by_label("Name of the new passkey").fill(label)
        self.page.get_by_role("button", name="Add a passkey").click()
        expect(self.page.get_by_role("status").filter(has_text="enrolled")).to_be_visible()

    def asks(self, path: str, body: dict[str, Any]) -> Any:
        """Send what a script of ours would, from a page of ours."""
        script = """async ([path, body]) => {
            const mark = document.querySelector("[data-form-mark]")?.dataset.formMark || "";
            const headers = {"content-type": "application/json", "x-csrf-token": mark};
            const answer = await fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
            return [answer.status, await answer.json()];
        }"""
        return self.page.evaluate(script, [path, body])

    def signs(self, options: Any) -> Any:
        script = """async options => (await navigator.credentials.get(
            {publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options)})).toJSON()"""
        return self.page.evaluate(script, options)


class Office:
    """A served office with an agent who wants to wire money, which takes a signature."""

    def __init__(self, browser: Browser, served: Served, tokens: dict[str, str]) -> None:
        self._browser, self.served, self.tokens = browser, served, tokens
        self.devices: list[Device] = []

    def device(self, person: str = "") -> Device:
        made = Device(self._browser, self.served)
        self.devices.append(made)
        if person:
            made.comes_in(self.tokens[person])
        return made

    def sessions(self, person: str) -> list[str]:
        found = self.served.does(self.served.app.people.sessions(person))
        return [each.session for each in found]


@pytest.fixture
def desk(own_key: None, browser: Browser) -> Generator[Office]:
    with Served(App(office(), MemoryJournal())) as served:
        made = Office(browser, served, served.does(peopled(served.app)))
        yield made
        for device in made.devices:
            device.context.close()


@pytest.mark.trial
def test_a_passkey_is_enrolled_and_logs_its_person_in_until_it_is_revoked(desk: Office) -> None:
    device = desk.device("ben")
    device.enrols("my phone")
    expect(device.page.get_by_text("an administrator has not confirmed yet that it signs decisions")).to_be_visible()
    device.context.clear_cookies()
    page = device.sees("/login?next=/account")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url("**/account")
    expect(page.get_by_text("passkey, began")).to_be_visible()
    assert desk.sessions("ben") == ["passkey", "password"]
    assert device.trouble == []
    page.get_by_role("button", name="Revoke my phone").click()
    expect(page.get_by_role("status").filter(has_text="The passkey was revoked")).to_be_visible()
    device.context.clear_cookies()
    device.sees("/login").get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("unknown here, or was revoked")).to_be_visible()
    assert desk.sessions("ben") == ["passkey", "password"]


def test_a_decision_signed_in_the_browser_runs_and_proves_itself(desk: Office) -> None:
    app = desk.served.app
    asked = desk.served.does(opened(app, "treasury"))
    ada, ben = desk.device("ada"), desk.device("ben")
    ben.enrols("ben's phone")
    ada.enrols("ada's laptop")
    ada.page.get_by_role("button", name="Let it sign decisions").click()
    expect(ada.page.get_by_text("signs decisions", exact=False).first).to_be_visible()
    ada.page.get_by_role("button", name="Confirm the key of ben").click()
    expect(ada.page.get_by_role("button", name="Confirm the key of ben")).to_have_count(0)
    page = ben.sees(f"/requests/{asked['treasury']}")
    approve = page.locator("button[value=approve]").last
    approve.hover()
    page.mouse.down()
    row = desk.served.does(_ended(app, asked["treasury"]))
    assert row.state == "approve"
    page.mouse.up()
    run = desk.served.does(app.wait(row.run, 20))
    assert run.status == "finished"
    [key] = desk.served.does(app.people.keys("ben"))
    assert key.count, "the authenticator counts, and so does the directory"
    report = desk.served.does(check(app.journal))
    assert report.ok
    assert ben.trouble == []


async def _ended(app: App, request: str) -> Any:
    async def row_of_it() -> Any:
        row = await app.inbox.get(request)
        return row if row.state != "open" else None

    return await until(row_of_it)


@pytest.mark.trial
def test_a_signature_is_good_for_what_was_signed_and_once(desk: Office) -> None:
    app = desk.served.app
    asked = desk.served.does(opened(app, "treasury", "treasury"))
    ada = desk.device("ada")
    ada.enrols("ada's laptop")
    ada.page.get_by_role("button", name="Let it sign decisions").click()
    expect(ada.page.get_by_text("signs decisions").first).to_be_visible()
    first, second = desk.served.does(app.inbox.list())
    assert asked
    words = {"request": first.id, "digest": first.digest, "verdict": "approve"}
    status, options = ada.asks("/sign/options", words)
    assert status == 200
    credential = ada.signs(options)
    other = {"request": second.id, "digest": second.digest, "verdict": "approve", "credential": credential}
    for wrong in (
        other,
        {**words, "verdict": "reject", "credential": credential},
        {**words, "note": "another word", "credential": credential},
        {**words, "credential": {**credential, "response": {**credential["response"], "signature": "AAAA"}}},
        {**words, "credential": None},
        {**words, "verdict": "erase", "credential": credential},
        {**words, "digest": "", "credential": credential},
    ):
        status, said = ada.asks("/sign", wrong)
        assert status in (403, 409, 422), said
    assert [row.state for row in desk.served.does(app.inbox.list())] == ["open", "open"]
    assert ada.asks("/sign", {**words, "credential": credential})[0] == 200
    assert ada.asks("/sign", other)[0] == 403
    assert desk.served.does(check(app.journal)).ok


@pytest.mark.trial
def test_a_login_by_passkey_is_good_once_and_for_nothing_else(desk: Office) -> None:
    device = desk.device("ben")
    device.enrols("my phone")
    device.context.clear_cookies()
    device.sees("/login")
    status, options = device.asks("/login/passkey/options", {})
    assert status == 200
    assert options.get("allowCredentials", []) == [], "nobody is told who has passkeys"
    credential = device.signs(options)
    tickets = device.context.cookies()
    assert device.asks("/login/passkey", {"credential": credential, "next": "//evil.example"}) == [200, {"next": "/"}]
    device.context.clear_cookies()
    assert device.asks("/login/passkey", {"credential": credential})[0] == 403, "without its ticket"
    device.has(tickets)
    assert device.asks("/login/passkey", {"credential": credential})[0] == 403, "with it, a second time"
    assert desk.sessions("ben").count("passkey") == 1
    _, again = device.asks("/login/passkey/options", {})
    assert device.asks("/login/passkey", {"credential": credential})[0] == 403, "another challenge"
    changed = {**device.signs(again), "id": "AAAA", "rawId": "AAAA"}
    assert device.asks("/login/passkey", {"credential": changed})[0] == 403
    junks: list[Any] = [{}, {"credential": 5}, {"credential": {"response": 5}}, {"credential": {}}]
    for junk in junks:
        assert device.asks("/login/passkey", junk)[0] in (403, 422)
    device.context.clear_cookies()
    _, options = device.asks("/login/passkey/options", {})
    device.cdp.send("WebAuthn.setUserVerified", {"authenticatorId": device.key, "isUserVerified": False})
    credential = device.signs({**options, "userVerification": "discouraged"})
    assert device.asks("/login/passkey", {"credential": credential})[0] == 403, "its person was not verified"
    assert desk.sessions("ben").count("passkey") == 1


@pytest.mark.trial
def test_an_address_has_no_passkeys_and_the_page_says_so(desk: Office) -> None:
    device = desk.device()
    device.has([{**cookie(desk.served, desk.tokens["ben"]), "url": f"http://127.0.0.1:{desk.served.port}"}])
    device.page.goto(f"http://127.0.0.1:{desk.served.port}/account")
    expect(device.page.get_by_text("Open this server by its host name, or as http://localhost")).to_be_visible()
    assert device.asks("/login/passkey/options", {})[0] == 422


@pytest.mark.trial
def test_a_link_is_taken_out_of_the_address_and_used_when_the_button_is_pressed(desk: Office) -> None:
    secret = desk.served.does(desk.served.app.people.make_link("ben", by="ada"))
    device = desk.device()
    addresses: list[str] = []
    device.page.on("request", lambda asked: addresses.append(asked.url + str(asked.headers)))
    page = device.sees(f"/enter#{secret}")
    expect(page.get_by_role("heading", name="Sign in as")).to_be_visible()
    assert secret not in page.url
    assert not desk.served.does(desk.served.app.people.directory()).links[secret.split("_")[1]].used
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/account/setup?**")
    assert all(secret not in address for address in addresses)
    page.get_by_label("Name of this device").fill("my phone")
    page.get_by_role("button", name="Create a passkey").click()
    expect(page.get_by_role("heading", name="You are set up")).to_be_visible()
    page.get_by_role("link", name="Go to the inbox").click()
    page.wait_for_url(f"{desk.served.url}/")
    assert device.trouble == []


@pytest.mark.trial
def test_all_works_without_script_but_passkeys(desk: Office, browser: Browser) -> None:
    secret = desk.served.does(desk.served.app.people.make_link("ben", by="ada"))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{desk.served.url}/enter")
    page.get_by_label("Sign-in link").fill(f"{desk.served.url}/enter#{secret}")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("New password").fill("four plain words here")
    page.get_by_label("Repeat the password").fill("four plain words here")
    page.get_by_role("button", name="Set a password").click()
    expect(page.get_by_role("heading", name="You are set up")).to_be_visible()
    page.locator("details.me summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Username").fill("Ben")
    page.get_by_label("Password").fill("four plain words here")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{desk.served.url}/")
    context.close()


PAGES = {"": ("/login", "/enter"), "ada": ("/account", "/account/links")}


@pytest.mark.trial
@pytest.mark.parametrize(
    ("pages", "widths"),
    [({"ada": ("/account",)}, (360,)), pytest.param(PAGES, (360, 1280), marks=pytest.mark.trial)],
    ids=["a page", "each page"],
)
def test_pages_are_accessible_and_fit(desk: Office, pages: dict[str, tuple[str, ...]], widths: tuple[int, ...]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for person, paths in pages.items():
        device = desk.device(person)
        for path, width in product(paths, widths):
            device.page.set_viewport_size({"width": width, "height": 800})
            page = device.sees(path)
            axe: Any = Axe()
            found: list[Any] = axe.run(page).response["violations"]
            problems = [f"{each['id']}: {json.dumps(each['nodes'][0]['html'])}" for each in found]
            assert problems == [], (path, width)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
        assert device.trouble == []
