"""`keyturn chat` from outside: at a pseudo-terminal, without a terminal, and with what is wrong."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from keyturn.chat import scripted
from keyturn.cli.chat import journal_url, sessions_of
from keyturn.cli.demo_player import Player
from keyturn.cli.main import main
from tests import forked
from tests.cli.terminal import KEYS, SECRET, at_a_terminal
from tests.table import each

Captured = pytest.CaptureFixture[str]
CHAT = ["-P", "-m", "keyturn", "chat"]


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key and a state directory of the test's own, and no provider's key."""
    monkeypatch.setenv("KEYTURN_SECRET", SECRET)
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


def test_it_starts_answers_and_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    typed = [(b"Message the agent", b"Hello there\r"), (b"wants to run", b"\x11")]
    shown, code = at_a_terminal([*CHAT, "--root", str(folder)], *typed)
    assert code == 0
    assert "scripted, because no provider's key is set" in " ".join(shown.split())
    assert "The run stays in its journal." in shown
    assert "chat --root" in shown
    assert not list(folder.iterdir())
    shown, code = at_a_terminal([*CHAT, "--root", str(folder), "--resume"], (b"wants to run", b"\x11"))
    assert code == 0
    assert "Hello there" in shown


def test_without_a_terminal_it_says_so() -> None:
    done = forked.run(CHAT, stdin=forked.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this is not a terminal" in done.stderr


def test_without_textual_it_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main(["chat"]) == 1
    assert "pip install 'keyturn[chat]'" in capsys.readouterr().err


@pytest.mark.trial
@each(
    "arguments, said",
    [
        (["--root", "/no/such/folder"], "there is no folder"),
        (["--resume", "nobody"], "nobody"),
        (["--resume"], "there is no earlier conversation"),
        (["--price", "3"], "--price"),
        (["--price", "a/b"], "amount"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], said: str) -> None:
    shown, code = at_a_terminal([*CHAT, "--scripted", *arguments])
    assert code == 1
    assert said in " ".join(shown.split())


def test_a_journal_is_a_file_or_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert journal_url("runs.db") == f"sqlite:///{tmp_path}/runs.db"
    assert journal_url("postgresql://x/y") == "postgresql://x/y"
    assert journal_url(None).endswith("home/keyturn/chat.db")
    assert sessions_of("memory://")("a").session_id == "a"
    asyncio.run(sessions_of(journal_url("runs.db"))("a").add_items([{"role": "user", "content": "hello"}]))
    assert (tmp_path / "runs.db.sessions").exists()


def test_the_player_of_the_chat_says_how_to_do_without_a_provider() -> None:
    player = Player.chosen("openai:no-such-model", program="chat", script=scripted.reply)

    class Refused(Exception):
        status_code = 401

    told = player.trouble(Refused("no"))
    assert told is not None
    assert "chat --scripted" in told
