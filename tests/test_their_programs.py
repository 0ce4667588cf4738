"""Programs for Pydantic AI and pydantic-deep run here with their imports changed, and print what they print there.

Each file in `tests/their_programs` says in its docstring what it prints; all were run with pydantic-ai 2.62 and
pydantic-deep 0.3.50 as they are, by `run_there.py`. What differs on purpose stands in a second list, and its reason in
`DIFFERENT` and in the manual's "Coming from Pydantic AI".
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
import warnings
from pathlib import Path
from textwrap import dedent

import pytest

from tests.their_programs.run_there import NO_PROGRAMS, ON_PURPOSE, THERE

FOLDER = Path(__file__).with_name("their_programs")
PROGRAMS = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if path.stem not in NO_PROGRAMS}
DIFFERENT = {
    "a_tool_that_fails": "a tool that fails does not end the run",
    "a_toolset_that_asks": "the results of one reply are one message",
    "an_agent_asks_another": "the usage of a run is what its log says; what a tool runs by itself is not of it",
    "dependencies": "a result is what the model was told: a text",
}
IMPORT = re.compile(r"^from (pydantic_ai|pydantic_deep)(?:\.\w+)* import ", re.MULTILINE)
OURS = {"pydantic_ai": "keyturn.deferred", "pydantic_deep": "keyturn.deep"}


def printed(path: Path) -> tuple[str, str | None]:
    """What a program prints there, and here where that is another thing."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False)
    assert said is not None
    there, _, here = said.partition(THERE)[2].partition(ON_PURPOSE)
    return dedent(there).strip(), dedent(here).strip() or None


def test_the_table_names_what_differs() -> None:
    assert len(PROGRAMS) >= 20
    assert {name for name, path in PROGRAMS.items() if printed(path)[1] is not None} == set(DIFFERENT)


@pytest.mark.each
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_with_its_imports_changed(
    name: str, tmp_path: Path, own_key: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PROGRAMS[name].read_text(encoding="utf-8")
    changed = IMPORT.sub(lambda found: f"from {OURS[found[1]]} import ", text)
    assert changed != text
    program = tmp_path / f"{name}.py"
    program.write_text(changed, encoding="utf-8")
    (tmp_path / "scripted.py").write_text((FOLDER / "scripted_here.py").read_text(encoding="utf-8"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "scripted", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        runpy.run_path(str(program), run_name="__main__")
    there, here = printed(PROGRAMS[name])
    assert [line.rstrip() for line in capsys.readouterr().out.strip().split("\n")] == (here or there).split("\n")
