"""Types at the door: what pyright (basic and strict) and mypy say of `typing_door.py` and of every example.

In `typing_door.py` each line that ends in `# wrong` is reported and no other is; of an example nothing is. Pyright is
run as basedpyright, which in these two modes has pyright's rules.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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


def _pyright(folder: Path) -> dict[str, Reported]:
    """Start pyright once, on copies for each mode: what they import is read once. What passes strict passes basic."""
    for mode, paths in {"basic": [DOOR], "strict": [DOOR, *EXAMPLES.rglob("*.py")]}.items():
        for path in paths:
            copy = folder / mode / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(f"{path.read_text('utf-8')}\n# pyright: {mode}\n", "utf-8")
    settings: dict[str, Any] = {
        "include": [str(folder)],
        "executionEnvironments": [
            {"root": str(folder / mode), "extraPaths": [str(ROOT / "src")]} for mode in ("basic", "strict")
        ],
        "typeCheckingMode": "basic",
        "pythonVersion": "3.11",
    }
    (folder / "pyright.json").write_text(json.dumps(settings))
    words = [str(BIN / "basedpyright"), "--pythonpath", sys.executable, "-p", str(folder / "pyright.json")]
    done = subprocess.run([*words, "--outputjson"], capture_output=True, text=True, check=False)
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    reported: dict[str, Reported] = {"basic": {}, "strict": {}}
    for each in found:
        mode, _, path = Path(each["file"]).relative_to(folder.resolve()).as_posix().partition("/")
        reported[mode][str(ROOT / path), each["range"]["start"]["line"] + 1] = each["message"]
    return reported


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


def test_pyright_reports_the_mistakes_and_passes_good_programs(tmp_path: Path) -> None:
    for mode, reported in _pyright(tmp_path).items():
        judged(f"pyright {mode}", reported, strict=mode == "strict")


@pytest.mark.trial
def test_mypy_reports_the_mistakes_and_passes_good_programs(tmp_path: Path) -> None:
    judged("mypy strict", _mypy(tmp_path), strict=True)


def judged(checker: str, reported: Reported, *, strict: bool) -> None:
    endings = ("# wrong", "# wrong in strict") if strict else ("# wrong",)
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
