"""A fork and a message that are named are made once, by whichever process of the journal is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from keyturn import Agent, App, Conflict, MemoryJournal, MemorySession
from keyturn.audit.checker import check
from keyturn.core import events as ev
from keyturn.engine.run.log_cache import log_in
from keyturn.testing import ScriptedModel
from tests.playing import Effects, model, payer
from tests.waiting import until, until_status

HERE = "http://localhost"
CHANGES: tuple[tuple[str, Any], ...] = (("send", {"message": "Pay."}), ("fork", {}), ("resume", {"max_turns": 20}))


def _app(journal: Any) -> App:
    return App([Agent("desk", model=model("done"))], journal, worker=False)


async def _messages(journal: Any, run: str) -> list[ev.InputAdded]:
    log = await log_in(journal, run)
    return [event for step in log.steps for event in step.events if isinstance(event, ev.InputAdded)]


async def test_a_named_message_is_added_once_also_when_its_run_is_over() -> None:
    journal = MemoryJournal()
    run = await _app(journal).start("desk", "go")
    for _ in range(2):
        await _app(journal).send(run.id, "Pay once more.", once="retry-7")
    with pytest.raises(Conflict, match="another command used this name"):
        await _app(journal).send(run.id, "Pay twice more.", once="retry-7")
    await _app(journal).send(run.id, "Pay once more.", once="retry-8")
    await _app(journal).send(run.id, "Pay once more.")
    assert len(await _messages(journal, run.id)) == 3
    await _app(journal).cancel(run.id)
    await _app(journal).send(run.id, "Pay once more.", once="retry-7")
    assert (await check(journal)).ok


async def test_a_run_is_forked_once_under_a_name() -> None:
    journal = MemoryJournal()
    run = await _app(journal).start("desk", "go", once="its-start")
    made = await asyncio.gather(*(_app(journal).fork(run.id, once="retry-7") for _ in range(4)))
    assert len({fork.id for fork in made}) == 1
    with pytest.raises(Conflict, match="under this name"):
        await _app(journal).fork(run.id, 1, once="retry-7")
    other = await _app(journal).fork(run.id, once="retry-8")
    assert len({run.id, made[0].id, other.id}) == 3
    assert (await _app(journal).start("desk", "go", once="its-start")).id == run.id
    assert (await check(journal)).ok


@pytest.mark.each
@pytest.mark.parametrize("session", [None, "s1"])
async def test_processes_that_start_a_run_of_one_name_at_the_same_time_start_one(session: str | None) -> None:
    journal, kept = MemoryJournal(), MemorySession("s1")

    def start(words: str, once: str) -> Any:
        app = App([Agent("desk", model=model("done"))], journal, worker=False, sessions=lambda _id: kept)
        return app.start("desk", words, once=once, session_id=session)

    head, looked = journal.head, list[str]()

    async def none_yet(run: str) -> int:
        found = await head(run)
        looked.append(run)
        if len(looked) <= 4:
            await until(lambda: len(looked) >= 4)  # none of them finds the run of another
        return found

    journal.head = none_yet  # the processes look at the same time
    made = await asyncio.gather(*(start("go", "order-7") for _ in range(4)))
    assert len({run.id for run in made}) == 1
    await _app(journal).cancel(made[0].id)
    looked.clear()
    said = (start(words, "order-8") for words in ("go", "go", "stop", "stop"))
    other = await asyncio.gather(*said, return_exceptions=True)
    assert [type(each) for each in other if isinstance(each, Exception)] == [Conflict, Conflict], other
    assert len(await _app(journal).runs()) == 2
    assert (await check(journal)).ok


async def test_starts_of_one_name_in_two_journals_are_two_runs() -> None:
    for journal in (MemoryJournal(), MemoryJournal()):  # such as those of two tenants of one process
        kept: dict[str, MemorySession] = {}
        app = App([Agent("desk", model=model("done"))], journal, worker=False, sessions=_of(kept))
        runs = [await app.start("desk", "go", once="retry-7", session_id="s1") for _ in range(2)]
        assert (len({run.id for run in runs}), len(await app.runs())) == (1, 1)
        assert (await check(journal)).ok


def _of(kept: dict[str, MemorySession]) -> Callable[[str], MemorySession]:
    return lambda id: kept.setdefault(id, MemorySession(id))


async def test_what_is_sent_again_to_another_server_is_done_once() -> None:
    """A client sends a change again whose answer was lost, and a balancer leads it elsewhere."""
    journal = MemoryJournal()
    servers = [_app(journal), _app(journal)]
    await servers[0].people.start("ada")
    await servers[0].people.add("bot", kind="machine", by="ada")
    token = await servers[0].people.issue_token("bot", ["run"], by="ada")
    run = await servers[0].start("desk", "go")
    answers: dict[str, set[str]] = {"send": set(), "fork": set(), "resume": set()}
    for server in servers:
        transport = httpx2.ASGITransport(app=server.asgi())
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as http:
            for what, body in CHANGES:
                headers = {"authorization": f"Bearer {token}", "idempotency-key": f"key of {what}".replace(" ", "-")}
                answer = await http.post(f"/v1/runs/{run.id}/{what}", json=body, headers=headers)
                assert answer.status_code == 200
                answers[what].add(answer.text)
    assert [len(each) for each in answers.values()] == [1, 1, 1]
    log = await log_in(journal, run.id)
    assert sum(isinstance(event, ev.RunResumed) for step in log.steps for event in step.events) == 1
    assert len(await _messages(journal, run.id)) == 1
    assert len(await servers[0].runs()) == 2


def _down(_items: Any) -> Any:
    raise OSError("the provider is down")


async def _fails(journal: Any, run: str = "") -> str:
    """Let a worker move a run, which fails."""
    async with App([Agent("desk", model=ScriptedModel(_down))], journal) as app:
        found = run or (await app.start("desk", "go")).id
        await until_status(app, found, "failed")
    return found


async def test_a_run_is_resumed_once_under_a_name_however_it_goes_on() -> None:
    """A resume that was sent again resumed a run that had failed once more meanwhile, on record as the person's."""
    journal = MemoryJournal()
    app = _app(journal)
    run = app.run(await _fails(journal))
    await app.resume(run.id, once="retry-7")
    assert (await run.get()).status == "running"
    await _fails(journal, run.id)
    await app.resume(run.id, once="retry-7")
    assert (await run.get()).status == "failed"
    with pytest.raises(Conflict, match="another command used this name"):
        await app.resume(run.id, 99, once="retry-7")
    await app.resume(run.id, once="retry-8")
    assert (await run.get()).status == "running"
    await app.cancel(run.id)
    await app.resume(run.id, once="retry-8")
    assert (await check(journal)).ok


async def test_a_withdrawal_that_is_repeated_takes_no_later_approval_back() -> None:
    journal = MemoryJournal()
    desk = payer(Effects(), name="desk")
    async with App([desk], journal) as app:
        run = await app.start("desk", "go")
        await until_status(app, run.id, "waiting")
    inbox = _app(journal).inbox
    [request] = await inbox.list()
    await inbox.approve(request, by="ada")
    for _ in range(2):
        assert (await inbox.withdraw(request.id, by="ada", once="retry-7")).state == "open"
    await inbox.approve((await inbox.list())[0], by="ben")
    assert (await inbox.withdraw(request.id, by="ada", once="retry-7")).by == "ben"
    assert (await inbox.withdraw(request.id, by="ada", once="retry-8")).state == "open"
    assert (await check(journal)).ok
