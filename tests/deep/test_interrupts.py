"""`interrupt_on` gates what it names, wherever the call comes from: each leak of the incumbent is a named test."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    HostedMCPTool,
    LocalExecutor,
    RunContextWrapper,
    Runner,
    RunState,
    ShellTool,
    UserError,
    function_tool,
)
from keyturn.deep import DeepAgentDeps, FilesystemBackend, StateBackend, create_deep_agent
from keyturn.testing import function_call
from tests.deep.playing_deep import Play, answered, asked, delegates, edits, listening, model, runs, told, writes

FINANCE = Approval(role="finance", quorum=2)
GATED = {"write_file": True, "edit_file": True, "execute": True}


def deploy_tool(done: list[Any], name: str = "deploy") -> Any:
    @function_tool(name_override=name)
    def deploy(to: str) -> str:
        """Deploy the site."""
        done.append(to)
        return f"deployed to {to}"

    return deploy


async def test_a_subagent_does_not_bypass_the_gate(play: Play) -> None:
    """There: task(subagent_type="general-purpose") wrote /pwn with no approval."""
    deps = DeepAgentDeps()
    agent = create_deep_agent(model(delegates(), writes("/pwn"), "It is written.", "Done."), interrupt_on=GATED)
    waits = await play(agent, deps=deps)
    assert asked(waits) == ["write_file"]
    assert waits.output.approvals[0].agent.startswith("deep-agent > task > general-purpose")
    assert deps.files == {}
    done = await answered(play, agent, waits, deps)
    assert done.output == "Done."
    assert list(deps.files) == ["/pwn"]


async def test_a_subagent_of_a_subagent_does_not_bypass_the_gate(play: Play) -> None:
    deps = DeepAgentDeps()
    scripted = model(delegates(), delegates(), delegates(), writes("/pwn"), "c", "b", "a", "Done.")
    agent = create_deep_agent(scripted, interrupt_on=GATED, max_depth=3)
    waits = await play(agent, deps=deps)
    assert (asked(waits), deps.files) == (["write_file"], {})
    assert waits.output.approvals[0].agent.count("task") == 3
    done = await answered(play, agent, waits, deps)
    assert (done.output, list(deps.files)) == ("Done.", ["/pwn"])


async def test_an_agent_that_the_user_brings_as_a_tool_does_not_bypass_the_gate(play: Play) -> None:
    done: list[Any] = []
    inner = Agent("inner", model=model(function_call("deploy", {"to": "prod"}), "ok"), tools=[deploy_tool(done)])
    outer = model(function_call("ask_inner", {"input": "ship it"}), "Done.")
    agent = create_deep_agent(outer, tools=[inner.as_tool("ask_inner", "Asks.")], interrupt_on={"deploy": True})
    waits = await play(agent)
    assert (asked(waits), done) == (["deploy"], [])
    assert (await answered(play, agent, waits)).output == "Done."
    assert done == ["prod"]


async def test_an_agent_that_takes_over_does_not_bypass_the_gate(run: Any) -> None:
    done: list[Any] = []
    other = Agent("other", model=model(function_call("deploy", {"to": "prod"}), "ok"), tools=[deploy_tool(done)])
    deep = create_deep_agent(
        model(function_call("transfer_to_other", {})), tools=[deploy_tool(done)], interrupt_on={"deploy": True}
    )
    core = deep.core_agent().clone(handoffs=[other])
    waits = await run(core, "go")
    assert [item.name for item in waits.interruptions] == ["deploy"]
    assert done == []


async def test_who_handed_over_keeps_its_say_in_another_process(run: Any, another_process: Any) -> None:
    """Its rules were those of the process that had seen it at work."""
    done: list[Any] = []
    steps = model(function_call("wait", {}), function_call("deploy", {"to": "prod"}), "ok")
    last = Agent("last", model=steps, tools=[deploy_tool(done), _WAIT])
    deep = create_deep_agent(
        model(function_call("transfer_to_last", {})), tools=[deploy_tool(done)], interrupt_on={"deploy": True}
    )
    between = deep.core_agent().clone(name="between", handoffs=[last])
    first = Agent("first", model=model(function_call("transfer_to_between", {})), handoffs=[between])
    waits = await run(first, "go", context=DeepAgentDeps())
    assert [item.name for item in waits.interruptions] == ["wait"]
    another_process()
    state = await RunState.from_string(first, waits.to_state().to_string(), context_type=DeepAgentDeps)
    state.approve(state.get_interruptions()[0])
    waits = await run(first, state)
    assert ([item.name for item in waits.interruptions], done) == (["deploy"], [])


_WAIT = function_tool(lambda: "waited", name_override="wait", needs_approval=True)


async def test_a_key_gates_a_tool_of_the_users_own(play: Play) -> None:
    """There: {"deploy": True} was silently ignored, and the tool ran."""
    done: list[Any] = []
    agent = create_deep_agent(
        model(function_call("deploy", {"to": "prod"}), "Done."),
        tools=[deploy_tool(done)],
        interrupt_on={"deploy": True},
    )
    waits = await play(agent)
    assert (asked(waits), done) == (["deploy"], [])


def test_an_unknown_key_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(
        UserError, match=r"interrupt_on names 'write_fil', and there is no such tool; there are .*write_file"
    ):
        create_deep_agent(model(), interrupt_on={"write_fil": True})
    with pytest.raises(UserError, match="names 'execute'"):
        create_deep_agent(model(), interrupt_on={"execute": True}, include_filesystem=False)
    spec: Any = {"name": "a", "description": "b", "instructions": "c", "interrupt_on": {"wite_file": True}}
    with pytest.raises(UserError, match="names 'wite_file'"):
        create_deep_agent(model(), subagents=[spec])


@pytest.mark.parametrize("gated", ["write_file", "edit_file"])
async def test_one_key_gates_one_tool(play: Play, gated: str) -> None:
    """There: {"edit_file": True} paused write_file as well."""
    deps = DeepAgentDeps(backend=StateBackend({"/a": "old\n"}))
    agent = create_deep_agent(model([writes("/b"), edits("/a", "old", "new")], "Done."), interrupt_on={gated: True})
    assert asked(await play(agent, deps=deps)) == [gated]


async def test_commands_ask_unless_they_are_let_in_so_many_words(play: Play, tmp_path: Any) -> None:
    backend = FilesystemBackend(tmp_path, shell=LocalExecutor(tmp_path))
    agent = create_deep_agent(model(runs("touch pwn"), "Done."), backend=backend)
    assert asked(await play(agent)) == ["execute"]
    assert not (tmp_path / "pwn").exists()
    free = create_deep_agent(model(runs("touch fine"), "Done."), backend=backend, interrupt_on={"execute": False})
    assert (await play(free)).output == "Done."
    assert (tmp_path / "fine").exists()


async def test_every_tool_that_runs_commands_asks(play: Play, tmp_path: Any) -> None:
    """There: start_monitor ran a shell command ungated while execute was gated."""
    agent = create_deep_agent(model(), backend=FilesystemBackend(tmp_path, shell=LocalExecutor(tmp_path)))
    core = agent.core_agent()
    tools = await core.get_all_tools(_context())
    assert [tool.name for tool in tools if hasattr(tool, "shell") or hasattr(tool, "executor")] == ["execute"]


def _context() -> Any:

    return RunContextWrapper(DeepAgentDeps())


async def test_a_callable_says_which_calls_ask(play: Play) -> None:
    seen: list[Any] = []

    async def outside(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        seen.append((type(ctx.context), params, call_id))
        return not params["path"].startswith("/workspace/")

    deps = DeepAgentDeps()
    calls = [
        function_call("write_file", {"path": "/workspace/a", "content": "x"}, call_id="c1"),
        function_call("write_file", {"path": "/etc/b", "content": "x"}, call_id="c2"),
    ]
    agent = create_deep_agent(model(calls, "Done."), interrupt_on={"write_file": outside})
    waits = await play(agent, deps=deps)
    assert [part.args["path"] for part in waits.output.approvals] == ["/etc/b"]
    assert list(deps.files) == ["/workspace/a"]
    assert seen[0] == (DeepAgentDeps, {"path": "/workspace/a", "content": "x"}, "c1")


@pytest.mark.parametrize("answer", [None, "no", 0, ZeroDivisionError("boom")])
async def test_a_callable_that_says_no_true_or_false_asks_a_person(play: Play, answer: Any) -> None:
    def broken(ctx: Any, params: Any, call_id: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": broken})
    assert asked(await play(agent, deps=deps)) == ["write_file"]
    assert deps.files == {}


async def test_terms_come_with_the_request(play: Play) -> None:
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": Approval(expires="4h")})
    waits = await play(agent)
    [item] = waits.inner.interruptions
    assert item.request.expires_at is not None


async def test_a_subagent_may_have_rules_of_its_own(play: Play) -> None:
    spec: Any = {
        "name": "writer",
        "description": "Writes.",
        "instructions": "Write.",
        "interrupt_on": {"write_file": False},
    }
    scripted = model(
        [delegates(to="writer"), writes("/mine")], [writes("/theirs"), edits("/none", "a", "b")], "ok", "Done."
    )
    deps = DeepAgentDeps()
    agent = create_deep_agent(scripted, interrupt_on=GATED, subagents=[spec])
    waits = await play(agent, deps=deps)
    assert sorted(asked(waits)) == ["edit_file", "write_file"]
    assert list(deps.files) == ["/theirs"]


@pytest.mark.parametrize("wrong", ["yes", 1, None, {"allowed": True}, object()])
def test_a_rule_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"interrupt_on\['write_file'\] must be True, False, a callable"):
        create_deep_agent(model(), interrupt_on={"write_file": wrong})


async def test_a_clone_keeps_its_gate(run: Any) -> None:
    deps = DeepAgentDeps()
    core = create_deep_agent(model(writes("/a"), "Done."), interrupt_on=GATED).core_agent().clone(name="copy")
    waits = await run(core, "go", context=deps)
    assert [item.name for item in waits.interruptions] == ["write_file"]


async def test_what_is_approved_is_not_what_another_backend_would_do(play: Play, tmp_path: Any) -> None:
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on=GATED)
    waits = await play(agent, deps=DeepAgentDeps())
    elsewhere = DeepAgentDeps(backend=FilesystemBackend(tmp_path))
    again = await answered(play, agent, waits, elsewhere)
    assert asked(again) == ["write_file"]
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_changed_meanwhile_is_shown_again(play: Play) -> None:
    deps = DeepAgentDeps(backend=StateBackend({"/a": "old\n"}))
    agent = create_deep_agent(model(writes("/a", "new\n"), "Done."), interrupt_on=GATED)
    waits = await play(agent, deps=deps)
    deps.files["/a"]["content"] = ["somebody else's", ""]
    again = await answered(play, agent, waits, deps)
    assert asked(again) == ["write_file"]
    assert deps.files["/a"]["content"] == ["somebody else's", ""]


async def test_the_tools_of_a_backend_are_no_other_agents(run: Any) -> None:
    core = create_deep_agent(model(), interrupt_on=GATED).core_agent()
    thief = Agent("thief", model=model(writes("/pwn")), mcp_servers=list(core.mcp_servers))
    with pytest.raises(UserError, match="these tools belong to a deep agent"):
        await run(thief, "go", context=DeepAgentDeps())


async def test_a_policy_of_the_run_cannot_let_through_what_the_agent_asks(run: Any) -> None:
    core = create_deep_agent(model(writes("/a"), "Done."), interrupt_on=GATED).core_agent()
    waits = await run(core, "go", policy=lambda call, context: "allow")
    assert [item.name for item in waits.interruptions] == ["write_file"]


async def test_a_policy_of_the_run_may_deny_what_a_person_approved() -> None:
    deps = DeepAgentDeps()
    scripted = model(writes("/a"), "Done.")
    core = create_deep_agent(scripted, interrupt_on=GATED).core_agent()

    def no_writes(call: Any, context: Any) -> Any:
        return "deny" if call.approved else None

    waits = await Runner.run(core, "go", context=deps, policy=no_writes)
    state = waits.to_state()
    state.approve(waits.interruptions[0])
    done = await Runner.run(core, state, policy=no_writes)
    assert (done.final_output, deps.files) == ("Done.", {})
    assert "den" in told(scripted)[-1]


async def test_an_edit_is_judged_by_the_rule_again() -> None:
    asked_of: list[str] = []

    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        asked_of.append(f"{params['path']}: {params['content']}")
        return True

    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a"), "Done."), interrupt_on={"write_file": rule})
    waits = await listening(agent, deps=deps)
    state = waits.inner.to_state()
    state.approve(waits.inner.interruptions[0], edit={"path": "/a", "content": "y"})
    await Runner.run(agent.core_agent(), state, context=deps)
    assert deps.files["/a"]["content"] == ["y"]
    assert asked_of == ["/a: x\n", "/a: y"]


async def test_the_task_itself_may_be_gated(play: Play) -> None:
    agent = create_deep_agent(model(delegates("Delete all."), "ok", "Done."), interrupt_on={"task": True})
    waits = await play(agent)
    assert asked(waits) == ["task"]
    assert "Delete all." in str(waits.output.approvals[0].preview)
    assert (await answered(play, agent, waits)).output == "Done."


async def test_another_deep_agent_as_a_tool_cannot_loosen_the_gate(play: Play) -> None:
    deps = DeepAgentDeps()
    inner = create_deep_agent(model(writes("/pwn"), "ok"), interrupt_on={"write_file": False}, name="inner")
    tool = inner.core_agent().as_tool("ask_inner", "Asks.")
    outer = model(function_call("ask_inner", {"input": "write"}), "Done.")
    agent = create_deep_agent(outer, tools=[tool], interrupt_on=GATED)
    waits = await play(agent, deps=deps)
    assert (asked(waits), deps.files) == (["write_file"], {})
    assert (await answered(play, agent, waits, deps)).output == "Done."
    assert list(deps.files) == ["/pwn"]


async def test_another_deep_agent_as_a_tool_keeps_its_own_gate(play: Play) -> None:
    deps = DeepAgentDeps()
    inner = create_deep_agent(model(writes("/pwn"), "ok"), interrupt_on={"write_file": True}, name="inner")
    plain = Agent(
        "plain", model=model(function_call("ask_inner", {"input": "write"}), "ok"),
        tools=[inner.core_agent().as_tool("ask_inner", "Asks.")],
    )  # fmt: skip
    waits = await Runner.run(plain, "go", context=deps)
    assert [item.name for item in waits.interruptions] == ["write_file"]
    assert deps.files == {}


async def test_a_callable_finds_the_deps(play: Play) -> None:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return len(ctx.deps.files) > 0

    deps = DeepAgentDeps()
    agent = create_deep_agent(model(writes("/a"), writes("/b"), "Done."), interrupt_on={"write_file": rule})
    assert asked(await play(agent, deps=deps)) == ["write_file"]
    assert list(deps.files) == ["/a"]


async def test_an_approval_of_a_subagents_call_counts_once(play: Play) -> None:
    deps = DeepAgentDeps()
    scripted = model(delegates(), writes("/a", "1"), writes("/a", "2"), "ok", "Done.")
    agent = create_deep_agent(scripted, interrupt_on=GATED)
    waits = await play(agent, deps=deps)
    again = await answered(play, agent, waits, deps)
    assert asked(again) == ["write_file"]
    with pytest.raises(Conflict, match="stale"):
        await answered(play, agent, waits, deps)
    assert deps.files["/a"]["content"] == ["1"]


async def test_a_handoff_inside_a_subagent_does_not_bypass_the_gate(run: Any) -> None:
    done: list[Any] = []
    other = Agent("other", model=model(function_call("deploy", {"to": "prod"}), "ok"), tools=[deploy_tool(done)])
    first = Agent("first", model=model(function_call("transfer_to_other", {})), handoffs=[other])
    outer = model(function_call("ask_first", {"input": "ship"}), "Done.")
    agent = create_deep_agent(outer, tools=[first.as_tool("ask_first", "Asks.")], interrupt_on={"deploy": True})
    waits = await run(agent.core_agent(), "go")
    assert [item.name for item in waits.interruptions] == ["deploy"]
    assert done == []


# ------------------------------------------------------------------------------------------ servers at the provider


def hosted(label: str = "docs") -> HostedMCPTool:
    return HostedMCPTool({"type": "mcp", "server_label": label, "server_url": f"https://{label}.example.com/mcp"})


def wants(tool: str, label: str = "docs") -> dict[str, Any]:
    name = f"{label}_{tool}"
    return {"type": "mcp_approval_request", "id": name, "server_label": label, "name": tool, "arguments": "{}"}


async def test_a_rule_of_a_server_at_the_provider_holds_for_its_tools_and_one_of_a_tool_for_that_alone() -> None:
    calls: list[Any] = [
        wants("delete"),
        wants("search"),
        wants("search", "wiki"),
        function_call("search", {"to": "a"}, call_id="local"),
    ]
    tools = [hosted(), hosted("wiki"), deploy_tool([], "search")]
    rules: Any = {"docs": Approval(quorum=2), "docs/search": Approval(role="ops"), "search": Approval(role="web")}
    agent = create_deep_agent(model(calls, "Done."), tools=tools, interrupt_on=rules, name="a")
    async with App([agent], "memory://") as app:
        await (await app.start("a", "go")).wait()
        asked_on = {row.request.label: row.request.terms for row in await app.inbox.list()}
    assert asked_on == {
        "docs_delete": rules["docs"],
        "docs_search": rules["docs/search"],
        "wiki_search": None,
        "local": rules["search"],
    }


def test_a_rule_that_no_call_would_be_asked_by_is_refused() -> None:
    """The label of a server and the name of its tool are two names; commands that the provider runs ask nobody."""
    shell = ShellTool(environment={"type": "container_auto"})
    for rule, tools in [("delete", [hosted()]), ("wiki/delete", [hosted()]), ("docs/", [hosted()]), ("shell", [shell])]:
        with pytest.raises(UserError, match=f"interrupt_on names '{rule}', and there is no such tool; there are "):
            create_deep_agent(model(), tools=tools, interrupt_on={rule: True})


@pytest.mark.parametrize("rules", [{"docs": FINANCE}, {"docs": FINANCE, "ls": False}], ids=["alone", "beside another"])
@pytest.mark.parametrize("name", ["delete_page", "ls"])
async def test_a_rule_for_a_hosted_server_holds_for_each_of_its_tools(rules: Any, name: str) -> None:
    """A server chooses the names of its tools: that of a local one lifts no rule."""
    docs = HostedMCPTool({"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp"})
    call = {"type": "mcp_approval_request", "id": "m1", "server_label": "docs", "name": name, "arguments": "{}"}
    app = App([create_deep_agent(model([call], "Done."), name="a", tools=[docs], interrupt_on=rules)], "memory://")
    async with app:
        run = await app.start("a", "go")
        await run.wait()
        [row] = await app.inbox.list()
        assert (row.tool, row.request.terms) == (name, FINANCE)


def test_rules_are_replaced_whole_so_that_each_name_is_compared_with_the_tools() -> None:
    agent: Any = create_deep_agent(model(), interrupt_on=GATED)
    with pytest.raises(TypeError, match="does not support item assignment"):
        agent.interrupt_on["write_fil"] = True
    agent.interrupt_on = {**agent.interrupt_on, "ls": True}
    assert agent.interrupt_on == {**GATED, "ls": True}
