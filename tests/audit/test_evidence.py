"""Exports and checkpoints: what is honest verifies with public keys alone, what was altered is named by its place."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import random
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn import MemoryJournal, UserError
from keyturn.audit.evidence import records
from keyturn.audit.evidence.chain import PublicChain
from keyturn.audit.evidence.records import LogLine, RunHead, encode, read_row
from keyturn.audit.evidence.secret_lines import SecretLines
from keyturn.audit.evidence.signing import Signer
from keyturn.audit.service import Audit
from keyturn.core import events as ev
from keyturn.core.codec import encode as encode_step
from keyturn.core.errors import LogDamaged
from keyturn.engine.run.open_run import chain_of
from keyturn.journal.retention import erase_ended
from tests.audit.records import Desk, a_call, desk, paid, replaced, rows_of
from tests.effort import AT_LENGTH, some
from tests.scenarios import CATALOGUE
from tests.table import each
from trials.audit import located, made, tried
from trials.audit_kinds import KINDS, Evidence


async def test_the_export_of_every_story_verifies_on_every_store(store: Any, tmp_path: Path) -> None:
    here = await desk(tmp_path, store, CATALOGUE)
    rows = await here.exported()
    report = here.verified(rows)
    assert report.complete, str(report)
    assert (report.runs, report.proven) == (len(CATALOGUE), report.lines)
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    assert here.verified(checkpoint.read_bytes()).complete
    assert (await here.audit.verify(heads=checkpoint)).complete
    assert not (await here.audit.verify()).complete  # no checkpoint vouches for anything


async def test_a_cut_tail_is_proven_up_to_where_it_is_there(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    await here.played(CATALOGUE[8:10])
    report = await here.audit.verify(heads=checkpoint)
    assert report.ok
    assert not report.complete
    assert report.lines - report.proven == sum(each.lines for each in report.unproven) > 0
    logs = here.store._mine.logs
    run = next(name for name in sorted(logs) if name not in {each.run for each in report.unproven})
    whole = list(logs[run].lines)
    for count in range(1, len(whole)):
        logs[run].lines = whole[:count]
        report = await here.audit.verify(heads=checkpoint)
        assert {(fault.kind, fault.run, fault.line) for fault in report.faults} == {("cut", run, count)}
    del logs[run]
    report = await here.audit.verify(heads=checkpoint)
    assert [(fault.kind, fault.run, fault.line) for fault in report.faults] == [("cut", run, 0)]


async def test_a_checkpoint_holds_a_log_that_its_own_keys_made_anew(tmp_path: Path) -> None:
    """Whoever has the journal's keys can seal another history: the checkpoint still says that it is another one."""
    here = await desk(tmp_path)
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    run, log = max(here.store._mine.logs.items(), key=lambda item: len(item[1].lines))
    chain = chain_of(here.store, run)
    bodies = [line.partition(b"\t")[0] for line in log.lines]
    bodies[2] = bodies[2].replace(b'"at":1', b'"at":2', 1)
    log.lines = []
    for body in bodies:
        log.lines.append(chain.seal(body))
        chain.kept(log.lines[-1])
    assert (await here.audit.verify()).ok
    report = await here.audit.verify(heads=checkpoint)
    assert [(fault.kind, fault.run) for fault in report.faults] == [("changed", run)]
    with pytest.raises(LogDamaged, match="signed before"):
        await here.audit.checkpoint(tmp_path / "next.jsonl", heads=checkpoint)
    assert not (tmp_path / "next.jsonl").exists()


async def test_what_is_damaged_in_the_store_is_not_signed(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    run, log = max(here.store._mine.logs.items(), key=lambda item: len(item[1].lines))
    log.lines[2] = log.lines[2].replace(b'"at":', b'"at": ', 1)
    made_ = await here.audit.export(tmp_path / "export.jsonl")
    assert [damage.startswith(f"run {run}: line 2") for damage in made_.damaged] == [True]
    report = here.verified(rows_of(tmp_path / "export.jsonl"))
    assert [(fault.kind, fault.run, fault.line) for fault in report.faults] == [("damaged", run, 2)]
    assert report.proven == report.lines  # what stands there is what was signed
    assert [(f.kind, f.line) for f in (await here.audit.verify()).faults] == [("changed", 2)]


async def test_growth_after_a_checkpoint_is_no_fault_of_an_export(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    await here.played(CATALOGUE[8:12])
    assert here.verified(await here.exported(), checkpoint).complete


async def test_checkpoints_follow_each_other(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    first = tmp_path / "first.jsonl"
    await here.audit.checkpoint(first)
    second = await here.audit.checkpoint(tmp_path / "second.jsonl", heads=first)
    assert second.statement is not None
    assert second.statement.follows == here.verified(first.read_bytes()).statement != ""


async def test_an_erased_run_still_verifies_and_is_not_to_be_faked(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    await erase_ended(here.store, await here.store.now() + 1)
    await here.played(CATALOGUE[1:3])
    rows = await here.exported()
    report = here.verified(rows)
    assert report.complete, str(report)
    assert report.erased > 0
    place = next(place for place, raw in enumerate(rows) if b'"erased":true' in raw)
    shown = replaced(rows, place, lambda raw: raw.replace(b',"erased":true', b""))
    assert here.verified(shown).faults[0].run == json.loads(rows[place])["run"]


async def test_lines_with_secrets_are_withheld_and_proven(tmp_path: Path) -> None:
    here = Desk(MemoryJournal(), tmp_path)
    await paid(here.store, a_call(5, token="hush-hush"), edit={"amount": 6, "token": "psst-psst"})
    rows = await here.exported()
    assert b"hush-hush" not in b"".join(rows)
    assert b"psst-psst" not in b"".join(rows)
    report = here.verified(rows)
    assert report.complete, str(report)
    assert report.withheld >= 2
    whole = await here.exported("whole.jsonl", secrets=True)
    assert b"hush-hush" in b"".join(whole)
    assert here.verified(whole, tmp_path / "export.jsonl").complete


def test_what_may_quote_a_secret_is_withheld_as_well() -> None:
    """A nested agent is handed the arguments of its call, and a handoff may sum up the conversation."""
    hide = SecretLines()
    frame = ev.Step(5, [ev.FrameOpened("r/1.1", "clerk", [])])
    view = ev.Step(5, [ev.HandedOff("r", "second", [])])
    assert not hide.holds(encode_step(frame))
    call = ev.Proposal("function", "pay", "c1", 0, secrets=("token",))
    assert hide.holds(encode_step(ev.Step(5, [ev.ReplyRecorded("r", [{"type": "function_call"}], [call])])))
    assert hide.holds(encode_step(frame))
    assert hide.holds(encode_step(view))
    assert not hide.holds(encode_step(ev.Step(5, [ev.CallStarted("r/1.0")])))


# Attacks ------------------------------------------------------------------------------------------------------------


@settings(max_examples=some(150))
@given(seed=st.integers(0, 10**9), kind=st.integers(0, len(KINDS) - 1))
def test_any_alteration_of_an_export_is_located(seed: int, kind: int) -> None:
    """H1, H2, H3: bytes, lines, blocks, runs, hashes and statements made anew, older and other people's exports."""
    name, done, report = tried(_evidence(), seed, kind)
    assert located(report, done), f"{name}: {report}"


_made: list[Evidence] = []


def _evidence() -> Evidence:
    if not _made:
        _made.append(asyncio.run(made(Path(tempfile.mkdtemp()))))
    return _made[0]


async def test_every_byte_of_a_small_export_counts(tmp_path: Path) -> None:
    here = await desk(tmp_path, scenarios=CATALOGUE[:1])
    data = (await _data(here)).rstrip(b"\n") + b"\n"
    dice = random.Random(7)
    for place in range(0, len(data), 1 if AT_LENGTH else 15):
        changed = bytearray(data)
        changed[place] ^= 1 << dice.randrange(8)
        assert not here.verified(bytes(changed)).ok, place
        if place % 3 == 0:
            assert not here.verified(data[:place] + data[place + 1 :]).ok, place


async def _data(here: Desk) -> bytes:
    return b"".join(row + b"\n" for row in await here.exported())


async def test_an_export_of_nothing_verifies_and_an_empty_file_does_not(tmp_path: Path) -> None:
    here = Desk(MemoryJournal(), tmp_path)
    rows = await here.exported()
    assert len(rows) == 3
    assert here.verified(rows).complete
    for cut in (b"", b"\n", rows[0], b"\n".join(rows[:2])):
        assert not here.verified(cut).ok
    assert (await here.audit.verify()).complete


async def test_a_store_emptied_behind_a_checkpoint_is_no_store_of_nothing(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    empty = Desk(MemoryJournal(), tmp_path)
    report = empty.verified(await empty.exported("empty.jsonl"), checkpoint)
    assert {fault.kind for fault in report.faults} == {"missing"}
    assert report.found == len(CATALOGUE[1:8])


async def test_a_run_that_stands_twice_or_out_of_order_is_named(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    rows = await here.exported()
    ends = [place for place, raw in enumerate(rows) if isinstance(read_row(raw), RunHead)]
    first = rows[1 : ends[0] + 1]
    second = rows[ends[0] + 1 : ends[1] + 1]
    run = json.loads(rows[1])["run"]
    twice = here.verified([*rows[: ends[0] + 1], *first, *rows[ends[0] + 1 :]])
    assert twice.faults[0].run == run
    swapped = here.verified([rows[0], *second, *first, *rows[ends[1] + 1 :]])
    assert {fault.run for fault in swapped.faults} >= {run}


HOSTILE = (
    b"\x00" * 50,
    b"\xff\xfe" * 20,
    b'{"run":"\\ud800","n":0,"hash":"","seal":""}',
    b'{"run":"a","n":-1,"hash":"","seal":"","line":""}',
    b'{"run":"a","n":99999999999999999999999,"hash":"","seal":"","line":""}',
    b'{"run":"a","n":9223372036854775807,"hash":"zz","seal":"","line":"x"}',
    b'{"run":"a","n":0,"hash":"","seal":"","line":"x","erased":"00"}',
    b'{"run":"a","n":0,"hash":"","seal":"","withheld":"00"}',
    b'{"run":"a","n":0,"hash":"","seal":"","line":"x","more":1}',
    b'{"run":"","number":-5,"lines":-1,"head":""}',
    b'{"keyturn":"audit 2","what":"export","tenant":"default"}',
    b'{"keyturn":"audit statement 9"}',
    b"[" * 100_000,
    b"{" * 100_000,
    b'{"run":' * 5_000,
    b"",
    gzip.compress(b"0" * 100_000),
    "\u202e{}".encode(),
)


@pytest.mark.parametrize("place", [0, 1, 3, -2, -1])
async def test_hostile_rows_are_faults_and_nothing_else(tmp_path: Path, place: int) -> None:
    here = await desk(tmp_path, scenarios=CATALOGUE[1:3])
    rows = await here.exported()
    for hostile in HOSTILE:
        for altered in (replaced(rows, place, lambda _raw, row=hostile: row), [*rows[:place], hostile, *rows[place:]]):
            report = here.verified(altered)
            assert not report.ok, hostile[:40]
            assert all(character.isprintable() or character == "\n" for character in str(report))


async def test_a_compressed_export_and_an_endless_row_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await desk(tmp_path, scenarios=CATALOGUE[1:2])
    assert not here.verified(gzip.compress(await _data(here))).ok
    monkeypatch.setattr(records, "LONGEST", 10_000)
    with pytest.raises(UserError, match="row 1 is longer"):
        here.verified(b"x" * 20_000)


async def test_a_line_of_a_later_version_is_proven_without_being_understood(tmp_path: Path) -> None:
    here = await desk(tmp_path, scenarios=CATALOGUE[1:2])
    [(run, log)] = here.store._mine.logs.items()
    chain = chain_of(here.store, run)
    for line in log.lines:
        chain.open(line)
    log.lines.append(chain.seal(b'{"v":99,"at":5,"events":[{"e":"FromTheFuture"}]}'))
    report = here.verified(await here.exported())
    assert report.complete, str(report)
    assert report.withheld == 1  # nobody here can say that it holds no secret
    found = await here.audit.search()
    assert (found[-1].what, found[-1].line) == ("damage", len(log.lines) - 1)


async def test_a_replayed_checkpoint_proves_no_more_than_it_did(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    old = tmp_path / "old.jsonl"
    await here.audit.checkpoint(old)
    await here.played(CATALOGUE[8:12])
    new = tmp_path / "new.jsonl"
    await here.audit.checkpoint(new)
    assert not (await here.audit.verify(heads=old)).complete
    assert (await here.audit.verify(heads=[old, new])).complete
    data = await here.exported()
    before = rows_of(old)
    assert not here.verified([*data[:-2], *before[-2:]]).ok


async def test_another_tenants_export_does_not_pass_for_this_ones(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    other = Desk(here.store.of("another"), tmp_path)
    await other.played(CATALOGUE[1:8])
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    rows = await other.exported("other.jsonl")
    report = here.verified(rows, checkpoint)
    assert not report.ok
    assert any("another tenant" in note for note in report.notes)
    renamed = replaced(rows, 0, lambda raw: raw.replace(b"another", b"default"))
    assert not here.verified(renamed).ok


async def test_an_altered_checkpoint_is_refused_and_proves_nothing(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    checkpoint = tmp_path / "checkpoint.jsonl"
    await here.audit.checkpoint(checkpoint)
    rows = rows_of(checkpoint)
    checkpoint.write_bytes(b"\n".join([*rows[:1], *rows[2:]]) + b"\n")
    with pytest.raises(UserError, match="does not verify"):
        await here.audit.verify(heads=checkpoint)


async def test_a_forger_with_a_key_of_their_own_is_not_believed(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    forger = Audit(here.store, key=tmp_path / "forger")
    await forger.export(tmp_path / "forged.jsonl")
    report = here.verified(rows_of(tmp_path / "forged.jsonl"))
    assert [fault.kind for fault in report.faults] == ["signature"]
    assert report.proven == 0


@pytest.mark.trial
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    signer = Signer.of(tmp_path / "key", 5)

    def peak(runs: int) -> int:
        stream: Any = _Made(signer, runs)
        (tmp_path / "public").write_text(signer.public.text)
        tracemalloc.start()
        try:
            Audit.verify_file(stream, public=tmp_path / "public")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(1_600) < 2 * peak(800)


class _Made(io.RawIOBase):
    """A file of many runs that is made while it is read, and is never whole; it has no end that is signed."""

    def __init__(self, signer: Signer, runs: int) -> None:
        self._rows = self._all(runs)

    def readline(self, _size: int | None = -1) -> bytes:
        return next(self._rows, b"")

    def _all(self, runs: int) -> Any:
        yield b'{"keyturn":"audit 1","what":"export","tenant":"default"}\n'
        for number in range(runs):
            run = f"{number:08x}"
            chain = PublicChain("default", run)
            digest = bytes(32)
            for place in range(5):
                chain.add(digest, "key.mac")
                yield encode(LogLine(run, place, chain.head.hex(), "key.mac", withheld=digest.hex())) + b"\n"
            yield encode(RunHead(run, number, 5, chain.head.hex(), withheld=5)) + b"\n"


@each("bad", ["no", "sqlite:///nowhere/x.db", ""])
def test_what_cannot_be_read_is_said(bad: str) -> None:
    with pytest.raises(UserError):
        Audit.verify_file(Path("/nonexistent") / bad, public=Path("/nonexistent/public"))
