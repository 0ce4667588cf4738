"""Rules: a policy as an ordered list, for code and for an operator's file.

The first rule that matches decides; where none does, the tool's own setting holds. A rule compares names and typed
arguments. It never reads a line of text as a command: what begins like something harmless need not be it.
"""

from __future__ import annotations

import inspect
import tomllib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, cast

import msgspec

from ..core.errors import UserError
from ..core.policy import Action, Approval, CallView, Verdict
from ..core.predicate import Where, check_where, holds
from .grants import own_where

T = TypeVar("T")
When = Callable[[CallView, Any], bool]
SHADOWS = 1_000


class Matching(TypedDict, total=False):
    """Which calls a rule means, and what it says of them beside its action."""

    tool: str | None
    agent: str | None
    kind: str | None
    where: Where | None
    risk: str | None
    when: When | None
    reason: str
    approval: Approval | None


@dataclass(frozen=True)
class Rule:
    """What to do with the calls that it matches: all that is given must hold, and what is None matches any call.

    `tool` and `agent` are names, or patterns in which `*` stands for any text; an agent is meant by its
    name, or by its path from the root agent as in "desk/billing". `risk` matches only a tool that states it. `when` is
    asked last, of the call and the run's context; if it raises or answers neither True nor False, the call asks.

    >>> rule = Rule("allow", tool="pay", where={"amount": {"gt": 0, "le": 100}})
    >>> call = CallView("pay", "function", "desk", {"amount": 250}, digest="5e1f", call_id="call_1")
    >>> rule.verdict(call) is None
    True
    """

    action: Action
    _: KW_ONLY
    tool: str | None = None
    agent: str | None = None
    kind: str | None = None
    where: Where | None = None
    risk: str | None = None
    when: When | None = None
    reason: str = ""
    approval: Approval | None = None

    def __post_init__(self) -> None:
        Verdict(self.action, self.reason, self.approval)
        for field in ("tool", "agent", "kind", "risk"):
            name: object = getattr(self, field)
            if name is not None and not (isinstance(name, str) and name):
                raise UserError(f"{field} is a name, or None for any; not {name!r}")
        if self.approval is not None and self.action != "ask":
            raise UserError(f"approval= goes with 'ask': nobody is asked by a rule that says {self.action!r}")
        if self.when is not None and (not callable(self.when) or inspect.iscoroutinefunction(self.when)):
            raise UserError("when is a plain function (call, context) -> bool; a policy of your own can be async")
        check_where(self.where)
        object.__setattr__(self, "where", own_where(self.where))

    def verdict(self, call: CallView, context: Any = None, by: str = "policy") -> Verdict | None:
        """What this rule says of a call; None where it does not match."""
        if not self._fits(call):
            return None
        matches: object = True
        if self.when is not None:
            try:
                matches = self.when(call, context)
            except Exception as error:  # fail closed: a question that cannot be answered asks a person
                return Verdict("ask", f"the rule's condition raised {type(error).__name__}", self.approval, by)
        if not isinstance(matches, bool):
            return Verdict("ask", "the rule's condition did not answer True or False", self.approval, by)
        return Verdict(self.action, self.reason, self.approval, by) if matches else None

    def _fits(self, call: CallView) -> bool:
        return (
            _is_named(self.tool, call.tool)
            and (_is_named(self.agent, call.agent) or _is_named(self.agent, call.path))
            and self.kind in (None, call.kind)
            and self.risk in (None, call.risk)
            and holds(self.where, call.params)
        )


def _is_named(pattern: str | None, name: str) -> bool:
    if pattern is None or "*" not in pattern:
        return pattern is None or pattern == name
    # Only the asterisk is special: a tool may well be called "read[1]?", and that must not let "read1x" in.
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


def allow(**matching: Unpack[Matching]) -> Rule:
    """A rule that lets calls run.

    >>> allow(tool="search").action
    'allow'
    """
    return Rule("allow", **matching)


def ask(**matching: Unpack[Matching]) -> Rule:
    """A rule that asks a person; `approval` says whom, how many and until when, else the tool's own terms hold.

    >>> ask(risk="high", approval=Approval(expires="4h")).action
    'ask'
    """
    return Rule("ask", **matching)


def deny(**matching: Unpack[Matching]) -> Rule:
    """A rule that refuses calls; `reason` is recorded.

    >>> deny(tool="drop_*", reason="not from here").reason
    'not from here'
    """
    return Rule("deny", **matching)


class Shadowed(msgspec.Struct, frozen=True):
    """What a policy in shadow mode would have said of a call. It does not keep the arguments: see the run's log.

    >>> Shadowed("pay", "desk", "", "call_1", "5e1f", Verdict("deny")).verdict.action
    'deny'
    """

    tool: str
    agent: str
    run_id: str
    call_id: str
    digest: str
    verdict: Verdict


class Policy:
    """An ordered list of rules, of which the first that matches decides.

    `default` is said where none does; without it the tool's own setting holds. With `shadow=True` it says nothing, and
    keeps in `shadowed` what it would have said of the last thousand calls.

    >>> policy = Policy(allow(tool="pay", where={"amount": {"gt": 0, "le": 100}}), ask(tool="pay"), default="deny")
    >>> call = CallView("pay", "function", "desk", {"amount": 250}, digest="5e1f", call_id="call_1")
    >>> policy(call, None)
    Verdict(action='ask', reason='', terms=None, by='policy:2')
    """

    def __init__(self, *rules: Rule, default: Verdict | Action | None = None, shadow: bool = False) -> None:
        given: tuple[object, ...] = rules
        if not all(isinstance(rule, Rule) for rule in given):
            raise UserError("a policy takes rules one by one: Policy(allow(...), ask(...))")
        if not isinstance(cast("object", shadow), bool):
            raise UserError("shadow is True or False")
        self.rules = rules
        self.default = Verdict(default, by="policy:default") if isinstance(default, str) else default
        if self.default is not None and not isinstance(cast("object", self.default), Verdict):
            raise UserError("a policy's default is 'allow', 'ask', 'deny', a Verdict(...), or None for the tool's own")
        self.shadow = shadow
        self.shadowed: deque[Shadowed] = deque(maxlen=SHADOWS)

    def __call__(self, call: CallView, context: Any = None) -> Verdict | None:
        verdict = self._verdict(call, context)
        if not self.shadow or verdict is None:
            return verdict
        self.shadowed.append(Shadowed(call.tool, call.agent, call.run_id, call.call_id, call.digest, verdict))
        return None

    def _verdict(self, call: CallView, context: Any) -> Verdict | None:
        for number, rule in enumerate(self.rules, 1):
            verdict = rule.verdict(call, context, f"policy:{number}")
            if verdict is not None:
                return verdict
        return self.default

    @property
    def needs_people(self) -> bool:
        """Whether a rule's terms need an inbox with authenticated people."""
        terms = [rule.approval for rule in self.rules] + [self.default.terms if self.default is not None else None]
        return any(one is not None and one.needs_people for one in terms)

    @classmethod
    def from_toml(cls, source: str | PathLike[str]) -> Policy:
        """A policy from an operator's file, or from the text of one; a text that names a file ends in ".toml".

        >>> policy = Policy.from_toml('''
        ... [[rules]]
        ... action = "allow"
        ... tool = "pay"
        ... where = { amount = { gt = 0, le = 100 } }
        ...
        ... [[rules]]
        ... action = "ask"
        ... risk = "high"
        ... approval = { role = "ops", quorum = 2, expires = "4h" }
        ... ''')
        >>> len(policy.rules)
        2
        """
        try:
            return cls.from_dict(tomllib.loads(_text(source)))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"the policy is not TOML: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        """A policy from plain data, as a file holds it. What is not known is refused, and where it stands is said.

        >>> Policy.from_dict({"default": "ask", "rules": [{"action": "allow", "tol": "search"}]})
        Traceback (most recent call last):
        ...
        keyturn.core.errors.UserError: rule 1: unknown key 'tol'; use action, tool, agent, kind, where, risk, reason, \
approval
        """
        known = _known(data, ("default", "shadow", "rules"), "the policy")
        rules: object = known.get("rules", [])
        if not isinstance(rules, list):
            raise UserError("the policy: rules is a list")
        if not rules and "default" not in known:
            raise UserError("the policy has neither rules nor a default: it would say nothing of any call")
        made = [_rule(rule, f"rule {number}") for number, rule in enumerate(cast("list[object]", rules), 1)]
        return cls(*made, default=known.get("default"), shadow=known.get("shadow", False))


_RULE_KEYS = ("action", "tool", "agent", "kind", "where", "risk", "reason", "approval")


def _rule(data: object, place: str) -> Rule:
    known = _known(data, _RULE_KEYS, place)
    if "action" not in known:
        raise UserError(f"{place}: action is missing; it is allow, ask or deny")
    if "approval" in known:
        terms = _known(known["approval"], Approval.__struct_fields__, f"{place}, approval")
        known["approval"] = _placed(place, lambda: Approval(**terms))
    return _placed(place, lambda: Rule(**known))


def _known(data: object, keys: tuple[str, ...], place: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise UserError(f"{place}: this is a table of {', '.join(keys)}")
    for key in cast("Mapping[object, Any]", data):
        if key not in keys:
            raise UserError(f"{place}: unknown key {key!r}; use {', '.join(keys)}")
    return dict(cast("Mapping[str, Any]", data))


def _placed(place: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def _text(source: str | PathLike[str]) -> str:
    if isinstance(source, str) and not (source.endswith(".toml") and "\n" not in source):
        return source
    try:
        return Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"the policy file {str(source)!r} cannot be read: {error.strerror}") from None
