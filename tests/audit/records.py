"""A store whose record is signed, exported and altered: what the tests of the audit share. No test is here."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from keyturn import Agent, Approval, MemoryJournal, Runner, Secret, function_tool
from keyturn.audit.evidence.report import VerifyReport
from keyturn.audit.evidence.signing import Signer
from keyturn.audit.service import Audit
from keyturn.core.people import Decider
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing.crash import play
from tests.scenarios import CATALOGUE

ADA = Decider("ada", strength="authenticated", roles=("finance",))


class Desk:
    """A store with an auditor's files beside it."""

    def __init__(self, store: Any, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.key = folder / "key"
        self.audit = Audit(store, key=self.key)

    @property
    def public(self) -> Path:
        """The public keys as they are now."""
        path = self.folder / "public"
        path.write_text(Signer.of(self.key, 5).public.text)
        return path

    async def played(self, scenarios: Sequence[Any]) -> None:
        """Play scenarios in the store."""
        for scenario in scenarios:
            await play(replace(scenario, options={**scenario.options, "journal": self.store}))

    async def exported(self, name: str = "export.jsonl", **options: Any) -> list[bytes]:
        """The rows of an export, made now."""
        await self.audit.export(self.folder / name, **options)
        return rows_of(self.folder / name)

    def verified(self, rows: Sequence[bytes] | bytes, *heads: Path) -> VerifyReport:
        """Verify rows, or bytes as they stand."""
        data = rows if isinstance(rows, bytes) else b"".join(row + b"\n" for row in rows)
        return Audit.verify_file(io.BytesIO(data), public=self.public, heads=heads)


def rows_of(path: Path) -> list[bytes]:
    """The rows of a file."""
    return path.read_bytes().split(b"\n")[:-1]


async def desk(folder: Path, store: Any = None, scenarios: Sequence[Any] = CATALOGUE[1:8]) -> Desk:
    """A store in which something happened."""
    made = Desk(store or MemoryJournal(), folder)
    await made.played(scenarios)
    return made


def replaced(rows: Sequence[bytes], place: int, change: Callable[[bytes], bytes]) -> list[bytes]:
    """The rows with one of them changed."""
    return [*rows[:place], change(rows[place]), *rows[place + 1 :]]


def paying(*rounds: Any, **options: Any) -> Agent[Any]:
    """An agent that pays, after somebody said so, with a token that nobody is to see."""

    @function_tool(needs_approval=True, **options)
    def pay(amount: int, token: Annotated[str, Secret] = "none") -> str:
        return f"paid {amount}"

    return Agent("desk", model=ScriptedModel(list(rounds)), tools=[pay])


def a_call(number: int, **more: Any) -> list[Any]:
    """A round of one payment."""
    return [function_call("pay", {"amount": number, **more}, call_id=f"c{number}")]


async def paid(store: Any, *rounds: Any, by: Any = "ada", **words: Any) -> str:
    """Run an agent that pays, approve all that it asks, and return the run's id."""
    agent = paying(*rounds, "Done.")
    result = await Runner.run(agent, "go", journal=store)
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item, by=by, **words)
        result = await Runner.run(agent, state)
    return result.to_state().run_id


FOUR_EYES = Approval(quorum=2, users=("ada", "bob"))
