"""Judge who decides, as a fact of the decision, by the terms of a call.

A decider is recorded as they were when they decided: a role that is taken away later changes nothing that was decided.
What is not known of somebody is refused: nobody is given the benefit of the doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec.structs import force_setattr

from .approval import Approval
from .errors import NotAllowed, UserError
from .immutable import immutable
from .lookalikes import looks_as

Strength = Literal["claimed", "authenticated", "signed"]


def named(by: str, acting_for: str) -> str:
    """Return who decided in words, with the name of whom they decided for.

    >>> named("eve", "bob"), named("bob", "")
    ('eve for bob', 'bob')
    """
    return f"{by} for {acting_for}" if acting_for else by


@immutable
class Decider(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Describes a person who decides: their stable id, their roles, and how sure their identity is.

    `strength` is "claimed" for a name that somebody typed, "authenticated" for a person who logged in, "signed" for
    one whose own key signed this very decision. `requester` says that the run acts for them. `place` is how many
    entries the directory had that says so, and `acting_for` is in whose place they decide, where that is somebody who
    delegated to them: the roles are theirs then. With `roles_only` they delegated some of their roles and no more:
    terms that name them do not mean whoever decides in their place.

    >>> Decider("ada", roles=("finance",), strength="authenticated").roles
    ('finance',)
    """

    id: str
    roles: tuple[str, ...] = ()
    strength: Strength = "claimed"
    requester: bool = False
    place: int | None = None
    acting_for: str = ""
    roles_only: bool = False

    @property
    def principal(self) -> str:
        """Return whose word it is: a person and whoever acts for them are one towards a quorum."""
        return self.acting_for or self.id

    @property
    def named(self) -> str:
        """Return who it is in words, with the name of whom they decide for.

        >>> Decider("eve", acting_for="bob").named, Decider("bob").named
        ('eve for bob', 'bob')
        """
        return named(self.id, self.acting_for)

    def is_named(self, users: Collection[str]) -> bool:
        """Return whether a list of people means them, by their own name or in the place of who lent them theirs.

        >>> Decider("eve", acting_for="bob").is_named(["bob"])
        True
        >>> Decider("eve", roles=("ops",), acting_for="bob", roles_only=True).is_named(["bob"])
        False
        """
        return self.principal in users and not (self.acting_for and self.roles_only)

    def is_any_of(self, names: Collection[str]) -> bool:
        """Return whether they, or those in whose place they decide, look like one of these.

        >>> Decider("eve", acting_for="Bob").is_any_of(["ada", "bob"])
        True
        """
        return any(is_one_of(name, self.id, self.acting_for) for name in names)

    def __post_init__(self) -> None:
        plain_text(self.id, "the id of who decides")
        if not self.id:
            raise UserError("the id of a Decider must not be empty")
        roles: object = self.roles
        if not isinstance(roles, list | tuple):  # a text is a sequence of texts: it would be a role a letter
            raise UserError("roles must be a list of names")
        named = tuple(cast("list[Any] | tuple[Any, ...]", roles))
        for role in named:
            plain_text(role, "a role")
        force_setattr(self, "roles", named)
        if self.strength not in get_args(Strength):
            raise UserError(f"strength is one of {', '.join(get_args(Strength))}, not {self.strength!r}")
        if not isinstance(cast("object", self.requester), bool):
            raise UserError("requester is True or False")
        place: object = self.place
        if place is not None and (isinstance(place, bool) or not isinstance(place, int) or place < 0):
            raise UserError("place is how many entries the directory had")
        plain_text(self.acting_for, "acting_for")
        if not isinstance(cast("object", self.roles_only), bool):
            raise UserError("roles_only is True or False")
        if self.acting_for == self.id:
            raise UserError("acting_for= must be another user: omit it")


@immutable
class Proof(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Holds the signature of a person's own key on a decision: the scheme, the key's id, and its bytes.

    >>> Proof("ssh", "SHA256:5e1f", b"...").scheme
    'ssh'
    """

    scheme: str
    key: str
    data: bytes


class ProofRefused(NotAllowed):
    """Raised where a signature is not one of the person's own key on exactly what was said; `reason` says why.

    >>> ProofRefused("it is a signature on something else").reason
    'it is a signature on something else'
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the signature is refused: {reason}; nothing was decided by it: sign again, with your own key"
        )


def plain_text(value: object, what: str) -> str:
    """Return a text that every store can hold, or raise `UserError`: no half characters, no NUL.

    >>> plain_text("ada", "by")
    'ada'
    """
    if not isinstance(value, str):
        raise UserError(f"{what} is a text, not {type(value).__name__}")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise UserError(f"{what} holds a NUL or half a character; write it without")
    return value


def decider(by: str | Decider | None) -> Decider | None:
    """Make the decider of a decision: a name alone is claimed, None is nobody in particular.

    >>> decider("ada").strength
    'claimed'
    """
    given: object = by
    if given is None or isinstance(given, Decider):
        return given
    return Decider(plain_text(given, "by"))


def voices(people: Iterable[Decider | None]) -> int:
    """Count how many people these are towards a quorum: each has one, and so has each who is decided for.

    Ids that look alike are of one person.

    >>> voices([Decider("ada"), Decider("bob", acting_for="ada"), Decider("cyd")])
    2
    >>> voices([Decider("bob"), Decider("Bob", acting_for="ada")])
    1
    """
    said = dict.fromkeys(("", "") if who is None else (looks_as(who.id), looks_as(who.principal)) for who in people)
    if len(said) <= 1:
        return len(said)
    heard = dict[str, str]()  # by the principal that was counted, who spoke for them

    def counted(speaker: str, tried: set[str]) -> bool:
        for principal in [place for by, place in said if by == speaker and place not in tried]:
            tried.add(principal)
            if principal not in heard or counted(heard[principal], tried):
                heard[principal] = speaker
                return True
        return False

    return sum(counted(speaker, set()) for speaker in dict.fromkeys(by for by, _ in said))


def is_one_of(name: str | None, *others: str) -> bool:
    """Return whether an id looks like one of others.

    >>> is_one_of("Ada", "bob", "ada")
    True
    """
    return name is not None and looks_as(name) in map(looks_as, filter(None, others))


def same_voice(one: Decider | None, other: Decider | None) -> bool:
    """Return whether two are one person, or one decides in the other's place.

    >>> same_voice(Decider("bob", acting_for="Eve"), Decider("eve"))
    True
    """
    if one is None or other is None:
        return one is other
    return any(is_one_of(name, other.id, other.acting_for) for name in (one.id, one.acting_for) if name)


def barred(terms: Approval | None, who: Decider | None, requester: str | None, proof: Proof | None = None) -> str:
    """Return why these terms do not let somebody decide; "" where they do.

    Where they ask for two steps, it takes those of one of them.

    >>> barred(Approval(role="ops"), Decider("ada", strength="authenticated"), None)
    "it requires the role 'ops'"
    >>> barred(Approval(role="ops"), Decider("ada", roles=("ops",), strength="authenticated"), None)
    ''
    """
    if terms is None or not terms.limits_deciders:
        return ""
    if who is None or who.strength == "claimed":
        return "it requires a signed-in user, and a name alone proves nothing"
    why = _unconfirming(who, requester) if terms.confirm else _not_among(terms, who, requester)
    if why:
        return why
    if terms.needs_proof and (who.strength != "signed" or proof is None):
        return "it requires a decision signed with the approver's own key"
    return ""


def barred_throughout(terms: Approval | None, who: Decider | None, requester: str | None) -> str:
    """Return why somebody may take none of the steps that these terms ask for; "" where they may take one."""
    if terms is None:
        return ""
    whys = [barred(each, who, requester) for each in terms.confirmation_steps]
    return "" if "" in whys else whys[-1]


def kept_out(terms: Approval | None, who: Decider | None, requester: str | None) -> str:
    """Return why somebody may not decide a call at all, whatever they sign; "" where they may.

    >>> kept_out(Approval(users=["ada"], signed=True), Decider("ada", strength="authenticated"), None)
    ''
    """
    if terms is None or not terms.needs_proof:
        return barred_throughout(terms, who, requester)
    if who is None or who.strength == "claimed":
        return "it requires a signed-in user, and a name alone proves nothing"
    return barred_throughout(terms.unsigned, who, requester)


def _unconfirming(who: Decider, requester: str | None) -> str:
    """Return why somebody is not the person for whom the run acts; who acts in their place is not, either."""
    if who.requester or (requester and who.id == requester and not who.acting_for):
        return ""
    if not requester:
        return "the requester must confirm it, and the run has none (requester=)"
    return f"{requester} must confirm it, as the requester of the run"


def _not_among(terms: Approval, who: Decider, requester: str | None) -> str:
    """Return why somebody is none of those whom the terms name."""
    if (terms.role is not None or terms.users) and not _named(terms, who):
        wanted = [*terms.users, *([f"the role {terms.role!r}"] if terms.role is not None else [])]
        return f"it requires {' or '.join(wanted)}"
    if terms.not_requester and requester is None and not who.requester:
        return "it requires an approver other than the requester, and the run has none (requester=)"
    if terms.not_requester and (who.requester or is_one_of(requester, who.id, who.acting_for)):
        return "it requires a user other than the requester"
    return ""


def _named(terms: Approval, who: Decider) -> bool:
    return who.is_named(terms.users) or (terms.role is not None and terms.role in who.roles)
