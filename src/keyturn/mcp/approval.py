"""Read a server's `require_approval`, in any of its forms, into which tools ask; check it when it is given.

A form that cannot be read is an error, since it would let calls pass. Nothing here asks anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from ..core.errors import UserError

RequireApproval: TypeAlias = str | bool | Mapping[str, Any] | Callable[[Any, Any, Any], Any] | None
_WORDS: dict[Any, bool] = {"always": True, "never": False}
_FORMS = (
    '"always", "never", True, False, a callable (run_context, agent, tool), a mapping {tool: "always"|"never"|bool}, '
    'or {"always": {"tool_names": [...]}, "never": {"tool_names": [...]}}'
)


class Approvals:
    """Decides, by a server's `require_approval`, whether a tool asks.

    A mapping that only says what always asks gates just that. Once it has a list of what is exempt, even an empty one,
    what it does not list asks.

    >>> mapped = Approvals("files", {"read": "never", "write": "always"})
    >>> mapped.of("read"), mapped.of("write"), mapped.of("delete")
    (False, True, True)
    """

    def __init__(self, server: str, given: RequireApproval) -> None:
        self._server = server
        self.listed: dict[str, bool] = {}
        self.policy: Callable[[Any, Any, Any], Any] | None = None
        self._else = False
        if given is None or isinstance(given, bool):
            self._else = bool(given)
        elif isinstance(given, str):
            self._else = self._word(given)
        elif isinstance(given, Mapping):
            words = cast("Mapping[str, Any]", given)
            if not words:
                raise self._wrong('it is empty, which is either "always" or "never"')
            self.listed = self._grouped(words) if _is_grouped(words) else self._by_tool(words)
            self._else = "never" in words if _is_grouped(words) else False in self.listed.values()
        elif callable(given):
            self.policy = given
        else:
            raise self._wrong(f"it is {given!r}")

    def of(self, tool: str) -> bool:
        """Return whether a tool asks, where no callable decides it."""
        return self.listed.get(tool, self._else)

    def check_names(self, names: Collection[str]) -> None:
        """Refuse a name that is nearly one that the server lists, since the tool that was meant would not ask."""
        others = [name for name in names if name not in self.listed]
        for name in self.listed:
            near = [] if name in names else get_close_matches(name, others, n=1, cutoff=0.8)
            if near:
                raise UserError(
                    f"require_approval of MCP server {self._server!r} names the tool {name!r}, which the server does "
                    f"not list; it lists {near[0]!r}: nothing ran, correct the name"
                )

    def _word(self, given: object, where: str = "") -> bool:
        if isinstance(given, bool):
            return given
        if not isinstance(given, str) or given not in _WORDS:
            raise self._wrong(f"{where}it is {given!r}")
        return _WORDS[given]

    def _by_tool(self, given: Mapping[str, Any]) -> dict[str, bool]:
        for tool in given:
            if not isinstance(tool, str) or not tool:
                raise self._wrong(f"{tool!r} is not a tool name")
        return {tool: self._word(word, f"for {tool!r} ") for tool, word in given.items()}

    def _grouped(self, given: Mapping[str, Any]) -> dict[str, bool]:
        listed: dict[str, bool] = {}
        for word, group in given.items():
            if word not in _WORDS:
                raise self._wrong(f"{word!r} is neither 'always' nor 'never'")
            for tool in self._names(word, group):
                if listed.setdefault(tool, _WORDS[word]) != _WORDS[word]:
                    raise self._wrong(f"{tool!r} is both under 'always' and under 'never'")
        return listed

    def _names(self, word: str, group: Any) -> list[str]:
        names: Any = cast("Mapping[str, Any]", group).get("tool_names") if isinstance(group, Mapping) else None
        known = isinstance(group, Mapping) and set(cast("Mapping[str, Any]", group)) == {"tool_names"}
        if not known or not isinstance(names, list | tuple):
            raise self._wrong(f"{word!r} holds {group!r}")
        several = cast("list[Any]", names)
        if not all(isinstance(name, str) and name for name in several):
            raise self._wrong(f"{word!r} holds names that are not strings")
        return several

    def _wrong(self, what: str) -> UserError:
        return UserError(f"require_approval of MCP server {self._server!r} cannot be read: {what}; it may be {_FORMS}")


def _is_grouped(given: Mapping[str, Any]) -> bool:
    """Return whether the keys mean the groups 'always' and 'never', and not names of tools."""
    return any(isinstance(value, Mapping) for value in given.values())
