"""The context travels as the user says, is never pickled, and can be replaced without losing a decision."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from keyturn import Agent, RunContextWrapper, RunState, UserError, function_tool
from tests.playing import (
    Run,
    World,
    approved,
    call,
    model,
    outputs,
    plain,
)
from tests.table import each


@dataclass
class Desk:
    user: str
    seen: list[str] = field(default_factory=list)


class Account(BaseModel):
    user: str
    limit: int = 3


class Plain:
    """A class of the user's own that says nothing of how it could be saved."""

    def __init__(self, user: str) -> None:
        self.user = user

    def __reduce__(self) -> Any:
        raise AssertionError("a context is never pickled")


@function_tool(needs_approval=True)
def who(context: RunContextWrapper[Any]) -> str:
    """Say for whom this runs."""
    given = context.context
    return str(given["user"] if isinstance(given, dict) else given.user)


def agent() -> Agent[Any]:
    return Agent("a", model=model([call("who", "c1")], [call("who", "c2")], "done"), tools=[who])


async def saved(given: Any, run: Run = plain, **options: Any) -> tuple[Agent[Any], str]:
    """An agent that waits, and the text of its state."""
    made = agent()
    result = await run(made, "go", context=given)
    return made, result.to_state().to_string(**options)


async def ended(made: Agent[Any], state: RunState[Any], run: Run = plain, **options: Any) -> Any:
    """Approve the one call and say what the tool saw."""
    state.approve(state.get_interruptions()[0])
    return outputs((await run(made, state, **options)).to_input_list())["c1"]


async def test_a_mapping_travels_as_it_is(run: Run) -> None:
    made, text = await saved({"user": "ann", "n": [1, {"x": None}]}, run)
    state = await RunState.from_string(made, text)
    assert state.context.context == {"user": "ann", "n": [1, {"x": None}]}
    assert await ended(made, state, run) == "ann"


async def test_any_mapping_travels(world: World) -> None:
    made, text = await saved(MappingProxyType({"user": "ann"}))
    assert (await RunState.from_string(made, text)).context.context == {"user": "ann"}


@each("given", [None, "a text", 7, True, [1, "x"], 2.5])
async def test_plain_values_travel(given: Any) -> None:
    made, text = await saved(given)
    state = await RunState.from_string(made, text, strict_context=True)
    assert state.context.context == given


@pytest.mark.parametrize("given", [Desk("ann", ["x"]), Account(user="ann")], ids=["dataclass", "pydantic"])
async def test_typed_contexts_come_back_by_their_deserializer(run: Run, given: Any) -> None:
    made, text = await saved(given, run)
    state = await RunState.from_string(made, text, context_deserializer=lambda data: type(given)(**data))
    assert state.context.context == given
    assert await ended(made, state, run) == "ann"


@pytest.mark.parametrize("given", [Desk("ann"), Account(user="ann")], ids=["dataclass", "pydantic"])
async def test_without_one_they_come_back_as_data_and_say_so(given: Any) -> None:
    made, text = await saved(given)
    with pytest.warns(UserWarning, match="plain data"):
        state = await RunState.from_string(made, text)
    assert state.context.context["user"] == "ann"
    with pytest.raises(UserError, match="context"):
        await RunState.from_string(made, text, strict_context=True)


async def test_an_object_that_cannot_be_saved_is_left_out_and_named() -> None:
    made = agent()
    state = (await plain(made, "go", context=Plain("ann"))).to_state()
    with pytest.warns(UserWarning, match="Plain"):
        text = state.to_string()
    with pytest.raises(UserError, match="Plain"):
        state.to_string(strict_context=True)
    loaded = await RunState.from_string(made, text)
    assert loaded.context.context is None
    assert await ended(made, loaded, context=Plain("bob")) == "bob"


async def test_a_serializer_of_the_users_own(run: Run) -> None:
    made, text = await saved(Plain("ann"), run, context_serializer=lambda context: {"name": context.user})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = await RunState.from_string(made, text, context_deserializer=lambda data: Plain(data["name"]))
    assert await ended(made, state, run) == "ann"


async def test_a_serializer_is_asked_for_mappings_too() -> None:
    client = object()
    with pytest.raises(UserError, match="context_serializer"):
        await saved({"user": "ann", "client": client})
    _made, text = await saved({"user": "ann", "client": client}, context_serializer=lambda kept: {"user": kept["user"]})
    assert json.loads(json.loads(text)["context"])["data"] == {"user": "ann"}


async def test_of_an_objects_type_only_its_name_is_kept_and_nothing_is_found_by_it() -> None:
    """The name is compared with the type that the program declares: no text says where to import anything from."""
    made, text = await saved(Account(user="ann"))
    kept = json.loads(json.loads(text)["context"])
    assert kept == {"kind": "typed", "data": {"user": "ann", "limit": 3}, "type": "Account"}
    assert __name__ not in text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = await RunState.from_string(made, text)
    assert state.context.context == {"user": "ann", "limit": 3}


async def test_another_context_at_resume_keeps_the_decisions(run: Run) -> None:
    made = agent()
    result = await run(made, "go", context={"user": "ann"})
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    again = await run(made, state, context={"user": "bob"})
    assert outputs(again.to_input_list())["c1"] == "bob"
    assert again.context_wrapper.context == {"user": "bob"}
    last = await run(made, await approved(again, made))
    assert outputs(last.to_input_list())["c2"] == "bob"


async def test_an_override_at_load_keeps_the_decisions(run: Run) -> None:
    made = agent()
    state = (await run(made, "go", context={"user": "ann"})).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    loaded = await RunState.from_string(made, state.to_string(), context_override={"user": "bob"})
    assert loaded.context.context == {"user": "bob"}
    result = await run(made, loaded)
    assert outputs(result.to_input_list()) == {"c1": "bob", "c2": "bob"}
    assert result.final_output == "done"


async def test_decisions_on_the_context_survive_another_context_at_resume(run: Run) -> None:
    made = agent()
    result = await run(made, "go", context={"user": "ann"})
    result.context_wrapper.approve_tool(result.interruptions[0])
    again = await run(made, result.to_state(), context={"user": "bob"})
    assert outputs(again.to_input_list())["c1"] == "bob"


async def test_a_wrapper_may_be_passed_as_context(run: Run) -> None:
    made = agent()
    wrapper: RunContextWrapper[Any] = RunContextWrapper({"user": "ann"})
    result = await run(made, "go", context=wrapper)
    assert result.context_wrapper.context is wrapper.context
    result = await run(made, await approved(result, made), context=RunContextWrapper({"user": "bob"}))
    assert outputs(result.to_input_list())["c1"] == "bob"
    assert result.context_wrapper.usage.requests == result.usage.requests == 2


async def test_the_same_object_goes_on_while_nothing_is_saved(run: Run) -> None:
    made, desk = agent(), Desk("ann")
    result = await run(made, "go", context=desk)
    result = await run(made, await approved(result, made))
    assert result.context_wrapper.context is desk


async def test_what_a_tool_changed_travels(world: World) -> None:
    @function_tool
    def note(context: RunContextWrapper[Any], what: str) -> str:
        context.context["notes"].append(what)
        return what

    made = Agent("a", model=model([call("note", "c1", what="x"), call("who", "c2")], "done"), tools=[note, who])
    result = await plain(made, "go", context={"user": "ann", "notes": []})
    state = await RunState.from_string(made, result.to_state().to_string())
    assert state.context.context == {"user": "ann", "notes": ["x"]}


async def test_a_context_that_refers_to_itself_is_a_typed_error() -> None:
    circle: dict[str, Any] = {}
    circle["me"] = circle
    with pytest.raises(UserError, match="context"):
        await saved(circle)


async def test_to_json_is_plain_data_for_any_context() -> None:
    made = agent()
    for given in ({"user": "ann"}, Desk("ann"), Account(user="ann")):
        packed = (await plain(made.clone(model=model([call("who", "c1")])), "go", context=given)).to_state().to_json()
        assert json.loads(json.dumps(packed)) == packed
        assert [name for name in packed if "version" in name] == ["schema_version"]
