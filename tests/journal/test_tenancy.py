"""Every question that a store is asked for one tenant names that tenant; those for all are few, and listed here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.journal import base, optional
from keyturn.journal.base import ClaimFilter, Lease
from keyturn.journal.optional import TenantDue
from keyturn.journal.postgres import PostgresConnection, PostgresJournal
from keyturn.journal.rows import Changes, DeliveryQuery, Dispatch, Notice, Period, Query, RunRow
from keyturn.journal.sqlite import SQLiteConnection, SQLiteJournal
from keyturn.testing.suites.journal_case import Clock

TABLES = "runs|events|requests|grants|outbox|deliveries|tallies"
NAMED = re.compile(rf"\b(?:FROM|JOIN|UPDATE|INTO) (?:{TABLES})\b")
SEAMS = (base.Journal, base.Records, base.Outbox, base.Tallies, base.Sessions, optional.Backlog, optional.Presence)
#: What asks nothing of the tables, or is asked of the seams by other names here.
WITHOUT = {"watch", "watch_all", "now", "be_present", "be_absent"}


async def asked(view: Any) -> set[str]:
    """Call every public question of a store, as a worker, an inbox and a dispatcher do; return their names."""
    called = set[str]()

    async def ask(name: str, *given: Any, **more: Any) -> Any:
        called.add(name)
        return await getattr(view, name)(*given, **more)

    row = RunRow("run", "desk", "queued", 1, 1)
    changes = Changes(row, notices=[Notice("t", "run")], session="s", priority=2)
    await ask("append", "run", 0, [b"1"], None, changes)
    await ask("append", "other", 0, [b"1"], None, changes, Lease("w0", 60_000))
    claim = await ask("claim", "run", "w1", 60_000)
    claim = await ask("renew", claim, 60_000)
    await ask("append", "run", 1, [b"2"], claim, Changes(row))
    await ask("dispatch", claim, Dispatch([]))
    await ask("release", claim, 1)
    for name in ("due", "overdue"):
        await ask(name, 10, ClaimFilter(("desk",), 3, ("x",)))
    await ask("wait_until_due", 0.001)
    await ask("read", "run"), await ask("read", "run", 0, 1)
    for name in ("runs", "requests", "grants"):
        await ask(name, Query(run="run")), await ask(name, Query(state="open", agent="desk"))
    await ask("outbox", 10, [1])
    await ask("tell", [Notice("t", "run")])
    await ask("notified", 0.001)
    await ask("deliveries", DeliveryQuery())
    await ask("send_again", [1])
    await ask("tallies", Period())
    for name in ("head", "ahead", "hashes"):
        await ask(name, "run")
    if hasattr(view, "claim_due"):
        await view.claim_due("w2", 60_000, 5, ClaimFilter())
    await ask("absent"), await ask("end_claims", "w0")
    await ask("erase", "other")
    return called


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_each_statement_of_a_public_question_names_the_tenant_for_each_table(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, said = Clock(), set[str]()
    if kind == "sqlite":
        store: Any = SQLiteJournal(tmp_path / "runs.db", clock=clock)
    else:
        store = PostgresJournal(request.getfixturevalue("database"), clock=clock)
    owner = SQLiteConnection if kind == "sqlite" else PostgresConnection
    for name in ("execute", "tell"):
        monkeypatch.setattr(owner, name, _noting(getattr(owner, name), said))
    wanted = {name for seam in SEAMS for name, _ in inspect.getmembers(seam, inspect.isfunction) if name[0] != "_"}
    assert await asked(store.of("acme")) == wanted - WITHOUT
    await store.close()
    assert sum(bool(NAMED.search(each)) for each in said) > 30
    unkeyed = [each for each in said if len(NAMED.findall(each)) > each.count("tenant")]
    assert not unkeyed, "\n".join(unkeyed)


def _noting(method: Callable[..., Any], said: set[str]) -> Callable[..., Any]:
    def noting(self: Any, sql: str, *values: Any) -> Any:
        said.add(sql)
        return method(self, sql, *values)

    return noting


@pytest.mark.each
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
async def test_the_tenants_are_listed_of_which_runs_are_due_or_will_be(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from keyturn.journal.memory import MemoryJournal

    clock = Clock(1_000_000)
    made: dict[str, Callable[[], Any]] = {
        "memory": lambda: MemoryJournal(clock),
        "sqlite": lambda: SQLiteJournal(tmp_path / "runs.db", clock=clock),
        "postgresql": lambda: PostgresJournal(request.getfixturevalue("database"), clock=clock),
    }
    store = made[kind]()
    await store.of("due").append("run", 0, [b"1"])
    await store.of("due").append("more", 0, [b"1"])
    for tenant, due in (("later", 1_500_000), ("never", None)):
        view = store.of(tenant)
        await view.append("run", 0, [b"1"])
        await view.release(await view.claim("run", "w", 60_000), due)
    held = store.of("held")
    await held.append("run", 0, [b"1"])
    await held.claim("run", "w", 60_000)
    await held.claim("@outbox", "w", 50_000)
    gone = store.of("erased")
    await gone.append("run", 0, [b"1"])
    await gone.erase("run")
    queued = store.of("queued")
    for run, status in (("first", "running"), ("second", "queued")):
        await queued.append(run, 0, [b"1"], None, Changes(RunRow(run, "desk", status, 1, 1), session="s"))
        await queued.release(await queued.claim(run, "w", 60_000))
    wanted = [TenantDue("due", 1_000_000), TenantDue("held", 1_060_000), TenantDue("later", 1_500_000)]
    assert await store.due_tenants() == wanted
    claim = await queued.claim("first", "w", 60_000)
    await queued.append("first", 1, [b"2"], claim, Changes(RunRow("first", "desk", "finished", 1, 1)))
    await queued.release(claim)
    assert await store.due_tenants() == [*wanted, TenantDue("queued", 0)]
    await store.wait_until_tenants_due(0.001, ["due", "queued"])
    await store.wait_until_tenants_due(None, ["due"])
    if kind != "memory":
        await store.close()
