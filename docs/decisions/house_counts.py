"""Count what the house is made of: `python docs/decisions/house_counts.py [CHECKOUT]`, for the tables beside it.

Counts are of the source alone, as it is on disk; only the last row starts a command, and counts what that imports.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

AT_A_SERVER = """
import contextlib, io, sys
from keyturn.cli.main import main
with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
    main(["approve", "5e1f", "--digest", "ab12cd34", "--server", "http://127.0.0.1:1"])
print(sum(each.startswith("keyturn") for each in sys.modules))
"""


def sources(package: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield each file of a package with its text and its tree."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path, text, ast.parse(text)


def parameters(tree: ast.Module) -> Iterator[ast.arg]:
    """Yield the annotated parameters of all functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            yield from (each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.annotation)


def is_any(argument: ast.arg) -> bool:
    """Return whether a parameter is `Any`, as a whole."""
    return isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Any"


def counts(root: Path) -> dict[str, str]:
    """Return each count by its name."""
    package, every = root / "src" / "keyturn", list(sources(root / "src" / "keyturn"))
    classes = [(path, node) for path, _, tree in every for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    arguments = [each for _, _, tree in every for each in parameters(tree)]
    names = Counter(node.name for _, node in classes if not node.name.startswith("_"))
    assigned = [hit for _, text, _ in every for hit in re.findall(r"^\s+(?!self\.on_)[\w.]+\.on_\w+ = ", text, re.M)]
    tests = "".join(text for _, text, _ in sources(root / "tests"))
    return {
        "files of source": f"{len(every):,}",
        "lines of source": f"{sum(text.count(chr(10)) for _, text, _ in every):,}",
        "files in the root of the package": f"{len(list(package.glob('*.py'))):,}",
        "files in core, flat": f"{len(list((package / 'core').glob('*.py'))):,}",
        "longest chain of classes in audit and inbox": f"{max(_depth(package / room) for room in ('audit', 'inbox'))}",
        "callbacks assigned from outside (`x.on_y = `)": f"{len(assigned)}",
        "`__getattr__` in cli, inbox, inbox_screen": f"{_getattrs(every, ('cli', 'inbox', 'inbox_screen'))}",
        "parameters that are `Any`": f"{sum(map(is_any, arguments)) / len(arguments):.1%}",
        "class names that stand in several modules": f"{sum(count > 1 for count in names.values())}",
        "tests that are named by a code": f"{len(re.findall(r'def test_[a-z]{1,2}[0-9]{1,2}_', tests))}",
        "docstrings of tests that cite a number": f"{len(re.findall(r'[Pp]romises? [0-9]', tests))}",
        "modules of ours that `approve --server` imports": _imported(root),
    }


def _depth(room: Path) -> int:
    parents = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for _, _, tree in sources(room)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def depth(name: str) -> int:
        return 1 + max((depth(each) for each in parents.get(name, ()) if each in parents and each != name), default=0)

    return max(map(depth, parents), default=0)


def _getattrs(every: list[tuple[Path, str, ast.Module]], rooms: tuple[str, ...]) -> int:
    return sum(text.count("def __getattr__") for path, text, _ in every if set(rooms) & set(path.parts))


def _imported(root: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "KEYTURN_TOKEN": "kt_1_2"}
    done = subprocess.run(
        [sys.executable, "-c", AT_A_SERVER], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    return done.stdout.strip() or "-"


if __name__ == "__main__":
    for name, count in counts(Path(sys.argv[1] if sys.argv[1:] else ".").resolve()).items():
        print(f"| {name} | {count} |")
