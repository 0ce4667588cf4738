"""Values of the user end no process either: what a method of theirs raises is an error of the call that touched them.

A callback is called on purpose, through the seam of `user_code.py`. A value is touched in passing: it is compared,
printed, hashed, asked for an attribute. Each method of each value that can be given to a run is poisoned in turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from keyturn import (
    Agent,
    AgentHooks,
    App,
    MemoryJournal,
    MemorySession,
    RunConfig,
    RunHooks,
    function_tool,
)
from keyturn.models.scripted.model import ScriptedModel
from tests.callbacks import POISONS, a_tool, an_agent
from tests.effort import AT_LENGTH, part
from tests.playing import model, play
from tests.table import each
from tests.waiting import turns_of_the_loop

#: What anything may be asked in passing.
METHODS = (
    *("__getattribute__", "__getattr__", "__class__", "__dict__", "__setattr__", "__call__", "__eq__", "__hash__"),
    *("__bool__", "__len__", "__iter__", "__contains__", "__getitem__", "__str__", "__repr__", "__format__"),
    *("__reduce_ex__", "__deepcopy__", "keys", "items", "get"),
)
#: Those that are asked most.
PASSING = ("__getattribute__", "__class__", "__eq__", "__str__")
WORST = ("CancelledError", "KeyboardInterrupt", "GeneratorExit", "BaseExceptionGroup", "RecursionError")
_PROPERTIES = ("__class__", "__dict__")


def harmless(base: type[Any], method: str, poison: str, *given: Any) -> tuple[Any, Callable[[], None]]:
    """Make an object of a class of the user, and what poisons that method of it."""
    armed: list[bool] = []

    def raises(self: Any, *_args: Any, **_given: Any) -> Any:
        if armed:
            raise POISONS[poison]()
        return {} if method == "__dict__" else type(self)

    members = {method: property(raises)} if method in _PROPERTIES else {}
    kind = type("Poisoned", (base,), members)

    def arm() -> None:
        armed.append(True)
        if not members:
            setattr(kind, method, raises)

    return kind(*given), arm


def poisoned(base: type[Any], method: str, poison: str, *given: Any) -> Any:
    """Make an object of a class of the user whose method raises."""
    value, arm = harmless(base, method, poison, *given)
    arm()
    return value


class Plain:
    """Any object of a program."""


def _asking(value: Any) -> Any:
    def asks(*_args: Any) -> Any:
        return value

    return an_agent(given=a_tool(needs_approval=asks))


def _returning(value: Any) -> Agent[Any]:
    @function_tool(name_override="act")
    def act(x: int = 0) -> Any:
        return value

    return an_agent(given=act)


def _raising(value: Any) -> Agent[Any]:
    return an_agent(given=a_tool(lambda x=0: "ran", failure_error_function=lambda *_given: value))


Case = tuple[Agent[Any], Any, dict[str, Any]]

#: Where a value of the user's comes into a run: its class, what it is made with, and the run that is given it.
PLACES: dict[str, tuple[type[Any], tuple[Any, ...], Callable[[Any], Case]]] = {
    "context": (Plain, (), lambda value: (an_agent(), "go", {"context": value})),
    "context, kept": (Plain, (), lambda value: (an_agent(), "go", {"context": value, "journal": MemoryJournal()})),
    "dict as context, kept": (
        dict,
        ({"a": 1},),
        lambda value: (an_agent(), "go", {"context": value, "journal": MemoryJournal()}),
    ),
    "text of the input": (str, ("go",), lambda value: (an_agent(), value, {})),
    "list of the input": (
        list,
        ([{"role": "user", "content": "go"}],),
        lambda value: (an_agent(), value, {}),
    ),
    "item of the input": (dict, ({"role": "user", "content": "go"},), lambda value: (an_agent(), [value], {})),
    "result of a tool": (Plain, (), lambda value: (_returning(value), "go", {})),
    "text of a tool": (str, ("ran",), lambda value: (_returning(value), "go", {})),
    "dict of a tool": (dict, ({"a": 1},), lambda value: (_returning(value), "go", {})),
    "words of a failure": (str, ("failed",), lambda value: (_raising(value), "go", {})),
    "answer of needs_approval": (Plain, (), lambda value: (_asking(value), "go", {})),
    "session": (MemorySession, ("s",), lambda value: (an_agent(), "go", {"session": value})),
    "session, kept": (
        MemorySession,
        ("s",),
        lambda value: (an_agent(), "go", {"session": value, "journal": MemoryJournal(), "requester": "ann"}),
    ),
    "session, queued": (
        MemorySession,
        ("s",),
        lambda value: (
            an_agent(),
            "go",
            {"session": value, "journal": MemoryJournal(), "run_config": RunConfig(paused_session="queue")},
        ),
    ),
    "model": (ScriptedModel, (["done"],), lambda value: (_late(model=value), "go", {})),
    "reply of a model": (str, ("done",), lambda value: (an_agent(model=ScriptedModel(lambda _: value)), "go", {})),
    "hooks of the run": (RunHooks, (), lambda value: (an_agent(), "go", {"hooks": value})),
    "hooks of an agent": (AgentHooks, (), lambda value: (_late(hooks=value), "go", {})),
    "policy": (Plain, (), lambda value: (an_agent(), "go", {"policy": value})),
    "answer of a policy": (Plain, (), lambda value: (an_agent(), "go", {"policy": lambda _call: value})),
    "journal": (MemoryJournal, (), lambda value: (an_agent(), "go", {"journal": value})),
    "instructions": (Plain, (), lambda value: (_late(instructions=lambda *_: value), "go", {})),
    "handlers": (dict, ({},), lambda value: (an_agent(), "go", {"error_handlers": value})),
    "run_config": (dict, ({},), lambda value: (an_agent(), "go", {"run_config": value})),
}


def _late(**settings: Any) -> Agent[Any]:
    """Set a value behind the checks of the agent's constructor, which are the caller's own foreground."""
    agent = an_agent()
    agent.__dict__.update(settings)
    return agent


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("keyturn.tools", "keyturn.engine", "keyturn.worker", "keyturn.tracing"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


def _poisons(place: str) -> Iterator[tuple[str, str, bool]]:
    """Yield each method with one poison, and those that are asked most with the others, and streamed.

    In `make test` every second method, others for each place.
    """
    yield from ((method, "SystemExit", False) for method in (METHODS if AT_LENGTH else METHODS[len(place) % 4 :: 4]))
    for method in PASSING:
        yield (method, "SystemExit", True)
        yield from ((method, poison, False) for poison in WORST)


async def _ends(made: Case, streamed: bool) -> str:
    """Play a run; return how it ended where that is not as an answer, a pause or an error that a caller can catch."""
    agent, given, options = made
    try:
        await play(agent, given, streamed, **options)
    except Exception:
        return ""
    except BaseException as error:
        return type(error).__name__
    return ""


@pytest.mark.sweep
@each("place", PLACES)
async def test_a_value_of_the_user_ends_its_own_run_alone(place: str) -> None:
    base, given, case = PLACES[place]
    wrong: list[Any] = []
    for method, poison, streamed in part(_poisons(place), 2):
        value = poisoned(base, method, poison, *given)
        found = await _ends(case(value), streamed)
        if found:
            wrong.append((method, poison, "streamed" if streamed else "plain", found))
    assert not wrong


#: The same in an app: what makes its sessions and contexts may make such values, too.
IN_AN_APP: dict[str, tuple[type[Any], tuple[Any, ...], Callable[[Any], tuple[Agent[Any], dict[str, Any], Any]]]] = {
    "result of a tool": (Plain, (), lambda value: (_returning(value), {}, {})),
    "text of a tool": (str, ("ran",), lambda value: (_returning(value), {}, {})),
    "session": (
        MemorySession,
        ("s",),
        lambda value: (an_agent(), {"sessions": lambda _id: value}, {"session_id": "s", "requester": "ann"}),
    ),
    "context": (
        Plain,
        (),
        lambda value: (
            an_agent(),
            {"context_serializer": lambda _: {}, "context_deserializer": lambda _: value},
            {"context": Plain()},
        ),
    ),
    "policy": (Plain, (), lambda value: (an_agent(), {"policy": value}, {})),
    "answer of a policy": (Plain, (), lambda value: (an_agent(), {"policy": lambda _call: value}, {})),
    "hooks": (RunHooks, (), lambda value: (an_agent(), {"hooks": value}, {})),
    "reply of a model": (str, ("done",), lambda value: (an_agent(model=ScriptedModel(lambda _: value)), {}, {})),
}


@pytest.mark.trial
@each("place", IN_AN_APP)
async def test_a_worker_outlives_a_value_of_the_user_and_moves_the_next_run(place: str) -> None:
    base, given, case = IN_AN_APP[place]
    for method in PASSING:
        for poison in ("SystemExit", "CancelledError"):
            value, arm = harmless(base, method, poison, *given)
            agent, options, start = case(value)
            good = Agent("good", model=model("done"))
            app = App([agent, good], MemoryJournal(), worker=False, **options)
            run = (await App([good], app.journal, worker=False).start("good", "go")).id
            arm()  # making an agent or an app is the program's own foreground, and a run is not
            with suppress(Exception):  # the start may be refused
                await app.start("desk", "go", **start)
            working = asyncio.ensure_future(app.work())
            if place not in ("policy", "hooks"):  # which are those of the next run, too
                assert (await App([good], app.journal, worker=False).result(run, 20)).final_output == "done"
            await turns_of_the_loop(50)
            assert not working.done(), (place, method, poison)
            await app.stop()
            await working
