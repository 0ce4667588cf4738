"""The trial of published programs, on programs of our own: what ran, what differs, what is missing, what failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.table import each
from trials.published import Outcome, compared, main, noted
from trials.robot.forms import FormFiller
from trials.robot.model import Asked, Robot
from trials.robot.service import RobotService

ASKS = """
import asyncio
from agents import Agent, Runner, function_tool
from examples.auto_mode import confirm

@function_tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    print("paid", amount)
    return "paid"

async def main():
    agent = Agent(name="desk", tools=[pay])
    result = await Runner.run(agent, "Pay Ann.")
    while result.interruptions:
        state = result.to_state()
        for each in result.interruptions:
            state.approve(each) if confirm() else state.reject(each)
        result = await Runner.run(agent, state)
    print(result.final_output)

if __name__ == "__main__":
    asyncio.run(main())
"""
PATCHES = """
import tempfile
from pathlib import Path
from agents import Agent, ApplyPatchTool, Runner, apply_diff

class Editor:
    def __init__(self, root):
        self.root = Path(root)
    def create_file(self, operation):
        (self.root / operation.path).write_text(apply_diff("", operation.diff, mode="create"))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        Runner.run_sync(Agent(name="a", tools=[ApplyPatchTool(editor=Editor(root))]), "Write notes.md.")
        print((Path(root) / "notes.md").read_text())
"""
PROGRAMS = {
    "auto_mode.py": "def confirm():\n    return input('Sure? ') == 'y'\n",
    "basic/asks.py": ASKS,
    "basic/patches.py": PATCHES,
    "basic/sockets.py": "from agents import responses_websocket_session\nif __name__ == '__main__': print(1)\n",
    "basic/remote.py": "import agents, no_such_package\nif __name__ == '__main__': print(1)\n",
    "basic/wrong.py": "import agents\nif __name__ == '__main__': raise SystemExit(agents.Agent('a').no_such_thing)\n",
    "basic/part.py": "import agents\n",
    "voice/spoken.py": "import agents\nif __name__ == '__main__': print(1)\n",
}


@pytest.mark.trial
@pytest.mark.usefixtures("forked_children")
def test_each_program_is_reported_for_what_became_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in PROGRAMS.items():
        path = tmp_path / "examples" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert main([str(tmp_path / "examples")]) == 1
    told = capsys.readouterr().out
    lines = {line[24:].split()[0]: line for line in told.splitlines() if "basic/" in line or "voice/" in line}
    assert set(lines) == {f"basic/{name}" for name in ("asks", "patches", "sockets", "remote", "wrong")}
    assert lines["basic/asks"].startswith("ran ")
    assert lines["basic/patches"].startswith("differs on purpose")
    assert "ApplyPatchTool asks before each call" in lines["basic/patches"]
    assert "models are asked over HTTP only" in lines["basic/sockets"]
    assert "the package no_such_package" in lines["basic/remote"]
    assert lines["basic/wrong"].startswith("failed ")
    assert "no_such_thing" in lines["basic/wrong"]
    assert "| basic  |   1 |                  2 |                      1 |      1 |" in told
    assert "not run: voice" in told


def test_shapes_are_compared_and_not_ids() -> None:
    before = Outcome(0, "call_0123456789ab took 1.5 s at /tmp/x\nsame\n", "")
    assert compared(before, Outcome(0, "call_ffffffff0000 took 22 s at /tmp/y\nsame\n", "")) == []
    assert compared(before, Outcome(1, "other\n", ""))[0] == "-exit code 0"


def test_what_migrate_says_is_read_by_file() -> None:
    said = "- one thing\n    /t/examples/a/b.py:3\n    /t/examples/c.py:1\n- two\n    /t/examples/c.py:2\n"
    assert noted(f"1 files\nTo look at:\n{said}") == {"a/b.py": ["one thing"], "c.py": ["one thing", "two"]}


@each(
    ("schema", "value"),
    [
        ({"type": "string", "maxLength": 3}, "wor"),
        ({"type": "string", "format": "date"}, "2026-01-02"),
        ({"enum": ["b", "a"]}, "b"),
        ({"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 5, "maximum": 9}]}, 5),
        ({"$ref": "#/$defs/P", "$defs": {"P": {"properties": {"x": {"type": "number"}}, "required": ["x"]}}}, {"x": 2}),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [True, False]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"1": "words"}),
    ],
)
def test_forms_are_filled_in_as_their_schema_says(schema: Any, value: Any) -> None:
    assert FormFiller().value(schema, "words") == value


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}


def test_a_robot_calls_each_tool_once_a_turn_then_hands_over_then_answers() -> None:
    robot, tools = Robot(), [function("transfer_to_b"), function("look"), function("save")]
    items: list[Any] = [{"role": "user", "content": "go"}]
    said: list[list[str]] = []
    for _ in range(3):
        reply = robot.answer(Asked(list(items), tools))
        said.append([item.get("name", item["type"]) for item in reply])
        items += reply
    assert said == [["look", "save"], ["transfer_to_b"], ["message"]]
    assert (
        robot.answer(Asked([*items, {"role": "user", "content": "more"}], tools, choice="none"))[0]["type"] == "message"
    )
    one = robot.answer(Asked([{"role": "user", "content": "again"}], tools, choice={"name": "save"}))
    assert [item["name"] for item in one] == ["save"]


def test_a_robot_asks_before_a_hosted_tool_and_goes_on_when_it_may() -> None:
    tool = {"type": "mcp", "server_label": "wiki", "require_approval": {"always": {"tool_names": ["ask"]}}}
    user = {"role": "user", "content": "go"}
    [asked] = Robot().answer(Asked([user], [tool]))
    assert (asked["type"], asked["name"]) == ("mcp_approval_request", "ask")
    for approve, kinds in ((True, ["mcp_call", "message"]), (False, ["message"])):
        answer = {"type": "mcp_approval_response", "approve": approve}
        assert [item["type"] for item in Robot().answer(Asked([user, answer], [tool]))] == kinds


@pytest.fixture
def client() -> Iterator[OpenAI]:
    with RobotService() as service:
        yield OpenAI(api_key="k", base_url=service.base_url, max_retries=0)


def test_the_service_speaks_both_apis_and_keeps_conversations(client: OpenAI) -> None:
    said = client.responses.create(model="m", input="hello")
    assert said.output_text == "The robot has 0 results."
    chat = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    assert chat.choices[0].message.content == said.output_text
    kept = client.conversations.create(items=[{"role": "user", "content": "hello"}])
    assert [item.type for item in client.conversations.items.list(kept.id)] == ["message"]
    store = client.vector_stores.create(name="s")
    file = client.files.create(file=("a.txt", b"text"), purpose="assistants")
    assert client.vector_stores.files.create(store.id, file_id=file.id).status == "completed"
    assert client.vector_stores.delete(store.id).deleted
