"""A person at the keyboard: what they see is what would run, and only a typed choice lets it."""

from __future__ import annotations

import asyncio
import doctest
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest

from keyturn import (
    Agent,
    NeedsInput,
    Preview,
    Runner,
    RunState,
    Secret,
    Text,
    Tool,
    ToolContext,
    ask_user,
    function_tool,
)
from keyturn.console import Undecided, decide, decisions, screen
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call
from keyturn.presenting import shown_request
from keyturn.tools.base import Prepared
from tests.playing import read
from tests.table import each

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


@function_tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    ran.append((to, amount))
    return f"paid {amount} to {to}"


@function_tool(needs_approval=True)
def login(user: str, password: Annotated[str, Secret]) -> str:
    ran.append((user, password))
    return "in"


@function_tool(needs_approval=True, preview=lambda given: Text(given["text"], label="the page"))
def publish(text: str) -> str:
    ran.append(text)
    return "published"


def calls(*made: tuple[str, dict[str, Any]], words: str = "") -> Agent[Any]:
    reply: list[Any] = [assistant_message(words)] if words else []
    reply += [function_call(name, arguments) for name, arguments in made]
    return Agent("clerk", model=ScriptedModel([reply, "Done."]), tools=[pay, login, publish])


class Keyboard:
    """Types its lines one after another, then the end of the input; keeps what was shown."""

    def __init__(self, *lines: str | BaseException) -> None:
        self.lines, self.shown, self.asked = list(lines), list[str](), list[str]()

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        if not self.lines:
            raise EOFError
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    @property
    def text(self) -> str:
        return "\n".join(self.shown)

    @property
    def squeezed(self) -> str:
        return self.text.replace(" ", "")

    def decide(self, waiting: Any, **options: Any) -> RunState[Any]:
        return decide(waiting, ask=self, show=self.shown.append, **{"width": 100, **options})


def settled(agent: Agent[Any], *lines: str) -> tuple[Any, Keyboard]:
    """Run an agent, type these lines at its first pause, and go on."""
    keyboard = Keyboard(*lines)
    state = keyboard.decide(Runner.run_sync(agent, "go"))
    assert not keyboard.lines, f"not typed: {keyboard.lines}"
    return Runner.run_sync(agent, state), keyboard


def output(result: Any) -> str:
    return next(item.output for item in result.new_items if item.type == "tool_call_output_item")


@pytest.mark.parametrize("module", [decisions, shown_request, screen])
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_approve_lets_the_call_run() -> None:
    result, keyboard = settled(calls(("pay", {"to": "ada", "amount": 3})), "a")
    assert (ran, result.final_output) == ([("ada", 3)], "Done.")
    assert "  Call 1 of 1\n  agent: clerk\n  wants to run: pay\n" in keyboard.text
    assert "| amount: 3" in keyboard.text


def test_words_do_as_well_as_letters() -> None:
    settled(calls(("pay", {"to": "ada", "amount": 3})), "Approve")
    assert ran == [("ada", 3)]


@each("typed", ["", " ", "y", "yes", "ae", "aa", "1", "\x1b[A", "\u0430"])
def test_anything_else_decides_nothing(typed: str) -> None:
    result, keyboard = settled(calls(("pay", {"to": "ada", "amount": 3})), typed, "r", "no")
    assert not ran
    assert output(result) == "no"
    assert "\x1b" not in keyboard.text


@pytest.mark.parametrize("left", [EOFError(), KeyboardInterrupt(), "q"])
@pytest.mark.parametrize("before", [[], ["e"], ["r"], ["w"], ["g"]])
def test_to_leave_is_never_an_approval(left: Any, before: list[str]) -> None:
    if before and left == "q":
        return
    agent = calls(("pay", {"to": "ada", "amount": 3}))
    with pytest.raises(Undecided, match="to_string") as raised:
        Keyboard(*before, left).decide(Runner.run_sync(agent, "go"))
    assert not raised.value.state.undelivered.decisions
    again = Runner.run_sync(agent, raised.value.state)
    assert len(again.interruptions) == 1
    assert not ran


def test_to_leave_after_an_edit_approves_nothing() -> None:
    agent = calls(("pay", {"to": "ada", "amount": 3}))
    with pytest.raises(Undecided) as raised:
        Keyboard("e", "amount=2").decide(Runner.run_sync(agent, "go"))
    assert not raised.value.state.undelivered.decisions


def test_what_was_decided_before_leaving_is_kept() -> None:
    agent = calls(("pay", {"to": "ada", "amount": 1}), ("pay", {"to": "bob", "amount": 2}))
    with pytest.raises(Undecided) as raised:
        Keyboard("a").decide(Runner.run_sync(agent, "go"))
    text = raised.value.state.to_string()
    state = asyncio.run(RunState.from_string(agent, text))
    keyboard = Keyboard("r", "")
    Runner.run_sync(agent, keyboard.decide(state))
    assert "Already decided: pay: approve" in keyboard.text
    assert ran == [("ada", 1)]


def test_later_leaves_one_call_and_decides_the_others() -> None:
    agent = calls(("pay", {"to": "ada", "amount": 1}), ("pay", {"to": "bob", "amount": 2}))
    result, _ = settled(agent, "l", "a")
    assert ran == [("bob", 2)]
    assert [item.params["to"] for item in result.interruptions] == ["ada"]


def test_when_all_is_left_for_later_nobody_decided() -> None:
    with pytest.raises(Undecided):
        Keyboard("l").decide(Runner.run_sync(calls(("pay", {"to": "ada", "amount": 1})), "go"))


def test_reject_tells_the_model_why() -> None:
    result, _ = settled(calls(("pay", {"to": "ada", "amount": 3})), "r", "ask me tomorrow")
    assert (ran, output(result)) == ([], "ask me tomorrow")


def test_reject_without_a_reason() -> None:
    result, _ = settled(calls(("pay", {"to": "ada", "amount": 3})), "r", "")
    assert output(result) == "Tool execution was not approved."


def test_a_person_writes_the_result() -> None:
    result, _ = settled(calls(("pay", {"to": "ada", "amount": 3})), "w", "", "w", "paid by hand")
    assert (ran, output(result)) == ([], "paid by hand")


@pytest.mark.parametrize("change", ["amount=2", " amount = 2 ", '{"to": "ada", "amount": 2}'])
def test_an_edit_is_shown_and_then_approved(change: str) -> None:
    result, keyboard = settled(calls(("pay", {"to": "ada", "amount": 3})), "e", change, "a")
    assert ran == [("ada", 2)]
    assert "|-amount:3" in keyboard.squeezed
    assert "|+amount:2" in keyboard.squeezed
    assert "A person changed the arguments" in output(result)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("amount=two", "amount"), ("amounts", "name=value"), ("{", "JSON"), ('{"to": "ada"}', "amount"),
        ("tip=3", "tip"), ('{"to": "ada", "amount": 2, "amount": 3}', "twice"), ("amount=NaN", "amount"),
    ],
)  # fmt: skip
def test_a_wrong_edit_is_refused_with_the_reason_and_asked_again(change: str, reason: str) -> None:
    _, keyboard = settled(calls(("pay", {"to": "ada", "amount": 3})), "e", change, "amount=2", "a")
    assert reason in next(row for row in keyboard.shown if "Invalid" in row)
    assert ran == [("ada", 2)]


def test_an_edit_of_an_edit_and_none_at_all() -> None:
    settled(calls(("pay", {"to": "ada", "amount": 3})), "e", "amount=2", "e", "to=bob", "e", "", "a")
    assert ran == [("bob", 2)]


def test_a_text_stays_a_text() -> None:
    settled(calls(("pay", {"to": "ada", "amount": 3})), "e", "to=7", "a")
    settled(calls(("pay", {"to": "ada", "amount": 3})), "e", 'to="x y"', "a")
    assert ran == [("7", 3), ("x y", 3)]


def test_a_grant_covers_the_siblings_that_wait() -> None:
    agent = calls(("pay", {"to": "ada", "amount": 1}), ("pay", {"to": "bob", "amount": 2}), ("publish", {"text": "x"}))
    _, keyboard = settled(agent, "g", "4", "run", "r", "")
    assert sorted(ran) == [("ada", 1), ("bob", 2)]
    assert "Covered by your grant" in keyboard.text


def test_a_limited_grant_asks_about_siblings_all_the_same() -> None:
    agent = calls(("pay", {"to": "ada", "amount": 1}), ("pay", {"to": "bob", "amount": 2}))
    settled(agent, "g", "4", "2h", "a")
    assert len(ran) == 2


@pytest.mark.parametrize("terms", ["0", "never", "-1", "2 fortnights", "9" * 5000, "\u0663"])
def test_a_grant_that_makes_no_sense_grants_nothing(terms: str) -> None:
    result, keyboard = settled(calls(("pay", {"to": "ada", "amount": 3})), "g", "4", terms, "r", "no")
    assert "Not decided" in keyboard.text
    assert (ran, output(result)) == ([], "no")
    assert result.to_state().grants == []


def test_a_secret_is_never_shown_and_never_lost() -> None:
    agent = calls(("login", {"user": "ada", "password": "hunter2"}))
    _, keyboard = settled(agent, "e", "user=bob", "e", '{"user": "eve", "password": "[redacted]"}', "a")
    assert ran == [("eve", "hunter2")]
    assert "hunter2" not in keyboard.text


def test_the_mark_of_a_secret_is_no_value() -> None:
    agent = calls(("login", {"user": "ada", "password": "hunter2"}))
    _, keyboard = settled(agent, "e", "user=[redacted]", "password=new", "a")
    assert "Invalid" in keyboard.text
    assert ran == [("ada", "new")]


def test_a_long_payload_is_marked_and_must_be_read_before_it_can_be_approved() -> None:
    text = "\n".join(f"row {number}" for number in range(200))
    agent = calls(("publish", {"text": text}))
    keyboard = Keyboard("a", "g", "s", "a")
    state = keyboard.decide(Runner.run_sync(agent, "go"))
    before, after = keyboard.text.split("Not all rows are shown yet", 1)
    assert "row 30" in before
    assert "row 199" not in before
    assert "[161 of 201 rows are not shown]\n  sha256 of the full preview: " in before
    assert "row 199" in after
    Runner.run_sync(agent, state)
    assert ran == [text]


def test_nothing_that_a_model_wrote_acts_on_the_terminal() -> None:
    evil = "\x1b[2J\u202e\r\n| fake\x07"
    agent = calls(("publish", {"text": evil}), words=evil)
    agent.name = f"clerk{evil}"
    keyboard = Keyboard("?", "e", "text=\x1b[31m", "r", "")
    keyboard.decide(Runner.run_sync(agent, "go"), colour=False)
    assert all(char.isprintable() for row in keyboard.shown for char in row)
    assert all("\n" not in row for row in keyboard.shown)


def test_the_models_own_words_are_marked_as_such() -> None:
    _, keyboard = settled(calls(("pay", {"to": "ada", "amount": 3}), words="It is only a test."), "a")
    marked, rest = keyboard.text.split("not verified", 1)
    assert "It is only a test." not in marked
    assert "| It is only a test." in rest


def test_a_name_that_imitates_another_is_flagged() -> None:
    tool = function_tool(name_override="p\u0430y", needs_approval=True)(lambda: "x")
    agent = Agent("clerk", model=ScriptedModel([[function_call("p\u0430y")], "Done."]), tools=[tool])
    _, keyboard = settled(agent, "r", "")
    assert "Warning" in keyboard.text
    assert "looks like 'pay'" in keyboard.text


def test_why_it_asks_and_until_when() -> None:
    from keyturn import Approval

    def unsure(_context: Any, _params: Any, _call_id: str) -> bool:
        raise ValueError

    tool = function_tool(name_override="t", needs_approval=unsure, approval=Approval(expires="4h"))(lambda: "x")
    agent = Agent("clerk", model=ScriptedModel([[function_call("t")], "Done."]), tools=[tool])
    _, keyboard = settled(agent, "?", "r", "")
    assert "reason: needs_approval raised ValueError" in keyboard.text
    assert "expires: 2" in keyboard.text
    assert "digest" in keyboard.text


def test_a_tool_that_changed_is_shown_with_its_change() -> None:
    def rebuilt(description: str) -> Agent[Any]:
        tool = function_tool(name_override="t", description_override=description, needs_approval=True)(lambda: "x")
        return Agent("clerk", model=ScriptedModel([[function_call("t")], "Done."]), tools=[tool])

    before, after = rebuilt("Says x."), rebuilt("Deletes everything.")
    state = Runner.run_sync(before, "go").to_state()
    state.approve(state.get_interruptions()[0])
    again = Runner.run_sync(after, asyncio.run(RunState.from_string(after, state.to_string())))
    keyboard = Keyboard("r", "")
    keyboard.decide(again)
    assert "the tool changed" in keyboard.text
    assert '|+"description":"Deleteseverything."' in keyboard.squeezed


async def in_doubt() -> tuple[Agent[Any], RunState[Any]]:
    started = asyncio.Event()

    @function_tool
    async def backup() -> str:
        ran.append("backup")
        if len(ran) == 1:
            started.set()
            await asyncio.Event().wait()
        return "done twice"

    agent = Agent("clerk", model=ScriptedModel([[function_call("backup")], "Done."]), tools=[backup])
    stream = Runner.run_streamed(agent, "go")
    await started.wait()
    stream.cancel()
    await read(stream)
    return agent, stream.to_state()


@pytest.mark.each
@pytest.mark.parametrize(
    ("lines", "runs", "told"),
    [
        (["d", "it was complete"], 1, "it was complete"),
        (["d", ""], 1, "The tool ran; its output was lost."),
        (["n"], 1, "The tool did not run."),
        (["a", "t"], 2, "done twice"),
    ],
)
async def test_a_call_in_doubt_is_settled_by_a_person(lines: list[str], runs: int, told: str) -> None:
    agent, state = await in_doubt()
    keyboard = Keyboard(*lines)
    result = await Runner.run(agent, keyboard.decide(state))
    assert "The outcome is unknown" in keyboard.text
    assert (len(ran), output(result), result.final_output) == (runs, told, "Done.")


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = calls(("pay", {"to": "ada", "amount": 3}))
    keyboard = Keyboard("a")
    keyboard.decide(Runner.run_sync(agent, "go"), colour=True)
    assert "\x1b[1m" in keyboard.text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not screen.Terminal.here().colour
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert screen.Terminal.here().colour


@pytest.mark.parametrize("colour", [True, False])
def test_our_own_lines_are_folded_where_the_screen_ends(colour: bool) -> None:
    keyboard = Keyboard("?", "r", "")
    keyboard.decide(Runner.run_sync(calls(("pay", {"to": "ada", "amount": 3})), "go"), colour=colour, width=40)
    rows = [re.sub(r"\x1b\[\d+m", "", row) for row in keyboard.shown]
    assert all(len(row) <= 40 or " " not in row.strip() for row in rows)
    assert any("explain" in row for row in rows)


def test_a_streamed_result_can_be_decided_too() -> None:
    async def main() -> str:
        agent = calls(("pay", {"to": "ada", "amount": 3}))
        stream = Runner.run_streamed(agent, "go")
        await read(stream)
        return (await Runner.run(agent, Keyboard("a").decide(stream))).final_output

    assert asyncio.run(main()) == "Done."


def test_a_preview_of_many_blocks_stays_in_line() -> None:
    made = Preview((Text("a\nb"), Text("c")), summary="two texts")
    tool = function_tool(name_override="t", needs_approval=True, preview=lambda _: made)(lambda: "x")
    agent = Agent("clerk", model=ScriptedModel([[function_call("t")], "Done."]), tools=[tool])
    _, keyboard = settled(agent, "a")
    rows = keyboard.text.split("\n")
    assert {row[:2] for row in rows if row} == {"  "}


# Calls that need an answer.


def asking(tool: Any = None, **arguments: Any) -> Agent[Any]:
    given = {"question": "Which colour?", **arguments}
    return Agent(
        "clerk", model=ScriptedModel([[function_call("ask_user", given)], "Done."]), tools=[tool or ask_user()]
    )


def test_a_question_is_shown_and_answered() -> None:
    result, keyboard = settled(asking(), "w", "  something warm ")
    assert output(result) == "something warm"
    assert "  agent: clerk\n  needs an answer for: ask_user\n" in keyboard.text
    assert "wants to run" not in keyboard.text
    assert "the model asks, in its own words" in keyboard.text
    assert "Which colour?" in keyboard.text
    assert "w answer  r reject  l later  q quit  ? explain" in keyboard.text


@pytest.mark.parametrize(("typed", "read"), [("Blue", "Blue"), ("2", "Red"), ("1", "Blue"), ("3", "1x")])
def test_a_choice_is_typed_or_counted(typed: str, read: str) -> None:
    result, keyboard = settled(asking(choices=["Blue", "Red", "1x"]), "w", typed)
    assert output(result) == read
    assert "  choice: 2  Red\n" in keyboard.text


def test_a_number_on_the_screen_is_meant_before_a_choice_of_these_words() -> None:
    assert output(settled(asking(choices=["3", "1", "2"]), "w", "1")[0]) == "3"
    assert output(settled(asking(ask_user(answer_type=Literal[7, 1, 2])), "w", "1")[0]) == 7


def test_an_answer_that_is_not_taken_is_asked_for_again() -> None:
    agent = asking(choices=["Blue", "Red"])
    state = Keyboard("answer", "Green").decide(Runner.run_sync(agent, "go"))
    keyboard = Keyboard("w", "Red")
    result = Runner.run_sync(agent, keyboard.decide(Runner.run_sync(agent, state)))
    assert output(result) == "Red"
    assert "the previous answer was not accepted" in keyboard.text
    assert "the answer must be one of the choices" in keyboard.text


@pytest.mark.each
@pytest.mark.parametrize(
    ("typed", "heard"), [('{"a": 1}', {"a": 1}), ("[1, 2]", [1, 2]), ("[sic] yes", "[sic] yes"), ("3", "3")]
)
def test_an_object_or_a_list_is_typed_as_json(typed: str, heard: Any) -> None:
    def ask(context: ToolContext[Any]) -> Any:
        if context.resumed is None:
            return NeedsInput({"anything": "goes"})
        ran.append(context.resumed.answers)
        return "heard"

    agent = Agent("clerk", model=ScriptedModel([[function_call("ask")], "Done."]), tools=[function_tool(ask)])
    _, keyboard = settled(agent, "w", typed)
    assert ran == [heard]
    assert '| anything: "goes"' in keyboard.text


@pytest.mark.parametrize(
    ("why", "told"), [("", "The question was not answered."), ("no", "The question was not answered: no")]
)
def test_a_question_can_be_refused(why: str, told: str) -> None:
    result, keyboard = settled(asking(), "r", why)
    assert output(result) == told
    assert "Rejected." in keyboard.text


@each("typed", ["", "a", "approve", "y", "e", "g"])
def test_a_question_cannot_be_approved(typed: str) -> None:
    agent = asking()
    with pytest.raises(Undecided) as raised:
        Keyboard(typed).decide(Runner.run_sync(agent, "go"))
    assert not raised.value.state.undelivered.decisions


@pytest.mark.each
@pytest.mark.parametrize("left", [EOFError(), KeyboardInterrupt(), ""])
def test_to_leave_while_answering_answers_nothing(left: Any) -> None:
    agent = asking(choices=["Blue"])
    with pytest.raises(Undecided) as raised:
        Keyboard("w", left).decide(Runner.run_sync(agent, "go"))
    assert not raised.value.state.undelivered.decisions


def test_a_question_is_seen_whole_before_it_is_answered() -> None:
    agent = asking(question="\n".join(["Which?"] * 60))
    result, keyboard = settled(agent, "w", "s", "w", "Red")
    assert output(result) == "Red"
    assert "Not all rows are shown yet" in keyboard.text


def test_choices_are_shown_escaped() -> None:
    _, keyboard = settled(asking(choices=["\x1b[2Ja", 'b\n3 "c"']), "w", "1")
    assert "\x1b" not in keyboard.text
    assert '  choice: 2  b\\n3 "c"' in keyboard.shown


def test_explained_keys_say_what_they_do_to_a_question() -> None:
    _, keyboard = settled(asking(), "?", "w", "Red")
    assert "the tool continues with your answer" in keyboard.text
    assert "do not run it" not in keyboard.text


# Tools whose preview is made of the world.


class Shelf(Tool):
    """Puts a text in a place; to look takes a while where `slow`."""

    kind, name, looks, needs_approval = "shelf", "put", True, True
    slow = False

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}

    def prepare(self, item: Any) -> Prepared:
        return Prepared(item["arguments"])

    def preview(self, params: Any) -> Any:
        if self.slow:
            return self.look(params)
        return Preview((Text(params["text"], label="as it would be"),), basis={"it": params["text"][99:]})

    async def look(self, params: Any) -> Preview:
        return Preview((Text(params["text"], label="as it would be"),), basis={"it": ""})

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        ran.append(prepared.params["text"])
        return "put"

    def output(self, item: Any, value: Any) -> Any:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}


@pytest.mark.parametrize("slow", [False, True])
def test_an_edit_of_a_call_that_looks_is_shown(slow: bool) -> None:
    tool = Shelf()
    tool.slow = slow
    agent = Agent("clerk", model=ScriptedModel([[function_call("put", {"text": "old"})], "Done."]), tools=[tool])
    _, keyboard = settled(agent, "e", "text=new", "a")
    assert ran == ["new"]
    assert keyboard.text.count("as it would be") == 2, "of what the model wrote, and of what the person made of it"


def test_a_preview_that_fails_over_an_edit_shows_the_edit() -> None:
    call = function_call("put", {"text": ["old"]})
    agent = Agent("clerk", model=ScriptedModel([[call], "Done."]), tools=[Shelf()])
    _, keyboard = settled(agent, "e", "text=7", "r", "")
    assert "this tool's own preview failed (TypeError)" in keyboard.text
    assert "| text: 7" in keyboard.text
    assert not ran
