"""How long a user takes from `pip install` to a command of Claude Code that they approved on a phone.

    python -m trials.first_command [--limit 300] [--cold] [--claude PATH]

It does what the page *Coding agents* of the manual says: a new environment, `pip install` of this tree with its server,
`keyturn init`, a service account with a token, `keyturn serve`, a sign-in link, `keyturn hook install`. Then the real
Claude Code (`make coding-agents`), whose model is a server on the loopback that calls the shell once, asks; the link is
opened in chromium at the size of a phone, and the request approved. The time ends when the command has run. It ends
what it started, and fails where it took longer than the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from keyturn.models.scripted.items import function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.server import HttpRequest

from .first_decision import ROOT, Part, Stopwatch, chromium_page, theirs
from .table import grid

LIMIT = 300.0
CLAUDE = Path(sys.prefix) / "agents" / "node_modules" / ".bin" / "claude"
_PHONE = {"width": 390, "height": 844}
_LINK = re.compile(r"http://localhost:\d+/enter#kt_\w+")
_PATIENCE = 240.0


class Messages(MessagesServer):
    """Anthropic's API as Claude Code asks it."""

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        return None if (request.method, request.path.partition("?")[0]) == ("POST", "/v1/messages") else (404, "no")


def _model(request: HttpRequest) -> Any:
    """Call the shell once, and be done then."""
    names = [tool["name"] for tool in request.json.get("tools", [])]
    if "Bash" not in names or "tool_result" in str(request.json):
        return "Done."
    return [function_call("Bash", {"command": "touch made.txt", "description": "Make a file"}, call_id="toolu_1")]


class Machine:
    """A new environment, in which the commands of the manual are typed."""

    def __init__(self, home: Path, environ: dict[str, str]) -> None:
        self.home, self.environ = home, environ | {"HOME": str(home)}
        self.place = ["--journal", f"sqlite:///{home}/keyturn.db"]

    def does(self, *command: str) -> str:
        """Run a command to its end, and return what it prints."""
        made = subprocess.run(command, cwd=self.home, env=self.environ, capture_output=True, text=True, check=False)
        if made.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{made.stdout[-2_000:]}{made.stderr[-2_000:]}")
        return made.stdout

    def keyturn(self, *command: str) -> str:
        """Run a command of Keyturn."""
        return self.does(str(self.home / "venv" / "bin" / "keyturn"), *command)

    @contextlib.contextmanager
    def begun(self, *command: str, **more: str) -> Generator[subprocess.Popen[str]]:
        """Begin a program, and end it afterwards."""
        program = subprocess.Popen(
            command, cwd=self.home / "work", env=self.environ | more, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            yield program
        finally:
            program.terminate()
            try:
                program.wait(30)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def _await(place: str) -> None:
    """Wait until a server answers."""
    ends = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(OSError):
            http.client.HTTPConnection(place, timeout=5).request("GET", "/")
            return
        if time.monotonic() > ends:
            raise SystemExit("keyturn serve does not answer")
        time.sleep(0.1)


def _approved(link: str, watch: Stopwatch) -> str:
    """Sign in on a phone, open the request, approve it, and return what the page then says."""
    with chromium_page(viewport=_PHONE, is_mobile=True, has_touch=True) as page:
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Keyturn, to the inbox").click()
        watch.lap("a phone signs in by the link")
        ends = time.monotonic() + _PATIENCE
        while not page.locator(".row").count():
            if time.monotonic() > ends:
                raise SystemExit("no request came")
            page.wait_for_timeout(200)
            page.reload()
        page.locator(".row").first.click()
        page.wait_for_url("**/requests/*")
        watch.lap("Claude Code asks, and its request is open on the phone")
        page.get_by_role("button", name="Approve this call").click()
        page.locator(".sentence.ended", has_text="Approved by").wait_for()
        return str(page.locator(".sentence.ended").inner_text())


def measure(claude: Path, *, cold: bool = False) -> tuple[list[Part], str]:
    """Do all of it once; return what each part took, and what the page said at the end."""
    with tempfile.TemporaryDirectory(prefix="keyturn-command-") as name:
        machine = Machine(Path(name), theirs(Path(name), cold=cold))
        (machine.home / "work").mkdir()
        watch = Stopwatch()
        machine.does(sys.executable, "-m", "venv", "venv")
        watch.lap("python -m venv")
        machine.does("venv/bin/python", "-m", "pip", "install", "--quiet", f"{ROOT}[server]")
        watch.lap("pip install 'keyturn[server]'")
        machine.keyturn("init", "ada", *machine.place)
        machine.keyturn("users", "add", "laptop", "--machine", *machine.place)
        token = machine.home / "laptop.token"
        token.write_text(machine.keyturn("users", "token", "laptop", "--scope", "ask", *machine.place))
        watch.lap("keyturn init, a service account, a token")
        said = _command(machine, token, claude, watch)
    return watch.parts, said


def _command(machine: Machine, token: Path, claude: Path, watch: Stopwatch) -> str:
    keyturn, port = str(machine.home / "venv" / "bin" / "keyturn"), str(_free_port())
    made, place = machine.home / "work" / "made.txt", f"http://localhost:{port}"
    with machine.begun(keyturn, "serve", "--port", port, *machine.place), Messages(_model) as model:
        _await(f"localhost:{port}")
        watch.lap("keyturn serve answers")
        said = machine.keyturn("users", "link", "ada", "--url", place, *machine.place)
        link = _LINK.findall(said)[0]
        watch.lap("keyturn users link prints a sign-in link, and its QR code")
        hook = ("hook", "install", "claude-code", "--must", "Bash")
        machine.keyturn(*hook, "--server", place, "--token-file", str(token))
        watch.lap("keyturn hook install claude-code")
        more = {
            "ANTHROPIC_BASE_URL": model.base_url, "ANTHROPIC_API_KEY": "sk-none", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        with machine.begun(str(claude), "-p", "Make the file.", "--allowedTools", "Bash", **more) as agent:
            said = _approved(link, watch)
            agent.wait(_PATIENCE)
            if not made.exists():
                raise SystemExit("the command did not run")
            watch.lap("the request is approved, and the command has run")
    return said


def main() -> int:
    """Measure, print the parts, and return 1 where it took too long."""
    parser = argparse.ArgumentParser(description="From `pip install` to a command approved on a phone.")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that it may take (300)")
    parser.add_argument("--cold", action="store_true", help="pip uses no cache")
    parser.add_argument("--claude", type=Path, default=CLAUDE, help="Claude Code (make coding-agents)")
    options = parser.parse_args()
    if not options.claude.exists():
        raise SystemExit(f"there is no Claude Code at {options.claude}: make coding-agents, or --claude PATH")
    parts, said = measure(options.claude, cold=options.cold)
    total = sum(part.seconds for part in parts)
    whole = Part("from pip install to the approved command", total)
    print(grid(["part", "seconds"], [[part.what, f"{part.seconds:.1f}"] for part in (*parts, whole)]))
    print(f"\nThe page says: {said}\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{total:.1f} s, limit {options.limit:g} s{': too slow' if total > options.limit else ''}")
    return 1 if total > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
