"""A person decides on a phone of 360 pixels from a notification, with four taps at most.

What is real: chromium's service worker, the push event that its own debugger delivers, the notification that the worker
shows, the page, the touches, and the payload, which is what the channel encrypts. What is not: the way through the
browser maker's push service, and the finger on the notification, since a browser without a window shows none: the event
that it would raise is raised in the worker, and the address that the worker then opens is opened.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Worker, expect

from keyturn.channels.base import Message, Recipient
from keyturn.channels.webpush import Subscription, WebPushChannel, _payload
from tests.needs import missing
from tests.server.browsing import ONE, chromium
from tests.server.web.desk import Desk, desk

PHONE = (360, 740)


@pytest.fixture(scope="module")
def browser() -> Browser:
    """A whole chromium."""
    path = chromium(whole=True)
    if path is None:
        pytest.skip(missing("notifications"))
    return ONE.get(path)


_CLICKED = """async () => {
    const [shown] = await self.registration.getNotifications();
    const opened = [];
    self.clients.openWindow = async (address) => { opened.push(address); return null; };
    const event = new NotificationEvent("notificationclick", { notification: shown });
    const waits = [];
    event.waitUntil = (work) => waits.push(work);
    self.dispatchEvent(event);
    await Promise.all(waits);
    return { title: shown.title, body: shown.body, opened };
}"""


#: Which request a notification keeps of each message.
_KEPT = """requests => {
    const kept = [];
    self.registration.showNotification = async (title, shown) => { kept.push(shown.data.request); };
    for (const request of requests)
        self.dispatchEvent(new PushEvent("push", { data: JSON.stringify({ title: "Hello", request }) }));
    return kept;
}"""


class Phone:
    """A phone that gets push messages; it counts the taps."""

    def __init__(self, at: Desk, person: str = "ada") -> None:
        self.at = at
        self.page = at.window(person, size=PHONE, has_touch=True, is_mobile=True, permissions=["notifications"])
        self.taps = 0

    def told(self, message: Message) -> dict[str, Any]:
        """Deliver a push message, tap the notification, and return what stood on it."""
        worker = self._worker()
        devtools = self.page.context.new_cdp_session(self.page)
        found = list[dict[str, Any]]()
        devtools.on("ServiceWorker.workerRegistrationUpdated", lambda said: found.extend(said["registrations"]))
        devtools.send("ServiceWorker.enable")
        for _ in range(100):
            if found:
                break
            self.page.wait_for_timeout(50)
        data = _payload(message).decode()
        where = {"origin": self.at.served.url, "registrationId": found[-1]["registrationId"]}
        devtools.send("ServiceWorker.deliverPushMessage", {**where, "data": data})
        for _ in range(1_000):
            if worker.evaluate("async () => (await self.registration.getNotifications()).length"):
                break
            self.page.wait_for_timeout(50)
        self.taps += 1
        shown: dict[str, Any] = worker.evaluate(_CLICKED)
        [address] = shown["opened"]
        self.page.goto(address)
        return shown

    def _worker(self) -> Worker:
        with self.page.context.expect_event("serviceworker") as started:
            self.page.evaluate(
                "async () => { await navigator.serviceWorker.register('push.js'); "
                "await navigator.serviceWorker.ready; }"
            )
        worker: Worker = started.value
        return worker

    def tap(self, name: str, **held: Any) -> None:
        """Tap a button, which is within the thumb's reach."""
        self.taps += 1
        button = self.page.get_by_role("button", name=name)
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE[0]
        button.click(**held) if held else button.tap()


def told_of(at: Desk, agent: str) -> Message:
    row = at.served.does(at.served.app.inbox.get(at.asked[agent]))
    return Message(
        id="1",
        topic="request.created",
        to=Recipient(person="ada", channel="webpush", address="{}"),
        title=f"{row.agent} wants to run {row.tool}",
        text="Approve or reject it.",
        request=row.id,
        digest=row.digest,
        link=f"{at.served.url}/requests/{row.id}",
    )


def test_a_notification_leads_to_its_request_and_two_taps_decide(at: Desk) -> None:
    at.asks("notices", "support")
    phone = Phone(at)
    shown = phone.told(told_of(at, "notices"))
    assert "send_notice" in shown["title"]
    assert shown["opened"] == [f"{at.served.url}/requests/{at.asked['notices']}"]
    phone.tap("Approve this call")
    expect(phone.page.locator(".sentence")).to_contain_text("Approved by ada")
    assert at.state("notices") == "approve"
    assert phone.taps == 2
    phone.page.goto(f"{at.served.url}/account")  # a server that notifies no browser offers it to nobody
    expect(phone.page.get_by_role("button", name="Notify this browser")).to_have_count(0)


@pytest.mark.trial
def test_a_message_that_names_no_request_opens_the_inbox_and_nothing_else(at: Desk) -> None:
    at.asks("notices")
    phone = Phone(at, "ben")
    strange = ["../../logout", "//evil.example/", "javascript:alert(1)", "x" * 64, ""]
    shown = phone.told(msgspec.structs.replace(told_of(at, "notices"), request=strange[0]))
    assert shown["opened"] == [f"{at.served.url}/"]
    [worker] = phone.page.context.service_workers
    assert worker.evaluate(_KEPT, strange) == ["", "", "", "", ""]


@pytest.mark.trial
def test_a_long_payload_and_high_risk_take_four_taps_at_most(at: Desk) -> None:
    at.asks("sql", "ci")
    phone = Phone(at)
    for agent, name in (("ci", "Hold to approve"), ("sql", "Approve this call")):
        phone.taps = 1  # on the notification
        phone.page.goto(f"{at.served.url}/requests/{at.asked[agent]}")
        if agent == "sql":
            phone.taps += 1
            phone.page.get_by_role("button", name="Show all").tap()
            phone.page.locator(".block.long .r").last.scroll_into_view_if_needed()
            expect(phone.page.locator("[data-seen]")).to_be_checked()  # by its last row on the screen
        phone.tap(name, **({"delay": 900} if agent == "ci" else {}))
        expect(phone.page.locator(".sentence")).to_contain_text("Approved by ada")
        assert at.state(agent) == "approve"
        assert phone.taps <= 4


_SERVICE = """() => {
    PushManager.prototype.subscribe = async function (asked) {
        const key = btoa(String.fromCharCode(...asked.applicationServerKey));
        const keys = { p256dh: key, auth: "c2VjcmV0LXNlY3JldC1zZQ" };
        return { endpoint: "https://push.example.net/s/1", toJSON: () => ({ keys }) };
    };
}"""


@pytest.mark.trial
def test_a_browser_subscribes_by_one_button_of_the_account_page(browser: Browser) -> None:
    """The maker's push service is played by the page; permission, worker, key and the kept address are real."""
    key = base64.urlsafe_b64encode(bytes(31) + b"\x07").rstrip(b"=").decode()
    channel = WebPushChannel(key, "mailto:ops@example.net", loopback=True)
    with desk(browser, "notices", channels=[channel]) as at:
        page = at.window(path="/account", size=PHONE, permissions=["notifications"])
        page.evaluate(_SERVICE)
        page.get_by_role("button", name="Notify this browser").click()
        expect(page.locator("main")).to_contain_text("a browser, through push.example.net")
        directory = at.served.does(at.served.app.people.directory())
        kept = msgspec.json.decode(directory.people["ada"].addresses["webpush"].encode(), type=Subscription)
        assert kept.endpoint == "https://push.example.net/s/1"
        assert base64.b64decode(kept.keys.p256dh).hex().startswith("04")
        page.get_by_role("button", name="Remove the address for webpush").click()
        expect(page.locator("main")).not_to_contain_text("push.example.net")
