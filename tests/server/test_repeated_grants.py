"""A decision that is sent again is answered as recorded, and not with a grant that was asked for in other words."""

from __future__ import annotations

from tests.server.programs import program


async def test_another_grant_with_a_decision_that_is_on_record_is_refused() -> None:
    """It was answered with the first one: who meant to narrow that was told that it is done."""
    async with program() as at:
        asked = await at.waiting()
        path, shown = f"/requests/{asked['id']}/approve", {"digest": asked["digest"]}
        first = await at.post(path, shown | {"grant": {"uses": 3, "expires": "1h"}}, "ben")
        again = await at.post(path, shown | {"grant": {"uses": 3, "expires": "1h"}}, "ben")
        assert (again["grant"], again["line"]) == (first["grant"], first["line"])
        wider = {"uses": 3, "expires": "1h", "scope": "agent"}
        elsewhere = {"uses": 3, "expires": "1h", "where": {"amount": 5}}
        for other in ({"uses": 1, "expires": "1h"}, {"uses": 3}, elsewhere, wider):
            refused = await at.ask("POST", path, "ben", json=shown | {"grant": other})
            assert refused.status_code == 422, refused.text
        assert len((await at.get("/grants", "ben"))["grants"]) == 1


async def test_a_grant_of_another_reach_is_refused_and_the_same_one_is_answered_as_recorded() -> None:
    async with program() as at:
        asked = await at.waiting()
        path, shown = f"/requests/{asked['id']}/approve", {"digest": asked["digest"]}
        first = await at.post(path, shown | {"grant": {"scope": "agent"}}, "ben")
        again = await at.post(path, shown | {"grant": {"scope": "agent"}}, "ben")
        assert (again["grant"], again["line"]) == (first["grant"], first["line"])
        narrower = await at.ask("POST", path, "ben", json=shown | {"grant": {"scope": "run"}})
        assert narrower.status_code == 422, narrower.text


async def test_a_lasting_rejection_that_is_sent_again_is_answered_as_recorded() -> None:
    async with program() as at:
        asked = await at.waiting()
        path, body = f"/requests/{asked['id']}/reject", {"digest": asked["digest"], "always": True}
        first = await at.post(path, body, "ben")
        again = await at.post(path, body, "ben")
        assert (again["grant"], again["line"]) == (first["grant"], first["line"])
