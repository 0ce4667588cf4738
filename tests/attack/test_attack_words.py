"""What an attack found in names and words, held since: programs that run others, and a choice taken for a number."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from keyturn import Agent, Runner, UnsafeProgram, UserError, ask_user, only_programs
from keyturn.console import decide
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.commands.runners import LOOKERS, RUNNERS, WRITERS
from tests.table import each

RUN_OTHERS = (
    *("bfs", "msgexec", "original-awk", "igawk", "pygmentize", "ghostscript", "dvipdf", "ps2pdf"),
    *("sk", "actionlint", "bats", "youtube-dl", "gallery-dl", "run0", "run-one", "execlineb"),
    *("foreground", "osh", "ysh", "scsh", "systemd-socket-activate", "deb-systemd-invoke", "gvpr", "tcc"),
    *("dtrx", "aunpack", "als", "acat", "play", "prename", "file-rename", "rename"),
    *("sox", "tc", "modprobe"),
)
WRITE = ["ptx", "ss", "pg_dump", "genisoimage", "sar", "certutil", "etags"]


def test_a_program_that_runs_others_cannot_be_listed() -> None:
    """L1: pygmentize, say, runs a file of the workspace as Python (`-x -l evil.py`)."""
    for name in RUN_OTHERS:
        with pytest.raises(UserError):
            only_programs(name)


def test_a_program_that_writes_is_warned_of() -> None:
    for name in WRITE:
        with pytest.warns(UnsafeProgram, match="can write"):
            only_programs(name)


def test_a_name_that_nobody_knows_is_warned_of() -> None:
    """L1: the kind. No table of what runs others is complete; the one of what only looks need not be."""
    for name in ("helmfile", "frobnicate", "lsof", "lspci"):
        with pytest.warns(UnsafeProgram, match="not known to Keyturn"):
            only_programs(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        only_programs(*sorted(LOOKERS))
    assert not LOOKERS & (RUNNERS | WRITERS)


@each(
    ("choices", "typed", "wanted"),
    [
        (["Keep everything", "1"], ["1"], "Keep everything"),
        (["Keep everything", "1"], ["2"], "1"),
        (["Keep everything", "5"], ["5"], "5"),
        (["Keep everything", "01"], ["01"], "01"),
        (["no", "yes"], ["yes"], "yes"),
        (["no", "yes", "yes"], ["yes", "w", "3"], "yes"),
    ],
)
def test_a_number_at_the_console_is_the_number_on_the_screen(choices: list[str], typed: list[str], wanted: str) -> None:
    """L2: the screen says "1  Keep everything" and "2  1". Words of two choices decide nothing, and it asks again."""
    asks = function_call("ask_user", {"question": "Delete all backups?", "choices": choices})
    model = ScriptedModel([[asks], "done"])
    agent: Agent[Any] = Agent(name="A", model=model, tools=[ask_user()])
    words = iter(["w", *typed])
    state = decide(Runner.run_sync(agent, "x"), ask=lambda _: next(words), show=lambda _: None, width=100)
    Runner.run_sync(agent, state)
    assert model.calls[-1].input[-1]["output"] == wanted
    assert next(words, None) is None
