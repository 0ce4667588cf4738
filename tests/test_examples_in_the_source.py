"""Every example in a docstring runs: those of public names, which the reference shows, and those of inner modules."""

from __future__ import annotations

import ast
import doctest
import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyturn
from tests.effort import part
from tests.table import each

PACKAGE = Path(keyturn.__file__).parent
ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def examples(room: str) -> Iterator[doctest.DocTest]:
    """Yield the examples of a room, docstring by docstring, with the names of its module and the public names."""
    place = PACKAGE / room
    public = {name: getattr(keyturn, name) for name in keyturn.__all__}
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ">>> " not in text:
            continue
        name = ".".join(("keyturn", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the paths of names that are kept for those who used them
            module = importlib.import_module(name)
        for node in ast.walk(ast.parse(text)):
            words = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if words and ">>> " in words:
                scope: dict[str, Any] = {"keyturn": keyturn, **public, **vars(module)}
                where = f"{name}.{getattr(node, 'name', '__doc__')}"
                yield doctest.DocTestParser().get_doctest(words, scope, where, str(path), 0)


@each("room", part(ROOMS, 4))
def test_each_example_of_a_room_runs(room: str) -> None:
    wrong: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    for test in examples(room):
        runner.run(test, out=wrong.append)
    assert not wrong, "".join(wrong)
