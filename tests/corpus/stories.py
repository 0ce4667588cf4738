"""The agents of the saved runs, and what people decide of them. A story that was saved is not changed any more.

A format that is new gets a folder of its own: `python -m tests.corpus.save` writes that of the version that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from keyturn import (
    Agent,
    Approval,
    ApprovalRequired,
    CallDeferred,
    Grant,
    Preview,
    RunState,
    Secret,
    Text,
    Tool,
    ToolContext,
    ask_user,
    function_tool,
)
from keyturn.core.people import Decider
from keyturn.deep import Compaction
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import assistant_message, function_call, tool_outputs
from keyturn.testing import ScriptedModel
from keyturn.tools.base import OutcomeUnknown, Prepared

SECRET = "the secret of the corpus, known to everybody".replace(" ", "-")
DONE: list[str] = []
ADA = Decider("ada", strength="authenticated")
BOB = Decider("bob", strength="authenticated")


class Story(NamedTuple):
    """An agent, made anew for each process, and what is said of each request that it makes."""

    make: Callable[[], Agent[Any]]
    decide: Callable[[RunState[Any], Any], object]


def _act(context: ToolContext[Any], n: int) -> str:
    DONE.append(f"{context.tool_name} {n}")
    return f"{context.tool_name} {n}"


def _lose(context: ToolContext[Any], n: int) -> str:
    _act(context, n)
    raise OutcomeUnknown("the line went dead")


PAY = function_tool(_act, name_override="pay", needs_approval=True)
FREE = function_tool(_act, name_override="free")
WIRE = function_tool(_act, name_override="wire", approval=Approval(quorum=2, users=("ada", "bob")))
LOSE = function_tool(_lose, name_override="lose", needs_approval=True)


def call(name: str, n: int) -> Any:
    """A call of a tool with one number."""
    return function_call(name, {"n": n}, call_id=f"{name}_{n}")


def desk(name: str, *rounds: list[Any], **settings: Any) -> Agent[Any]:
    """An agent that makes its calls round by round, and then tells what they gave."""

    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request)
        for calls in rounds:
            if any(made["call_id"] not in known for made in calls):
                return calls
        return [assistant_message(f"{name}: " + "; ".join(f"{key}={known[key]}" for key in sorted(known)))]

    settings = {"tools": [PAY, FREE, LOSE, ask_user()]} | settings
    return Agent(name, model=ScriptedModel(answer), **settings)


def _nested() -> Agent[Any]:
    inner = desk("clerk", [call("pay", 1)], [call("free", 2)])
    outer = desk("nested", [function_call("clerk", {"input": "please"}, call_id="clerk_0"), call("free", 3)])
    outer.tools.append(inner.as_tool("clerk", "Ask a clerk.", needs_approval=True))
    return outer


def _handed() -> Agent[Any]:
    gone = function_call("transfer_to_second", "{}", call_id="to_0")
    second = desk("second", [gone], [call("pay", 2)])
    return desk("handed", [call("pay", 1)], [gone], handoffs=[second])


def _inside() -> Agent[Any]:
    def limited(context: ToolContext[Any], n: int) -> str:
        if not context.tool_call_approved:
            raise ApprovalRequired(metadata={"limit": 0})
        return _act(context, n)

    def elsewhere(n: int) -> str:
        raise CallDeferred(metadata={"job": n})

    tools = [function_tool(limited), function_tool(elsewhere)]
    return desk("inside", [call("limited", 1), call("elsewhere", 2)], [call("limited", 3)], tools=tools)


class _Brief(Agent[Any]):
    def own_compaction(self) -> Any:
        return Compaction(max_tokens=160, keep_tokens=80, model=ScriptedModel(["So far."] * 9))


def _compacted() -> Agent[Any]:
    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request)
        last = max((int(label.partition("_")[2]) for label in known), default=0)
        if last < 6:
            return [call("pay" if last in (3, 5) else "free", last + 1)]
        return [assistant_message(f"compacted: {', '.join(sorted(known))}")]

    return _Brief("compacted", model=ScriptedModel(answer), tools=[PAY, FREE])


def _hidden() -> Agent[Any]:
    async def login(context: ToolContext[Any], user: str, password: Annotated[str, Secret]) -> str:
        DONE.append(f"login {user} {len(password)}")
        return f"{user} is in"

    tools = [function_tool(login, needs_approval=True)]
    made = function_call("login", {"user": "ada", "password": "hunter2"}, call_id="login_0")
    return desk("hidden", [made], tools=tools)


#: What stands on the shelf of the story "looked".
SHELF = ["old"]


class _Shelf(Tool):
    """Puts a text where another stands, and loses sight of the first try."""

    kind, name, looks, description = "shelf", "put", True, "Puts a text on a shelf."
    needs_approval: Any = True

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description}

    def prepare(self, item: Mapping[str, Any]) -> Prepared:
        return Prepared(item["arguments"])

    def preview(self, params: Any) -> Preview:
        return Preview((Text(SHELF[0], label="stands there"),), basis={"shelf": SHELF[0]})

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        if SHELF[0] == "old":
            raise OutcomeUnknown("the line went dead")
        DONE.append("put")
        return "put"

    def output(self, item: Mapping[str, Any], value: Any) -> Any:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}


def _looked(state: RunState[Any], item: Any) -> None:
    """Approve on the old world, try again in the new one, which loses the call again with a preview, and once more."""
    SHELF[0] = "old" if item.kind == "approval" else "new"
    if item.kind == "approval":
        _approve(state, item)
    else:
        state.resolve(item, "retry", by="ada")


def _approve(state: RunState[Any], item: Any) -> None:
    state.approve(item, by="ada")


def _grant(state: RunState[Any], item: Any) -> None:
    state.approve(item, by="ada", grant=Grant(where={"n": {"lt": 9}}, uses=1))


def _doubt(state: RunState[Any], item: Any) -> None:
    if item.kind == "in_doubt":
        state.resolve(item, "ran", output="it did", by="ada")
    else:
        _approve(state, item)


def voted() -> Agent[Any]:
    """An agent whose call takes two people, which only an inbox has."""
    return desk("voted", [call("wire", 1)], tools=[WIRE])


STORIES: dict[str, Story] = {
    "approved": Story(lambda: desk("approved", [call("pay", 1)], [call("free", 2), call("pay", 3)]), _approve),
    "rejected": Story(
        lambda: desk("rejected", [call("pay", 1), call("free", 2)]),
        lambda state, item: state.reject(item, rejection_message="no", by="ada"),
    ),
    "edited": Story(
        lambda: desk("edited", [call("pay", 1)]), lambda state, item: state.approve(item, edit={"n": 7}, by="ada")
    ),
    "granted": Story(lambda: desk("granted", [call("pay", 1)], [call("pay", 2)], [call("pay", 3)]), _grant),
    "doubted": Story(lambda: desk("doubted", [call("lose", 1)]), _doubt),
    "asked": Story(
        lambda: desk("asked", [function_call("ask_user", {"question": "Which?"}, call_id="ask_0")], [call("pay", 1)]),
        lambda state, item: _approve(state, item) if item.kind == "approval" else state.answer(item, "this", by="ada"),
    ),
    "nested": Story(_nested, _approve),
    "inside": Story(
        _inside,
        lambda state, item: _approve(state, item) if item.kind == "approval" else state.answer(item, "that", by="ada"),
    ),
    "compacted": Story(_compacted, _approve),
    "handed": Story(_handed, _approve),
    "hidden": Story(_hidden, _approve),
    "looked": Story(
        lambda: desk("looked", [function_call("put", {"text": "x"}, call_id="put_0")], tools=[_Shelf()]), _looked
    ),
}
