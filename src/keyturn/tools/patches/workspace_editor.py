"""The editor of a workspace: patches of one file or many, checked whole, then applied whole or not at all.

What a patch would do is worked out in memory, operation after operation, on the files as they are; nothing is written
while anything may still be wrong with it. Who is asked first is the tool's and the gate's affair.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ...core.settable import Sealed
from ..filesystem.problems import FileChanged, FileExists, FileMissing, FileTooLarge, shown
from ..filesystem.staging import Change, File, decoded, digest_of
from ..filesystem.workspace import Workspace
from .editor import ApplyPatchOperation, ApplyPatchResult
from .hunks import InvalidPatch, apply_hunks
from .v4a import created, hunks_of

MOST_FILES, MOST_BYTES = 100, 32 << 20
_WORDS = {"create_file": "Created", "update_file": "Updated", "delete_file": "Deleted"}


class WorkspaceEditor(Sealed):
    """Edits the files below a root, for `ApplyPatchTool`: nothing outside it, through no link, and never half.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> editor = WorkspaceEditor(place.name)
    >>> editor.create_file(ApplyPatchOperation("create_file", "list.txt", "+milk\\n+eggs\\n")).output
    "Created 'list.txt'."
    >>> editor.workspace.read("list.txt").text
    'milk\\neggs\\n'
    >>> place.cleanup()
    """

    def __init__(self, root: str | os.PathLike[str] | Workspace) -> None:
        self.workspace = root if isinstance(root, Workspace) else Workspace(root)
        self.root = self.workspace.root

    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Create a file that is not there yet."""
        return ApplyPatchResult("completed", self.carry_out([operation]))

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Change a file, or move it."""
        return ApplyPatchResult("completed", self.carry_out([operation]))

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Remove a file."""
        return ApplyPatchResult("completed", self.carry_out([operation]))

    def check(self, operations: Sequence[ApplyPatchOperation]) -> None:
        """Refuse paths and diffs that are wrong whatever the files hold."""
        if len(operations) > MOST_FILES:
            raise InvalidPatch(
                f"The patch changes {len(operations)} files; {MOST_FILES} are allowed. Send it in parts."
            )
        for operation in operations:
            for path in filter(None, (operation.path, operation.move_to)):
                self.workspace.changeable(path)
            if operation.diff:
                (created if operation.type == "create_file" else hunks_of)(operation.diff)

    def plan(self, operations: Sequence[ApplyPatchOperation]) -> list[Change]:
        """Return what each file is and would be; raise where the patch does not fit the files as they are."""
        self.check(operations)
        draft = _Draft(self.workspace)
        for number, operation in enumerate(operations, 1):
            try:
                draft.take(operation)
            except InvalidPatch as error:
                which = f" ({number} of {len(operations)})" if len(operations) > 1 else ""
                raise InvalidPatch(f"{shown(operation.path)}{which}: {error}") from None
        changes = draft.changes()
        for change in changes:
            self.workspace.check(change)
        return changes

    def carry_out(self, operations: Sequence[ApplyPatchOperation], basis: Mapping[str, str] | None = None) -> str:
        """Apply all of it or nothing; nothing as well if a file is not what `basis` says it was."""
        with self.workspace.alone():
            changes = self.plan(operations)
            check_basis(changes, basis)
            self.workspace.apply(changes)
        return " ".join(_said(operation) for operation in operations)


def check_basis(changes: Sequence[Change], basis: Mapping[str, str] | None) -> None:
    """Refuse changes of files that are not what a person was shown, and all where they were shown that none fits."""
    if basis is not None and not basis and changes:
        raise FileChanged(
            "When this was shown it did not fit, so nothing was changed though now it would. Send it again."
        )
    for change in changes:
        if basis is None:
            return
        if change.path not in basis:
            raise FileChanged(f"{shown(change.path)} was not shown to the approver, so nothing was changed.")
        if basis[change.path] != digest_of(change.before):
            raise FileChanged(f"{shown(change.path)} was changed since it was looked at, so nothing was changed.")


def _said(operation: ApplyPatchOperation) -> str:
    moved = f" and moved it to {shown(operation.move_to)}" if operation.move_to else ""
    return f"{_WORDS[operation.type]} {shown(operation.path)}{moved}."


class _Draft:
    """Holds files in memory: as they were found, and as the operations so far would leave them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._found: dict[str, File | None] = {}
        self._now: dict[str, File | None] = {}
        self._sources: dict[str, str] = {}
        self._read = 0

    def take(self, operation: ApplyPatchOperation) -> None:
        path, file = self._file(operation.path)
        if operation.type == "create_file":
            if file is not None:
                raise FileExists(
                    f"{shown(path)} is there already, so it cannot be created; update it, or delete it first."
                )
            self._now[path] = File(path, _created(operation.diff or "").encode())
            return
        if file is None:
            raise FileMissing(f"There is no {shown(path)} in the workspace.")
        after = _patched(file, operation.diff)
        if operation.type == "delete_file":
            if operation.diff and after.data:
                raise InvalidPatch("The diff that deletes the file does not hold all of its lines.")
            self._now[path] = None
        elif operation.move_to:
            self._move(path, operation.move_to, after)
        else:
            self._now[path] = after

    def changes(self) -> list[Change]:
        # What was made and unmade on the way is no change.
        return [self._change(path, now) for path, now in self._now.items() if now or self._found[path]]

    def _change(self, path: str, now: File | None) -> Change:
        if now is None:
            return Change(path, self._found[path], None)
        source = self._sources.get(path, "")
        was = self._found.get(source)
        return Change(path, self._found[path], now.data, now.mode if source else None, source, was and was.data)

    def _move(self, path: str, to: str, file: File) -> None:
        target, there = self._file(to)
        if there is not None:
            raise FileExists(f"{shown(target)} is there already, so {shown(path)} cannot be moved to it.")
        self._now[path], self._now[target] = None, file
        origin = self._sources.pop(path, path)
        if self._found[origin] is not None:
            self._sources[target] = origin

    def _file(self, path: str) -> tuple[str, File | None]:
        name = "/".join(self._workspace.changeable(path))
        if name not in self._found:
            self._found[name] = file = self._workspace.look(name)
            self._read += len(file.data) if file is not None else 0
            if self._read > MOST_BYTES:
                raise FileTooLarge(f"The files of the patch have more than {MOST_BYTES} bytes. Send it in parts.")
        return name, self._now.get(name, self._found[name])


def _patched(file: File, diff: str | None) -> File:
    if not diff:
        return file
    after = apply_hunks(decoded(file.data, file.path), hunks_of(diff))
    return File(file.path, after.encode(), file.mode, file.owner)


def _created(diff: str) -> str:
    """Return the new file's text, its last line ended where the diff's own last line is."""
    ending = "\r\n" if diff.endswith("\r\n") else "\n" if diff.endswith("\n") else ""
    return created(diff) + ending
