"""Programs that tests fork behave as those that an interpreter starts."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.waiting import until_now

SAYS = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ["WHERE"], sys.stdin.read(), __name__)
print("wrong", file=sys.stderr)
sys.exit(3)
"""


def test_words_streams_folder_environment_and_exit_code_are_its_own(tmp_path: Path) -> None:
    options: Any = {"cwd": tmp_path, "env": {**os.environ, "WHERE": "here"}, "capture_output": True, "text": True}
    done = forked.run(["-c", SAYS, "a", "b"], input="given", **options)
    assert done.stdout == f"['a', 'b'] {tmp_path} here given __main__\n"
    assert (done.stderr, done.returncode) == ("wrong\n", 3)
    script = tmp_path / "says.py"
    script.write_text(SAYS)
    assert forked.run([str(script), "a", "b"], input="given", **options).stdout == done.stdout
    launched = subprocess.run(forked.launcher("-c", SAYS, "a", "b"), input="given", **options)
    assert (launched.stdout, launched.stderr, launched.returncode) == (done.stdout, done.stderr, 3)


def test_a_signal_ends_it_and_is_its_code() -> None:
    with forked.Program(["-c", "import time; time.sleep(600)"]) as program:
        assert program.poll() is None
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == -signal.SIGTERM
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(["-c", "import time; time.sleep(600)"], timeout=0.1)


STARTS = """
import subprocess, sys
done = subprocess.run([sys.executable, *sys.argv[1:]], input=sys.stdin.read(), text=True, capture_output=True)
print(done.stdout, done.stderr, done.returncode)
"""


def test_what_it_starts_is_forked_where_that_was_asked_for_and_started_as_it_is_where_it_cannot_be() -> None:
    is_forked = "import sys; print('tests.forked' in sys.orig_argv, sys.stdin.read())"
    options: Any = {"input": "given", "capture_output": True, "text": True, "children": True}
    assert forked.run(["-c", STARTS, "-P", "-c", is_forked], **options).stdout == "True given\n  0\n"
    assert forked.run(["-c", STARTS, "-I", "-c", is_forked], **options).stdout == "False given\n  0\n"
    killed = "import os; os.kill(os.getpid(), 9)"
    assert forked.run(["-c", STARTS, "-c", killed], **options).stdout.strip().endswith("-9")


def test_what_a_launcher_started_ends_with_it(tmp_path: Path) -> None:
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    command = forked.launcher("-c", code, str(tmp_path / "pid"))
    with subprocess.Popen(command) as started:
        pid = int(until_now(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        started.kill()
    until_now(lambda: not Path(f"/proc/{pid}").exists())


def test_a_terminal_is_its_own() -> None:
    leader, follower = pty.openpty()
    program = forked.Program(["-c", "import os; print(os.isatty(0), os.getsid(0) == os.getpid())"], terminal=follower)
    os.close(follower)
    assert program.wait(60) == 0
    assert os.read(leader, 100).decode().strip() == "True True"
    os.close(leader)


@pytest.mark.trial
def test_a_process_that_dies_fails_its_test_and_the_others_run(tmp_path: Path) -> None:
    tests = "import os, signal\ndef test_one(): pass\ndef test_two(): os._exit(7)\ndef test_three(): pass\n"
    (tmp_path / "test_dies.py").write_text(tests)
    (tmp_path / "test_lives.py").write_text("def test_four(): pass\ndef test_five(): assert 1 == 2\n")
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.forking", "--forks", "2", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-c", os.devnull, str(tmp_path)],
        cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "2 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "the process that ran this test ended with exit code 7" in done.stdout
    assert "assert 1 == 2" in done.stdout
