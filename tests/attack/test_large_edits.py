"""What a model asks for cannot fill the memory or hold the process, before anybody is asked and after."""

from __future__ import annotations

import pytest

from keyturn.core.errors import UserError
from keyturn.deep import DeepAgentDeps, StateBackend, create_deep_agent
from keyturn.models.scripted.model import function_call
from keyturn.testing import ScriptedModel
from keyturn.tools.filesystem.problems import FileTooLarge, PathRefused
from keyturn.tools.filesystem.text_edit import replaced


def test_an_edit_is_refused_before_its_result_is_made() -> None:
    """A text of a megabyte in place of each of a million characters would take a terabyte."""
    with pytest.raises(FileTooLarge, match="The file would have 1000000000000 bytes; 4194304 are allowed"):
        replaced("a" * 1_000_000, "a", "b" * 1_000_000, every=True, most=4 << 20)
    assert replaced("é", "é", "e", most=1) == ("e", 1)


async def test_the_model_is_told_that_its_edit_would_be_too_large() -> None:
    arguments = {"path": "/a.txt", "old_string": "a", "new_string": "b" * 500_000, "replace_all": True}
    agent = create_deep_agent(ScriptedModel([[function_call("edit_file", arguments)], "done"]))
    files = StateBackend({"/a.txt": "a" * 1_000_000})
    result = await agent.run("go", deps=DeepAgentDeps(backend=files))
    assert "bytes; 4194304 are allowed" in str(result.new_messages())
    assert files.read("/a.txt").text == "a" * 1_000_000


def test_files_in_memory_are_not_read_once_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has many files is taken up by reading each once: their number is the model's choice."""
    read: list[str] = []

    def names(backend: StateBackend) -> dict[str, int]:
        read.append(repr(backend))
        return {}

    monkeypatch.setattr(StateBackend, "names", names)
    assert len(StateBackend({f"/{n}/a.txt": "x" for n in range(1_000)}).files) == 1_000
    assert read == []


@pytest.mark.parametrize("first", ["/a", "/a/b/c"])
def test_a_file_in_the_place_of_a_directory_is_refused(first: str) -> None:
    with pytest.raises((PathRefused, UserError), match="is refused"):
        StateBackend({first: "x", ({"/a", "/a/b/c"} - {first}).pop(): "y"})
