"""The computer tool keeps the room's promises; safety checks go through the gate, and words for the model are drawn."""

from __future__ import annotations

import base64
import json
from typing import Any

import openai
import pytest

from keyturn import (
    Agent,
    AnthropicModel,
    Computer,
    ComputerTool,
    GoogleModel,
    InvalidArguments,
    Json,
    Policy,
    Rule,
    RunConfig,
    RunHooks,
    Runner,
    UserError,
)
from keyturn.core.items import Item
from keyturn.deferred import ApprovalRequired
from keyturn.testing import ModelStep, ScriptedModel, ToolSuite
from keyturn.testing.crash import Effects
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.tools.base import OutcomeUnknown
from keyturn.tools.word_picture import drawn, written
from tests.models.openai.serving import served
from tests.playing import play, through_text
from tests.tools.wire import bodies, decided
from tests.waiting import turns_of_the_loop

pytestmark = pytest.mark.usefixtures("own_key")

CHECK = {"id": "cu_sc_1", "code": "malicious_instructions", "message": "The page asks for a password."}
OTHER = {**CHECK, "id": "cu_sc_2"}


class Screen(Computer):
    """Remembers what was done to it, and shows how much that was."""

    environment = "browser"
    dimensions = (1024, 768)

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.broken = ""

    def _do(self, name: str, *given: Any) -> None:
        if name == self.broken:
            raise RuntimeError("hunter2")
        self.done.append((name, *given))

    def screenshot(self) -> Any:
        if self.broken == "screenshot":
            raise RuntimeError("hunter2")
        return base64.b64encode(f"{len(self.done)} done".encode()).decode()

    def click(self, x: int, y: int, button: str, keys: Any = None) -> None:
        self._do("click", x, y, button, *(keys or ()))

    async def double_click(self, x: int, y: int) -> None:
        self._do("double_click", x, y)

    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        self._do("scroll", x, y, scroll_x, scroll_y)

    async def type(self, text: str) -> None:
        self._do("type", text)

    async def wait(self) -> None:
        self._do("wait")

    def move(self, x: int, y: int) -> None:
        self._do("move", x, y)

    def keypress(self, keys: list[str]) -> None:
        self._do("keypress", *keys)

    def drag(self, path: list[tuple[int, int]]) -> None:
        self._do("drag", *path)


def url(count: int) -> str:
    return "data:image/png;base64," + base64.b64encode(f"{count} done".encode()).decode()


def computer_call(label: str, *actions: Any, checks: Any = ()) -> Item:
    return {
        "type": "computer_call",
        "id": f"cu_{label}",
        "call_id": label,
        "status": "completed",
        "actions": list(actions),
        "pending_safety_checks": list(checks),
    }


def typing(text: str) -> Item:
    return {"type": "type", "text": text}


CLICK = {"type": "click", "x": 3, "y": 4, "button": "left"}


class TestComputerTool(ToolSuite):
    def make_tool(self, effects: Effects, **settings: Any) -> Any:
        tool = ComputerTool(Screen(), **settings)
        invoke = tool.invoke

        async def recorded(context: Any, prepared: Any) -> Any:
            effects.record(context, prepared.params["actions"][0]["text"])
            return await invoke(context, prepared)

        tool.invoke = recorded  # type: ignore[method-assign]  # it says that it acts, as the suite wants it
        return tool

    def changed_tool(self, effects: Effects) -> Any:
        tool = self.make_tool(effects, needs_approval=True)
        tool.computer.dimensions = (800, 600)
        return tool

    def call(self, label: str, variant: int = 0) -> Item:
        return computer_call(label, typing(f"w{variant}"))

    def refused(self) -> list[Item]:
        wrong: list[Any] = [None, {}, "click", {"type": "fly"}, {**CLICK, "x": 1.5}, {**CLICK, "button": "top"}]
        wrong += [{**CLICK, "x": True}, {"type": "type"}, {"type": "drag", "path": [1]}, {**CLICK, "keys": "shift"}]
        calls = [computer_call("bad", each) for each in wrong]
        return [*calls, computer_call("bad"), computer_call("bad", CLICK, checks=["no check"])]

    def told(self, label: str) -> str:
        """Words for the model are drawn."""
        result = json.loads(super().told(label))
        return written(result["output"]["image_url"]) or ""


def agent_of(screen: Any, *script: Any, **settings: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel([*script, "done"])
    return Agent("a", model=model, tools=[ComputerTool(screen, **settings)]), model


def output_of(model: Any, checks: Any = ()) -> Any:
    """What the model read last, which acknowledges these checks and no others."""
    item = model.calls[-1].input[-1]
    assert item.get("acknowledged_safety_checks", []) == list(checks)
    return item["output"]["image_url"]


async def test_all_actions_in_their_order() -> None:
    actions = [
        CLICK,
        {**CLICK, "keys": ["SHIFT"], "mood": "good"},
        {"type": "double_click", "x": 1, "y": 2},
        {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 90},
        typing("hello"),
        {"type": "wait"},
        {"type": "screenshot"},
        {"type": "move", "x": 5, "y": 6},
        {"type": "keypress", "keys": ["CTRL", "a"]},
        {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    ]
    screen = Screen()
    agent, model = agent_of(screen, [computer_call("c1", *actions)])
    assert (await Runner.run(agent, "go")).final_output == "done"
    assert screen.done == [
        ("click", 3, 4, "left"),
        ("click", 3, 4, "left", "SHIFT"),
        ("double_click", 1, 2),
        ("scroll", 1, 2, 0, 90),
        ("type", "hello"),
        ("wait",),
        ("move", 5, 6),
        ("keypress", "CTRL", "a"),
        ("drag", (1, 2), (3, 4)),
    ]
    assert output_of(model) == url(9)


async def test_a_screenshot_is_kept_once_and_shown_to_hooks() -> None:
    heard: list[Any] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(result)

    agent, _ = agent_of(Screen(), [computer_call("c1", CLICK)])
    result = await Runner.run(agent, "go", hooks=Hooks())
    assert heard == [url(1)]
    assert result.to_state().to_string().count(url(1)) == 1


async def test_one_action_as_older_models_send_it() -> None:
    screen = Screen()
    call = {name: value for name, value in computer_call("c1").items() if name != "actions"}
    agent, model = agent_of(screen, [{**call, "action": CLICK}])
    assert (await Runner.run(agent, "go")).final_output == "done"
    assert (screen.done, output_of(model)) == ([("click", 3, 4, "left")], url(1))


@pytest.mark.parametrize("needs", [False, lambda *_: False], ids=["False", "a callable"])
async def test_a_safety_check_asks_and_the_approval_acknowledges_it(needs: Any) -> None:
    screen = Screen()
    agent, model = agent_of(screen, [computer_call("c1", CLICK, checks=[CHECK, OTHER])], needs_approval=needs)
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.params == {"actions": [CLICK], "pending_safety_checks": [CHECK, OTHER]}
    first, second, actions, _where = item.preview.blocks
    assert (first.text, first.label) == (
        "malicious_instructions: The page asks for a password.",
        "safety check, in the provider's words; to approve is to acknowledge it",
    )
    assert (second.text, actions) == (first.text, Json([CLICK], label="actions"))
    state = await through_text(agent, result)
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state)).final_output == "done"
    assert (len(screen.done), output_of(model, [CHECK, OTHER])) == (1, url(1))


class Production(Screen):
    """Is another computer of the same screen."""


class Named(Screen):
    """Says which computer it is."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def about(self) -> dict[str, Any]:
        return {"host": self.host}


@pytest.mark.parametrize(
    ("shown", "then", "names"),
    [(Screen(), Production(), {"name": "Screen"}), (Named("sandbox"), Named("production"), {"host": "sandbox"})],
    ids=["of another class", "that says it is another"],
)
async def test_an_approval_for_one_computer_acts_on_no_other(shown: Any, then: Any, names: Any) -> None:
    agent, _ = agent_of(shown, [computer_call("c1", CLICK)], needs_approval=True)
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    assert item.preview.blocks[-1] == Json(names, label="computer")
    state.approve(item)
    agent.tools[0].computer = then
    assert [each.call_id for each in (await Runner.run(agent, state)).interruptions] == ["c1"]
    assert (shown.done, then.done) == ([], [])


@pytest.mark.parametrize("decide", ["reject", "answer"])
async def test_what_nobody_approved_is_not_acknowledged(decide: str) -> None:
    screen = Screen()
    agent, model = agent_of(screen, [computer_call("c1", CLICK, checks=[CHECK])])
    state = (await Runner.run(agent, "go")).to_state()
    if decide == "reject":
        state.reject(state.get_interruptions()[0], rejection_message="That is phishing.")
    else:
        state.answer(state.get_interruptions()[0], url(7))
    assert (await Runner.run(agent, state)).final_output == "done"
    told = output_of(model)
    assert screen.done == []
    assert (written(told), told) == (
        ("That is phishing.", drawn("That is phishing.")) if decide == "reject" else (None, url(7))
    )


@pytest.mark.parametrize("given", [[], [CHECK], [OTHER]], ids=["of no check", "of that check", "of another"])
async def test_a_grant_is_no_acknowledgement_of_what_nobody_saw(given: Any) -> None:
    """A grant is for calls with the very same checks, which one person saw, or with none."""
    screen = Screen()
    rounds = [[computer_call("c1", CLICK, checks=given)], [computer_call("c2", CLICK, checks=[OTHER])]]
    agent, _ = agent_of(screen, *rounds, needs_approval=True)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(agent, state)
    assert len(screen.done) == 1
    assert given == [OTHER] or [item.call_id for item in result.interruptions] == ["c2"]


async def test_a_policy_that_allows_acknowledges_nothing() -> None:
    screen = Screen()
    agent, model = agent_of(screen, [computer_call("c1", CLICK, checks=[CHECK])])
    config = RunConfig(policy=Policy(Rule("allow", tool="computer")))
    assert (await Runner.run(agent, "go", run_config=config)).final_output == "done"
    assert screen.done == []
    assert "were not acknowledged" in str(written(output_of(model)))


ANSWERS = [
    ([True, True], "runs"),
    ([True, False], "rejected"),
    ([False, None], "rejected"),
    ([True, None], "waits"),
    ([True, 1], "waits"),
    (["yes", "yes"], "waits"),
]


@pytest.mark.parametrize(("answers", "comes"), ANSWERS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_on_safety_check_decides_in_line(answers: list[Any], comes: str, asynchronous: bool) -> None:
    screen, asked = Screen(), list[Any]()

    def check(data: Any) -> Any:
        asked.append((data.safety_check.id, data.agent.name, data.tool_call.call_id, data.ctx_wrapper.context))
        answer = answers[len(asked) - 1]

        async def later() -> Any:
            return answer

        return later() if asynchronous else answer

    calls = [computer_call("c1", CLICK, checks=[CHECK, OTHER])]
    agent, model = agent_of(screen, calls, on_safety_check=check)
    result = await Runner.run(agent, "go", context="mine")
    assert asked == [(one["id"], "a", "c1", "mine") for one in (CHECK, OTHER)]
    assert (len(result.interruptions), len(screen.done)) == {"runs": (0, 1), "rejected": (0, 0), "waits": (1, 0)}[comes]
    if comes == "runs":
        assert output_of(model, [CHECK, OTHER]) == url(1)
    elif comes == "rejected":
        assert written(output_of(model)) == "Tool execution was not approved."


async def test_a_callback_is_no_approval_where_the_tool_asks_itself() -> None:
    screen = Screen()
    for checks in ([CHECK], []):
        call = computer_call("c1", CLICK, checks=checks)
        agent, _ = agent_of(screen, [call], needs_approval=True, on_safety_check=lambda _data: True)
        assert len((await Runner.run(agent, "go")).interruptions) == 1
    assert screen.done == []


@pytest.mark.each
@pytest.mark.parametrize(("broken", "told"), [("type", "Action 2 of 3 (type) failed"), ("screenshot", "no picture")])
async def test_a_computer_that_fails(broken: str, told: str) -> None:
    screen = Screen()
    screen.broken = broken
    agent, model = agent_of(screen, [computer_call("c1", CLICK, typing("x"), {"type": "wait"})])
    assert (await Runner.run(agent, "go")).final_output == "done"
    words = str(written(output_of(model)))
    assert told in words
    assert "hunter2" not in words
    assert len(screen.done) == (1 if broken == "type" else 3)


async def test_a_computer_that_does_not_know_what_happened() -> None:
    class Lost(Screen):
        def move(self, x: int, y: int) -> None:
            raise OutcomeUnknown("the line broke")

    agent, _ = agent_of(Lost(), [computer_call("c1", {"type": "move", "x": 1, "y": 1})])
    [item] = (await Runner.run(agent, "go")).interruptions
    assert (item.kind, item.reason) == ("in_doubt", "the line broke")


async def test_calls_on_one_computer_run_one_after_another() -> None:
    class Slow(Screen):
        async def type(self, text: str) -> None:
            for char in text:
                self.done.append(char)
                await turns_of_the_loop()

    screen = Slow()
    agent, _ = agent_of(screen, [computer_call("c1", typing("abc")), computer_call("c2", typing("xyz"))])
    await Runner.run(agent, "go")
    assert "".join(screen.done) in ("abcxyz", "xyzabc")


def test_what_is_no_computer() -> None:
    with pytest.raises(UserError, match="no click, double_click"):
        ComputerTool(type("Half", (), {"screenshot": lambda self: b""})())
    with pytest.raises(UserError, match="needs_approval must be"):
        ComputerTool(Screen(), needs_approval="yes")  # type: ignore[arg-type]  # that is what is refused
    bare = Screen()
    bare.dimensions = None
    with pytest.raises(UserError, match="environment and dimensions"):
        ComputerTool(bare, wire_type="computer_use_preview")
    with pytest.raises(InvalidArguments, match="cannot be edited"):
        ComputerTool(bare).edit({})
    assert ComputerTool(bare).provider_tool() == {"type": "computer"}


@pytest.mark.parametrize("kept", [False, True], ids=["whole", "previous"])
async def test_responses(streamed: bool, kept: bool) -> None:
    """The server refuses a call that has no output, and a safety check that is not acknowledged."""
    call = computer_call("c1", CLICK, checks=[CHECK])
    server = ResponsesServer([ModelStep([call], response_id="resp_1"), "done"])
    options = {"auto_previous_response_id": True} if kept else {}
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[ComputerTool(Screen(), wire_type="computer_use_preview")])
        result = await decided(agent, streamed, lambda state, item: state.approve(item), **options)
    assert result.final_output == "done"
    first, second = bodies(server)
    size = {"display_width": 1024, "display_height": 768}
    assert first["tools"] == [{"type": "computer_use_preview", "environment": "browser", **size}]
    output = {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": url(1)},
        "acknowledged_safety_checks": [CHECK],
    }
    assert second["input"] == ([output] if kept else [{"role": "user", "content": "go"}, call, output])


async def test_the_provider_ends_a_conversation_whose_check_nobody_acknowledged(streamed: bool) -> None:
    """That is its own rule. Nothing ran, and the error is the provider's."""
    screen = Screen()
    server = ResponsesServer([[computer_call("c1", CLICK, checks=[CHECK])], "done"])
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[ComputerTool(screen)])
        state = (await play(agent, "go", streamed)).to_state()
        state.reject(state.get_interruptions()[0])
        with pytest.raises(openai.BadRequestError, match="unacknowledged safety check"):
            await play(agent, state, streamed)
    assert screen.done == []


async def test_other_apis_have_no_such_tool() -> None:
    tool = ComputerTool(Screen())
    async with served(ChatServer([])) as model:
        with pytest.raises(UserError, match="no tool of type 'computer'"):
            await Runner.run(Agent("a", model=model, tools=[tool]), "go")
    for model, whose in ((AnthropicModel("m", api_key="k"), "Claude"), (GoogleModel("m", api_key="k"), "Gemini")):
        with pytest.raises(UserError, match=f"'computer'.*cannot be offered to a {whose} model"):
            await Runner.run(Agent("a", model=model, tools=[tool]), "go")


@pytest.mark.parametrize(("first", "kind"), [(True, "approval"), (False, "in_doubt")])
async def test_a_computer_that_asks_is_heard_and_in_doubt_where_something_was_done(first: bool, kind: str) -> None:
    class Asks(Screen):
        def move(self, x: int, y: int) -> None:
            raise ApprovalRequired

    move = {"type": "move", "x": 1, "y": 1}
    agent, _ = agent_of(Asks(), [computer_call("c1", *([move] if first else [CLICK, move]))])
    assert [item.kind for item in (await Runner.run(agent, "go")).interruptions] == [kind]
