"""Checks the types of Keyturn, of `typing_door.py` and of every example at once: `make types`.

In `typing_door.py` each line that ends in `# wrong` is reported and no other is; of an example nothing is. They are
copied for pyright's two modes, basic and strict: what passes strict passes basic. Pyright is run as basedpyright, which
in these modes has pyright's rules. It is started once, since most of its work is to read what all of them import.

With `--quick` pyrefly checks the same files instead, as `make test` does: it knows fewer rules than pyright's strict
mode, and takes a tenth of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DOOR = HERE / "typing_door.py"
EXAMPLES = ROOT / "examples"
BIN = Path(sys.executable).parent
#: Examples that use a package which does not say all of its types: they pass basic.
UNTYPED = ("langgraph_mirror.py",)
Reported = dict[tuple[str, int], str]


def pyright(folder: Path, *own: str) -> tuple[dict[str, Reported], list[str]]:
    """Check copies below a folder, and these parts of the repository: what is said of each mode, and of the parts."""
    examples = {path: path.name in UNTYPED for path in EXAMPLES.rglob("*.py")}
    basic, strict = ([path for path, loose in examples.items() if loose is wanted] for wanted in (True, False))
    for mode, paths in {"basic": [DOOR, *basic], "strict": [DOOR, *strict]}.items():
        for path in paths:
            copy = folder / mode / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(f"{path.read_text('utf-8')}\n# pyright: {mode}\n", "utf-8")
    ours: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["basedpyright"]
    rules = {name: rule for name, rule in ours.items() if name not in ("include", "venv", "venvPath")}
    roots = [str(folder / mode) for mode in ("basic", "strict")] + [str(ROOT)]
    environments = [{"root": root, "extraPaths": [str(ROOT / "src")]} for root in roots]
    settings = {**rules, "include": [*(str(ROOT / part) for part in own), str(folder)]}
    (folder / "pyright.json").write_text(json.dumps({**settings, "executionEnvironments": environments}))
    words = [str(BIN / "basedpyright"), "--pythonpath", sys.executable, "-p", str(folder / "pyright.json")]
    young = {**os.environ, "NODE_OPTIONS": "--max-semi-space-size=64"}  # its collector takes a tenth otherwise
    done = subprocess.run([*words, "--outputjson"], capture_output=True, text=True, check=False, env=young)
    reported: dict[str, Reported] = {"basic": {}, "strict": {}}
    faults: list[str] = []
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        file, line = Path(each["file"]), each.get("range", {}).get("start", {}).get("line", 0) + 1
        if file.is_relative_to(folder.resolve()):
            mode, _, path = file.relative_to(folder.resolve()).as_posix().partition("/")
            if each["severity"] == "error":
                reported[mode][str(ROOT / path), line] = each["message"]
        elif each["severity"] in ("error", "warning"):
            rule = each.get("rule", each["severity"])
            faults.append(f"{file.relative_to(ROOT)}:{line}: {each['message']} ({rule})")
    return reported, faults


def judged(checker: str, reported: Reported, *, strict: bool) -> list[str]:
    """Return what a checker should have said of these programs, and what it should not."""
    endings = ("# wrong", "# wrong in strict") if strict else ("# wrong",)
    lines = DOOR.read_text().splitlines()
    wanted = {(str(DOOR), number) for number, line in enumerate(lines, 1) if line.endswith(endings)}
    missed = [
        f"{checker} finds nothing wrong with {line}: {lines[line - 1].strip()}"
        for _, line in sorted(wanted - reported.keys())
    ]
    others = [
        f"{checker} refuses a good program: {path}:{line}: {said}"
        for (path, line), said in sorted(reported.items())
        if (path, line) not in wanted
    ]
    return missed + others


def pyrefly() -> Reported:
    """Check the same files with the quick checker: what it says of each."""
    files = [DOOR, *(path for path in sorted(EXAMPLES.rglob("*.py")) if path.name not in UNTYPED)]
    words = [str(BIN / "pyrefly"), "check", "--python-interpreter-path", sys.executable, "--output-format", "json"]
    words += ["--min-severity", "error", str(ROOT / "src"), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    if not done.stdout:
        raise SystemExit(done.stderr)
    found = [(each, f"{each['concise_description']} [{each['name']}]") for each in json.loads(done.stdout)["errors"]]
    return {(str(ROOT / each["path"]), each["line"]): said for each, said in found}


def strictly(own: list[str]) -> list[str]:
    """Return what pyright finds wrong with these parts of the repository, and with the typed programs."""
    with tempfile.TemporaryDirectory() as folder:
        reported, faults = pyright(Path(folder).resolve(), *(own or ["src"]))
    for mode, found in reported.items():
        faults += judged(f"pyright {mode}", found, strict=mode == "strict")
    return faults


def main() -> int:
    """Print what is wrong; return the exit code."""
    words = sys.argv[1:]
    faults = judged("pyrefly", pyrefly(), strict=False) if words == ["--quick"] else strictly(words)
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
