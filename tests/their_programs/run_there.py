"""Run each program with Pydantic AI as installed, and compare with what its docstring says, or write that (`--write`).

`PYTHON tests/their_programs/run_there.py`, where PYTHON has pydantic-ai and pydantic-deep (`make deep-peers`). The
tests need it not: they compare with what is recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NO_PROGRAMS = {"run_there", "scripted_here", "scripted_there"}
THERE, ON_PURPOSE = "Prints:\n", "\nPrints with keyturn, on purpose:\n"


def printed(path: Path, folder: Path) -> str:
    """What a program prints, indented as in a docstring; its last line of error if it fails."""
    command = [sys.executable, "-W", "ignore", str(path)]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, check=False)
    lines = done.stderr.strip().split("\n")[-1:] if done.returncode else done.stdout.rstrip("\n").split("\n")
    return "\n" + "".join(f"    {line}".rstrip() + "\n" for line in lines)


def main() -> int:
    """Run all, and say what differs."""
    differ = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scripted.py").write_text((HERE / "scripted_there.py").read_text())
        for path in sorted(each for each in HERE.glob("*.py") if each.stem not in NO_PROGRAMS):
            text = path.read_text()
            end = text.index('"""', 3)
            before, _, recorded = text[:end].partition(THERE)
            there, mark, here = recorded.partition(ON_PURPOSE)
            said = printed(path, folder)
            if said == there:
                continue
            differ += 1
            print(f"{path.stem} prints:{said}")
            if "--write" in sys.argv:
                path.write_text(before + THERE + said + mark + here + text[end:])
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
