"""One rule: which calls it matches, and its verdict on them.

A rule compares names and typed arguments. It never reads a line of text as a command: what begins like something
harmless need not be it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypedDict, Unpack, cast

import msgspec

from ..core.approval import Approval
from ..core.digest import digest
from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.items import own_copy
from ..core.policy import BY_BREAKER, Action, CallView, Verdict
from ..core.predicates.predicate import Finding, Truth, Where, check_where, evaluate, findings
from ..support.user_code import class_name, run_callback
from .breaker import Breaker
from .explain import RuleFinding
from .grants import own_where
from .limits import Budget, Calls, Rejections
from .patch_operations import operations_of
from .tool_names import is_named, is_named_in_words

# Kinds whose tools a server names as it likes, so that the name alone allows none of their calls.
_NAMED_BY_SERVERS = ("hosted_mcp",)

# Which operation of several decides: the first of these that is said of one.
_ALL = (Truth.NO, Truth.UNKNOWN, Truth.YES)
_ANY = (Truth.YES, Truth.UNKNOWN, Truth.NO)

Limit = Calls | Budget | Rejections | Breaker
When = Callable[[CallView, Any], bool]


class Matching(TypedDict, total=False):
    """Holds which calls a rule matches, and what it says of them beside its action."""

    tool: str | None
    agent: str | None
    kind: str | None
    where: Where | None
    risk: str | None
    read_only: bool | None
    over: Limit | None
    when: When | None
    reason: str
    approval: Approval | None
    stop: bool
    review: float


@immutable
@dataclass(frozen=True)
class Rule:
    """Decides on the calls that it matches: all that is given must hold, and what is None matches any call.

    `tool` and `agent` are names, or patterns in which `*` stands for any text; an agent is meant by its
    name, or by its path from the root agent as in "desk/billing". A rule that asks or denies means a tool by its words:
    `delete_*` is also `deleteFile` and `delete-file`. `risk` matches only a tool that states it, `read_only` one that
    states that it changes nothing, or does not. `over` is a limit on the calls that the rest of the rule means, and
    matches a call that is over it: it stands before the rule that allows such calls. `when` is asked last, of the call
    and the run's context; if it raises or answers neither True nor False, the call asks. `stop` ends the drive of the
    run where a call is denied. `review` is the share of what the rule, or a grant under it, lets run that people are
    asked to look at afterwards.

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
    read_only: bool | None = None
    over: Limit | None = None
    when: When | None = None
    reason: str = ""
    approval: Approval | None = None
    stop: bool = False
    review: float = 0.0

    def __post_init__(self) -> None:
        Verdict(self.action, self.reason, self.approval, stop=self.stop, review=self.review)
        for field in ("tool", "agent", "kind", "risk"):
            name: object = getattr(self, field)
            if name is not None and not (isinstance(name, str) and name):
                raise UserError(f"{field} is a name, or None for any; not {name!r}")
        if self.read_only is not None and not isinstance(cast("object", self.read_only), bool):
            raise UserError(f"read_only is True, False, or None for any; not {self.read_only!r}")
        if self.approval is not None and self.action != "ask":
            raise UserError(f"approval= goes with 'ask': no approval is requested by a rule with {self.action!r}")
        if self.when is not None and (not callable(self.when) or inspect.iscoroutinefunction(self.when)):
            raise UserError("when is a plain function (call, context) -> bool; a policy of your own can be async")
        if self.action != "allow" and getattr(self.when, "only_for_allow", False) is True:
            raise UserError(
                f"{self.when!r} answers False where it is in doubt, and a rule that says {self.action!r} would pass by "
                "just that: allow what it covers, and say in a rule below what becomes of the rest"
            )
        self._check_limit()
        check_where(self.where)
        object.__setattr__(self, "where", own_where(self.where))

    def _check_limit(self) -> None:
        if self.over is None:
            return
        if not isinstance(cast("object", self.over), Calls | Budget | Rejections | Breaker):
            raise UserError(
                "over is a limit: Calls(20, per='1h'), Budget('amount', 100), Rejections(2) or Breaker(3, per='10m')"
            )
        if self.action == "allow":
            raise UserError("over= goes with 'ask' or 'deny': use it for calls over the limit, and allow the rest")
        if self.when is not None:
            raise UserError(
                "over= and when= do not go together: a condition cannot be asked of the calls before this one"
            )

    def verdict(self, call: CallView, context: object = None, by: str = "policy") -> Verdict | None:
        """Return what this rule says of a call; None where it does not match."""
        return self.judged(call, context, by)[0]

    def judged(self, call: CallView, context: object = None, by: str = "policy") -> tuple[Verdict | None, bool]:
        """Return what this rule says of a call, and whether it settles it: no rule below is looked at."""
        truth = self._truth(call)
        answer = self._means(truth) and self._answer(call, context)
        verdict = self._said(call, truth, answer, by)
        return verdict, self._settles(call, verdict, answer)

    def _settles(self, call: CallView, verdict: Verdict | None, answer: bool | str) -> bool:
        """Return whether no rule below is looked at.

        One that asks about a tool by the words of its name alone, about some operations of a patch and not all, or
        since its comparisons, its condition or its limit have no answer, loosens nothing that is said below.
        """
        if verdict is None or verdict.action != "ask":
            return verdict is not None
        if isinstance(answer, str) or self.by_words(call.tool):
            return False
        return all(evaluate(self.where, part).sure for part in operations_of(call, self.where))

    def names(self, tool: str) -> bool:
        """Return whether the rule is about tools of a name.

        One that asks, denies or limits goes by the words of it: else whoever names a tool could turn it off.

        >>> deny(tool="delete_*").names("deleteFile"), allow(tool="delete_*").names("deleteFile")
        (True, False)
        """
        return is_named(self.tool, tool) or self.by_words(tool)

    def by_words(self, tool: str) -> bool:
        """Return whether the rule means a tool by the words of its name alone, which is written otherwise.

        One that states whom to ask means none so: its terms would stand in the place of those of that very tool.
        """
        if self.action == "allow" or self.approval is not None or self.tool is None or is_named(self.tool, tool):
            return False
        return is_named_in_words(self.tool, tool)

    def fits(self, call: CallView) -> bool:
        """Return whether the rule is about this call, leaving aside its limit and its condition."""
        return self._means(self._truth(call))

    def may_fit(self, call: CallView) -> bool:
        """Return whether the rule may be about this call: nobody can exclude it."""
        return self._truth(call).possible

    @property
    def about(self) -> str:
        """Return a digest of which calls the rule is about, leaving aside its limit and its condition."""
        given = cast("dict[str, Any]", self.where or {})
        where: dict[str, Any] = {name: each if isinstance(each, dict) else {"eq": each} for name, each in given.items()}
        return digest(self.tool, self.agent, self.kind, self.risk, where, self.read_only)

    @property
    def shared(self) -> Calls | Budget | Breaker | None:
        """Return the rule's limit if several runs share it."""
        return self.over if isinstance(self.over, Calls | Budget | Breaker) and self.over.of != "run" else None

    def explain(self, call: CallView, context: object = None, number: int = 1) -> RuleFinding:
        """Explain what this rule says of a call; it quotes no argument.

        >>> call = CallView("pay", "function", "desk", {"amount": "250"}, digest="5e1f", call_id="call_1")
        >>> print(deny(where={"amount": {"gt": 100}}).explain(call))
        rule 1 (deny) decides: cannot tell whether 'amount' is more: it is a text
        """
        truth = self._truth(call)
        other = self._another(call)
        found = [] if other else list(findings(self.where, self._compared(call)))
        answer = self._means(truth) and self._answer(call, context)
        verdict = self._said(call, truth, answer, f"policy:{number}")
        applies = [each.says for each in found if each.truth is Truth.YES]
        if verdict is not None and (self.over is not None or self.when is not None):
            applies.append(self._beside(answer))
        untold = tuple(each.says for each in found if each.truth is Truth.UNKNOWN)
        passed = "" if verdict is not None else other or self._passed(found, truth)
        settles = self._settles(call, verdict, answer)
        return RuleFinding(number, self.action, verdict, tuple(applies), untold, passed, settles=settles)

    def _truth(self, call: CallView) -> Truth:
        return Truth.NO if self._another(call) else evaluate(self.where, self._compared(call))

    def _compared(self, call: CallView) -> Any:
        """Return the arguments that decide: of a patch, those of one operation.

        A rule that allows means all of them. One that asks, denies or limits means any.
        """
        parts = operations_of(call, self.where)
        if len(parts) == 1:
            return parts[0]
        first = _ALL if self.action == "allow" else _ANY
        return min(parts, key=lambda part: first.index(evaluate(self.where, part)))

    def _means(self, truth: Truth) -> bool:
        """Return whether the rule is about the call.

        A rule that allows is about what it surely means. One that asks, denies or limits is also about that of which
        nobody can tell: else whoever writes the arguments could turn it off.
        """
        return truth.sure if self.action == "allow" else truth.possible

    def _another(self, call: CallView) -> str:
        """Return which name of the call differs from the rule's; "" where none does."""
        if not self.names(call.tool):
            return "it is about another tool"
        if not (is_named(self.agent, call.agent) or is_named(self.agent, call.path)):
            return "it is about another agent"
        if self.kind not in (None, call.kind):
            return "it is about another kind"
        if self.action == "allow" and self.tool is not None and self.kind is None and call.kind in _NAMED_BY_SERVERS:
            return f"it allows such a call only with kind={call.kind!r}: its server chose the tool's name"
        if self.read_only is not None and self.read_only != call.read_only:
            return f"it is about tools that {'only read' if self.read_only else 'may change something'}"
        return "" if self.risk in (None, call.risk) else "it is about another risk"

    def _answer(self, call: CallView, context: object) -> bool | str:
        """Return whether a call is over the limit, or meets the condition; as a text, why that is unknown."""
        try:
            answer: object = self._over_or_when(call, context)
        except Exception as error:  # fail closed: a question that cannot be answered asks a person
            asked = "condition" if self.over is None else "limit"
            return f"the rule's {asked} raised {class_name(error)}"
        return answer if isinstance(answer, bool) else "the rule's condition did not answer True or False"

    def _over_or_when(self, call: CallView, context: object) -> object:
        if self.over is not None:
            if call.past is None:
                raise UserError(
                    "a policy with limits needs the past of the run: a policy that wraps it must set counts = True"
                )
            return self.over.exceeded(call, call.past, self)
        # The rules below judge the call as it is, whatever the condition does to what it is given.
        return self.when is None or run_callback(
            self.when, msgspec.structs.replace(call, params=own_copy(call.params)), context
        )

    def _said(self, call: CallView, truth: Truth, answer: bool | str, by: str) -> Verdict | None:
        if isinstance(answer, str):
            return Verdict("ask", answer, self.approval, by, review=self.review)
        if not answer:
            return None
        reason = self.reason or (self.over.over if self.over is not None else "")
        if isinstance(self.over, Breaker):
            reason = f"{reason}; {self.over.closes(call, self)}"
        if truth is Truth.UNKNOWN:
            reason = f"{reason}; {self._doubt(call, by)}" if reason else self._doubt(call, by)
        by += BY_BREAKER if isinstance(self.over, Breaker) else ""
        return Verdict(self.action, reason, self.approval, by, self.stop, self.review)

    def _doubt(self, call: CallView, by: str) -> str:
        """Return what nobody can tell of a call that is denied or asked about for just that."""
        untold = [each.says for each in findings(self.where, self._compared(call)) if each.truth is Truth.UNKNOWN]
        number = by.removeprefix("policy").replace(":", " ")
        return f"rule{number} ({self.action}): {'; '.join(untold)}"

    def _beside(self, answer: bool | str) -> str:
        if isinstance(answer, str):
            return answer
        return self.over.over if self.over is not None else "its condition holds"

    def _passed(self, found: list[Finding], truth: Truth) -> str:
        if not self._means(truth):
            against = Truth.NO if truth is Truth.NO else Truth.UNKNOWN
            return "; ".join(each.says for each in found if each.truth is against)
        return "the call is within its limit" if self.over is not None else "its condition does not hold"


def allow(**matching: Unpack[Matching]) -> Rule:
    """Make a rule that lets calls run.

    >>> allow(tool="search").action
    'allow'
    """
    return Rule("allow", **matching)


def ask(**matching: Unpack[Matching]) -> Rule:
    """Make a rule that asks a person; `approval` says whom, how many and until when, else the tool's own terms hold.

    >>> ask(risk="high", approval=Approval(expires="4h")).action
    'ask'
    """
    return Rule("ask", **matching)


def deny(**matching: Unpack[Matching]) -> Rule:
    """Make a rule that refuses calls; `reason` is recorded and told to the model.

    >>> deny(tool="drop_*", reason="not from here").reason
    'not from here'
    >>> deny(tool="send_*", over=Calls(20, per="1h")).over.over
    'over the limit of 20 calls in 1h'
    """
    return Rule("deny", **matching)
