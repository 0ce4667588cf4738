"""Looks and reviews on the pages: who approves looks first, and others say whether it was right."""

from __future__ import annotations

from typing import Any

from keyturn import Agent, App, Approval, MemoryJournal, function_tool
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.server.office import Clock
from tests.server.web.visiting import Visiting


def app_of(approval: Approval, clock: Clock | None = None) -> App:
    """Make an app whose agent wants to wire money once, on these terms."""

    @function_tool(needs_approval=True, approval=approval)
    def wire(amount: int) -> str:
        """Wire money."""
        return f"wired {amount}"

    def says(request: ModelRequest) -> Any:
        return "Done." if tool_outputs(request) else [function_call("wire", {"amount": 5})]

    return App([Agent("teller", model=ScriptedModel(says), tools=[wire])], MemoryJournal(clock))


async def opened(app: App) -> tuple[dict[str, str], Any]:
    people = app.people
    await people.start("ada")
    await people.add("ben", roles=["chief"], by="ada")
    await people.add("cyd", by="ada")
    tokens = {name: await people.begin_session(name, "password", lasts="1d") for name in ("ada", "ben", "cyd")}
    run = await app.start("teller", "Pay.", requester="cyd")
    await app.wait(run.id, 20)
    [row] = await app.inbox.list()
    return tokens, row


async def test_who_approves_looks_first_and_the_page_says_how_long_still() -> None:
    clock = Clock()
    async with app_of(Approval(min_look="0.5s"), clock) as app:
        tokens, row = await opened(app)
        ada, path = Visiting(app, tokens["ada"]), f"/requests/{row.id}"
        text = (await ada.see(path)).text
        assert "an approver views it for at least 1 s first" in text
        assert 'data-look="500"' in text
        assert "I am viewing it" in text
        assert "Approve and create a grant" not in text
        soon = await ada.decide(row.id, "approve")
        assert (soon.status_code, "Not recorded:" in soon.text) == (403, True)
        form = await ada.fields(path)
        looked = await ada.send(f"{path}/looked", form)
        assert 0 < looked.json()["left"] <= 500
        assert "I am viewing it" not in (await ada.see(path)).text
        assert (await ada.decide(row.id, "approve")).status_code == 403
        assert (await Visiting(app, tokens["ben"]).decide(row.id, "approve")).status_code == 403  # each by themselves
        clock.now += 600  # the run may be a few lines, and so milliseconds, ahead of the clock
        assert (await ada.send(f"{path}/looked", form)).json()["left"] == 0
        assert 'data-look="0"' in (await ada.see(path)).text
        assert (await ada.decide(row.id, "approve")).status_code == 303
        assert (await app.inbox.get(row.id)).state == "approve"


async def test_a_look_without_script_is_a_form_and_is_of_what_was_shown() -> None:
    async with app_of(Approval(min_look="5s")) as app:
        tokens, row = await opened(app)
        ada, path = Visiting(app, tokens["ada"]), f"/requests/{row.id}"
        form = await ada.fields(path)
        for wrong, status in (({"digest": "0" * 64}, 409), ({"digest": ""}, 422), ({"revision": "7"}, 409)):
            assert (await ada.send(f"{path}/looked", {**form, **wrong, "back": "yes"})).status_code == status, wrong
        assert (await app.inbox.get(row.id)).request.looked == ()
        made = await ada.send(f"{path}/looked", {**form, "back": "yes"})
        assert (made.status_code, made.headers["location"]) == (303, path)
        assert [look.by for look in (await app.inbox.get(row.id)).request.looked] == ["ada"]
        for part in ("edit", "alike"):
            assert (await ada.see(f"{path}/{part}")).status_code == 200
        assert 'data-look="' in (await ada.see(f"{path}/edit")).text
        refused = await ada.see(f"{path}/grant")
        assert (refused.status_code, "approve only this call" in refused.text) == (422, True)
        assert (await ada.decide(row.id, "reject")).status_code == 303


async def test_others_say_whether_it_was_right_in_a_question_of_its_own() -> None:
    async with app_of(Approval(role="finance", break_glass="chief")) as app:
        tokens, row = await opened(app)
        await app.people.give_role("finance", to="ada", by="ada")
        ada, ben = Visiting(app, tokens["ada"]), Visiting(app, tokens["ben"])
        assert (await ben.decide(row.id, "approve", note="the bank calls")).status_code == 303
        await app.wait(row.run, 20)
        [review] = await app.inbox.list(kind="review")
        text = (await ada.see(f"/requests/{review.id}")).text
        assert 'Was it right to approve <span class="theirs mono">wire</span>' in text
        assert ">It was right<" in text
        assert ">It was wrong<" in text
        assert "Approve this call" not in text
        assert "alone in an emergency" in text
        assert review.id in (await ada.see("/?risk=review")).text
        assert review.id not in (await ada.see("/?risk=high")).text
        own = await ben.see(f"/requests/{review.id}")
        assert "they approved it" in own.text
        assert (await ben.decide(review.id, "right", digest=review.digest)).status_code == 403
        assert (await ada.decide(review.id, "wrong")).status_code == 422
        assert (await ada.decide(review.id, "approve")).status_code in (404, 409)
        for part in ("edit", "grant", "alike"):
            assert (await ada.see(f"/requests/{review.id}/{part}")).status_code in (404, 422), part
        assert (await ada.decide(review.id, "wrong", note="no invoice")).status_code == 303
        done = (await ada.see(f"/requests/{review.id}")).text
        assert "Reviewed as wrong" in done
        assert "no invoice" in done
        late = await ada.decide(review.id, "right", digest=review.digest, revision="1")
        assert (late.status_code, "ada" in late.text) == (409, True)


async def test_a_review_is_seen_by_who_may_give_it() -> None:
    async with app_of(Approval(role="finance", break_glass="chief")) as app:
        tokens, row = await opened(app)
        await app.people.add("dan", roles=["finance"], by="ada")
        tokens["dan"] = await app.people.begin_session("dan", "password", lasts="1d")
        await app.people.set("visible", "own", by="ada")
        await Visiting(app, tokens["ben"]).decide(row.id, "approve", note="the bank calls")
        await app.wait(row.run, 20)
        [review] = await app.inbox.list(kind="review")
        for person, status in {"dan": 200, "ada": 200, "ben": 404, "cyd": 200}.items():
            made = await Visiting(app, tokens[person]).see(f"/requests/{review.id}")
            assert made.status_code == status, person
        assert review.id in (await Visiting(app, tokens["dan"]).see("/?mine=1")).text
        assert review.id not in (await Visiting(app, tokens["ada"]).see("/?mine=1")).text


async def test_a_request_that_takes_a_signature_says_whose_key_signs_and_how_else() -> None:
    async with app_of(Approval(signed=True)) as app:
        tokens, row = await opened(app)
        ada = Visiting(app, tokens["ada"])
        text = (await ada.see(f"/requests/{row.id}")).text
        assert "Your signature is required" in text
        assert "add a passkey under" in text
        assert f"keyturn approve {row.id[:12]} --digest {row.digest[:16]} --sign" in text
        assert f'data-signs="{row.id}"' in text
        edit = (await ada.see(f"/requests/{row.id}/edit")).text
        assert f'data-signs="{row.id}" data-edit' in edit
        assert "Your signature is required" in edit
        assert (await ada.see(f"/requests/{row.id}/grant")).status_code == 422
        alike = (await ada.see(f"/requests/{row.id}/alike")).text
        assert "its own signature" in alike
        assert "Approve selected" not in alike
        assert (await ada.decide(row.id, "approve")).status_code == 403
