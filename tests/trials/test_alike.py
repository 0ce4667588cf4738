"""Programs of the OpenAI Agents SDK do the same here after an import change: hooks, guardrails, models and results.

What that SDK did of random programs is recorded in `alike.json` by `make alike ARGS=--record`; the trial runs both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.effort import part
from trials.alike.__main__ import Ran, compared, digests, seen
from trials.alike.program import traced

RECORDED: list[Any] = json.loads(Path(__file__).with_name("alike.json").read_text("utf-8"))
HINT = "run `make alike` to see what that SDK does"


async def test_random_programs_do_what_that_sdk_does() -> None:
    for seed, streamed, there in part(RECORDED):
        here = digests(Ran(seed, streamed, await traced("keyturn", seed, streamed)))
        differing = sorted(kind for kind in {*there, *here} if there.get(kind) != here.get(kind))
        assert not differing, f"seed {seed}, {'streamed' if streamed else 'plain'}: {', '.join(differing)}; {HINT}"


def result(*names: str) -> list[Any]:
    return ["input list", [{"type": "function_call_output", "output": name} for name in names]]


def test_what_differs_on_purpose_is_left_out() -> None:
    asked, decided, over = ["model", "go"], ["decided", "approve"], ["raised", "MaxTurnsExceeded"]
    alike: list[tuple[list[Any], list[Any]]] = [
        ([result("a", "b")], [result("b", "a")]),
        ([result("a")], [result("a", "not executed: it still requires a decision")]),
        ([asked, decided, ["ran", "pay"], over], [asked, decided, over]),
        ([asked, ["ran", "a"], ["raised", "UserError"]], [asked, ["ran", "a"], ["ran", "b"], ["raised", "UserError"]]),
    ]
    for there, here in alike:
        assert seen(Ran(0, False, there)) == seen(Ran(0, False, here))


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ([["ran", "a"], ["model", "go"]], [["model", "go"], ["ran", "a"]]),
        ([["raised", "UserError"]], [["raised", "ValueError"]]),
        ([["result", "a", "b"]], [["result", "b", "a"]]),
        ([["model", "go"], ["ran", "a"]], [["model", "go"]]),
    ],
)
def test_all_else_is_a_difference(there: list[Any], here: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert compared([Ran(3, True, there)], [Ran(3, True, here)], show=1) == 1
    assert "seed 3, streamed" in capsys.readouterr().out
