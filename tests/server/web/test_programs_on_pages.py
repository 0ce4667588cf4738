"""What a program does by a page it may do by the API: a token is good for its scopes wherever it is shown."""

from __future__ import annotations

from tests.server.programs import program

FORMS = {"message": {"text": "Pay twice."}, "fork": {"line": "1"}, "resume": {}}


async def test_a_token_that_decides_steers_no_run_by_the_pages() -> None:
    async with program() as api:
        run = (await api.waiting(requester="cyd"))["run"]
        before, runs = await api.app.journal.head(run), len(await api.app.journal.runs())
        for word, form in FORMS.items():
            made = await api.http.post(
                f"/runs/{run}/{word}", data=form, headers={"authorization": f"Bearer {api.tokens['cyd']}"}
            )
            refused = "does not have the scope &#39;run&#39;" in made.text
            assert (made.status_code, refused) == (403, True), (word, made.text[-300:])
            send = await api.ask("POST", f"/runs/{run}/{'send' if word == 'message' else word}", "cyd", json={})
            assert send.status_code in (403, 422)
        assert (await api.app.journal.head(run), len(await api.app.journal.runs())) == (before, runs)
        token = await api.app.people.issue_token("cyd", ["run", "read"], by="ada")
        bearer = {"authorization": f"Bearer {token}"}
        assert (await api.http.post(f"/runs/{run}/fork", data={"line": "1"}, headers=bearer)).status_code == 303
