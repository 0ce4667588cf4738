"""A random program of agents: what it consists of, drawn by a seed. It imports neither SDK."""

from __future__ import annotations

import json
import random
from typing import Any

World = dict[str, Any]
TOOLS = ("add", "echo", "boom", "nothing", "gated", "gatedfn", "obj", "sync")
#: What goes along with each tool that has parameters.
ARGUMENTS = {"add": {"a": 1, "b": 2}, "echo": {"text": "hey"}, "gated": {"n": 3}, "gatedfn": {"n": 7}}
ANSWERS = ("Done.", "Done.", '{"n": 3}', "[1, 2]")


def world(seed: int) -> World:
    """Draw the program of a seed."""
    draw = random.Random(seed)
    many = draw.choice([1, 1, 2, 3])
    agents = [_agent(draw, place, many) for place in range(many)]
    for other in {
        other for agent in agents for other in agent["as_tools"]
    }:  # whose reports are the run's as well, here
        agents[other] |= {"input_guardrail": None, "output_guardrail": None}
    return {
        "agents": agents,
        "max_turns": draw.choice([10] * 5 + [1, 2, 3]),
        "session": draw.random() < 0.25,
        "again": draw.random() < 0.3,
        "config": draw.choice([None] * 4 + ["filter_input", "input_guardrail", "output_guardrail", "settings"]),
        "decisions": [draw.choice(["approve"] * 4 + ["reject", "words", "always", "never"]) for _ in range(12)],
        "saved": draw.random() < 0.4,
        "handled": many == 1 and agents[0]["output"] is None and draw.random() < 0.3,
        "formatted": draw.random() < 0.2,
        "conversation": draw.random() < 0.5,
        "replies": _replies(draw, agents),
    }


def _agent(draw: random.Random, place: int, many: int) -> dict[str, Any]:
    tools = draw.sample(TOOLS, draw.randint(0, 5))
    guards = ("in_reject", "in_raise", "out_reject", "out_raise", "out_allow", "off", "off_here")
    return {
        "tools": tools,
        "guards": {name: draw.choice(guards) for name in tools if name != "boom" and draw.random() < 0.25},
        "handoffs": [other for other in range(many) if other != place and draw.random() < 0.6],
        "handoff": draw.choice(["agent", "agent", "handoff", "typed"]),
        "ends": draw.choice(["run_llm_again"] * 4 + ["stop_on_first_tool", "stop_at", "function"]),
        "reset": draw.random() < 0.8,
        "choice": draw.choice([None, None, None, "required", "auto"]),
        "output": draw.choice([None] * 4 + ["Out", "list"]),
        "input_guardrail": draw.choice([None] * 5 + ["pass", "trip", "raise"]),
        "output_guardrail": draw.choice([None] * 5 + ["pass", "trip", "raise"]),
        "instructions": draw.choice(["text", "function", None]),
        "hooks": draw.random() < 0.4,
        "as_tools": [other for other in range(place + 1, many) if draw.random() < 0.3],
    }


def _replies(draw: random.Random, agents: list[dict[str, Any]]) -> list[Any]:
    used = [tool for agent in agents for tool in agent["tools"]] or ["add"]
    replies = [_reply(draw, used, len(agents)) for _ in range(draw.randint(1, 7))]
    if draw.random() < 0.7:
        replies.append([["text", draw.choice(ANSWERS)]])
    return replies


def _reply(draw: random.Random, used: list[str], many: int) -> Any:
    if draw.random() < 0.03:
        return "raise"
    if draw.random() < 0.02:
        return [["refusal", "No."]]
    parts: list[list[str]] = []
    if draw.random() < 0.15:
        parts.append(["reasoning"])
    if draw.random() < 0.25:
        parts.append(["text", draw.choice(["Thinking.", "One moment."])])
    parts += [_part(draw, used, many) for _ in range(draw.choice([0, 1, 1, 1, 2, 3]))]
    if all(part[0] == "reasoning" for part in parts):
        parts.append(["text", draw.choice([*ANSWERS, ""])])
    return parts


def _part(draw: random.Random, used: list[str], many: int) -> list[str]:
    chance = draw.random()
    if chance < 0.76:
        tool = draw.choice(used)
        given = dict(ARGUMENTS.get(tool, {}))
        if "n" in given:
            given["n"] = draw.randint(0, 9)
        return ["call", tool, json.dumps(given)]
    if chance < 0.84 and many > 1:
        return ["call", f"transfer_to_a{draw.randrange(many)}", '{"n": 1}']
    if chance < 0.92 and many > 1:
        return ["call", f"ask_a{draw.randrange(many)}", '{"input": "sub"}']
    if chance < 0.93:
        return ["call", "unknown_tool", "{}"]
    return ["text", draw.choice(ANSWERS)]
