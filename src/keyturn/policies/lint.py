"""Lint rules against the tools and agents that an app has: a rule that names none of them would say nothing, silently.

What cannot match is an error. Where tools come from a server that is not asked yet, nobody knows, and it is a warning;
so is a pattern that matches nothing yet. Rules of a preset are meant for any app. Nothing here judges a call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from . import presets
from .argument_types import Unsure, argument, misfit, names_in
from .limits import Budget
from .rule import Rule
from .toml_lines import Misplaced
from .tool_names import is_named

_RISKS = ("low", "medium", "high", "critical")
_PRESETS = frozenset(id(rule) for rules, _default in presets.NAMED.values() for rule in rules)
_MOST = 12


class KnownTool(NamedTuple):
    """Describes one tool of one agent; `schema` is that of its arguments, None where it is not known."""

    name: str
    kind: str
    agent: str
    path: str
    schema: Mapping[str, Any] | None = None
    risk: str | None = None
    read_only: bool = False


class Known(NamedTuple):
    """Holds what an app has: its tools, its agents by name and path, and where more may come from.

    `open` are the paths of agents whose servers bring tools that are not known yet, `provided` the tools that a
    provider runs without asking any rule, `servers` the MCP servers at a provider by label. With `more_agents`, a
    callback hands over to agents that only it knows. `callers` are the paths of agents of external callers, below which
    a rule names the server of a tool.
    """

    tools: Sequence[KnownTool]
    agents: Sequence[tuple[str, str]]
    open: Collection[str] = ()
    provided: Collection[str] = ()
    more_agents: bool = False
    servers: Collection[str] = ()
    callers: Collection[str] = ()


class Complaint(NamedTuple):
    """Says what is wrong with a rule: which one, under which key of it, and whether it may still come right."""

    level: Literal["error", "warning"]
    rule: int
    key: str
    says: str

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.says}"


def lint(rules: Sequence[Rule], known: Known) -> list[Complaint]:
    """Return what is wrong with rules for an app that has just this.

    >>> known = Known([KnownTool("pay", "function", "desk", "desk")], [("desk", "desk")])
    >>> print(*lint([Rule("deny", tool="pya")], known))
    rule 1: no tool is named 'pya'; did you mean 'pay'?
    """
    numbered = [(number, rule) for number, rule in enumerate(rules, 1) if id(rule) not in _PRESETS]
    return [complaint for number, rule in numbered for complaint in _Linted(number, rule, known).complaints()]


def refuse(complaints: Iterable[Complaint]) -> None:
    """Raise `UserError` for what is an error among complaints; all of them are named."""
    errors = [each for each in complaints if each.level == "error"]
    if errors:
        first, *more = errors
        raise Misplaced("; ".join([first.says, *map(str, more)]), first.rule, first.key)


class _Linted:
    """Lints one rule."""

    def __init__(self, number: int, rule: Rule, known: Known) -> None:
        self._number = number
        self._rule = rule
        self._known = known
        agents = [path for name, path in known.agents if is_named(rule.agent, name) or is_named(rule.agent, path)]
        agents += [path for path in known.callers if (rule.agent or "").startswith(f"{path}/")]
        self._agents = agents
        self._open = any(path in known.open for path in agents) or known.more_agents
        self._near = [each for each in known.tools if each.path in agents]
        self._meant = [each for each in self._near if self._means(each)]
        # A server may bring a tool that a pattern matches; a name that is known is that of the tool that is known.
        self._more = self._open and (rule.tool is None or "*" in rule.tool or not self._meant)

    def _means(self, tool: KnownTool) -> bool:
        rule = self._rule
        stated = rule.read_only in (None, tool.read_only) and rule.risk in (None, tool.risk)
        return rule.names(tool.name) and rule.kind in (None, tool.kind) and stated

    def complaints(self) -> Iterator[Complaint]:
        """Yield what is wrong, the first of the names that match nothing only: the others follow from it."""
        wrong = self._agent() or self._kind() or self._tool() or self._risk()
        if wrong is not None:
            yield wrong
        elif self._meant:
            yield from self._arguments()

    def _say(self, key: str, says: str, *, surely: bool = True) -> Complaint:
        return Complaint("error" if surely else "warning", self._number, key, says)

    def _agent(self) -> Complaint | None:
        asked = self._rule.agent
        if asked is None or self._agents:
            return None
        names = [name for pair in self._known.agents for name in pair]
        surely = not self._known.more_agents and "*" not in asked
        return self._say("agent", f"no agent is named {asked!r}{_near(asked, names)}", surely=surely)

    def _kind(self) -> Complaint | None:
        asked, kinds = self._rule.kind, [each.kind for each in self._near]
        if asked is None or asked in kinds:
            return None
        says = f"no tool is of the kind {asked!r}{_near(asked, kinds)}"
        return self._say("kind", says, surely=not self._open)

    def _tool(self) -> Complaint | None:
        asked, names = self._rule.tool, [each.name for each in self._near]
        if asked is None or any(map(self._rule.names, names)):
            return None
        if asked in self._known.provided:
            return self._say("tool", f"{asked!r} is run by the provider, which asks no rule: take it from the agent")
        if asked in self._known.servers:
            return self._say(
                "tool", f"{asked!r} is an MCP server at the provider: name its tools, or kind='hosted_mcp'"
            )
        whose = "" if self._rule.agent is None else f" of agent {self._rule.agent!r}"
        says = f"no tool{whose} is named {asked!r}{_near(asked, names)}"
        if self._open:
            says += "; a server that is not asked yet may bring it"
        return self._say("tool", says, surely=not self._open and "*" not in asked)

    def _risk(self) -> Complaint | None:
        asked, stated = self._rule.risk, [each.risk for each in self._near if each.risk is not None]
        if asked is None or asked in (*_RISKS, *stated):
            return None
        return self._say(
            "risk", f"no tool states the risk {asked!r}{_near(asked, [*_RISKS, *stated])}", surely=not self._open
        )

    def _arguments(self) -> Iterator[Complaint]:
        for name, condition in (self._rule.where or {}).items():
            yield from self._argument("where", name, condition)
        if isinstance(self._rule.over, Budget):  # an amount that is no number is over every budget
            yield from self._argument("over", self._rule.over.argument, {"ge": 0})

    def _argument(self, key: str, name: str, condition: object) -> Iterator[Complaint]:
        schemas = [tool.schema for tool in self._meant if tool.schema is not None]
        unsure = self._more or len(schemas) < len(self._meant)
        found = [(schema, argument(schema, name)) for schema in schemas]
        if any(each is Unsure.ANYTHING for _schema, each in found):
            return
        declared = [(schema, each) for schema, each in found if not isinstance(each, Unsure)]
        if schemas and not declared:
            yield self._say(key, self._missing(name, found), surely=not unsure)
            return
        wrong = [misfit(name, condition, each, schema) for schema, each in declared]
        says = next((each for each in wrong if each), "")
        if says:
            yield self._say(key, says, surely=all(wrong) and not unsure)

    def _missing(self, name: str, found: Sequence[tuple[Mapping[str, Any], Any]]) -> str:
        if any(each is Unsure.IN_A_LIST for _schema, each in found):
            return f"{name!r} goes into a list, whose members have no names; compare a list with any or all"
        whose = repr(self._rule.tool) if self._rule.tool is not None else "a tool that the rule is about"
        names = [each for schema, _found in found for each in names_in(schema, name)]
        return f"no argument of {whose} is named {name!r}{_near(name, names)}"


def _near(asked: str, names: Iterable[str]) -> str:
    """Return the name that was probably meant, else those that there are."""
    known = [*dict.fromkeys(names)]
    close = get_close_matches(asked, known, n=1) or [each for each in known if each.lower() == asked.lower()]
    if close:
        return f"; did you mean {close[0]!r}?"
    listed = ", ".join(map(repr, known[:_MOST]))
    return f"; there is {listed}{' and more' if len(known) > _MOST else ''}" if known else "; there is none"
