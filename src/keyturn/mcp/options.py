"""The options that users give a server, checked when they are given.

An option that is wrong would show it only when a call is made, which is when somebody relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict

from ..core.errors import UserError
from ..core.settable import ELSEWHERE, Rule, described, did_you_mean, own_of
from ..core.values import is_callback, is_entries, is_flag, is_positive, is_whole
from .approval import Approvals, RequireApproval
from .base import ServerSeam
from .bounds import CONNECT_SECONDS, LIST_PAGES
from .filters import ToolFilter, check_filter

UNSET: Any = object()


class ServerOptions(TypedDict, total=False):
    """Declares the options that every kind of server takes.

    `trust_annotations=True` believes the server that a tool reads only or may be repeated: then such a call is tried
    again where its outcome is unknown. `elicitation_callback(context, params)` answers a server's questions in line;
    without it they wait for people as requests of kind "external". `asks_within_calls=True` says that a server of the
    older protocol asks while its calls stand open; else that is known from its first question on.

    >>> ServerOptions(require_approval="always", trust_annotations=False)["require_approval"]
    'always'
    """

    tool_filter: ToolFilter
    use_structured_content: bool
    max_retry_attempts: int
    retry_backoff_seconds_base: float
    retry_backoff_seconds_max: float | None
    message_handler: Callable[[Any], Any] | None
    require_approval: RequireApproval
    failure_error_function: Callable[[Any, Exception], Any] | None
    tool_meta_resolver: Callable[[Any], Any] | None
    tool_input_guardrails: list[Any] | None
    tool_output_guardrails: list[Any] | None
    max_list_pages: int | None
    trust_annotations: bool
    elicitation_callback: Callable[[Any, Any], Any] | None
    asks_within_calls: bool
    connect_timeout_seconds: float
    mode: Literal["auto", "legacy"]


@dataclass(frozen=True)
class Settings:
    """Holds the options with their defaults filled in."""

    cache_tools_list: bool = False
    seconds: float | None = 5
    tool_filter: Any = None
    use_structured_content: bool = False
    max_retry_attempts: int = 0
    retry_backoff_seconds_base: float = 1.0
    retry_backoff_seconds_max: float | None = 30.0
    message_handler: Callable[[Any], Any] | None = None
    require_approval: RequireApproval = None
    failure_error_function: Any = UNSET
    tool_meta_resolver: Callable[[Any], Any] | None = None
    tool_input_guardrails: list[Any] | None = None
    tool_output_guardrails: list[Any] | None = None
    max_list_pages: int | None = LIST_PAGES
    trust_annotations: bool = False
    elicitation_callback: Callable[[Any, Any], Any] | None = None
    asks_within_calls: bool = False
    connect_timeout_seconds: float = CONNECT_SECONDS
    mode: str = "auto"

    def __post_init__(self) -> None:
        check_filter(self.tool_filter)
        for name in ("message_handler", "tool_meta_resolver", "elicitation_callback"):
            _check(name, getattr(self, name), is_callback, "a callable or None")
        _check("seconds", self.seconds, _is_timeout, "a number of seconds greater than 0, or None")
        _check(
            "connect_timeout_seconds", self.connect_timeout_seconds, is_positive, "a number of seconds greater than 0"
        )
        _check("max_retry_attempts", self.max_retry_attempts, _is_count, "a number that is not negative")
        _check("mode", self.mode, ("auto", "legacy").__contains__, "'auto' or 'legacy'")
        for name in ("cache_tools_list", "use_structured_content", "trust_annotations", "asks_within_calls"):
            _check(name, getattr(self, name), is_flag, "True or False")
        for name in ("tool_input_guardrails", "tool_output_guardrails"):
            _check(name, getattr(self, name), is_entries, "a list or None")

    def pause(self, attempt: int) -> float:
        """Return how long to wait before another attempt."""
        wait = self.retry_backoff_seconds_base * 2.0 ** min(attempt, 30)
        return wait if self.retry_backoff_seconds_max is None else min(wait, self.retry_backoff_seconds_max)


def _option(server: Any, name: str, value: Any) -> Any:
    """Set an option of a server: what is listed, called or asked from now on goes by it."""
    field = _FIELD_OF.get(name, name)
    if name == "require_approval":
        Approvals(server.name, value)
    own_of(server)["settings"] = replace(server.settings, **{field: value})
    return value


def _renamed(server: object, name: str, value: object) -> Any:
    """Name a server, whose tools are other tools from then on: what was listed under another name is listed again."""
    if not isinstance(value, str) or not value:
        raise UserError(f"an MCP server's name must be a non-empty string, not {value!r}")
    if name in own_of(server):
        own_of(server).update(_unnamed=False, _cache=None)
    return value


def _while_closed(server: object, name: str, value: object) -> Any:
    return _option(server, name, connected_by(lambda given: given)(server, name, value))


def _all_options(server: object, _name: str, value: object) -> Any:
    """Keep the options, each under its own name as well."""
    if "settings" in own_of(server):
        raise AttributeError(f"'settings' of {described(server)} cannot be set: set the option itself")
    named = {field: name for name, field in _FIELD_OF.items()}
    own = own_of(server)
    own["settings"] = value
    own |= {named.get(each.name, each.name): getattr(value, each.name) for each in fields(Settings)}
    return ELSEWHERE


def connected_by(read: Callable[[Any], Any]) -> Rule:
    """Make the rule of what a server is connected by: it holds for the next connection."""

    def rule(server: object, name: str, value: object) -> Any:
        read(value)
        if own_of(server).get("_connection") is not None:
            raise AttributeError(
                f"{name!r} of {described(server)} cannot be set while it is connected: cleanup() first"
            )
        return value

    return rule


_FIELD_OF = {"client_session_timeout_seconds": "seconds"}
SERVER_RULES: dict[str, Rule] = {
    **dict.fromkeys(ServerOptions.__annotations__, _option),
    "cache_tools_list": _option,
    "client_session_timeout_seconds": _option,
    "mode": _while_closed,
    "name": _renamed,
    "settings": _all_options,
}


class OptionedServer(ServerSeam):
    """Has the options of a server as attributes: one that is set holds for what is listed, called or asked next.

    >>> "require_approval" in OptionedServer.__annotations__
    True
    """

    settings: Settings
    cache_tools_list: bool
    client_session_timeout_seconds: float | None
    tool_filter: ToolFilter
    use_structured_content: bool
    max_retry_attempts: int
    retry_backoff_seconds_base: float
    retry_backoff_seconds_max: float | None
    message_handler: Callable[[Any], Any] | None
    require_approval: RequireApproval
    failure_error_function: Callable[[Any, Exception], Any] | None
    tool_meta_resolver: Callable[[Any], Any] | None
    tool_input_guardrails: list[Any] | None
    tool_output_guardrails: list[Any] | None
    max_list_pages: int | None
    trust_annotations: bool
    elicitation_callback: Callable[[Any, Any], Any] | None
    asks_within_calls: bool
    connect_timeout_seconds: float
    mode: Literal["auto", "legacy"]
    _rules = SERVER_RULES


def settings(cache_tools_list: bool, seconds: float | None, options: Mapping[str, Any]) -> Settings:
    """Make the settings from a user's options; refuse an unknown option."""
    known = {field.name for field in fields(Settings)} - {"cache_tools_list", "seconds"}
    unknown = sorted(set(options) - known)
    if unknown:
        near = did_you_mean(unknown[0], known)
        raise TypeError(f"an MCP server has no option {unknown[0]!r}{near}; the options are {', '.join(sorted(known))}")
    return Settings(cache_tools_list, seconds, **options)


def _check(name: str, value: object, fits: Callable[[Any], bool], may_be: str) -> None:
    if not fits(value):
        name = "client_session_timeout_seconds" if name == "seconds" else name
        raise UserError(f"{name} of an MCP server must be {may_be}, not {value!r}")


def _is_timeout(value: object) -> bool:
    return value is None or is_positive(value)


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0
