"""Approve a call and create a grant: which later calls it covers, and how many of the latest it would have covered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from ...core.durations import milliseconds
from ...core.errors import KeyturnError, NotAllowed, NotPending, UserError
from ...core.predicates.predicate import holds, without_secrets
from ...core.run import Run
from ...core.strict import parse
from ...engine.facts.decisions import check_compared
from ...engine.facts.reaches import common_of
from ...engine.run.log_cache import log_in
from ...journal.rows import Query, RequestRow
from ...policies.grants import Scope
from ...presenting.clock import span
from ...presenting.grant_words import SCOPES, ScopeWords, covered_words
from ...presenting.proposed_grants import ProposedGrant, grant_for, proposed_grants
from ...presenting.shown_request import ShownRequest
from ...render.escape import Escaped
from ...render.plural import plural
from .changing import closed, in_hand
from .comparing import compared_fields, compared_in
from .form import DeciderPage, form_of
from .inbox import detail_of, told, words_of
from .pages import PageContext, drawn, failure
from .payload import check_seen, payload_of

router = APIRouter(include_in_schema=False)
#: Of how many earlier requests it is said whether a grant would have covered them.
LATEST = 20


class PastCall(NamedTuple):
    """Holds an earlier request of the same tool and agent, and in which scopes a grant would have reached it."""

    row: RequestRow
    scopes: frozenset[Scope]


class LatestRequests(NamedTuple):
    """Holds earlier requests of a tool, the newest first, and which scopes a grant in this run can have."""

    calls: Sequence[PastCall]
    scopes: dict[Scope, ScopeWords]


class Covers(NamedTuple):
    """Says what a grant covers: in words, where, and how many of the latest requests it would have covered."""

    words: str
    where: str
    lasts: str
    covered: int
    of: int


async def _past(at: PageContext, row: RequestRow) -> LatestRequests:
    """Return the latest requests like this one that the visitor sees."""
    run = (await log_in(at.app.journal, row.run)).run
    own = common_of(run)
    query = Query(tool=row.tool, agent=row.agent, kind="approval", newest=True, limit=2 * LATEST)
    rows = [each for each in await at.app.journal.requests(query) if each.id != row.id and at.visibility.sees(each)]
    calls = [PastCall(each, frozenset(await _shared(at, each, run))) for each in rows[:LATEST]]
    return LatestRequests(
        calls, {scope: words for scope, words in SCOPES.items() if scope in ("run", "agent") or scope in own}
    )


async def _shared(at: PageContext, row: RequestRow, run: Run) -> list[Scope]:
    """Return in which scopes a grant of a run reaches another request."""
    mine = common_of(run)
    theirs = mine
    if row.run != run.id:
        try:
            theirs = common_of((await log_in(at.app.journal, row.run)).run)
        except KeyturnError:  # it was erased, or cannot be read
            theirs = {}
    shared: list[Scope] = [scope for scope in mine if mine[scope] == theirs.get(scope)]
    return [*(["run"] if row.run == run.id else []), *shared, "agent"]


def _useful(past: LatestRequests, made: ProposedGrant, secrets: Collection[str]) -> Scope:
    """Return the narrowest scope in which a grant would have been of use; this run where none would."""
    for each in (made, ProposedGrant(None, "")):
        for scope in past.scopes:
            if _covers(past, each, scope, secrets).covered:
                return scope
    return "run"


def _covers(
    past: LatestRequests, made: ProposedGrant, scope: Scope, secrets: Collection[str], terms: str = "1h"
) -> Covers:
    """Return what a grant covers, and how many of the latest requests it would have."""
    within = [each.row for each in past.calls if scope in each.scopes]
    count = sum(_is_covered(each, made.where, secrets) for each in within)
    return Covers(made.words, SCOPES[scope].name, _lasting(terms), count, len(past.calls))


def _lasting(terms: str) -> str:
    """Return for how long, or for how many calls, a grant is: as its form has it."""
    return f"for {plural(int(terms), 'more call')}" if terms.isdecimal() else f"for {span(milliseconds(terms))}"


def _is_covered(row: RequestRow, where: Any, secrets: Collection[str]) -> bool:
    try:
        return where is None or holds(where, without_secrets(row.params, secrets))
    except UserError:
        return False


@router.post("/requests/{name}/covers")
async def covers(request: HttpRequest, at: DeciderPage, name: str) -> Response:
    """Show what a grant would cover as it is chosen; nothing is recorded."""
    try:
        form = (await form_of(request, at)).whole()
        row, shown = await in_hand(at, name, form, verb="approve")
        chosen = _chosen(shown, form)
        made = replace(grant_for(chosen, _terms(form)), scope=_scope(form))
        check_compared(made, row.request.secrets)
        found = _covers(await _past(at, row), chosen, made.scope, row.request.secrets, _terms(form))
        return await drawn(at, "_covers.html", covers=found, wrong="")
    except (NotPending, NotAllowed) as error:
        return failure(at, error)
    except KeyturnError as error:
        return await drawn(at, "_covers.html", covers=None, wrong=str(error))


@router.get("/requests/{name}/grant")
async def grant(at: DeciderPage, name: str) -> Response:
    """Show what could be approved from now on, the narrowest first."""
    try:
        row, shown = await in_hand(at, name, verb="approve")
        _alone(row)
        proposed = _proposed(shown)
        own = json.dumps(proposed[0].where or {}, ensure_ascii=True)
        past = await _past(at, row)
        scope = _useful(past, proposed[0], row.request.secrets)
        covers = _covers(past, proposed[0], scope, row.request.secrets)
        values = {"proposed": proposed, "own": own, "scopes": past.scopes, "scope": scope, "covers": covers}
        return await drawn(at, "grant.html", compared=compared_fields(shown), **values, **await detail_of(at, row))
    except NotPending:
        return await closed(at, name)
    except KeyturnError as error:
        return failure(at, error)


def _alone(row: RequestRow) -> None:
    """Refuse what no standing decision can be given with."""
    terms = row.request.terms
    if terms is not None and (terms.needs_proof or terms.min_look_ms is not None):
        what = "requires its own signature" if terms.needs_proof else "must be viewed before it is approved"
        raise UserError(f"each call of this kind {what}, so a grant cannot cover it: approve only this call")


@router.post("/requests/{name}/grant")
async def give_grant(request: HttpRequest, at: DeciderPage, name: str) -> Response:
    """Approve this call, and later ones that the grant covers."""
    try:
        form = (await form_of(request, at)).whole()
        row, shown = await in_hand(at, name, form, verb="approve")
        made = grant_for(_chosen(shown, form), _terms(form))
        secrets = row.request.secrets
        check_compared(made, secrets)
        if not holds(made.where, without_secrets(shown.true_arguments, secrets)):
            raise UserError("this grant does not cover the call itself")
        check_seen(await asyncio.to_thread(payload_of, row.request), form)
        made = replace(made, scope=_scope(form))
        await at.inbox.decide(name, "approve", grant=made, **words_of(form))
    except KeyturnError as error:
        return await told(at, name, error)
    return RedirectResponse(at.url(f"/requests/{name}"), 303)


def _proposed(shown: ShownRequest) -> list[ProposedGrant]:
    return proposed_grants(shown.true_arguments, shown.item.request.secrets, complete=shown.complete)


def _chosen(shown: ShownRequest, form: dict[str, str]) -> ProposedGrant:
    which = form.get("which", "")
    if which == "fields":
        compared = compared_in(shown, form)
        return ProposedGrant(compared, Escaped(covered_words(compared)))
    if which == "own":
        given: Any = parse(form.get("where") or "{}")
        made = cast("dict[str, Any]", given)
        if not isinstance(given, dict) or not made:
            raise UserError("a condition is a JSON object of argument names; for any arguments, choose just that")
        return ProposedGrant(made, Escaped(covered_words(made)))
    proposed = _proposed(shown)
    if not (which.isascii() and which.isdigit() and int(which[:4]) < len(proposed)):
        raise UserError("choose which calls the grant covers")
    return proposed[int(which)]


def _scope(form: dict[str, str]) -> Scope:
    scope = form.get("scope", "run")
    if scope not in SCOPES:
        raise UserError(f"a grant holds in {', '.join(each.name for each in SCOPES.values())}")
    return scope


def _terms(form: dict[str, str]) -> str:
    if form.get("limit") != "uses":
        return form.get("lasts") or "1h"
    uses = form.get("uses", "").strip()
    if not (uses.isascii() and uses.isdecimal()):
        raise UserError("say for how many more calls it is, as a number")
    return uses
