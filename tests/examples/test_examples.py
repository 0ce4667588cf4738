"""Every example is short, runs, and prints what its docstring says it prints."""

from __future__ import annotations

import asyncio
import inspect
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from examples import interactive_console, test_my_agent

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
ELSEWHERE = {
    "interactive_console": "somebody has to type; below",
    "json_file_session": "it is run by the session suite",
    "test_my_agent": "its tests are run below",
}
LINES = 60
LONGER = {"human_in_the_loop": 90}  # it is the whole, as in the guide that it comes from


def printed_by(docstring: str | None) -> str:
    """The block that a docstring ends with, after "Prints:"."""
    _, marked, block = (docstring or "").partition("Prints:\n")
    assert marked, 'the docstring ends with "Prints:" and what the example prints'
    return textwrap.dedent(block).strip() + "\n"


@pytest.fixture(autouse=True)
def own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-these-tests")


@pytest.mark.parametrize("name", sorted({*NAMES} - ELSEWHERE.keys()))
def test_an_example_prints_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = import_module(f"examples.{name}")
    done = example.main()
    if inspect.isawaitable(done):
        asyncio.run(_wait(done))
    assert capsys.readouterr().out == printed_by(example.__doc__)


async def _wait(done: Any) -> None:
    await done


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGER.get(name, LINES)
    assert text.startswith('"""')
    assert "def main(" in text or name == "test_my_agent"


@pytest.mark.parametrize("name", [name for name in dir(test_my_agent) if name.startswith("test_")])
def test_the_tests_of_the_example_pass(name: str) -> None:
    getattr(test_my_agent, name)()


def typed(*lines: str) -> Any:
    waiting = iter(lines)
    return lambda _prompt: next(waiting)


def test_the_console_decides(capsys: pytest.CaptureFixture[str]) -> None:
    ask = typed("e", "command=make deploy", "a")
    asyncio.run(interactive_console.main(ask=ask, width=100, colour=False))
    assert capsys.readouterr().out.endswith("$ make deploy\nok\n")


def test_the_console_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(interactive_console.main(ask=typed("q"), width=100, colour=False))
    said = capsys.readouterr().out
    assert "The run waits." in said
    assert "\nok\n" not in said
