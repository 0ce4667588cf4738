"""Send traces to OpenAI's trace view over HTTP: what `export()` of traces and spans returns.

It runs in the thread of a processor, never in a run's, and raises nothing: what could not be sent is logged and lost.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..core.errors import UserError
from ..core.settable import Sealed
from .processor_interface import TracingExporter
from .spans import Span
from .trace import Trace

ENDPOINT = "https://api.openai.com/v1/traces/ingest"
_LOG = logging.getLogger("keyturn.tracing")
_TIMEOUT = 60.0
_LONGEST_TEXT = 100_000
_PASSING = frozenset({408, 409, 429})
_COUNTED = ("input_tokens", "output_tokens")  # the service refuses other counts


class BackendSpanExporter(TracingExporter, Sealed):
    """Sends traces and spans to OpenAI's trace view, or to another `endpoint` that takes the same.

    The key is `api_key`, or `OPENAI_API_KEY` where none was given; without one nothing is sent.

    >>> BackendSpanExporter("sk-test", endpoint="http://localhost:1234/traces").endpoint
    'http://localhost:1234/traces'
    """

    def __init__(
        self,
        api_key: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        endpoint: str = ENDPOINT,
        max_retries: int = 3,
        base_delay: float = 1.0,
        max_delay: float = 30.0,
    ) -> None:
        if not endpoint.startswith(("https://", "http://")):
            raise UserError("the endpoint of a BackendSpanExporter is an http or https address")
        self.endpoint = endpoint
        self.max_retries = max_retries
        self.base_delay, self.max_delay = base_delay, max_delay
        self._key = api_key
        self._organization, self._project = organization, project
        self._wait: Callable[[float], None] = time.sleep

    @property
    def api_key(self) -> str | None:
        """The key that is sent, None where there is none."""
        key = self._key or os.environ.get("OPENAI_API_KEY") or ""
        return key.strip() or None  # with the end of its line it would be quoted by whoever refuses the header

    def set_api_key(self, api_key: str) -> None:
        """Use this key from now on."""
        given: object = api_key
        if not isinstance(given, str) or not given:
            raise UserError("the key for exporting traces is a text that is not empty")
        self._key = api_key

    def export(self, items: Sequence[Trace | Span[Any]]) -> None:
        """Send them, again where the service is busy or could not be reached."""
        made = [_sendable(told) for item in items if (told := item.export()) is not None]
        if not made:
            return
        if self.api_key is None:
            _LOG.warning("%d traces and spans were not sent: no OPENAI_API_KEY is set", len(made))
            return
        body = json.dumps({"data": made}, ensure_ascii=False).encode("utf-8", "replace")
        for attempt in range(self.max_retries + 1):
            if not self._again(body, attempt):
                return
            if attempt < self.max_retries:
                self._wait(min(self.base_delay * 2**attempt, self.max_delay) * random.uniform(0.9, 1.1))
        _LOG.error("%d traces and spans were not sent: tried %d times", len(made), self.max_retries + 1)

    def _again(self, body: bytes, attempt: int) -> bool:
        """Send once.

        Whether another attempt may help.
        """
        request = urllib.request.Request(self.endpoint, body, self._headers(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT):
                return False
        except urllib.error.HTTPError as error:
            if error.code in _PASSING or error.code >= 500:
                return True
            _LOG.error("the trace service refused a batch with status %d", error.code)
            return False
        except OSError as error:
            _LOG.debug("attempt %d to send traces: %s", attempt + 1, type(error).__name__)
            return True

    def _headers(self) -> dict[str, str]:
        made = {
            "Authorization": f"Bearer {self.api_key}",
            "Content-Type": "application/json",
            "OpenAI-Beta": "traces=v1",
            "OpenAI-Organization": self._organization or os.environ.get("OPENAI_ORG_ID"),
            "OpenAI-Project": self._project or os.environ.get("OPENAI_PROJECT_ID"),
        }
        return {name: value for name, value in made.items() if value}


def _sendable(told: dict[str, Any]) -> dict[str, Any]:
    """What `export()` said, as JSON that the service takes: texts within its limit, and only counts that it knows."""
    made = cast("dict[str, Any]", _json(told))
    about = made.get("span_data")
    if isinstance(about, dict):
        data = cast("dict[str, Any]", about)
        usage = data.get("usage")
        if isinstance(usage, dict):
            given = cast("dict[str, Any]", usage)
            data["usage"] = {name: given[name] for name in _COUNTED if name in given}
    return made


def _json(value: object) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]} [cut here]"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # neither NaN nor infinity is JSON
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in cast("Sequence[Any]", value)]
    return _json(repr(value))
