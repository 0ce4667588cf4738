"""Where a hunk belongs: the place that is nearest to the line it names, in time linear in the file."""

from __future__ import annotations

from itertools import product

from keyturn.tools.patches.hunks import Haystack, Hunk, HunkRow, apply_hunks


def test_the_last_match_is_the_one_of_rfind() -> None:
    for lines in product(("", "a", "ab"), repeat=4):
        haystack = Haystack([*lines])
        for needle, start, end in product(("\n", "\na\n", "\n\na\n", "\na\na\n"), range(8), range(10)):
            assert haystack.last(needle, start, end) == haystack.text.rfind(needle, start, end)


def test_a_hunk_that_names_a_line_is_found_in_a_file_of_equal_lines() -> None:
    """`str.rfind` compared each of these lines with each line of the hunk, and no other thread ran meanwhile."""
    many = 80_000
    text = "a\n" * (2 * many) + "x\n" + "a\n" * many
    rows = (HunkRow("-", "x"), *(HunkRow(" ", "a") for _ in range(many)))
    assert apply_hunks(text, [Hunk(rows, near=2 * many - 1)]) == "a\n" * (3 * many)
