"""One person is one voice, however their id is written, in whose place they decide, and at whatever step."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

from msgspec.structs import replace

from keyturn.audit.deciders import objection
from keyturn.audit.voices import heard, one_voice, reads
from keyturn.core import commands as cm
from keyturn.core.approval import Approval
from keyturn.core.errors import NotAllowed
from keyturn.core.lookalikes import TWINS, looks_as
from keyturn.core.people import Decider, barred, is_one_of, same_voice, voices
from keyturn.core.policy import Share, Verdict
from keyturn.core.run import new_run
from keyturn.engine.effects.quotas import count_of
from tests.audit.forging import broken, decided, of, on, voted
from tests.core.samples import person
from tests.table import each

#: Ids that nobody can tell from "eve" on a screen.
EVES = (
    "eve ",
    " eve",
    "Eve",
    "EVE",
    "\uff45ve",
    "\u0435ve",
    "ev\u0435",
    "e\u200bve",
    "eve\u200d",
    "\u2060eve",
    "e\u00adve",
)
OTHERS = ("eva", "evee", "steve", "e ve", "ev", "3ve", "\u00e9ve")


def who(name: str, acting_for: str = "", **more: Any) -> Decider:
    return replace(person(name, "ops", **more), acting_for=acting_for)


def test_ids_that_look_alike_read_alike_and_no_others() -> None:
    for name in EVES:
        assert looks_as(name) == reads(name) == "eve", ascii(name)
        assert is_one_of(name, "bob", "eve")
    for name in OTHERS:
        assert looks_as(name) != "eve", ascii(name)
        assert looks_as(name) == reads(name), ascii(name)
    for plain, twins in TWINS.items():
        for twin in twins:
            assert looks_as(twin) == reads(twin), ascii(twin)
            assert looks_as(looks_as(twin)) == looks_as(twin), f"{plain} {twin!a}"
    for text in (
        "",
        " ",
        "\u200b",
        "x" * 200_000,
        "\u0301" * 60_000,
        "Stra\u00dfe",
        "\u0130",
        "\u0412\u041e\u0412",
        "ann@x.io",
    ):
        assert isinstance(looks_as(text), str)
    assert looks_as("\u0412\u041e\u0412") == looks_as("\u0432\u043e\u0432") == reads("\u0412\u041e\u0412") == "bob"


VOICES = [
    ([who("bob"), who("Bob", "ada")], 1),
    ([who("cyd", "ada"), who("Cyd")], 1),
    ([who("bob", "ada"), who("cyd", "\u0430da")], 1),
    ([who("bob", "ada"), who("ada")], 1),
    ([who("bob", "ada"), who("cyd", "bob")], 2),
    ([who("ada", "bob"), who("bob", "ada")], 2),
    ([who("a", "x"), who("a", "y"), who("A", "z"), who("b", "x"), who("c", "X")], 2),
    ([None, None], 1),
    ([None, who("ada")], 2),
    ([], 0),
]


@each("people, wanted", VOICES)
def test_nobody_speaks_twice_and_nobody_is_spoken_for_twice(people: list[Decider | None], wanted: int) -> None:
    assert voices(people) == heard(people) == wanted


def test_two_ways_to_count_voices_agree() -> None:
    random = Random(7)
    for _ in range(400):
        people = [
            who(speaker, place if place != speaker else "")
            for _ in range(random.randrange(7))
            for speaker, place in [(random.choice("abcD"), random.choice("abcd"))]
        ]
        assert voices(people) == heard(people), people


@each("name", EVES)
def test_a_requester_under_another_spelling_is_excluded(name: str) -> None:
    others = Approval(not_requester=True)
    for requester, decider in (("eve", name), (name, "eve")):
        assert barred(others, who(decider), requester)
        assert barred(others, who("bob", decider), requester)
        assert objection(others, who(decider), requester)
    assert same_voice(who("eve"), who("bob", name))
    assert one_voice(who("eve"), who("bob", name))


@each(
    "first, second",
    [(who("eve"), who(name)) for name in EVES] + [(who("Cyd"), who("cyd", "ada")), (who("bob", "ada"), who("Ada"))],
)
def test_two_spellings_are_one_vote_of_two(first: Decider, second: Decider) -> None:
    pen = on(quorum=2, role="ops")
    pen.decide("approve", by=first)
    pen.decide("approve", by=second)
    assert pen.state() == "asked"
    assert broken(pen.log.steps) is None
    before = pen.copy()
    pen.decide("approve", by=who("zed"))
    assert pen.state() == "approved"
    assert broken(pen.log.steps) is None
    found = broken([*before.log.steps, replace(pen.log.steps[-1], events=[decided(before, by=second)])])
    assert found is not None
    assert found.invariant == "I1"


@each("second", [who("eve"), who("Eve "), who("bob", "\u0435ve")])
def test_who_confirmed_a_call_is_not_the_one_who_decides_it(second: Decider) -> None:
    for terms in ({"role": "ops"}, {"quorum": 2}, {"role": "ops", "break_glass": "ops"}):
        pen = of("zed", confirm=True, **terms)
        pen.decide("approve", by=who("eve", requester=True))
        assert pen.call().confirmed is not None
        glass = {"broke_glass": True, "note": "fire"} if "break_glass" in terms else {}
        for verdict in ("approve", "reject"):
            more = glass if verdict == "approve" else {}
            pen.refuses(NotAllowed, cm.Deliver([pen.decision(verdict, by=second, **more)]))
        said = voted(pen, by=second) if "quorum" in terms else decided(pen, by=second)
        found = broken([*pen.log.steps, replace(pen.log.steps[-1], events=[said])])
        assert found is not None
        assert (found.invariant, "confirmed it" in found.what) == ("I1", True)
    pen.decide("approve", by=who("bob"))
    assert pen.state() == "approved"
    assert broken(pen.log.steps) is None


def test_terms_that_a_policy_adds_take_two_people_too() -> None:
    """A call that waited for a requester and others is not let run, if terms that come later are met by one person."""
    pen = of("zed", confirm=True, role="ops")
    pen.decide("approve", by=who("eve", requester=True))
    pen.decide("approve", by=who("bob"))
    stricter = Verdict("ask", terms=Approval(confirm=True, role="ops", not_requester=True))
    pen(cm.Screen("r/1.0", stricter, on_decision=True))
    assert pen.state() == "approved"


def test_a_limit_of_a_person_is_one_limit_however_they_are_spelled() -> None:
    share = Share("5e1f", "requester", None, Fraction(1), Fraction(9))
    names = set[str | None]()
    for name in ("eve", *EVES):
        run = new_run()
        run.requester = name
        names.add(count_of(run, "desk", share))
    assert len(names) == 1


def test_who_is_named_is_named_exactly() -> None:
    named = Approval(users=["eve"])
    sure = Approval(confirm=True)
    for name in EVES:
        assert barred(named, who(name), None)
        assert barred(sure, who(name), "eve")
