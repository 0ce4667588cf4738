"""What would run is seen before it is let run: all of it, on a phone too, on every page that lets it run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from keyturn import Agent, App, Approval, MemoryJournal, function_tool
from keyturn.core.preview import Command, Json, Preview, Text
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.presenting.asking import facts_of
from keyturn.render.layout import text_lines
from keyturn.server.web.blocks import blocks_of
from keyturn.server.web.payload import drawn_payload
from tests.server.web.visiting import Visiting
from tests.table import each

LONG = "\n".join("x" * 780 for _ in range(39))
PADDED = "ls" + "\n" * 38 + "rm -rf /"


@function_tool(needs_approval=True, approval=Approval(role="ops"), preview=lambda given: Command(given["script"]))
def run(script: str) -> str:
    """Run a script."""
    return "done"


@asynccontextmanager
async def asked(script: str) -> AsyncGenerator[tuple[App, Visiting, Any, dict[str, str]]]:
    """Open an app in which a script waits, and visit it as somebody who may decide it."""

    def says(request: ModelRequest) -> Any:
        return "Done." if tool_outputs(request) else [function_call("run", {"script": script})]

    app = App([Agent("ci", model=ScriptedModel(says), tools=[run])], MemoryJournal())
    async with app:
        await app.people.start("ada")
        await app.people.give_role("ops", to="ada", by="ada")
        visit = Visiting(app, await app.people.begin_session("ada", "password", lasts="1d"))
        started = await app.start("ci", "Go.", requester="cyd")
        await app.wait(started.id, 20)
        [row] = await app.inbox.list()
        mark = (await visit.fields("/grants"))["csrf_token"]
        yield app, visit, row, {"csrf_token": mark, "digest": row.digest, "revision": "1"}


def payload(*blocks: Any) -> Any:
    return drawn_payload(blocks_of(Preview(blocks), None))


MANY = tuple(Text("\n".join(f"{n} {m}" for m in range(20)), label=str(n)) for n in range(5))


@each(
    "blocks, long",
    [
        ((Text(LONG),), True),
        ((Command("\n".join("ls" for _ in range(41))),), True),
        (MANY, True),
        ((Json({f"n{n}": "v" * 50 for n in range(60)}),), True),
        ((Text("\u4e00" * 2_000),), True),
        ((Command("ls -la"), Text("word " * 30)), False),
        ((Text("\n".join("ls" for _ in range(30))),), False),
    ],
)
def test_rows_of_the_whole_call_count_as_a_phone_draws_them(blocks: tuple[Any, ...], long: bool) -> None:
    assert payload(*blocks).long is long


def test_blank_rows_and_spaces_are_folded_with_a_mark_that_no_data_can_forge() -> None:
    assert [line.text for line in text_lines(PADDED)] == ["ls", "\\[37 blank lines]", "rm -rf /"]
    assert [line.text for line in text_lines("a" + " " * 300 + "; rm -rf /")] == ["a\\[300 spaces]; rm -rf /"]
    assert [line.text for line in text_lines("a\n \n\nb  c")] == ["a", " ", "", "b  c"]
    assert [line.text for line in text_lines("\\[37 blank lines]")] == ["\\\\[37 blank lines]"]


def test_a_token_is_of_what_was_drawn() -> None:
    assert payload(Text(LONG)).token != payload(Text(LONG + "x")).token
    assert payload(Text(LONG)).token == payload(Text(LONG)).token
    assert payload(Text("a\nb")).token != payload(Text("a"), Text("b")).token


async def test_no_page_lets_a_long_call_run_without_the_token_of_what_was_drawn() -> None:
    async with asked(LONG) as (app, visit, row, own):
        for path, form in {
            "decide": {"verdict": "approve"},
            "grant": {"which": "0", "limit": "uses", "uses": "2"},
            "alike": {"verdict": "approve", f"is.{row.id}.{row.digest}": "on"},
            "edit": {"arg.script": LONG + "\nls"},
        }.items():
            page = await visit.see(f"/requests/{row.id}{'' if path == 'decide' else '/' + path}")
            if path == "edit":
                drawn = await visit.send(f"/requests/{row.id}/change", {**own, **form})
                form = {**form, "looked": drawn.text.split('name="looked" value="')[1].split('"')[0]}
                page = drawn
            assert "I have seen all" in page.text, path
            assert "x" * 700 in page.text, path
            for seen in ({}, {"seen": "yes"}, {"seen": "f" * 32}):
                made = await visit.send(f"/requests/{row.id}/{path}", {**own, **form, **seen})
                assert made.status_code == 422, (path, seen, made.text[:500])
                assert "were seen" in made.text, path
            assert (await app.inbox.get(row.id)).state == "open", path
        token = (await visit.see(f"/requests/{row.id}")).text.split('name="seen" value="')[1].split('"')[0]
        stale = await visit.send(f"/requests/{row.id}/decide", {**own, "digest": "f" * 64, "verdict": "approve"})
        assert stale.status_code == 409
        rejected = await visit.send(f"/requests/{row.id}/alike", {**own, "verdict": "approve", "seen": token})
        assert rejected.status_code == 422  # nothing was ticked
        made = await visit.send(f"/requests/{row.id}/decide", {**own, "verdict": "approve", "seen": token})
        assert made.status_code == 303
        assert (await app.inbox.get(row.id)).state == "approve"


async def test_a_short_call_takes_no_token_and_a_rejection_never_does() -> None:
    async with asked("ls") as (_app, visit, row, own):
        assert "I have seen all" not in (await visit.see(f"/requests/{row.id}")).text
        assert "ls" in (await visit.see(f"/requests/{row.id}/grant")).text
        assert (await visit.send(f"/requests/{row.id}/decide", {**own, "verdict": "approve"})).status_code == 303
    async with asked(LONG) as (_app, visit, row, own):
        assert (await visit.send(f"/requests/{row.id}/decide", {**own, "verdict": "reject"})).status_code == 303


async def test_a_name_of_an_argument_that_is_not_what_it_looks_like_is_marked_as_the_name_of_a_tool_is() -> None:
    @function_tool(needs_approval=True, strict_mode=False)
    def wire(order: dict[str, Any]) -> str:
        """Wire."""
        return ""

    def says(request: ModelRequest) -> Any:
        return "Done." if tool_outputs(request) else [function_call("wire", {"order": {"\u0430mount": 5, "to": "a"}})]

    async with App([Agent("a", model=ScriptedModel(says), tools=[wire])], MemoryJournal()) as app:
        started = await app.start("a", "Go.")
        await app.wait(started.id, 20)
        [row] = await app.inbox.list()
        found = [(fact.text, fact.after) for fact in facts_of(row, row.asked_at) if fact.word == "beware"]
        assert found == [("\u0430mount", "mixes Cyrillic and Latin letters and looks like 'amount'")]
