"""Each leak on LangChain's deep agents as installed: run as a program, it prints a line of JSON each.

It runs in an environment of its own and imports nothing of Keyturn. The model is a scripted one; no network.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends.filesystem import FilesystemBackend
from deepagents.backends.local_shell import LocalShellBackend
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

Found = tuple[bool, str]
LEAKS: dict[str, Callable[[Path], Found]] = {}
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}
GO: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}]}


def leak(show: Callable[[Path], Found]) -> Callable[[Path], Found]:
    """Put one into the list, by its name."""
    LEAKS[show.__name__] = show
    return show


class Scripted(BaseChatModel):
    """Says these things, whichever agent asks."""

    steps: list[Any]

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        step = self.steps.pop(0) if self.steps else "Done."
        message = AIMessage(step) if isinstance(step, str) else AIMessage("", tool_calls=[step])
        return ChatResult(generations=[ChatGeneration(message=message)])


def model(*steps: Any) -> Scripted:
    """Make a model that says these things."""
    return Scripted(steps=list(steps))


def call(name: str, label: str = "c1", **args: Any) -> dict[str, Any]:
    """Make a call of the model."""
    return {"name": name, "args": args, "id": label, "type": "tool_call"}


def asked(result: Any) -> list[str]:
    """Return the names of the tools whose calls wait."""
    waiting = [each.value for each in result.get("__interrupt__", ())]
    return [request["name"] for value in waiting for request in value["action_requests"]]


def answer(agent: Any, *decisions: dict[str, Any], config: Any = None) -> Any:
    """Go on with these decisions."""
    return agent.invoke(Command(resume={"decisions": list(decisions)}), config or THREAD)


def deep(scripted: Scripted, rules: dict[str, Any], **options: Any) -> Any:
    """Make a deep agent that can wait."""
    return create_deep_agent(scripted, interrupt_on=rules, checkpointer=InMemorySaver(), **options)


class Tools:
    """A tool that may not run unasked, another, and what they did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def deploy(self, to: str) -> str:
        """Deploy the site."""
        self.ran.append(f"deploy to {to}")
        return "deployed"

    def wipe(self) -> str:
        """Wipe the disk."""
        self.ran.append("wipe")
        return "wiped"

    def did(self) -> str:
        return f"ran: {', '.join(self.ran)}" if self.ran else "nothing ran"


@leak
def a_subagent_writes(place: Path) -> Found:
    scripted = model(call("task", description="Write it.", subagent_type="general-purpose"),
                     call("write_file", "c2", file_path="/pwn", content="x"), "ok")  # fmt: skip
    backend = FilesystemBackend(root_dir=place, virtual_mode=True)
    result = deep(scripted, {"write_file": True}, backend=backend).invoke(GO, THREAD)
    written = (place / "pwn").exists()
    return written, "written, asked nobody" if written else f"asked for {', '.join(asked(result))}"


@leak
def an_agent_that_the_user_brings(place: Path) -> Found:
    tools = Tools()
    inner = create_agent(model(call("deploy", "c2", to="prod"), "ok"), [tools.deploy])
    scripted = model(call("task", description="Ship it.", subagent_type="shipper"))
    subagent: Any = {"name": "shipper", "description": "Ships.", "runnable": inner}
    deep(scripted, {"deploy": True}, tools=[tools.deploy], subagents=[subagent]).invoke(GO, THREAD)
    return bool(tools.ran), tools.did()


@leak
def a_tool_of_the_users_own(place: Path) -> Found:
    tools = Tools()
    result = deep(model(call("deploy", to="prod")), {"deploy": True}, tools=[tools.deploy]).invoke(GO, THREAD)
    return bool(tools.ran), f"asked for {', '.join(asked(result))}" if not tools.ran else tools.did()


@leak
def a_name_that_no_tool_has(place: Path) -> Found:
    try:
        deep(model(), {"write_fil": True})
    except Exception as error:
        return False, f"refused: {type(error).__name__}"
    return True, "taken in silence"


@leak
def one_name_gates_one_tool(place: Path) -> Found:
    result = deep(model(call("write_file", file_path="/a", content="x")), {"edit_file": True}).invoke(GO, THREAD)
    return bool(asked(result)), f"edit_file alone is named, and {', '.join(asked(result)) or 'nothing else'} asks"


@leak
def commands_of_which_nothing_is_said(place: Path) -> Found:
    backend = LocalShellBackend(root_dir=place, virtual_mode=True)
    agent = deep(model(call("execute", command=f"touch {place}/pwn")), {"write_file": True}, backend=backend)
    agent.invoke(GO, THREAD)
    ran = (place / "pwn").exists()
    return ran, "write_file is gated, and a command wrote, asked nobody" if ran else "no command ran"


@leak
def a_file_that_changed_meanwhile(place: Path) -> Found:
    file = place / "a"
    backend = FilesystemBackend(root_dir=place, virtual_mode=True)
    agent = deep(model(call("write_file", file_path="/a", content="new\n")), {"write_file": True}, backend=backend)
    waits = agent.invoke(GO, THREAD)
    file.write_text("somebody else's\n")
    result = answer(agent, {"type": "approve"})
    lost = bool(asked(waits)) and file.read_text() == "new\n"
    told = str(result["messages"][-2].content)[:60]
    return lost, "overwritten, asked nobody again" if lost else f"not overwritten; the model is told {told!r}"


@leak
def one_approval_twice(place: Path) -> Found:
    tools = Tools()
    agent = deep(model(call("deploy", to="prod")), {"deploy": True}, tools=[tools.deploy])
    agent.invoke(GO, THREAD)
    paused = agent.get_state(THREAD).config
    for _ in range(2):
        answer(agent, {"type": "approve"}, config=paused)
    return len(tools.ran) > 1, tools.did()


@leak
def an_edit_that_names_another_tool(place: Path) -> Found:
    tools = Tools()
    agent = deep(model(call("deploy", to="prod")), {"deploy": True}, tools=[tools.deploy, tools.wipe])
    agent.invoke(GO, THREAD)
    answer(agent, {"type": "edit", "edited_action": {"name": "wipe", "args": {}}})
    return bool(tools.ran), tools.did()


@leak
def an_edit_that_does_not_fit(place: Path) -> Found:
    tools = Tools()
    agent = deep(model(call("deploy", to="prod")), {"deploy": True}, tools=[tools.deploy])
    agent.invoke(GO, THREAD)
    try:
        result = answer(agent, {"type": "edit", "edited_action": {"name": "deploy", "args": {"where": 5}}})
    except Exception as error:
        return False, f"refused: {type(error).__name__}"
    return True, f"the person is told nothing, the run ends with {result['messages'][-1].content!r}"


@leak
def a_rule_that_says_otherwise_when_answered(place: Path) -> Found:
    tools, answers = Tools(), [True, False]

    def when(request: Any) -> bool:
        return answers.pop(0) if answers else False

    rule = {"allowed_decisions": ["approve", "reject"], "when": when}
    agent = deep(model(call("deploy", to="prod")), {"deploy": rule}, tools=[tools.deploy])
    agent.invoke(GO, THREAD)
    answer(agent, {"type": "reject", "message": "No."})
    return bool(tools.ran), f"rejected, and {tools.did()}"


def main() -> None:
    """Show each, and say of which versions."""
    warnings.simplefilter("ignore")
    print(json.dumps({"versions": {name: version(name) for name in ("deepagents", "langchain", "langgraph")}}))
    for name, show in LEAKS.items():
        with tempfile.TemporaryDirectory() as place:
            try:
                leaked, what = show(Path(place))
            except Exception as error:
                leaked, what = None, f"could not be shown: {type(error).__name__}: {str(error)[:120]}"
        print(json.dumps({"leak": name, "leaked": leaked, "what": what}))


if __name__ == "__main__":
    main()
