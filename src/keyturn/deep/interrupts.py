"""Say which calls of a deep agent ask people: `interrupt_on`, as a policy that the agent brings along.

It is asked at the one gate, of the calls of the agent and of all agents below it, whichever way they came to work. One
name gates one tool, and a name that no tool has is an error. Nothing here runs a call or lets one run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from ..core.approval import Approval
from ..core.errors import UserError
from ..core.policy import CallView, Verdict
from ..support.user_code import answer_of

InterruptRule = bool | Callable[[Any, Any, str], bool | Awaitable[bool]] | Approval

# What runs commands asks, unless it is set to False in so many words.
_BY_DEFAULT: dict[str, InterruptRule] = {"execute": True}


class Interrupts:
    """Asks people about the calls of some tools: always, on terms, or when a function of the call says so.

    The rules of an agent above hold, where there is none for a tool here.

    >>> import asyncio
    >>> rules = Interrupts({"deploy": Approval(expires="4h")})
    >>> call = CallView("deploy", "function", "ops", {}, digest="5e1f", call_id="call_1")
    >>> asyncio.run(rules(call, None)).terms.expires
    '4h'
    """

    def __init__(self, rules: Mapping[str, InterruptRule] | None, above: Interrupts | None = None) -> None:
        self.own = checked(rules)
        self._above = above
        self.replaces: tuple[Interrupts, ...] = () if above is None else (above, *above.replaces)

    @property
    def rules(self) -> dict[str, InterruptRule]:
        """Return the rules that hold now, with those of the agents above."""
        return {**(_BY_DEFAULT if self._above is None else self._above.rules), **self.own}

    @property
    def rules_now(self) -> tuple[Mapping[str, InterruptRule], ...]:
        """Return what tells whether the same rules hold as when a call was judged."""
        return (self.own, *(() if self._above is None else self._above.rules_now))

    @property
    def needs_people(self) -> bool:
        """Return whether a rule has terms that only people who are known can meet."""
        return any(isinstance(rule, Approval) and rule.needs_people for rule in self.rules.values())

    def change(self, rules: Mapping[str, InterruptRule] | None, check: Callable[[], None]) -> None:
        """Replace the rules by others; where `check` refuses them, those that were hold on."""
        before, self.own = self.own, checked(rules)
        try:
            check()
        except UserError:
            self.own = before
            raise

    async def __call__(self, call: CallView, context: object) -> Verdict | None:
        """Return that a call asks, or None to leave it to the tool."""
        name, rule = self._rule_of(call)
        if isinstance(rule, bool):
            return Verdict("ask", by="interrupt_on") if rule else None
        if isinstance(rule, Approval):
            return Verdict("ask", terms=rule, by="interrupt_on")
        answer = await answer_of(rule, context, call.params, call.call_id)
        if not isinstance(answer, bool):
            raise UserError(f"interrupt_on[{name!r}] must answer True or False, not {type(answer).__name__}")
        return Verdict("ask", by="interrupt_on") if answer else None

    def _rule_of(self, call: CallView) -> tuple[str, InterruptRule]:
        """Return the rule of a call, and its name; of a tool of a server at the provider, else that of the server."""
        names = (f"{call.offered}/{call.tool}", call.offered) if call.offered else (call.tool,)
        rules = self.rules
        return next(((name, rules[name]) for name in names if name in rules), (names[0], False))


def checked(rules: Mapping[str, InterruptRule] | None) -> dict[str, InterruptRule]:
    """Return the rules, or refuse what is none."""
    given: object = {} if rules is None else rules
    if not isinstance(given, Mapping):
        raise UserError(f"interrupt_on must be a dict of tool names, not {type(given).__name__}")
    made = dict(cast("Mapping[Any, Any]", given))
    for name, rule in made.items():
        if not isinstance(name, str):
            raise UserError(f"interrupt_on: {name!r} is no name of a tool")
        if not isinstance(rule, bool | Approval) and not callable(rule):
            raise UserError(
                f"interrupt_on[{name!r}] must be True, False, a callable (ctx, params, call_id) or an Approval(...), "
                f"not {rule!r}"
            )
    return made


def unknown_names(rules: Iterable[str], known: Iterable[str]) -> UserError | None:
    """Return the error for rules of tools that nobody has: a typo would leave a tool open that was meant to ask.

    A known name that ends in "/*" is of a server at the provider, which brings tools of any name.
    """
    names = sorted(set(known))
    servers = tuple(name.removesuffix("*") for name in names if name.endswith("/*"))
    missing = sorted(rule for rule in set(rules) - set(names) if not rule.startswith(servers) or rule in servers)
    if not missing:
        return None
    return UserError(f"interrupt_on names {missing[0]!r}, and there is no such tool; there are {', '.join(names)}")
