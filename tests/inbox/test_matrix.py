"""Roles, quorum, expiry, edits and signatures as one table: who says what on which terms, and what comes of it.

`by` are those who say the word, one after the other: a capital letter has the role, `*` signs with their own key.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.approval import Approval
from keyturn.core.errors import KeyturnError
from keyturn.core.people import Proof
from tests.core.samples import Pen, asked, person, tool

HOUR = 3_600_000

#  role  | quorum | expires | signed || by       | word    | late  || what comes of it
TABLE = """
   -     | 1      | -       | -      || a        | approve | -     || approved
   -     | 1      | -       | -      || a        | edit    | -     || edited
   -     | 1      | 1h      | -      || a        | approve | late  || Expired
   -     | 1      | 1h      | -      || a        | edit    | -     || edited
   -     | 1      | -       | signed || a        | approve | -     || NotAllowed
   -     | 1      | -       | signed || a*       | approve | -     || approved
   -     | 1      | 1h      | signed || a*       | edit    | late  || Expired
   -     | 2      | -       | -      || a        | approve | -     || asked
   -     | 2      | -       | -      || a a      | approve | -     || asked
   -     | 2      | -       | -      || a b      | approve | -     || approved
   -     | 2      | -       | -      || a b      | edit    | -     || edited
   -     | 2      | -       | -      || a b      | mixed   | -     || asked
   -     | 2      | 1h      | -      || a b      | approve | late  || Expired
   -     | 2      | -       | signed || a* b     | approve | -     || NotAllowed
   -     | 2      | -       | signed || a* b*    | edit    | -     || edited
   ops   | 1      | -       | -      || a        | approve | -     || NotAllowed
   ops   | 1      | -       | -      || A        | approve | -     || approved
   ops   | 1      | -       | -      || A        | edit    | -     || edited
   ops   | 1      | 1h      | -      || A        | approve | late  || Expired
   ops   | 1      | -       | signed || A        | edit    | -     || NotAllowed
   ops   | 1      | -       | signed || a*       | approve | -     || NotAllowed
   ops   | 1      | 1h      | signed || A*       | edit    | -     || edited
   ops   | 2      | -       | -      || A b      | approve | -     || NotAllowed
   ops   | 2      | -       | -      || A B      | approve | -     || approved
   ops   | 2      | -       | -      || A B      | mixed   | -     || asked
   ops   | 2      | -       | -      || A B C    | mixed   | -     || approved
   ops   | 2      | 1h      | -      || A B      | edit    | late  || Expired
   ops   | 2      | 1h      | signed || A* B*    | approve | -     || approved
   ops   | 2      | 1h      | signed || A* A*    | approve | -     || asked
   ops   | 2      | 1h      | signed || A* B     | edit    | -     || NotAllowed
"""
ROWS = [[cell.strip() for cell in line.replace("||", "|").split("|")] for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row))
def test_the_matrix_of_terms(row: list[str]) -> None:
    role, quorum, expires, signed, by, word, late, outcome = row
    terms = Approval(
        role=None if role == "-" else role,
        quorum=int(quorum),
        expires=None if expires == "-" else expires,
        signed=signed == "signed",
    )
    pen = asked(tool("c0", "ask", terms=terms))
    assert said(pen, by.split(), word, late=late == "late") == outcome


def said(pen: Pen, people: list[str], word: str, *, late: bool) -> str:
    """Say the word, one person after the other; the last of them too late. Return the call's state, or the refusal."""
    try:
        for place, who in enumerate(people):
            last = place == len(people) - 1
            edits = word == "edit" or (word == "mixed" and place == 0)
            pen(cm.Deliver([decision(pen, who, edits=edits)]), at=pen.now + (HOUR + 1 if late and last else 1))
    except KeyturnError as refused:
        return type(refused).__name__
    return pen.state()


def decision(pen: Pen, who: str, *, edits: bool) -> Any:
    key = who.endswith("*")
    name = who.strip("*")
    strength = "signed" if key else "authenticated"
    by = person(name.lower(), *(["ops"] if name.isupper() else []), strength=strength)
    made = pen.decision("edit" if edits else "approve", by=by, args='{"n":2}' if edits else None)
    return replace(made, proof=Proof("ssh", name, b"x")) if key else made
