"""What happens in a trial: stories, each an agent, what it is asked and what people decide, and what must come of it.

A story's model answers from the conversation alone, so any process can go on with it. The person is honest: about a
call in doubt she looks at the world, and says "ran" or "retry" by what she sees, except where a story says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyturn import (
    Agent,
    Approval,
    Ask,
    Budget,
    ExternalAgent,
    Grant,
    Policy,
    Rule,
    RunState,
    ToolContext,
    function_tool,
)
from keyturn.deep import SubAgent, create_deep_agent
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import assistant_message, function_call, last_user_text, tool_outputs
from keyturn.realtime import RealtimeAgent
from keyturn.testing import ScriptedModel
from keyturn.tools.function import OutcomeUnknown

from .world import World

ASK = ("go",)
PERSON = "ada"
# What the runs of one store may spend together without a word.
PURSE = 5
POLICY = Policy(Rule("ask", tool="spend", over=Budget("n", PURSE, of="tenant", name="purse")))
TERMS = {
    "wire": Approval(role="lead", quorum=2),
    "led": Approval(role="lead"),
    "sealed": Approval(role="board", break_glass="chief"),
    # Later than two lives: only the last one escalates it.
    "climbing": Approval(role="lead", expires="7000s", on_expiry="escalate", escalate_to=["role:chief"]),
    "lasting": Approval(role="lead", expires="5000s", on_expiry="ask_again", max_asks=9),
}


@dataclass(frozen=True)
class Story:
    """One run, or several in one session. `effects` are what the world must show at the end, each once.

    `decide` gives a verdict and its words; `at_once` is how many requests are decided before the run goes on. `people`
    are those who decide it at an inbox, where one person with the state in hand may not. `rounds` are the calls of one
    that is talked to (`talked.py`), `calls` is what a program outside asks (`outside.py`).
    """

    name: str
    make: Callable[[], Agent[Any]]
    effects: list[str]
    asked: tuple[str, ...] = ASK
    decide: Callable[[Any], tuple[str, dict[str, Any]]] = lambda item: ("approve", {})
    at_once: int = 99
    careless: bool = False
    people: tuple[str, ...] = ()
    rounds: tuple[list[Any], ...] = ()
    calls: Ask | None = None

    @property
    def session(self) -> bool:
        """Whether its runs share a session."""
        return self.asked is not ASK

    def agent(self, world: World) -> Agent[Any]:
        """The story's agent, whose tools act in this world."""
        _Here.world = world
        if self.name not in _MADE:
            _MADE[self.name] = self.make()
        return _MADE[self.name]


def script(*rounds: list[Any] | str) -> Callable[[ModelRequest], Any]:
    """Say `rounds[n]` once n rounds of results were read; at the end tell what was read."""

    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request)
        for step in rounds:
            if isinstance(step, str):
                return [assistant_message(f"{step}: " + "; ".join(f"{key}={known[key]}" for key in sorted(known)))]
            if any(call["call_id"] not in known for call in step):
                return step
        raise AssertionError("the script has no end")

    return answer


def call(name: str, n: int = 1) -> Any:
    """A call of a tool with one number."""
    return function_call(name, {"n": n}, call_id=f"{name}_{n}")


class _Here:
    """The world in which the tools of this process act. A process has one; tools are made once for all that fork."""

    world: World


def tools() -> dict[str, Any]:
    """A gated tool, a free one, and those that are more or less careful."""

    async def act(context: ToolContext[Any], n: int) -> str:
        return _Here.world.act(context, f"{context.tool_name} {n}")

    async def lose(context: ToolContext[Any], n: int) -> str:
        _Here.world.act(context, f"lose {n}")
        raise OutcomeUnknown("the line went dead")

    async def slip(context: ToolContext[Any], n: int) -> str:
        if not _Here.world.marked(context.idempotency_key):
            _Here.world.mark(context, "~slipped")
            raise OutcomeUnknown("the line was dead")
        return _Here.world.act(context, f"slip {n}")

    def probe(context: ToolContext[Any]) -> str | bool:
        return next(iter(_Here.world.did(context.idempotency_key)), False)

    return {
        "pay": function_tool(act, name_override="pay", needs_approval=True),
        "free": function_tool(act, name_override="free"),
        "again": function_tool(act, name_override="again", idempotent=True),
        "probed": function_tool(act, name_override="probed", check=probe),
        "lose": function_tool(lose, name_override="lose", needs_approval=True),
        "slip": function_tool(slip, name_override="slip", needs_approval=True),
        "spend": function_tool(act, name_override="spend"),
        **{name: function_tool(act, name_override=name, approval=terms) for name, terms in TERMS.items()},
    }


TOOLS = tools()
STORIES: dict[str, Story] = {}
_MADE: dict[str, Agent[Any]] = {}


def story(effects: list[str], **settings: Any) -> Callable[[Callable[[], Agent[Any]]], None]:
    """Put a builder among the stories."""

    def add(make: Callable[[], Agent[Any]]) -> None:
        STORIES[make.__name__] = Story(make.__name__, make, effects, **settings)

    return add


def desk(name: str, *rounds: Any, **settings: Any) -> Agent[Any]:
    """An agent with every tool and a script."""
    return Agent(name, model=ScriptedModel(script(*rounds, "done")), tools=list(TOOLS.values()), **settings)


@story(["pay 1", "free 2"])
def pays() -> Agent[Any]:
    return desk("pays", [call("pay", 1)], [call("free", 2)])


@story(["pay 7"], decide=lambda item: ("approve", {"edit": {"n": 7}}))
def edits() -> Agent[Any]:
    return desk("edits", [call("pay", 1)])


@story(["free 2"], decide=lambda item: ("reject", {"rejection_message": "no"}))
def rejects() -> Agent[Any]:
    return desk("rejects", [call("pay", 1), call("free", 2)])


@story([], decide=lambda item: ("answer", {"output": "done by hand"}))
def answers() -> Agent[Any]:
    return desk("answers", [call("pay", 1)])


@story(["pay 1", "pay 2", "pay 3"], decide=lambda item: ("approve", {"grant": Grant(uses=2)}))
def grants() -> Agent[Any]:
    return desk("grants", [call("pay", 1)], [call("pay", 2)], [call("pay", 3)])


@story(["pay 1", "pay 2", "free 3"], at_once=1)
def many() -> Agent[Any]:
    return desk("many", [call("pay", 1), call("pay", 2), call("free", 3)])


@story(["pay 1", "free 2", "free 3"])
def nests() -> Agent[Any]:
    inner = desk("inner", [call("pay", 1), call("free", 2)])
    ask = function_call("inner", {"input": "please"}, call_id="inner_0")
    outer = desk("nests", [ask, call("free", 3)])
    outer.tools.append(inner.as_tool("inner", "asks", needs_approval=True))
    return outer


@story(["free 1", "pay 2"])
def hands() -> Agent[Any]:
    second = desk("second", [function_call("transfer_to_second", "{}", call_id="to_0")], [call("pay", 2)])
    first = [call("free", 1), function_call("transfer_to_second", "{}", call_id="to_0")]
    return desk("hands", first, handoffs=[second])


@story(["lose 1"])
def loses() -> Agent[Any]:
    return desk("loses", [call("lose", 1)])


@story(["slip 1"])
def slips() -> Agent[Any]:
    return desk("slips", [call("slip", 1)])


@story(["lose 1"], careless=True)
def repeats() -> Agent[Any]:
    """She says "retry" once although it happened: what is done twice then is her word."""
    return desk("repeats", [call("lose", 1)])


@story(["again 1", "probed 2", "pay 3"])
def careful() -> Agent[Any]:
    return desk("careful", [call("again", 1), call("probed", 2)], [call("pay", 3)])


@story(["pay 1", "pay 2"], asked=("first", "second"))
def talks() -> Agent[Any]:
    """Two runs in one session; the second reads what the first one wrote."""

    def answer(request: ModelRequest) -> Any:
        number = 1 if last_user_text(request) == "first" else 2
        return script(*([call("pay", n)] for n in range(1, number + 1)), "done")(request)

    return Agent("talks", model=ScriptedModel(answer), tools=list(TOOLS.values()))


@story(["wire 1", "free 2"], people=("ada", "ada", "dan"))
def votes() -> Agent[Any]:
    """Two people: one says it twice, and the other decides in the place of somebody who let them."""
    return desk("votes", [call("wire", 1)], [call("free", 2)])


@story(["led 1"], people=("ada",))
def demotes() -> Agent[Any]:
    """A role is taken away, and who had it can decide no more."""
    return desk("demotes", [call("led", 1)])


@story(["sealed 1"], people=("eve",))
def shatters() -> Agent[Any]:
    """Nobody has the role, and the glass is broken."""
    return desk("shatters", [call("sealed", 1)])


@story(["led 1"], people=("ada",))
def regrets() -> Agent[Any]:
    """An approval is taken back before the call runs, and given again."""
    return desk("regrets", [call("led", 1)])


@story(["led 1", "led 2"], people=("ada",))
def marks() -> Agent[Any]:
    """Several are on a request, put it off and let it go."""
    return desk("marks", [call("led", 1), call("led", 2)])


@story(["climbing 1"], people=("eve",))
def climbs() -> Agent[Any]:
    """A request is escalated if nobody decides it in time."""
    return desk("climbs", [call("climbing", 1)])


@story(["lasting 1"], people=("ada",))
def lasts() -> Agent[Any]:
    """A request is asked again if nobody decides it in time."""
    return desk("lasts", [call("lasting", 1)])


@story(["spend 3", "spend 4"])
def shares() -> Agent[Any]:
    return desk("shares", [call("spend", 3)], [call("spend", 4)])


@story(["spend 2", "spend 1"])
def spends() -> Agent[Any]:
    return desk("spends", [call("spend", 2)], [call("spend", 1)])


@story(["pay 1", "free 2", "pay 3"])
def deepens() -> Agent[Any]:
    """A deep agent writes a file, and has a subagent do what takes a word; it pays once more by itself."""
    inner = ScriptedModel(script([call("pay", 1), call("free", 2)], "inner"))
    helper = SubAgent(name="helper", description="Pays.", instructions="Pay.", model=inner, tools=_own("pay", "free"))
    task = function_call("task", {"description": "Pay.", "subagent_type": "helper"}, call_id="task_0")
    note = function_call("write_file", {"path": "/note.txt", "content": "one\n"}, call_id="note_0")
    outer = ScriptedModel(script([note], [task], [call("pay", 3)], "done"))
    made = create_deep_agent(
        outer, tools=_own("pay"), interrupt_on={"write_file": True}, subagents=[helper], name="deepens"
    )
    return made.core_agent()


def _own(*names: str) -> list[Any]:
    return [TOOLS[name] for name in names]


_HAND = function_call("transfer_to_third", "{}", call_id="to_0")


@story(["pay 1", "free 2", "pay 3"], rounds=([call("pay", 1), call("free", 2)], [_HAND], [call("pay", 3)]))
def speaks() -> Agent[Any]:
    """One that is talked to: calls run and wait side by side, and then another agent goes on."""
    third = RealtimeAgent[Any]("third", instructions="Pay.", tools=_own("pay"))
    return RealtimeAgent("speaks", instructions="Help.", tools=_own("pay", "free"), handoffs=[third])


@story(["lose 1", "again 2"], rounds=([call("lose", 1), call("again", 2)],))
def falters() -> Agent[Any]:
    """One that is talked to, and of a call of which nobody can tell how it ended."""
    return RealtimeAgent("falters", instructions="Help.", tools=_own("lose", "again"))


@story(["ship 1"], calls=Ask(key="order 1", tool="ship", arguments='{"n":  1}'))
def ships() -> Agent[Any]:
    """A program outside asks, claims what was approved, does it and reports."""
    return ExternalAgent("ships")


@story(["ship 7"], calls=Ask(key="order 2", tool="ship"), decide=lambda item: ("approve", {"edit": {"n": 7}}))
def reships() -> Agent[Any]:
    """What it does is what a person made of its arguments."""
    return ExternalAgent("reships")


#: Stories that are played in one process, one after the other or at once. The first begins without a store.
CHAPTERS: dict[str, list[str]] = {
    "opening": ["pays"],
    "approvals": ["pays", "edits", "rejects", "answers"],
    "standing": ["grants", "many"],
    "agents": ["nests", "hands"],
    "doubts": ["loses", "slips", "repeats", "careful"],
    "sessions": ["talks"],
    "people": ["votes", "demotes", "shatters"],
    "time": ["regrets", "marks", "climbs", "lasts"],
    "limits": ["shares", "spends"],
    "deep": ["deepens"],
    "realtime": ["speaks", "falters"],
    "outside": ["ships", "reships"],
}


@dataclass
class Person:
    """Who decides; `doubts` counts the calls of which she had to look what became of them."""

    world: World
    doubts: int = 0

    def settle(self, story: Story, state: RunState[Any]) -> None:
        """Decide what waits, as far as this story decides at once."""
        for item in state.get_interruptions()[: story.at_once]:
            verdict, words = self.word(story, item)
            getattr(state, verdict)(item, **words, by=PERSON)

    def word(self, story: Story, item: Any) -> tuple[str, dict[str, Any]]:
        """Her word on one request: the name of the decision and what she says with it."""
        if item.kind != "in_doubt":
            return story.decide(item)
        self.doubts += 1
        done = self.world.did(item.request_id)
        again = not done or (story.careless and len(done) == 1)
        return "resolve", {"outcome": "retry"} if again else {"outcome": "ran", "output": done[0]}
