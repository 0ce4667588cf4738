"""One waiting call in a person's hands: what it was, and their change to it.

Every change is checked by the call's own tool before it is shown, and is shown before it can be approved. Nothing is
decided here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from ..core.errors import BadJson
from ..core.preview import Diff, Preview, redact, unredacted
from ..core.strict import parse
from ..engine.views.items import ToolApprovalItem
from ..tools.base import plain_preview


class ShownRequest:
    """Holds a waiting call, with the change that somebody made to it, if any."""

    def __init__(self, item: ToolApprovalItem) -> None:
        self.item = item
        self.edit: dict[str, Any] | None = None
        self.seen_whole = False
        self._edited: Preview | None = None

    @property
    def editable(self) -> bool:
        """Return whether there are named arguments, and a tool that takes others."""
        item = self.item
        return item.tool is not None and "edit" in item.request.verdicts and isinstance(item.params, dict)

    @property
    def answerable(self) -> bool:
        """Return whether a person may give its result."""
        return "answer" in self.item.request.verdicts

    @property
    def choices(self) -> list[Any]:
        """Return the answers that a question offers."""
        asked: Any = self.item.requests
        found: Any = cast("dict[str, Any]", asked).get("choices") if isinstance(asked, dict) else None
        return cast("list[Any]", found) if isinstance(found, list) else []

    def answer(self, words: str) -> Any:
        """Parse a typed answer: the number of a choice, its words, a JSON object or list, or a text.

        The screen numbers the choices, so that a number is the one on the screen, whatever the choices say. Words that
        are those of two choices (1 and "1") are no answer: `BadJson`.
        """
        numbered = {str(number): choice for number, choice in enumerate(self.choices, 1)}
        if words in numbered:
            return numbered[words]
        named = [choice for choice in self.choices if str(choice) == words]
        if len(named) > 1:
            raise BadJson(f"the words of {len(named)} choices: type the number of the one you mean")
        if named:
            return named[0]
        try:
            return parse(words) if words.startswith(("{", "[")) else words
        except BadJson:
            return words

    def preview(self) -> Preview:
        """Return the preview of what would run if it were approved now."""
        if self.edit is None:
            return self.item.preview
        if self._edited is None:
            self._edited = self._preview_of(self.edit)
        return self._edited

    def seen(self) -> Preview | None:
        """Return what was shown of a changed call: its approval is bound to that."""
        return self._edited

    def _preview_of(self, edit: dict[str, Any]) -> Preview:
        """Return the tool's preview of changed arguments; where there is none now, the arguments themselves."""
        tool = self.item.tool
        why = "what it would change is looked at before it runs"
        try:
            made: Any = tool.preview(edit)
            made = _waited(cast("Coroutine[Any, Any, Any]", made)) if isinstance(made, Coroutine) else made
        except Exception as error:
            made, why = None, f"this tool's own preview failed ({type(error).__name__})"
        if isinstance(made, Preview):
            return made
        return plain_preview(edit, self.item.request.secrets, f"As you changed it; {why}.")

    def change(self, text: str) -> None:
        """Apply `name=value` or a JSON object of all arguments, or raise the tool's objection."""
        now = self._true() if self.edit is None else self.edit
        shown = self._redacted(now)
        wanted: Any = parse(text) if text.startswith("{") else {**shown, **_assignment(text, now)}
        self.edit = self.item.tool.edit(unredacted(wanted, shown, now)).params
        self._edited = None
        self.seen_whole = False

    def difference(self) -> Preview:
        """Return the arguments as the model gave them and as they are now."""
        sides = (self._redacted(side) for side in (self._true(), self.edit))
        before, after = (json.dumps(side, indent=2, ensure_ascii=False) + "\n" for side in sides)
        return Preview((Diff(before, after, label="your change"),))

    def _true(self) -> dict[str, Any]:
        """Return the true arguments: `params` shows secrets redacted, and a mark must never run as a password."""
        return cast("dict[str, Any]", parse(self.item.text or "{}"))

    def _redacted(self, value: Any) -> Any:
        return redact(value, self.item.request.secrets)


def _waited(look: Coroutine[Any, Any, Any]) -> Any:
    """Await a preview, also where a loop is at work in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, look).result()


def _assignment(text: str, now: dict[str, Any]) -> dict[str, Any]:
    """Parse `name=value`: a text where a text stands now, all else as JSON if it is any."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise BadJson("neither name=value nor a JSON object")
    if isinstance(now.get(name), str) and not value.startswith('"'):
        return {name: value}
    try:
        return {name: parse(value)}
    except BadJson:
        return {name: value}
