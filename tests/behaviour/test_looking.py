"""A decision is for the world that was shown: what people saw is kept, and looked at once more before anything runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Diff,
    InvalidArguments,
    Json,
    MemoryJournal,
    NotPending,
    Policy,
    Preview,
    Rule,
    RunConfig,
    Runner,
    RunState,
    Text,
    Tool,
    ToolExecutionConfig,
)
from keyturn.audit.checker import check
from keyturn.core.events import CallDecided, CallScreened, CallStarted, CallVoided
from keyturn.core.items import Item
from keyturn.engine.facts.live_preview import CHANGED
from keyturn.engine.views.event_stream import ApprovalRequestedStreamEvent
from keyturn.testing import approve_all
from keyturn.tools.base import Prepared
from tests.playing import (
    HOUR,
    Carry,
    Clock,
    Run,
    call,
    cut_off,
    events,
    fresh,
    item_of,
    labels,
    script,
    streamed,
    told,
)
from tests.table import each
from tests.waiting import never, turns_of_the_loop, until

World = dict[str, str]


class Shelf(Tool):
    """Puts a text where another may stand. Its preview is made of what stands there now; `looked` counts the looks."""

    kind, name, looks = "shelf", "put", True

    def __init__(self, world: World, needs_approval: Any = True, **settings: Any) -> None:
        self.world, self.needs_approval = world, needs_approval
        self.done: list[tuple[str, str, Any]] = []
        self.seen: list[Any] = []
        self.looked = 0
        self.description = "Puts a text somewhere."
        vars(self).update(settings)

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        text = item["arguments"]
        params = json.loads(text)
        if params.keys() != {"at", "text"}:
            raise InvalidArguments("The call is invalid: it needs a place and a text.")
        return Prepared(text)

    def preview(self, params: Any) -> Any:
        self.looked += 1
        at, text = params["at"], params["text"]
        return Preview((Diff(self.world.get(at, ""), text, path=at),), basis={at: self.world.get(at, "")})

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        at, text = prepared.params["at"], prepared.params["text"]
        self.done.append((at, text, context.basis))
        self.seen.append(context.approval)
        self.world[at] = text
        return f"{at}: {text}"

    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}


class Waiting(Shelf):
    """The same, and to look takes a while."""

    async def preview(self, params: Any) -> Any:
        await turns_of_the_loop()
        return super().preview(params)


def puts(label: str, at: str = "a", text: str = "new") -> Any:
    return call("put", label, at=at, text=text)


def clerk(tool: Shelf, *replies: Any) -> Agent[Any]:
    return Agent("clerk", model=script(*(replies or ([puts("c1")],)), "done"), tools=[tool])


def shows(before: str, after: str = "new", at: str = "a") -> Preview:
    return Preview((Diff(before, after, path=at),), basis={at: before})


KINDS = pytest.mark.parametrize("kind", [Shelf, Waiting], ids=["sync", "async"])


# ------------------------------------------------------------------------------------------------ what people are shown


@KINDS
async def test_what_was_seen_when_it_asked_is_what_everybody_sees(run: Run, carry: Carry, kind: type[Shelf]) -> None:
    tool = kind({"a": "old"})
    agent = clerk(tool)
    result = await run(agent, "go")
    assert [item.preview for item in result.interruptions] == [shows("old")]
    assert [event.preview for event in events(result, CallScreened)] == [shows("old")]
    tool.world.clear()
    state = await carry(clerk(kind({})), result.to_state())
    [item] = state.get_interruptions()
    assert (item.preview, tool.looked) == (shows("old"), 1), "from the log, though that world is gone"


async def test_it_is_only_looked_at_for_somebody(run: Run) -> None:
    tool = Shelf({}, needs_approval=False)
    result = await run(clerk(tool), "go")
    assert (result.final_output, tool.looked, tool.done) == ("done", 0, [("a", "new", None)])


@KINDS
async def test_it_runs_once_where_nothing_has_changed(run: Run, carry: Carry, kind: type[Shelf]) -> None:
    tool = kind({"a": "old"})
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(state.get_interruptions()[0], by="ada")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, tool.done) == ("done", [("a", "new", {"a": "old"})]), "the tool is told the basis"
    assert [decision.by for decision in tool.seen] == ["ada"]


# ------------------------------------------------------------------------------------------------ the world has changed


@KINDS
async def test_a_changed_world_asks_again_and_nothing_has_run(run: Run, carry: Carry, kind: type[Shelf]) -> None:
    tool = kind({"a": "old"})
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    before = state.get_interruptions()[0]
    state.approve(before, by="ada")
    state = await carry(agent, state)
    tool.world["a"] = "other"
    result = await run(agent, state)
    [item] = result.interruptions
    assert (item.preview, item.reason, item.kind) == (shows("other"), CHANGED, "approval")
    assert (tool.done, len(events(result, CallStarted)), len(agent.model.calls)) == ([], 0, 1)
    assert item.digest != before.digest
    again = await run(agent, await carry(agent, result.to_state()))
    assert (labels(again), tool.done) == (["c1"], []), "the decision from before does not count"
    state = await carry(agent, again.to_state())
    with pytest.raises(NotPending):
        state.approve(before)
    state.approve(item_of(state, "c1"), by="bob")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, tool.done) == ("done", [("a", "new", {"a": "other"})])
    assert [decision.by for decision in tool.seen] == ["bob"]
    assert len(events(result, CallVoided)) == 1


async def test_a_world_that_changed_and_changed_back_brings_no_decision_back(run: Run) -> None:
    tool, clock = Shelf({"a": "old"}), Clock()
    agent = clerk(tool)
    state = (await run(agent, fresh(agent, clock=clock))).to_state()
    state.approve(state.get_interruptions()[0], by="ada")
    for now in ("other", "old"):
        tool.world["a"] = now
        result = await run(agent, state)
        state = result.to_state()
        if now == "other":
            state.approve(state.get_interruptions()[0], by="ada")
    assert (labels(result), [item.preview for item in result.interruptions]) == (["c1"], [shows("old")])
    assert (tool.done, [event.decision.by for event in events(result, CallDecided)]) == ([], ["ada", "ada"])


async def test_a_rejection_needs_no_look(run: Run, carry: Carry) -> None:
    tool = Shelf({"a": "old"})
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.reject(state.get_interruptions()[0], rejection_message="no")
    tool.world["a"] = "other"
    assert (await run(agent, await carry(agent, state))).final_output == "done"
    assert (tool.done, tool.looked, told(agent.model)) == ([], 1, [("c1", "no")])


async def test_siblings_that_touch_one_thing_are_looked_at_one_after_the_other(run: Run) -> None:
    """With one slot the second looks after the first has acted."""
    tool = Shelf({"a": "old"})
    agent = clerk(tool, [puts("c1", text="one"), puts("c2", text="two")])
    config = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    state = approve_all(await run(agent, "go", run_config=config))
    result = await run(agent, state, run_config=config)
    assert ([text for _, text, _ in tool.done], labels(result)) == (["one"], ["c2"])
    assert result.interruptions[0].preview == shows("one", "two")


async def test_a_tool_of_a_nested_agent_looks_as_well(run: Run, carry: Carry) -> None:
    tool = Shelf({"a": "old"})
    inner = clerk(tool)
    tools = [inner.as_tool("inner", "puts things somewhere")]
    agent = Agent("outer", model=script([call("inner", "o1", input="go")], "all done"), tools=tools)
    state = await carry(agent, (await run(agent, "go")).to_state())
    assert item_of(state, "c1").preview == shows("old")
    for now in ("other", "other"):
        state.approve(item_of(state, "c1"))
        tool.world["a"] = now
        result = await run(agent, await carry(agent, state))
        state = result.to_state()
    assert (result.final_output, tool.done) == ("all done", [("a", "new", {"a": "other"})])


async def test_a_tool_that_changed_is_looked_at_before_it_asks_though_it_never_asked(run: Run) -> None:
    """It waits behind a sibling, is allowed meanwhile, and then is another tool."""
    tool = Shelf({"a": "old"}, needs_approval=lambda _context, params, _label: params["at"] == "b")
    late = Shelf({"a": "old"}, needs_approval=False, name="late", after_siblings=True)
    agent = Agent(
        "clerk", model=script([puts("c1", at="b"), call("late", "c2", at="a", text="new")]), tools=[tool, late]
    )
    state = (await run(agent, "go")).to_state()
    late.description = "Does something else now."
    state.approve(item_of(state, "c1"))
    result = await run(agent, state)
    assert [(item.call_id, item.preview) for item in result.interruptions] == [("c2", shows("old"))]
    assert late.done == []


async def test_what_went_stale_is_looked_at_before_it_asks(run: Run) -> None:
    tool, clock = Shelf({"a": "old"}, approval=Approval(execute_by="1h")), Clock()
    agent = clerk(tool)
    state = (await run(agent, fresh(agent, clock=clock))).to_state()
    state.approve(state.get_interruptions()[0])
    clock.pass_ms(2 * HOUR)
    tool.world["a"] = "other"
    result = await run(agent, state)
    [item] = result.interruptions
    assert (item.preview, tool.done) == (shows("other"), [])
    assert "has expired" in item.reason


async def test_every_pause_is_told_to_who_listens() -> None:
    tool = Shelf({"a": "old"})
    agent = clerk(tool)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    tool.world["a"] = "other"
    stream = Runner.run_streamed(agent, state)
    seen = [event async for event in stream.stream_events()]
    assert [event.item.preview for event in seen if isinstance(event, ApprovalRequestedStreamEvent)] == [shows("other")]


# ------------------------------------------------------------------------------------------------------ calls in doubt


class Stuck(Shelf):
    """Is cut off before it acts, the first time."""

    began: asyncio.Event | None = None

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        if self.began is None:
            self.began = asyncio.Event()
            self.began.set()
            await never()
        return await super().invoke(context, prepared)

    async def begun(self) -> None:
        await until(lambda: self.began is not None)


async def cut(run: Run, carry: Carry, tool: Stuck) -> RunState[Any]:
    """Approve a call and cut it off before it acts."""
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(state.get_interruptions()[0], by="ada")
    stopped = await cut_off(agent, await carry(agent, state), tool.begun, run is streamed)
    return await carry(agent, stopped.to_state())


async def test_a_retry_in_a_changed_world_shows_what_it_would_do_now_and_the_next_one_does_it(
    run: Run, carry: Carry
) -> None:
    tool = Stuck({"a": "old"})
    state = await cut(run, carry, tool)
    before = state.get_interruptions()[0]
    assert (before.kind, before.preview) == ("in_doubt", shows("old"))
    tool.world["a"] = "other"
    state.resolve(before, "retry", by="ada")
    result = await run(clerk(tool), await carry(clerk(tool), state))
    state = await carry(clerk(tool), result.to_state())
    [item] = state.get_interruptions()
    assert (item.kind, item.preview, tool.done) == ("in_doubt", shows("other"), [])
    assert item.reason == f"{CHANGED}; it was started before, and its outcome is unknown"
    with pytest.raises(NotPending):
        state.resolve(before, "retry", by="ada")
    state.resolve(item, "retry", by="bob")
    result = await run(clerk(tool), await carry(clerk(tool), state))
    assert (result.interruptions, tool.done) == ([], [("a", "new", {"a": "other"})])
    assert len(events(result, CallStarted)) == 2


async def test_a_call_in_doubt_whose_tool_changed_says_which_decisions_end_it(run: Run, carry: Carry) -> None:
    tool = Stuck({"a": "old"})
    state = await cut(run, carry, tool)
    tool.description = "Does something else now."
    for _ in range(2):
        state.resolve(state.get_interruptions()[0], "retry", by="ada")
        result = await run(clerk(tool), state)
        state = await carry(clerk(tool), result.to_state())
        [item] = state.get_interruptions()
        assert (item.kind, tool.done) == ("in_doubt", [])
        assert "no retry runs it: resolve the call as ran or did_not_run" in item.reason
    state.resolve(item, "did_not_run", by="ada")
    assert (await run(clerk(tool), state)).interruptions == []
    assert tool.done == []


async def test_the_checker_holds_a_journal_to_what_a_retry_shows(run: Run, carry: Carry) -> None:
    journal, tool = MemoryJournal(), Stuck({"a": "old"})
    paused = await run(clerk(tool), "go", journal=journal)
    state = paused.to_state()
    state.approve(paused.interruptions[0], by="ada")
    await cut_off(clerk(tool), state, tool.begun, run is streamed)
    tool.world["a"] = "other"
    for _ in range(2):
        state = await RunState.load(journal, paused.run_id, clerk(tool))
        waiting = state.get_interruptions() or (await run(clerk(tool), state)).interruptions
        state = await RunState.load(journal, paused.run_id, clerk(tool))
        state.resolve(waiting[0], "retry", by="ada")
        result = await run(clerk(tool), state)
    assert (result.interruptions, tool.done) == ([], [("a", "new", {"a": "other"})])
    report = await check(journal)
    assert report.ok, report.violations


# ---------------------------------------------------------------------------------------------------------- other words


async def test_an_edit_runs_where_what_was_shown_still_stands(run: Run, carry: Carry) -> None:
    tool = Shelf({"a": "old", "b": "else"})
    agent = clerk(tool, [puts("c1"), puts("c2")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), edit={"at": "a", "text": "edited"})
    state.reject(item_of(state, "c2"))
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, tool.done) == ("done", [("a", "edited", {"a": "old"})])


async def test_an_edit_to_another_place_asks_once_more(run: Run) -> None:
    """M3: nobody was shown what stands there. Who was shown it is bound to that, and to nothing else."""
    tool = Shelf({"a": "old", "b": "else"})
    agent = clerk(tool)
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], edit={"at": "b", "text": "edited"})
    tool.world["a"] = "other"
    result = await run(agent, state)
    [item] = result.interruptions
    assert (item.params["at"], item.preview, tool.done) == ("b", shows("else", "edited", at="b"), [])
    state = result.to_state()
    state.approve(item)
    assert (await run(agent, state)).final_output == "done"
    assert tool.world == {"a": "other", "b": "edited"}


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_an_edit_is_bound_to_what_its_editor_was_shown(run: Run, carry: Carry, meanwhile: bool) -> None:
    tool = Shelf({"a": "old", "b": "else"})
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    edit = {"at": "b", "text": "edited"}
    state.approve(state.get_interruptions()[0], edit=edit, seen=tool.preview(edit))
    if meanwhile:
        tool.world["b"] = "another's"
    result = await run(agent, await carry(agent, state))
    assert [item.preview for item in result.interruptions] == [shows("another's", "edited", at="b")] * meanwhile
    assert tool.world["b"] == ("another's" if meanwhile else "edited")


async def test_an_edited_call_asks_again_as_it_was_edited(run: Run, carry: Carry) -> None:
    tool = Shelf({"a": "old"})
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(state.get_interruptions()[0], edit={"at": "a", "text": "edited"})
    tool.world["a"] = "other"
    result = await run(agent, await carry(agent, state))
    [item] = result.interruptions
    assert (item.params, item.preview) == ({"at": "a", "text": "edited"}, shows("other", "edited"))
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "c1"))
    await run(agent, await carry(agent, state))
    assert tool.done == [("a", "edited", {"a": "other"})]
    [(_label, output)] = told(agent.model)
    assert "A person changed the arguments" in output


async def test_a_grant_looks_at_what_it_was_given_beside_and_at_nothing_later(run: Run, carry: Carry) -> None:
    tool = Shelf({"a": "old", "b": "old", "c": "old"})
    agent = clerk(tool, [puts("c1"), puts("c2", at="b")], [puts("c3", at="c")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), always_approve=True)
    tool.world["b"] = "other"
    result = await run(agent, await carry(agent, state))
    assert (labels(result), tool.done) == (["c2"], [("a", "new", {"a": "old"})]), "somebody was shown what is no more"
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "c2"))
    assert (await run(agent, state)).final_output == "done"
    assert tool.done[1:] == [("b", "new", {"b": "other"}), ("c", "new", None)]


async def test_a_policy_that_asks_shows_what_it_asks_about(run: Run) -> None:
    tool = Shelf({"a": "old"}, needs_approval=False)
    policy = Policy(Rule("ask"))
    agent = clerk(tool)
    state = (await run(agent, "go", policy=policy)).to_state()
    assert state.get_interruptions()[0].preview == shows("old")
    state.approve(state.get_interruptions()[0])
    tool.world["a"] = "other"
    result = await run(agent, state, policy=policy)
    assert (labels(result), tool.done) == (["c1"], [])


async def test_a_policy_that_allows_shows_nobody_anything(run: Run) -> None:
    tool = Shelf({"a": "old"})
    result = await run(clerk(tool), "go", policy=Policy(Rule("allow")))
    assert (result.final_output, tool.looked, tool.done) == ("done", 0, [("a", "new", None)])


@pytest.mark.parametrize("meddles", [False, True])
async def test_who_is_asked_in_line_sees_it_too(run: Run, meddles: bool) -> None:
    seen: list[Any] = []

    def decides(_context: Any, item: Any) -> Any:
        seen.append(item.preview)
        if meddles:
            tool.world["a"] = "other"
        return {"approve": True}

    tool = Shelf({"a": "old"}, on_approval=decides)
    result = await run(clerk(tool), "go")
    if not meddles:
        assert (result.final_output, seen, tool.done) == ("done", [shows("old")], [("a", "new", {"a": "old"})])
        return
    assert seen == [shows("old"), shows("other")], "it changed, was asked for again, and then it had not"
    assert tool.done == [("a", "new", {"a": "other"})]


# ----------------------------------------------------------------------------------------------------- it fails to look


def failing(when: Callable[[Shelf], bool]) -> type[Shelf]:
    class Blind(Shelf):
        def preview(self, params: Any) -> Any:
            if when(self):
                raise LookupError("hunter2")
            return super().preview(params)

    return Blind


async def test_a_look_that_fails_shows_the_arguments_and_hides_nothing(run: Run, carry: Carry) -> None:
    tool = failing(lambda _tool: True)({"a": "old"})
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    [item] = state.get_interruptions()
    note, arguments = item.preview.blocks
    assert "LookupError" in note.text
    assert "hunter2" not in note.text
    assert arguments == Json({"at": "a", "text": "new"})
    state.approve(item)
    await run(agent, await carry(agent, state))
    assert tool.done == [("a", "new", {})], "a person has approved what they were shown"


@pytest.mark.parametrize("edit", [None, {"at": "a", "text": "edited"}])
async def test_a_look_that_fails_at_the_start_asks_again(run: Run, edit: Any) -> None:
    tool = failing(lambda tool: "gone" in tool.world)({"a": "old"})
    agent = clerk(tool)
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], edit=edit)
    tool.world["gone"] = "yes"
    result = await run(agent, state)
    assert (labels(result), tool.done) == (["c1"], [])
    assert "LookupError" in result.interruptions[0].preview.blocks[0].text
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "done"
    assert len(tool.done) == 1


async def test_a_look_that_works_only_later_is_shown_first(run: Run) -> None:
    tool = failing(lambda tool: "gone" in tool.world)({"a": "old", "gone": "yes"})
    agent = clerk(tool)
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    del tool.world["gone"]
    result = await run(agent, state)
    assert ([item.preview for item in result.interruptions], tool.done) == ([shows("old")], [])


WRONG = {
    "not a Preview": "look for yourself",
    "a name that no log holds": Preview((Text("x"),), basis={"\ud800": ""}),
    "words that no log holds": Preview((Text("\udc00"),)),
    "a value that no log holds": Preview((Json(object()),)),
    "a basis that is none": Preview((Text("x"),), basis={"a": 1}),  # type: ignore[dict-item]  # it is what it must not be
}


@each("made", WRONG.values(), ids=WRONG)
async def test_what_cannot_be_recorded_is_not_shown(run: Run, carry: Carry, made: Any) -> None:
    tool = Shelf({"a": "old"}, preview=lambda _params: made)
    agent = clerk(tool)
    state = await carry(agent, (await run(agent, "go")).to_state())
    [item] = state.get_interruptions()
    assert item.preview.blocks[1:] == (Json({"at": "a", "text": "new"}),)
    state.approve(item)
    assert (await run(agent, await carry(agent, state))).final_output == "done"


async def test_everybody_sees_what_the_log_holds(run: Run) -> None:
    tool = Shelf({}, preview=lambda _params: Preview((Json({"pair": (1, 2)}),)))
    agent = clerk(tool)
    state = (await run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    [there] = (await RunState.from_string(agent, state.to_string())).get_interruptions()
    assert item.preview == there.preview == Preview((Json({"pair": [1, 2]}),))
