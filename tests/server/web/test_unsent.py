"""What a page says of a press that recorded nothing: that it was refused, had no answer, or came after the session."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from keyturn import App, MemoryJournal
from tests.server.office import office, opened, peopled
from tests.server.web.desk import Desk
from tests.server.web.visiting import Visiting
from tests.waiting import until_now


async def test_what_was_typed_with_a_refused_decision_is_shown_as_not_sent() -> None:
    app = App(office(), MemoryJournal())
    tokens = await peopled(app)
    asked = await opened(app, "notices")
    async with app:
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        form = {**await ben.fields(f"/requests/{asked['notices']}"), "verdict": "reject", "message": "Not <today>."}
        await ada.decide(asked["notices"], "approve")
        late = await ben.send(f"/requests/{asked['notices']}/decide", form, **{"hx-request": "true"})
    assert "Not recorded:" in late.text
    assert 'Not sent: <q class="theirs">Not &lt;today&gt;.</q>' in late.text


async def test_a_form_that_is_sent_after_the_session_leads_back_to_its_page_and_says_that_nothing_is_recorded() -> None:
    app = App(office(), MemoryJournal())
    tokens = await peopled(app)
    asked = await opened(app, "notices")
    page = f"/requests/{asked['notices']}"
    async with app:
        ben, stranger = Visiting(app, tokens["ben"]), Visiting(app, "")
        form = {**await ben.fields(page), "verdict": "approve"}
        await app.people.revoke_token(tokens["ben"], by="ben")
        by_script = {"hx-request": "true", "hx-current-url": f"http://localhost{page}"}
        answer = await ben.send(f"{page}/decide", form, **by_script)
        assert answer.headers["hx-redirect"] == f"/login?next={page}&ended=sent"
        plain = await ben.send(f"{page}/decide", form, referer="https://evil.example//evil.example/x")
        assert plain.headers["location"] == "/login?next=/&ended=sent"
        seen = await ben.see(page)
        assert seen.headers["location"] == f"/login?next={page}&ended=yes"
        assert (await stranger.see(page)).headers["location"] == f"/login?next={page}"
        said = [(await stranger.see(f"/login?ended={how}")).text for how in ("sent", "yes", "<b>")]
    assert ["What you sent last was not recorded" in text for text in said] == [True, False, False]
    assert ["Your session ended." in text for text in said] == [True, True, False]


@pytest.mark.trial
def test_a_press_without_an_answer_says_so_and_what_is_on_record_once_there_is_one(at: Desk) -> None:
    at.asks("notices")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    page.context.set_offline(True)
    page.keyboard.press("a")
    refused = page.locator("[data-refused]")
    expect(refused).to_contain_text("May have been recorded: the server did not answer.")
    page.context.set_offline(False)
    expect(refused).to_contain_text("Not recorded: the server did not answer when you pressed the button.")
    at.trouble.clear()  # the browser complains of what it could not fetch
    page.keyboard.press("a")
    expect(page.locator(".answer")).to_contain_text("You approved this call.")
    expect(refused).to_have_count(0)


@pytest.mark.trial
def test_a_refusal_stays_while_the_page_follows_what_happens(at: Desk) -> None:
    at.asks("notices")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    held = list[Route]()
    page.route("**/decide", lambda route: held.append(route))
    page.keyboard.press("a")
    until_now(lambda: bool(held))
    inbox = at.served.app.inbox
    row = at.served.does(inbox.get(at.asked["notices"]))
    at.served.does(inbox.approve(row, by="ben", undo="1s"))
    for route in held:
        route.continue_()
    refused = page.locator("[data-refused]")
    expect(refused).to_contain_text("Not recorded: ben already decided this")
    expect(page.locator(".trail li.ended")).to_be_visible()
    expect(refused).to_contain_text("Not recorded: ben already decided this")
