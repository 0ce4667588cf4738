"""The demo with a provider's model: what is wrong with its key is said before anything begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import Fault
from tests.cli.terminal import KEYS, SECRET, at_a_terminal, unfolded

COMMAND = ["-P", "-m", "keyturn", "demo", "--terminal"]
WIRES: dict[str, tuple[Any, str, str]] = {
    "openai": (ResponsesServer, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": (MessagesServer, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "google": (GeminiServer, "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
# In `make test` over one wire: the others differ in their model, whose own tests hold what it sends and reads.
wires = pytest.mark.parametrize(
    "wire", [pytest.param(each, marks=() if each == "openai" else pytest.mark.trial) for each in WIRES]
)


@wires
def test_a_wrong_key_is_said_with_a_remedy(wire: str, tmp_path: Path) -> None:
    kind, key, address = WIRES[wire]
    with kind([Fault(status=401, message="Incorrect API key provided: sk-secret")]) as server:
        own = {key: "sk-secret", address: server.base_url, "TMPDIR": str(tmp_path), "KEYTURN_SECRET": SECRET}
        shown, code = at_a_terminal(COMMAND, environ={**dict.fromkeys(KEYS, ""), **own})
    assert code == 1
    told = " ".join(unfolded(shown).replace(" | ", " ").split())
    assert f"did not accept the key in {key} (401)" in told
    assert "keyturn demo --scripted" in told
    assert "sk-secret" not in shown
    assert "Traceback" not in shown
    assert not list(tmp_path.glob("keyturn-demo-*"))
