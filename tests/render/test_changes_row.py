"""What an edit changed stands in the two rows that tell of it, however long the arguments are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from keyturn.render.one_row import LEAST, changes_row

TEXTS = some.text(alphabet="ab \n\u202e\\", max_size=60) | some.text(max_size=20)
VALUES = TEXTS | some.integers() | some.booleans() | some.lists(TEXTS, max_size=4)


@given(before=TEXTS, after=TEXTS, same=some.text(alphabet="xyz", max_size=300))
def test_the_two_rows_of_a_change_differ(before: str, after: str, same: str) -> None:
    old, new = changes_row({"text": same + before + same}, {"text": same + after + same}, 4 * LEAST)
    assert (old == new) == (before == after)
    assert len(old) <= 5 * LEAST


@given(given=some.dictionaries(some.sampled_from("abcdef"), VALUES, min_size=1), changed=some.sampled_from("abcdef"))
def test_only_what_was_changed_is_named(given: dict[str, Any], changed: str) -> None:
    old, new = changes_row(given, {**given, changed: "anew"}, 112)
    assert not (old or new) if given.get(changed) == "anew" else new == f'{changed}: "anew"'
    if changed not in given:
        assert old == f"{changed} left out"


def test_one_item_that_was_taken_out_of_a_long_list_is_seen() -> None:
    everybody = [f"customer-{number}@example.org" for number in range(40)]
    old, new = changes_row({"to": everybody}, {"to": everybody[:20] + everybody[21:]}, 112)
    assert '-20@example.org", "customer-21@' in old
    assert ("21@" in new, "20@" in new) == (True, False)
