"""The demo with a provider's model, as a real process: over each wire format, with a wrong key, without the package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn.models.scripted.model import assistant_message, function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import Fault
from tests.cli.terminal import COMMAND, KEYS, SECRET, at_a_terminal, played, processes, unfolded

WIRES: dict[str, tuple[Any, str, str]] = {
    "openai": (ResponsesServer, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": (MessagesServer, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "google": (GeminiServer, "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
# In `make test` over one wire: the others differ in their model, whose own tests hold what it sends and reads.
wires = pytest.mark.parametrize(
    "wire", [pytest.param(each, marks=() if each == "openai" else pytest.mark.trial) for each in WIRES]
)
ROTATE = [assistant_message("I rotate it."), function_call("rotate_key", {"service": "api"}, call_id="c1")]
NOTICE = [function_call("send_notice", {"channel": "#ops", "text": "Rotated."}, call_id="c2")]
UNDO = [function_call("restart_service", {"service": "worker"}, call_id="c3")]


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the demo leaves behind is left where it can be seen."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@contextmanager
def provider(wire: str, *steps: Any) -> Iterator[tuple[Any, dict[str, str]]]:
    """A provider that says these steps, and the environment that leads to it."""
    kind, key, address = WIRES[wire]
    with kind(steps) as server:
        yield server, {key: "sk-secret", address: server.base_url}


def one_line(text: str) -> str:
    return " ".join(unfolded(text).replace(" | ", " ").split())


@wires
def test_a_providers_model_plays_over_a_crash(wire: str, tmp_path: Path) -> None:
    with provider(wire, ROTATE, NOTICE, UNDO, "All is done.") as (server, environ):
        done = played("--dir", str(tmp_path / "d"), **environ)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = processes(done.stdout)
    assert f"model {wire}:" in one_line(done.stdout)[:400]
    assert f"{WIRES[wire][1]} is set" in one_line(done.stdout)[:400]
    assert f"kill -9 {first}" in done.stdout
    assert len(server.requests) == 4
    world = json.loads((tmp_path / "d" / "world.json").read_text())
    effects = [f"{effect}, by process {second}" for effect in ("rotate_key api", "send_notice #ops")]
    assert world["effects"] == effects
    assert "All is done." in done.stdout
    assert "Conflict: this state is stale" in done.stdout
    assert "StateRejected: this state was changed" in done.stdout
    assert "sk-secret" not in done.stdout


def test_a_run_that_asks_for_nothing_is_not_killed(tmp_path: Path) -> None:
    look = [function_call("read_status", {}, call_id="c1")]
    with provider("openai", look, "There is nothing to do.") as (_, environ):
        done = played(**environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "kill -9" not in done.stdout
    assert "There is nothing to do." in done.stdout
    assert "asked for nothing that waits" in one_line(done.stdout)
    assert not list(tmp_path.glob("keyturn-demo-*"))


@wires
def test_a_wrong_key_is_said_with_a_remedy(wire: str, tmp_path: Path) -> None:
    with provider(wire, Fault(status=401, message="Incorrect API key provided: sk-secret")) as (_, environ):
        done = played(**environ)
    assert done.returncode == 1
    told = one_line(done.stderr)
    assert told.startswith("keyturn demo: ")
    assert f"did not accept the key in {WIRES[wire][1]} (401)" in told
    assert "keyturn demo --scripted" in told
    assert "sk-secret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("keyturn-demo-*"))


def test_a_key_that_is_withdrawn_half_way_loses_nothing(tmp_path: Path) -> None:
    """The tool ran, the run is in its file, and goes on from there when the key is right again."""
    refused = Fault(status=401, message="revoked")
    with provider("openai", ROTATE, refused, "It is rotated.") as (server, environ):
        done = played("--dir", str(tmp_path / "d"), **environ)
        assert done.returncode == 1
        assert "did not accept the key" in one_line(done.stderr)
        assert "what ran is in the file" in one_line(done.stdout)
        again = played("--resume", str(tmp_path / "d" / "run.json"), **environ)
    assert (again.returncode, again.stderr) == (0, "")
    assert "It is rotated." in again.stdout
    assert len(server.requests) == 3
    world = json.loads((tmp_path / "d" / "world.json").read_text())
    assert [effect.split(",")[0] for effect in world["effects"]] == ["rotate_key api"]


@wires
def test_without_the_package_it_says_how_to_install_it(wire: str, tmp_path: Path) -> None:
    """The package is hidden from Python as it is where it was never installed."""
    package = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai"}[wire]
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    done = played(path=str(hidden), **{WIRES[wire][1]: "sk-secret"})
    assert (done.returncode, done.stdout) == (1, "")
    assert f"pip install 'keyturn[{wire}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("keyturn-demo-*"))


def test_the_flags_come_before_the_keys() -> None:
    with provider("openai", "Nothing to do.") as (server, environ):
        scripted = played("--scripted", **environ)
        assert (scripted.returncode, server.requests) == (0, [])
        named = played("--model", "openai:my-own", **environ)
    assert named.returncode == 0
    assert [request.json["model"] for request in server.requests] == ["my-own"]
    assert "openai:my-own, asked over the network (--model names it)" in one_line(named.stdout)


def test_a_resumed_run_keeps_its_model_and_may_be_given_another(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    with provider("openai", ROTATE, "Done.") as (server, environ):
        nothing = dict.fromkeys(KEYS, "")
        at_a_terminal(
            [*COMMAND, "--dir", str(directory)],
            (b"is killed > ", b"\x04"),
            environ={**nothing, "KEYTURN_SECRET": SECRET, **environ},
        )
        done = played("--resume", str(directory / "run.json"), ANTHROPIC_API_KEY="other", **environ)
    assert (done.returncode, done.stderr, len(server.requests)) == (0, "", 2)
    assert "openai:" in done.stdout


def test_a_run_can_go_on_with_another_providers_model(tmp_path: Path) -> None:
    refused = Fault(status=401, message="revoked")
    with provider("openai", ROTATE, refused) as (_, environ):
        played("--dir", str(tmp_path / "d"), **environ)
    with provider("anthropic", "It is rotated.") as (server, environ):
        flags = ("--resume", str(tmp_path / "d" / "run.json"), "--model", "anthropic:claude")
        done = played(*flags, **environ)
    assert (done.returncode, done.stderr, len(server.requests)) == (0, "", 1)
    assert "It is rotated." in done.stdout


def test_a_model_that_never_ends_is_ended(tmp_path: Path) -> None:
    """Each reply makes another call that needs nobody; the run's own limit stops it, in words."""
    calls = ([function_call("read_status", {}, call_id=f"c{n}")] for n in range(99))
    with provider("openai", *calls) as (server, environ):
        done = played(**environ)
    assert done.returncode == 1
    assert "reached its limit of 30 turns" in one_line(done.stderr)
    assert len(server.requests) == 30
    assert os.listdir(tmp_path) == []
