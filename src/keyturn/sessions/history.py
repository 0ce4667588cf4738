"""The orphans of a conversation: calls without an output, and outputs without a call.

Pure functions over items in the Responses input format. Everything known here about how a call and
its output name each other stands in one table, and a row is needed only by a kind that is unlike the others: any
`x_call` with a `call_id` is answered by an `x_call_output`. No storage, no clock, no run: the engine decides when
to settle, this file says what and how.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..core.errors import UserError
from ..core.items import Item

# A computer's output is a screenshot and has no place for words: this is 16 by 16 pixels of one grey.
BLANK_SCREENSHOT = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAAAAAA6mKC9AAAAD0lEQVR42mNoQAMMI1sAAAUMgAHjM1mKAAAAAElFTkSuQmCC"
)


@dataclass(frozen=True)
class _Kind:
    """Describes one kind of call: its output's type, how each names the call, and an output where it did not run."""

    output: str
    unexecuted: Callable[[str], Item]
    call_key: str = "call_id"
    output_key: str = "call_id"


_KINDS: dict[str, _Kind] = {
    "function_call": _Kind("function_call_output", lambda text: {"output": text}),
    "custom_tool_call": _Kind("custom_tool_call_output", lambda text: {"output": text}),
    "shell_call": _Kind("shell_call_output", lambda text: {"output": [_failed_command(text)]}),
    "local_shell_call": _Kind("local_shell_call_output", lambda text: {"output": text}),
    "apply_patch_call": _Kind("apply_patch_call_output", lambda text: {"status": "failed", "output": text}),
    "computer_call": _Kind("computer_call_output", lambda _: {"status": "incomplete", "output": _blank()}),
    "mcp_approval_request": _Kind(
        "mcp_approval_response",
        lambda text: {"approve": False, "reason": text},
        call_key="id",
        output_key="approval_request_id",
    ),
}
_BY_OUTPUT: dict[str, _Kind] = {kind.output: kind for kind in _KINDS.values()}


def _call_kind(item: Item) -> _Kind | None:
    """Return the kind of a call; None for every other item, and for calls that the provider answers itself."""
    name = _type(item)
    if name in _KINDS or not (name.endswith("_call") and isinstance(item.get("call_id"), str)):
        return _KINDS.get(name)
    return _Kind(f"{name}_output", lambda text: {"output": text})


def _output_kind(item: Item) -> _Kind | None:
    """Return the kind of a call by its output; None for every other item."""
    name = _type(item)
    if name in _BY_OUTPUT or not (name.endswith("_call_output") and isinstance(item.get("call_id"), str)):
        return _BY_OUTPUT.get(name)
    return _Kind(name, lambda text: {"output": text})


def _failed_command(text: str) -> Item:
    return {"stdout": "", "stderr": text, "outcome": {"type": "exit", "exit_code": 1}}


def _blank() -> Item:
    return {"type": "computer_screenshot", "image_url": BLANK_SCREENSHOT}


def orphan_calls(items: Sequence[Item]) -> list[Item]:
    """Return the calls that have no output yet, in order; a provider refuses a conversation with one.

    >>> orphan_calls([{"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}])[0]["call_id"]
    'c1'
    """
    return [items[index] for index in _pair(items)[0]]


def orphan_outputs(items: Sequence[Item]) -> list[Item]:
    """Return the outputs that no call before them asked for, in order; providers refuse these as well.

    >>> orphan_outputs([{"type": "function_call_output", "call_id": "c1", "output": "paid"}])[0]["output"]
    'paid'
    """
    return [items[index] for index in _pair(items)[1]]


def drop_leading_orphans(items: Sequence[Item]) -> list[Item]:
    """Return a window on a conversation without the outputs whose calls the window cut off.

    They need not be its first items: the cut may fall between two calls made in parallel.

    >>> drop_leading_orphans([{"type": "function_call_output", "call_id": "c1", "output": "paid"}, {"role": "user"}])
    [{'role': 'user'}]
    """
    strays = set(_pair(items)[1])
    return [item for index, item in enumerate(items) if index not in strays]


def superseded_output(call: Item, text: str) -> Item:
    """Return the output item that settles an orphan call without having run it, and says so to the model.

    A computer's output cannot carry words: it gets a blank screenshot, and whoever settles it says the text in
    a message. Its pending safety checks stay unacknowledged, because nobody acknowledged them.

    >>> superseded_output({"type": "function_call", "call_id": "c1"}, "not executed")
    {'type': 'function_call_output', 'call_id': 'c1', 'output': 'not executed'}
    """
    kind = _call_kind(call)
    if kind is None:
        raise UserError(f"an item of type {_type(call)!r} is not a call that requires an output: pass an orphan call")
    return {"type": kind.output, kind.output_key: _label(call, kind.call_key), **kind.unexecuted(text)}


def _pair(items: Sequence[Item]) -> tuple[list[int], list[int]]:
    """Find the orphan calls and the orphan outputs.

    Providers repeat call ids in later turns, so an output settles the oldest call of its id that is still open
    when it comes; an output never settles a call that comes after it.
    """
    waiting: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    strays: list[int] = []
    for index, item in enumerate(items):
        if kind := _call_kind(item):
            waiting[kind.output, _label(item, kind.call_key)].append(index)
        elif kind := _output_kind(item):
            calls = waiting[kind.output, _label(item, kind.output_key)]
            if calls:
                calls.popleft()
            else:
                strays.append(index)
    return sorted(index for calls in waiting.values() for index in calls), strays


def _type(item: Item) -> str:
    value = item.get("type")
    return value if isinstance(value, str) else ""


def _label(item: Item, key: str) -> str:
    # OpenAI's types say that a local shell's output names its call under `id`, its server wants `call_id`, and
    # stored conversations hold both.
    value = item.get(key) or item.get("id")
    return value if isinstance(value, str) else ""


class ContentAddress:
    """Computes the content address of a growing list of items; ask for it after any of them.

    It is the SHA-256 of the list's canonical JSON (keys sorted by code point, no spaces, UTF-8), so that anybody
    can compute it without us, and a list that went through a JSON store has the address it had before.

    >>> address = ContentAddress()
    >>> address.add({"role": "user", "content": "hello"})
    >>> address.count, address.hex() == content_address([{"content": "hello", "role": "user"}])
    (1, True)
    """

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256(b"[")

    def add(self, item: Item) -> None:
        """Add the next item; one that has no JSON form is refused and changes nothing."""
        encoded = _canonical(item)
        self._hash.update(b"," + encoded if self.count else encoded)
        self.count += 1

    def hex(self) -> str:
        """Return the address of the items added so far."""
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()


def content_address(items: Iterable[Item]) -> str:
    """Return the content address of a list of items: SHA-256 over its canonical JSON.

    >>> content_address([])[:16]
    '4f53cda18c2baa0c'
    """
    address = ContentAddress()
    for item in items:
        address.add(item)
    return address.hex()


def history_address(history: Sequence[Item]) -> str:
    """Return how a log names a history: its length, by which it is quickly found, and its content address.

    >>> history_address([])[:18]
    '0:4f53cda18c2baa0c'
    """
    return f"{len(history)}:{content_address(history)}"


def _canonical(item: Item) -> bytes:
    # The same text as the core's canonical one, but for what arguments may never hold and a stored conversation
    # may: a dict of a user's own class, a tuple, a lone surrogate (below). Refusing those would end the session.
    try:
        text = json.dumps(item, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"a conversation item has no JSON form and so no address: {error}") from error
    # A file name that was not UTF-8 reaches a tool's output as a lone surrogate; a conversation that holds one
    # must still have an address, and one that no other text has.
    return text.encode("utf-8", "surrogatepass")
