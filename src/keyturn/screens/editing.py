"""Let the person change the arguments of a call, each in a field of its own, checked by the call's own tool.

A value is a model's. A text that shows itself as it is stands in its field as it is; any other stands there escaped,
and is read back exactly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from ..core.errors import BadJson, KeyturnError
from ..presenting.shown_request import ShownRequest
from ..render.escape import escape, unescape
from ..tools.base import InvalidArguments
from .asking import Dialog, sentence
from .drawing import labelled
from .rows import Rows

Edits = Callable[[ShownRequest, Mapping[str, str]], Awaitable[None]]
_HIGHEST = 10  # rows of one field


class EditedField:
    """Holds one argument as it stands in its field."""

    def __init__(self, request: ShownRequest, name: str) -> None:
        self.name = name
        self._true = request.present(name)
        bare = self._true.replace("\\", "")
        self.escaped = escape(bare, keep="\n") != bare
        self.shown = escape(self._true) if self.escaped else self._true

    def read(self, typed: str) -> str | None:
        """Return the value that was typed, None where nothing was changed; `ValueError` for a broken escape."""
        if typed == self.shown:
            return None
        return unescape(typed) if self.escaped else typed


class EditDialog(Dialog[bool]):
    """Shows the arguments in fields; the answer is whether they were changed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "take", "Apply the changes", priority=True)]

    def __init__(self, request: ShownRequest, edits: Edits | None = None) -> None:
        super().__init__()
        self.request = request
        self._edits = edits
        given = cast("dict[str, Any]", request.arguments)
        self.fields = [EditedField(request, name) for name in (*given, *request.omitted)]

    def parts(self) -> ComposeResult:
        """Make a field for each argument."""
        yield sentence("title", "Change the arguments")
        yield sentence("quiet", "ctrl+s applies the changes and shows them before you approve; Escape discards them.")
        for place, field in enumerate(self.fields):
            yield Rows(lambda width, name=field.name: labelled("heading", "argument", name, width))
            if field.name not in self.request.arguments:
                yield sentence("quiet", "Not in this call: leave it empty for the default of the tool.")
            if field.escaped:
                yield sentence("note", "The arguments have invisible characters, which are shown as escapes.")
            area = TextArea(field.shown, id=f"field-{place}", tab_behavior="focus", soft_wrap=True)
            area.styles.height = min(field.shown.count("\n") + 1 + len(field.shown) // 60, _HIGHEST) + 2
            yield area

    def on_mount(self) -> None:
        """Begin in the first field."""
        if self.fields:
            self.query_one("#field-0", TextArea).focus()

    async def action_take(self) -> None:
        """Have the tool check the changes, all or none of them."""
        try:
            read = {field.name: field.read(self._typed(place)) for place, field in enumerate(self.fields)}
            typed = {name: text for name, text in read.items() if text is not None}
            if typed and self._edits is not None:
                await self._edits(self.request, typed)
            else:
                self.request.put_all(typed)
        except (InvalidArguments, KeyturnError, BadJson, ValueError, OSError) as error:
            self.refuse("Invalid, nothing was changed", str(error))
            return
        self.dismiss(bool(typed))

    def _typed(self, place: int) -> str:
        return self.query_one(f"#field-{place}", TextArea).text
