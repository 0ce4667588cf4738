"""Types at the door: what pyright (basic and strict) and mypy say of `typing_door.py` and of every example.

In `typing_door.py` each line that ends in `# wrong` is reported and no other is; of an example nothing is. Each checker
is started once. Pyright is run as basedpyright, which in these two modes has pyright's rules.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent
DOOR = HERE / "typing_door.py"
EXAMPLES = ROOT / "examples"
BIN = Path(sys.executable).parent
Reported = dict[tuple[str, int], str]

pytestmark = pytest.mark.timeout(300)


def _pyright(mode: str, folder: Path) -> Reported:
    settings: dict[str, Any] = {
        "include": [str(DOOR), str(EXAMPLES)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": mode,
        "pythonVersion": "3.11",
    }
    path = folder / f"{mode}.json"
    path.write_text(json.dumps(settings))
    words = [str(BIN / "basedpyright"), "--pythonpath", sys.executable, "-p", str(path), "--outputjson"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return {(each["file"], each["range"]["start"]["line"] + 1): each["message"] for each in found}


def _mypy(_mode: str, folder: Path) -> Reported:
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


CHECKERS: dict[str, tuple[Callable[[str, Path], Reported], str]] = {
    "pyright basic": (_pyright, "basic"),
    "pyright strict": (_pyright, "strict"),
    "mypy strict": (_mypy, "strict"),
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_reported_and_good_programs_pass(checker: str, tmp_path: Path) -> None:
    check, mode = CHECKERS[checker]
    reported = check(mode, tmp_path)
    endings = ("# wrong", "# wrong in strict") if mode == "strict" else ("# wrong",)
    lines = DOOR.read_text().splitlines()
    wanted = {(str(DOOR), number) for number, line in enumerate(lines, 1) if line.endswith(endings)}
    missed = [f"{line}: {lines[line - 1].strip()}" for _, line in sorted(wanted - reported.keys())]
    assert missed == [], f"{checker} finds nothing wrong with them"
    others = {place: said for place, said in reported.items() if place not in wanted}
    assert others == {}, f"{checker} refuses good programs"


def test_the_mistakes_are_those_of_the_list() -> None:
    """The nine of the design, and more of their kind."""
    text = DOOR.read_text()
    for mistake in (
        "tools=[3])  # wrong", "context=5)  # wrong", "session=5)  # wrong", 'policy="ask")  # wrong',
        "error_handlers=7)  # wrong", "streamed.final_ouput)  # wrong", 'state.approve("yes")  # wrong',
        'event.name == "tool_caled":  # wrong in strict', "print(item.output)  # wrong",
    ):  # fmt: skip
        assert mistake in text
