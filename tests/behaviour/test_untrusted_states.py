"""What is believed of a text that was away, and what is said of one that is not."""

from __future__ import annotations

import asyncio
import json
import os
import random
import stat
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn import (
    Agent,
    AgentMissing,
    Conflict,
    KeyturnError,
    NotPending,
    RunState,
    StateRejected,
    ToolGuardrailFunctionOutput,
    ToolMissing,
    UserError,
    function_tool,
    tool_input_guardrail,
)
from keyturn.core.seal import Ring
from tests.playing import (
    KEY,
    Effects,
    Run,
    call,
    item_of,
    labels,
    paused,
    payer,
    script,
)
from tests.table import each

MARKER = "xyzzy-plugh"


# ------------------------------------------------------------------------------------- 18: what is not believed


def swapped(log: str) -> str:
    """The log of another payee. Ids are hex, and may hold "ada" as well."""
    changed = log.replace('\\"ada', '\\"eve')
    assert changed != log
    return changed


def sign(data: dict[str, Any], secret: str) -> dict[str, Any]:
    """A coherent forgery: the same form, signed with a key of the forger's own."""
    parts = [data[name].encode() for name in ("schema_version", "run", "agent", "context", "log", "undelivered")]
    framed = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return {**data, "mac": Ring([secret.encode()]).mac("state", framed)}


async def test_the_forgers_tools_are_sharp(effects: Effects) -> None:
    """With the right key the forgery of these tests would pass, so what refuses it is the key."""
    agent, state = await paused(effects)
    data = state.to_json()
    assert sign(data, KEY) == data
    assert labels(await RunState.from_json(agent, sign(data, KEY))) == ["c1"]


async def test_a_state_is_a_plain_dict_that_survives_any_store(run: Run, effects: Effects) -> None:
    """Other spacing, other order of keys, ASCII only: still the state that was saved."""
    agent = payer(effects, [call("pay", "c1", to="ada ✓ \u2028 \U0001f511", amount=10**30)])
    state = (await run(agent, "go ✓")).to_state()
    data = state.to_json()
    assert [key for key in data if "version" in key] == ["schema_version"]
    for text in (
        json.dumps(data),
        json.dumps(data, indent=4, sort_keys=True),
        json.dumps(dict(reversed(data.items())), ensure_ascii=False),
        "\n\t " + state.to_string() + " \n",
    ):
        loaded = await RunState.from_string(agent, text)
        assert loaded.to_json() == data
    state = await RunState.from_json(agent, json.loads(json.dumps(data)))
    state.approve(item_of(state, "c1"))
    await run(agent, state)
    assert effects == [("pay", "ada ✓ \u2028 \U0001f511", 10**30)]


Change = Callable[[dict[str, Any]], dict[str, Any]]
FORGERIES: dict[str, Change] = {
    "other arguments": lambda data: {**data, "log": swapped(data["log"])},
    "another run": lambda data: {**data, "run": "0" * 32},
    "another agent": lambda data: {**data, "agent": "b"},
    "another context": lambda data: {**data, "context": '{"kind":"plain","data":{"admin":true}}'},
    "a decision": lambda data: {**data, "undelivered": '{"decisions":[]}'},
    "a line less": lambda data: {**data, "log": data["log"].rpartition("\n")[0]},
    "a line more": lambda data: {**data, "log": data["log"] + "\n" + data["log"].rpartition("\n")[2]},
    "parts changed round": lambda data: {**data, "context": data["undelivered"], "undelivered": data["context"]},
    "a piece moved over": lambda data: {**data, "run": data["run"] + data["agent"], "agent": ""},
    "MAC cut": lambda data: {**data, "mac": data["mac"][:-1]},
    "MAC empty": lambda data: {**data, "mac": ""},
    "MAC of another type": lambda data: {**data, "mac": 0},
    "MAC true": lambda data: {**data, "mac": True},
    "MAC in capitals": lambda data: {**data, "mac": data["mac"].upper()},
    "MAC not ASCII": lambda data: {**data, "mac": "é" * 64},
    "no MAC": lambda data: {key: value for key, value in data.items() if key != "mac"},
    "MAC null": lambda data: {**data, "mac": None},
    "no key named": lambda data: {**data, "mac": data["mac"].partition(".")[2]},
    "another key's name": lambda data: {**data, "mac": "000000." + data["mac"].partition(".")[2]},
    "a key beside": lambda data: {**data, "key": "0" * 12},
    "an older format": lambda data: {**data, "schema_version": "1"},
    "signed by another": lambda data: sign({**data, "log": swapped(data["log"])}, "the forger's secret"),
    "one part more": lambda data: {**data, "approvals": {"c1": True}},
    "one part less": lambda data: {key: value for key, value in data.items() if key != "undelivered"},
    "a part of another type": lambda data: {**data, "log": [data["log"]]},
    "a part null": lambda data: {**data, "undelivered": None},
    "a lone surrogate": lambda data: {**data, "context": "\ud800"},
    "no version": lambda data: {key: value for key, value in data.items() if key != "schema_version"},
    "an old version": lambda data: {**data, "schema_version": "0"},
    "a new version": lambda data: {**data, "schema_version": "99"},
    "a version as a number": lambda data: {**data, "schema_version": 1},
    "a version as a list": lambda data: {**data, "schema_version": ["1"]},
    "a version as a dict": lambda data: {**data, "schema_version": {"1": 1}},
    "version null": lambda data: {**data, "schema_version": None},
    "nothing": lambda _data: {},
}


@each("change", FORGERIES.values(), ids=FORGERIES.keys())
async def test_a_changed_state_is_refused_before_anything_of_it_is_believed(effects: Effects, change: Change) -> None:
    """Typed, with a remedy, and the text quotes nothing of the state."""
    agent, state = await paused(effects, [call("pay", "c1", to=f"ada {MARKER}")])
    state.approve(item_of(state, "c1"), note=MARKER)
    data = change(state.to_json())
    believed: list[Any] = []
    with pytest.raises(StateRejected) as raised:
        await RunState.from_json(agent, data, context_deserializer=believed.append)
    said = "".join(traceback.format_exception(raised.value))
    assert MARKER not in said
    assert KEY not in said
    assert state.run_id not in said
    assert ";" in str(raised.value) or "." in str(raised.value), "the remedy follows the fault"
    assert (believed, effects) == ([], [])


async def test_the_version_is_checked_first_then_the_mac_then_the_shape(effects: Effects) -> None:
    """An unknown version is named with what can be read; the rest is not looked at before."""
    agent, state = await paused(effects)
    data = state.to_json()
    with pytest.raises(StateRejected, match="supported: 2"):
        await RunState.from_json(agent, {"schema_version": "99", "log": 5})
    with pytest.raises(StateRejected, match="MAC"):
        await RunState.from_json(agent, {**data, "log": "no log at all"})
    with pytest.raises(StateRejected, match="log"):
        await RunState.from_json(agent, sign({**data, "log": "no log at all"}, KEY))


PARTS = ["run", "agent", "context", "log", "undelivered"]


@pytest.mark.parametrize("part", PARTS)
async def test_a_missing_part_is_named(effects: Effects, part: str) -> None:
    agent, state = await paused(effects)
    data = state.to_json()
    less = {name: value for name, value in data.items() if name != part}
    with pytest.raises(StateRejected, match=f"lacks its part '{part}'; pass what to_json"):
        await RunState.from_json(agent, less)
    with pytest.raises(StateRejected, match=f"lacks its part '{part}'"):
        await RunState.from_string(agent, json.dumps(less))
    with pytest.raises(StateRejected, match=f"part '{part}' of this state is not a text, but null"):
        await RunState.from_json(agent, {**data, part: None})
    with pytest.raises(StateRejected, match=f"part '{part}' of this state is not a text, but of type list"):
        await RunState.from_string(agent, json.dumps({**data, part: [1]}))


async def test_all_missing_parts_are_named(effects: Effects) -> None:
    agent, state = await paused(effects)
    version = state.to_json()["schema_version"]
    with pytest.raises(StateRejected, match="'run', 'agent', 'context', 'log', 'undelivered'"):
        await RunState.from_json(agent, {"schema_version": version})


async def test_an_unsigned_state_is_read_only_where_that_is_said(run: Run, effects: Effects) -> None:
    """An explicit argument, which never makes a wrong MAC right."""
    agent = payer(effects)
    data = (await run(agent, "go")).to_state().to_json()
    bare = {key: value for key, value in data.items() if key != "mac"}
    with pytest.raises(StateRejected, match="allow_unsigned"):
        await RunState.from_json(agent, bare)
    with pytest.raises(StateRejected, match="MAC"):
        await RunState.from_json(agent, {**data, "mac": data["mac"][:-8] + "AAAAAAAA"}, allow_unsigned=True)
    state = await RunState.from_json(agent, bare, allow_unsigned=True)
    state.approve(item_of(state, "c1"))
    await run(agent, state)
    assert len(effects) == 1


@pytest.mark.parametrize(
    ("name", "odd"),
    [("type", [None]), ("type", None), ("arguments", {}), ("arguments", None), ("call_id", 5), ("tools", 1.5)],
)
async def test_an_unsigned_state_whose_reply_could_not_have_been_recorded_is_refused(
    name: str, odd: Any, run: Run, effects: Effects
) -> None:
    agent = payer(effects)
    data = (await run(agent, "go")).to_state().to_json()
    lines = [json.loads(line) for line in data["log"].split("\n")]
    reply = next(event for line in lines for event in line["events"] if event["e"] == "ReplyRecorded")
    if name == "tools":
        reply["tools"] = dict.fromkeys(reply["tools"], odd)
    else:
        reply["output"][0][name] = odd
    changed = {**data, "mac": None, "log": "\n".join(json.dumps(line) for line in lines)}
    with pytest.raises(StateRejected):
        await RunState.from_json(agent, changed, allow_unsigned=True)


async def test_an_approval_is_bound_to_the_bytes_even_in_an_unsigned_state(run: Run, effects: Effects) -> None:
    """A decision in hand whose arguments were changed behind its back."""
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    data = {key: value for key, value in state.to_json().items() if key != "mac"}
    changed = {**data, "log": swapped(data["log"])}
    assert changed != data
    state = await RunState.from_json(agent, changed, allow_unsigned=True)
    with pytest.raises(Conflict, match="shown"):
        await run(agent, state)
    assert effects == []


async def test_a_delivered_approval_is_bound_to_the_bytes_too(run: Run, effects: Effects) -> None:
    """The decision is in the log already, the tool not yet started, when the store is edited."""
    crash = [True]

    async def pay(to: str) -> str:
        """Pay."""
        effects.append(to)
        return "paid"

    @tool_input_guardrail
    def stop(_data: Any) -> ToolGuardrailFunctionOutput:
        if crash[0]:
            raise OSError("stopped between decision and start")
        return ToolGuardrailFunctionOutput.allow()

    tool = function_tool(pay, needs_approval=True, tool_input_guardrails=[stop])
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    with pytest.raises(OSError, match="stopped"):
        await run(agent, state)
    crash[0] = False
    data = {key: value for key, value in state.to_json().items() if key != "mac"}
    forged = {**data, "log": swapped(data["log"])}
    state = await RunState.from_json(agent, forged, allow_unsigned=True)
    with pytest.raises(Conflict, match="approved"):
        await run(agent, state)
    assert effects == []


async def test_a_state_of_another_key_is_refused_and_works_again_under_its_own(
    run: Run, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable, not the key."""
    agent = payer(effects)
    text = (await run(agent, "go")).to_state().to_string()
    monkeypatch.setenv("KEYTURN_SECRET", "another-secret-of-sixteen")
    with pytest.raises(StateRejected, match="KEYTURN_SECRET") as raised:
        await RunState.from_string(agent, text)
    assert "another secret" not in str(raised.value)
    monkeypatch.setenv("KEYTURN_SECRET", KEY)
    state = await RunState.from_string(agent, text)
    state.approve(item_of(state, "c1"))
    await run(agent, state)
    assert len(effects) == 1


@pytest.mark.each
@pytest.mark.parametrize("secret", ["", "short", "x" * 15])
async def test_a_secret_that_is_none_is_refused(effects: Effects, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    _, state = await paused(effects)
    monkeypatch.setenv("KEYTURN_SECRET", secret)
    with pytest.raises(UserError, match="KEYTURN_SECRET"):
        state.to_string()


async def test_without_a_secret_a_key_file_is_made_for_its_owner_alone(
    effects: Effects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Mode 0600, in the state directory and never in the working directory; made once and kept."""
    agent, state = await paused(effects)
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("KEYTURN_SECRET")
    monkeypatch.setenv("KEYTURN_HOME", str(home))
    before = os.umask(0)
    try:
        text = state.to_string()
    finally:
        os.umask(before)
    [file] = [path for path in home.rglob("*") if path.is_file()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(work.iterdir()) == []
    content = file.read_text()
    assert len(content.strip()) >= 32
    assert content.strip() not in text
    assert labels(await RunState.from_string(agent, state.to_string())) == ["c1"]
    assert file.read_text() == content
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(StateRejected):
        await RunState.from_string(agent, text)


async def test_a_damaged_or_unreachable_key_file_is_named(
    effects: Effects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fails closed, with the remedy; a damaged key is never replaced silently."""
    _, state = await paused(effects)
    monkeypatch.delenv("KEYTURN_SECRET")
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path))
    (tmp_path / "keyturn").mkdir()
    (tmp_path / "keyturn" / "key").write_text("half")
    (tmp_path / "keyturn" / "key").chmod(0o600)
    with pytest.raises(UserError, match="damaged"):
        state.to_string()
    assert (tmp_path / "keyturn" / "key").read_text() == "half"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match="KEYTURN_SECRET"):
        state.to_string()


ODD: dict[str, Any] = {
    "empty": "",
    "spaces": "  \n",
    "a word": "approved",
    "null": "null",
    "a number": "1",
    "a list": "[]",
    "an empty object": "{}",
    "half an object": '{"schema_version":"1"',
    "two objects": "{}{}",
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "unclosed": "[" * 1_000_000,
    "a long integer": '{"schema_version":' + "9" * 5_000 + "}",
    "1e999": '{"schema_version":1e999}',
    "NaN": '{"schema_version":NaN}',
    "many keys": "{" + ",".join(f'"{n}":0' for n in range(200_000)) + "}",
    "a lone surrogate": '{"schema_version":"\\ud800"}',
    "a real lone surrogate": '{"schema_version":"\ud800"}',
    "a byte order mark": '\ufeff{"schema_version":"1"}',
    "bytes that are no UTF-8": b'{"schema_version":"\xff"}',
    "NUL": "\0" * 100,
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "None": None,
    "an int": 7,
    "a dict": {"schema_version": "1"},
}


@each("text", ODD.values(), ids=ODD.keys())
async def test_an_odd_text_is_refused(effects: Effects, text: Any) -> None:
    """Never a RecursionError, a UnicodeError or a hang."""
    with pytest.raises(StateRejected):
        await RunState.from_string(payer(effects), text)


@pytest.mark.parametrize("data", [None, [], "text", 5, True, {1: 2}, {"schema_version": "1", 5: "x"}], ids=repr)
async def test_an_odd_value_is_refused(effects: Effects, data: Any) -> None:
    with pytest.raises(StateRejected):
        await RunState.from_json(payer(effects), data)


async def test_a_state_above_the_limit_is_refused_before_it_is_parsed(effects: Effects) -> None:
    """The limit is published, named in the error, and can be set."""
    agent, state = await paused(effects)
    text = state.to_string()
    with pytest.raises(StateRejected, match="max_bytes"):
        await RunState.from_string(agent, text, max_bytes=len(text.encode()) - 1)
    assert labels(await RunState.from_string(agent, text, max_bytes=len(text.encode()))) == ["c1"]
    with pytest.raises(StateRejected, match="max_bytes"):
        await RunState.from_json(agent, state.to_json(), max_bytes=100)
    with pytest.raises(StateRejected, match="67108864"):
        await RunState.from_string(agent, '{"schema_version":"' + "x" * (64 << 20) + '"}')


async def test_a_duplicate_key_in_a_state_changes_nothing_that_was_signed(run: Run, effects: Effects) -> None:
    """Whichever of two equal keys a parser takes, what is believed is what was signed."""
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    text = state.to_string()
    log = json.dumps(swapped(state.to_json()["log"]))
    for forged in (text[:-1] + f',"log":{log}}}', f'{{"log":{log},' + text[1:]):
        try:
            loaded = await RunState.from_string(agent, forged)
        except StateRejected:
            continue
        assert [item.params["to"] for item in loaded.get_interruptions()] == ["ada"]


async def flipped(agent: Agent[Any], text: str, rng: random.Random) -> str:
    """One flipped bit or byte of a state's text, and what comes of it."""
    data = bytearray(text.encode())
    place = rng.randrange(len(data))
    old = data[place]
    data[place] = old ^ (1 << rng.randrange(8)) if rng.random() < 0.5 else rng.randrange(256)
    if data[place] == old:
        return "same"
    try:
        state = await RunState.from_string(agent, bytes(data))  # type: ignore[arg-type]  # bytes are read as well
    except StateRejected as error:
        return "quoted" if MARKER in str(error) else "refused"
    assert state.to_string() == text, f"byte {place} was changed to {data[place]} and the state was believed"
    return "identical"


async def test_a_thousand_flipped_bytes_are_refused_or_change_nothing(run: Run, effects: Effects) -> None:
    agent = payer(effects, [call("pay", "c1", to=f"ada {MARKER}", amount=3), call("pay", "c2", to="bob")])
    state = (await run(agent, f"go {MARKER}")).to_state()
    state.approve(item_of(state, "c1"), grant=None, note=MARKER)
    text, rng = state.to_string(), random.Random(1)
    outcomes = [await flipped(agent, text, rng) for _ in range(1_000)]
    assert outcomes.count("refused") > 900
    assert "quoted" not in outcomes
    assert effects == []
    await run(agent, await RunState.from_string(agent, text))
    assert effects == [("pay", f"ada {MARKER}", 3)]


@pytest.mark.sweep
async def test_many_flipped_bytes(effects: Effects, sweep_size: int) -> None:
    """As many as one likes."""
    agent, state = await paused(effects, [call("pay", "c1", to=f"ada {MARKER}")])
    state.approve(item_of(state, "c1"))
    text, rng = state.to_string(), random.Random()
    for _ in range(100 * sweep_size):
        assert await flipped(agent, text, rng) != "quoted"
    assert effects == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
PARTS = ("schema_version", "run", "agent", "context", "log", "undelivered", "mac")


@given(st.dictionaries(st.sampled_from(PARTS), JSON | st.just("1")) | JSON)
def test_no_value_but_a_signed_state_is_believed(data: Any) -> None:
    agent = Agent("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEYTURN_SECRET", KEY)
        with pytest.raises(StateRejected):
            asyncio.run(RunState.from_json(agent, data))
        with pytest.raises(StateRejected):
            asyncio.run(RunState.from_string(agent, json.dumps(data)))


def mutated(value: Any, rng: random.Random) -> Any:
    """A JSON value with one thing in it replaced, dropped or doubled."""
    odd = [None, "", "r", "x", -1, 0, 2**70, 1.5, True, [], {}, [[0, 9]], "r/1.0", "r/9.9"]
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        fate = rng.random()
        if fate < 0.1:
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: rng.choice(odd) if fate < 0.25 else mutated(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        fate = rng.random()
        if fate < 0.1:
            return [*value[:place], *value[place + 1 :]]
        if fate < 0.2:
            return [*value[: place + 1], *value[place:]]
        return [*value[:place], mutated(value[place], rng), *value[place + 1 :]]
    return rng.choice(odd)


async def unsigned_mutant(agent: Agent[Any], data: dict[str, Any], rng: random.Random, run: Run) -> str:
    """A state whose reader trusts its source, and whose source was damaged: a typed error or a run, never a crash."""
    part = rng.choice(["log", "log", "log", "undelivered", "context"])
    lines = [json.loads(line) for line in data[part].split("\n")]
    lines = [mutated(line, rng) if rng.random() < 0.5 else line for line in lines]
    changed = {**data, part: "\n".join(json.dumps(line) for line in lines)}
    try:
        state = await RunState.from_json(agent, changed, allow_unsigned=True)
        for item in state.get_interruptions():
            state.reject(item)
        await run(agent, state)
    except KeyturnError as error:
        return str(error)
    return ""


@pytest.mark.sweep
async def test_a_damaged_unsigned_state_is_a_typed_error(run: Run, sweep_size: int) -> None:
    """Also where the MAC is not there to catch it, the damage is named or harmless."""
    effects = Effects()
    agent, state = await paused(effects, [call("pay", "c1", to=MARKER), call("pay", "c2", to="bob")])
    state.approve(item_of(state, "c1"))
    data = {key: value for key, value in state.to_json().items() if key != "mac"}
    for seed in range(4 * sweep_size):
        assert MARKER not in await unsigned_mutant(agent, data, random.Random(seed), run)


# ------------------------------------------------------------------------------- 33: errors quote no contents


async def test_errors_about_states_and_decisions_quote_no_contents(run: Run, effects: Effects) -> None:
    """Whatever is wrong, what is in the state stays in the state."""
    agent = payer(effects, [call("pay", "c1", to=MARKER)])
    result = await run(agent, MARKER, context={"secret": MARKER})
    state = result.to_state()
    item = item_of(state, "c1")
    said: list[BaseException] = []

    async def expect(kind: type[BaseException], attempt: Callable[[], Any]) -> None:
        async def attempted() -> None:
            done = attempt()
            if asyncio.iscoroutine(done):
                await done

        with pytest.raises(kind) as raised:
            await attempted()
        said.append(raised.value)

    stale = result.to_state()
    stale.approve(item_of(stale, "c1"), note=MARKER)
    other = (await run(payer(effects, [call("pay", "c1", to=MARKER)]), MARKER)).interruptions[0]
    await expect(NotPending, lambda: state.approve(other))
    await expect(NotPending, lambda: state.resolve(item, "ran", MARKER))
    await expect(UserError, lambda: state.resolve(item, cast("Any", MARKER)))
    await expect(UserError, lambda: state.approve(item, edit={"to": MARKER, "amount": MARKER}))
    text = state.to_string()
    bare = Agent("a", model=script("done"))
    await expect(ToolMissing, lambda: run(bare, state))
    await expect(AgentMissing, lambda: RunState.from_string(Agent("b"), text))
    await expect(StateRejected, lambda: RunState.from_string(agent, text.replace(MARKER, MARKER[::-1], 1)))
    state.approve(item)
    await run(agent, state)
    await expect(Conflict, lambda: run(agent, stale))
    quoted = [error for error in said if MARKER in str(error) or MARKER[::-1] in str(error)]
    assert quoted == said[2:3], "only what the caller just passed may be told back to the caller"
