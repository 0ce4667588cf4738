"""The tools that change files keep the promises of the room of tools, however they are called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from keyturn import ApplyPatchOperation, ApplyPatchResult, ApplyPatchTool, WorkspaceEditor, filesystem_tools
from keyturn.core.items import Item
from keyturn.models.scripted.model import function_call
from keyturn.testing import ToolSuite
from keyturn.testing.crash import Effects

READ = "one\ntwo\n"


class Telling(WorkspaceEditor):
    """A workspace's editor that puts everything back as it was, so that each call of a test meets the same files."""

    def __init__(self, root: Path, effects: Effects) -> None:
        super().__init__(root)
        self.effects = effects

    def carry_out(self, operations: Sequence[ApplyPatchOperation], basis: Mapping[str, str] | None = None) -> str:
        said = super().carry_out(operations, basis)
        path = operations[0].path
        self.effects.record(operations[0].ctx_wrapper, self.workspace.read(path).text)
        self.workspace.write(path, READ.encode())
        return said


def diff_to(word: str) -> str:
    return f" one\n-two\n+{word}\n"


class TestApplyPatchTool(ToolSuite):
    """As the provider's own item, with the editor of a workspace."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.root = tmp_path
        for variant in (0, 1):
            (tmp_path / f"list{variant}.txt").write_text(READ)

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        return ApplyPatchTool(Telling(self.root, effects), **settings)

    def operation(self, variant: int) -> dict[str, Any]:
        return {"type": "update_file", "path": f"list{variant}.txt", "diff": diff_to(f"w{variant}")}

    def call(self, label: str, variant: int = 0) -> Item:
        return {"type": "apply_patch_call", "call_id": label, "operation": self.operation(variant)}

    def edited(self) -> dict[str, Any]:
        return self.operation(1)

    def refused(self) -> list[Item]:
        wrong: list[Any] = [
            None,
            "text",
            {},
            {"type": "rename_file", "path": "a"},
            {"type": "update_file", "path": ""},
            {"type": "update_file", "path": "list.txt"},
            {"type": "update_file", "path": "list.txt", "diff": 3},
            {"type": "update_file", "path": "list.txt", "diff": "what?"},
            {"type": "create_file", "path": "new.txt", "diff": "no plus"},
            {"type": "delete_file", "path": "list.txt", "move_to": "other.txt"},
            {"type": "delete_file", "path": "list.txt", "force": True},
            {"type": "delete_file", "path": "../list.txt"},
            {"type": "delete_file", "path": "/etc/passwd"},
            {"type": "update_file", "path": "list.txt", "diff": diff_to("x"), "move_to": "a/../../b"},
            {"type": "create_file", "path": ".git/hooks/pre-commit", "diff": "+rm -rf /\n"},
            {"type": "delete_file", "path": "a\0b"},
        ]
        return [{"type": "apply_patch_call", "call_id": "bad", "operation": operation} for operation in wrong]


class TestApplyPatchAsFunction(TestApplyPatchTool):
    """As a plain function, of a provider that knows no such item."""

    def call(self, label: str, variant: int = 0) -> Item:
        body = f"*** Begin Patch\n*** Update File: list{variant}.txt\n{diff_to(f'w{variant}')}*** End Patch"
        return function_call("apply_patch", {"patch": body}, call_id=label)

    def refused(self) -> list[Item]:
        texts = [
            "{",
            "[]",
            '{"patch": 3}',
            '{"patch": ""}',
            '{"patch": "*** Begin Patch\\n*** End Patch"}',
            '{"a":1,"a":2}',
        ]
        return [{**function_call("apply_patch", {}, call_id="bad"), "arguments": text} for text in texts]


class TestApplyPatchWithAnEditorOfOnesOwn(TestApplyPatchTool):
    """With an editor that can only do one operation after another."""

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        class Own:
            async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
                raise AssertionError

            async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
                effects.record(operation.ctx_wrapper, str(operation.diff))
                return ApplyPatchResult("completed", f"updated {operation.path}")

            def delete_file(self, operation: ApplyPatchOperation) -> None:
                raise AssertionError

        return ApplyPatchTool(Own(), **settings)

    def refused(self) -> list[Item]:
        """Which paths there are, and what a diff says, is the editor's affair."""
        return super().refused()[:7]


class TestWriteFile(ToolSuite):
    name = "write_file"

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.root = tmp_path
        for variant in (0, 1):
            (tmp_path / f"list{variant}.txt").write_text(READ)

    def make_tool(self, effects: Effects, needs_approval: Any = True) -> Any:
        tools = filesystem_tools(self.root, needs_approval={self.name: needs_approval})
        [tool] = [each for each in tools if each.name == self.name]
        invoke = tool.invoke

        async def recording(context: Any, prepared: Any) -> Any:
            path = self.root / prepared.params["path"]
            said = await invoke(context, prepared)
            effects.record(context, await asyncio.to_thread(path.read_text))
            await asyncio.to_thread(path.write_text, READ)
            return said

        tool.invoke = recording  # type: ignore[method-assign]  # the test watches what it does
        return tool

    def arguments(self, variant: int) -> dict[str, Any]:
        return {"path": f"list{variant}.txt", "content": f"w{variant}\n"}

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call(self.name, self.arguments(variant), call_id=label)

    def edited(self) -> dict[str, Any]:
        return self.arguments(1)

    def refused(self) -> list[Item]:
        wrong = [{**self.arguments(0), "path": path} for path in ("../x", "/etc/passwd", "a/\0", ".GIT/config", "")]
        return [*super().refused(), *(function_call(self.name, each, call_id="bad") for each in wrong)]


class TestEditFile(TestWriteFile):
    name = "edit_file"

    def arguments(self, variant: int) -> dict[str, Any]:
        return {"path": f"list{variant}.txt", "old_string": "two", "new_string": f"w{variant}", "replace_all": False}

    def test_an_edit_of_nothing_asks_nobody(self) -> None:
        same = {**self.arguments(0), "new_string": "two"}
        result = self.run(self.build(self.asking(), [function_call("edit_file", same, call_id="bad")]), "go")
        assert (result.interruptions, result.final_output) == ([], "done: bad")
        assert "the same" in json.loads(self.told("bad"))["output"]
