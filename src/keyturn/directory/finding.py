"""Find the user whom a person means: by the id in any case and width, or by a display name that one user has.

Ids are compared by NFKC and case folding (case-insensitive usernames). Only what a person types is looked up so: what
a decision, a token or a term names, it names exactly.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Protocol


class Findable(Protocol):
    """Describes what a user is found by."""

    @property
    def id(self) -> str:
        """Return the user's id."""
        ...

    @property
    def name(self) -> str:
        """Return the display name; "" for none."""
        ...


def find(people: Iterable[Findable], typed: str, *, names: bool = True) -> str:
    """Return the id of the user that is meant; what was typed where no user, or more than one, is meant.

    Display names are looked at unless `names` says not to: what proves who somebody is names an id.

    >>> from keyturn.directory.state import Person
    >>> users = [Person("ada", "Ada L.", "person", 0), Person("bob", "Ada B.", "person", 0)]
    >>> find(users, "ADA"), find(users, "ada l."), find(users, "eve")
    ('ada', 'ada', 'eve')
    """
    wanted = same_as(typed)
    named = set[str]()
    for each in people:
        if same_as(each.id) == wanted:
            return each.id
        if names and each.name and same_as(each.name) == wanted:
            named.add(each.id)
    return named.pop() if len(named) == 1 else typed


def same_as(text: str) -> str:
    """Return a name without its case and width: equal for two that differ only so.

    >>> same_as("\\uff21da  L.") == same_as("ada l.")
    True
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def id_from(text: str) -> tuple[str, str]:
    """Return the id and the display name of a new user; a text with spaces is a display name, which the id is made of.

    >>> id_from("Ada Lovelace"), id_from("ada")
    (('ada-lovelace', 'Ada Lovelace'), ('ada', ''))
    """
    words = text.split()
    return ("-".join(same_as(text).split()), " ".join(words)) if len(words) > 1 else (text, "")
