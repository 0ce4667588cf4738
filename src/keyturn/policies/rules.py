"""A policy as an ordered list of rules, from code or from an operator's file.

The first rule that matches decides; where none does, the tool's own setting applies. What one rule matches is in
`rule.py`, what a limit counts in `limits.py`. A file is read once: what is written to it later changes no policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, cast

import msgspec

from ..core.approval import Approval
from ..core.errors import UserError
from ..core.gate.combined_terms import NOT_COMBINED, combined
from ..core.policy import Action, CallView, Share, Verdict
from ..core.settable import Sealed
from .explain import Explanation, RuleFinding
from .rule import Rule as Rule
from .rule import allow as allow
from .rule import ask as ask
from .rule import deny as deny
from .toml_lines import Misplaced, parsed, placed, text_of
from .toml_rules import PolicyParts, read_policy, written
from .tool_names import is_named

SHADOWS = 1_000


class Shadowed(msgspec.Struct, frozen=True):
    """Records what a policy in shadow mode would have said of a call.

    It does not keep the arguments: see the run's log.

    >>> Shadowed("pay", "desk", "", "call_1", "5e1f", Verdict("deny")).verdict.action
    'deny'
    """

    tool: str
    agent: str
    run_id: str
    call_id: str
    digest: str
    verdict: Verdict


class Policy(Sealed):
    """Decides by an ordered list of rules, of which the first that matches decides.

    `default` applies where no rule matches; without it, the tool's own setting does. With `shadow=True` it decides
    nothing, and keeps in `shadowed` what it would have decided for the last thousand calls.

    >>> policy = Policy(allow(tool="pay", where={"amount": {"gt": 0, "le": 100}}), ask(tool="pay"), default="deny")
    >>> call = CallView("pay", "function", "desk", {"amount": 250}, digest="5e1f", call_id="call_1")
    >>> policy(call, None)
    Verdict(action='ask', reason='', terms=None, by='policy:2', stop=False, review=0.0)
    """

    def __init__(self, *rules: Rule, default: Verdict | Action | None = None, shadow: bool = False) -> None:
        given: tuple[object, ...] = rules
        if not all(isinstance(rule, Rule) for rule in given):
            raise UserError("a policy takes rules one by one: Policy(allow(...), ask(...))")
        if not isinstance(cast("object", shadow), bool):
            raise UserError("shadow must be True or False")
        _check_reached(rules)
        self.rules = rules
        self.default = Verdict(default, by="policy:default") if isinstance(default, str) else default
        if self.default is not None and not isinstance(cast("object", self.default), Verdict):
            raise UserError("a policy's default is 'allow', 'ask', 'deny', a Verdict(...), or None for the tool's own")
        self.shadow = shadow
        self._shared = tuple(rule for rule in rules if rule.shared is not None)
        self.shadowed: deque[Shadowed] = deque(maxlen=SHADOWS)

    def __call__(self, call: CallView, context: object = None) -> Verdict | None:
        if not self.shadow:
            return self.judged(call, context)
        self.in_shadow(call, context)
        return None

    def in_shadow(self, call: CallView, context: object = None) -> Verdict | None:
        """Return what the rules would say of a call, and keep it in `shadowed`; the engine records it with the run."""
        verdict = self.judged(call, context)
        if verdict is not None:
            self.shadowed.append(Shadowed(call.tool, call.agent, call.run_id, call.call_id, call.digest, verdict))
        return verdict

    def judged(self, call: CallView, context: object = None) -> Verdict | None:
        """Return what the rules say of a call, in shadow mode too.

        >>> Policy(deny(), shadow=True).judged(CallView("pay", "function", "desk", {}, digest="5e1f", call_id="c1"))
        Verdict(action='deny', reason='', terms=None, by='policy:1', stop=False, review=0.0)
        """
        stated: list[tuple[Rule, Verdict]] = []
        for number, rule in enumerate(self.rules, 1):
            verdict, settles = rule.judged(call, context, f"policy:{number}")
            stated += [(rule, verdict)] if verdict is not None else []
            if settles:
                return self.strictest(stated, call, settled=True)
        return self.strictest(stated, call)

    def strictest(
        self, stated: Sequence[tuple[Rule, Verdict]], call: CallView, *, settled: bool = False
    ) -> Verdict | None:
        """Return what holds of what rules say of a call, and the default, or the tool itself, where none settles it.

        >>> said = (ask(), Verdict("ask", by="policy:1"))
        >>> call = CallView("pay", "function", "desk", {}, digest="5e1f", call_id="c1")
        >>> Policy(ask(), default="deny").strictest([said], call).by
        'policy:default'
        """
        last = None if settled else self.default
        if not settled and last is None and stated and call.terms is not None:
            last = Verdict("ask")
        said = [*stated, (_LAST, last)] if last is not None else stated
        return _strictest(said, call) if said else None

    def explain(self, call: CallView, context: object = None) -> Explanation:
        """Explain the verdict on a call: which rule decides, and why those above it do not.

        It says what a call would be told, in shadow mode too, and quotes no argument.

        >>> policy = Policy(allow(tool="pay", where={"amount": {"le": 100}}), deny(tool="pay"), default="ask")
        >>> print(policy.explain(CallView("pay", "function", "desk", {"amount": "5"}, digest="5e1f", call_id="c1")))
        rule 1 (allow) does not match: cannot tell whether 'amount' is at most that: it is a text
        rule 2 (deny) decides: it is about every such call
        """
        found: list[RuleFinding] = []
        for number, rule in enumerate(self.rules, 1):
            found.append(rule.explain(call, context, number))
            if found[-1].settles:
                break
        stated = [(self.rules[each.number - 1], each.verdict) for each in found if each.verdict is not None]
        settled = bool(found) and found[-1].settles
        says = self.strictest(stated, call, settled=settled)
        by = "" if says is None else says.by
        decides = next((each for each in found if each.verdict is not None and each.verdict.by == by), None)
        above = found if decides is None else found[: decides.number - 1]
        return Explanation(says, decides, tuple(each for each in above if each.verdict is None))

    @property
    def needs_people(self) -> bool:
        """Return whether a rule's terms need an inbox with authenticated people."""
        terms = [rule.approval for rule in self.rules] + [self.default.terms if self.default is not None else None]
        return any(one is not None and one.needs_people for one in terms)

    @property
    def counts(self) -> bool:
        """Return whether a rule has a limit: then calls are screened one by one, each after what was let run before."""
        return any(rule.over is not None for rule in self.rules)

    @property
    def counts_for_several_runs(self) -> bool:
        """Return whether a rule has a limit that several runs share, which is counted in a journal."""
        return bool(self._shared)

    def shares(self, call: CallView) -> list[Share]:
        """Return what a call takes of the limits that several runs share, once it is let run.

        >>> from keyturn import Budget
        >>> policy = Policy(ask(tool="pay", over=Budget("amount", 100, of="requester")))
        >>> [share] = policy.shares(CallView("pay", "function", "desk", {"amount": 5}, digest="5e1f", call_id="c1"))
        >>> int(share.amount), share.of
        (5, 'requester')
        """
        found = [(rule, rule.shared) for rule in self._shared if rule.fits(call)]
        return [limit.share(call, rule) for rule, limit in found if limit is not None]

    @classmethod
    def from_toml(cls, source: str | PathLike[str]) -> Policy:
        """Load a policy from an operator's file, or from the text of one; a text that names a file ends in ".toml".

        >>> policy = Policy.from_toml('''
        ... [[rules]]
        ... action = "ask"
        ... tool = "pay"
        ... over = { budget = "amount", most = 100, per = "1d" }
        ...
        ... [[rules]]
        ... action = "allow"
        ... tool = "pay"
        ... where = { amount = { gt = 0 } }
        ...
        ... [[rules]]
        ... action = "ask"
        ... risk = "high"
        ... approval = { role = "ops", quorum = 2, expires = "4h" }
        ... ''')
        >>> len(policy.rules)
        3
        """
        return cls.of_text(*text_of(source))

    @classmethod
    def of_text(cls, text: str, name: str = "", check: Callable[[Policy], None] | None = None) -> Policy:
        """Load a policy from the text of an operator's file, and name that file in what is refused, by `check` too.

        >>> len(Policy.of_text('[[rules]]\\naction = "ask"').rules)
        1
        """
        data, lines = parsed(text, name)
        with placed(lines, name):
            made = cls._of(read_policy(data))
            if check is not None:
                check(made)
            return made

    def to_toml(self) -> str:
        """Return the policy as an operator's file; `from_toml` makes the same policy of it.

        >>> print(Policy(allow(tool="pay", where={"amount": {"le": 100}}), default="ask").to_toml())
        default = "ask"
        <BLANKLINE>
        [[rules]]
        action = "allow"
        tool = "pay"
        where = { amount = { le = 100 } }
        <BLANKLINE>
        """
        return written(self.rules, self.default, shadow=self.shadow)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        """Load a policy from plain data, as a file holds it; what is unknown is refused, with its place.

        >>> Policy.from_dict({"default": "ask", "rules": [{"action": "allow", "tol": "search"}]})
        Traceback (most recent call last):
        ...
        keyturn.core.errors.UserError: rule 1: unknown key 'tol'; use action, tool, agent, kind, where, risk, \
read_only, over, reason, approval, stop, review
        """
        try:
            return cls._of(read_policy(data))
        except Misplaced as error:
            raise UserError(str(error)) from None

    @classmethod
    def _of(cls, made: PolicyParts) -> Policy:
        return cls(*made.rules, default=made.default, shadow=made.shadow)


# Stands for the default, and for the tool's own setting, below the rules of a policy.
_LAST = Rule("ask")


def _strictest(stated: Sequence[tuple[Rule, Verdict]], call: CallView) -> Verdict:
    """Return what holds where rules ask that settle nothing, and others stand below: the strictest on all terms.

    One that asks without terms asks on those of the tool, which the terms of another do not replace; one that means the
    tool by the words of its name alone leaves the terms to those that name it.
    """
    first = stated[0][1]
    denied = next((verdict for _, verdict in stated if verdict.action == "deny"), None)
    asks = [(rule, verdict) for rule, verdict in stated if verdict.action == "ask"]
    if denied is not None or len(asks) < 2:
        return denied or first
    named = [verdict.terms or (None if rule.by_words(call.tool) else call.terms) for rule, verdict in asks]
    terms: Approval | None = None
    for each in dict.fromkeys(one for one in named if one is not None):
        terms = each if terms is None else combined(terms, each)
        if terms is None:
            return Verdict("deny", "; ".join(filter(None, (first.reason, NOT_COMBINED))), by=first.by)
    return msgspec.structs.replace(first, terms=terms, review=max(verdict.review for _, verdict in asks))


def _check_reached(rules: tuple[Rule, ...]) -> None:
    """Refuse a limit below a rule that takes all of its calls, since it would never be looked at."""
    above = list[tuple[int, Rule]]()
    for number, rule in enumerate(rules, 1):
        if rule.over is None:
            above += [(number, rule)] if rule.when is None else []
            continue
        hidden = next((place for place, other in above if _covers(other, rule)), None)
        if hidden is not None:
            raise UserError(f"rule {hidden} decides all calls that the limit of rule {number} is about; put it below")


def _covers(above: Rule, rule: Rule) -> bool:
    """Return whether a rule surely matches every call that another one means."""
    names = (above.tool, rule.tool), (above.agent, rule.agent)
    named = all(
        mine in (None, "*", its) or (its is not None and "*" not in its and is_named(mine, its)) for mine, its in names
    )
    same = above.kind in (None, rule.kind) and above.risk in (None, rule.risk) and above.where in (None, {}, rule.where)
    same = same and above.read_only in (None, rule.read_only)
    return named and same
