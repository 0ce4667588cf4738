"""The apply_patch tool: a model's patch of one file or many, previewed as real diffs, applied by an editor.

Here is what a call looks like, as the provider's own item and as a plain function, and what people see of it. What a
patch means is in `v4a` and `unified_diff`; what it does is the editor's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, cast

from ..core.digest import canonical
from ..core.errors import BadJson
from ..core.items import Item, own_copy
from ..core.preview import Block, Preview, Text
from ..core.settable import TEXT, Rule, made_by, must
from ..core.strict import parse
from ..support.patch_moves import besides
from ..support.threads import in_thread
from ..support.user_code import answer_of, awaited, run_callback
from .base import (
    TOOL_RULES,
    Asking,
    InvalidArguments,
    NeedsApproval,
    OutcomeUnknown,
    Prepared,
    Tool,
    ToolProblem,
    asked_late,
    plain_preview,
)
from .functions.path_arguments import plain_path
from .patches import unified_diff, v4a
from .patches.change_preview import basis_shown, preview_of
from .patches.editor import Answer, ApplyPatchEditor, ApplyPatchOperation, ApplyPatchResult, WholePatchEditor
from .shell_calls import identity

_TYPES = ("create_file", "update_file", "delete_file")
_FIELDS = ("type", "path", "diff", "move_to")
_DESCRIPTION = """Create, update and delete files with a patch:
*** Begin Patch
*** Update File: path/of/file.py
@@ def the_function_above_the_change():
 an unchanged line
-a line to remove
+a line to add
*** Add File: path/of/new_file.txt
+each line of it
*** Delete File: path/of/old_file.txt
*** End Patch
Give about three unchanged lines around each change, exactly as they are in the file. After '*** Update File: ' there \
may be '*** Move to: <new path>'. Paths are relative. A unified diff is taken as well. All of the patch is applied, \
or nothing."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"patch": {"type": "string", "description": "The whole patch."}},
    "required": ["patch"],
    "additionalProperties": False,
}


def _is_editor(value: object) -> bool:
    return any(callable(getattr(value, method, None)) for method in _TYPES)


def _of_each(tool: object, name: str, given: object) -> Any:
    """Let a callable be asked of each operation of a patch."""
    TOOL_RULES[name](tool, name, given)
    asked = getattr(given, "func", None) is _any_asks
    return partial(_any_asks, given) if callable(given) and not asked else given


PATCH_RULES: dict[str, Rule] = {
    "description": TEXT,
    "params_json_schema": made_by(own_copy),
    "editor": must(_is_editor, f"an object with one of the methods {', '.join(_TYPES)}"),
    "needs_approval": _of_each,
}


class ApplyPatchTool(Tool):
    """Lets a model change files through an editor; it asks first, unless it is told not to.

    With a `WorkspaceEditor` people see the files before and after, and an approval is void once one of them changed.
    Of an editor that cannot look beforehand they see the patch itself. An editor without one of the three methods does
    not do that: a patch that needs it is refused as a whole, before anybody is asked.

    >>> class Dry:
    ...     def create_file(self, operation): return f"would create {operation.path}"
    ...     def update_file(self, operation): return f"would update {operation.path}"
    ...     def delete_file(self, operation): return f"would delete {operation.path}"
    >>> tool = ApplyPatchTool(Dry())
    >>> call = {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "old.txt"}}
    >>> tool.needs_approval, tool.subject(tool.prepare(call).params).path
    (True, 'old.txt')
    """

    kind: ClassVar[str] = "apply_patch"
    call_type: ClassVar[str] = "apply_patch_call"
    call_field: ClassVar[str | None] = None
    also_function: ClassVar[bool] = True
    looks: ClassVar[bool] = True
    blocking = True
    description: str
    params_json_schema: dict[str, Any]
    editor: ApplyPatchEditor
    _rules = PATCH_RULES

    def __init__(
        self,
        editor: ApplyPatchEditor,
        name: str = "apply_patch",
        needs_approval: NeedsApproval = True,
        on_approval: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self.name = name
        self.editor = editor
        self.description = _DESCRIPTION
        self.needs_approval = needs_approval
        self.on_approval = on_approval
        self.params_json_schema = own_copy(_SCHEMA)

    @property
    def _whole(self) -> WholePatchEditor | None:
        return self.editor if isinstance(self.editor, WholePatchEditor) else None

    def spec(self) -> dict[str, Any]:
        """Return the name, what models are told, which files it is about, and who changes them."""
        root = self._whole.root if self._whole is not None else ""
        told = {"kind": self.kind, "name": self.name, "description": self.description}
        return {**told, "root": root, "editor": identity(self.editor)}

    @property
    def argument_schema(self) -> dict[str, Any]:
        """Return the schema of one operation, as policies compare it: a patch of several is a list of them."""
        fields = {"type": {"enum": list(_TYPES)}, **{name: {"type": "string"} for name in _FIELDS[1:]}}
        return {"type": "object", "properties": fields, "additionalProperties": False}

    def provider_tool(self) -> dict[str, Any]:
        """Return the tool's definition for a provider that knows such calls."""
        return {"type": "apply_patch"}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        """Return the operation of the call; of a function call, those of its patch."""
        if item.get("type") != "function_call":
            return self.edit(item.get("operation"))
        try:
            return self.edit(parse(item.get("arguments") or ""))
        except BadJson as error:
            raise self._invalid(f"they are {error}") from None

    def edit(self, params: object) -> Prepared:
        """Validate edited arguments: one operation, `{"operations": [...]}` or `{"patch": "..."}`."""
        try:
            operations = _operations(params)
            for operation in operations:
                self._method(operation)
            settled = [_settled(operation) for operation in operations]
            for each in [operations] if settled == operations else [operations, settled]:
                if self._whole is not None:
                    self._whole.check(each)
        except ToolProblem as error:
            raise self._invalid(str(error)) from None
        told = [_as_json(operation) for operation in settled]
        # What touches two files is a list: no word about `path` alone is one about the place that a file goes to.
        one = len(told) == 1 and settled[0].move_to is None
        value: Any = told[0] if one else {"operations": told}
        return Prepared(canonical(value))

    async def invoke(self, context: object, prepared: Prepared) -> ApplyPatchResult:
        """Let the editor apply the operations."""
        operations = [replace(operation, ctx_wrapper=context) for operation in _operations(prepared.params)]
        if self._whole is not None:
            basis = basis_shown(context)
            return ApplyPatchResult("completed", await in_thread(partial(self._whole.carry_out, operations, basis)))
        done: list[ApplyPatchResult] = []
        for operation in operations:
            done.append(await self._done(operation, done))
            if done[-1].status == "failed":
                break
        return _together(operations, done)

    def output(self, item: Mapping[str, Any], value: object) -> Item:
        """Return the result as this kind of call has it; words in place of a result mean that it was not done."""
        made = value if isinstance(value, ApplyPatchResult) else _result_of(value)
        status, text = made.status or "completed", made.output or ""
        if item.get("type") == "function_call":
            return {"type": "function_call_output", "call_id": item["call_id"], "output": text or status}
        return {"type": "apply_patch_call_output", "call_id": item["call_id"], "status": status, "output": text}

    def subject(self, params: object) -> Any:
        """Return the operation for a `needs_approval` callable.

        Of several it is a list, and the callable is asked of each.
        """
        operations = _operations(params)
        return operations[0] if len(operations) == 1 else operations

    async def preview(self, params: object) -> Preview:
        """Show the diffs against the files as they are now, where the editor can tell; else the patch."""
        try:
            operations = _operations(params)
        except ToolProblem:
            return plain_preview(params)
        if self._whole is None:
            return Preview(tuple(map(_as_text, operations)))
        try:
            return await asyncio.to_thread(_planned, self._whole, operations)
        except ToolProblem as error:
            note = Text(f"As the files are now it would change nothing: {error}", "this patch does not fit")
            return Preview((note, *map(_as_text, operations)))

    async def _done(self, operation: ApplyPatchOperation, before: Sequence[ApplyPatchResult]) -> ApplyPatchResult:
        """Apply one operation by an editor that does one at a time."""
        try:
            method = self._method(operation)
            if inspect.iscoroutinefunction(method):
                return _result_of(await answer_of(method, operation), "completed")
            return _result_of(await awaited(await in_thread(partial(run_callback, method, operation))), "completed")
        except ToolProblem as error:
            return ApplyPatchResult("failed", str(error))
        except OutcomeUnknown:
            raise
        except Asking as error:
            raise asked_late(error, len(before)) from None
        except Exception:
            if not before:
                raise
            # What was done before is done: the model must know how far it came.
            return ApplyPatchResult("failed", "An error occurred.")

    def _method(self, operation: ApplyPatchOperation) -> Callable[[ApplyPatchOperation], Any]:
        """Return the editor's method for an operation; an editor need not have all of them."""
        method = getattr(self.editor, operation.type, None)
        if not callable(method):
            raise ToolProblem(f"{operation.type} is not possible here, and so nothing of the patch was done")
        return method

    def _invalid(self, why: str) -> InvalidArguments:
        return InvalidArguments(f"The arguments of {self.name} are invalid: {why}")


def _planned(editor: WholePatchEditor, operations: Sequence[ApplyPatchOperation]) -> Preview:
    return preview_of(editor.plan(operations))


async def _any_asks(needs_approval: Callable[..., Any], context: object, subject: object, call_id: str) -> Any:
    """Ask the callable about every operation: the first answer that is not a plain no counts for all of them.

    What a move is besides is asked about as well.
    """
    answer: Any = False
    asked = cast("list[ApplyPatchOperation]", subject if isinstance(subject, list) else [subject])
    more = chain.from_iterable(besides(_as_json(operation)) for operation in asked)
    for operation in [*asked, *(ApplyPatchOperation(**each) for each in more)]:
        answer = await answer_of(needs_approval, context, operation, call_id)
        if answer is not False:
            break
    return answer


def _operations(params: Any) -> list[ApplyPatchOperation]:
    match params:
        case {"patch": str(patch), **rest} if not rest:
            # What stands in an envelope may hold lines that look like the head of the other kind.
            plain = unified_diff.is_unified(patch) and not patch.lstrip().startswith(v4a.BEGIN)
            return unified_diff.operations_of(patch) if plain else v4a.operations_of(patch)
        case {"operations": [_, *_] as several, **rest} if not rest:
            return [_operation(one) for one in cast("list[Any]", several)]
        case _:
            return [_operation(params)]


def _operation(value: Any) -> ApplyPatchOperation:
    match value:
        case {"type": "create_file" | "update_file" | "delete_file" as kind, "path": str(path), **rest} if path:
            unknown = sorted(set(cast("dict[str, Any]", rest)) - {*_FIELDS})
            diff, move_to = rest.get("diff"), rest.get("move_to")
        case _:
            raise ToolProblem(
                'an operation is {"type": "create_file" | "update_file" | "delete_file", "path": "...", "diff": "..."}'
            )
    if unknown:
        raise ToolProblem(f"an operation has no field {unknown[0]!r}, only {', '.join(_FIELDS)}")
    for name, given in (("diff", diff), ("move_to", move_to)):
        if given is not None and not isinstance(given, str):
            raise ToolProblem(f"{name} must be a text")
    if kind == "update_file" and not diff and not move_to:
        raise ToolProblem(f"the update of {path!r} has no diff")
    if move_to is not None and kind != "update_file":
        raise ToolProblem("only an update can move a file")
    return ApplyPatchOperation(cast("Literal['create_file']", kind), path, diff, move_to=move_to or None)


def _settled(operation: ApplyPatchOperation) -> ApplyPatchOperation:
    """Return an operation with its paths as the editor gets them: whoever judges it sees the same."""
    to = operation.move_to
    return replace(operation, path=plain_path(operation.path), move_to=None if to is None else plain_path(to))


def _as_json(operation: ApplyPatchOperation) -> dict[str, Any]:
    value = {"type": operation.type, "path": operation.path, "diff": operation.diff, "move_to": operation.move_to}
    return {name: given for name, given in value.items() if given is not None}


def _as_text(operation: ApplyPatchOperation) -> Block:
    moved = f", moved to {operation.move_to}" if operation.move_to else ""
    return Text(operation.diff or "", label=f"{operation.type.replace('_', ' ')} {operation.path}{moved}")


def _result_of(answer: Answer | Any, said: Literal["completed", "failed"] = "failed") -> ApplyPatchResult:
    """Convert an editor's answer to a result; `said` is what plain words mean."""
    match answer:
        case ApplyPatchResult():
            return answer if answer.status else replace(answer, status="completed")
        case {"status": "completed" | "failed" as status, **rest}:
            return ApplyPatchResult(cast("Literal['completed']", status), str(rest.get("output") or ""))
        case None:
            return ApplyPatchResult("completed")
        case _:
            return ApplyPatchResult(said, str(answer))


def _together(operations: Sequence[ApplyPatchOperation], done: Sequence[ApplyPatchResult]) -> ApplyPatchResult:
    """Return the result of one operation as it is; of several, one line each, with those that were not reached."""
    if len(operations) == 1:
        return done[0]
    lines = [
        f"{operation.type} {operation.path}: {result.status}. {result.output or ''}".rstrip()
        for operation, result in zip(operations, done, strict=False)
    ]
    lines += [f"{operation.type} {operation.path}: not done" for operation in operations[len(done) :]]
    return ApplyPatchResult(done[-1].status, "\n".join(lines))
