"""What the address of a hosted server holds beside its place is shown to nobody, and is part of what is approved."""

from __future__ import annotations

from pathlib import Path

from keyturn import Agent, App, HostedMCPTool
from keyturn.testing import ScriptedModel

SECRET = "hunter2-4242"


def hosted(url: str) -> HostedMCPTool:
    return HostedMCPTool({"type": "mcp", "server_label": "docs", "server_url": url})


async def test_a_password_or_key_in_the_address_of_a_server_is_in_no_row_and_no_export(tmp_path: Path) -> None:
    tool = hosted(f"https://ann:{SECRET}@d.example/mcp?key={SECRET}")
    call = {"type": "mcp_approval_request", "id": "m", "server_label": "docs", "name": "log_in", "arguments": "{}"}
    async with App([Agent("a", model=ScriptedModel([[call], "Done."]), tools=[tool])], "memory://") as app:
        run = await app.start("a", "go")
        await run.wait()
        [row] = await app.inbox.list()
        await app.audit.export(tmp_path / "record.jsonl", secrets=True)
    assert "https://d.example/mcp" in row.body
    assert SECRET not in row.body
    assert SECRET not in (tmp_path / "record.jsonl").read_text(encoding="utf-8")


def test_servers_that_differ_in_what_their_addresses_hide_are_different_servers() -> None:
    plain = hosted("https://d.example/mcp")
    first, second = (hosted(f"https://d.example/mcp?tenant={name}") for name in ("staging", "prod"))
    assert "origin" not in plain.spec()
    assert first.spec()["config"] == second.spec()["config"] == plain.spec()["config"]
    assert first.spec()["origin"] != second.spec()["origin"]
