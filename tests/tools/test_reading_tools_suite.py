"""The tools that only read keep the promises of the room of tools, where somebody wants to be asked about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import filesystem_tools
from keyturn.core.items import Item
from keyturn.models.scripted.model import function_call
from keyturn.testing import ToolSuite
from keyturn.testing.crash import Effects

OUTSIDE = ("../x", "/etc/passwd", "a\0b", "a/../../b", "~", "x" * 256)


class TestReadFile(ToolSuite):
    """The suite asks each of them, though by default they ask nobody."""

    name = "read_file"

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.root = tmp_path
        for variant in (0, 1):
            (tmp_path / f"d{variant}").mkdir()
            (tmp_path / f"d{variant}" / f"f{variant}").write_text(f"word{variant}\n")

    def make_tool(self, effects: Effects, needs_approval: Any = True) -> Any:
        tools = filesystem_tools(self.root, needs_approval={self.name: needs_approval})
        [tool] = [each for each in tools if each.name == self.name]
        invoke = tool.invoke

        async def recording(context: Any, prepared: Any) -> Any:
            said = await invoke(context, prepared)
            effects.record(context, said)
            return said

        tool.invoke = recording  # type: ignore[method-assign]  # the test watches what it does
        return tool

    def arguments(self, variant: int) -> dict[str, Any]:
        return {"path": f"d{variant}/f{variant}"}

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call(self.name, self.arguments(variant), call_id=label)

    def edited(self) -> dict[str, Any]:
        return self.arguments(1)

    def refused(self) -> list[Item]:
        outside = [function_call(self.name, {**self.arguments(0), "path": path}, call_id="bad") for path in OUTSIDE]
        return [*super().refused(), *outside]

    def test_it_is_read_only(self) -> None:
        assert self.asking().read_only


class TestLs(TestReadFile):
    name = "ls"

    def arguments(self, variant: int) -> dict[str, Any]:
        return {"path": f"d{variant}"}


class TestGlob(TestReadFile):
    name = "glob"

    def arguments(self, variant: int) -> dict[str, Any]:
        return {"pattern": f"**/f{variant}"}


class TestGrep(TestReadFile):
    name = "grep"

    def arguments(self, variant: int) -> dict[str, Any]:
        return {"pattern": f"word{variant}", "output_mode": "content"}
