"""How long a stranger takes from the clone to their first decision in a browser, doing what the README says.

    python -m trials.first_decision [--limit 120] [--rounds 1] [--cold] [--python PATH]

Each round clones this repository into a new folder, says `make demo` there in a terminal, takes the first link that it
prints, comes in with chromium, opens the inbox, and approves the first call that takes one person. Its time ends when
the page says that the approval is recorded. What was committed is what is tried. `--cold` lets pip use no cache;
`--python` is an environment that is there already, in place of the one that `make demo` makes: the short version.
It ends what it started, removes its folder, and fails where a round takes longer than the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .table import grid

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 120.0
_PATIENCE = 300.0
_LINK = re.compile(r"http://localhost:\d+/enter#kt_\w+")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_UP, _WHOLE = "Keyturn: the model turns one key", "Press Ctrl-C to stop"
#: A stranger has none of these: no keys of providers, no screen for the demo's own browser, nothing of this program.
_NOT_THEIRS = re.compile(
    r"DISPLAY|WAYLAND_.*|.*_API_KEY|KEYTURN_.*|DEMO_ONCE|PYTHONPATH|VIRTUAL_ENV|VENV|M.*FLAGS|MAKELEVEL"
)
_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]


class Part(NamedTuple):
    """Holds what was done, and how many seconds it took."""

    what: str
    seconds: float


class Stopwatch:
    """Tells how long each part took, one after the other."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._begun = time.perf_counter()

    def lap(self, what: str) -> None:
        """End a part; the next one begins."""
        now = time.perf_counter()
        self.parts.append(Part(what, now - self._begun))
        self._begun = now

    @property
    def total(self) -> float:
        """Return what all parts took."""
        return sum(part.seconds for part in self.parts)


class Typed:
    """A command that somebody typed in a terminal, and what it has said so far."""

    def __init__(self, command: list[str], folder: Path, environ: dict[str, str]) -> None:
        self._leader, follower = pty.openpty()
        self._process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
        )
        os.close(follower)
        self.said = ""

    def until(self, words: str) -> None:
        """Read what it says until it said these words; raise `SystemExit` if it ends before, or takes for ever."""
        ends = time.monotonic() + _PATIENCE
        while words not in _plain(self.said):
            ready = select.select([self._leader], [], [], max(0.0, ends - time.monotonic()))[0]
            more = b""
            with contextlib.suppress(OSError):  # a terminal whose program has ended
                more = os.read(self._leader, 65_536) if ready else b""
            if not more:
                raise SystemExit(f"`make demo` never said {words!r}. It said:\n{self.said[-3_000:]}")
            self.said += more.decode(errors="replace")

    def end(self) -> int:
        """Press Ctrl-C, and wait for its end; what does not end is killed with all that it started."""
        group = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGINT)
        try:
            self._drained()
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self._process.wait()
        os.close(self._leader)
        return code

    def _drained(self) -> None:
        """Read on until it has ended: what nobody reads could hold it up."""
        with contextlib.suppress(OSError):
            while select.select([self._leader], [], [], 30)[0] and os.read(self._leader, 65_536):
                pass


def _plain(text: str) -> str:
    """Return what a terminal shows as words: without colours, and however the lines are folded."""
    return " ".join(_COLOUR.sub("", text).split())


def theirs(home: Path, *, cold: bool) -> dict[str, str]:
    """Return the environment of somebody who has never heard of us, with keys and temporary files in one folder."""
    kept = {name: value for name, value in os.environ.items() if not _NOT_THEIRS.fullmatch(name)}
    more = {"PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"} if cold else {}
    for name in ("tmp", "keys"):
        (home / name).mkdir()
    return {**kept, **more, "TMPDIR": str(home / "tmp"), "KEYTURN_HOME": str(home / "keys"), "TERM": "xterm"}


@contextlib.contextmanager
def chromium_page(**options: Any) -> Generator[Any]:
    """Open a page in a browser of its own, which is closed afterwards."""
    from playwright.sync_api import sync_playwright

    from tests.server.browsing import chromium

    path = chromium()
    if path is None:
        raise SystemExit("there is no chromium here (Debian: chromium-headless-shell)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS, timeout=60_000)
        try:
            page = browser.new_page(**options)
            page.set_default_timeout(30_000)
            yield page
        finally:
            browser.close()


def decide(link: str, watch: Stopwatch) -> str:
    """Sign in by a link, approve the first call that one person approves, and return what the page then says."""

    def approvable(page: Any) -> Iterator[None]:
        for place in range(page.locator(".row").count()):
            page.locator(".row").nth(place).click()
            page.wait_for_url("**/requests/*")
            if (
                page.get_by_role("button", name="Approve this call").count()
                and not page.locator(".row.on").get_by_text("/2").count()
            ):
                yield

    with chromium_page() as page:
        watch.lap("a browser is opened")
        page.goto(link)
        page.get_by_role("heading", name="Sign in as").wait_for()
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Keyturn, to the inbox").click()
        page.locator(".row").first.wait_for()
        watch.lap("sign in, and the inbox is there")
        for _ in approvable(page):
            page.get_by_role("button", name="Approve this call").click()
            page.locator(".sentence.ended", has_text="Approved by ada").wait_for()
            watch.lap("a call is looked up and approved, and the page says so")
            return str(page.locator(".sentence.ended").inner_text())
    raise SystemExit("no call of the demo could be approved by one person")


@contextlib.contextmanager
def demo(folder: Path, environ: dict[str, str], python: str | None) -> Generator[Typed]:
    """Say `make demo` in a clone, or run the demo in an environment that is there; end it afterwards."""
    if python is not None:
        environ = {**environ, "PYTHONPATH": str(folder / "src")}
    run = Typed(
        ["make", "demo"] if python is None else [python, "-P", "-m", "keyturn.cli.main", "demo"], folder, environ
    )
    try:
        yield run
    finally:
        run.end()


def measure(python: str | None = None, *, cold: bool = False) -> tuple[list[Part], str]:
    """Do all of it once; return what each part took, and what the page said at the end."""
    if not (ROOT / ".git").exists():
        raise SystemExit("this trial clones the repository, and this folder is none")
    with tempfile.TemporaryDirectory(prefix="keyturn-first-") as name:
        home = Path(name)
        environ = theirs(home, cold=cold)
        folder = home / "keyturn"
        watch = Stopwatch()
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
        watch.lap("git clone")
        with demo(folder, environ, python) as run:
            run.until(_UP)
            watch.lap("make demo: an environment, and the packages" if python is None else "the demo begins")
            run.until(_WHOLE)
            watch.lap("the demo is up: a worker that died, calls that wait, two links")
            said = decide(_LINK.findall(run.said)[0], watch)
    return watch.parts, said


def main() -> int:
    """Measure, print the parts of each round, and return 1 where one took too long."""
    parser = argparse.ArgumentParser(description="How long it takes from a clone to the first decision in a browser.")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a round may take (120)")
    parser.add_argument("--rounds", type=int, default=1, help="how often all of it is done")
    parser.add_argument("--cold", action="store_true", help="pip uses no cache")
    parser.add_argument("--python", help="an environment that is there already: nothing is installed")
    options = parser.parse_args()
    slowest = 0.0
    for number in range(1, options.rounds + 1):
        parts, said = measure(options.python, cold=options.cold)
        total = sum(part.seconds for part in parts)
        slowest = max(slowest, total)
        lines = [
            [part.what, f"{part.seconds:.1f}"] for part in (*parts, Part("from the clone to the first decision", total))
        ]
        print(grid([f"round {number}", "seconds"], lines))
        print(f"\nThe page says: {said}\n")
    late = slowest > options.limit
    print(f"slowest {slowest:.1f} s, limit {options.limit:g} s{': too slow' if late else ''}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
