"""The shell tool: the room's promises, its calls on the wire, what is refused, and what people are shown."""

from __future__ import annotations

import json
import shlex
import threading
from typing import Any

import pytest

from keyturn import (
    Agent,
    Command,
    InvalidArguments,
    LocalExecutor,
    Runner,
    SandboxUnavailable,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    Text,
    UserError,
)
from keyturn.core.items import Item
from keyturn.render import html, terminal
from keyturn.testing import ScriptedModel, ToolSuite, assistant_message, drive, function_call
from keyturn.testing.crash import Effects
from keyturn.tools.shell_calls import check_text
from keyturn.tools.shell_preview import NOT_UNDERSTOOD
from tests.playing import cut_off
from tests.table import each
from tests.waiting import until


def shell_call(label: str, *commands: Any, **action: Any) -> Item:
    return {"type": "shell_call", "call_id": label, "action": {"commands": list(commands), **action}}


def recording(effects: Effects) -> Any:
    async def executor(request: ShellCommandRequest) -> ShellResult:
        effects.record(request.ctx_wrapper, " && ".join(request.data.action.commands))
        return ShellResult([ShellCommandOutput("done\n", outcome=ShellCallOutcome("exit", 0))])

    return executor


class TestShellTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        return ShellTool(recording(effects), **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return shell_call(label, f"make target{variant}")

    def edited(self) -> dict[str, Any]:
        return {"commands": ["make target1"]}

    def refused(self) -> list[Item]:
        bad: list[tuple[Any, ...]] = [(), ("",), (" \n",), (3,), ("ls\0 -l",), ("ls", None), ("\ud800",), ("ls",) * 51]
        limits: list[dict[str, Any]] = [
            {"timeout_ms": 0},
            {"timeout_ms": True},
            {"timeout_ms": "9"},
            {"max_output_length": -1},
            {"max_output_length": 1.5},
            {"working_directory": "/etc"},
        ]
        calls = [shell_call("bad", *commands) for commands in bad]
        calls += [shell_call("bad", "ls", **limit) for limit in limits]
        calls += [{"type": "shell_call", "call_id": "bad", "action": action} for action in (None, [], "ls", {})]
        return [*calls, {"type": "shell_call", "call_id": "bad"}]


class TestShellToolAsAFunction(TestShellTool):
    """For a provider that knows no shell calls it is a function."""

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("shell", {"commands": [f"make target{variant}"]}, call_id=label)

    def refused(self) -> list[Item]:
        texts = (
            "",
            "{",
            "[]",
            '{"commands":[]}',
            '{"commands":["ls"],"cwd":"/"}',
            '{"commands":["a"],"commands":["b"]}',
        )
        return [function_call("shell", text, call_id="bad") for text in texts]


class TestShellToolInReality(TestShellTool):
    """The same, with processes: what happened is what a command wrote into a file."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Any) -> None:
        self.root = tmp_path

    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        local = LocalExecutor(self.root, timeout=20)

        async def executor(request: ShellCommandRequest) -> ShellResult:
            result = await local(request)
            effects.record(request.ctx_wrapper, result.output[0].stdout)
            return result

        return ShellTool(executor, **settings)

    def call(self, label: str, variant: int = 0) -> Item:
        return shell_call(label, f"echo target{variant}")

    def edited(self) -> dict[str, Any]:
        return {"commands": ["echo target1"]}

    test_no_crash_loses_or_doubles_an_effect = None  # hundreds of crashes are tried above, without processes


def told(result: Any) -> list[Any]:
    return [item.raw_item for item in result.new_items if item.type == "tool_call_output_item"]


def agent(tool: Any, *calls: Item) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([list(calls), "Done."]), tools=[tool])


async def test_a_real_command_runs_when_it_was_approved(tmp_path: Any, streamed: bool) -> None:
    tool = ShellTool(LocalExecutor(tmp_path))
    calls = [shell_call("c1", "echo one; echo two >&2; exit 3", "pwd", max_output_length=500)]
    result = await drive(agent(tool, *calls), "go", streamed=streamed, through_text=True)
    [item] = told(result)
    assert item["type"] == "shell_call_output"
    assert item["max_output_length"] == 500
    assert item["output"] == [
        {"stdout": "one\n", "stderr": "two\n", "outcome": {"type": "exit", "exit_code": 3}},
        {"stdout": f"{tmp_path}\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    ]


async def test_it_asks_unless_the_user_says_otherwise() -> None:
    ran: list[str] = []
    for tool in (ShellTool(lambda request: ran.append("x") or "y"), ShellTool(lambda _r: "y", needs_approval=True)):
        result = await Runner.run(agent(tool, shell_call("c1", "ls")), "go")
        assert [item.tool_name for item in result.interruptions] == ["shell"]
    assert ran == []
    done = await Runner.run(agent(ShellTool(lambda _r: "free", needs_approval=False), shell_call("c1", "ls")), "go")
    assert told(done)[0]["output"][0]["stdout"] == "free"


async def test_a_callable_gets_the_action() -> None:
    async def needs(_context: Any, action: Any, call_id: str) -> bool:
        return call_id == "c1" and "rm" in " ".join(action.commands) and action.timeout_ms == 500

    tool = ShellTool(lambda _request: "ok", needs_approval=needs)
    result = await Runner.run(agent(tool, shell_call("c1", "rm x", timeout_ms=500), shell_call("c2", "rm x")), "go")
    assert [item.call_id for item in result.interruptions] == ["c1"]


@pytest.mark.parametrize("answer", [{"approve": True}, {"approve": False, "reason": "not here"}, {"approve": 1}])
async def test_on_approval_decides_only_by_a_real_answer(answer: dict[str, Any]) -> None:
    asked: list[list[str]] = []

    async def on_approval(_context: Any, item: Any) -> Any:
        asked.append(item.params["commands"])
        return answer

    tool = ShellTool(lambda _request: "ran", on_approval=on_approval)
    result = await Runner.run(agent(tool, shell_call("c1", "ls")), "go")
    assert asked == [["ls"]]
    if answer["approve"] == 1 and answer["approve"] is not True:
        assert [item.call_id for item in result.interruptions] == ["c1"]
        return
    part = told(result)[0]["output"][0]
    assert "ran" in part["stdout"] if answer["approve"] else part["stderr"] == "not here"


async def test_a_plain_function_runs_in_a_thread_of_its_own() -> None:
    threads: list[Any] = []
    tool = ShellTool(lambda _request: threads.append(threading.current_thread()) or "ok", needs_approval=False)
    await Runner.run(agent(tool, shell_call("c1", "ls")), "go")
    assert threads != [threading.current_thread()]


async def test_an_executor_may_be_an_object() -> None:
    class Executor:
        async def __call__(self, request: ShellCommandRequest) -> str:
            return f"{request.data.call_id}: {request.data.action.commands}"

    done = await Runner.run(agent(ShellTool(Executor(), needs_approval=False), shell_call("c1", "ls")), "go")
    assert told(done)[0]["output"][0]["stdout"] == "c1: ['ls']"


@pytest.mark.parametrize("answer", [None, 3, {"stdout": "x"}, RuntimeError("hunter2")])
async def test_an_executor_that_fails_is_a_failed_result(answer: Any) -> None:
    def executor(_request: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    done = await Runner.run(agent(ShellTool(executor, needs_approval=False), shell_call("c1", "ls")), "go")
    [part] = told(done)[0]["output"]
    assert part["outcome"] == {"type": "exit", "exit_code": 1}
    assert "error occurred" in part["stderr"]
    assert "hunter2" not in json.dumps(told(done))
    assert "Traceback" not in json.dumps(told(done))


async def test_a_timeout_is_an_outcome_and_no_doubt(tmp_path: Any) -> None:
    tool = ShellTool(LocalExecutor(tmp_path), needs_approval=False)
    calls = [shell_call("c1", "echo begun; sleep 60", "echo never", timeout_ms=1200)]
    result = await Runner.run(agent(tool, *calls), "go")
    assert result.interruptions == []
    [part] = told(result)[0]["output"]
    assert part["outcome"] == {"type": "timeout"}
    assert part["stdout"] == "begun\n"
    assert "not run after this: 1 of 2 commands" in part["stderr"]


async def test_long_output_is_cut_where_everybody_sees_it() -> None:
    tool = ShellTool(lambda _request: "x" * 10_000_000, needs_approval=False)
    calls = [shell_call("c1", "ls"), shell_call("c2", "ls", max_output_length=100)]
    first, second = told(await Runner.run(agent(tool, *calls), "go"))
    assert 31_990 <= len(first["output"][0]["stdout"]) <= 32_000
    assert 90 <= len(second["output"][0]["stdout"]) <= 100
    assert "of 10,000,000 characters cut" in second["output"][0]["stdout"]


async def test_without_a_sandbox_the_run_stops_and_nothing_ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = ShellTool(needs_approval=False)
    assert tool.about["runs"].startswith("in a sandbox")
    with pytest.raises(SandboxUnavailable, match="bwrap is missing"):
        await Runner.run(agent(tool, shell_call("c1", "touch ran")), "go")
    assert not (tmp_path / "ran").exists()


def test_what_cannot_be_is_refused_when_it_is_declared() -> None:
    def executor(_request: Any) -> str:
        return ""

    hosted = {"type": "container_auto"}
    wrong: list[dict[str, Any]] = [
        {"executor": "ls"},
        {"executor": executor, "needs_approval": "yes"},
        {"executor": executor, "on_approval": 3},
        {"executor": executor, "environment": hosted},
        {"environment": hosted, "needs_approval": True},
        {"environment": hosted, "on_approval": executor},
    ]
    for options in wrong:
        with pytest.raises(UserError):
            ShellTool(**options)


async def test_a_hosted_shell_is_run_by_the_provider() -> None:
    tool = ShellTool(environment={"type": "container_auto"})
    assert tool.provider_tool() == {"type": "shell", "environment": {"type": "container_auto"}}
    output = {"type": "shell_call_output", "call_id": "c1", "output": [], "id": "o1"}
    model = ScriptedModel([[shell_call("c1", "ls"), output, assistant_message("It is empty.")]])
    result = await Runner.run(Agent("desk", model=model, tools=[tool]), "go")
    assert (result.final_output, result.interruptions) == ("It is empty.", [])
    with pytest.raises(InvalidArguments):
        tool.prepare(shell_call("c1", "ls"))


def test_how_it_is_offered() -> None:
    tool = ShellTool(lambda _request: "")
    assert tool.provider_tool() == {"type": "shell", "environment": {"type": "local"}}
    assert tool.params_json_schema["required"] == ["commands", "timeout_ms", "max_output_length"]
    assert ShellTool(LocalExecutor("/tmp")).spec() != ShellTool(LocalExecutor("/usr")).spec(), "a place is approved too"


async def test_a_call_approved_for_one_place_does_not_run_in_another(tmp_path: Any) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    paused = await Runner.run(agent(ShellTool(LocalExecutor(here)), shell_call("c1", "touch x")), "go")
    state = paused.to_state()
    state.approve(state.get_interruptions()[0])
    elsewhere = agent(ShellTool(LocalExecutor(there)), shell_call("c1", "touch x"))
    text = state.to_string()
    again = await Runner.run(elsewhere, await type(state).from_string(elsewhere, text))
    assert [item.call_id for item in again.interruptions] == ["c1"]
    assert list(there.iterdir()) == []


async def test_an_edit_is_told_beside_the_output() -> None:
    tool = ShellTool(lambda request: " ".join(request.data.action.commands))
    state = (await Runner.run(agent(tool, shell_call("c1", "rm -rf /")), "go")).to_state()
    state.approve(state.get_interruptions()[0], edit={"commands": ["ls"], "timeout_ms": 900})
    parts = told(await Runner.run(agent(tool), state))[0]["output"]
    assert "A person changed the arguments" in parts[0]["stdout"]
    assert '"commands":["ls"]' in parts[0]["stdout"]
    assert parts[1]["stdout"] == "ls"


async def test_a_person_may_answer_with_what_a_command_would_have_written() -> None:
    tool = ShellTool(lambda _request: "never")
    parts = [{"stdout": "a.txt\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    for output, expected in ((parts, parts), ("look yourself", None)):
        state = (await Runner.run(agent(tool, shell_call("c1", "ls")), "go")).to_state()
        state.answer(state.get_interruptions()[0], output)
        got = told(await Runner.run(agent(tool), state))[0]["output"]
        assert got == expected if expected is not None else got[0]["stderr"] == "look yourself"


# --------------------------------------------------------------------------------------------- what people see


def test_each_command_is_shown_exactly_and_then_what_a_shell_reads_in_it() -> None:
    tool = ShellTool(LocalExecutor("/tmp"))
    commands = ["ls -l | grep x > out", 'PAGER="sh -c id" git log &', "case $1 in a) rm b;; esac"]
    blocks = tool.preview({"commands": commands, "timeout_ms": 500}).blocks
    assert [block.command for block in blocks[:6:2] if isinstance(block, Command)] == commands
    read = [block.text.splitlines() for block in blocks[1::2] if isinstance(block, Text)]
    assert read[0] == ["programs: ls, grep", "joined by: |", "redirections: > out"]
    assert read[1] == [
        "programs: git",
        "can run other programs: git",
        'environment: PAGER="sh -c id"',
        "joined by: &",
        "in the background: git",
    ]
    assert read[2][0] == f"{NOT_UNDERSTOOD}: from character 1 on: 'case'; what follows is not all of it"
    runs = blocks[-1]
    assert isinstance(runs, Text)
    assert {"in: /tmp", "timeout_ms: 500"} <= {*runs.text.splitlines()}


@each(
    "command",
    [
        "ls $(id\nprograms: ls)",
        "X='a\nprograms: ls' ls",
        "'ls\nprograms: ls'",
        "ls > 'a\nprograms: ls'",
        "ls # x\nprograms: ls",
        "ls *'\nprograms: ls'",
    ],
)
def test_a_command_writes_no_facts_about_itself(command: str) -> None:
    read = ShellTool(lambda _request: "").preview({"commands": [command]}).blocks[1]
    assert isinstance(read, Text)
    assert sum(row.startswith("programs: ") for row in read.text.splitlines()) == 1


def test_a_name_with_a_comma_is_one_name() -> None:
    read = ShellTool(lambda _request: "").preview({"commands": ["'ls, pwd' ''; pwd"]}).blocks[1]
    assert isinstance(read, Text)
    assert read.text.splitlines()[0] == 'programs: "ls, pwd", pwd'


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo safe\u202e; rm -rf x", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("ls\r\x1b[2Krm -rf x", "U+001B CONTROL"),
        ("l\u200bs", "U+200B ZERO WIDTH SPACE"),
        ("\u0455udo id", "U+0455 CYRILLIC SMALL LETTER DZE"),
        ("ls \U000e0041\U000e0100", "U+E0041 TAG LATIN CAPITAL LETTER A"),
    ],
)
def test_hidden_characters_are_named_and_never_printed(command: str, shown: str) -> None:
    preview = ShellTool(lambda _request: "").preview({"commands": [command]})
    for text in (terminal.render(preview, width=200), html.render(preview)):
        assert shown in text
        assert not any(char in text for char in "\u202e\x1b\r\u200b\U000e0041\U000e0100")


def test_facts_about_a_hostile_command_are_bounded() -> None:
    preview = ShellTool(lambda _request: "").preview({"commands": [";".join(f"p{n}" for n in range(5000))]})
    facts = preview.blocks[1]
    assert isinstance(facts, Text)
    assert facts.text.splitlines()[0].endswith("p39, ... and 4960 more")


def test_a_command_that_seems_to_end_the_preview_does_not() -> None:
    command = "ls\n```\nApproved by ops.\n```\n" + shlex.quote("x")
    preview = ShellTool(lambda _request: "").preview({"commands": [command]})
    lines = terminal.render(preview).splitlines()
    assert all(line.startswith("| ") for line in lines if "Approved by ops" in line)


async def test_a_run_that_is_cancelled_ends_its_commands_and_is_in_doubt(tmp_path: Any, streamed: bool) -> None:
    command = f"echo > begun; trap '' TERM; sleep 50; echo > {tmp_path}/late"
    desk = agent(ShellTool(LocalExecutor(tmp_path)), shell_call("c1", command))
    state = (await Runner.run(desk, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    await cut_off(desk, state, lambda: until((tmp_path / "begun").exists), streamed)
    [item] = (await Runner.run(desk, state)).interruptions
    assert (item.kind, item.call_id) == ("in_doubt", "c1")
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_a_text_of_which_less_is_run_than_is_shown_is_refused() -> None:
    for text, why in (("ls\0; id", "NUL"), ("ls \ud800", "lone surrogate")):
        with pytest.raises(InvalidArguments, match=why):
            check_text("shell", text)
    check_text("shell", "ls \u00e9\t\U0001f511")
