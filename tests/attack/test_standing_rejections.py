"""A standing rejection is revoked by those who may decide such a call, whichever door they come through."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Approval, Decider, Grant, NotAllowed, function_tool
from keyturn.audit.checker import check
from keyturn.core.policy import Verdict
from tests.attack.world import Desk, clerk

BOB = Decider("bob", roles=("ops",), strength="authenticated")
DEE = Decider("dee", roles=("ops",), strength="authenticated")
EVE = Decider("eve", roles=("support",), strength="authenticated")
wiped: list[str] = []


def desk(terms: Approval | None) -> Desk:
    """A tool that asks once, and that a policy allows from then on."""

    @function_tool(needs_approval=True, approval=terms)
    def wipe(what: str) -> str:
        """Wipe."""
        wiped.append(what)
        return "wiped"

    asked: list[str] = []

    def policy(call: Any, _context: Any) -> Verdict:
        asked.append(call.tool)
        return Verdict("ask", terms=terms) if len(asked) == 1 else Verdict("allow")

    wiped.clear()
    return Desk(clerk(wipe, [{"what": "a"}], [{"what": "b"}]), policy)


@pytest.mark.parametrize(
    "who", [EVE, "bob", Decider("bob"), Decider("eve", strength="authenticated", acting_for="dee")]
)
async def test_whoever_may_not_decide_such_a_call_does_not_revoke_its_rejection(who: Any) -> None:
    at = desk(Approval(role="ops"))
    await at.start()
    await at.inbox.reject(await at.row(), by=BOB, always=True)
    [grant] = await at.inbox.grants()
    with pytest.raises(NotAllowed, match="this standing rejection cannot be revoked by"):
        await at.inbox.revoke(at.run, grant.id, by=who)
    result = await at.go_on()
    assert (wiped, [item.name for item in result.interruptions]) == ([], [])
    assert (await check(at.journal)).violations == []


async def test_whoever_may_decide_such_a_call_revokes_its_rejection() -> None:
    at = desk(Approval(role="ops"))
    await at.start()
    await at.inbox.reject(await at.row(), by=BOB, always=True)
    [grant] = await at.inbox.grants()
    await at.inbox.revoke(at.run, grant.id, by=DEE)
    await at.go_on()
    assert wiped == ["b"]
    assert (await check(at.journal)).violations == []


async def test_a_name_alone_revokes_no_rejection_that_takes_people_who_are_known() -> None:
    for terms, lifted in ((Approval(role="ops"), []), (None, ["b"])):
        at = desk(terms)
        await at.start()
        await at.inbox.reject(await at.row(), by=BOB, always=True)
        [grant] = await at.inbox.grants()
        if terms is not None:
            with pytest.raises(NotAllowed, match="cannot be revoked by eve"):
                await at.inbox.revoke(at.run, grant.id, by="eve")
        else:
            await at.inbox.revoke(at.run, grant.id, by="eve")
        await at.go_on()
        assert wiped == lifted


async def test_an_approval_is_revoked_by_anybody() -> None:
    at = desk(Approval(role="ops"))
    await at.start()
    await at.inbox.approve(await at.row(), by=BOB, grant=Grant())
    [grant] = await at.inbox.grants()
    await at.inbox.revoke(at.run, grant.id, by=EVE)
    assert (await at.inbox.grants())[0].revoked


async def test_a_rejection_for_good_holds_for_a_tool_that_is_described_in_other_words_by_then() -> None:
    at = desk(None)
    await at.start()
    await at.inbox.reject(await at.row(), by=BOB, always=True)
    at.agent.tools[0].description = "Wipe nothing at all."
    result = await at.go_on()
    assert (wiped, [item.name for item in result.interruptions]) == ([], [])
    assert (await check(at.journal)).violations == []
