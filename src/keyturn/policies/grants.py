"""Grants: a standing approval as a user states it, before it is a fact of a run.

A grant says for which arguments, how long and how often. Which tool of which agent it stands for is added where it is
given, and whether it covers a call is decided in the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

from ..core.durations import milliseconds
from ..core.errors import UserError
from ..core.events import GrantTerms
from ..core.immutable import immutable
from ..core.people import Decider
from ..core.policy import check_share
from ..core.predicates.comparisons import OF_MEMBERS, comparisons
from ..core.predicates.members import MISSING, at
from ..core.predicates.predicate import Where, check_where
from ..core.predicates.reading import CannotTell

Scope: TypeAlias = Literal["run", "session", "requester", "agent"]


class GrantWords(TypedDict, total=False):
    """Holds what else is given with a grant: its verdict, the words for the model, who gives it, how far it reaches."""

    verdict: Literal["approve", "reject"]
    message: str | None
    decider: Decider | None
    reach: str


@immutable
@dataclass(frozen=True)
class Grant:
    """States a standing approval of later calls: with arguments like these, for so long, so often.

    `where` compares validated arguments by type, `expires` is a duration, `uses` counts later calls. `scope` says which
    runs it holds for: its own ("run"), those of the same session ("session"), for the same person ("requester"), or
    all ("agent"); always for the same tool of the same agent. `review` is the share of its uses that other people are
    asked to look at afterwards. `Grant()` has no limits but the run's own end.

    >>> Grant(where={"to": "ada", "amount": {"gt": 0, "le": 100}}, expires="2h", uses=10).uses
    10
    """

    where: Where | None = None
    expires: str | float | None = None
    uses: int | None = None
    scope: Scope = "run"
    review: float = 0.0

    def __post_init__(self) -> None:
        scope: object = self.scope
        if scope not in get_args(Scope):
            raise UserError(f"scope of a grant must be one of {', '.join(get_args(Scope))}; not {scope!r}")
        check_share("review", self.review)
        check_where(self.where)
        object.__setattr__(self, "where", own_where(self.where))
        if self.expires is not None:
            milliseconds(self.expires)
        uses: object = self.uses
        if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or uses < 1):
            raise UserError(
                f"uses of a grant must be a whole number of 1 or more, or None for any number; not {uses!r}"
            )

    def terms(self, id: str, agent: str, tool: str, now: int, **words: Unpack[GrantWords]) -> GrantTerms:
        """Return the grant as a fact: for one tool of one agent, counted from `now` on.

        >>> Grant(expires="1h").terms("g1", "desk", "5e1f", now=1_000).expires_at
        3601000
        """
        if words.get("verdict", "approve") not in ("approve", "reject"):
            raise UserError("a grant must approve or reject")
        expires_at = None if self.expires is None else now + milliseconds(self.expires)
        where = own_where(self.where)
        limits: dict[str, Any] = {"expires_at": expires_at, "uses": self.uses, "review": self.review}
        return GrantTerms(id, agent, tool, where=where, **limits, **words)


def check_fits(where: Where | None, params: object) -> None:
    """Refuse a predicate that misspells an argument of the very call that it is given with, or misreads a list of it.

    >>> check_fits({"amuont": {"le": 100}}, {"amount": 5})
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: the call has no argument 'amuont'; did you mean 'amount'?
    """
    if not isinstance(params, Mapping):
        return
    given = cast("Mapping[str, Any]", params)
    for name, condition in (where or {}).items():
        try:
            value = at(given, name)
        except CannotTell:
            continue
        near = get_close_matches(name, given, n=1) if value is MISSING else []
        if near:
            raise UserError(f"the call has no argument {name!r}; did you mean {near[0]!r}?")
        for operator, operand in comparisons(condition) if isinstance(value, list) else ():
            if operator not in OF_MEMBERS and not _may_be_list(operator, operand):
                raise UserError(
                    f"{name!r} is a list, which {operator!r} cannot compare: write {{'any': {{{operator!r}: ...}}}} or "
                    f"{{'all': {{{operator!r}: ...}}}}"
                )


def _may_be_list(operator: str, operand: object) -> bool:
    wanted = cast("list[Any]", operand) if operator == "one_of" else [operand]
    return operator in ("eq", "ne", "one_of") and any(each is None or isinstance(each, list | tuple) for each in wanted)


def own_where(where: Where | None) -> dict[str, Any] | None:
    """Copy a checked predicate as plain JSON, so that nobody else can change it and it can be recorded.

    >>> own_where({"to": {"one_of": ("ada", "bob")}})
    {'to': {'one_of': ['ada', 'bob']}}
    """
    return None if where is None else {name: _plain(condition) for name, condition in where.items()}


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else deepcopy(value)
