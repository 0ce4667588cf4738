"""The console is made for reading: what is to come, what a call is, where one decides, and what a grant will cover."""

from __future__ import annotations

import asyncio
import builtins
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest

from keyturn import (
    Agent,
    FunctionTool,
    NeedsInput,
    Preview,
    Runner,
    RunState,
    Secret,
    Text,
    ToolContext,
    function_tool,
)
from keyturn.console import Undecided, decide, editor, given, screen
from keyturn.core.predicates.predicate import holds
from keyturn.presenting import proposed_grants as grants
from keyturn.presenting.proposed_grants import proposed_grants
from keyturn.render import one_row
from keyturn.testing import ScriptedModel, assistant_message, function_call
from tests.console.test_console import Keyboard

ran: list[tuple[str, Any]] = []
LETTER = 'Dear Ann,\n\nit is "late".\nYours,\nthe desk'
MAIL = {"to": "ann@example.com", "body": LETTER, "copies": ["bob"]}


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@function_tool(needs_approval=True)
def send(to: str, body: str, copies: list[str]) -> str:
    """Send a mail to somebody outside.

    It cannot be called back.
    """
    ran.append((to, body))
    return "sent"


@function_tool(needs_approval=True)
def pay(to: str, amount: int, card: Annotated[str, Secret] = "") -> str:
    """Pay somebody."""
    ran.append((to, amount))
    return "paid"


def desk(*made: tuple[str, dict[str, Any]], then: Any = "Done.", words: str = "") -> Agent[Any]:
    reply: list[Any] = [assistant_message(words)] if words else []
    reply += [function_call(name, given) for name, given in made]
    return Agent("desk", model=ScriptedModel([reply, then, "Done."]), tools=[send, pay])


async def waiting(agent: Agent[Any], *, streamed: bool) -> Any:
    if not streamed:
        return await Runner.run(agent, "go")
    stream = Runner.run_streamed(agent, "go")
    async for _ in stream.stream_events():
        pass
    return stream


def typed(agent: Agent[Any], *lines: Any, **options: Any) -> tuple[RunState[Any], Keyboard]:
    keyboard = Keyboard(*lines)
    state = keyboard.decide(Runner.run_sync(agent, "go"), **options)
    assert not keyboard.lines, f"not typed: {keyboard.lines}"
    return state, keyboard


PAYS = (("pay", {"to": "ada", "amount": 1}), ("pay", {"to": "bob", "amount": 2}), ("pay", {"to": "ada", "amount": 3}))


@pytest.mark.parametrize("module", [editor, grants])
def test_examples(module: Any) -> None:
    import doctest

    assert doctest.testmod(module).failed == 0


# ---------------------------------------------------------------------------------------------------- what is shown


def test_a_request_as_a_person_reads_it() -> None:
    _, keyboard = typed(desk(("send", MAIL), words="I tell Ann."), "r", "", width=60)
    assert (
        keyboard.text
        == """
  written by the model, not verified
  | I tell Ann.

  Call 1 of 1
  agent: desk
  wants to run: send
  tool description: Send a mail to somebody outside.

  arguments
  | to: "ann@example.com"

  argument: body
  | Dear Ann,
  |\x20
  | it is "late".
  | Yours,
  | the desk

  arguments
  | copies: ["bob"]

  -- Your decision -----------------------------------------
  a approve  e edit  r reject  w write its result  g grant
  l later  q quit  ? explain
  Rejected."""
    )


def test_what_is_to_come_is_listed_with_the_arguments_that_fit() -> None:
    agent = desk(("pay", {"to": "ada", "amount": 1}), ("send", MAIL))
    _, keyboard = typed(agent, "l", "r", "", width=60)
    assert "  2 calls require your decision. Each is shown in full in\n  its turn.\n" in keyboard.text
    assert '  call: 1  pay  to: "ada", amount: 1, card: "[redacted]"\n' in keyboard.text
    assert '  call: 2  send  to: "ann@example.com", [2 more]\n' in keyboard.text


def test_an_agents_path_is_shown_with_what_it_was_asked() -> None:
    inner = Agent("R", model=ScriptedModel([[function_call("pay", {"to": "ada", "amount": 1})], "x"]), tools=[pay])
    tool = inner.as_tool("research", "Finds out.")
    call = function_call("research", {"input": "Who sells paper?"})
    outer = Agent("desk", model=ScriptedModel([[call], "Done."]), tools=[tool])
    _, keyboard = typed(outer, "r", "")
    assert (
        "  agent: research, called by desk\n  task from the agent that called it: Who sells paper?\n" in keyboard.text
    )


@pytest.mark.parametrize("width", [12, 20, 40, 80, 120])
def test_every_row_fits_and_the_rule_is_there(width: int) -> None:
    _, keyboard = typed(
        desk(("send", MAIL), words="word " * 40), *("s" if width < 20 else ""), "?", "r", "", width=width
    )
    assert all(len(row) <= max(width, 20) for row in keyboard.shown), "a key is not torn from its word"
    assert "Your decision" in " ".join(keyboard.text.split())
    assert all(len(row) <= max(width, 20) for row in keyboard.asked)


def test_a_description_that_the_preview_repeats_is_said_once_and_a_long_one_is_cut() -> None:
    def shown(description: str, text: str) -> str:
        tool = function_tool(
            name_override="t", description_override=description, needs_approval=True, preview=lambda _: Text(text)
        )(lambda: "x")
        return typed(Agent("d", model=ScriptedModel([[function_call("t")], "x"]), tools=[tool]), "r", "")[1].text

    assert shown("Says so.", "Says so.").count("Says so.") == 1
    assert "[...]" in shown("long " * 200, "x")


def test_colour_marks_where_to_decide_and_nothing_is_lost_without_it() -> None:
    _, plain = typed(desk(("send", MAIL)), "r", "")
    _, coloured = typed(desk(("send", MAIL)), "r", "", colour=True)
    assert "\x1b" not in plain.text
    assert "\x1b[36m-- Your decision" in coloured.text
    assert re.sub(r"\x1b\[\d+m", "", coloured.text) == plain.text


# ------------------------------------------------------------------------------------------------ several at once


@pytest.mark.each
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("word", "runs"), [("a", 3), ("r", 0)])
async def test_one_word_for_this_call_and_the_others(streamed: bool, word: str, runs: int) -> None:
    agent = desk(*PAYS)
    keyboard = Keyboard("o", word, *([""] if word == "r" else []))
    state = keyboard.decide(await waiting(agent, streamed=streamed))
    assert not keyboard.lines
    before = keyboard.text.split("Your decision on 3 calls at once")[0]
    assert all(f'| to: "{name}"\n  | amount: {amount}' in before for name, amount in (("bob", 2), ("ada", 3)))
    await Runner.run(agent, state)
    assert len(ran) == runs


@pytest.mark.parametrize("line", ["", "y", "approve", "o", "A ll"])
def test_the_others_are_decided_by_a_word_of_their_own(line: str) -> None:
    state, keyboard = typed(desk(*PAYS), "o", line, "l", "l", "a")
    assert [made.verdict for made in state.undelivered.decisions.values()] == ["approve"]
    assert "Nothing was decided." in keyboard.text


def test_only_what_was_shown_whole_is_among_the_others() -> None:
    long = {"to": "x", "body": "\n".join(f"row {n}" for n in range(300)), "copies": []}
    agent = desk(PAYS[0], PAYS[1], ("send", long))
    state, keyboard = typed(agent, "o", "a", "l")
    assert "[not included, because of their length: 1" in keyboard.text
    assert len(state.undelivered.decisions) == 2
    Runner.run_sync(agent, state)
    assert sorted(ran) == [("ada", 1), ("bob", 2)]


def test_there_is_no_key_for_the_others_where_there_are_none() -> None:
    _, keyboard = typed(desk(PAYS[0]), "o", "r", "")
    assert "Unknown key: o" in keyboard.text


def test_an_edit_goes_along_when_all_are_approved() -> None:
    agent = desk(*PAYS)
    state, _ = typed(agent, "e", "amount=9", "o", "a")
    Runner.run_sync(agent, state)
    assert sorted(ran) == [("ada", 3), ("ada", 9), ("bob", 2)]


# --------------------------------------------------------------------------------------------------------- grants


def test_grants_are_proposed_of_these_arguments_the_narrowest_first() -> None:
    _, keyboard = typed(desk(PAYS[0]), "g", "", "r", "")
    assert [row for row in keyboard.shown if row.startswith("  grant: ")] == [
        '  grant: 1  to is "ada", amount is 1, with any card',
        '  grant: 2  to is "ada", amount is from 0 to 1, with any card',
        '  grant: 3  to is "ada", with any other arguments',
        "  grant: 4  any arguments",
    ]
    assert "nothing was decided" in keyboard.text


@pytest.mark.parametrize("lines", [[""], ["9"], ["x"], ["0"], ["1", ""], ["run"]])
def test_an_empty_line_cancels_a_grant(lines: list[str]) -> None:
    state, _ = typed(desk(PAYS[0]), "g", *lines, "r", "")
    assert [made.verdict for made in state.undelivered.decisions.values()] == ["reject"]
    assert not state.undelivered.grants


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_grant_covers_what_it_said_and_nothing_else(streamed: bool) -> None:
    agent = desk(*PAYS, then=[function_call("pay", {"to": "ada", "amount": 7}), function_call("pay", PAYS[1][1])])
    keyboard = Keyboard("g", "3", "run", "r", "no")
    state = keyboard.decide(await waiting(agent, streamed=streamed))
    assert 'It would cover this call, and future calls with: to is "ada"' in keyboard.text
    assert 'granted: to is "ada", with any other arguments; until this run ends' in keyboard.text
    assert "Covered by your grant: pay" in keyboard.text
    result = await Runner.run(agent, state)
    assert sorted(ran) == [("ada", 1), ("ada", 3), ("ada", 7)]
    assert [item.params["to"] for item in result.interruptions] == ["bob"]


def test_a_limited_grant_is_as_long_as_it_says() -> None:
    state, keyboard = typed(desk(PAYS[0]), "g", "4", "1")
    [terms] = state.undelivered.grants.values()
    assert (terms.where, terms.uses) == (None, 1)
    assert "granted: any arguments; for one more call" in keyboard.text


def test_no_secret_stands_in_a_grant() -> None:
    state, keyboard = typed(desk(("pay", {"to": "ada", "amount": 1, "card": "4111"})), "g", "1", "run")
    [terms] = state.undelivered.grants.values()
    assert "4111" not in str(terms) + keyboard.text
    assert set(terms.where or {}) == {"to", "amount"}


def test_a_grant_of_an_edited_call_is_made_of_what_it_became() -> None:
    state, _ = typed(desk(PAYS[0]), "e", "to=eve", "g", "3", "run")
    [terms] = state.undelivered.grants.values()
    assert terms.where == {"to": {"eq": "eve"}}


@pytest.mark.each
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"path": "docs/a.md"}, ['exactly these arguments: path is "docs/a.md"', 'path is in the directory "docs"']),
        ({"path": "../a/b"}, ['exactly these arguments: path is "../a/b"']),
        ({"n": -1, "flag": True}, ["exactly these arguments: n is -1, flag is true"]),
        ({"o": {"a": [1]}}, ['exactly these arguments: o is {"a": [1]}']),
        ({"text": "x" * 100}, ["exactly these arguments: text is the same text of 100 characters"]),
        ({}, []),
        ("a text", []),
        (["a"], []),
    ],
)
def test_words_of_proposed_grants(params: Any, words: list[str]) -> None:
    found = [made.words for made in proposed_grants(params, complete=True)]
    assert found == [*words, grants.ANY]


@pytest.mark.parametrize(
    "params",
    [
        {"command": "cat src/a.txt"},
        {"command": "/usr/bin/cat /srv/a.txt", "timeout": 10},
        {"sql": "select a/b from sales"},
        {"url": "https://bank.example/pay"},
        {"path": "https://bank.example"},
        {"source": "6/2"},
        {"path": "src/a", "destination": "b"},
        {"path": "src/a", "move_to": "src/b"},
    ],
)
def test_a_directory_is_proposed_for_files_alone(params: Any) -> None:
    """`cat src/; rm -rf .` begins as the command `cat src/a.txt` does, and is in no directory."""
    assert not any("under" in str(made.where) for made in proposed_grants(params, complete=True))


def test_no_directory_is_proposed_where_a_later_call_may_name_a_second_file() -> None:
    assert not any("under" in str(made.where) for made in proposed_grants({"path": "src/a"}))


@pytest.mark.parametrize("value", ['", with any other arguments', 'ada", amount is from 0 to 9', "x\u202ey", "\x1b[2J"])
def test_no_value_passes_for_the_words_of_a_grant(value: str) -> None:
    for made in proposed_grants({"to": value, "n": 1}, complete=True):
        bare = made.words.replace('\\"', "")
        assert bare.count('"') in (0, 2)


def test_what_may_come_without_being_named_is_never_called_exact() -> None:
    """A tool that takes other arguments too: a later call may have one that this call has not."""
    assert proposed_grants({"name": "x"})[0].words == 'name is "x", with any other arguments'


# -------------------------------------------------------------------------------------------------------- editing


def test_a_name_alone_asks_for_its_new_value() -> None:
    agent = desk(PAYS[0])
    state, keyboard = typed(agent, "e", "amount", "5", "e", "to", "", "", "a")
    Runner.run_sync(agent, state)
    assert ran == [("ada", 5)]
    assert any("new value" in prompt for prompt in keyboard.asked)
    assert "Nothing was changed." in keyboard.text


@pytest.mark.each
@pytest.mark.parametrize(("name", "value"), [("amount", "many"), ("amount", "{"), ("to", "x")])
def test_a_value_that_does_not_fit_is_refused_in_words(name: str, value: str) -> None:
    _, keyboard = typed(desk(PAYS[0]), "e", name, value, *([""] if name == "amount" else []), "r", "")
    assert ("Invalid, nothing was changed" in keyboard.text) == (name == "amount")


def test_a_changed_text_is_compared_line_by_line_and_the_others_by_themselves() -> None:
    _, keyboard = typed(
        desk(("send", MAIL)), "e", '{"to": "eve", "body": "Dear Ann,\\n\\nno.", "copies": ["bob"]}', "r", ""
    )
    shown = keyboard.text
    assert '  diff: your change\n  | -to: "ann@example.com"\n  | +to: "eve"\n' in shown
    assert "  diff: your change to body\n  |  Dear Ann,\n" in shown
    assert "| +no." in shown
    assert "copies" not in shown.split("diff: your change", 1)[1].split("Your decision")[0]


def test_an_edited_call_keeps_the_order_of_its_arguments() -> None:
    _, keyboard = typed(desk(PAYS[0]), "e", "to=eve", "r", "")
    assert '| to: "eve"\n  | amount: 1\n  | card: "[redacted]"' in keyboard.text


def at_keyboard(monkeypatch: pytest.MonkeyPatch, **environ: str) -> screen.Terminal:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(screen, "_forget", lambda: None)
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return screen.Terminal.here(show=lambda _row: None, width=80)


def test_editing_begins_with_the_present_value(monkeypatch: pytest.MonkeyPatch) -> None:
    readline = pytest.importorskip("readline")
    hooks: list[Any] = []
    monkeypatch.setattr(readline, "set_startup_hook", lambda *hook: hooks.append(hook))
    monkeypatch.setattr(readline, "insert_text", lambda text: hooks.append(text))

    def as_typed(_prompt: str) -> str:
        hooks[-1][0]()
        return hooks[-1] + "!"

    monkeypatch.setattr(builtins, "input", as_typed)
    assert at_keyboard(monkeypatch).amend("new value", "ada") == "ada!"
    assert hooks[-1] == (), "the next question begins empty"


def test_editing_works_where_python_has_no_readline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readline", None)
    monkeypatch.setattr(builtins, "input", lambda _prompt: "eve")
    assert at_keyboard(monkeypatch).amend("new value", "ada") == "eve"


def test_what_hides_or_acts_is_never_put_on_the_line() -> None:
    for odd in ("a\u202eb", "a\x1b[2J", "a\nb", "\u200b", "x" * 500):
        assert not editor.fits_a_line(odd)
    assert editor.fits_a_line("C:\\temp, é and 日本")


def an_editor(tmp_path: Path, does: str) -> str:
    script = tmp_path / "editor.py"
    script.write_text(f"import sys, pathlib\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n{does}\n")
    return f"{sys.executable} {script}"


@pytest.mark.parametrize(
    ("present", "does", "becomes"),
    [
        ("a\nb", "path.write_text(text.replace('b', 'c') + '\\n')", "a\nc"),
        ("a\nb", "pass", None),
        ("a\nb", "path.write_text(''); sys.exit(1)", None),
        ("a\n\u202eb\\", "assert '\\u202e' not in text; path.write_text(text.replace('b', 'c'))", "a\n\u202ec\\"),
        ("a\n\\d", "assert text == 'a\\n\\\\d'; path.write_text(text + '!')", "a\n\\d!"),
    ],
)
def test_a_long_text_is_changed_in_the_persons_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str, does: str, becomes: str | None
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(editor.tempfile, "tempdir", str(tmp_path))
    terminal = at_keyboard(monkeypatch, EDITOR=an_editor(tmp_path, does))
    assert terminal.amend("new value", present) == becomes
    assert not list(tmp_path.glob("keyturn-*")), "no copy is left"


def test_an_editor_that_is_not_there_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert at_keyboard(monkeypatch, EDITOR="no-such-editor-anywhere").amend("new value", "a\nb") is None


def test_without_an_editor_a_long_text_can_be_typed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "input", lambda _prompt: "short")
    assert at_keyboard(monkeypatch).amend("new value", "a\nb") == "short"


def test_a_secret_is_not_what_editing_begins_with() -> None:
    agent = desk(("pay", {"to": "ada", "amount": 1, "card": "4111"}))
    state, keyboard = typed(agent, "e", "card", "5222", "a")
    assert "4111" not in keyboard.text + "".join(keyboard.asked)
    [made] = state.undelivered.decisions.values()
    assert '"card":"5222"' in (made.args or "")


# -------------------------------------------------------------------------------------------------------- leaving


@pytest.mark.parametrize("left", [KeyboardInterrupt(), EOFError(), "q"])
def test_what_was_decided_before_leaving_is_kept_and_said(left: Any) -> None:
    keyboard = Keyboard("a", left)
    agent = desk(*PAYS)
    with pytest.raises(Undecided, match="only 1 call decided") as raised:
        keyboard.decide(Runner.run_sync(agent, "go"))
    assert "  Stopped. 1 of 3 calls are decided and kept; none of them has run.\n  kept: 1  pay: approve" in (
        keyboard.text
    )
    state = asyncio.run(RunState.from_string(agent, raised.value.state.to_string()))
    Runner.run_sync(agent, state)
    assert ran == [("ada", 1)]


def test_who_leaves_at_once_is_told_that_nothing_was_decided() -> None:
    keyboard = Keyboard()
    with pytest.raises(Undecided, match="nothing was decided"):
        keyboard.decide(Runner.run_sync(desk(*PAYS), "go"))
    assert "Stopped. Nothing was decided, and no pending call has run." in keyboard.text


@pytest.mark.parametrize("path", ["/x", "/./x", "./x", " /x", "/ /x", ". /x", "/. /x", "/.//x", "x"])
def test_no_directory_that_is_everything_is_proposed(path: str) -> None:
    assert not any("under" in str(made.where) for made in proposed_grants({"path": path}, complete=True))


def test_a_secret_whose_name_has_a_dot_stands_in_no_grant() -> None:
    made = proposed_grants({"a.b": "hunter2", "a": {"b": "hunter2"}, "c": "x"}, ["a.b"])
    assert "hunter2" not in str(made)
    assert [each.where for each in made] == [{"c": {"eq": "x"}}, None]


def by_hand(schema: dict[str, Any]) -> FunctionTool:
    async def does(_context: Any, arguments: str) -> str:
        ran.append(("by hand", json.loads(arguments)))
        return "done"

    return FunctionTool("act", "Acts.", schema, does, strict_json_schema=False, needs_approval=True)


@pytest.mark.parametrize("more", [{"additionalProperties": False}, {"patternProperties": {"^f": {}}}, {}])
def test_exactly_is_said_only_where_the_tool_refuses_all_other_arguments(more: dict[str, Any]) -> None:
    """A hand-made tool takes any object, whatever its schema promises."""
    tool = by_hand({"type": "object", "properties": {"to": {}}, **more})
    reply = [[function_call("act", {"to": "ada"})], [function_call("act", {"to": "ada", "force": True})], "Done."]
    _, keyboard = typed(Agent("desk", model=ScriptedModel(reply), tools=[tool]), "g", "1", "run")
    assert "exactly" not in keyboard.text
    assert 'granted: to is "ada", with any other arguments; until this run ends' in keyboard.text
    _, keyboard = typed(desk(("send", MAIL)), "g", "", "r", "")
    assert "exactly these arguments: to is" in keyboard.text


def test_what_a_row_has_no_room_for_is_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model can send any number of arguments: each of them was put together with all before it."""
    written = list[str]()
    monkeypatch.setattr(one_row, "shown_name", lambda name: written.append(name) or name)
    wide = {f"a{n}": n for n in range(2_000)}
    agent = Agent("desk", model=ScriptedModel([[function_call("act", wide) for _ in "ab"]]))
    agent.tools = [by_hand({"type": "object", "properties": {}})]
    _, keyboard = typed(agent, "l", "r", "")
    assert "  call: 1  act  a0: 0, a1: 1, " in keyboard.text
    assert len(written) < 100


def test_each_call_is_compared_with_each_grant_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[Any]()
    monkeypatch.setattr(given, "holds", lambda *pair: compared.append(pair) or holds(*pair))
    agent = Agent("desk", model=ScriptedModel([[function_call("act", {"to": str(n % 60)}) for n in range(90)]]))
    agent.tools = [by_hand({"type": "object", "properties": {}})]
    state, keyboard = typed(agent, "g", "1", "run", *(["l"] * 20), "g", "1", "run", *(["l"] * 65), "a")
    assert len(state.undelivered.decisions) == 3
    assert keyboard.text.count("Covered by your grant") == 2
    assert len(compared) < 2 * 90


@pytest.mark.parametrize("does", ["path.unlink()", "path.write_bytes(b'\\xff')", "path.unlink(); path.mkdir()"])
def test_an_editor_that_takes_the_file_away_changes_nothing_and_loses_no_decision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str
) -> None:
    terminal = at_keyboard(monkeypatch, EDITOR=an_editor(tmp_path, does))
    monkeypatch.setattr(builtins, "input", Keyboard("a", "e", "body", "", "r", ""))
    monkeypatch.setattr(screen.Terminal, "here", lambda *_: terminal)
    shown = list[str]()
    terminal.show = shown.append
    state = decide(Runner.run_sync(desk(PAYS[0], ("send", MAIL)), "go"))
    assert [made.verdict for made in state.undelivered.decisions.values()] == ["approve", "reject"]
    assert "Invalid, nothing was changed" in "\n".join(shown)


def test_no_copy_that_an_editor_makes_is_left_or_seen_by_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(editor.tempfile, "tempdir", str(tmp_path))
    does = "path.with_name(path.name + '~').write_text(text)\nassert path.parent.stat().st_mode & 0o077 == 0\n"
    changed = an_editor(tmp_path, does + "path.write_text('new')")
    assert at_keyboard(monkeypatch, EDITOR=changed).amend("new value", "a\nb") == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["editor.py"]


def test_an_editor_can_be_used_from_another_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = at_keyboard(monkeypatch, EDITOR=an_editor(tmp_path, "path.write_text('new')"))
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(terminal.amend, "new value", "a\nb").result() == "new"


@pytest.mark.parametrize(("value", "width"), [("x" * 60, 80), ("日本" * 15, 80), ("x" * 5, 14)])
def test_a_value_on_the_line_is_never_wrapped(monkeypatch: pytest.MonkeyPatch, value: str, width: int) -> None:
    """Wrapped, a model's words would begin a row, where only words of ours do."""
    asked = list[str]()
    terminal = at_keyboard(monkeypatch)
    terminal.width = width
    monkeypatch.setattr(builtins, "input", lambda prompt: asked.append(prompt) or "")
    assert terminal.amend("new value; empty: no change", value) is None
    wide = len(value) * (1 if value.isascii() else 2)
    assert len(asked[-1]) + wide < width
    assert not editor.fits_a_line(value, wide - 1)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("looks", [False, True])
async def test_a_preview_without_a_block_hides_no_call(streamed: bool, looks: bool) -> None:
    @function_tool(needs_approval=True, preview=lambda _given: Preview((), summary="nothing to see"))
    def wire(to: str, pin: Annotated[str, Secret]) -> str:
        ran.append(to)
        return "sent"

    if looks:
        wire.__class__ = type("Looking", (FunctionTool,), {"looks": True})
    agent = Agent("desk", model=ScriptedModel([[function_call("wire", {"to": "eve", "pin": "1234"})], "Done."]))
    agent.tools = [wire]
    keyboard = Keyboard("e", "to=mallory", "a")
    state = keyboard.decide(await waiting(agent, streamed=streamed))
    assert "  summary: nothing to see" in keyboard.text
    assert '  | to: "eve"\n  | pin: "[redacted]"' in keyboard.text
    assert '  | to: "mallory"\n  | pin: "[redacted]"' in keyboard.text
    await Runner.run(agent, state)
    assert ran == ["mallory"]


def test_a_question_whose_preview_has_no_block_is_shown() -> None:
    @function_tool
    async def which(context: ToolContext[Any]) -> Any:
        return NeedsInput({"question": "Which account?"}, preview=Preview(()))

    agent = Agent("desk", model=ScriptedModel([[function_call("which")], "Done."]), tools=[which])
    _, keyboard = typed(agent, "r", "")
    assert "Which account?" in keyboard.text
