"""What docs/shell.md shows of a terminal is what a terminal shows: the page's own program, run at a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import at_a_terminal
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "shell.md"


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the page shows a machine that has bash")
def test_the_page_shows_what_a_terminal_shows() -> None:
    parts = blocks(PAGE)
    here = next(place for place, part in enumerate(parts) if "def in_a_terminal" in part.text)
    program = f"{parts[0].text}\n{parts[here].text}\nin_a_terminal()\n"
    answers = [(b"decide > ", b"r\r"), (b"none > ", b"name the files that you would remove\r")]
    shown, code = at_a_terminal(["-c", program], *answers, environ={"COLUMNS": "92"})
    assert (parts[here + 1].language, code) == ("console", 0)
    assert shown.strip() == parts[here + 1].text.strip()
