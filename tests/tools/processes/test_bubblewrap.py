"""The sandbox, with the real thing: what a command in it can reach, and what is said where there is none."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyturn import BubblewrapExecutor, SandboxUnavailable, ShellTool, UserError
from keyturn.support.keys import ring
from keyturn.tools.shell_calls import (
    LocalShellActionRequest,
    LocalShellCallData,
    LocalShellCommandRequest,
    ShellActionRequest,
    ShellCallData,
    ShellCommandOutput,
    ShellCommandRequest,
)
from tests.needs import missing
from tests.tools.processes.left_behind import alive
from tests.waiting import until


def _why_not() -> str:
    """Why there is no sandbox here, "" if there is one."""
    if shutil.which("bwrap") is None:
        return missing("bwrap")
    try:
        asyncio.run(BubblewrapExecutor(Path(__file__).parent).check())
    except SandboxUnavailable:
        return "needs a kernel that lets bwrap make a sandbox"
    return ""


WHY_NOT = _why_not()
sandboxed = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a sandbox")


async def ran(executor: BubblewrapExecutor, command: str, **limits: Any) -> ShellCommandOutput:
    request = ShellCommandRequest(None, ShellCallData("c1", ShellActionRequest([command], **limits)))
    return (await executor(request)).output[0]


def state_in(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have this process keep its keys below a directory, and return the file that holds them."""
    monkeypatch.delenv("KEYTURN_SECRET", raising=False)
    monkeypatch.setenv("KEYTURN_HOME", str(place))
    ring()
    return place / "keyturn" / "key"


@sandboxed
async def test_no_command_reads_the_keys_in_a_path_that_it_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (home / "notes").write_text("milk")
    key = state_in(home, monkeypatch)
    output = await ran(BubblewrapExecutor(work, readable=(str(home),)), f"cat {home}/notes; cat {key}; ls {key.parent}")
    assert (output.stdout, output.stderr) == ("milk", f"cat: {key}: No such file or directory\n")


@sandboxed
@pytest.mark.parametrize("how", ["workspace", "writable"])
async def test_nothing_runs_where_a_command_could_write_the_keys(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    executor = BubblewrapExecutor(home) if how == "workspace" else BubblewrapExecutor(work, writable=(str(home),))
    assert (await ran(executor, "echo one")).stdout == "one\n"
    key = state_in(home, monkeypatch)
    with pytest.raises(SandboxUnavailable, match=r"would let commands write .*keyturn, where Keyturn keeps its keys"):
        await ran(executor, f"cat {key}")


@sandboxed
async def test_only_the_workspace_can_be_written(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    command = f"pwd; echo x > a; touch /etc/x; touch /usr/x; touch {outside}/x; echo end"
    output = await ran(BubblewrapExecutor(work), command)
    assert output.stdout == f"{work}\nend\n"
    assert output.stderr.count("Read-only file system") >= 2
    assert (work / "a").read_text() == "x\n"
    assert list(outside.iterdir()) == []
    more = BubblewrapExecutor(work, writable=(str(outside),))
    assert (await ran(more, f"touch {outside}/x")).exit_code == 0
    assert [path.name for path in outside.iterdir()] == ["x"]


@sandboxed
async def test_homes_and_temporary_files_are_not_there(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.write_text("hunter2")
    command = f"cat {secret}; ls -A ~ /root /home /run /var/tmp; ls -A /tmp; echo $HOME"
    hidden = await ran(BubblewrapExecutor(work), command)
    assert "hunter2" not in hidden.stdout
    assert hidden.stdout.endswith("/tmp\n")
    shown = await ran(BubblewrapExecutor(work, readable=(str(secret),)), f"cat {secret}; echo y > {secret}")
    assert shown.stdout == "hunter2"
    assert "Read-only" in shown.stderr
    assert secret.read_text() == "hunter2"


@sandboxed
async def test_a_link_out_of_the_workspace_leads_nowhere_that_can_be_written(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "out").symlink_to("/etc")
    (work / "up").symlink_to(tmp_path)
    output = await ran(BubblewrapExecutor(work), "touch out/x; touch up/x; cd ..; touch y; echo end")
    assert output.stdout == "end\n"
    assert "Read-only" in output.stderr
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "y").exists()


@sandboxed
async def test_there_is_no_network_unless_it_is_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        command = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo connected"
        assert (await ran(BubblewrapExecutor(tmp_path), command)).stdout == ""
        with pytest.raises(TimeoutError):
            server.accept()
        output = await ran(BubblewrapExecutor(tmp_path, network=True), command)
        assert output.stdout == "connected\n", output.stderr


@sandboxed
async def test_other_processes_are_neither_seen_nor_reached(tmp_path: Path) -> None:
    output = await ran(
        BubblewrapExecutor(tmp_path),
        f"ls -d /proc/[0-9]* | wc -l; kill -9 {os.getpid()}; kill -9 $PPID; kill -9 -1; hostname; echo end",
    )
    assert int(output.stdout.split()[0]) < 10


@sandboxed
async def test_no_privilege_is_held_and_none_can_be_gained(tmp_path: Path) -> None:
    output = await ran(
        BubblewrapExecutor(tmp_path),
        "grep Cap /proc/self/status; grep NoNewPrivs /proc/self/status; mount -t tmpfs x /mnt || echo no mount; "
        "unshare -U true || echo no namespace; hostname",
    )
    capabilities = [line.split()[1] for line in output.stdout.splitlines() if line.startswith("Cap")]
    assert set(capabilities) == {"0" * 16}
    assert "NoNewPrivs:\t1" in output.stdout
    assert output.stdout.endswith("no mount\nno namespace\nsandbox\n")


@sandboxed
async def test_the_environment_holds_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    output = await ran(BubblewrapExecutor(tmp_path, env={"MODE": "x"}), "env; cat /proc/1/environ")
    assert "hunter2" not in output.stdout
    assert "MODE=x" in output.stdout


@sandboxed
async def test_what_a_call_sets_does_not_reach_what_makes_the_sandbox(tmp_path: Path) -> None:
    """A loader writes to LD_DEBUG_OUTPUT, and would load LD_PRELOAD: around the sandbox that would be a way out."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    env = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{outside}/loaded", "MODE": "a b"}
    action = LocalShellActionRequest(["/bin/sh", "-c", 'echo "$MODE"'], env=env)
    request = LocalShellCommandRequest(None, LocalShellCallData("c1", action))
    [output] = (await BubblewrapExecutor(work)(request)).output
    assert output.exit_code == 0
    assert output.stdout.endswith("\na b\n"), "inside it is set"
    assert list(outside.iterdir()) == []


@sandboxed
@pytest.mark.parametrize("command", ["trap '' TERM; sleep 60", "(setsid sleep 60 &); setsid sleep 60 & wait", "yes"])
async def test_nothing_goes_on_when_the_time_is_over(tmp_path: Path, command: str) -> None:
    output = await ran(BubblewrapExecutor(tmp_path), f"echo begun; {command}", timeout_ms=1200)
    assert (output.status, output.stdout[:6]) == ("timeout", "begun\n")


@sandboxed
async def test_what_goes_on_in_the_background_ends_with_its_command(tmp_path: Path, marker: str) -> None:
    command = (
        f"sleep {marker} & (setsid sh -c ': > begun; sleep {marker}; : > late' &); while [ ! -e begun ]; do :; done"
    )
    assert (await ran(BubblewrapExecutor(tmp_path), command)).exit_code == 0
    await until(lambda: not alive(marker))
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


@sandboxed
async def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    executor = BubblewrapExecutor(tmp_path)
    assert [(await ran(executor, f"exit {code}")).exit_code for code in (0, 1, 42, 255)] == [0, 1, 42, 255]
    assert (await ran(executor, "echo one; echo two >&2")).stderr == "two\n"


@sandboxed
async def test_a_tool_without_an_executor_has_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tool = ShellTool()
    assert isinstance(tool.executor, BubblewrapExecutor)
    assert (tool.about["in"], tool.about["network"]) == (str(tmp_path), False)
    assert "in a sandbox" in str(tool.preview({"commands": ["ls"]}))


@sandboxed
async def test_where_the_kernel_refuses_it_nothing_runs(tmp_path: Path) -> None:
    """A real refusal: within a sandbox that may make no more namespaces, a process of ours asks for one."""
    code = f"""
import asyncio
from keyturn.tools.processes.bubblewrap import BubblewrapExecutor, SandboxUnavailable
try:
    asyncio.run(BubblewrapExecutor({str(tmp_path)!r}).run(["touch", "ran"]))
except SandboxUnavailable as error:
    print(error)
"""
    outer = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--disable-userns"]
    done = subprocess.run(
        [*outer, "--cap-drop", "ALL", "--", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=50,
        check=False,
    )
    assert "cannot make a sandbox here; it said: " in done.stdout, done.stderr
    assert "user namespaces" in done.stdout
    assert "LocalExecutor" in done.stdout
    assert not (tmp_path / "ran").exists()


@sandboxed
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else to try it")
def test_it_works_for_a_user_without_any_right(tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("there is no Python that every user may run, or no setpriv")
    version = "import sys; print(sys.version_info >= (3, 11))"
    if subprocess.run([python, "-c", version], capture_output=True, text=True, check=False).stdout != "True\n":
        pytest.skip("the Python that every user may run is too old")
    keeper = Path(__file__).parents[3] / "src" / "keyturn" / "tools" / "processes" / "supervisor.py"
    launch = BubblewrapExecutor("/var")._start(["/usr/bin/id", "-un"], "/var", {})
    [sockets] = launch.files
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = theirs.fileno()
        keeping = [python, "-I", "-S", "-c", keeper.read_text(), str(number), "1", *launch.line]
        done = subprocess.run(
            ["setpriv", "--reuid=nobody", "--clear-groups", *keeping],
            pass_fds=(number, sockets),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    os.close(sockets)
    assert (done.stdout, done.stderr) == ("nobody\n", "")


async def test_where_there_is_no_bubblewrap_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"bwrap is missing.*Install bubblewrap.*LocalExecutor"):
        await BubblewrapExecutor(tmp_path).check()


@sandboxed
async def test_a_workspace_that_is_not_there_is_a_problem_in_words(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not exist"):
        await ran(BubblewrapExecutor(tmp_path / "gone"), "ls")


@pytest.mark.each
@pytest.mark.parametrize("options", [{"workspace": "/"}, {"readable": "/usr"}, {"writable": "/usr"}, {"timeout": -1}])
def test_what_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        BubblewrapExecutor(**options)


PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
with_python = pytest.mark.skipif(PYTHON is None, reason="there is no Python among the system's programs")
TRIES = """
import os, socket, sys
def tried(name, what):
    try:
        print(name, what())
    except OSError as error:
        print(name, os.strerror(error.errno))
def order(kind):
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.settimeout(5)
        one.connect(sys.argv[1 if kind == socket.SOCK_STREAM else 2])
        one.send(b"an order")
    return "sent"
def by_pair():
    one, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"an order", sys.argv[2])
    return "sent"
def abstract():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(chr(0) + sys.argv[3])
    return "sent"
tried("stream", lambda: order(socket.SOCK_STREAM))
tried("datagram", lambda: order(socket.SOCK_DGRAM))
tried("pair", by_pair)
tried("abstract", abstract)
tried("machine", lambda: socket.socket(40, socket.SOCK_STREAM).close())
"""


class Daemon:
    """Sockets of somebody else's, in three places, and what they were told."""

    def __init__(self, where: Path, name: str) -> None:
        self.paths = [str(where / "stream.sock"), str(where / "datagram.sock"), name]
        self.sockets = [socket.socket(socket.AF_UNIX, kind) for kind in (1, 2, 1)]
        for one, path in zip(self.sockets, (*self.paths[:2], "\0" + name), strict=True):
            one.bind(path)
            one.setblocking(False)
        self.sockets[0].listen()
        self.sockets[2].listen()

    def close(self) -> None:
        for one in self.sockets:
            one.close()
        for path in self.paths[:2]:
            os.unlink(path)

    def heard(self) -> list[str]:
        """Where something came in."""
        heard: list[str] = []
        for name, one in zip(("stream", "datagram", "abstract"), self.sockets, strict=True):
            try:
                one.recv(100) if name == "datagram" else one.accept()[0].close()
                heard.append(name)
            except BlockingIOError:
                pass
        return heard


def _outside() -> Path | None:
    """A directory in which a daemon could have its socket, and that is no home and no temporary one."""
    return next((Path(place) for place in ("/var/lib", "/srv", "/usr/local/lib") if os.access(place, os.W_OK)), None)


@pytest.mark.filterwarnings("ignore::keyturn.tools.processes.bubblewrap.UnsafeWorkspace")  # its sockets are the point
@sandboxed
@with_python
@pytest.mark.parametrize("network", [False, True], ids=["no network", "network"])
async def test_no_daemon_takes_an_order_from_inside(tmp_path: Path, network: bool) -> None:
    """M8: a path is no network. Neither a socket in the workspace nor one anywhere else can be reached."""
    outside = _outside()
    places = [tmp_path, *([outside] if outside is not None else [])]
    for place in places:
        daemon = Daemon(place, f"keyturn-{os.getpid()}")
        try:
            executor = BubblewrapExecutor(tmp_path, network=network)
            output = await executor.run([str(PYTHON), "-c", TRIES, *daemon.paths])
            refused = "Address family not supported by protocol"
            said = output.stdout.splitlines()
            assert said == [f"{name} {refused}" for name in ("stream", "datagram", "pair", "abstract", "machine")]
            assert daemon.heard() == []
            opened = BubblewrapExecutor(tmp_path, network=network, unix_sockets=True)
            output = await opened.run([str(PYTHON), "-c", TRIES, *daemon.paths])
            wanted = ["stream", "datagram"] if place == tmp_path else []
            assert daemon.heard() == [*wanted, *(["abstract"] if network else [])], "only what it was shown"
            assert f"machine {refused}" in output.stdout
        finally:
            daemon.close()


@sandboxed
@pytest.mark.skipif(_outside() is None, reason="there is no such place here that this user may write to")
async def test_a_daemons_pipe_takes_no_order_either(tmp_path: Path) -> None:
    """M8: a named pipe takes what is written to it through a read-only file system."""
    outside = _outside()
    assert outside is not None
    pipe = outside / f"keyturn-{os.getpid()}.pipe"
    if str(outside).startswith("/usr"):
        pytest.skip("what lies there belongs to the system")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output = await ran(BubblewrapExecutor(tmp_path), f"echo order > {pipe}; echo end")
        assert output.stdout == "end\n"
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)
        pipe.unlink()


@sandboxed
async def test_of_the_file_system_only_the_system_is_there(tmp_path: Path) -> None:
    output = await ran(BubblewrapExecutor(tmp_path), "ls -A /; ls -A /var /srv; touch /x /var/x; ls /proc/self/fd")
    seen = set(output.stdout.split())
    assert not seen & {"sys", "boot", "lib.usr-is-merged", "work", "data", "srv", "log", "spool"}
    assert {"usr", "bin", "etc", "proc", "dev", "tmp"} <= seen
    assert output.stderr.count("Read-only file system") == 2
    assert seen & {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} == {"0", "1", "2", "3"}, (
        "ls has its own, and no other"
    )


WORKS = {
    "pipelines": ("printf 'b\\na\\nb\\n' | sort | uniq -c | wc -l", "2\n"),
    "programs": ("ls -d /usr; grep -c root /etc/passwd; nproc > n; [ -s n ] && echo n", "/usr\n1\nn\n"),
    "git": (
        "git init -q r && cd r && echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm one "
        "&& git log --format=%s",
        "one\n",
    ),
    "python": (f"{PYTHON} -c 'import asyncio, ssl; asyncio.run(asyncio.sleep(0)); print(1)'", "1\n"),
    "processes": (
        f"{PYTHON} -c 'import multiprocessing as m; m.set_start_method(\"fork\"); print(m.Pool(2).map(abs, [-1, -2]))'",
        "[1, 2]\n",
    ),
    "children": (f'{PYTHON} -c \'import subprocess as s; print(s.check_output(["echo", "x"]))\'', "b'x\\n'\n"),
    "loopback": (
        f'{PYTHON} -c \'import socket as s; a = s.create_server(("127.0.0.1", 0)); '
        "s.create_connection(a.getsockname()); print(a.accept()[1][0])'",
        "127.0.0.1\n",
    ),
}


@sandboxed
@with_python
@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=() if each in ("children", "loopback") else pytest.mark.trial) for each in WORKS]
)
async def test_programs_work_in_it(tmp_path: Path, what: str) -> None:
    command, wanted = WORKS[what]
    if command.startswith("git") and shutil.which("git", path="/usr/bin:/usr/local/bin") is None:
        pytest.skip("there is no git")
    output = await ran(BubblewrapExecutor(tmp_path), command)
    assert output.stdout == wanted, output.stderr


async def test_on_a_machine_of_which_nobody_knows_the_calls_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    monkeypatch.setattr("keyturn.tools.processes.bubblewrap.shutil.which", lambda *_args, **_options: "/usr/bin/bwrap")
    with pytest.raises(SandboxUnavailable, match="vax"):
        await BubblewrapExecutor(tmp_path).check()
