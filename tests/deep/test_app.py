"""A deep agent under an App waits in its inbox, is decided from another process, and goes on in a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, Approval, Grant, UserError
from keyturn.deep import CompositeBackend, DeepAgent, DeepAgentDeps, FilesystemBackend, StateBackend, create_deep_agent
from keyturn.testing import check, function_call
from tests.deep.playing_deep import delegates, edits, model, writes

GATED = {"write_file": True, "edit_file": Approval(expires="4h")}


def agent(*steps: Any, **options: Any) -> DeepAgent:
    return create_deep_agent(model(*steps), interrupt_on=GATED, name="ops", max_depth=2, **options)


def app_of(deep: DeepAgent, url: str) -> App:
    declared: Any = deep
    return App([declared], url)


@pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)
async def test_a_deep_agent_waits_and_goes_on_elsewhere(store_url: str, another_process: Callable[[], None]) -> None:
    free = function_call(
        "write_todos", {"todos": [{"content": "Write", "status": "pending", "active_form": "Writing"}]}
    )
    async with app_of(agent(free, writes("/backup.sh", "#!/bin/sh\ntar\n")), store_url) as app:
        run = await app.start("ops", "Make a backup script.")
        assert (await run.wait(10)).status == "waiting"

    another_process()
    app = app_of(agent(), store_url)
    [request] = await app.inbox.list()
    assert (request.tool, request.agent) == ("write_file", "ops")
    assert "tar" in str(request.preview)
    await app.inbox.approve(request, by="ann")

    another_process()
    async with app_of(agent("Done."), store_url) as app:
        result = await app.run(run.id).result(10)
        deps = result.context_wrapper.context
        assert result.final_output == "Done."
        assert {path: len(data["content"]) for path, data in deps.files.items()} == {"/backup.sh": 3}
        assert [todo.content for todo in deps.todos] == ["Write"]
        report = await check(app.journal)
    assert report.ok, report


async def test_files_that_were_written_before_a_pause_come_back(tmp_path: Path, another_process: Any) -> None:
    """What ran is recorded together with what it did to files in memory, subagents' files included."""
    url = f"sqlite:///{tmp_path}/runs.db"
    deep = create_deep_agent(
        model([writes("/a", "old\n"), delegates()], writes("/b"), edits("/a", "old", "new")),
        interrupt_on={"edit_file": True},
        name="ops",
    )
    async with app_of(deep, url) as app:
        run = await app.start("ops", "go")
        await run.wait(10)
    another_process()
    again = create_deep_agent(model("Done."), interrupt_on={"edit_file": True}, name="ops")
    task: Any = next(tool for tool in again.core_agent().tools if tool.name == "task")
    task.agents["general-purpose"].model = model("It is done.")
    async with app_of(again, url) as app:
        [request] = await app.inbox.list()
        assert request.agent == "ops/task/general-purpose"
        await app.inbox.approve(request, by="ann")
        result = await app.run(run.id).result(10)
    files = result.context_wrapper.context.files
    assert {path: data["content"] for path, data in files.items()} == {"/a": ["new", ""], "/b": ["x", ""]}


@pytest.mark.trial
async def test_a_grant_covers_later_calls_of_the_same_tool(tmp_path: Path) -> None:
    deep = agent([writes("/drafts/a"), writes("/etc/b")], writes("/drafts/c"), "Done.")
    async with app_of(deep, f"sqlite:///{tmp_path}/runs.db") as app:
        run = await app.start("ops", "go")
        await run.wait(10)
        first, second = await app.inbox.list()
        await app.inbox.approve(first, by="ann", grant=Grant(where={"path": {"under": "/drafts"}}))
        await app.inbox.reject(second, by="ann", message="Not there.")
        result = await run.result(10)
    assert sorted(result.context_wrapper.context.files) == ["/drafts/a", "/drafts/c"]


async def test_terms_that_take_people_hold_in_subagents(tmp_path: Path) -> None:
    terms = Approval(role="ops", quorum=2)
    deep = create_deep_agent(
        model(delegates(), writes("/a"), "It is done.", "Done."), interrupt_on={"write_file": terms}, name="ops"
    )
    with pytest.raises(UserError, match="needs an inbox"):
        await deep.run("go")
    async with app_of(deep, f"sqlite:///{tmp_path}/runs.db") as app:
        run = await app.start("ops", "go")
        await run.wait(10)
        [request] = await app.inbox.list()
        assert request.request.terms == terms


async def test_each_run_has_files_of_its_own(tmp_path: Path) -> None:
    deep = create_deep_agent(
        model(writes("/a"), "1", writes("/b"), "2"), backend=StateBackend({"/base": "x"}), name="ops"
    )
    async with app_of(deep, f"sqlite:///{tmp_path}/runs.db") as app:
        seen = [(await (await app.start("ops", "go")).result(10)).context_wrapper.context for _ in range(2)]
    assert [sorted(deps.files) for deps in seen] == [["/a", "/base"], ["/b", "/base"]]


async def test_a_folder_is_the_agents_and_never_a_saved_texts(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    backend = CompositeBackend(StateBackend(), {"/disk": FilesystemBackend(folder)})
    deep = create_deep_agent(
        model([writes("/a"), writes("/disk/b")], "Done."),
        backend=backend,
        interrupt_on={"write_file": True},
        name="ops",
    )
    url = f"sqlite:///{tmp_path}/runs.db"
    async with app_of(deep, url) as app:
        with pytest.raises(UserError, match="come back after a pause as another one"):
            await app.start("ops", "go", context=DeepAgentDeps(backend=FilesystemBackend(tmp_path)))
        run = await app.start("ops", "go")
        await run.wait(10)
        for request in await app.inbox.list():
            await app.inbox.approve(request, by="ann")
        result = await run.result(10)
    assert (folder / "b").read_text() == "x\n"
    assert list(result.context_wrapper.context.files) == ["/a"]


async def test_the_files_of_a_run_are_looked_at_without_its_agent_at_work(tmp_path: Path) -> None:
    async with app_of(agent(writes("/a")), f"sqlite:///{tmp_path}/runs.db") as app:
        run = await app.start("ops", "go", context=DeepAgentDeps(backend=StateBackend({"/notes": "milk"})))
        await run.wait(10)
        state = await app.state(run.id)
        assert list(state.context.context.files) == ["/notes"]


@pytest.mark.trial
async def test_an_inbox_edits_the_calls_of_a_deep_agent(tmp_path: Path, another_process: Any) -> None:
    """It did not know the files of the run, and so no tool of it."""
    url = f"sqlite:///{tmp_path}/runs.db"
    async with app_of(agent([writes("/a"), writes("/b")]), url) as app:
        run = await app.start("ops", "go")
        await run.wait(10)
    another_process()
    app = app_of(agent(), url)
    first, second = await app.inbox.list()
    await app.inbox.approve(first, by="ann", edit={"path": "/c", "content": "edited"})
    await app.inbox.reject(second, by="ann")
    another_process()
    async with app_of(agent("Done."), url) as app:
        await app.run(run.id).wait(10)
        [shown] = await app.inbox.list()  # nobody had been shown what is at that path
        assert shown.revision > first.revision
        await app.inbox.approve(shown, by="ann")
        result = await app.run(run.id).result(10)
    files = result.context_wrapper.context.files
    assert {path: data["content"] for path, data in files.items()} == {"/c": ["edited"]}


async def test_an_edit_of_the_inbox_is_checked_by_a_tool_of_the_runs_own_files(store_url: str) -> None:
    async with app_of(agent(edits("/notes", "milk", "tea"), "Done."), store_url) as app:
        run = await app.start("ops", "go", context=DeepAgentDeps(backend=StateBackend({"/notes": "milk and bread"})))
        await run.wait(10)
        [request] = await app.inbox.list()
        changed = {"path": "/notes", "old_string": "bread", "new_string": "jam", "replace_all": False}
        await app.inbox.approve(request, by="ann", edit=changed)
        result = await run.result(10)
    assert result.final_output == "Done."
    assert result.context_wrapper.context.files["/notes"]["content"] == ["milk and jam"]
