"""Stories of several people in one journal: marks, withdrawals, glass, signatures, shared limits, who is who.

Each is kept at a point where somebody has to go on with it. A story that was saved is not changed any more.
"""

from __future__ import annotations

from typing import Any

from keyturn import Agent, App, Approval, Budget, Policy, function_tool
from keyturn.directory.login import Login
from keyturn.journal.rows import Query, RequestRow
from keyturn.policies.rules import ask, deny
from tests.corpus.stories import _act, call, desk
from trials.signers import SSHSigner

KEY = SSHSigner("ssh-ed25519", 14)
LED = function_tool(_act, name_override="led", approval=Approval(role="lead"))
SEALED = function_tool(_act, name_override="sealed", approval=Approval(role="board", break_glass="chief"))
OWN = function_tool(_act, name_override="own", approval=Approval(confirm=True, role="lead"))
SIGNED = function_tool(_act, name_override="signed", approval=Approval(role="lead", signed=True))
SPEND = function_tool(_act, name_override="spend")
TOOLS = [LED, SEALED, OWN, SIGNED, SPEND]
POLICY = Policy(ask(tool="spend", over=Budget("n", 5, of="tenant", name="purse")))
SHADOW = Policy(deny(tool="led", where={"n": {"ge": 7}}, reason="too much"), shadow=True)
#: Each story with the calls of its one round.
AGENTS: dict[str, list[Any]] = {
    "marked": [call("led", 1)],
    "withdrawn": [call("led", 2)],
    "shattered": [call("sealed", 3)],
    "confirmed": [call("own", 4)],
    "asked_back": [call("led", 5)],
    "signed": [call("signed", 6)],
    "shadowed": [call("led", 7)],
    "spent": [call("spend", 3)],
    "overspent": [call("spend", 4)],
    "delegated": [call("led", 8)],
}
#: Who decides what is left of a story, one after the other.
LEFT = {"marked": "bob", "withdrawn": "ada", "confirmed": "bob", "shadowed": "bob", "overspent": "bob"}


def agents() -> list[Agent[Any]]:
    """Every story's agent, made anew."""
    return [desk(name, calls, tools=TOOLS) for name, calls in AGENTS.items()]


def app(store: Any, *, worker: bool, policy: Policy = POLICY) -> App:
    """The app of these stories."""
    return App(agents(), store, policy, worker=worker)


async def fill(store: Any) -> None:
    """Bring every story to its point."""
    async with app(store, worker=True, policy=SHADOW) as shaded:
        await shaded.wait((await shaded.start("shadowed", "go", requester="rea")).id, 10)
    async with app(store, worker=True) as begun:
        await _people(begun)
        rows = dict[str, RequestRow]()
        for name in (name for name in AGENTS if name != "shadowed"):
            run = await begun.start(name, "go", requester="rea")
            await begun.wait(run.id, 10)
            for row in await begun.inbox.list(run=run.id):
                rows[name] = row
    await _said(app(store, worker=False), rows)


async def _people(begun: App) -> None:
    people = begun.people
    await people.start("ada", "Ada")
    for name, roles in {"bob": ["lead"], "cyd": ["chief"], "dan": [], "rea": []}.items():
        await people.add(name, roles=roles, by="ada")
    await people.give_role("lead", to="ada", by="ada")
    await people.join("board", "cyd", by="ada")
    await people.take_role("lead", of="dan", by="ada")
    await people.delegate("bob", "dan", lasts="3650d", why="away")
    await people.revoke_token(await people.issue_token("dan", by="ada"), by="ada")
    key = people.read_key("ssh", KEY.line)
    await people.enrol_key("ada", key, KEY.sign(people.to_sign("ada", key)))
    await people.confirm_key(key.id, by="ada")


async def _said(quiet: App, rows: dict[str, RequestRow]) -> None:
    """Say what was said before it was saved; nobody moves a run."""
    inbox = quiet.inbox
    marked = await inbox.take(rows["marked"], by=Login("bob"), lasts="30d")
    await inbox.snooze(marked, by=Login("ada"), lasts="30d")
    await inbox.approve(rows["withdrawn"], by=Login("ada"), note="fine")
    await inbox.withdraw(rows["withdrawn"].id, by=Login("ada"), note="not so fine")
    await inbox.approve(rows["shattered"], by=Login("cyd"), break_glass=True, note="it burns")
    await inbox.approve(rows["confirmed"], by=Login("rea"))
    await inbox.ask_back(rows["asked_back"], "Why five?", by=Login("bob"))
    await inbox.approve(rows["delegated"], by=Login("dan"))
    proof = KEY.sign(await inbox.to_sign(rows["signed"], "approve", note="seen"))
    await inbox.approve(rows["signed"], by=Login("ada"), note="seen", proof=proof)


async def shown(store: Any) -> dict[str, Any]:
    """What waits, as a later version must show it: digest, marks and votes, by story."""
    found = dict[str, Any]()
    for row in await store.requests(Query(state="open")):
        request = row.request
        claim = None if request.claim is None else request.claim.by
        off = [mark.by for mark in request.snoozed]
        found[row.agent.partition("/")[0]] = [row.kind, row.tool, row.digest, row.revision, claim, off]
    return found


async def to_the_end(store: Any) -> dict[str, str]:
    """Decide what is left, and return every answer, by story."""
    async with app(store, worker=True) as moving:
        for row in await moving.inbox.list():
            if row.kind == "review":  # of what somebody let run alone: it may wait for ever
                continue
            await moving.inbox.approve(row, by=Login(LEFT[row.agent]))
        names = {row.run: row.agent for row in await moving.runs() if row.agent in AGENTS}
        return {name: str((await moving.result(run, 20)).final_output) for run, name in names.items()}
