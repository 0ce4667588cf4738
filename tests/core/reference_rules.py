"""What the reference asks of a value, a decision or a person: each rule by itself, nothing shared with the code."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import astuple, replace

from keyturn.core.approval import Approval
from keyturn.core.digest import same
from keyturn.core.durations import milliseconds
from keyturn.core.usage import Counts

MOST = 2**53


class Refused(Exception):
    """The command may not be done here."""


def need(condition: Any) -> None:
    if not condition:
        raise Refused


def is_json(text: Any) -> bool:
    try:
        return isinstance(text, str) and json.loads(text or "{}") is not Ellipsis
    except ValueError:
        return False


def is_value(value: Any) -> bool:
    """Whether a digest can be made of it."""
    try:
        return bool(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError):
        return False


def alike(one: Any, other: Any) -> bool:
    """Whether two decisions say the same."""
    said = [
        (d.verdict, d.digest, d.message, d.args if d.verdict == "edit" else None, d.broke_glass, d.asks_back)
        for d in (one, other)
    ]
    return said[0] == said[1] and same(one.output, other.output)


def is_text(value: Any) -> bool:
    """Whether every store can hold it."""
    return isinstance(value, str) and "\x00" not in value and value.encode("utf-8", "ignore").decode() == value


def counts(usage: Counts) -> list[int]:
    return list(astuple(usage))


def word_of(who: Any) -> str:
    """Whose word it is: of who decides in another's place it is the other's."""
    return "" if who is None else (who.acting_for or who.id).casefold()


def on_the_list(who: Any, users: Any) -> bool:
    """Whether they are one of these people, or somebody who lent them their name is."""
    return (who.acting_for or who.id) in users and not (who.acting_for and who.roles_only)


def runs_for(requester: str, who: Any) -> bool:
    return requester.casefold() in (who.id.casefold(), who.acting_for.casefold())


def fits(terms: Any, who: Any, proof: Any, requester: str | None) -> bool:
    """Whether somebody is one whom these terms let decide."""
    if terms is None:
        return True
    signed = terms.signed or terms.step_up
    several = terms.quorum > 1 or terms.deny_quorum > 1
    if not (terms.role or terms.users or terms.not_requester or signed or several or terms.confirm):
        return True
    if who is None or who.strength not in ("authenticated", "signed"):
        return False
    if terms.confirm:
        own = who.requester or (requester and who.id == requester and not who.acting_for)
        return own and (not signed or (who.strength == "signed" and proof is not None))
    if (terms.role or terms.users) and terms.role not in who.roles and not on_the_list(who, terms.users):
        return False
    if terms.not_requester and (who.requester or requester is None or runs_for(requester, who)):
        return False
    return not signed or (who.strength == "signed" and proof is not None)


def twofold(terms: Any) -> bool:
    """Whether the requester says yes first, and then others."""
    several = terms is not None and (terms.quorum > 1 or terms.deny_quorum > 1)
    return bool(terms and terms.confirm and (several or terms.role or terms.users or terms.not_requester))


def steps(terms: Any) -> list[Any]:
    """What is asked of the requester, and then of the others; or the one thing that is asked."""
    if not twofold(terms):
        return [terms, terms]
    first = Approval(confirm=True, signed=terms.signed, step_up=terms.step_up, min_look=terms.min_look)
    return [first, replace(terms, confirm=False, not_requester=True)]


def chain(terms: Any) -> list[Any]:
    """Each step of a chain by itself, from the one that is due on."""
    found = []
    while terms is not None:
        found.append(replace(terms, then=None))
        terms = terms.then
    return found


def glass(terms: Any) -> Any:
    """What is asked of who breaks the glass."""
    every = chain(terms)
    others = any(each.not_requester or twofold(each) or (each.confirm and len(every) > 1) for each in every)
    longest = max(milliseconds(each.min_look) if each.min_look else 0 for each in every)
    signed = any(each.signed or each.step_up for each in every)
    look = f"{longest}ms" if longest else None
    return Approval(role=terms.break_glass, not_requester=others, min_look=look, signed=signed)
