"""A row of a list tells of each command and each file of a call, and not of the first alone."""

from __future__ import annotations

from datetime import UTC, datetime

from keyturn.core.preview import Block, Command, Diff, Preview, Text
from keyturn.core.request import Request
from keyturn.presenting.list_row import row_text


def row(*blocks: Block) -> str:
    at = datetime(2026, 11, 2, tzinfo=UTC)
    asked = Request("5e1f", "run", "r/1.0", "approval", "shell", "desk", "d1", at, preview=Preview(blocks))
    return str(row_text(asked).within(80))


def test_each_command_and_each_file_of_a_call_is_in_its_row() -> None:
    assert row(Command("ls"), Text("programs: ls"), Command("rm -rf /srv")) == "$ ls \\n rm -rf /srv"
    assert row(Diff("a", "b", path="one.txt"), Diff("", "c", path="two.txt")) == "one.txt \\n -a \\n +b \\n two.txt"
    assert row(Command(""), Text("nothing runs")) == "nothing runs"
