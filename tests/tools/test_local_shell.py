"""The older local shell: the room's promises, its calls on the wire, and what people are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn import Agent, Command, LocalExecutor, LocalShellCommandRequest, LocalShellTool, Runner, Text, UserError
from keyturn.core.items import Item
from keyturn.render import terminal
from keyturn.testing import ScriptedModel, ToolSuite, drive
from keyturn.testing.crash import Effects


def local_call(label: str, *command: Any, **around: Any) -> Item:
    action = {"type": "exec", "command": list(command), "env": {}, **around}
    return {"type": "local_shell_call", "call_id": label, "action": action}


class TestLocalShellTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        async def executor(request: LocalShellCommandRequest) -> str:
            effects.record(request.ctx_wrapper, " ".join(request.data.action.command))
            return "done"

        return LocalShellTool(executor, **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return local_call(label, "make", f"target{variant}")

    def edited(self) -> dict[str, Any]:
        return {"command": ["make", "target1"]}

    def refused(self) -> list[Item]:
        around: list[dict[str, Any]] = [
            {"env": []},
            {"env": {"A": 1}},
            {"env": {"A": "b\0"}},
            {"timeout_ms": 0},
            {"timeout_ms": True},
            {"user": 0},
            {"working_directory": ["/"]},
            {"working_directory": "a\0b"},
            {"stdin": "y"},
        ]
        calls = [
            local_call("bad", *command) for command in ((), ("",), (3,), ("ls", None), ("ls\0",), ("ls", "\ud800"))
        ]
        calls += [local_call("bad", "ls", **each) for each in around]
        return [*calls, *({"type": "local_shell_call", "call_id": "bad", "action": given} for given in (None, [], {}))]


def agent(tool: Any, *calls: Item) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([list(calls), "Done."]), tools=[tool])


def told(result: Any) -> Any:
    return next(item.raw_item for item in result.new_items if item.type == "tool_call_output_item")


async def test_a_real_program_runs_when_it_was_approved(tmp_path: Any, streamed: bool) -> None:
    (tmp_path / "below").mkdir()
    call = local_call("c1", "sh", "-c", 'echo "$MODE $0 $(pwd)"', "a; b", env={"MODE": "x"}, working_directory="below")
    tool = LocalShellTool(LocalExecutor(tmp_path))
    item = told(await drive(agent(tool, call), "go", streamed=streamed, through_text=True))
    assert (item["type"], item["call_id"]) == ("local_shell_call_output", "c1")
    [part] = json.loads(item["output"])
    assert part == {
        "stdout": f"x a; b {tmp_path}/below\n",
        "stderr": "",
        "outcome": {"type": "exit", "exit_code": 0},
    }


@pytest.mark.parametrize(
    ("around", "words"),
    [
        ({"working_directory": "/etc"}, "outside"),
        ({"user": "root"}, "another user"),
        ({"working_directory": ".."}, "outside"),
    ],
)
async def test_what_the_executor_does_not_do_is_said(tmp_path: Any, around: dict[str, Any], words: str) -> None:
    tool = LocalShellTool(LocalExecutor(tmp_path), needs_approval=False)
    assert words in told(await Runner.run(agent(tool, local_call("c1", "touch", "x", **around)), "go"))["output"]
    assert list(tmp_path.iterdir()) == []


async def test_it_asks_unless_the_user_says_otherwise() -> None:
    call = local_call("c1", "ls", timeout_ms=500)
    paused = await Runner.run(agent(LocalShellTool(lambda _request: "x"), call), "go")
    assert [item.tool_name for item in paused.interruptions] == ["local_shell"]
    needs: list[Any] = []
    tool = LocalShellTool(lambda _request: "x", needs_approval=lambda _c, action, _i: needs.append(action) or False)
    assert (await Runner.run(agent(tool, call), "go")).final_output == "Done."
    assert [(action.command, action.timeout_ms, action.env) for action in needs] == [(["ls"], 500, {})]


def test_every_argument_is_shown_for_itself() -> None:
    preview = LocalShellTool(LocalExecutor("/tmp")).preview(
        {"command": ["xargs", "a b", "c;\u202ed", "e, f", ""], "env": {"LD_PRELOAD": "./x.so"}, "timeout_ms": None}
    )
    command, words, around = preview.blocks
    assert isinstance(command, Command)
    assert command.command == "xargs 'a b' 'c;\u202ed' 'e, f' ''"
    assert isinstance(words, Text)
    assert words.text.splitlines() == [
        "program: xargs",
        'arguments: a b, c;\u202ed, "e, f", ""',
        "can run other programs: xargs",
        "hidden characters: U+202E RIGHT-TO-LEFT OVERRIDE",
    ]
    assert isinstance(around, Text)
    assert 'env: {"LD_PRELOAD": "./x.so"}' in around.text.splitlines()
    assert "\u202e" not in terminal.render(preview)


def test_an_executor_is_a_function() -> None:
    executor: Any = "ls"
    with pytest.raises(UserError, match="executor"):
        LocalShellTool(executor)
