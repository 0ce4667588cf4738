"""`keyturn completion` prints scripts that a real shell takes, made from the parsers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from keyturn.cli.completion import all_places
from keyturn.cli.main import COMMANDS, main


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", "bash"]) == 0
    path = tmp_path / "completion.bash"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers after these words, the last of which is being typed."""
    asked = " ".join(f"'{word}'" for word in words)
    program = f"""
source {script}
COMP_WORDS=({asked})
COMP_CWORD={len(words) - 1}
_keyturn
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    made = subprocess.run(["bash", "--norc"], input=program, capture_output=True, text=True, check=True, timeout=30)
    assert made.stderr == ""
    return made.stdout.split()


def test_bash_offers_commands_words_options_and_choices(script: Path) -> None:
    assert offered(script, "keyturn", "") == list(COMMANDS)
    assert offered(script, "keyturn", "req") == ["requests"]
    assert offered(script, "keyturn", "users", "enr") == ["enrol-key"]
    assert offered(script, "keyturn", "users", "enrol-key", "--sig") == ["--sign-with"]
    assert offered(script, "keyturn", "grant", "5e1f2a", "--scope", "s") == ["session"]
    assert offered(script, "keyturn", "audit", "export", "--format", "") == ["jsonl", "csv", "agentack"]
    assert "--digest" in offered(script, "keyturn", "approve", "5e1f2a", "--d")
    assert offered(script, "keyturn", "nothing", "like") == []


def test_what_is_typed_is_never_run(script: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    offered(script, "keyturn", "show", f"$(touch {mark})", f"`touch {mark}`")
    assert not mark.exists()


@pytest.mark.each
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_theirs(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    made = capsys.readouterr().out
    assert all(name in made for name in COMMANDS)
    assert "confirm-key" in made
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=made, text=True, check=True, timeout=30)


def test_every_command_has_a_place() -> None:
    assert {place.words[0] for place in all_places() if len(place.words) == 1} == set(COMMANDS)
    assert main(["completion", "bash"]) == 0


def test_a_shell_that_is_unknown_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["completion", "tcsh"])
    assert stop.value.code == 2
    assert "tcsh" in capsys.readouterr().err
