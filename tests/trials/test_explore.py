"""Every order of a small world keeps every promise as far as this goes, and a core that is broken is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from trials.explore import canon
from trials.explore import walk as walking
from trials.explore.__main__ import ended, row, write
from trials.explore.broken import SHOWN
from trials.explore.canon import of_world
from trials.explore.casts import CASTS
from trials.explore.moves import Spares, happen
from trials.explore.seen import Seen
from trials.explore.series import caught, trace
from trials.explore.walk import Walk, Walked
from trials.explore.world import World

STATES = 100
# Of the rules that only the walk tries, those that show within a few hundred states.
SHORT = (
    "the requester's vote counts",
    "a role is not asked for",
    "a grant is used once too often",
    "a standing rejection is passed over",
    "a look of any length is enough",
    "a drill is decided like any run",
    "a queued run begins twice",
    "a question back is a rejection",
    "anybody marks",
    "one of two is enough",
    "who acts for somebody is another",
    "in doubt, run again",
    "a fork carries votes along",
    "a fork carries looks and confirmations along",
    "one person meets two steps of a chain",
    "an emergency approval of a chain never goes stale",
)


def told(walk: Walked) -> str:
    return f"{walk.name}\n{trace(walk)}" if walk.broke else ""


def after(name: str, *words: str) -> World:
    """The world of a cast after some acts."""
    cast = CASTS[name]()
    world: World | None = cast.start
    for said in words:
        act = next(act for act in cast.acts if act.words == said)
        assert world is not None
        world = happen(cast, world, act, Spares(world))
    assert world is not None
    return world


def test_every_world_keeps_its_promises() -> None:
    for name, cast in CASTS.items():
        walk = Walk(cast()).go(STATES, 99)
        assert not told(walk)
        assert walk.states >= STATES or walk.closed, name
        assert walk.refused > walk.states, "most of what can be said must be refused"


@pytest.mark.trial
def test_a_broken_core_is_caught_by_its_shortest_trace() -> None:
    chosen = [each for each in SHOWN if each.mutant.name in SHORT]
    assert len(chosen) == len(SHORT)
    for shown, walk in caught(chosen, 3_000):
        assert walk.broke, shown.mutant.name
    [(_, walk)] = caught([each for each in SHOWN if each.mutant.name == "one of two is enough"], 100)
    assert walk.trace == ["the model replies", "ann approves"]


def test_orders_that_come_to_the_same_are_one_state() -> None:
    horizon = CASTS["quorum"]().horizon
    one = after("steps", "the model replies", "ann looks at it", "zoe, the chief, looks at it")
    other = after("steps", "the model replies", "zoe, the chief, looks at it", "ann looks at it")
    assert of_world(one, horizon) == of_world(other, horizon)
    later = after("quorum", "a second passes", "the model replies", "ann approves")
    sooner = after("quorum", "the model replies", "ann approves")
    assert of_world(later, horizon) == of_world(sooner, horizon)
    waited = after("quorum", "the model replies", "ann approves", "a second passes")
    assert of_world(waited, horizon) != of_world(sooner, horizon)


def test_a_set_of_digests_holds_what_was_added() -> None:
    seen, made = Seen(2), [number.to_bytes(16, "little") for number in range(1, 2_000)]
    assert [seen.place(digest) for digest in made] == list(range(len(made)))
    assert [seen.place(digest) for digest in made] == list(range(len(made)))
    assert len(seen) == len(made)
    assert seen.place((1).to_bytes(16, "big")) == len(made)


def ageless(*_: object) -> int:
    return 0


@pytest.mark.trial
def test_states_that_are_taken_for_one_have_one_future(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "FOLDS", 1)
    assert not told(Walk(CASTS["confirm"]()).go(60, 99))
    monkeypatch.setattr(canon, "_asked", ageless)
    broken = Walk(CASTS["confirm"]()).go(60, 99)
    assert broken.broke.startswith("fold: taken for what comes of: the model replies"), told(broken)
    assert broken.trace[-1].endswith(": here it leads elsewhere")


def test_the_table_replaces_the_one_in_the_manual(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- explored -->\nold\n<!-- -->\nafter\n")
    write(page, "new")
    assert page.read_text() == "before\n<!-- explored -->\nnew\n<!-- -->\nafter\n"


def test_a_world_that_has_no_more_states_says_at_which_depth_it_closed() -> None:
    whole = Walk(CASTS["queue"]()).go(200, 3)
    assert ended(whole) == f"queue: cut after depth 3, 21 states, {whole.seconds:,.0f} s"
    whole.closed = True
    assert row(whole)[4] == "at depth 3"
