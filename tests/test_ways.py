"""What `make test` tries of the ways to run and to resume, and what is left to the trials."""

from __future__ import annotations

from collections import Counter
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

from keyturn.testing import ToolSuite
from tests.ways import OF_EACH_KIND, is_of_another_kind, left_to_the_trials, on_other_stores

FILE = ModuleType("test_file")


def item(test: str, kind: type | None = None, *, each: bool = False, **given: Any) -> Any:
    where = f"test_file.py::{kind.__name__}" if kind else "test_file.py"
    marks = {"each": True} if each else {}
    about = SimpleNamespace(params=given)
    return SimpleNamespace(
        nodeid=f"{where}::{test}[x]",
        originalname=test,
        cls=kind,
        module=FILE,
        callspec=about,
        get_closest_marker=marks.get,
    )


def tried(items: list[Any]) -> list[dict[str, Any]]:
    """Return what is tried, by what each test is given."""
    left = [id(each) for each in left_to_the_trials(items)]
    return [each.callspec.params for each in items if id(each) not in left]


def test_tests_are_tried_plain_in_hand_or_streamed_saved_in_turn() -> None:
    ways = [{"run": run, "saved": saved} for run, saved in product(("plain", "streamed"), (False, True))]
    found = [tried([item(f"test {number}", **way) for way in ways]) for number in range(16)]
    assert all(len(each) == 1 for each in found)
    assert [[ways[0]] in found, [ways[3]] in found, len({str(each) for each in found})] == [True, True, 2]
    assert len(tried([item("test", way="of another sort"), item("another")])) == 2


def test_each_subject_is_tried_in_one_way_and_each_value_in_each() -> None:
    stores, words, ways = ("memory", "sqlite"), ("yes", "no", "ask"), ("plain", "streamed")
    given = [
        {"store": s, "word": w, "run": r, "saved": c} for s, w, r, c in product(stores, words, ways, (False, True))
    ]
    found = tried([item("test", each=True, **way) for way in given])
    assert sorted((each["store"], each["word"]) for each in found) == sorted(product(stores, words))
    assert {(each["store"], each["run"]) for each in found} == {*product(stores, ways)}
    assert {(each["run"], each["saved"]) for each in found} == {("plain", False), ("streamed", True)}


def test_a_third_of_the_subjects_are_tried_and_each_of_their_values() -> None:
    stores, words = ("memory", "sqlite", "postgresql"), ("yes", "no", "ask")
    given = [{"store": store, "word": word} for store, word in product(stores, words)]
    for number in range(16):
        found = tried([item(f"test {number}", **each) for each in given])
        assert [len(found), {each["store"] for each in found}, {each["word"] for each in found}] == [
            3,
            {*stores},
            {*words},
        ]
        assert len(tried([item(f"test {number}", word=word) for word in words[:2]])) == 1


def test_no_way_is_left_out_where_there_are_more_ways_than_subjects() -> None:
    given = [{"word": word, "run": run} for word, run in product(("yes", "no"), ("plain", "streamed", "events"))]
    found = tried([item("test", each=True, **way) for way in given])
    assert {each["run"] for each in found} == {"plain", "streamed", "events"}
    assert len(found) == 3


def test_kinds_of_a_shared_suite_take_turns() -> None:
    class Suite:
        def test_one(self) -> None: ...
        def test_another(self) -> None: ...

    kinds = [type(name, (Suite,), {}) for name in ("TestFirst", "TestSecond")]
    vars(FILE).update({kind.__name__: kind for kind in kinds})
    for test in ("test_one", "test_another"):
        found = [tried([item(test, kind, way=way) for way in ("plain", "streamed")]) for kind in kinds]
        assert sorted(each["way"] for ways in found for each in ways) == ["plain", "streamed"]


def test_each_promise_of_a_suite_is_tried_for_some_kinds_of_tools_and_some_promises_for_each_kind() -> None:
    kinds = [type(f"TestKind{number}", (ToolSuite,), {}) for number in range(30)]
    suite = [name for name in dir(ToolSuite) if name.startswith("test_")]
    tried = Counter(
        name for kind in kinds for test in suite if not is_of_another_kind(item(test, kind)) for name in (test, kind)
    )
    assert tried.keys() == {*suite, *kinds}
    assert tried[OF_EACH_KIND] == len(kinds)
    assert sum(tried[test] for test in suite) < len(kinds) * len(suite) / 2


def test_a_test_that_knows_no_store_is_tried_on_one_of_them() -> None:
    stores = ("memory", "sqlite", "postgresql")
    given = [[item(f"test {number}", store_url=store) for store in stores] for number in range(64)]
    left = on_other_stores(each for items in given for each in items)
    kept = [[each.callspec.params["store_url"] for each in items if each not in left] for items in given]
    assert {len(each) for each in kept} == {1}
    assert {name for [name] in kept} == {*stores}
    assert on_other_stores([item("test 1", store_url="postgresql")]) == []


def test_what_is_chosen_is_chosen_again_alone() -> None:
    items = [item("test", word=word, run=run) for word in "abc" for run in ("plain", "streamed")]
    left = left_to_the_trials(items)
    assert not any(left_to_the_trials([each]) for each in items if each not in left)
