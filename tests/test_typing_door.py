"""Types at the door: what pyright (basic and strict) and mypy say of `typing_door.py` and of every example.

`make test` begins with pyrefly's word on them and on the source, `make check` and `make trials` with pyright's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.types import BIN, DOOR, EXAMPLES, ROOT, Reported, judged, pyright

pytestmark = pytest.mark.timeout(300)


def _mypy(folder: Path) -> Reported:
    words = [
        str(BIN / "mypy"), "--strict", "--follow-imports=silent", "--explicit-package-bases", "--no-error-summary",
        "--python-executable", sys.executable, "--cache-dir", str(folder / "cache"), "--show-absolute-path",
        str(DOOR), str(EXAMPLES),
    ]  # fmt: skip
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error: (.+)$", done.stdout, re.MULTILINE)
    return {(path, int(line)): message for path, line, message in found}


@pytest.mark.trial
def test_pyright_reports_the_mistakes_and_passes_good_programs(tmp_path: Path) -> None:
    reported, faults = pyright(tmp_path)
    assert faults == []
    for mode, found in reported.items():
        assert judged(f"pyright {mode}", found, strict=mode == "strict") == []


@pytest.mark.trial
def test_mypy_reports_the_mistakes_and_passes_good_programs(tmp_path: Path) -> None:
    assert judged("mypy strict", _mypy(tmp_path), strict=True) == []


def test_what_a_checker_misses_and_what_it_refuses_is_said() -> None:
    lines = DOOR.read_text().splitlines()
    wrong = [number for number, line in enumerate(lines, 1) if line.endswith("# wrong")]
    reported = {(str(DOOR), number): "wrong" for number in wrong[1:]} | {(str(DOOR), 1): "no"}
    missed, refused = judged("a checker", reported, strict=False)
    assert missed.startswith(f"a checker finds nothing wrong with {wrong[0]}: ")
    assert refused == f"a checker refuses a good program: {DOOR}:1: no"


def test_the_mistakes_are_those_of_the_list() -> None:
    """The nine of the design, and more of their kind."""
    text = DOOR.read_text()
    for mistake in (
        "tools=[3])  # wrong", "context=5)  # wrong", "session=5)  # wrong", 'policy="ask")  # wrong',
        "error_handlers=7)  # wrong", "streamed.final_ouput)  # wrong", 'state.approve("yes")  # wrong',
        'event.name == "tool_caled":  # wrong in strict', "print(item.output)  # wrong",
    ):  # fmt: skip
        assert mistake in text
