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
        for other in ({"uses": 1, "expires": "1h"}, {"uses": 3}, {"uses": 3, "expires": "1h", "where": {"amount": 5}}):
            refused = await at.ask("POST", path, "ben", json=shown | {"grant": other})
            assert refused.status_code == 422, refused.text
        assert len((await at.get("/grants", "ben"))["grants"]) == 1
