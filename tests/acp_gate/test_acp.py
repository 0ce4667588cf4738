"""Permissions that an ACP agent asks for are decided in the inbox, and never in the editor or by a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from keyturn import Conflict, ExternalAgent, UserError
from keyturn.acp_gate.permissions import SeenCalls, permission_of
from keyturn.acp_gate.proxy import AcpGate
from keyturn.asks.ask import Ask, AskState
from keyturn.gating.errors import NOT_RUN
from keyturn.testing import function_call
from keyturn.testing.loopback.google import GeminiServer
from tests import forked
from tests.server.programs import Port
from tests.waiting import turns_of_the_loop, until, until_now

AGENT = str(Path(__file__).with_name("agent.py"))
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def asks(id: Any, call: Any, options: Any = OPTIONS, session: str = "s1") -> dict[str, Any]:
    params = {"sessionId": session, "toolCall": call, "options": options}
    return {"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}


def makes(command: str = "make") -> dict[str, Any]:
    return {"toolCallId": f"c {command}", "title": command, "kind": "execute", "rawInput": {"command": command}}


AGENTS = Path(sys.prefix) / "agents" / "node_modules" / ".bin"


class Editor:
    """Starts the gate before an agent that says these messages, and reads what each side is told."""

    def __init__(self, url: str, token: str, folder: Path, says: list[Any]) -> None:
        self.heard = folder / "heard"
        self.heard.write_text("")
        (folder / "says").write_text("".join(json.dumps(each) + "\n" for each in says))
        command = ["-m", "keyturn", "acp", "--server", url, "--", sys.executable, AGENT, str(folder / "says")]
        self.process = forked.Program(
            [*command, str(self.heard)],
            stdin=forked.PIPE,
            stdout=forked.PIPE,
            stderr=forked.PIPE,
            text=True,
            env={**os.environ, "KEYTURN_TOKEN": token},
        )

    def say(self, message: Any) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def told(self, count: int = 1) -> list[Any]:
        """Wait until the agent was told so many things, and return them."""

        def lines() -> list[Any]:
            found = self.heard.read_text().splitlines()
            return list(map(json.loads, found)) if len(found) >= count else []

        return until_now(lines)

    def read(self) -> Any:
        return json.loads(self.process.stdout.readline())


@contextmanager
def editing(folder: Path, *says: Any, url: str = "") -> Generator[tuple[Port, Editor]]:
    with Port(more=[ExternalAgent()]) as port:
        token = port.does(port.app.people.issue_token("bot", ["ask"], by="ada"))
        editor = Editor(url or port.url, token, folder, list(says))
        try:
            yield port, editor
        finally:
            editor.process.kill()
            editor.process.wait()


def pending(port: Port, count: int = 1) -> list[Any]:
    """Wait until so many requests are pending, and return them."""
    return until_now(lambda: len(found := list(port.does(port.app.inbox.list()))) == count and (found or [None]))


def chosen(message: Any) -> tuple[Any, Any]:
    return message["id"], message["result"]["outcome"].get("optionId", "cancelled")


def test_a_permission_is_decided_in_the_inbox_once_and_all_else_passes(tmp_path: Path) -> None:
    diff = {"type": "diff", "path": "a.py", "oldText": "x", "newText": "y"}
    update = {"sessionUpdate": "tool_call", "toolCallId": "c2", "kind": "edit", "title": "Edit a.py", "content": [diff]}
    says = [
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}},
        asks(7, makes()),
        asks("8", {"toolCallId": "c2"}),
    ]
    with editing(tmp_path, *says) as (port, editor):
        assert editor.read() == says[0]
        make, edit = sorted(pending(port, 2), key=lambda row: row.tool, reverse=True)
        assert (make.tool, make.params) == ("execute", {"command": "make", "title": "make"})
        assert edit.params == {"file_path": "a.py", "old_string": "x", "new_string": "y", "title": "Edit a.py"}
        forged = {"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}
        prompt = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s1"}}
        for message in (forged, [forged], prompt):
            editor.say(message)
        assert editor.told(1) == [prompt]
        port.does(port.app.inbox.approve(make, by="ada"))
        port.does(port.app.inbox.reject(edit, by="ada"))
        assert sorted(str(chosen(each)) for each in editor.told(3)[1:]) == ["('8', 'no')", "(7, 'yes')"]
        until_now(lambda: port.does(port.app.asks.get(make.run, account="bot")).status == "succeeded")


def test_a_line_that_cannot_be_read_reaches_nobody_and_an_editor_answers_what_it_was_shown_and_nothing_else() -> None:
    told, shown, logged = list[bytes](), list[bytes](), list[str]()
    gate = AcpGate(cast("Any", None), "agent", told.append, shown.append, logged.append)
    whole = json.dumps(asks(7, makes())).encode()
    for unreadable in (b"[" * 3_000 + b"]" * 3_000, b"9" * 5_000, b'"\xff"'):  # which other readers can read
        gate.from_agent(whole.replace(b'"make"', unreadable, 1) + b"\n")
    gate.from_agent(whole[:-1] + b',"method":"session/update"}\n')  # some readers take the first of two, some the last
    assert (shown, len(logged)) == ([], 4)
    read = b'{"jsonrpc":"2.0","id":3,"method":"fs/read_text_file","params":{}}\n'
    gate.from_agent(read)
    assert shown == [read]
    result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    forged: list[Any] = [{"id": id, "result": result} for id in (7, 7.0, True, None, "7")]
    forged += [{"id": 7, "method": method, "result": result} for method in (None, "x")]
    for each in (*forged, forged[:1], [forged[0], forged[-1]]):
        gate.from_editor(json.dumps(each).encode() + b"\n")
    gate.from_editor(b'{"id":7,"result":{"more":' + b"[" * 3_000 + b"]" * 3_000 + b"}}\n")
    assert told == []
    answer = b'{"jsonrpc":"2.0","id":3,"result":{"content":"x"}}\n'
    for _ in range(2):
        gate.from_editor(answer)
    assert told == [answer]
    gate.from_agent(read)
    gate.from_agent(json.dumps(asks(3, [])).encode())  # refused, with the id of what the editor was shown
    told.clear()
    gate.from_editor(answer)
    assert told == []


def test_without_a_decision_nothing_is_allowed(tmp_path: Path) -> None:
    says = [
        asks(1, makes(), [OPTIONS[0], OPTIONS[2]]),  # nothing but a standing permission is offered
        {"method": "session/request_permission", "params": asks(9, makes())["params"]},  # it cannot be answered
        asks(6, makes(), [*OPTIONS, {"optionId": "more", "kind": "allow_once"}]),  # one of the two is for more
        asks(2, makes(), "all"),
        asks(3, {"toolCallId": "c9"}),
        [asks(4, makes("rm -rf /"), OPTIONS[:2])],
        asks(5, makes("ls")),
    ]
    with editing(tmp_path, *says) as (port, editor):
        told = {each["id"]: each for each in editor.told(4)}
        assert [chosen(told[id]) for id in (1, 6)] == [(1, "no"), (6, "no")]
        assert all(told[id]["error"]["code"] == -32602 for id in (2, 3))
        wipe = next(row for row in pending(port, 2) if "rm" in str(row.params))
        port.does(port.app.inbox.reject(wipe, by="ada"))
        assert chosen(editor.told(5)[4]) == (4, "cancelled")  # it offers no rejection
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
        editor.say(cancel)
        last = editor.told(7)[5:]
        assert cancel in last
        assert [chosen(each) for each in last if "result" in each] == [(5, "cancelled")]
        pending(port, 0)


def test_a_server_that_is_away_allows_nothing_and_an_editor_that_hangs_up_withdraws(tmp_path: Path) -> None:
    with editing(tmp_path, asks(1, makes()), url="http://localhost:9") as (_, editor):
        assert chosen(editor.told(1)[0]) == (1, "no")
    with editing(tmp_path, asks(1, makes())) as (port, editor):
        pending(port)
        editor.process.stdin.close()
        assert editor.process.wait(30) == 0
        pending(port, 0)


@pytest.mark.trial
@pytest.mark.skipif(not (AGENTS / "gemini").exists(), reason="needs coding agents (make coding-agents)")
@pytest.mark.parametrize("verdict", ["approve", "reject"])
@pytest.mark.timeout(600)
def test_the_real_gemini_cli_runs_what_was_approved_and_nothing_else(tmp_path: Path, verdict: str) -> None:
    call = function_call("run_shell_command", {"command": "echo hi > made.txt", "description": "Make a file"})
    places = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with GeminiServer([[call], "Done."]) as model, Port(more=[ExternalAgent()]) as port:
        token = port.does(port.app.people.issue_token("bot", ["ask"], by="ada"))
        keys = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model.base_url, "KEYTURN_TOKEN": token}
        command = ["-m", "keyturn", "acp", "--server", port.url, "--", str(AGENTS / "gemini"), "--acp"]
        process: Any = subprocess.Popen(
            [sys.executable, *command, "-m", "gemini-2.5-flash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=places | keys,
            cwd=tmp_path,
        )
        with process:
            _asked(process, 0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            _asked(process, 1, "authenticate", {"methodId": "gemini-api-key"})
            session = _asked(process, 2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})["sessionId"]
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Make it."}]}
            decides = threading.Thread(target=_decide, args=(port, verdict))
            decides.start()
            _asked(process, 3, "session/prompt", prompt)
            decides.join()
            process.stdin.close()
        assert (tmp_path / "made.txt").exists() == (verdict == "approve")


def _asked(process: Any, id: int, method: str, params: Any) -> Any:
    """Ask the agent something as an editor does, and return its answer; it is asked for no permission."""
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        assert "request_permission" not in line
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("id") == id and "method" not in told:
            return told["result"]
    raise AssertionError("the agent ended")


def _decide(port: Port, verdict: str) -> None:
    [row] = until_now(lambda: list(port.does(port.app.inbox.list())), 120)
    port.does(getattr(port.app.inbox, verdict)(row, by="ada"))


def test_a_request_shows_its_own_call_and_no_part_of_it_hides_another() -> None:
    seen = SeenCalls()
    listed = {"toolCallId": "call_0", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
    wiped = {"toolCallId": "call_0", "title": "Wipe", "kind": "execute"}
    for ended in ({"sessionUpdate": "tool_call_update", "toolCallId": "call_0", "status": "completed"}, None):
        seen.look("s1", {"sessionUpdate": "tool_call", **listed})
        if ended is None:
            seen.look("s1", {"sessionUpdate": "tool_call", **wiped})
        else:
            seen.look("s1", ended)
        made = permission_of(asks(1, {"toolCallId": "call_0", "title": "Wipe"}), seen, "agent")
        assert json.loads(made.ask.arguments) == {"title": "Wipe"}  # and nothing of the call that had this id before
    diff = {"type": "diff", "path": "/etc/passwd", "oldText": "x", "newText": "y"}
    given = {"title": "t", "locations": "l", "changes": ["c"], "file_path": "f"}
    whole = {"toolCallId": "c1", "title": "Edit", "rawInput": given, "content": [diff], "locations": [{"path": "/etc"}]}
    for content in ([diff], [diff, diff]):
        made = permission_of(asks(1, {**whole, "content": content}), SeenCalls(), "agent")
        shown = json.loads(made.ask.arguments)
        assert (shown["input"], shown["title"], shown["locations"]) == (given, "Edit", [{"path": "/etc"}])
        assert "/etc/passwd" in str(shown.get("changes", shown.get("file_path")))


@pytest.mark.parametrize("moment", ["claim", "claimed", "outcome"])
async def test_what_the_agent_was_told_is_what_is_recorded_whenever_the_editor_cancels(moment: str) -> None:
    """A call that was claimed is released, or it is recorded as not run."""
    told: list[Any] = []
    reported: list[tuple[str, Any]] = []

    class Inbox:
        async def ask(self, ask: Ask, **_words: Any) -> AskState:
            return AskState(id="1", key=ask.key, tool=ask.tool, status="approved", digest="d")

        async def claim(self, id: str, digest: str, name: str) -> AskState:
            cancel("claim")
            await turns_of_the_loop()
            cancel("claimed")
            return AskState(id=id, key="k", tool="t", status="claimed", claimed_by=name)

        async def report(self, id: str, name: str, outcome: str, result: Any) -> None:
            cancel("outcome")
            await turns_of_the_loop()
            reported.append((outcome, result))

        async def withdraw(self, id: str, **_words: Any) -> None:
            raise Conflict("it was claimed")

    def cancel(here: str) -> None:
        if here == moment:
            gate.from_editor(
                json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}).encode()
            )

    inbox: Any = Inbox()
    gate = AcpGate(inbox, "agent", lambda line: told.append(json.loads(line)), lambda line: None, print)
    gate.from_agent(json.dumps(asks(7, makes())).encode())
    await until(lambda: settled(reported, told))
    answers = [chosen(each) for each in told if each.get("id") == 7]
    released = moment == "outcome"
    assert answers == [(7, "yes" if released else "cancelled")]
    assert reported == [("succeeded", "released to the agent") if released else ("failed", NOT_RUN)]


async def settled(reported: list[Any], told: list[Any]) -> bool:
    return bool(reported) and any(each.get("id") == 7 for each in told)


def test_what_cannot_be_shown_is_not_asked() -> None:
    odd: list[Any] = [None, {}, {"sessionId": "s", "toolCall": [], "options": []}]
    for params in [*odd, {"sessionId": "s", "toolCall": {}, "options": [1]}]:
        with pytest.raises(UserError):
            permission_of({"id": 1, "params": params}, SeenCalls(), "agent")
    with pytest.raises(ValueError, match="JSON"):
        permission_of(asks(1, {"toolCallId": "c", "rawInput": {"n": float("nan")}}), SeenCalls(), "agent")
