"""People decide in a browser: by mouse, by keys, on a phone, two at once, and while things change under their eyes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.server.office import opened
from tests.server.web.desk import Desk


@pytest.mark.trial
def test_a_call_is_approved_and_its_result_is_seen(at: Desk) -> None:
    at.asks("notices", "support")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator(".gave")).to_contain_text("sent to #ops")
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")
    expect(page.locator("#waiting")).to_have_text("1")
    assert at.state("notices") == "approve"


@pytest.mark.trial
def test_a_rejection_asks_for_words_where_it_was_pressed(at: Desk) -> None:
    at.asks("notices")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    page.get_by_role("button", name="Reject").click()
    assert at.state("notices") == "open"
    page.get_by_label("Reason, for the model to read").fill("Not before noon.")
    page.get_by_role("button", name="Reject this call").click()
    expect(page.locator("#outcome")).to_contain_text("Not before noon.")
    assert at.state("notices") == "reject"


def test_keys_alone_are_enough(at: Desk) -> None:
    at.asks("notices", "support", "asker")
    page = at.window()
    first = page.locator(".row.on").get_attribute("data-id")
    page.keyboard.press("j")
    expect(page.locator(".row.on")).not_to_have_attribute("data-id", first or "")
    page.keyboard.press("k")
    expect(page.locator(".row.on")).to_have_attribute("data-id", first or "")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("noticesnoticesx")
    page.keyboard.press("Escape")
    page.goto(f"{at.served.url}/requests/{at.asked['notices']}")
    page.keyboard.press("a")
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")
    page.goto(f"{at.served.url}/requests/{at.asked['support']}")
    page.keyboard.press("r")
    page.keyboard.type("No.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".sentence")).to_contain_text("Rejected by ada")


@pytest.mark.trial
def test_a_letter_never_decides_the_request_before_the_chosen_one(at: Desk) -> None:
    at.asks("notices", "support")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    held = list[Any]()
    page.route(f"**/requests/{at.asked['support']}", lambda route: held.append(route))
    to_it = "j" if page.locator(".row").first.get_attribute("data-id") == at.asked["notices"] else "k"
    page.keyboard.press(to_it)
    expect(page.locator(".row.on")).to_have_attribute("data-id", at.asked["support"])
    for letter in ("a", "r"):
        page.keyboard.press(letter)
    expect(page.locator(".request")).to_have_attribute("data-request", at.asked["notices"])
    expect(page.locator(".words")).to_be_hidden()
    for route in held:
        route.continue_()
    expect(page.locator(".request")).to_have_attribute("data-request", at.asked["support"])
    expect(page.locator("#detail:not([inert])")).to_be_visible()
    page.keyboard.press("r")
    expect(page.locator(".words")).to_be_visible()
    assert at.state("notices") == "open"


def test_a_press_that_was_on_its_way_decides_nothing_that_was_drawn_in_between(at: Desk) -> None:
    """The call is asked anew, with another file's changes for example: the same letter is for what was read."""
    at.asks("notices")
    id = at.asked["notices"]
    page = at.window(path=f"/requests/{id}")
    decided = list[str]()
    page.on("request", lambda made: decided.append(made.url) if made.url.endswith("/decide") else None)

    def asked_anew(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r'data-revision="\d+"', 'data-revision="9"', answer.text()))

    page.route(f"**/requests/{id}?since=*", asked_anew)
    page.evaluate(
        """() => new MutationObserver((_, self) => {
            if (!document.querySelector('.request[data-revision="9"]')) return;
            self.disconnect();
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true}));
        }).observe(document, {subtree: true, childList: true})"""
    )
    row = at.served.does(at.served.app.inbox.get(id))
    at.served.does(at.served.app.inbox.take(row, by="ben"))
    page.locator('.request[data-revision="9"] .keys:not([inert])').wait_for()
    assert not decided
    page.unroute_all(behavior="wait")
    page.keyboard.press("a")
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")


@pytest.mark.trial
def test_what_is_risky_is_pressed_twice_or_held(at: Desk) -> None:
    at.asks("ci")
    page = at.window(path=f"/requests/{at.asked['ci']}")
    page.get_by_role("button", name="Hold to approve").wait_for()
    page.keyboard.down("a")
    page.keyboard.down("a")  # it is held down, and repeats
    expect(page.locator("#notice")).to_contain_text("press the key A again")
    assert at.state("ci") == "open"
    page.keyboard.up("a")
    page.keyboard.press("a")
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")
    expect(page.locator("#notice")).to_be_hidden()
    at.asks("ci")
    page = at.window(path=f"/requests/{at.asked['ci']}", size=(360, 740), has_touch=True)
    decided = list[str]()
    page.on("request", lambda sent: decided.append(sent.post_data or "") if sent.url.endswith("/decide") else None)
    box = page.get_by_role("button", name="Hold to approve").bounding_box()
    assert box is not None
    finger, at_button = page.context.new_cdp_session(page), {"x": box["x"] + 20, "y": box["y"] + 20}
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at_button]})
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.locator(".trail .ended").wait_for()
    assert len(decided) == 1, decided  # the button that came under the finger was not pressed by lifting it
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.trial
def test_a_long_payload_is_read_before_it_is_approved(at: Desk) -> None:
    at.asks("sql")
    page = at.window(path=f"/requests/{at.asked['sql']}")
    page.get_by_role("button", name="Approve this call").click()
    assert at.state("sql") == "open"
    why = page.locator("[data-seen]").evaluate("box => box.validationMessage")
    assert why == "Open all of it and read to its end: the box is then ticked."
    page.keyboard.press("r")
    expect(page.locator("[data-seen]")).to_be_hidden()  # a rejection requires no reading
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name=re.compile("Show all 412 lines")).click()
    page.locator(".long pre .r").last.scroll_into_view_if_needed()
    expect(page.locator("[data-seen]")).to_be_checked()
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")


def test_a_call_runs_with_the_arguments_that_were_drawn(at: Desk) -> None:
    at.asks("notices")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    page.keyboard.press("e")
    page.wait_for_url("**/edit")  # its script has run then
    page.get_by_label("channel").fill("#dev")
    expect(page.locator("#change mark").last).to_have_text("dev")
    page.get_by_role("button", name="Approve with these arguments").click()
    expect(page.locator(".sentence")).to_contain_text("Approved with other arguments by ada")
    expect(page.locator(".gave")).to_contain_text("sent to #dev")


@pytest.mark.trial
def test_a_question_is_answered_with_one_of_its_choices(at: Desk) -> None:
    at.asks("asker")
    page = at.window(path=f"/requests/{at.asked['asker']}", size=(360, 740), has_touch=True)
    page.get_by_label("Hamburg").check()
    page.get_by_role("button", name="Send this answer").click()
    expect(page.locator(".sentence")).to_contain_text("Answered by ada")
    assert at.state("asker") == "answer"


@pytest.mark.trial
def test_two_windows_make_a_quorum(at: Desk) -> None:
    at.asks("support")
    path = f"/requests/{at.asked['support']}"
    ada, ben = at.window("ada", path), at.window("ben", path)
    ada.get_by_role("button", name="Approve this call").click()
    expect(ben.locator("#outcome")).to_contain_text("1 of 2 approvals")
    ben.get_by_role("button", name="Approve this call").click()
    expect(ben.locator(".gave")).to_contain_text("refunded 129")
    expect(ada.locator(".gave")).to_contain_text("refunded 129")
    expect(ada.locator(".sentence")).to_contain_text("Approved by ada and ben")
    expect(ada.locator(".row.on .left")).to_have_text("approved")


@pytest.mark.trial
def test_who_is_second_is_told_while_they_look(at: Desk) -> None:
    at.asks("notices", "ci")
    path = f"/requests/{at.asked['notices']}"
    ada, ben = at.window("ada", path), at.window("ben", path)
    ben.get_by_role("button", name="Reject").click()
    ben.get_by_label("Reason, for the model to read").fill("Not before")
    ada.get_by_label("More actions").click()
    ada.get_by_role("button", name="Claim").click()
    expect(ben.locator("[data-changes]")).to_contain_text("ada: claimed.")
    expect(ben.locator(".row.on")).to_contain_text("claimed by ada")
    expect(ben.get_by_label("Reason, for the model to read")).to_be_focused()
    ben.keyboard.type(" noon.")
    ada.get_by_role("button", name="Approve this call").click()
    expect(ben.locator("[data-changes]")).to_contain_text("ada: approved.")
    expect(ben.locator("[data-unsent]")).to_contain_text("Not before noon.")
    expect(ben.get_by_role("button", name="Reject this call")).to_have_count(0)
    expect(ben.locator(".sentence")).to_contain_text("Approved by ada")
    expect(ben.locator(".row.on .left")).to_have_text("approved")
    expect(ben.locator("#outcome")).to_contain_text("approved ada")


@pytest.mark.trial
def test_what_is_new_is_said_and_moves_nothing(at: Desk) -> None:
    at.asks("notices")
    page = at.window()
    before = rows_of(page)
    at.served.does(opened(at.served.app, "ops"))
    expect(page.locator("#fresh")).to_contain_text("1 new")
    assert rows_of(page) == before
    page.keyboard.press("n")
    expect(page.locator(".row")).to_have_count(2)
    expect(page.locator("#fresh")).to_be_hidden()


def rows_of(page: Any) -> list[list[str]]:
    """Return what the rows say, without the time left, which goes on."""
    rows = page.locator(".row").all_inner_texts()
    return [[line for line in row.splitlines() if not line.endswith(" left")] for row in rows]


@pytest.mark.trial
def test_time_runs_out_while_somebody_looks(at: Desk) -> None:
    at.asks("ops")
    page = at.window(path=f"/requests/{at.asked['ops']}")
    expect(page.locator(".clock")).to_contain_text("8 min")
    at.clock.now += 600_000
    page.get_by_role("button", name="Hold to approve").click(delay=900)
    expect(page.get_by_role("alert")).to_contain_text("Not recorded:")
    assert at.state("ops") != "approve"


@pytest.mark.trial
def test_a_page_that_was_away_is_told_what_is_so_now(at: Desk) -> None:
    at.asks("notices")
    page = at.window()
    page.context.set_offline(True)
    at.served.does(opened(at.served.app, "ops"))
    expect(page.locator("#away")).to_contain_text("Not connected", timeout=30_000)
    page.context.set_offline(False)
    expect(page.locator("#fresh")).to_contain_text("1 new", timeout=30_000)
    expect(page.locator("#away")).to_be_hidden()
    at.trouble.clear()  # the browser itself complains of the lost connection


@pytest.mark.trial
def test_two_taps_on_a_phone(at: Desk) -> None:
    at.asks("notices")
    page = at.window(size=(360, 740), has_touch=True)
    page.locator(".row").first.tap()
    button = page.get_by_role("button", name="Approve this call")
    box = button.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    assert box["y"] + box["height"] <= 740
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    button.tap()
    expect(page.locator(".sentence")).to_contain_text("Approved by ada")


@pytest.mark.trial
def test_it_works_without_script(at: Desk) -> None:
    at.asks("notices", "ci")
    page = at.window(path=f"/requests/{at.asked['notices']}", java_script_enabled=False)
    page.get_by_role("button", name="Approve this call").click()
    page.get_by_text("Approved by ada").wait_for()
    assert at.state("notices") == "approve"
    page.goto(f"{at.served.url}/requests/{at.asked['ci']}")
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("Rejected by ada").wait_for()


@pytest.mark.trial
def test_hostile_text_runs_nothing_and_loads_nothing(at: Desk) -> None:
    at.asks("stranger")
    asked = list[str]()
    page = at.window(path=f"/requests/{at.asked['stranger']}")
    page.on("dialog", lambda dialog: at.trouble.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    request = f"/requests/{at.asked['stranger']}"
    for path in ("/", request, *(f"{request}/{part}" for part in ("edit", "grant", "alike"))):
        page.goto(at.served.url + path)
        assert page.locator("img, main script, main iframe").count() == 0
    assert asked
    assert all(url.startswith(at.served.url) for url in asked)


@pytest.mark.trial
def test_several_alike_are_decided_together_and_no_others(at: Desk) -> None:
    at.asks("notices", "notices", "notices", "ops")
    page = at.window(path=f"/requests/{at.asked['notices']}")
    page.get_by_label("More actions").click()
    page.get_by_role("link", name="Requests with the same arguments").click()
    expect(page.get_by_role("checkbox")).to_have_count(3)
    page.get_by_role("checkbox").last.uncheck()
    page.get_by_role("button", name="Approve selected").click()
    expect(page.get_by_text("2 of 2")).to_be_visible()
    rows = at.served.does(at.served.app.inbox.list())
    assert sorted(row.agent for row in rows) == ["notices", "ops"]


@pytest.mark.trial
def test_nobody_has_looked_at_the_request_that_a_list_on_a_phone_does_not_draw(at: Desk) -> None:
    at.asks("notices")
    page = at.window(size=(360, 740), has_touch=True)
    expect(page.locator(".request")).to_be_hidden()
    page.wait_for_timeout(1_500)  # a look is sent after 700 ms
    assert at.looks("notices") == []
    with page.expect_response(lambda answer: answer.url.endswith("/looked")):
        page.set_viewport_size({"width": 1280, "height": 800})
    assert at.looks("notices") == ["ada"]
