"""Every order of a small world keeps every promise as far as this goes, and a core that is broken is caught."""

from __future__ import annotations

from itertools import count

from trials.explore.broken import SHOWN
from trials.explore.canon import of_world
from trials.explore.casts import CASTS
from trials.explore.moves import Spares, happen
from trials.explore.seen import Seen
from trials.explore.series import caught, trace
from trials.explore.walk import Walk, Walked
from trials.explore.world import World

STATES = 300
# Of the rules that only the walk tries, those that show within a few hundred states.
SHORT = (
    "the requester's vote counts",
    "a role is not asked for",
    "a grant is used once too often",
    "a standing rejection is passed over",
    "a look of any length is enough",
    "a drill is decided like any run",
    "one of two is enough",
    "who acts for somebody is another",
    "in doubt, run again",
    "a fork carries votes along",
    "a fork carries looks and confirmations along",
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
    assert all(map(seen.add, made))
    assert not any(map(seen.add, made))
    assert len(seen) == len(made)
    assert next(number for number in count(1) if seen.add(number.to_bytes(16, "big"))) == 1
