"""Programs written for openai-agents run here after `keyturn migrate`, and print what they print there.

Each file in `tests/programs` says in its docstring what it prints; all were run with openai-agents 0.24 as they are.
Where the difference is on purpose, a second list says what it prints here: `DIFFERENT` has the reason.
"""

from __future__ import annotations

import ast
import runpy
import warnings
from collections.abc import Generator
from pathlib import Path
from textwrap import dedent

import pytest

from keyturn import set_tracing_disabled
from keyturn.cli.main import main

PROGRAMS = {path.stem: path for path in sorted(Path(__file__).with_name("programs").glob("*.py"))}
THERE, HERE = "Prints:\n", "Prints with keyturn, on purpose:\n"
DIFFERENT = {
    "deciding_what_does_not_wait": "a decision on a call that does not wait is an error",
    "one_state_twice": "a state is used once",
    "shell_asks": "a shell asks unless it is told not to",
}


def printed(path: Path) -> tuple[str, str | None]:
    """What a program prints there, and here where that is another thing."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False)
    assert said is not None
    _what, _, lists = said.partition(THERE)
    there, _, here = lists.partition(HERE)
    return dedent(there).strip(), dedent(here).strip() or None


def test_the_table_names_what_differs() -> None:
    assert len(PROGRAMS) >= 25
    assert {name for name, path in PROGRAMS.items() if printed(path)[1] is not None} == set(DIFFERENT)


@pytest.fixture
def as_it_was() -> Generator[None]:
    """Give back what programs set for their whole process."""
    yield
    set_tracing_disabled(False)


@pytest.mark.usefixtures("as_it_was", "forked_children")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_with_one_word_changed(
    name: str, tmp_path: Path, own_key: None, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / f"{name}.py"
    program.write_bytes(PROGRAMS[name].read_bytes())
    assert main(["migrate", str(program), "--write"]) == 0
    before, after = (path.read_text(encoding="utf-8").split("\n") for path in (PROGRAMS[name], program))
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert changed
    assert all(new == old.replace("agents", "keyturn", 1) for old, new in changed)
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        runpy.run_path(str(program), run_name="__main__")
    there, here = printed(PROGRAMS[name])
    assert [line.rstrip() for line in capsys.readouterr().out.strip().split("\n")] == (here or there).split("\n")
