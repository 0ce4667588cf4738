"""Log what a tool raised, whatever its model is told: the traceback, with every secret argument taken out of it.

`keyturn.tools` is the logger. `KEYTURN_DONT_LOG_TOOL_DATA=1` leaves the exceptions' own words out, which may quote
arguments: where it was raised and its class are logged then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, cast

from ...core.errors import BadJson
from ...core.preview import REDACTED, redact
from ...core.run import Call
from ...support.credentials import without
from ...support.user_code import original
from ...tools.base import OutcomeUnknown, Tool, ToolProblem
from ..logger import TRACE, WORDS, keep_cleaned, tool_data_allowed, traceback_of, whole_words

log = logging.getLogger("keyturn.tools")


def log_tool_error(run_id: str, call: Call, tool: Tool, error: BaseException) -> None:
    """Log an exception of a tool once: as a warning with its traceback, or in a line where the tool meant it."""
    cleaned: str | None = getattr(error, WORDS, None)  # it was raised below, where its secrets are known
    keep_words(call, error)
    meant = isinstance(error, ToolProblem | OutcomeUnknown)
    if not log.isEnabledFor(logging.INFO if meant else logging.WARNING):
        return
    where = (tool.name, call.agent, run_id, call.proposal.label)
    if meant:
        log.info("tool %r of agent %r refused in run %s, call %s: %s", *where, cleaned or _words(call, error))
    else:
        trace = getattr(error, TRACE, None) or without_secrets(call, traceback_of(error))
        log.warning("tool %r of agent %r raised in run %s, call %s\n%s", *where, trace)


def keep_words(call: Call, error: BaseException) -> None:
    """Let an error carry its words and traceback without the secrets of a call, for who records it and knows none."""
    if call.proposal.secrets:
        keep_cleaned(error, _words(call, error), lambda text: without_secrets(call, text))


def _words(call: Call, error: BaseException) -> str:
    return without_secrets(call, whole_words(error)) if tool_data_allowed() else type(original(error)).__name__


def without_secrets(call: Call, text: str) -> str:
    """Return the text with a mark for every secret argument of the call, in each way that it may be written."""
    if not call.proposal.secrets:
        return text
    try:
        params = call.params
    except BadJson:  # it is no JSON: nobody can say where in it a secret is
        return REDACTED
    hidden = list(_hidden(params, redact(params, call.proposal.secrets)))
    plain = [value if isinstance(value, str) else json.dumps(value) for value in hidden]
    return without(text, [*plain, *(repr(value) for value in hidden)])


def _hidden(true: object, shown: object) -> Iterator[Any]:
    """Yield every value that is not shown, and the parts of it."""
    if true == shown:
        return
    seen = _members(shown)
    members = _members(true)
    for place, value in members.items():
        yield from _hidden(value, seen.get(place))
    if not members:
        yield true


def _members(value: object) -> dict[Any, Any]:
    if isinstance(value, list):
        return dict(enumerate(cast("list[Any]", value)))
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
