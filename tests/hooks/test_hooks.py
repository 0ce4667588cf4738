"""Hooks of coding agents: a call runs on a decision alone, and every failure is a refusal in the agent's own words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from keyturn import Agent, ExternalAgent
from keyturn.asks.standing import asked_by
from keyturn.core.errors import KeyturnError
from keyturn.engine.run.log_cache import log_in
from keyturn.hooks.hook import HookEnded, answered
from keyturn.hooks.hooks_json import BadSettings
from keyturn.hooks.host import HookAnswer, HookCall
from keyturn.hooks.hosts import HOSTS, host_named
from keyturn.hooks.installing import command_line, install, uninstall
from keyturn.hooks.server import AskServer, ServerRefused
from keyturn.mcp_gate.permission_prompt import TOOL, prompt_server
from keyturn.policies.rules import Policy, allow, deny
from tests import forked
from tests.server.programs import Port
from tests.waiting import until, until_now

PRE = "PreToolUse"


def sent(host: str = "claude-code", event: str = PRE, call: str = "t1", given: Any = None) -> dict[str, Any]:
    """Return what an agent sends about a call of one of its tools."""
    named = {"timestamp": call} if host == "gemini" else {"tool_use_id": call}
    if host == "copilot":
        arguments = json.dumps(given or {"command": "rm -rf build"})
        return {"sessionId": "s1", "cwd": "/srv/app", "toolName": "Bash", "toolArgs": arguments}
    if host == "cursor":
        whose = {"hook_event_name": event, "conversation_id": "s1", "workspace_roots": ["/srv/app"]}
        if event == "beforeShellExecution":
            return {**whose, "command": "rm -rf build", "cwd": ""}
        return {**whose, "tool_name": "Bash", "tool_input": '{"command": "rm -rf build"}'}
    return {
        "hook_event_name": {"gemini": "BeforeTool", "opencode": "tool.execute.before"}.get(host, event),
        "session_id": "s1",
        "cwd": "/srv/app",
        "tool_name": "Bash",
        "tool_input": given or {"command": "rm -rf build"},
        **named,
    }


class Desk:
    """A server that hooks ask, and the person who decides there."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.port.does(port.app.people.add("laptop", kind="machine", by="ada"))
        self.token: str = self.port.does(port.app.people.issue_token("laptop", ["ask"], by="ada"))

    def server(self) -> AskServer:
        return AskServer(self.port.url, self.token)

    def pending(self) -> Any:
        return until_now(lambda: self.port.does(self.port.app.inbox.list()))[0]

    def decides(self, verdict: str = "approve", **words: Any) -> None:
        """Decide the next request that is pending, in another thread."""

        def decide() -> None:
            self.port.does(getattr(self.port.app.inbox, verdict)(self.pending(), by="ada", **words))

        threading.Thread(target=decide, daemon=True).start()

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        return {
            "HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path),
            "KEYTURN_SERVER": self.port.url, "KEYTURN_TOKEN": self.token, **more,
        }  # fmt: skip


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Port(more=[ExternalAgent()]) as port:
        yield Desk(port)


@pytest.fixture
def ruled(desk: Desk) -> Generator[Desk]:
    desk.port.app.policy = Policy(allow(tool="Read"), deny(tool="Write", reason="not from a laptop"))
    yield desk
    desk.port.app.policy = None


def asked(desk: Desk, body: object, wait: float = 30, host: str = "claude-code") -> HookAnswer:
    """Return the answer of a hook; in another thread, since it takes signals of the main one."""
    text = body if isinstance(body, str) else json.dumps(body)
    return answered(host_named(host), text, desk.server(), wait, signals=False)


CURSOR = (
    '{"permission": "allow"}',
    '{"permission": "allow"}',
    '{"permission": "deny", "user_message": "no", "agent_message": "no"}',
)
ANSWERS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("claude-code", PRE): (
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", '
        '"permissionDecisionReason": "approved in Keyturn"}}',
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", '
        '"permissionDecisionReason": "approved in Keyturn", "updatedInput": {"command": "ls"}}}',
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", '
        '"permissionDecisionReason": "no"}}',
    ),
    ("claude-code", "PermissionRequest"): (
        '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}',
        '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow", '
        '"updatedInput": {"command": "ls"}}}}',
        '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", '
        '"message": "no"}}}',
    ),
    ("codex", PRE): (
        "",
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", '
        '"updatedInput": {"command": "ls"}}}',
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", '
        '"permissionDecisionReason": "no"}}',
    ),
    ("codex", "PermissionRequest"): (
        '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}',
        '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}',
        '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", '
        '"message": "no"}}}',
    ),
    ("gemini", "BeforeTool"): (
        "{}",
        '{"hookSpecificOutput": {"tool_input": {"command": "ls"}}}',
        '{"decision": "deny", "reason": "no"}',
    ),
    ("cursor", "beforeShellExecution"): CURSOR,
    ("cursor", "beforeMCPExecution"): CURSOR,
    ("copilot", "preToolUse"): (
        '{"permissionDecision": "allow"}',
        '{"permissionDecision": "allow", "modifiedArgs": {"command": "ls"}}',
        '{"permissionDecision": "deny", "permissionDecisionReason": "no"}',
    ),
    ("opencode", "tool.execute.before"): (
        '{"decision": "allow"}',
        '{"decision": "allow", "args": {"command": "ls"}}',
        '{"decision": "deny", "reason": "no"}',
    ),
}
#: Events whose arguments no approver can change.
UNEDITED = {("codex", "PermissionRequest"), ("cursor", "beforeShellExecution"), ("cursor", "beforeMCPExecution")}


def test_each_agent_is_answered_in_its_own_bytes() -> None:
    for (name, event), (allowed, edited, denied) in ANSWERS.items():
        host = host_named(name)
        call = host.read(sent(name, event))
        tool = "Shell" if event == "beforeShellExecution" else "Bash"
        label = "" if name in ("cursor", "copilot") else "t1"
        server = "MCP" if event == "beforeMCPExecution" else ""
        assert call == HookCall(event, "s1", label, tool, {"command": "rm -rf build"}, "/srv/app", server), name
        assert call is not None
        told = host.allow(call, None), host.allow(call, {"command": "ls"}), host.deny(call, "no")
        assert [each.stdout for each in told] == [allowed, edited, denied], (name, event)
        assert host.read({"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "/srv"}) is None
        assert host.edits(event) == ((name, event) not in UNEDITED)
    assert {name for name, _ in ANSWERS} == set(HOSTS)


def test_tools_of_two_mcp_servers_of_cursor_are_two_tools_and_none_is_its_shell(desk: Desk) -> None:
    call = sent("cursor", "beforeMCPExecution") | {"tool_name": "Shell"}
    servers = ["https://mcp.example/a?key=SECRET", "https://mcp.example/b", "/bin/evil --token SECRET", "x" * 300]
    asks = [call | {"command" if " " in each else "url": each} for each in servers]
    known: list[Any] = []
    for each in [*asks, sent("cursor", "beforeShellExecution")]:
        desk.decides("reject")
        asked(desk, each, host="cursor")
        [run] = desk.port.does(desk.port.app.runs(limit=1, newest=True))
        known.append(asked_by(desk.port.does(log_in(desk.port.app.journal, run.run))).ask)
    assert len({(ask.tool, ask.server) for ask in known}) == len(known) == 5
    assert [ask.server.rpartition(" ")[0] for ask in known[:3]] == [
        "cursor MCP mcp.example", "cursor MCP mcp.example", "cursor MCP evil",
    ]  # fmt: skip
    assert "SECRET" not in str(known)
    assert (known[4].tool, known[4].server) == ("Shell", "cursor")


def test_a_decision_is_the_answer(desk: Desk) -> None:
    def reason(answer: HookAnswer) -> str:
        return json.loads(answer.stdout)["hookSpecificOutput"].get("permissionDecisionReason", "")

    desk.decides()
    assert '"allow"' in asked(desk, sent(call="a1")).stdout
    desk.decides("reject", message="Not on a Friday.")
    assert reason(asked(desk, sent(call="a2"))) == "rejected by ada: Not on a Friday."
    desk.decides(edit={"command": "ls"})
    assert '"updatedInput": {"command": "ls"}' in asked(desk, sent(call="a3")).stdout
    desk.decides("answer", output="it is gone already")
    assert reason(asked(desk, sent(call="a4"))).endswith('"it is gone already"')
    desk.decides(edit=["ls"])
    assert "cannot be given" in reason(asked(desk, sent(call="a6")))
    late = asked(desk, sent(call="a5"), wait=0.5)
    assert "no decision was made in time" in reason(late)
    assert desk.port.does(desk.port.app.inbox.list()) == []


def test_a_request_shows_the_call_and_where_it_comes_from(desk: Desk) -> None:
    change = {"file_path": "app.py", "old_string": "debug = 1", "new_string": "debug = 0", "replace_all": False}
    waiting = threading.Thread(target=asked, args=(desk, sent(call="b1", given=change)))
    waiting.start()
    row = desk.pending()
    kinds = [type(block).__name__ for block in row.request.preview.blocks]
    assert kinds == ["Diff", "Json", "Text"]
    assert "Claude Code" in row.request.preview.blocks[2].text
    assert "/srv/app" in row.request.preview.blocks[2].text
    assert row.params == change
    desk.port.does(desk.port.app.inbox.reject(row, by="ada"))
    waiting.join()


def test_a_policy_answers_at_once(ruled: Desk) -> None:
    free = asked(ruled, {**sent(call="c1"), "tool_name": "Read"})
    assert '"allow"' in free.stdout
    assert "not from a laptop" in asked(ruled, {**sent(call="c2"), "tool_name": "Write"}).stdout
    assert ruled.port.does(ruled.port.app.inbox.list()) == []


LOADED = """
import sys
from keyturn.cli.main import main
code = main(["hook", "claude-code", "--wait", "5"])
print(code, *sorted({".".join(name.split(".")[:2]) for name in sys.modules}), file=sys.stderr)
"""


def test_a_hook_imports_neither_the_engine_nor_a_library(ruled: Desk, tmp_path: Path) -> None:
    """It starts anew for each call of its agent, so that what it imports is what an allowed call costs."""
    call = json.dumps({**sent(call="i1"), "tool_name": "Read"})
    program = [sys.executable, "-c", LOADED]
    environment = ruled.environment(tmp_path)
    made = subprocess.run(program, input=call, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert '"allow"' in made.stdout
    code, *loaded = made.stderr.split()
    ours = {name for name in loaded if name.startswith("keyturn")}
    assert (code, ours) == ("0", {"keyturn", "keyturn._version", "keyturn.cli", "keyturn.hooks", "keyturn.support"})
    assert not {"asyncio", "msgspec", "pydantic", "httpx2"}.intersection(loaded)


def test_what_is_no_call_and_what_fails_is_refused(desk: Desk) -> None:
    twice = json.dumps(sent())[:-1] + ', "tool_name": "Read"}'
    for body in ("", "[]", "{", '{"hook_event_name": "Stop"}', '{"hook_event_name": "PreToolUse"}', twice):
        made = asked(desk, body)
        assert (made.code, made.stdout) == (2, ""), body
        assert made.stderr.startswith("keyturn: "), body
    for url, token, words in (
        ("http://localhost:1", desk.token, "cannot be reached"),
        (desk.port.url, "kt_wrong", "answered 401"),
        (desk.port.url + "/nowhere", desk.token, "answered 404"),
    ):
        denied = answered(host_named("codex"), json.dumps(sent("codex")), AskServer(url, token), 5, signals=False)
        assert '"deny"' in denied.stdout, url
        assert words in denied.stdout, url
    for url in ("http://keyturn.example", "ftp://localhost", "nowhere"):
        with pytest.raises(ServerRefused):
            AskServer(url, "t")


def test_what_a_server_answers_allows_the_call_that_was_asked_for_and_no_other() -> None:
    """A proxy, a cache or a lying server answers 200: only a claim of this very call lets it run.

    It is recorded as released to the agent where it is, and nowhere else.
    """
    asked: dict[str, Any] = {}
    outcomes: list[str] = []

    class Lying(AskServer):
        def __init__(self, **claim: Any) -> None:
            self.claim = claim

        def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            if path == "/asks":
                asked.update(body)
                return {**body, "id": "1", "status": "approved", "digest": "d"}
            if path.endswith("/outcome"):
                outcomes.append(body["outcome"])
            return {**asked, "status": "claimed", **self.claim} if path.endswith("/claim") else {}

    host = host_named("claude-code")
    for claim, allowed in (
        ({}, True),
        ({"status": "approved"}, False),
        ({"status": None, "error": {"kind": "conflict"}}, False),
        ({"key": "another call"}, False),
        ({"tool": "Read"}, False),
        ({"arguments": '{"command": "ls"}'}, False),
        ({"arguments": '{"command": "ls"}', "edited": True}, True),
        ({"arguments": '["ls"]', "edited": True}, False),
    ):
        outcomes.clear()
        made = answered(host, json.dumps(sent()), Lying(**claim), 5, signals=False)
        assert ('"allow"' in made.stdout, "succeeded" in outcomes) == (allowed, allowed), claim
    codex = json.dumps(sent("codex", "PermissionRequest"))
    edited = Lying(arguments='{"command": "ls"}', edited=True)
    assert '"deny"' in answered(host_named("codex"), codex, edited, 5, signals=False).stdout


def run_line(line: str, body: object, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        input=json.dumps(body),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_installed_line_fails_closed_whatever_becomes_of_its_program(desk: Desk, tmp_path: Path) -> None:
    line = command_line(host_named("claude-code"), 5)
    ours = desk.environment(tmp_path)
    for broken in (
        line.replace(" hook claude-code", " no-such-command"),
        line.replace(sys.executable, "/no/such/python").replace(shutil.which("keyturn") or sys.executable, "/no/such"),
        line.replace("--wait 5", "--wait never"),
    ):
        made = run_line(broken, sent(), ours)
        assert (made.returncode, made.stdout) == (2, ""), broken
        assert "no decision was made" in made.stderr, broken
    nowhere = run_line(line, sent(), ours | {"KEYTURN_SERVER": ""})
    assert nowhere.returncode == 2
    assert "no server to ask" in nowhere.stderr


ELSEWHERE = """
import io, sys
sys.stdin = io.TextIOWrapper(sys.stdin.buffer, "cp1252")
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, "cp1252")
from keyturn.cli.main import main
sys.exit(main(["hook", "claude-code", "--wait", "60"]))
"""


def test_what_is_shown_and_edited_is_the_same_text_under_every_locale(desk: Desk, tmp_path: Path) -> None:
    given, edited = {"command": "rm -r Übungen/€"}, {"command": "ls Übungen/漢字"}
    hook = forked.Program(
        ["-c", ELSEWHERE], stdin=forked.PIPE, stdout=forked.PIPE, stderr=forked.PIPE, env=desk.environment(tmp_path)
    )
    assert hook.stdin is not None
    assert hook.stdout is not None
    hook.stdin.write(json.dumps(sent(call="l1", given=given), ensure_ascii=False).encode())
    hook.stdin.close()
    row = desk.pending()
    assert row.params == given
    desk.port.does(desk.port.app.inbox.approve(row, by="ada", edit=edited))
    answer = json.loads(hook.stdout.read())
    assert hook.wait(60) == 0
    assert answer["hookSpecificOutput"]["updatedInput"] == edited


def test_a_hook_that_is_ended_withdraws_its_request_and_refuses(desk: Desk, tmp_path: Path) -> None:
    hook = forked.Program(
        ["-m", "keyturn", "hook", "claude-code", "--wait", "60"],
        stdin=forked.PIPE, stdout=forked.PIPE, stderr=forked.PIPE, text=True, env=desk.environment(tmp_path),
    )  # fmt: skip
    assert hook.stdin is not None
    hook.stdin.write(json.dumps(sent(call="e1")))
    hook.stdin.close()
    row = desk.pending()
    hook.send_signal(signal.SIGTERM)
    assert hook.wait(60) == 2
    assert hook.stdout is not None
    assert hook.stdout.read() == ""
    assert desk.port.does(desk.port.app.get(row.run)).status == "cancelled"
    hook.stdout.close()
    assert hook.stderr is not None
    hook.stderr.close()


def test_settings_of_agents_keep_all_that_is_not_ours(tmp_path: Path) -> None:
    before = {
        "claude-code": json.dumps({"model": "x", "hooks": {PRE: [{"hooks": [{"command": "mine"}]}]}}),
        "codex": 'model = "x"\n\n[[hooks.PreToolUse]]\nmatcher = "Bash"\n',
        "gemini": '{\n  "theme": "dark"\n}\n',
        "cursor": json.dumps({"version": 1, "hooks": {"stop": [{"command": "mine"}]}}),
        "copilot": json.dumps({"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": "mine"}]}}),
    }  # fmt: skip
    for name, text in before.items():
        host = host_named(name)
        path = tmp_path / host.config
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o640)
        must = "" if name in ("cursor", "copilot") else "Bash|Write"
        install(host, path, 60, must)
        once = path.read_text()
        install(host, path, 60, must)
        assert path.read_text() == once, name
        assert (path.stat().st_mode & 0o777) == 0o640
        assert any("exit 2" in line for line in host.lines(once)), name
        uninstall(host, path)
        left = path.read_text()
        assert (json.loads(left) == json.loads(text)) if name != "codex" else (left == text), name
        assert host.lines(left) == []
        path.write_text('{"hooks": [1]}' if name != "codex" else "# keyturn hook: begin\n")
        with pytest.raises(BadSettings):
            install(host, path, 60, "")
        assert path.read_text() in ('{"hooks": [1]}', "# keyturn hook: begin\n")
        path.unlink()
        uninstall(host, path)
        assert not path.exists()


def test_settings_behind_a_link_beside_other_hooks_and_with_a_path_of_two_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "my programs" / "keyturn"
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if name == "keyturn" else None)
    host = host_named("claude-code")
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}")
    path = tmp_path / host.config
    path.parent.mkdir()
    path.symlink_to(kept)
    elsewhere = tmp_path / "elsewhere"  # a repository that is not trusted brings the name of a draft
    elsewhere.write_text("mine")
    path.with_name(f".{path.name}.keyturn").symlink_to(elsewhere)
    install(host, path, 60, 'Bash|"W"')
    install(host, path, 60, 'Bash|"W"')
    assert path.is_symlink()
    assert len(host.lines(kept.read_text())) == 2
    assert elsewhere.read_text() == "mine"
    settings = json.loads(kept.read_text())
    settings["hooks"][PRE][0]["hooks"].append({"command": "mine"})
    kept.write_text(json.dumps(settings))
    uninstall(host, path)
    assert json.loads(kept.read_text()) == {"hooks": {PRE: [{"matcher": 'Bash|"W"', "hooks": [{"command": "mine"}]}]}}
    kept.write_bytes(b"\xff")
    with pytest.raises(BadSettings):
        install(host, path, 60, "")
    text = host_named("codex").installed("", "/srv/\N{SNOWMAN}\N{GRINNING FACE}/keyturn hook codex", 60, 'Bash|"W"')
    [hook] = tomllib.loads(text)["hooks"][PRE]
    assert (hook["matcher"], hook["hooks"][0]["command"].partition(" ")[0]) == (
        'Bash|"W"',
        "/srv/\N{SNOWMAN}\N{GRINNING FACE}/keyturn",
    )


def test_the_command_installs_tells_and_tries(desk: Desk, tmp_path: Path) -> None:
    ours = desk.environment(tmp_path, KEYTURN_SERVER="", KEYTURN_TOKEN="")
    (tmp_path / "token").write_text(desk.token + "\n")

    def keyturn(*words: str) -> subprocess.CompletedProcess[str]:
        return forked.run(
            ["-m", "keyturn", "hook", *words], env=ours, capture_output=True, text=True, timeout=60, check=False
        )

    assert keyturn("install", "claude-code").returncode == 2
    assert keyturn("install").returncode == 2
    made = keyturn("install", "claude-code", "--server", desk.port.url, "--token-file", str(tmp_path / "token"))
    assert made.returncode == 0, made.stderr
    kept = tmp_path / ".config" / "keyturn" / "hook.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    status = keyturn("status")
    assert "Claude Code: installed" in status.stdout
    assert "Codex CLI: not installed" in status.stdout
    assert "cursor/hooks.json; untested" in status.stdout
    assert f"Server: {desk.port.url} answers" in status.stdout
    desk.decides()
    tried = keyturn("test", "codex", "--wait", "30")
    assert "the call runs" in tried.stdout, tried.stderr
    assert keyturn("uninstall", "claude-code").returncode == 0
    assert "Claude Code: not installed" in keyturn("status").stdout


def test_another_agent_of_the_app_is_not_asked() -> None:
    with Port(more=[Agent("other")]) as port:
        alone = Desk(port)
        assert "ExternalAgent" in asked(alone, sent(call="z1")).stdout


async def test_the_tool_for_headless_agents_allows_what_was_approved_and_denies_the_rest(desk: Desk) -> None:
    server = prompt_server(desk.server, 30)

    async def decided(client: Client, call: str, **more: Any) -> Any:
        sent = {"tool_name": "Bash", "input": {"command": "make"}, "tool_use_id": call} | more
        made = await client.call_tool(TOOL, sent)
        assert isinstance(made.content[0], TextContent)
        return json.loads(made.content[0].text)

    async with Client(server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [TOOL]
        desk.decides()
        assert await decided(client, "p1") == {"behavior": "allow", "updatedInput": {"command": "make"}}
        desk.decides(edit={"command": "make check"})
        assert await decided(client, "p2") == {"behavior": "allow", "updatedInput": {"command": "make check"}}
        desk.decides("reject", message="Not today.")
        assert await decided(client, "p3") == {"behavior": "deny", "message": "rejected by ada: Not today."}
        assert (await decided(client, "p4", tool_name=5))["behavior"] == "deny"
        waiting = [asyncio.ensure_future(decided(client, f"p5 {each}")) for each in range(12)]

        async def all_are_asked() -> bool:
            return len(await asyncio.to_thread(lambda: desk.port.does(desk.port.app.inbox.list()))) == len(waiting)

        await until(all_are_asked)  # however few processors there are
        for each in waiting:
            each.cancel()
        await until(lambda: asyncio.to_thread(lambda: not desk.port.does(desk.port.app.inbox.list())))
    async with Client(prompt_server(lambda: AskServer("http://localhost:1", "t"), 5)) as client:
        assert (await decided(client, "p6"))["behavior"] == "deny"


def test_what_is_approved_once_the_agent_waits_no_longer_is_not_released(desk: Desk) -> None:
    gone, ended = threading.Event(), list[BaseException]()

    def hook() -> None:
        with contextlib.closing(desk.server()) as server:
            try:
                answered(host_named("claude-code"), json.dumps(sent()), server, 30, signals=False, gone=gone.is_set)
            except BaseException as error:
                ended.append(error)

    waiting = threading.Thread(target=hook)
    waiting.start()
    row = desk.pending()
    gone.set()
    with contextlib.suppress(KeyturnError):  # the hook may find out first
        desk.port.does(desk.port.app.inbox.approve(row, by="ada"))
    waiting.join()
    state = desk.port.does(desk.port.app.asks.get(row.run, account="laptop"))
    assert (type(ended[0]), state.status, state.attempts) == (HookEnded, "withdrawn", 0)
