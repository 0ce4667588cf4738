"""What is set after construction is heard or refused, on every public object: by the rule that its constructor has.

`test_every_public_attribute_...` walks all attributes of all classes that users declare. A new attribute needs a value
in `VALUES`: without one the walk fails.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import BaseModel

import keyturn
import keyturn.channels
import keyturn.deep
import keyturn.deferred
import keyturn.mcp
import keyturn.realtime
import keyturn.tracing.processors
from keyturn import (
    Agent,
    AgentHooks,
    App,
    Approval,
    ComputerTool,
    FunctionTool,
    MemoryJournal,
    ModelSettings,
    Policy,
    RunConfig,
    RunHooks,
    SessionSettings,
    UsageLimits,
    UserError,
    Workspace,
    WorkspaceEditor,
    filesystem_tools,
    function_tool,
    handoff,
)
from keyturn.core.immutable import immutable
from keyturn.core.nested_agent import NestedAgent
from keyturn.core.settable import Settable, settable_names
from keyturn.testing import ModelCall, ScriptedModel, approve_all, function_call
from keyturn.tools.base import Tool, tool_digest
from tests.fleet.own_engine import DeafEngine
from tests.playing import Run
from tests.public_objects import CONFIG, MAKERS, POLICY, echo, screen, server, withheld
from tests.table import each

SOURCES = Path(keyturn.__file__).parent
#: Public classes of which no object is made that a program could set something on.
NO_OBJECTS = {
    **dict.fromkeys(("Runner", "ItemHelpers", "MCPUtil"), "functions in a namespace"),
    **dict.fromkeys(("AgentHooksBase", "RunHooksBase"), "has no attributes; a subclass is the user's own"),
    "Secret": "an annotation",
    **dict.fromkeys(("RealtimeServer", "RealtimeLine"), "a server for tests"),
}
#: What a class is made of that needs no walk: it has no settings, or cannot be changed.
OTHER_KINDS = (BaseException, Enum, dict, tuple, BaseModel)


def public_classes() -> set[type]:
    """Return the classes in `__all__` of the package and of its public modules."""
    found: set[type] = set()
    for path in SOURCES.rglob("*.py"):
        names = path.relative_to(SOURCES.parent).with_suffix("").parts
        if "\n__all__" in path.read_text(encoding="utf-8") and not any(name[0] == "_" for name in names[:-1]):
            module = import_module(".".join(name for name in names if name != "__init__"))
            found |= {made for name in module.__all__ if inspect.isclass(made := getattr(module, name))}
    return found


def test_every_public_class_checks_what_is_assigned_or_is_excepted_with_a_reason() -> None:
    """Settings by their rules, frozen records by `@immutable`, and all else by slots."""
    left: set[str] = set()
    for kind in not_walked():
        frozen = getattr(kind, "__dataclass_params__", getattr(kind, "__struct_config__", None))
        if frozen is not None and frozen.frozen:
            assert kind.__setattr__.__module__ == immutable.__module__, f"{kind.__name__} is frozen and not @immutable"
        elif kind.__dictoffset__ and not issubclass(kind, Settable) and not kind.__name__.endswith("Suite"):
            left.add(kind.__name__)
    assert left == NO_OBJECTS.keys()


def not_walked() -> set[type]:
    """Return the public classes whose attributes are no settings."""
    walked = {type(make()) for make in MAKERS.values()}
    return {
        kind
        for kind in public_classes() - walked
        if not (issubclass(kind, OTHER_KINDS) or inspect.isabstract(kind) or getattr(kind, "_is_protocol", False))
    }


RECORDS = [
    kind
    for kind in sorted(not_walked(), key=lambda kind: kind.__name__)
    if is_dataclass(kind) and not kind.__dictoffset__ and kind is not ModelCall  # which copies what it is made of
]


@each("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_has_its_fields_and_no_others_and_is_copied_and_pickled(kind: Any) -> None:
    made = object.__new__(kind)
    names = [each.name for each in fields(kind)]
    for name in names:
        object.__setattr__(made, name, name)
    with pytest.raises(AttributeError, match=f"{names[0]}x"):
        setattr(made, f"{names[0]}x", 1)
    for other in (copy(made), pickle.loads(pickle.dumps(made))):
        assert [getattr(other, name) for name in names] == names


def test_what_is_given_to_a_constructor_for_good_is_refused_later_and_private_state_is_not() -> None:
    session = keyturn.SQLiteSession("s")
    with pytest.raises(
        AttributeError, match="'db_path' of a SQLiteSession cannot be set after construction: make anoth"
    ):
        session.db_path = "other.db"
    with pytest.raises(AttributeError, match="has no attribute 'session_setting'; did you mean 'session_settings'"):
        session.session_setting = None  # type: ignore[attr-defined]  # a name that it does not have
    with pytest.raises(TypeError, match="unexpected keyword argument 'db_pth'; did you mean 'db_path'"):
        keyturn.SQLiteSession("s", db_pth="x")  # type: ignore[call-arg]  # a keyword that it does not have


def test_a_users_subclass_of_a_sealed_class_sets_what_its_own_methods_set() -> None:
    class Mine(keyturn.channels.TerminalChannel):
        colour = "red"

        def __init__(self) -> None:
            self.name = "first"
            super().__init__()
            self.name, self.sent = "mine", 0

        def count(self) -> None:
            self.sent += 1

    made = Mine()
    made.count()
    made.colour = "blue"
    made.sent = 5
    assert (made.name, made.sent, made.colour) == ("mine", 5, "blue")
    with pytest.raises(AttributeError, match="did you mean 'colour'"):
        made.color = "green"  # type: ignore[attr-defined]  # a name that it does not have


async def test_settings_of_a_session_that_are_set_late_hold_for_the_next_run(run: Run) -> None:
    session = keyturn.MemorySession("s")
    model = ScriptedModel(["one", "two"])
    await run(Agent("a", model=model), "first", session=session)
    session.session_settings = SessionSettings(limit=1)
    await run(Agent("a", model=model), "second", session=session)
    assert len(model.calls[-1].input) == 2
    with pytest.raises(UserError, match="session_settings must be SessionSettings or None"):
        session.session_settings = 3  # type: ignore[assignment]  # a number


async def test_the_seconds_of_an_executor_that_are_set_late_hold_for_its_next_command() -> None:
    executor = keyturn.LocalExecutor()
    executor.timeout = 0.01
    ended = await executor.run(["sleep", "5"])
    assert ended.outcome.type == "timeout"
    with pytest.raises(UserError, match="timeout must be a positive number of seconds"):
        executor.timeout = 0


@each("name", MAKERS)
def test_an_unknown_name_is_refused_and_the_near_ones_are_named(name: str) -> None:
    made = MAKERS[name]()
    known = next(each for each in settable_names(type(made)) if len(each) > 3 and hasattr(made, each))
    with pytest.raises(AttributeError, match=rf"has no attribute '{known}x'.*{known}"):
        setattr(made, f"{known}x", 1)
    with pytest.raises((TypeError, UserError), match="nonsens"):
        MAKERS[name](nonsens=1)


TOOLS = [name for name, make in MAKERS.items() if isinstance(make(), Tool)]


@each(("name", "value"), [(name, value) for name in TOOLS for value in (None, 0, "", "yes", 1)])
def test_what_is_no_answer_to_needs_approval_is_refused(name: str, value: Any) -> None:
    tool = MAKERS[name]()
    before = tool.needs_approval
    with pytest.raises(UserError, match="needs_approval must be True, False or a callable"):
        tool.needs_approval = value
    assert tool.needs_approval == before


async def test_a_class_that_says_nothing_of_needs_approval_asks(run: Run) -> None:
    class Silent(FunctionTool):
        needs_approval: Any = None

        def __init__(self) -> None:
            super().__init__("t", "d", {"type": "object", "properties": {}}, echo)
            vars(self).pop("needs_approval")

    agent = Agent("a", model=ScriptedModel([[function_call("t", {})], "done"]), tools=[Silent()])
    assert len((await run(agent, "go")).interruptions) == 1


def test_a_users_subclass_may_have_attributes_of_its_own() -> None:
    class Mine(Agent[Any]):
        colour: str = "red"

        def paint(self) -> None:
            self.painted = True

    made = Mine("a")
    made.colour = "blue"
    made.paint()
    made.painted = False
    assert (made.colour, made.painted) == ("blue", False)
    with pytest.raises(AttributeError, match="did you mean 'colour'"):
        made.color = "green"  # type: ignore[attr-defined]  # a name that it does not have


# ----------------------------------------------------------------------------------- a walk over all of the attributes


async def one_filter(_context: Any, _tool: Any) -> bool:
    return True


VALUES: dict[str, Any] = {
    "agent": Agent("other"), "agent_name": "other", "agents": {}, "after_siblings": True, "announced": False,
    "answerable": False, "final": True, "asks_within_calls": True, "blocking": True, "approval": Approval(expires="4h"),
    "cache_tools_list": True,
    "check": echo,
    "call_model_input_filter": echo, "channels": [], "client_session_timeout_seconds": 9.0, "computer": screen(),
    "connect_timeout_seconds": 9.0, "context_deserializer": echo, "context_serializer": echo, "context_type": None,
    "conversation_id": "c", "custom_output_extractor": echo, "deps_type": None, "description": "other", "drills": None,
    "editable": False, "editor": WorkspaceEditor("."), "elicitation_callback": echo, "embedded": False,
    "engine": DeafEngine(keyturn.MemoryJournal()), "tenant_slots": 7, "fleet_slots": 5, "fleet_tenant_slots": 3,
    "environment": {"type": "local"}, "executor": lambda request: "ok", "external_web_access": True,
    "failure_error_function": echo, "filters": None, "format": {"type": "text"}, "grace": 1.0, "group_id": "g",
    "guardrail_function": withheld.guardrail_function, "handle_deferred": None, "handoff_description": "other",
    "handoff_history_mapper": echo, "handoff_input_filter": echo, "handoffs": [], "hooks": None, "hosted": False,
    "idempotent": True, "image_settings": None, "include_input_schema": True, "include_search_results": True,
    "initial_delay": 1, "input_builder": echo, "input_filter": echo, "input_guardrails": [], "input_json_schema": {},
    "instructions": "other", "interrupt_on": {"execute": False}, "is_enabled": False, "jitter": False,
    "keeps_context": True, "known_spec": None, "language": "sql", "lifespan": None, "max_delay": 1,
    "max_calls_per_reply": 3, "max_function_tool_concurrency": 3, "max_invalid_replies": 3,
    "max_list_pages": 3, "max_num_results": 3, "max_retries": 3,
    "max_retry_attempts": 3, "max_turns": 3, "mcp_config": {}, "mcp_servers": [], "message_handler": echo,
    "mode": "legacy", "model": "gpt", "model_provider": None, "model_settings": ModelSettings(temperature=0.5),
    "multiplier": 3, "name": "other", "needs_approval": True, "nest_handoff_history": True, "notice": Tool.notice,
    "on_approval": echo, "on_approval_request": echo, "on_invoke_handoff": echo, "on_invoke_tool": echo,
    "on_safety_check": echo, "on_stream": echo, "on_stream_max_pending_events": 5,
    "output_guardrail_blocked_message": "w",
    "output_guardrails": [], "output_type": int, "params": {"command": "bash"},
    "params_json_schema": {"type": "object"},
    "paused_session": "refuse", "policy": POLICY, "pre_approval_tool_input_guardrails": True, "preview": lambda p: "x",
    "previous_response_id": "r", "prompt": None, "ranking_options": None, "read_only": True,
    "reasoning_item_id_policy": "omit", "requires_approval": True, "require_approval": "always",
    "reset_tool_choice": False, "retry_backoff_seconds_base": 2.0, "retry_backoff_seconds_max": 2.0, "risk": "high",
    "run_config": RunConfig(), "run_in_parallel": False, "search_content_types": None, "search_context_size": "low",
    "secrets": ("x",), "session": None, "session_input_callback": echo, "session_settings": SessionSettings(limit=3),
    "session_store": "support", "sessions": echo, "slots": 3, "strict_json_schema": True, "structured": None,
    "timeout": 3.0,
    "timeout_behavior": "raise_exception", "timeout_error_function": echo, "timeout_seconds": 3.0,
    "tool_choice": "auto", "tool_config": {**CONFIG, "require_approval": "never"}, "tool_description": "other",
    "tool_error_formatter": echo, "tool_execution": None, "tool_filter": {"allowed_tool_names": ["x"]},
    "tool_input_guardrails": [], "tool_meta_resolver": echo, "tool_name": "other",
    "tool_name_collision_policy": "error",
    "tool_not_found_behavior": "return_error_to_model", "tool_output_guardrails": [withheld], "tool_use_behavior":
    "stop_on_first_tool", "tools": [], "trace_id": "t", "trace_include_sensitive_data": True, "trace_metadata": {},
    "tracing": None, "tracing_disabled": True, "trust_annotations": True, "usage_limits": UsageLimits(),
    "use_structured_content": True, "user_location": None, "vector_store_ids": ["w"], "wire_type":
    "computer_use_preview", "session_id": "other", "ttl": 9.0, "at_once": 2,
    "cleanup_timeout_seconds": 9.0, "drop_failed_servers": False, "strict": True, "connect_in_parallel": True,
    "workflow_name": "other", "backoff": None,
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), 0.5),
    **dict.fromkeys(("max_tokens", "top_logprobs"), 5), "timeout_": 1, "parallel_tool_calls": True,
    "truncation": "auto", "reasoning": None, "verbosity": "low", "metadata": {}, "store": True,
    "prompt_cache_retention": "24h", "include_usage": True, "response_include": [], "extra_query": {},
    "extra_body": {}, "extra_headers": {}, "extra_args": {}, "retry": 3,
}  # fmt: skip
OTHERS: dict[tuple[str, str], Any] = {
    ("App", "lease"): 40.0,
    ("Tenants", "lease"): 40.0,
    ("MCPServerSse", "params"): {"url": "http://h/y"},
    ("MCPServerStreamableHttp", "params"): {"url": "http://h/y"},
    ("CodeInterpreterTool", "tool_config"): {"type": "code_interpreter"},
    ("ImageGenerationTool", "tool_config"): {"type": "image_generation", "quality": "low"},
    ("App", "agents"): [Agent("b")],
    ("App", "policy"): POLICY,
    ("ModelRetrySettings", "policy"): echo,
}
#: Attributes under which the constructor knows a setting by another name.
KEYWORDS = {"name": "tool_name", "embedded": "worker"}


def attributes(made: Any) -> list[str]:
    """List the attributes that are settings: no method of the class is one, but what a constructor takes is."""
    takes = inspect.signature(type(made).__init__).parameters
    return [
        name
        for name in settable_names(type(made))
        if name in takes or not inspect.isroutine(inspect.getattr_static(type(made), name, None))
    ]


@each("kind", MAKERS)
def test_every_public_attribute_is_as_the_constructor_makes_it_or_raises(kind: str) -> None:
    make = MAKERS[kind]
    for name in attributes(make()):
        late = make()
        value = OTHERS.get((kind, name), VALUES.get(name, VALUES))
        refusal = refused(late, name, None if value is VALUES else value)
        if refusal is not None:
            assert ": " in refusal, f"{kind}.{name} is refused without saying what to do: {refusal}"
            continue
        assert value is not VALUES, f"{kind}.{name} has no value in VALUES"
        early = made_with(make, name, value)
        if early is None:
            assert getattr(late, name) == value or callable(value), f"{kind}.{name} does not hold what was set"
            continue
        assert alike(getattr(late, name), getattr(early, name)), f"{kind}.{name} differs from the constructor's"
        if isinstance(late, Tool) and (kind, name) != ("deferred.Tool", "name"):  # its schema keeps the first as title
            assert tool_digest(late) == tool_digest(early), f"{kind}.{name}: another identity than the constructor's"


def refused(made: Any, name: str, value: Any) -> str | None:
    """Set an attribute; return what the object says where it has it and refuses to change it."""
    try:
        setattr(made, name, value)
    except AttributeError as error:
        return str(error)
    return None


def made_with(make: Callable[..., Any], name: str, value: Any) -> Any:
    """Make an object with a setting given to its constructor; None where that does not know it."""
    for keyword in (name, KEYWORDS.get(name)):
        try:
            return make(**{keyword: value}) if keyword else None
        except (TypeError, UserError):
            continue
    return None


def alike(one: Any, other: Any) -> bool:
    if callable(one) and callable(other):
        return getattr(one, "__name__", type(one)) == getattr(other, "__name__", type(other))
    return one == other or type(one) is type(other)


# ------------------------------------------------------------------------------------------------- what is set is heard


async def test_an_approval_for_one_agent_runs_no_other(run: Run) -> None:
    inner = Agent("inner", model=ScriptedModel(["from inner"]))
    tool = inner.as_tool("ask", "d", needs_approval=True)
    calls = [[function_call("ask", {"input": "x"})], "done"]
    agent = Agent("outer", model=ScriptedModel(calls), tools=[tool])
    state = approve_all((await run(agent, "go")).to_state())
    tool.agent = Agent("other", model=ScriptedModel(["from other"]))
    again = await run(agent, state)
    assert len(again.interruptions) == 1
    done = await run(agent, approve_all(again.to_state()))
    assert done.final_output == "done"


def test_settings_of_a_nested_agent_are_refused_on_a_tool_that_answers_by_itself() -> None:
    class Errand(FunctionTool):
        pass

    made = MAKERS["FunctionTool"]()
    with pytest.raises(AttributeError, match=r"no attribute 'session': it is for a tool that answers by an agent"):
        made.session = None
    with pytest.raises(AttributeError, match=r"'nested' of tool 't' cannot be set: Agent.as_tool\(...\) makes a tool"):
        made.nested = NestedAgent(Agent("inner"))
    with pytest.raises(UserError, match=r"tool 'mine': nested must be a NestedAgent\(...\) or None, not 3"):
        Errand("mine", "d", {}, echo).nested = 3  # type: ignore[assignment]  # a number


async def test_an_approval_for_the_files_of_one_folder_writes_in_no_other(run: Run, tmp_path: Any) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
    write = next(tool for tool in filesystem_tools(tmp_path / "one") if tool.name == "write_file")
    calls = [[function_call("write_file", {"path": "a.txt", "content": "x"})], "done"]
    agent = Agent("a", model=ScriptedModel(calls), tools=[write])
    state = approve_all((await run(agent, "go")).to_state())
    write.files = Workspace(tmp_path / "two")  # type: ignore[attr-defined]  # a tool of files has them
    again = await run(agent, state)
    assert len(again.interruptions) == 1
    assert not list(tmp_path.rglob("a.txt"))
    await run(agent, approve_all(again.to_state()))
    assert [path.parent.name for path in tmp_path.rglob("a.txt")] == ["two"]
    next(tmp_path.rglob("a.txt")).unlink()


async def test_a_gate_that_is_set_late_asks(run: Run) -> None:
    def pay() -> str:
        return "paid"

    late = [function_tool(pay), keyturn.deferred.Tool(pay)]
    late[0].needs_approval = True
    late[1].requires_approval = True  # type: ignore[attr-defined]  # its name there
    for tool in late:
        agent = Agent("a", model=ScriptedModel([[function_call("pay", {})], "done"]), tools=[tool])
        assert len((await run(agent, "go")).interruptions) == 1


async def test_rules_that_a_deep_agent_is_given_late_ask() -> None:
    model = ScriptedModel([[function_call("write_file", {"path": "/a.txt", "content": "x"})], "done"])
    agent = keyturn.deep.create_deep_agent(model)
    agent.interrupt_on = {"write_file": True}  # type: ignore[misc]  # the table of the class sets it
    assert len((await agent.run("go")).output.approvals) == 1
    with pytest.raises(UserError, match="there is no such tool"):
        agent.interrupt_on = {"writ_file": True}  # type: ignore[misc]  # as above
    assert agent.interrupt_on == {"write_file": True}


async def test_the_policy_that_an_app_is_given_late_is_the_one_that_is_asked(run: Run) -> None:
    ran: list[str] = []

    @function_tool
    def pay() -> str:
        ran.append("paid")
        return "paid"

    def desk(*words: Any) -> App:
        model = ScriptedModel([[function_call("pay", {})], *words])
        return App(agents=[Agent("desk", model=model, tools=[pay])], journal=MemoryJournal())

    strict = Policy(keyturn.Rule("deny", tool="pay"))
    async with desk("done") as made:
        made.policy = strict
        assert made.policy is strict
        assert made.run_config.policy is strict
        await (await made.start("desk", "go")).result()
    assert ran == []


async def test_a_policy_that_is_set_while_a_run_goes_on_is_asked_next() -> None:
    ran: list[str] = []
    held: list[App] = []

    @function_tool
    def pay() -> str:
        ran.append("paid")
        held[0].policy = lambda call, context: "deny"
        return "paid"

    model = ScriptedModel([[function_call("pay", {})], [function_call("pay", {})], "done"])
    async with App(agents=[Agent("desk", model=model, tools=[pay])], journal=MemoryJournal()) as made:
        held.append(made)
        made.policy = lambda call, context: "allow"
        await (await made.start("desk", "go")).result()
    assert ran == ["paid"]


class Heard(RunHooks[Any]):
    def __init__(self) -> None:
        self.agents: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.agents.append(agent.name)


async def test_hooks_that_an_app_is_given_late_are_called() -> None:
    hooks = Heard()
    async with App(agents=[Agent("desk", model=ScriptedModel(["done"]))], journal=MemoryJournal()) as made:
        made.hooks = hooks
        await (await made.start("desk", "go")).result()
        with pytest.raises(UserError, match="hooks must be RunHooks"):
            made.hooks = AgentHooks()  # type: ignore[assignment]  # hooks of another kind
        with pytest.raises(AttributeError, match="make another App"):
            made.journal = MemoryJournal()
    assert hooks.agents == ["desk"]


async def test_a_run_configuration_that_is_changed_between_two_runs_is_heard(run: Run) -> None:
    @function_tool
    def pay() -> str:
        return "paid"

    config = RunConfig()
    agent = Agent("a", model=ScriptedModel([[function_call("pay", {})], "done"] * 2), tools=[pay])
    assert (await run(agent, "go", run_config=config)).final_output == "done"
    config.policy = lambda call, context: "ask"
    assert len((await run(agent, "go", run_config=config)).interruptions) == 1


async def test_a_tool_that_is_added_or_renamed_after_a_turn_is_found(run: Run) -> None:
    @function_tool
    def first() -> str:
        agent.tools = [first, second]
        first.name = "renamed"
        return "1"

    @function_tool
    def second() -> str:
        return "2"

    calls = [[function_call("first", {})], [function_call("second", {}), function_call("renamed", {})], "done"]
    agent: Agent[Any] = Agent("a", model=ScriptedModel(calls), tools=[first])
    assert (await run(agent, "go")).final_output == "done"


def test_the_options_of_a_server_hold_for_what_it_lists_next() -> None:
    made = server(require_approval={"read": "never"})
    assert made._offers.approvals.of("write")  # pyright: ignore[reportPrivateUsage]  # how its tools ask
    made.require_approval = {"write": "never", "read": "always"}
    assert not made._offers.approvals.of("write")  # pyright: ignore[reportPrivateUsage]  # how its tools ask
    made.require_approval["write"] = "always"  # type: ignore[index]  # in place
    assert made._offers.approvals.of("write")  # pyright: ignore[reportPrivateUsage]  # how its tools ask
    with pytest.raises(UserError, match="cannot be read"):
        made.require_approval = "alwys"
    with pytest.raises(UserError, match="trust_annotations"):
        made.trust_annotations = None  # type: ignore[assignment]  # neither yes nor no


def test_a_handoff_that_leads_elsewhere_is_another_tool() -> None:
    made = handoff(Agent("Billing"))
    before = tool_digest(made)
    made.agent = Agent("Sales")
    assert tool_digest(made) != before
    assert made.agent_name == "Sales"


def test_a_screen_with_safety_checks_asks_whatever_its_gate_is_set_to() -> None:
    made = ComputerTool(screen())
    made.needs_approval = False
    assert callable(made.needs_approval)


@each(
    ("made", "remedy"),
    [
        (Approval(), r"msgspec.structs.replace\(..., role=...\)"),
        (UsageLimits(), r"dataclasses.replace\(..., requests=...\)"),
        (SessionSettings(), r"dataclasses.replace\(..., limit=...\)"),
    ],
)
def test_what_is_frozen_refuses_to_be_changed_and_says_what_to_do(made: Any, remedy: str) -> None:
    name = remedy.rpartition(" ")[2].partition("=")[0]
    with pytest.raises(AttributeError, match=f"a {type(made).__name__} is immutable: use a copy made by {remedy}"):
        setattr(made, name, 3)
    with pytest.raises(AttributeError, match=f"is immutable: .*{name}"):
        delattr(made, name)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}x'; did you mean '{name}'"):
        setattr(made, f"{name}x", 3)


async def test_a_policy_that_can_match_nothing_is_refused_when_an_app_is_given_it() -> None:
    unmatched = Policy(keyturn.Rule("deny", tool="pya"))
    made = App(agents=[Agent("desk", tools=[pay_tool()])], journal=MemoryJournal())
    with pytest.raises(UserError, match="no tool is named 'pya'"):
        made.policy = unmatched
    with pytest.raises(UserError, match="no tool is named 'pya'"):
        made.run_config = RunConfig(policy=unmatched)
    with pytest.raises(UserError, match="no tool is named 'pya'"):
        made.run_config.policy = unmatched
    assert made.policy is None
    RunConfig.of(made.run_config).policy = unmatched  # a copy is no app's
    made.policy = Policy(keyturn.Rule("deny", tool="pay"))
    with pytest.raises(UserError, match="no tool is named 'pay'"):
        made.agents = [Agent("desk")]
    assert [tool.name for tool in made.agents["desk"].tools] == ["pay"]


async def test_agents_of_an_app_that_are_changed_in_place_are_linted_at_the_next_start() -> None:
    agents = [Agent("desk", model=ScriptedModel(["done"]), tools=[pay_tool()])]
    async with App(agents=agents, journal=MemoryJournal(), policy=Policy(keyturn.Rule("deny", tool="pay"))) as made:
        with patch("keyturn.application.settings.checked_policy") as lint:
            await made.start("desk", "go")
        assert lint.call_count == 0  # they are as they were linted
        made.agents["desk"] = Agent("desk", model=ScriptedModel(["done"]))
        with pytest.raises(UserError, match="no tool is named 'pay'"):
            await made.start("desk", "go")
        made.agents["desk"].tools.append(pay_tool())
        await made.start("desk", "go")
        made.agents["desk"].tools.clear()
        with pytest.raises(UserError, match="no tool is named 'pay'"):
            await made.start("desk", "go")


def pay_tool() -> FunctionTool:
    @function_tool
    def pay() -> str:
        return "paid"

    return pay
