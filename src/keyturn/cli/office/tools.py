"""The tools of the demo's agents, each with what people are asked before it runs.

What they do happens in the demo's folder, which the environment names: a file is changed, and lines are added to
`effects.log`, each with the process that did it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from ...core.approval import Approval
from ...core.preview import Command, Diff, Json, Preview, Text
from ...tools.function import function_tool

HOME = "KEYTURN_DEMO_HOME"
CONFIG = "api.toml"
EFFECTS = "effects.log"
#: How long a card is charged: long enough for a worker to be stopped in the middle.
CHARGING = "charging"
AT_FIRST = """[server]
host = "127.0.0.1"
port = 8080
workers = 2

[limits]
rate = 50
burst = 100

[log]
level = "info"
path = "/var/log/api.log"
"""


def home() -> Path:
    """Return the folder of this demo."""
    return Path(os.environ[HOME])


def note(effect: str) -> None:
    """Record that something happened, and in which process."""
    with (home() / EFFECTS).open("a", encoding="utf-8") as file:
        file.write(f"{effect}, by process {os.getpid()}\n")


@function_tool(
    needs_approval=True,
    approval=Approval(role="finance", quorum=2, not_requester=True, expires="2h"),
    risk="medium",
    preview=lambda given: Preview((Json(given),), summary=f"{given['amount']} EUR back for {given['order']}"),
)
def refund(order: str, amount: int, reason: str) -> str:
    """Send money back to a customer.

    It cannot be called back.
    """
    note(f"refund {order} {amount} EUR")
    return f"refunded {amount} EUR for {order}"


@function_tool(
    needs_approval=True,
    approval=Approval(role="ops", expires="1d"),
    risk="high",
    preview=lambda given: Preview(
        (Text("\n".join(given["statements"]), label="statements"),),
        summary=f"{given['tables']} tables; about {given['minutes']} minutes without writes",
    ),
)
def migrate(tables: int, minutes: int, statements: list[str]) -> str:
    """Change the schema of the production database."""
    note(f"migrate {len(statements)} statements")
    return f"{len(statements)} statements ran"


@function_tool(
    needs_approval=True,
    approval=Approval(expires="6h"),
    risk="high",
    preview=lambda given: Preview((Command(given["script"], cwd=given["cwd"]),)),
)
def run_shell(script: str, cwd: str) -> str:
    """Run a script on the build machine.

    In this demo it is only written down.
    """
    note(f"run_shell {script.splitlines()[-1]}")
    return "the script ended with 0"


def _patched(old: str, new: str) -> tuple[str, str]:
    before = (home() / CONFIG).read_text(encoding="utf-8")
    return before, before.replace(old, new)


@function_tool(
    needs_approval=True,
    approval=Approval(expires="12h"),
    risk="low",
    preview=lambda given: Diff(*_patched(given["old"], given["new"]), path=given["file"]),
)
def apply_patch(file: str, old: str, new: str) -> str:
    """Change a configuration file."""
    _, after = _patched(old, new)
    (home() / CONFIG).write_text(after, encoding="utf-8")
    note(f"apply_patch {file}")
    return f"{file} was changed"


@function_tool(
    needs_approval=True,
    approval=Approval(role="ops", expires="5m", reason="on_reject"),
    risk="high",
    preview=lambda given: Text("\n".join(given["names"]), label="deleted for good"),
)
def delete_backups(names: list[str]) -> str:
    """Delete backups, named one by one."""
    note(f"delete_backups {' '.join(names)}")
    return f"deleted {len(names)}"


@function_tool(needs_approval=True, approval=Approval(expires="4h"), risk="medium")
def export_customers(region: str, columns: list[str]) -> str:
    """Export customers for a report; it holds personal data."""
    note(f"export_customers {region}")
    return f"exported {len(columns)} columns of {region}"


@function_tool(needs_approval=True, approval=Approval(signed=True, role="finance", expires="2d"), risk="high")
def wire_money(iban: str, amount: int, currency: str) -> str:
    """Wire money to an account."""
    note(f"wire_money {amount} {currency}")
    return f"wired {amount} {currency}"


@function_tool
async def charge_card(invoice: str, amount: int) -> str:
    """Charge the card of a customer.

    It takes a while.
    """
    note(f"charge_card {invoice} {amount} EUR")
    (home() / CHARGING).touch()
    await asyncio.sleep(10)  # and not in a thread: a worker that is told to end at once does not wait for it
    return f"charged {amount} EUR for {invoice}"
