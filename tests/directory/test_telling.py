"""Who is told of requests by the directory: whoever may decide, where they said, and not while they do not want to."""

from __future__ import annotations

import pytest

from keyturn import Agent, App, Approval, MemoryJournal, function_tool
from keyturn.directory.telling import MUTED, deciders
from keyturn.testing import ScriptedModel, function_call
from tests.waiting import until_status


@function_tool(needs_approval=True, approval=Approval(role="finance", not_requester=True))
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.mark.parametrize(
    ("muted", "is_muted"), [(None, False), (10**30, True), (5, False), ("x", False), (True, False)]
)
async def test_whoever_may_decide_is_told_at_their_addresses(own_key: None, muted: object, is_muted: bool) -> None:
    journal = MemoryJournal()
    model = ScriptedModel([[function_call("pay", {"amount": 5})], "Done."])
    async with App([Agent("desk", model=model, tools=[pay])], journal) as app:
        await app.people.start("ada")
        for name, roles in (("bob", ["finance"]), ("cyd", ["finance"]), ("dan", ["ops"])):
            await app.people.add(name, by="ada", roles=roles)
            await app.people.set_address(name, "mail", f"{name}@example.com", by=name)
        await app.people.set(MUTED, muted, person="bob", by="bob")
        run = await app.start("desk", "Pay 5.", requester="cyd")
        await until_status(app, run.id, "waiting")
        [row] = await app.inbox.list()
        [told] = await deciders(journal)(row.request)
        assert (told.person, told.channel, told.address) == ("bob", "mail", "bob@example.com")
        now = await journal.now()
        assert (told.muted_until is not None and now < told.muted_until < now + 32 * 86_400_000) is is_muted
        assert [each.person for each in await deciders(journal)(None)] == ["bob", "cyd", "dan"]
