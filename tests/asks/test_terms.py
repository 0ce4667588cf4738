"""What a policy, the wishes of a caller and the terms of an approval make of a request from outside."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, Approval, Ask, AskState, Conflict, ExternalAgent, NotAllowed
from keyturn.directory.login import Login
from keyturn.inbox.rule_lint import known_of
from keyturn.policies.lint import lint
from keyturn.policies.rules import Policy, allow, ask, deny
from keyturn.testing import check
from tests.asks.test_asks import office, pending, refund
from tests.server.programs import peopled
from trials.signers import SSHSigner


async def test_a_policy_decides_and_takes_no_wish_away() -> None:
    rules = Policy(
        deny(tool="drop_table", reason="never"),
        allow(tool="read_file"),
        ask(tool="refund", approval=Approval(quorum=2)),
        allow(tool="pay"),
    )
    async with office(policy=rules) as app:

        async def now(tool: str, **more: Any) -> AskState:
            state = await app.asks.ask(Ask(key=tool, tool=tool, **more))
            await app.wait(state.id, 30)
            return await app.asks.wait(state.id, 0.2)

        denied = await now("drop_table")
        assert (denied.status, denied.reason) == ("rejected", "never")
        free = await app.asks.ask(Ask(key="r", tool="read_file"))
        free = await app.asks.wait(free.id, 30)
        assert free.status == "approved"
        assert (await app.asks.claim(free.id, free.digest, "a")).status == "claimed"
        for tool, wish, quorum in (
            ("refund", None, 2),
            ("refund", Approval(role="x"), 2),
            ("pay", Approval(quorum=3), 3),
        ):
            state = await app.asks.ask(Ask(key=f"{tool} {wish}", tool=tool, terms=wish))
            row = await pending(app, state)
            assert row.request.terms is not None
            assert (row.request.terms.quorum, row.request.terms.role) == (quorum, None if wish is None else wish.role)
        assert (await now("other")).status == "pending"


def test_a_rule_names_the_server_of_an_external_caller_and_the_linter_knows_it() -> None:
    known = known_of({"external": ExternalAgent(), "desk": Agent("desk")})
    rules = [allow(agent="external/shop", tool="buy"), allow(agent="desk/shop", tool="buy"), deny(agent="external/*")]
    errors = [(each.rule, each.key) for each in lint(rules, known) if each.level == "error"]
    assert errors == [(2, "agent")]


async def test_the_wishes_of_a_caller_name_no_approver_in_place_of_those_of_the_policy() -> None:
    async with office(policy=Policy(ask(tool="refund", approval=Approval(users=("ben",))))) as app:
        await peopled(app)
        wish = Approval(users=("ann", "cyd"), deny_quorum=2)  # not both: ben alone cannot reject twice
        for key in ("o1", "o2"):
            state = await app.asks.wait((await app.asks.ask(refund(key, terms=wish))).id, 30)
            assert (state.status, state.reason) == (
                "rejected",
                "the policy and the tool's own terms cannot both be met by one decision",
            )


async def test_the_times_that_a_caller_states_prolong_no_deadline_of_the_policy_and_have_nothing_escalate_sooner() -> (
    None
):
    escalates = Approval(users=("ben",), expires="1h", on_expiry="escalate", escalate_to=("cyd",))
    for own, wish, holds in (
        (Approval(expires="1h"), Approval(expires="50m", on_expiry="ask_again", max_asks=20), ("50m", "reject")),
        (Approval(expires="1h"), Approval(expires="20m", on_expiry="ask_again", max_asks=20), ("20m", "ask_again", 3)),
        (escalates, Approval(expires="9s", on_expiry="escalate", escalate_to=("cyd",)), ("9s", "reject")),
        (escalates, Approval(expires="9s", on_expiry="ask_again", max_asks=20), ("9s", "ask_again", 20)),
        (escalates, Approval(expires="1h", on_expiry="escalate", escalate_to=("cyd",)), ("1h", "escalate")),
    ):
        async with office(policy=Policy(ask(tool="refund", approval=own))) as app:
            await peopled(app)
            terms = (await pending(app, await app.asks.ask(refund(terms=wish)))).request.terms
            assert terms is not None
            assert (terms.expires, terms.on_expiry, terms.max_asks)[: len(holds)] == holds


async def test_the_steps_of_a_chain_are_met_and_the_journal_checks_between_them() -> None:
    steps = Approval(steps=(Approval(users=("ben",)), Approval(users=("cyd",))))
    async with office() as app:
        await peopled(app)
        asked = await app.asks.ask(refund(terms=steps))
        await app.inbox.approve(await pending(app, asked), by=Login("ben"))
        assert (await check(app.journal)).ok
        [row] = await app.inbox.list(run=asked.id)
        assert [vote.at.year > 2000 for step in row.request.met for vote in step.votes] == [True]
        await app.inbox.approve(row, by=Login("cyd"))
        state = await app.asks.wait(asked.id, 30)
        assert (await app.asks.claim(state.id, state.digest, "job")).status == "claimed"


async def test_terms_that_require_a_signature_are_met_by_one_alone_and_a_key_that_is_revoked_ends_the_claim() -> None:
    pen = SSHSigner("ssh-ed25519", 7)
    async with office(policy=Policy(ask(tool="refund", approval=Approval(signed=True)))) as app:
        await app.people.start("ada")
        key = app.people.read_key("ssh", pen.line)
        await app.people.enrol_key("ada", key, pen.sign(app.people.to_sign("ada", key)))
        await app.people.confirm_key(key.id, by="ada")
        states: list[AskState] = []
        for name in ("o1", "o2"):
            row = await pending(app, await app.asks.ask(refund(name)))
            with pytest.raises(NotAllowed, match="signed with the approver's own key"):
                await app.inbox.approve(row, by=Login("ada"))
            proof = pen.sign(await app.inbox.to_sign(row, "approve"))
            await app.inbox.approve(row, by=Login("ada"), proof=proof)
            states.append(await app.asks.wait(row.run, 30))
        first, second = states
        assert (await app.asks.claim(first.id, first.digest, "job")).status == "claimed"
        await app.people.revoke_key(key.id, by="ada")
        with pytest.raises(Conflict):
            await app.asks.claim(second.id, second.digest, "job")
        assert (await app.asks.get(second.id)).attempts == 0


async def test_a_policy_that_became_stricter_stops_a_claim() -> None:
    async with office(policy=Policy(allow(tool="refund"))) as app:
        state = await app.asks.wait((await app.asks.ask(refund())).id, 30)
        app.policy = Policy(deny(tool="refund"))
        with pytest.raises(Conflict):
            await app.asks.claim(state.id, state.digest, "job")
        asked_again = await app.asks.get(state.id)
        assert asked_again.status in ("pending", "rejected")
        assert asked_again.attempts == 0
