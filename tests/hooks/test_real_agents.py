"""The coding agents themselves, from npm, against model servers on the loopback: each failure runs nothing.

What each agent's model reads of a refusal is a table of the manual, which is compared with what it read here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keyturn import ExternalAgent
from keyturn.hooks.hosts import host_named
from keyturn.hooks.installing import command_line
from keyturn.models.scripted.items import function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import HttpRequest, LoopbackServer
from tests.hooks.test_hooks import Desk
from tests.server.programs import Port

AGENTS = Path(sys.prefix) / "agents" / "node_modules" / ".bin"
MANUAL = Path(__file__).resolve().parents[2] / "docs" / "coding-agents.md"
PROMPT = "Make the file."
pytestmark = [pytest.mark.trial, pytest.mark.timeout(1_200)]


class Messages(MessagesServer):
    """Anthropic's API as Claude Code asks it."""

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        return None if (request.method, request.path.partition("?")[0]) == ("POST", "/v1/messages") else (404, "no")


class RealAgent(NamedTuple):
    """Describes how an agent is run, and what its model is shown: its tools, and what came of a call."""

    host: str
    program: str
    tool: str
    arguments: dict[str, Any]
    edited: dict[str, Any]
    server: Callable[[Any], LoopbackServer]
    argv: tuple[str, ...]
    config: Callable[[str], str]
    environment: Callable[[str], dict[str, str]]
    result: str
    matcher: str = "Bash"


def _codex(url: str) -> str:
    place = f'name = "loop"\nbase_url = "{url}"\nwire_api = "responses"\nenv_key = "LOOP_KEY"\n'
    return f'model = "loop"\nmodel_provider = "loop"\n[model_providers.loop]\n{place}'


def _gemini(_url: str) -> str:
    return json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}})


RUNS = {
    "claude-code": RealAgent(
        "claude-code", "claude", "Bash", {"command": "touch made.txt", "description": "Make a file"},
        {"command": "touch edited.txt", "description": "Make a file"}, Messages,
        ("-p", PROMPT, "--allowedTools", "Bash"), lambda _url: "",
        lambda url: {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-none", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        "tool_result",
    ),
    "codex": RealAgent(
        "codex", "codex", "exec_command", {"cmd": "touch made.txt"}, {"command": "touch edited.txt"}, ResponsesServer,
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
         "--dangerously-bypass-approvals-and-sandbox", PROMPT),
        _codex, lambda _url: {"LOOP_KEY": "none"}, "function_call_output",
    ),
    "gemini": RealAgent(
        "gemini", "gemini", "run_shell_command", {"command": "touch made.txt", "description": "Make a file"},
        {"command": "touch edited.txt", "description": "Make a file"}, GeminiServer,
        ("--yolo", "-m", "gemini-2.5-flash", "-p", PROMPT), _gemini,
        lambda url: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url},
        "functionResponse", "run_shell_command",
    ),
}  # fmt: skip


class Read(NamedTuple):
    """Holds which files were made, and what the model read of its call."""

    made: list[str]
    read: str


def run(agent: RealAgent, home: Path, line: str, environment: dict[str, str]) -> Read:
    """Run an agent whose model calls its tool once, with this command line as its hook."""
    host, work, told = host_named(agent.host), home / "work", list[str]()
    work.mkdir(parents=True)

    def step(request: HttpRequest) -> Any:
        body = json.dumps(request.json, ensure_ascii=False)
        if f'"{agent.result}"' in body:
            told.append(_result_in(request.json, agent.result))
            return "Done."
        called = f'"name": "{agent.tool}"' in body
        return [function_call(agent.tool, agent.arguments, call_id="toolu_1")] if called else "Done."

    with agent.server(step) as model:
        url = model.base_url.removesuffix("/v1") if agent.host == "gemini" else model.base_url
        settings = home / host.config
        settings.parent.mkdir(parents=True)
        settings.write_text(host.installed(agent.config(url), line, 100, agent.matcher) or "{}")
        program = [str(AGENTS / agent.program), *agent.argv]
        made = subprocess.run(
            program, cwd=work, env=environment | agent.environment(url), capture_output=True, text=True, timeout=240,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    assert told, (agent.host, line, made.stdout[-1_000:], made.stderr[-2_000:])
    return Read(sorted(path.name for path in work.glob("*.txt")), told[0])


def _result_in(body: Any, kind: str) -> str:
    """Return the text of the first result of a call in what a model is sent."""
    if isinstance(body, dict):
        if body.get("type") == kind or kind in body:
            found = body.get("output") or body.get("content") or body.get(kind, {}).get("response", {})
            return found if isinstance(found, str) else " ".join(_texts(found))
        return next(filter(None, (_result_in(each, kind) for each in body.values())), "")
    return next(filter(None, (_result_in(each, kind) for each in body)), "") if isinstance(body, list) else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """Serve these bytes to whatever is asked, with status 200."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that the library calls
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


#: What is wrong, by the command line that it is wrong with, and the environment.
FAILURES: dict[str, tuple[Callable[[str], str], dict[str, str]]] = {
    "the server is away": (str, {"KEYTURN_SERVER": "http://localhost:1"}),
    "the token is refused": (str, {"KEYTURN_TOKEN": "kt_no_token"}),
    "keyturn is missing": (lambda line: re.sub(r"\S+ (-m keyturn )?hook ", "/no/such/keyturn hook ", line), {}),
    "keyturn crashes": (lambda line: re.sub(r"\S+ (-m keyturn )?hook \S+ --wait \S+", "false", line), {}),
    "keyturn hangs": (lambda line: re.sub(r"timeout \S+ .* hook \S+ --wait \S+", "timeout 1 sleep 60", line), {}),
    "no decision is made in time": (lambda line: line.replace("--wait 60", "--wait 1"), {}),
}


@pytest.mark.parametrize("name", list(RUNS))
def test_the_real_agent_runs_what_was_approved_and_each_failure_runs_nothing(name: str, tmp_path: Path) -> None:
    agent, rows = RUNS[name], dict[str, str]()
    if not (AGENTS / agent.program).exists():
        pytest.skip("needs coding agents (make coding-agents)")
    line = command_line(host_named(name), 60)
    with Port(more=[ExternalAgent()]) as port:
        desk = Desk(port)

        def tried(what: str, line: str, **more: str) -> Read:
            home = tmp_path / re.sub(r"\W+", "-", what)
            made = run(agent, home, line, desk.environment(home, **more))
            rows[what] = _words(made.read)
            return made

        desk.decides()
        assert tried("approved", line).made == ["made.txt"]
        desk.decides(edit=agent.edited)
        assert tried("edited", line).made == ["edited.txt"]
        desk.decides("reject", message="Not on a Friday.")
        refused = tried("rejected", line)
        assert refused.made == []
        assert "rejected by ada: Not on a Friday." in refused.read
        for what, (changed, more) in FAILURES.items():
            assert changed(line) != line or more, what
            assert tried(what, changed(line), **more).made == [], what
        for what, body in (
            ("the answer is no claim", b'{"id": "1", "status": "approved"}'),
            ("bad bytes", b"\xff<html>"),
        ):
            with answering(body) as url:
                assert tried(what, line, KEYTURN_SERVER=url).made == [], what
        assert port.does(port.app.inbox.list()) == []
    manual = MANUAL.read_text()
    told = dict(re.findall(r"^\| ([^|`]+) \| `([^`]+)` \|$", manual, re.MULTILINE))
    shown = ("rejected", *FAILURES, "the answer is no claim", "bad bytes")
    assert {what: rows[what] for what in shown if told[what] not in rows[what]} == {}
    assert f"{host_named(name).title:<14}{rows['rejected']}\n" in manual


@pytest.mark.skipif(not (AGENTS / "claude").exists(), reason="needs coding agents (make coding-agents)")
def test_the_permission_prompt_of_the_real_claude_code_is_answered_by_the_inbox(tmp_path: Path) -> None:
    by_tool = ("--mcp-config", "../mcp.json", "--permission-prompt-tool", "mcp__keyturn__approve")
    agent = RUNS["claude-code"]._replace(argv=("-p", PROMPT, *by_tool))
    tool = {"command": sys.executable, "args": ["-m", "keyturn", "hook", "permission-prompt"]}
    with Port(more=[ExternalAgent()]) as port:
        desk = Desk(port)
        for verdict, runs in (("approve", True), ("reject", False), ("", False)):
            home = tmp_path / f"by-{verdict}"
            home.mkdir()
            (home / "mcp.json").write_text(json.dumps({"mcpServers": {"keyturn": tool}}))
            if verdict:
                desk.decides(verdict)
            away = {} if verdict else {"KEYTURN_SERVER": "http://localhost:1"}
            made = run(agent, home, "", desk.environment(home, **away))
            assert (made.made == ["made.txt"]) == runs, (verdict, made)


def _words(text: str) -> str:
    """Return what a model read in one line."""
    return " ".join(text.split())
