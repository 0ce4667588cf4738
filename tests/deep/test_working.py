"""What a deep agent works with: todos, skills, a memory file, commands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from keyturn import UserError
from keyturn.deep import DeepAgentDeps, FilesystemBackend, SandboxBackend, StateBackend, create_deep_agent
from keyturn.testing import function_call
from keyturn.tools.processes.bubblewrap import SandboxUnavailable
from keyturn.tools.processes.command import LocalExecutor
from tests.deep.playing_deep import Play, answered, asked, edits, model, runs, told, writes
from tests.needs import missing


async def test_todos_are_kept_in_the_deps(play: Play) -> None:
    todos = [{"content": "Write", "status": "in_progress", "active_form": "Writing"}]
    deps = DeepAgentDeps()
    scripted = model(function_call("write_todos", {"todos": todos}), "Done.")
    assert (await play(create_deep_agent(scripted), deps=deps)).output == "Done."
    assert [(todo.content, todo.status, todo.active_form) for todo in deps.todos] == [
        ("Write", "in_progress", "Writing")
    ]
    assert told(scripted) == ["[>] Write"]


async def test_todos_that_are_none_are_told_to_the_model(play: Play) -> None:
    deps = DeepAgentDeps()
    scripted = model(function_call("write_todos", {"todos": [{"content": "x", "status": "maybe"}]}), "Done.")
    await play(create_deep_agent(scripted), deps=deps)
    assert "invalid" in told(scripted)[0]
    assert deps.todos == []


async def test_a_memory_file_is_told_in_each_turn(play: Play) -> None:
    scripted = model(edits("/AGENTS.md", "tea", "coffee"), "Done.")
    deps = DeepAgentDeps(backend=StateBackend({"/AGENTS.md": "She likes tea."}))
    await play(create_deep_agent(scripted, "Be kind.", memory="/AGENTS.md"), deps=deps)
    said = [request.system_instructions for request in scripted.calls]
    assert "She likes tea." in said[0]
    assert "She likes coffee." in said[1]
    assert said[0].startswith("Be kind.")


async def test_a_memory_file_that_is_huge_or_missing_holds_nothing_up(play: Play) -> None:
    scripted = model("Done.")
    deps = DeepAgentDeps(backend=StateBackend({"/big.md": "x" * 100_000}))
    await play(create_deep_agent(scripted, memory=["/big.md", "/none.md"]), deps=deps)
    said = scripted.calls[0].system_instructions
    assert len(said) < 40_000
    assert "cut here: it has 100000 characters" in said
    assert "there is nothing yet" in said


def skill(
    place: Path, name: str, head: str = "---\nname: csv\ndescription: Reads tables.\n---\nUse a comma.\n"
) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(head)
    (folder / "more.md").write_text("Or a tab.")
    return place


async def test_a_skill_is_told_by_name_and_read_when_it_is_needed(play: Play, tmp_path: Path) -> None:
    scripted = model(
        [
            function_call("load_skill", {"name": "csv"}),
            function_call("read_skill_resource", {"name": "csv", "path": "more.md"}),
        ],
        [
            function_call("read_skill_resource", {"name": "csv", "path": "../../etc/passwd"}),
            function_call("load_skill", {"name": "none"}),
        ],
        "Done.",
    )
    await play(create_deep_agent(scripted, skills=[skill(tmp_path, "csv")]))
    assert "- csv: Reads tables." in scripted.calls[0].system_instructions
    assert told(scripted)[:2] == ["Use a comma.\n\nFiles: more.md", "Or a tab."]
    assert "refused" in told(scripted)[2]
    assert "There is no skill 'none'; there are csv." in told(scripted)[3]


def test_skills_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no skill in"):
        create_deep_agent(model(), skills=[tmp_path])
    with pytest.raises(UserError, match="two skills are named 'csv'"):
        create_deep_agent(model(), skills=[skill(tmp_path / "a", "one"), skill(tmp_path / "b", "two")])
    with pytest.raises(UserError, match="has no description"):
        create_deep_agent(model(), skills=[skill(tmp_path / "c", "three", "no head")])


async def test_a_command_is_shown_with_where_it_runs(play: Play, tmp_path: Path) -> None:
    backend = FilesystemBackend(tmp_path, shell=LocalExecutor(tmp_path))
    scripted = model(runs("echo hi; exit 3", timeout=5), "Done.")
    agent = create_deep_agent(scripted, backend=backend)
    waits = await play(agent)
    [part] = waits.output.approvals
    assert part.args == {"command": "echo hi; exit 3", "timeout": 5}
    assert str(tmp_path) in str(part.preview)
    await answered(play, agent, waits)
    assert told(scripted) == ["hi\n\n(exit code 3)"]


async def test_a_command_that_takes_too_long_is_stopped(play: Play, tmp_path: Path) -> None:
    backend = FilesystemBackend(tmp_path, shell=LocalExecutor(tmp_path))
    scripted = model(runs("sleep 60", timeout=1), "Done.")
    agent = create_deep_agent(scripted, backend=backend, interrupt_on={"execute": False})
    assert (await play(agent)).output == "Done."
    assert "(no exit code: the time was up)" in told(scripted)[0]


@pytest.mark.each
@pytest.mark.parametrize(
    "wrong", [{"command": "  "}, {"command": "a\0b"}, {"command": "ls", "timeout": 0}, {"cmd": "ls"}]
)
async def test_a_command_that_no_shell_could_run_asks_nobody(play: Play, tmp_path: Path, wrong: Any) -> None:
    scripted = model(function_call("execute", wrong), "Done.")
    agent = create_deep_agent(scripted, backend=FilesystemBackend(tmp_path, shell=LocalExecutor(tmp_path)))
    assert (await play(agent)).output == "Done."
    assert "invalid" in told(scripted)[0]


async def test_there_is_no_execute_where_it_cannot_run(play: Play) -> None:
    scripted = model("Done.")
    await play(create_deep_agent(scripted))
    assert "execute" not in {tool.name for tool in scripted.calls[0].tools}


async def test_where_nothing_runs_an_approval_runs_nothing(play: Play) -> None:
    scripted = model(runs("ls"), "Done.")
    agent = create_deep_agent(scripted, interrupt_on={"execute": True})
    waits = await play(agent)
    assert asked(waits) == ["execute"]
    await answered(play, agent, waits)
    assert told(scripted) == ["The command was not run: the files of this agent are in a place that has no shell."]


async def test_a_sandbox_holds_a_command(play: Play, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip(missing("bwrap"))
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("secret")
    try:
        await SandboxBackend(tmp_path / "in").shell.check()
    except SandboxUnavailable:
        pytest.skip("needs a kernel that lets bwrap make a sandbox")
    scripted = model([runs(f"cat {tmp_path}/secret; touch made"), writes("/b")], "Done.")
    agent = create_deep_agent(scripted, backend=SandboxBackend(tmp_path / "in"), interrupt_on={"execute": False})
    assert (await play(agent)).output == "Done."
    assert "secret\n" not in told(scripted)[0]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["b", "made"]


@pytest.mark.parametrize("path", ["/../etc/passwd", "../x", "~/x", "/a\0b"])
async def test_a_path_out_of_the_backend_asks_nobody_and_reads_nothing(play: Play, path: str) -> None:
    scripted = model([writes(path), function_call("read_file", {"path": path})], "Done.")
    deps = DeepAgentDeps()
    assert (await play(create_deep_agent(scripted, interrupt_on={"write_file": True}), deps=deps)).output == "Done."
    assert all("refused" in text for text in told(scripted))
    assert deps.files == {}


@pytest.mark.each
@pytest.mark.parametrize("include", [None, True, False])
async def test_a_backend_of_the_deps_that_runs_commands_brings_execute_which_asks(
    play: Play, tmp_path: Path, include: bool | None
) -> None:
    for backend, runs_here in ((SandboxBackend(tmp_path), True), (StateBackend(), False)):
        scripted = model("Done.")
        agent = create_deep_agent(scripted, include_execute=include)
        await play(agent, deps=DeepAgentDeps(backend=backend))
        names = {tool.name for tool in scripted.calls[0].tools}
        assert ("execute" in names) is (runs_here if include is None else include)
    if include is not False:
        scripted = model(runs("ls"), "Done.")
        paused = await play(create_deep_agent(scripted), deps=DeepAgentDeps(backend=SandboxBackend(tmp_path)))
        assert [call.tool_name for call in paused.output.approvals] == ["execute"]


async def test_a_tool_of_the_callers_own_is_not_hidden_by_execute(play: Play, tmp_path: Path) -> None:
    def execute(command: str) -> str:
        """Run it elsewhere."""
        return f"ran {command}"

    scripted = model(runs("ls"), "Done.")
    agent = create_deep_agent(scripted, tools=[execute], interrupt_on={"execute": False})
    await play(agent, deps=DeepAgentDeps(backend=SandboxBackend(tmp_path)))
    assert told(scripted) == ["ran ls"]


async def test_skills_can_be_left_out(play: Play, tmp_path: Path) -> None:
    skill(tmp_path, "csv")
    scripted = model("Done.")
    await play(create_deep_agent(scripted, skills=[tmp_path], include_skills=False))
    assert "csv" not in str(scripted.calls[0].system_instructions)
    assert not [tool.name for tool in scripted.calls[0].tools if "skill" in tool.name]
