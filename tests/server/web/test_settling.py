"""People settle in a browser what became of a call whose worker was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from keyturn import App
from keyturn.cli.loading import found
from tests import forked
from tests.server.office import Served, cookie, peopled
from tests.waiting import until_now

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = '''
import asyncio
from pathlib import Path

from keyturn import Agent, App, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs

HERE = Path(__file__).parent

@function_tool(needs_approval=True)
async def rotate_keys(cluster: str) -> str:
    """Replace the keys of a cluster."""
    with (HERE / "begun").open("a") as file:
        file.write("begun\\n")
    await asyncio.sleep(600)
    return "replaced"


def says(request):
    said = tool_outputs(request)
    return f"It came to: {', '.join(said.values())}" if said else [function_call("rotate_keys", {"cluster": "staging"})]


agent = Agent("keys", model=ScriptedModel(says), tools=[rotate_keys])
app = App([agent], f"sqlite:///{HERE / 'runs.db'}", worker=False, lease=1)  # so that nobody has to wait for a minute
'''


@contextmanager
def working(folder: Path) -> Generator[forked.Program]:
    """Run a worker in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")])}
    worker = forked.Program(["-P", "-m", "keyturn", "worker", "keys_program:app"], env=environ, cwd=folder)
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait(10)


@pytest.mark.trial
def test_a_worker_is_killed_while_somebody_looks_and_they_say_what_became_of_the_call(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys_program.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] - pytest says nothing of its path
    app: App = found("keys_program:app")
    with Served(app) as served:
        tokens = served.does(peopled(app))
        run = served.does(app.start("keys", "The keys are old.", requester="cyd"))
        with working(tmp_path) as worker:
            [row] = until_now(lambda: served.does(app.inbox.list()))
            context = browser.new_context()
            context.set_default_timeout(15_000)
            context.add_cookies([cookie(served, tokens["ada"])])
            page = context.new_page()
            page.goto(f"{served.url}/requests/{row.id}")
            page.get_by_role("button", name="Approve this call").click()
            until_now((tmp_path / "begun").exists)
            expect(page.locator("#outcome")).to_contain_text("started")
            worker.send_signal(signal.SIGKILL)
        with working(tmp_path):
            expect(page.locator("#outcome")).to_contain_text("outcome unknown")
            expect(page.locator("[data-changes]")).to_contain_text("Outcome unknown")
            expect(page.locator(".sentence")).to_contain_text("Did rotate_keys run?")
            page.get_by_label("Result, if it ran", exact=False).fill("replaced by hand")
            page.get_by_role("button", name="It ran").click()
            expect(page.locator("#outcome")).to_contain_text("resolved: it ran")
            until_now(lambda: served.does(app.get(run.id)).status == "finished")
        assert (tmp_path / "begun").read_text() == "begun\n"
        assert "replaced by hand" in served.does(app.run(run.id).result()).final_output
        context.close()
