"""The table of journals by the scheme of their URL; a member is imported when it is first opened.

Only the table and its reader live here; what a URL means beyond its scheme is the member's own affair.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Protocol, cast
from weakref import WeakValueDictionary

from ..core.errors import UserError
from .base import Store

#: Scheme: "module:class". The class has a class method `open(url)`.
JOURNALS: dict[str, str] = {
    "memory": "keyturn.journal.memory:MemoryJournal",
    "sqlite": "keyturn.journal.sqlite:SQLiteJournal",
    "postgresql": "keyturn.journal.postgres:PostgresJournal",
    "postgres": "keyturn.journal.postgres:PostgresJournal",
}


class _Member(Protocol):
    """Opens a journal by its URL."""

    def open(self, url: str) -> Store: ...


def open_journal(url: str) -> Store:
    """Open the journal that a URL names.

    >>> isinstance(open_journal("memory://"), Store)
    True
    >>> open_journal("mongodb://localhost")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: no journal has the scheme 'mongodb'; the known ones are memory://, sqlite://, ...
    """
    scheme, mark, _ = url.partition("://")
    known = ", ".join(f"{scheme}://" for scheme in JOURNALS)
    if not mark:
        # What is not a URL may be one that holds a password: it is not repeated.
        raise UserError(f"a journal is named by a URL; the known ones begin with {known}")
    if scheme not in JOURNALS:
        raise UserError(f"no journal has the scheme {scheme!r}; the known ones are {known}")
    module, _, name = JOURNALS[scheme].partition(":")
    return cast("_Member", getattr(import_module(module), name)).open(url)


_SHARED: WeakValueDictionary[str, Store] = WeakValueDictionary()


def opened(url: str) -> Store:
    """Open the journal of a URL once for as long as anybody in this process holds it.

    >>> opened("memory://") is opened("memory://")
    False
    """
    if url.startswith("memory:"):  # two of these have nothing in common
        return open_journal(url)
    name = _standing(url)
    journal = _SHARED.get(name)
    if journal is None or getattr(journal, "closed", False):
        journal = _SHARED[name] = open_journal(url)
    return journal


def _standing(url: str) -> str:
    """Make a URL independent of the working directory."""
    lead = "sqlite:///"
    return lead + os.path.abspath(url.removeprefix(lead)) if url.startswith(lead) else url
