"""`make leaks`: ours hold, and what other agents are said to do is told as they did it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from trials import leaks
from trials.leaks.__main__ import THEIRS, main
from trials.leaks.on_keyturn import LEAKS, shown


@pytest.fixture(autouse=True)
def own(own_key: None) -> None:
    """Use a key of the test's own."""


async def test_nothing_leaks_here() -> None:
    found = await shown()
    assert len(found) == len(LEAKS) == 17
    assert {name: what for name, (leaked, what) in found.items() if leaked} == {}


def test_every_leak_of_others_is_tried_here() -> None:
    texts = [Path(leaks.__file__).with_name(name).read_text(encoding="utf-8") for name in THEIRS.values()]
    named = {line.partition("def ")[2].partition("(")[0] for text in texts for line in _leaks(text)}
    assert named == LEAKS.keys()


def _leaks(text: str) -> list[str]:
    lines = text.split("\n")
    return [after for line, after in pairwise(lines) if line == "@leak"]


@pytest.mark.trial
def test_without_the_others_it_says_how_to_get_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr()
    assert "pip install pydantic-deep pydantic-ai deepagents" in said.err
    assert said.out.startswith("| leak | keyturn |\n|---|---|\n| a subagent writes | holds: asked for write_file |\n")


@pytest.mark.trial
@pytest.mark.parametrize("python", ["/no/such/python", "false"])
def test_what_cannot_be_tried_is_said(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--theirs", python]) == 0
    assert "deepagents is not tried: " in capsys.readouterr().err


@pytest.mark.trial
def test_what_theirs_did_stands_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "python"
    python.write_text(
        """#!/bin/sh
echo '{"versions": {"theirs": "1.2"}}'
echo '{"leak": "a_subagent_writes", "leaked": true, "what": "a|b"}'
echo '{"leak": "one_approval_twice", "leaked": null, "what": "could not be shown"}'
"""
    )
    python.chmod(0o700)
    assert main(["--theirs", str(python)]) == 0
    said = capsys.readouterr().out
    assert "| a subagent writes | holds: asked for write_file | LEAKS: a\\|b | LEAKS: a\\|b |" in said
    assert "| ?: could not be shown |" in said
    assert "| holds: not requested: the model gets the error of the schema | - | - |" in said
    assert "With theirs 1.2." in said


def test_a_leak_that_is_not_tried_here_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho '{"leak": "a_new_one", "leaked": true, "what": "ran"}'\n""")
    python.chmod(0o700)
    assert main(["--theirs", str(python)]) == 1
    assert "keyturn was not tried: a new one" in capsys.readouterr().err
