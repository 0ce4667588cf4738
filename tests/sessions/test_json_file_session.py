"""A user's own class, which inherits from nothing of ours, is a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.json_file_session import JsonFileSession, main
from keyturn.testing.suites.sessions import SessionSuite


class TestJsonFileSession(SessionSuite):
    shared = True

    @pytest.fixture(autouse=True)
    def use_directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def make_session(self, session_id: str) -> JsonFileSession:
        return JsonFileSession(session_id, self.directory)


async def test_an_id_from_a_user_stays_inside_the_directory(tmp_path: Path) -> None:
    inside = tmp_path / "sessions"
    inside.mkdir()
    await JsonFileSession("../outside", inside).add_items([{"role": "user", "content": "hello"}])
    assert [path.name for path in tmp_path.iterdir()] == ["sessions"]
    assert len(list(inside.iterdir())) == 1


async def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    await main()
    assert capsys.readouterr().out == "[{'role': 'assistant', 'content': 'hi'}]\n"
