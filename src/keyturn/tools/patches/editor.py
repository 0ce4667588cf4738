"""The seam between the apply_patch tool and an editor: the operations, their results, and the editor's protocol.

A user's own editor implements `ApplyPatchEditor`. One that can say beforehand what a patch would do, and can do all of
it or nothing, is a `WholePatchEditor`. Nothing here acts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ...core.immutable import immutable
from ..filesystem.staging import Change

ApplyPatchOperationType = Literal["create_file", "update_file", "delete_file"]


@immutable
@dataclass(frozen=True)
class ApplyPatchOperation:
    """Says which file to create, update or delete; `diff` is in the V4A notation, which `apply_diff` reads.

    `ctx_wrapper` is the context of the call, for editors that need it.

    >>> ApplyPatchOperation("update_file", "notes.txt", "-milk\\n+bread\\n").path
    'notes.txt'
    """

    type: ApplyPatchOperationType
    path: str
    diff: str | None = None
    ctx_wrapper: Any = field(default=None, repr=False, compare=False)
    move_to: str | None = None


@immutable
@dataclass(frozen=True)
class ApplyPatchResult:
    """Says how it went, in words for the model.

    >>> ApplyPatchResult(status="completed", output="Updated notes.txt").status
    'completed'
    """

    status: Literal["completed", "failed"] | None = None
    output: str | None = None


Answer = ApplyPatchResult | str | None


class ApplyPatchEditor(Protocol):
    """Carries out the operations; each method may be sync or async, and may raise.

    >>> class Dry:
    ...     def create_file(self, operation): return f"would create {operation.path}"
    ...     def update_file(self, operation): return f"would update {operation.path}"
    ...     def delete_file(self, operation): return f"would delete {operation.path}"
    >>> Dry().delete_file(ApplyPatchOperation("delete_file", "notes.txt"))
    'would delete notes.txt'
    """

    def create_file(self, operation: ApplyPatchOperation) -> Answer | Awaitable[Answer]:
        """Create a file."""
        ...

    def update_file(self, operation: ApplyPatchOperation) -> Answer | Awaitable[Answer]:
        """Change a file, or move it."""
        ...

    def delete_file(self, operation: ApplyPatchOperation) -> Answer | Awaitable[Answer]:
        """Delete a file."""
        ...


@runtime_checkable
class WholePatchEditor(Protocol):
    """Knows beforehand what a patch would change, and changes all of it or nothing.

    `check` refuses what can be refused without a look at any file; `plan` looks, and raises where the patch does not
    fit; `carry_out` does what was planned, if the files are still as `basis` says (path: SHA-256).
    """

    root: str

    def check(self, operations: Sequence[ApplyPatchOperation]) -> None:
        """Refuse operations that are wrong whatever the files hold."""
        ...

    def plan(self, operations: Sequence[ApplyPatchOperation]) -> list[Change]:
        """Return what the operations would change in the files as they are."""
        ...

    def carry_out(self, operations: Sequence[ApplyPatchOperation], basis: Mapping[str, str] | None = None) -> str:
        """Carry out the operations, all or none, if the files are as `basis` says."""
        ...
