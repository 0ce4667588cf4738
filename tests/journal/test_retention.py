"""Retention: what is over and old is erased and still verifies; what waits is kept, however old it is."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, Ask, Breaker, Decider, ExternalAgent, Inbox, Policy, Rule, Runner, function_tool
from keyturn.audit.checker import check
from keyturn.cli.main import main
from keyturn.core.errors import Conflict, RunMissing
from keyturn.engine.run.log_cache import log_in, verify_run
from keyturn.journal import open_journal, retention
from keyturn.journal.retention import ended_before, erase_ended
from keyturn.policies.rules import allow
from keyturn.testing import ScriptedModel, function_call
from tests.waiting import until


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def ended(store: Any, text: str = "done") -> str:
    return (await Runner.run(Agent("a", model=ScriptedModel([text])), "secret words", journal=store)).run_id


async def waiting(store: Any) -> str:
    model = ScriptedModel([[function_call("pay", {"amount": 5})]])
    return (await Runner.run(Agent("a", model=model, tools=[pay]), "go", journal=store)).run_id


async def test_what_ended_is_erased_and_verifies_and_what_waits_is_kept(store: Any) -> None:
    old, open_ = [await ended(store) for _ in range(3)], await waiting(store)
    later = await store.now() + 1
    assert sorted(await ended_before(store, later)) == sorted(old)
    assert await erase_ended(store, 0) == 0
    assert await erase_ended(store, later) == 3
    assert [await store.read(run) for run in old] == [[], [], []]
    assert len(await store.read(open_)) == 2
    for run in old:
        assert await store.hashes(run)
        assert await verify_run(store, run) is None
    report = await check(store)
    assert (report.ok, report.erased) == (True, 3)
    assert await erase_ended(store, later) == 0


async def test_a_run_that_was_erased_is_not_forked_and_its_name_begins_no_other(store: Any) -> None:
    async with App([Agent("a", model=ScriptedModel(["done"]))], store) as app:
        run = await app.start("a", "go", once="n1")
        await run.result(20)
        assert await erase_ended(store, await store.now() + 1) == 1
        with pytest.raises(RunMissing):
            await app.fork(run.id)
        with pytest.raises(Conflict, match="erased"):
            await app.start("a", "go", once="n1")


async def test_a_run_is_not_erased_while_a_review_of_it_is_open(store: Any) -> None:
    model = ScriptedModel([[function_call("pay", {"amount": 5})], "done"])
    agent, policy = Agent("a", model=model, tools=[pay]), Policy(allow(tool="pay", review=1.0))
    await Runner.run(agent, "go", journal=store, policy=policy)
    inbox = Inbox(store)
    assert await erase_ended(store, await store.now() + 1) == 0
    [asked] = await inbox.list()
    assert asked.kind == "review"
    await inbox.review(asked, "right", by=Decider("ann", strength="authenticated"))
    assert await erase_ended(store, await store.now() + 1) == 1


async def test_a_run_is_not_erased_while_it_owes_a_breaker_what_became_of_a_call(store: Any) -> None:
    model = ScriptedModel([[function_call("pay", {"amount": 5})], "done"])
    over = Breaker(1, per="1h", after=["rejected"], of="tenant")
    agent, policy = Agent("a", model=model, tools=[pay]), Policy(Rule("deny", tool="pay", over=over))
    run = (await Runner.run(agent, "go", journal=store, policy=policy)).run_id
    inbox = Inbox(store, {"a": agent})
    [asked] = await inbox.list()
    await inbox.reject(asked, by="ann")
    await inbox.cancel(run, by="ann")
    assert await erase_ended(store, await store.now() + 1) == 0

    async def told() -> bool:
        return not (await log_in(store, run)).run.owed

    async with App([agent], store, policy=policy):
        await until(told)
    assert run in await ended_before(store, await store.now() + 1)


async def test_a_run_that_somebody_holds_is_left_for_the_next_time(store: Any) -> None:
    run = await ended(store)
    claim = await store.claim(run, "somebody", 60_000)
    assert await erase_ended(store, await store.now() + 1) == 0
    await store.release(claim)
    assert await erase_ended(store, await store.now() + 1) == 1


async def test_more_than_a_page_is_erased(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "Query", partial(retention.Query, limit=3))
    runs = [await ended(store) for _ in range(8)]
    assert await erase_ended(store, await store.now() + 1) == len(runs)


async def test_the_command_says_how_many_and_wants_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    journal: Any = open_journal(url)
    run = await ended(journal)
    await journal.close()

    async def said(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, ["erase", url, *words])
        return code, capsys.readouterr().out

    assert await said("--older-than", "90d") == (0, "0 runs ended before that; --yes erases them\n")
    assert await said("--older-than", "1ms") == (0, "1 run ended before that; --yes erases them\n")
    assert await said("--older-than", "1ms", "--yes") == (0, "erased 1 run; the digests stay\n")
    again: Any = open_journal(url)
    assert await again.read(run) == []
    await again.close()
    assert (await said("--older-than", "soon"))[0] == 1


async def test_a_cancelled_run_is_not_erased_while_a_caller_has_claimed_its_call(store: Any) -> None:
    async with App([ExternalAgent()], store, Policy(allow())) as app:
        asked = await app.asks.wait((await app.asks.ask(Ask(key="o1", tool="pay"))).id, 30)
        await app.asks.claim(asked.id, asked.digest, "job", lasts="30d")
        await app.cancel(asked.id)
        assert await erase_ended(store, await store.now() + 1) == 0
        assert (await app.asks.report(asked.id, "job", "succeeded")).status == "succeeded"
        assert await erase_ended(store, await store.now() + 1) == 1
