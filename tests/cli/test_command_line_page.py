"""The transcript of the command line in the manual is what happens: each shell of the page is a real one.

Ids, secrets and times are other ones each time. What the page shows in their place stands for what was printed, from
then on in the commands as well; `...` is anything in a row.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "command-line.md"
PROMPT = re.compile(r"(\w+)\$ (.*)")
END = "== the end of what a command printed"
# What is another one each time, and what it may be then.
OTHERS = {
    r"kt_[0-9a-f]{12}_[0-9a-f]{48}": r"kt_[0-9a-f]{12}_[0-9a-f]{48}",
    r"SHA256:[A-Za-z0-9+/]{43}": r"SHA256:[A-Za-z0-9+/]{43}",
    r"\b[0-9a-f]{8,}\b": r"[0-9a-f]+",
}
TIMES = {
    r"\d{4}-\d\d-\d\d": r"\d{4}-\d\d-\d\d",
    r"\d\d:\d\d:\d\d": r"\d\d:\d\d:\d\d",
    r"\b\d+ s ago": r"(?:\d+ min )?(?:\d+ s )?ago",
    r"worker-\d+@[\w.-]+": r"worker-\d+@[\w.-]+",
    r"\.\.\.": r".*",
}
VARIABLE = re.compile("|".join([*OTHERS, *TIMES]))


class Shell:
    """A shell of the page: one bash, from its first command to its last."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environ,
        )

    def run(self, command: str) -> str:
        """What a command printed, on both streams."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{command}\ncode=$?; echo "{END}"; (exit $code)\n')
        self._process.stdin.flush()
        printed = list[str]()
        for line in self._process.stdout:
            if line == f"{END}\n":
                break
            printed.append(line)
        return "".join(printed)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("kill %1 2> /dev/null; wait\n")
        self._process.stdin.close()
        self._process.wait(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Reader:
    """Compares what was printed with the page, and remembers what the page's ids stand for."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def command(self, told: str) -> str:
        """A command of the page, with the ids of now."""
        return VARIABLE.sub(lambda found: self._now(found[0]) or found[0], told)

    def _now(self, token: str) -> str | None:
        """What a token of the page stands for; its first characters stand for those of the whole."""
        whole = next((known for known in self.known if known.startswith(token)), None)
        return None if whole is None else self.known[whole][: len(token)]

    def compare(self, expected: str, printed: str) -> bool:
        """Whether this was printed; what was seen for the first time is remembered."""
        new = list[str]()
        pattern = ""
        at = 0
        for found in VARIABLE.finditer(expected):
            pattern += re.escape(expected[at : found.start()]) + self._shape(found[0], new)
            at = found.end()
        match = re.fullmatch(pattern + re.escape(expected[at:]), printed)
        if match is None:
            return False
        self.known |= {token: match[f"v{place}"] for place, token in enumerate(new)}
        return True

    def _shape(self, token: str, new: list[str]) -> str:
        now = self._now(token)
        if now is not None:
            return re.escape(now)
        if token in new:
            return f"(?P=v{new.index(token)})"
        for pattern, shape in OTHERS.items():
            if re.fullmatch(pattern, token):
                new.append(token)
                return f"(?P<v{len(new) - 1}>{shape})"
        return next(shape for pattern, shape in TIMES.items() if re.fullmatch(pattern, token))


def told() -> Iterator[tuple[str, str, str]]:
    """Each command of the page: in whose shell, what it is, and what it prints."""
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        parts = re.split(r"^(\w+)\$ (.*)\n", block, flags=re.MULTILINE)
        assert parts[0] == ""
        for place in range(1, len(parts), 3):
            yield parts[place], parts[place + 1], parts[place + 2]


@pytest.mark.trial
@pytest.mark.timeout(400)
def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    code = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert code is not None
    (folder / "desk.py").write_text(code[1], encoding="utf-8")
    environ = environment(tmp_path)
    reader, shells = Reader(), dict[str, Shell]()
    count = 0
    try:
        for who, command, expected in told():
            if who not in shells:
                shells[who] = Shell(folder, environ)
            printed = shells[who].run(reader.command(command))
            assert reader.compare(expected, printed), f"{who}$ {command}\n{printed}\nand the page says:\n{expected}"
            count += 1
    finally:
        for shell in shells.values():
            shell.close()
    assert count > 40


def environment(tmp_path: Path) -> dict[str, str]:
    """A home with an ssh key, and `keyturn` on the path."""
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada@laptop", "-f", str(ssh / "id_ed25519")]
    subprocess.run(made, check=True)
    bin = tmp_path / "bin"
    bin.mkdir()
    command = shlex.join(forked.launcher("-P", "-m", "keyturn.cli.main"))
    (bin / "keyturn").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (bin / "keyturn").chmod(0o755)
    return {
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(ssh.parent),
        "KEYTURN_HOME": str(tmp_path / "state"),
        "NO_COLOR": "1",
        "LANG": "C.UTF-8",
    }


def test_a_page_that_says_something_else_is_found_out() -> None:
    reader = Reader()
    assert reader.compare("run 0a1b2c3d waits ...\n", "run ffff0000 waits since today\n")
    assert reader.command("keyturn tail 0a1b2c3d") == "keyturn tail ffff0000"
    assert reader.compare("again 0a1b2c3d at 01:02:03\n", "again ffff0000 at 23:59:59\n")
    assert not reader.compare("again 0a1b2c3d\n", "again 11112222\n")
    assert not reader.compare("approved\n", "rejected\n")
