"""The policy in force, in words; what one in shadow mode said; and past calls replayed against pasted rules.

Read only: a policy is changed where it is written, in the program or in its file.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...core.durations import milliseconds
from ...core.errors import KeyturnError, UserError
from ...inbox.replay import replay
from ...inbox.replayed import Replayed, Unread
from ...policies.file import PolicyFile
from ...policies.rule import Rule
from ...policies.rules import Policy
from ...presenting.grant_words import value_words, where_words
from ...render.escape import quote
from ..errors import Refused, refused
from .form import AdminPage, form_of
from .pages import PageContext, page
from .roles import known_roles, required_by
from .shown import VisibleHtml, ready
from .words import limit_words, terms_words

router = APIRouter(include_in_schema=False)

#: How many past calls are judged at most, for how many seconds, and how many of each change are shown.
CALLS = 20_000
SECONDS = 8.0
EXAMPLES = 3
#: How many characters of rules are pasted at most.
PASTED = 16_000
SINCE = ("1d", "7d", "30d", "")


class RuleRow(NamedTuple):
    """Holds one rule in words: its action, which calls it is about, its reason, and on which terms it asks."""

    number: int
    action: str
    about: list[VisibleHtml]
    reason: str
    terms: list[VisibleHtml]


class InForce(NamedTuple):
    """Holds the policy of an app in words; `what` is what it is where its rules cannot be shown."""

    rules: list[RuleRow]
    default: str
    shadow: bool
    what: str
    path: str = ""
    trouble: str = ""


class ChangedVerdicts(NamedTuple):
    """Holds how often calls of a tool were, and would be, treated so, with a few of them."""

    tool: str
    was: str
    would: str
    calls: int
    examples: list[Replayed]


class ReplayResult(NamedTuple):
    """Holds what a replay came to; `whole` says whether all calls were looked at."""

    calls: int
    changes: list[ChangedVerdicts]
    unread: list[Unread]
    whole: bool

    @property
    def changed(self) -> int:
        """Return how many calls would surely be treated in another way."""
        return sum(each.calls for each in self.changes if "unknown" not in (each.was, each.would))


@router.get("/policies")
async def policies_page(request: HttpRequest, at: AdminPage) -> Response:
    """Show the policy, and what one in shadow mode said where that is asked for."""
    if request.query_params.get("shadow") != "1":
        return _drawn(at)
    since = request.query_params.get("since", "7d")
    try:
        async with request.app.state.readers.search(at.visitor.id):
            return _drawn(at, shadow=await _replayed(at, None, since), since=since)
    except KeyturnError as error:
        return _drawn(at, refusal=refused(error))


@router.post("/policies/replay")
async def replay_page(request: HttpRequest, at: AdminPage) -> Response:
    """Replay past calls against rules that somebody pasted; nothing is changed."""
    text, since = "", "7d"
    try:
        at.visibility.must_administer()
        form = await form_of(request, at)
        text, since = form.typed("toml"), form.text("since")
        if not text.strip():
            raise UserError("paste the rules first, in the format of a policy file")
        if text.strip().endswith(".toml") and "\n" not in text.strip():
            raise UserError("paste the text of the file, not its name: no file of the server is read here")
        if len(text) > PASTED:
            raise UserError(
                f"{len(text)} characters were pasted, and {PASTED} are the most here: use keyturn policy test"
            )
        made = await asyncio.to_thread(Policy.from_toml, text + "\n")
        async with request.app.state.readers.search(at.visitor.id):
            found = await _replayed(at, made, since)
        roles = required_by(made.rules) - {*known_roles(at.app, await at.app.people.directory())}
    except KeyturnError as error:
        return _drawn(at, refusal=refused(error), toml=text)
    return _drawn(at, result=found, toml=text, since=since, unknown=sorted(roles))


def _drawn(at: PageContext, **given: Any) -> Response:
    refusal: Refused | None = given.get("refusal")
    none: dict[str, Any] = {"result": None, "shadow": None, "refusal": None, "toml": "", "since": "7d", "unknown": ()}
    values = none | given
    status = 200 if refusal is None else refusal.status
    return page(at, "policies.html", status, force=in_force(at.app.policy), choices=SINCE, **values)


async def _replayed(at: PageContext, policy: Policy | None, since: str) -> ReplayResult:
    begin = 0 if not since else at.now - milliseconds(since)
    await at.visibility.reads_of("search", "replay")
    found = _Found()
    whole = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS), contextlib.aclosing(replay(at.app.journal, policy, begin)) as told:
            whole = await found.all_of(told)
    return found.result(whole=whole)


class _Found:
    """Counts what a replay says, with the first few examples of each change."""

    def __init__(self) -> None:
        self._calls = 0
        self._counts = Counter[tuple[str, str, str]]()
        self._shown = dict[tuple[str, str, str], list[Replayed]]()
        self._unread = list[Unread]()

    async def all_of(self, told: AsyncIterator[Replayed | Unread]) -> bool:
        """Count what is told; False where there was more than is counted."""
        async for each in told:
            await asyncio.sleep(0)  # others are served meanwhile, and the time is looked at
            if not self.add(each):
                return False
        return True

    def add(self, each: Replayed | Unread) -> bool:
        """Count one; False once there are enough."""
        if isinstance(each, Unread):
            self._unread.append(each)
            return True
        key = (each.tool, each.was, each.would)
        self._calls += 1
        self._counts[key] += 1
        if each.was != each.would and len(self._shown.setdefault(key, [])) < EXAMPLES:
            self._shown[key].append(each)
        return self._calls < CALLS

    def result(self, *, whole: bool) -> ReplayResult:
        """Return what was found so far."""
        changed = [key for key, _count in self._counts.most_common() if key in self._shown]
        changes = [ChangedVerdicts(*key, self._counts[key], self._shown[key]) for key in changed]
        return ReplayResult(self._calls, changes, self._unread, whole)


def in_force(policy: object) -> InForce:
    """Return a policy in words.

    >>> in_force(None).default
    'the setting of each tool'
    """
    made = policy.policy if isinstance(policy, PolicyFile) else policy
    own = "the setting of each tool"
    if made is None:
        return InForce([], own, False, "")
    if not isinstance(made, Policy):
        named = getattr(made, "__name__", "") or type(made).__name__
        return InForce([], "", bool(getattr(made, "shadow", False)), named)
    rules = [_row(number, rule) for number, rule in enumerate(made.rules, 1)]
    default = own if made.default is None else made.default.action
    if isinstance(policy, PolicyFile):
        return InForce(rules, default, made.shadow, "", str(policy.path), policy.error or "")
    return InForce(rules, default, made.shadow, "")


def _row(number: int, rule: Rule) -> RuleRow:
    named = [f"{word} {value_words(value)}" for word, value in (("tool", rule.tool), ("agent", rule.agent)) if value]
    named += [f"{word} {value_words(value)}" for word, value in (("kind", rule.kind), ("risk", rule.risk)) if value]
    if rule.read_only is not None:
        named.append("tools that only read" if rule.read_only else "tools that may change something")
    about = [ready(", ".join(named) or "every call"), *map(ready, where_words(rule.where))]
    limit = limit_words(rule.over)
    about += [limit] if limit is not None else []
    if rule.when is not None:
        called = getattr(rule.when, "__name__", "") or type(rule.when).__name__
        about.append(ready(f"where {quote(called)} of the program says so"))
    return RuleRow(number, rule.action, about, rule.reason, terms_words(rule.approval))
