"""Real processes that misbehave: they end in time, leave nothing behind, learn no secrets, and never hang anybody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    BubblewrapExecutor,
    LocalExecutor,
    LocalShellActionRequest,
    LocalShellCallData,
    LocalShellCommandRequest,
    UserError,
)
from keyturn.tools.base import OutcomeUnknown, ToolProblem
from keyturn.tools.processes import supervised
from keyturn.tools.shell_calls import ShellActionRequest, ShellCallData, ShellCommandOutput, ShellCommandRequest
from tests.tools.processes.left_behind import LINUX, alive
from tests.waiting import turns_of_the_loop, until

needs_linux = pytest.mark.skipif(not LINUX, reason="only Linux lets a process adopt what its children leave behind")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    async def run(
        *commands: str, root: Path = tmp_path, timeout: float = 20, **limits: Any
    ) -> list[ShellCommandOutput]:
        request = ShellCommandRequest(None, ShellCallData("c1", ShellActionRequest(list(commands), **limits)))
        return (await LocalExecutor(root, timeout=timeout)(request)).output

    return run


async def test_what_a_command_writes_and_how_it_ends(run: Any) -> None:
    [ran] = await run("echo out; echo err >&2; exit 7")
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.status) == ("out\n", "err\n", 7, "completed")
    assert [each.exit_code for each in await run("true", "false", "kill -9 $$", "nosuch")] == [0, 1, 137, 127]


async def test_each_command_has_a_shell_of_its_own(run: Any, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    outputs = await run("X=1; cd below; pwd", 'pwd; echo "[$X]"')
    assert [each.stdout for each in outputs] == [f"{tmp_path}/below\n", f"{tmp_path}\n[]\n"]


async def test_there_is_no_input_and_no_terminal(run: Any) -> None:
    [ran] = await run('read x; echo "[$x]"; tty; exec 3</dev/tty')
    assert ran.stdout == "[]\nnot a tty\n"
    assert ran.exit_code != 0


async def test_a_command_that_looks_like_an_option_is_a_command(run: Any) -> None:
    [ran] = await run("-x")
    assert (ran.exit_code, "-x" in ran.stderr) == (127, True)


async def test_a_pipe_ends_as_it_does_in_a_terminal(run: Any) -> None:
    [ran] = await run("yes | head -n 2")
    assert (ran.stdout, ran.stderr, ran.exit_code) == ("y\ny\n", "", 0)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep MARK", marks=pytest.mark.trial),
        "trap '' TERM INT HUP; sleep MARK; sleep MARK",
        pytest.param("sleep MARK & sleep MARK & wait", marks=pytest.mark.trial),
        pytest.param("setsid sleep MARK & sleep MARK", marks=[needs_linux, pytest.mark.trial]),
        pytest.param("setsid sh -c '(trap \"\" TERM; sleep MARK) & sleep MARK' & sleep MARK", marks=needs_linux),
        pytest.param("(setsid sh -c 'setsid sleep MARK &' &); sleep MARK", marks=needs_linux),
        pytest.param("nohup setsid sleep MARK >/dev/null 2>&1 & disown; exec sleep MARK", marks=needs_linux),
        "yes MARK",
        "kill -STOP $$; sleep MARK",
    ],
)
async def test_nothing_is_left_when_the_time_is_over(run: Any, marker: str, command: str) -> None:
    [ran] = await run(f"echo begun; {command.replace('MARK', marker)}", timeout_ms=1200)
    assert ran.status == "timeout"
    assert ran.exit_code is None
    assert ran.stdout.startswith("begun\n")
    assert "[stopped after 1.2 s]" in ran.stderr
    assert alive(marker) == []


@pytest.mark.trial
@pytest.mark.parametrize("command", ["sleep MARK", "trap '' TERM; (setsid sleep MARK &); yes MARK"])
async def test_nothing_is_left_when_nobody_waits_any_more(run: Any, marker: str, tmp_path: Path, command: str) -> None:
    task = asyncio.create_task(run(f"echo > begun; {command.replace('MARK', marker)}"))
    await until((tmp_path / "begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [line for line in alive(marker) if LINUX or "setsid" not in line] == []


async def test_being_cancelled_again_and_again_does_not_stop_the_ending(run: Any, marker: str, tmp_path: Path) -> None:
    task = asyncio.create_task(run(f"echo > begun; trap '' TERM; sleep {marker}; sleep {marker}"))
    await until((tmp_path / "begun").exists)

    def cancelled_once_more() -> bool:
        task.cancel()
        return task.done()

    await until(cancelled_once_more)
    assert task.cancelled()
    assert alive(marker) == []


async def test_being_cancelled_at_any_moment_leaves_nothing(run: Any, marker: str) -> None:
    for turns in range(12):
        task = asyncio.create_task(run(f"sleep {marker}"))
        await turns_of_the_loop(turns)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # A command that was just being started hears of it when its keeper does.
    await until(lambda: not alive(marker))


@needs_linux
async def test_what_goes_on_in_the_background_ends_with_its_command(run: Any, marker: str) -> None:
    [ran] = await run(f"(setsid sleep {marker} &); sleep {marker} & echo started")
    assert (ran.stdout, ran.exit_code) == ("started\n", 0)
    assert ran.stderr == "[2 of its processes were still running and were ended]"
    assert alive(marker) == []


@needs_linux
async def test_nothing_is_left_when_this_process_is_killed(marker: str, tmp_path: Path) -> None:
    code = f"""
import asyncio
from keyturn.tools.processes.command import LocalExecutor
command = "echo > begun; setsid sleep {marker} & sleep {marker}"
asyncio.run(LocalExecutor({str(tmp_path)!r}).run(["/bin/sh", "-c", command]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    await until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    await until(lambda: not alive(f"sleep {marker}"))


@needs_linux
async def test_a_bounded_fork_bomb_is_ended(run: Any, marker: str) -> None:
    bomb = f"f() {{ if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; sleep {marker}; }}; f 5"
    [ran] = await run(f"trap '' TERM; {bomb}", timeout_ms=1200)
    assert ran.status == "timeout"
    assert alive(marker) == []


@pytest.mark.trial
@needs_linux
async def test_processes_that_start_others_for_ever_are_ended(run: Any, marker: str) -> None:
    """A chain in which each link starts the next one in a session of its own, and is gone."""
    link = f'sleep 0.01; exec setsid -f sh -c "$LINK" {marker}'
    [ran] = await run(f"export LINK='{link}'; setsid -f sh -c \"$LINK\" {marker}; sleep {marker}", timeout_ms=500)
    assert ran.status == "timeout"
    assert alive(marker) == []


@needs_linux
async def test_a_command_that_kills_its_keeper_is_in_doubt(run: Any, marker: str) -> None:
    with pytest.raises(OutcomeUnknown, match="is gone"):
        await run(f"kill -9 $PPID; sleep {marker}; echo")
    await until(lambda: not alive(f"sleep {marker}"))


@needs_linux
@pytest.mark.parametrize("ends", ["the time is over", "nobody waits any more"])
async def test_a_command_that_stops_its_keeper_leaves_nothing_behind(
    run: Any, marker: str, tmp_path: Path, ends: str
) -> None:
    """L8: a stopped keeper ends nothing, so it is woken, and what has a session of its own goes with the rest."""
    command = f"setsid sleep {marker} & kill -STOP $PPID; echo > begun; sleep {marker}"
    task = asyncio.create_task(run(command, timeout_ms=1200 if ends == "the time is over" else None))
    await until((tmp_path / "begun").exists)
    if ends == "the time is over":
        [ran] = await task
        assert ran.status == "timeout"
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert alive(marker) == []


@needs_linux
async def test_a_command_that_stops_its_keeper_for_ever_is_ended_by_whoever_started_it(
    run: Any, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L8: woken, it is stopped again at once. Then all that is below it is ended past it, and the call is in doubt."""
    monkeypatch.setattr(supervised, "_KEEPER_ENDS", 2.0)
    stops = f"while :; do kill -STOP $KEEPER || exit; done # {marker}"
    command = f"export KEEPER=$PPID; for n in 1 2 3; do setsid sh -c '{stops}' & done; setsid sleep {marker} & wait"
    with suppress(OutcomeUnknown):  # or the keeper was quicker
        await run(command, timeout_ms=500)
    assert alive(marker) == []


async def test_output_without_end_is_bounded(run: Any) -> None:
    [ran] = await run("yes", timeout_ms=500, max_output_length=200)
    assert ran.status == "timeout"
    assert len(ran.stdout) + len(ran.stderr) <= 200
    assert "characters cut" in ran.stdout


async def test_ten_megabytes_are_cut_where_everybody_sees_it(run: Any) -> None:
    [ran] = await run("echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last; echo oops >&2")
    assert len(ran.stdout) + len(ran.stderr) <= 32_000
    assert ran.stdout.startswith("first\nxxx")
    assert ran.stdout.endswith("xxx\nlast\n")
    assert "of 10,000,012 characters cut" in ran.stdout
    assert ran.stderr == "oops\n"


async def test_bytes_that_are_no_text_are_shown_as_such(run: Any) -> None:
    [ran] = await run("printf 'a\\377\\376b\\303\\251\\342\\202'")
    assert ran.stdout == "a\ufffd\ufffdb\u00e9\ufffd"


async def test_the_environment_holds_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    for executor, there in (
        (LocalExecutor(tmp_path), []),
        (LocalExecutor(tmp_path, inherit=("VIRTUAL_ENV",)), ["/venv"]),
    ):
        ran = await executor.run(["/usr/bin/env"])
        assert "hunter2" not in ran.stdout
        assert "PATH=" in ran.stdout
        assert [value for value in ("/venv",) if value in ran.stdout] == there
    executor = LocalExecutor(tmp_path, env={"MODE": "test"})
    assert "MODE=test" in (await executor.run(["/usr/bin/env"])).stdout
    assert executor.about()["environment"] == ["MODE"], "names are shown, values are not"


def test_nobody_finds_a_short_value_of_the_environment_by_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[Any]()
    for secret, pin in (("a" * 32, "1234"), ("a" * 32, "1234"), ("a" * 32, "4321"), ("b" * 32, "1234")):
        monkeypatch.setenv("KEYTURN_SECRET", secret)
        shown.append(LocalExecutor(tmp_path, env={"PIN": pin}).about()["its values"])
    assert (shown[0] == shown[1], len(set(shown))) == (True, 3), "another value, or another key, is another MAC"
    assert "its values" not in LocalExecutor(tmp_path).about()
    assert "its values" not in BubblewrapExecutor(tmp_path).about()
    assert "its values" in BubblewrapExecutor(tmp_path, env={"HOME": "/srv"}).about()


@pytest.mark.parametrize("cwd", ["..", "../..", "/", "/etc", "below/../..", "link", "link/below", "below/up"])
async def test_a_working_directory_stays_below_the_root(tmp_path: Path, cwd: str) -> None:
    root = tmp_path / "root"
    (root / "below").mkdir(parents=True)
    (tmp_path / "rooted").mkdir()
    (root / "link").symlink_to("/")
    (root / "below" / "up").symlink_to("../../rooted")
    with pytest.raises(ToolProblem, match="outside"):
        await LocalExecutor(root).run(["pwd"], cwd=cwd)
    assert (await LocalExecutor(root).run(["pwd"], cwd="below")).stdout == f"{root}/below\n"


async def test_what_cannot_be_started_is_a_problem_in_words(run: Any, tmp_path: Path) -> None:
    executor = LocalExecutor(tmp_path)
    for argv, options, words in (
        (["nosuchprogram"], {}, "no such program"),
        (["ls", "a\0b"], {}, "NUL"),
        (["ls"], {"env": {"A": "b\0"}}, "NUL"),
        (["ls"], {"cwd": "nowhere"}, "does not exist"),
        (["ls"], {"env": {"A=B": "c"}}, "could not be started"),
    ):
        with pytest.raises(ToolProblem, match=words):
            await executor.run(argv, **options)
    with pytest.raises(ToolProblem, match="does not exist"):
        await run("ls", root=tmp_path / "gone")
    (tmp_path / "data").write_text("no program")
    (tmp_path / "data").chmod(0o755)
    ran = await executor.run([str(tmp_path / "data")])
    assert (ran.exit_code, "cannot be started" in ran.stderr) == (127, True)


async def test_a_request_may_ask_for_less_time_and_never_for_more(run: Any) -> None:
    [ran] = await run("sleep 20", timeout=0.3, timeout_ms=60_000)
    assert ran.status == "timeout"


@pytest.mark.trial
async def test_many_commands_at_once(run: Any) -> None:
    done = await asyncio.gather(*(run(f"echo {number}") for number in range(20)))
    assert [each[0].stdout for each in done] == [f"{number}\n" for number in range(20)]


async def test_one_program_without_a_shell(tmp_path: Path) -> None:
    async def local(*command: str, **around: Any) -> ShellCommandOutput:
        action = LocalShellActionRequest(list(command), **around)
        return (await LocalExecutor(tmp_path)(LocalShellCommandRequest(None, LocalShellCallData("c1", action)))).output[
            0
        ]

    assert (await local("echo", "$HOME; id", "*")).stdout == "$HOME; id *\n"
    assert (await local("env", env={"A": "b"})).stdout.count("A=b\n") == 1
    with pytest.raises(ToolProblem, match="another user"):
        await local("id", user="root")
    with pytest.raises(ToolProblem, match="outside"):
        await local("id", working_directory="..")


@pytest.mark.each
@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": True}, {"inherit": "PATH"}])
def test_what_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        LocalExecutor("/tmp", **options)
