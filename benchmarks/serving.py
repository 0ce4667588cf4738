"""A provider on this machine, in a process of its own: what it costs is no subject's cost.

`served` starts one for a `with` block. Every request is answered with the same stream, which is made once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

from .script import words

# Each wire format by the name of its loopback server.
SERVERS = {
    "responses": "responses:ResponsesServer",
    "chat": "chat:ChatServer",
    "anthropic": "anthropic:MessagesServer",
    "google": "google:GeminiServer",
}


@contextmanager
def served(api: str, deltas: int) -> Generator[str]:
    """The `base_url` of a server that streams so many deltas as its answer to everything."""
    command = [sys.executable, "-m", "benchmarks.serving", api, str(deltas)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()  # it ends there


def main(api: str, deltas: int) -> None:
    """Serve until nobody holds the other end of our input."""
    module, _, name = SERVERS[api].partition(":")
    base = getattr(import_module(f"keyturn.testing.loopback.{module}"), name)
    made = []

    def reply(self, request, step):
        if not made:
            made.append(base.reply(self, request, step))
        return made[0]

    text = "".join(words(deltas))
    with type("Cached", (base,), {"reply": reply})(lambda _request: text) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
