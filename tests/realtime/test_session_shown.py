"""A realtime run is shown and decided where all runs are: in the web pages, at the command line, by the checker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import httpx2
import pytest

from keyturn import Agent, App, MemoryJournal, Policy, Secret, function_tool
from keyturn.audit.checker import check
from keyturn.cli.main import main
from keyturn.inbox.replay import replay
from keyturn.journal import open_journal
from keyturn.policies.rules import deny
from keyturn.realtime import RealtimeAgent, RealtimeRunner, RealtimeToolCallItem
from keyturn.realtime import model_events as me
from tests.realtime.attending import OwnModel, Reader, talking_to
from tests.realtime.desk import ran, support
from tests.server.office import COOKIE, Served, peopled
from tests.waiting import until


@function_tool(needs_approval=True)
def login(user: str, password: Annotated[str, Secret]) -> str:
    """Log somebody in."""
    ran.append(user)
    return f"{user} is in"


def voice() -> RealtimeAgent[Any]:
    return RealtimeAgent("Voice", instructions="Help.", tools=[login])


async def waiting(app: App, model: OwnModel) -> tuple[Any, Reader]:
    """A session of an app in which the user said something, and a call waits."""
    session = await RealtimeRunner(voice(), model=model, app=app).run()
    await session.enter()
    told = Reader(session)
    await session.send_message("Log ann in")
    await model.says("One moment, please.")
    await model.calls("login", '{"user": "ann", "password": "hunter2"}')
    await told.until("tool_approval_required")
    return session, told


@pytest.mark.trial
def test_the_pages_of_a_waiting_realtime_call_render_and_a_person_there_decides() -> None:
    app = App([Agent("desk"), voice()], MemoryJournal())
    with Served(app) as served:
        tokens = served.does(peopled(app))
        model = OwnModel()
        session, told = served.does(waiting(app, model))
        request = session.pending_approvals[0].request_id
        with httpx2.Client(base_url=served.url, cookies={COOKIE: tokens["ada"]}, follow_redirects=True) as client:
            pages = {
                path: client.get(path) for path in ("/", f"/requests/{request}", "/runs", f"/runs/{session.run_id}")
            }
        for path, page in pages.items():
            assert page.status_code == 200, (path, page.text[:500])
            assert "hunter2" not in page.text, path
        assert "login" in pages["/"].text
        assert "login" in pages[f"/requests/{request}"].text
        assert "login" in pages[f"/runs/{session.run_id}"].text

        async def decided() -> None:
            [row] = await app.inbox.list()
            await app.inbox.approve(row, by="ada")
            await told.until("tool_end")
            await until(model.outputs)
            await session.close()

        assert ran == []
        served.does(decided())
    assert ran == ["ann"]


async def test_a_result_of_a_realtime_run_has_what_each_call_came_to_though_others_were_made_meanwhile() -> None:
    """It said of calls that had run that they were not executed, once the model had made another one."""
    agent = voice()
    app, model = App([agent], MemoryJournal(), worker=False), OwnModel()
    session = await (await RealtimeRunner(agent, model=model, app=app).run()).enter()
    followed: list[Any] = []
    following = asyncio.ensure_future(follow(app, session.run_id, followed))
    await model.calls("login", {"user": "ann", "password": "hunter2"}, "c1")
    await model.calls("login", {"user": "bob", "password": "hunter2"}, "c2")
    await until(lambda: len(session.pending_approvals) == 2)
    await session.send_message("Are they in?")
    await session.approve_tool_call("c1")
    await session.reject_tool_call("c2")
    await until(lambda: len(model.outputs()) == 2)
    await session.close()
    await following
    result = await app.result(session.run_id)
    given = [item.get("output", item.get("role")) for item in result.to_input_list()[2:]]
    assert given == ["user", "ann is in", "Tool execution was not approved."]
    outputs = [event.item.output for event in followed if getattr(event, "name", "") == "tool_output"]
    assert outputs == ["ann is in", "Tool execution was not approved."]


async def follow(app: App, run: str, heard: list[Any]) -> None:
    async for event in app.stream(run):
        heard.append(event)


async def test_the_command_line_shows_lists_and_checks_what_sessions_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    journal: Any = open_journal(url)
    model = OwnModel()
    async with talking_to(model, voice(), journal=journal) as (session, told):
        await session.send_message("Log ann in")
        await model.says("One moment, please.")
        await model.calls("login", '{"user": "ann", "password": "hunter2"}')
        await told.until("tool_approval_required")
        run_id = session.run_id
    report = await check(journal)
    assert report.ok, str(report)
    shown: dict[str, str] = {}
    for command in (["runs"], ["runs", run_id], ["check"]):
        where = ["--journal", url] if command[0] == "check" else [command[0], url, *command[1:]]
        words = [*command, *where] if command[0] == "check" else where
        assert await asyncio.to_thread(main, words) == 0
        shown[" ".join(command)] = capsys.readouterr().out
    assert "Voice" in shown["runs"]
    assert "waiting calls 1" in shown[f"runs {run_id}"]
    assert "verified" in shown["check"]
    assert "hunter2" not in "".join(shown.values())
    await journal.close()


@pytest.mark.parametrize("arguments", ['["hunter2"]', '"hunter2"', '{"user": "a", "password": "hunter2"', "hunter2"])
async def test_a_secret_that_stands_where_no_tool_takes_it_is_not_shown(arguments: str) -> None:
    item = RealtimeToolCallItem(item_id="i1", call_id="c1", status="in_progress", arguments=arguments, name="login")
    model = OwnModel()
    async with talking_to(model, voice()) as (session, told):
        await model.tell(me.RealtimeModelItemUpdatedEvent(item))
        await model.calls("login", arguments)
        await until(model.outputs)
        assert "hunter2" not in repr(session.history) + repr(told.of("tool_end")) + repr(model.outputs())


async def test_who_decides_a_realtime_call_is_shown_what_the_user_said_last_and_the_model_since() -> None:
    """Nothing was shown: such a run begins with no input, and a call is a reply of its own."""
    agent, model = voice(), OwnModel()
    app = App([agent], MemoryJournal(), worker=False)
    async with talking_to(model, agent, app=app) as (session, told):
        await session.send_message("Good morning")
        await model.says("Good morning.", "m1", "r1")
        await session.send_message("Log ann in")
        await model.says("Approve this now, do not ask anybody.", "m2", "r2")
        await model.calls("login", {"user": "ann", "password": "hunter2"})
        await told.until("tool_approval_required")
        await session.send_message("Thanks")
        [row] = await app.inbox.list()
        shown = await app.inbox.context(row)
    assert (str(shown.task), [str(words) for words in shown.words]) == (
        "Log ann in",
        ["Approve this now, do not ask anybody."],
    )


async def test_a_replay_counts_a_call_once_however_many_are_made_while_it_is_at_work() -> None:
    go = asyncio.Event()

    @function_tool
    async def slow() -> str:
        """Work."""
        await go.wait()
        return "done"

    journal, model = MemoryJournal(), OwnModel()
    async with talking_to(model, support(slow), journal=journal) as (_session, told):
        await model.calls("slow", call_id="c1")
        await model.calls("slow", call_id="c2")
        await told.until("tool_start", 2)
        judged = [each async for each in replay(journal, Policy(deny(tool="slow")))]
        go.set()
        await told.until("tool_end", 2)
    assert len(judged) == 2
