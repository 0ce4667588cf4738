"""Every example is short, runs, and prints what its docstring says it prints."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from examples import fastapi_inbox, interactive_console, real_model, test_my_agent
from keyturn.testing import function_call
from keyturn.testing.loopback.responses import ResponsesServer
from tests.waiting import until_now

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
ELSEWHERE = {
    "deep_web_approval": "somebody has to press a button; test_web_approval.py",
    "fastapi_inbox": "somebody has to ask the server; below",
    "interactive_console": "somebody has to type; below",
    "json_file_session": "it is run by the session suite",
    "test_my_agent": "its tests are run below",
}
LINES = 60
# Whole web applications; and the whole of a guide, as it is there.
LONGER = {
    "deep_web_approval": 90,
    "fastapi_inbox": 80,
    "gated_celery": 70,
    "gated_fastapi": 75,
    "human_in_the_loop": 90,
}


def printed_by(docstring: str | None) -> str:
    """The block that a docstring ends with, after "Prints:"."""
    _, marked, block = (docstring or "").partition("Prints:\n")
    assert marked, 'the docstring ends with "Prints:" and what the example prints'
    return textwrap.dedent(block).strip() + "\n"


@pytest.fixture(autouse=True)
def own_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-these-tests")
    for variable in real_model.MODELS:
        monkeypatch.delenv(variable, raising=False)
    root = logging.getLogger()  # a worker of Celery sets it up anew
    level, handlers = root.level, [*root.handlers]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.mark.each
@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize("name", sorted({*NAMES} - ELSEWHERE.keys()))
def test_an_example_prints_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = import_module(f"examples.{name}")
    done = example.main()
    if inspect.isawaitable(done):
        asyncio.run(_wait(done))
    assert capsys.readouterr().out == printed_by(example.__doc__)


@pytest.mark.parametrize("page", ["coding-agents", "mcp-gate", "langgraph", "agui"])
def test_the_transcript_of_a_manual_page_is_what_its_example_prints(page: str) -> None:
    text = (EXAMPLES.parent / "docs" / f"{page}.md").read_text(encoding="utf-8")
    [(name, block)] = re.findall(r"\(\.\./examples/(\w+)\.py\)\. It prints:\n\n```text\n(.*?)```", text, re.DOTALL)
    assert block == printed_by(import_module(f"examples.{name}").__doc__)


async def _wait(done: Any) -> None:
    await done


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGER.get(name, LINES)
    assert text.startswith('"""')
    assert "from examples" not in text, "a file that is started by itself finds no other example"
    assert ("def main(" in text and '\nif __name__ == "__main__":\n' in text) or name == "test_my_agent"


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


def test_a_real_model_plays_where_a_key_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = function_call("delete_backup", {"name": "2019-03"}, call_id="c1")
    with ResponsesServer([[call], "Deleted."]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        asyncio.run(real_model.main())
        assert len(server.requests) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "OPENAI_API_KEY is set: openai:gpt-5.6-luna plays"
    assert said[-1] == "Deleted."


def test_the_inbox_on_the_web_decides() -> None:
    ann, bob = ({"authorization": token} for token in fastapi_inbox.TOKENS)
    with TestClient(fastapi_inbox.web) as client:
        assert client.get("/inbox").status_code == 401
        run = client.post("/runs", params={"text": "Pay Ada."}, headers=bob).json()
        assert client.get(f"/runs/{run}", headers=bob).json() == {"answer": None, "waits": 1}
        [request] = client.get("/inbox", headers=ann).json()
        assert (request["tool"], request["params"]) == ("pay", {"to": "ada", "amount": 900})

        def approve(digest: str, who: dict[str, str]) -> Any:
            return client.post(f"/inbox/{request['id']}/approve", params={"digest": digest}, headers=who)

        assert approve("of something else", ann).status_code == 409
        assert approve(request["digest"], ann).json() == "approve"
        assert approve(request["digest"], bob).status_code == 409
        until_now(lambda: client.get(f"/runs/{run}", headers=bob).json()["answer"] == "Paid.", 30)
        assert client.get("/inbox", headers=ann).json() == []
