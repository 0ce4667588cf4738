"""Show the policy of the app, and what it or another one would have said of past calls."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import Query as Param

from ...core.durations import milliseconds
from ...inbox.replay import replay
from ...inbox.replayed import Replayed, Unread
from ...policies.file import PolicyFile
from ...policies.rules import Policy
from ...wire import bodies
from ...wire.records import PolicySeen, ReplayCount, ReplayReport
from .routes import ApiContext, Call, Routes, answer, taken

routes = Routes("policies")
_SECONDS = 20.0
_UNREAD = 100
Examples = Annotated[int, Param(ge=0, le=100, description="How many calls of each kind are shown.")]
Since = Annotated[str | None, Param(max_length=40, description="Only calls of so long back: 7d, 12h.")]


@routes.add("GET", "/policies", scope="read", gives=PolicySeen)
async def get_policy(here: ApiContext) -> Any:
    """Show the policy of the app."""
    here.visibility.must_see_all()
    given: Any = here.app.policy
    policy = given.policy if isinstance(given, PolicyFile) else given
    if not isinstance(policy, Policy):
        return answer(PolicySeen("none" if policy is None else type(policy).__name__, 0, False, None))
    return answer(PolicySeen(type(given).__name__, len(policy.rules), policy.shadow, _text(policy)))


def _text(policy: Policy) -> str | None:
    try:
        return policy.to_toml()
    except Exception:  # a rule with a function of somebody's own has no text
        return None


@routes.add("GET", "/policies/shadow", scope="read", gives=ReplayReport)
async def get_shadow(here: ApiContext, since: Since = None, examples: Examples = 3) -> Any:
    """Tell what a policy in shadow mode said of past calls."""
    return await _replayed(here, None, since, examples)


@routes.add("POST", "/policies/replay", scope="read", takes=bodies.Replay, gives=ReplayReport)
async def replay_policy(here: ApiContext, body: Annotated[bodies.Replay, taken(bodies.Replay)]) -> Any:
    """Tell an administrator what a policy would have said of past calls; nothing is changed.

    Of an argument that is secret it can tell nothing, and a rule that hangs on one is unknown.
    """
    here.visibility.must_administer()
    policy = await asyncio.to_thread(Policy.from_toml, f"{body.policy}\n")
    return await _replayed(here, policy, body.since, body.examples)


async def _replayed(here: Call, policy: Policy | None, since: str | None, most: int) -> Any:
    here.visibility.must_see_all()
    await here.visibility.reads_of("search", "replay")
    begins = 0 if since is None else await here.app.inbox.now() - milliseconds(since)
    counts = dict[tuple[str, Any, Any], list[Replayed]]()
    totals = dict[tuple[str, Any, Any], int]()
    unread: list[Unread] = []
    ends, whole = time.monotonic() + _SECONDS, True
    async with here.request.app.state.readers.search(here.visitor.id):
        async for each in replay(here.app.journal, policy, begins):
            if isinstance(each, Unread):
                unread += [each] if len(unread) < _UNREAD else []
            else:
                key = (each.tool, each.was, each.would)
                totals[key] = totals.get(key, 0) + 1
                examples = counts.setdefault(key, [])
                examples += [each] if len(examples) < most else []
            if time.monotonic() > ends:
                whole = False
                break
            await asyncio.sleep(0)
    told = [ReplayCount(*key, totals[key], counts[key]) for key in sorted(totals)]
    changed = sum(each.calls for each in told if "unknown" not in (each.was, each.would) and each.was != each.would)
    return answer(ReplayReport(sum(totals.values()), changed, told, unread, whole))
