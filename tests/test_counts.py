"""What the standard shapes of work cost does not grow unseen: counts that do not depend on the machine are held.

`benchmarks/counts.json` has them; `make counts ARGS=--write` writes it anew, in the commit that says why a count rose.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.counting import COUNTS
from benchmarks.shapes import SHAPES
from tests.forked import run

HELD = json.loads((Path(__file__).parents[1] / "benchmarks" / "counts.json").read_text(encoding="ascii"))
# How much more than is held is taken for the same: other interpreters call their own libraries a little differently.
SLACK = {"calls": 1.03, "bytes": 1.03}
# How often a worker wakes up, and what it finds then, depends on who is first.
WAKING = {"pick-up": 1.3}


#: A server of PostgreSQL takes as long as all the others.
ON_POSTGRESQL = [shape.key for shape in SHAPES if shape.key.startswith("postgres")]
OTHERS = [shape.key for shape in SHAPES if shape.key not in ON_POSTGRESQL]


@pytest.mark.parametrize(
    "shapes", [OTHERS, pytest.param(ON_POSTGRESQL, marks=pytest.mark.trial)], ids=["in one process", "on PostgreSQL"]
)
def test_no_shape_of_work_costs_more_than_it_did(shapes: list[str]) -> None:
    command = ["-m", "benchmarks.counts", "--json", "--shapes", ",".join(shapes)]
    done = run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert shapes == ON_POSTGRESQL or found.keys() == {*shapes}, done.stderr
    dearer = [
        f"{key}: {what} {found[key][what]}, held {held[what]}"
        for key, held in HELD.items()
        if key in found
        for what in COUNTS
        if found[key][what] > held[what] * SLACK.get(what, 1) * WAKING.get(key, 1)
    ]
    assert not dearer, "make it cheaper, or say why in the commit and `make counts ARGS=--write`: " + "; ".join(dearer)


def test_every_shape_is_held() -> None:
    assert HELD.keys() == {shape.key for shape in SHAPES}
