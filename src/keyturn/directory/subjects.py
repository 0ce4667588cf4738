"""Bind the account of a provider to the person whom it signs in: one account, one person.

Pure, as `decide.py` is.
"""

from __future__ import annotations

from ..core.errors import NotAllowed, UserError
from . import events as ev
from .decide import Events, admin
from .spelling import named
from .state import Directory, Subject


def bind_subject(directory: Directory, person: str, subject: Subject) -> Events:
    """Bind the account by which a provider signs a person in, the first time; another one is refused.

    A provider gives an address to another account, and an account another address.
    """
    known = directory.subjects.get(person)
    if known is not None and known.issuer == subject.issuer:
        if known != subject:
            raise NotAllowed(f"{person!r} is linked to another account of the identity provider: ask an administrator")
        return []
    if any(each == subject for each in directory.subjects.values()):
        raise NotAllowed("this account of the identity provider is linked to another user: ask an administrator")
    return [ev.SubjectBound(person, *subject)]


def forget_subject(directory: Directory, by: str, person: str) -> Events:
    """Have a person bound to no account of a provider, also one who left."""
    admin(directory, by)
    if named(person, "a person") not in directory.people:
        raise UserError(f"there was never a user {person!r} in this directory")
    return [ev.SubjectForgotten(person)] if person in directory.subjects else []
