"""One waiting call in a person's hands: what it was, and their change to it.

Every change is checked by the call's own tool before it is shown, and is shown before it can be approved. Nothing is
decided here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from threading import Thread
from types import SimpleNamespace
from typing import Any, LiteralString, cast

import msgspec

from ..core.declared import properties_of, property_of, takes_text, takes_texts
from ..core.errors import BadJson, KeyturnError
from ..core.preview import REDACTED, Block, Json, Preview, Text, redact, unredacted
from ..core.strict import parse
from ..core.values import is_number
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import RequestRow
from ..render.arguments import shown_name
from ..render.layout import LayoutLine
from ..render.one_row import fits_a_line, is_plain
from ..support.user_code import class_name, run_callback
from ..tools.base import InvalidArguments, as_typed, plain_preview, shown_preview
from .edit_preview import EditPreview, WrongField, changed_arguments, field_problem, lines_of

_UNKNOWN = "an argument that no tool knows"


def bare_item(row: RequestRow) -> ToolApprovalItem:
    """Return a request as it is shown, without its tool: nothing here can run, and marks stand for what is secret."""
    request = row.request
    raw = {"type": "function_call", "name": request.tool, "arguments": request.arguments}
    agent = SimpleNamespace(name=request.agent)
    return ToolApprovalItem(agent, raw, request.tool, request=request, text=request.arguments)


class ShownRequest:
    """Holds a waiting call, with the change that somebody made to it, if any."""

    def __init__(self, item: ToolApprovalItem) -> None:
        self.item = item
        self.edit: dict[str, Any] | None = None
        self.seen_whole = False
        self._edited: Preview | None = None
        self._typed: frozenset[str] = frozenset()

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

    @property
    def arguments(self) -> Any:
        """Return what would run if it were approved now, or what is asked; secrets are redacted."""
        if self.item.kind == "external":
            return self.item.requests
        return self.item.params if self.edit is None else self._redacted(self.edit)

    @property
    def true_arguments(self) -> Any:
        """Return what would run if it were approved now, secrets included: for comparisons, never for display."""
        if self.edit is not None:
            return self.edit
        true: Any = self._true()
        return self._in_order(cast("dict[str, Any]", true)) if isinstance(true, dict) else true

    @property
    def changed(self) -> bool:
        """Return whether other arguments would run than those that were proposed; a typed secret counts as another.

        Whether it is the same is told to nobody: the answer would say whether a guess is right.
        """
        return self.edit is not None and (
            self.types_secret or self._redacted(self.edit) != self._redacted(self._true())
        )

    @property
    def types_secret(self) -> bool:
        """Return whether the change holds a secret that was typed, where a mark would leave it as it is."""
        return bool(self._typed)

    @property
    def complete(self) -> bool:
        """Return whether a call of this tool can have no arguments but these: not by its schema, nor as it takes them.

        A schema is a promise. A hand-made tool takes whatever the model sends, so that it is tried with one more.
        """
        tool = self.item.tool
        told: Any = None if tool is None else tool.spec().get("schema")
        schema = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        given: Any = self.true_arguments
        if schema.get("additionalProperties") is not False or schema.get("patternProperties"):
            return False
        if tool is None or not isinstance(given, dict):
            return False
        named = cast("dict[str, Any]", given)
        if not set(properties_of(schema)) <= set(named):
            return False
        try:
            taken: Any = run_callback(tool.edit, {**named, _UNKNOWN: None}).params
        except InvalidArguments:
            return True
        except Exception:  # a tool of somebody's own kind may fail at anything
            return False
        return isinstance(taken, dict) and _UNKNOWN not in taken

    @property
    def omitted(self) -> list[str]:
        """Return the arguments that the tool declares and the call does not have: a change can add them."""
        tool = self.item.tool
        declared = properties_of(None if tool is None else tool.spec().get("schema"))
        return [name for name in declared if name not in self.item.params]

    def lines(self, *, numbered: bool = False) -> Iterator[list[LayoutLine]]:
        """Yield what people are shown of it, line by line; `numbered` says that a face lists its choices itself."""
        word: LiteralString = "detail" if self.item.kind == "external" else "argument"
        shown = self.preview()
        if numbered and self.choices:
            shown = Preview(tuple(each for each in shown.blocks if not self._is_choices(each)), shown.summary)
        return lines_of(shown, self.arguments, word)

    def _is_choices(self, block: Block) -> bool:
        return isinstance(block, Json) and block.label == "choices" and block.value == self.choices

    def previewed(self) -> EditPreview:
        """Return what the change comes to."""
        item, would = self.item, self.preview()
        return EditPreview(item.request_id, item.digest, self.arguments, would, self.difference(), self.mark())

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
            made: Any = run_callback(tool.preview, edit)
            made = _waited(cast("Coroutine[Any, Any, Any]", made)) if isinstance(made, Coroutine) else made
        except Exception as error:
            made, why = None, f"this tool's own preview failed ({class_name(error)})"
        if isinstance(made, Preview):
            return shown_preview(tool, made, edit, self.item.request.secrets)
        return plain_preview(edit, self.item.request.secrets, f"As you changed it; {why}.")

    def change(self, *texts: str) -> None:
        """Take `name=value`, several of them, or a JSON object of all arguments, or raise what the tool has against it.

        Several are one change: the tool is asked once.
        """
        self.take(self.wanted(*texts))

    def wanted(self, *texts: str) -> Any:
        """Return the arguments that a change asks for, as it is typed; secrets that stay are marks."""
        now = self.true_arguments
        wanted: Any = self._redacted(now)
        for text in texts:
            wanted = parse(text) if text.startswith("{") else {**wanted, **_assignment(text, now)}
        return wanted

    def present(self, name: str) -> str:
        """Return an argument's value as it is typed: a text as it is, all else as JSON, a secret not at all."""
        value = self._redacted(self.true_arguments).get(name, "")
        if isinstance(value, str):
            return "" if value == REDACTED else value
        line = json.dumps(value, ensure_ascii=False)
        line = line if is_plain(line) else json.dumps(value)
        return line if fits_a_line(line) else json.dumps(value, indent=2)

    def put(self, name: str, typed: str) -> None:
        """Take another value of one argument, typed as `present` shows it, or raise what the tool has against it."""
        now = self.true_arguments
        value: Any = typed if isinstance(now.get(name), str) else self._read(name, typed)
        self.take({**self._redacted(now), name: value})

    def _read(self, name: str, typed: str) -> Any:
        """Return what was typed as JSON; as a text where it is none and the tool's schema takes a text there."""
        try:
            return parse(typed)
        except BadJson:
            tool = self.item.tool
            told: Any = None if tool is None else tool.spec().get("schema")
            if takes_text(property_of(told, name)):
                return typed
            raise

    def put_all(self, typed: Mapping[str, str]) -> None:
        """Take other values of arguments, all or none of them, or raise what the tool has against one."""
        before = self.edit
        try:
            for name, text in typed.items():
                self.put(name, text)
        except BaseException:
            self.restore(before)
            raise

    def fill(self, typed: Mapping[str, str]) -> None:
        """Take the arguments of a form, as `present` shows them; those that are as they were stay so."""
        for name in [*self.arguments, *self.omitted]:
            given = typed.get(name)
            if given is None:
                continue
            value = given.replace("\r\n", "\n")
            try:
                self._fill(name, value)
            except (KeyturnError, BadJson, ValueError) as error:
                raise WrongField(name, field_problem(self.arguments.get(name), error)) from error

    def _fill(self, name: str, value: str) -> None:
        rows = self.rows(name) if name in self.arguments else None
        if rows is None:
            if value != self.present(name):
                self.put(name, value)
            return
        lines = [line.strip() for line in value.split("\n") if line.strip()]
        if lines != rows:  # so a list that was not given, or is empty, stays as it is
            now = self.true_arguments
            numbers = bool(now[name]) and not isinstance(now[name][0], str)
            items: list[Any] = [parse(line) for line in lines] if numbers else list(lines)
            self.take({**self._redacted(now), name: items})

    def rows(self, name: str) -> list[str] | None:
        """Return a list argument as the rows of a form, one item each; None for what has no such rows."""
        value: Any = self.arguments[name]
        if value is not None and not isinstance(value, list):
            return None
        items = cast("list[Any]", value or [])
        if all(is_number(item) for item in items) and items:
            return [json.dumps(item) for item in items]
        if items and all(
            isinstance(item, str) and item and item.strip() == item and "\n" not in item for item in items
        ):
            return None if name in self.item.request.secrets or REDACTED in items else list(items)
        tool = self.item.tool
        told: Any = None if tool is None else tool.spec().get("schema")
        return [] if not items and takes_texts(property_of(told, name)) else None

    def mark(self) -> str:
        """Return what names the drawing of a change, so that it can be said which one somebody saw."""
        return hashlib.sha256(msgspec.json.encode(self.preview(), order="sorted")).hexdigest()

    def restore(self, edit: dict[str, Any] | None) -> None:
        """Take back a change: the arguments are those of before, or the model's own."""
        self.edit = edit
        self._edited = None
        self._typed = self._typed if edit else frozenset[str]()
        self.seen_whole = False

    def take(self, wanted: object) -> None:
        """Take other arguments, or raise what the tool has against them; a mark stands for the secret it hides."""
        now = self.true_arguments
        shown = self._redacted(now)
        made = as_typed(self.item.tool, unredacted(wanted, shown, now)).params
        self.edit = self._in_order(made)
        self._edited = None
        self.seen_whole = False
        self._note_typed(wanted)

    def _note_typed(self, wanted: object) -> None:
        """Note which arguments of a change hold a secret that was typed."""
        hidden: Any = self._redacted(wanted)
        self._typed |= {name for name, value in cast("dict[str, Any]", wanted).items() if hidden[name] != value}

    def difference(self) -> Preview:
        """Return the arguments that were changed, before and after; a text line by line."""
        blocks = changed_arguments(self._redacted(self._true()), self._redacted(self.edit), "your change")
        typed = "holds a secret that you typed"
        blocks += [Text(f"{shown_name(name)} {typed}", "your change") for name in sorted(self._typed)]
        return Preview(tuple(blocks))

    def _in_order(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return arguments in the order in which people are shown them."""
        shown: Any = self.item.params
        return {name: given[name] for name in (*shown, *given) if name in given}

    def _true(self) -> dict[str, Any]:
        """Return the true arguments: `params` shows secrets redacted, and a mark must never run as a password."""
        return cast("dict[str, Any]", parse(self.item.text or "{}"))

    def _redacted(self, value: Any) -> Any:
        return redact(value, self.item.request.secrets)


def _waited(look: Coroutine[Any, Any, Any]) -> Any:
    """Await a preview, also where a loop is at work in this thread; who leaves need not wait for its end."""
    made = Future[Any]()

    def work() -> None:
        try:
            made.set_result(asyncio.run(look))
        except BaseException as error:
            made.set_exception(error)

    Thread(target=work, name="keyturn preview", daemon=True).start()
    return made.result()


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
