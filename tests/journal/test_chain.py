"""The chain: whatever is done to the lines or to their hashes is found, and found at its place."""

from __future__ import annotations

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.codec import GENESIS, link
from keyturn.journal.chain import linked, verify

LINES = st.lists(st.binary(max_size=12), min_size=1, max_size=8)
AT_LEAST_TWO = st.lists(st.binary(max_size=12), min_size=2, max_size=8)


def first_difference(one: list[bytes], other: list[bytes]) -> int | None:
    return next((index for index, (a, b) in enumerate(zip_longest(one, other)) if a != b), None)


def test_a_chain_begins_at_genesis() -> None:
    assert linked([]) == []
    assert [hash_ for _, hash_ in linked([b"1", b"2"])] == [link(GENESIS, b"1"), link(link(GENESIS, b"1"), b"2")]
    assert verify([], []) is None


@given(LINES, st.integers(0, 8))
def test_a_chain_can_be_made_in_parts(lines: list[bytes], cut: int) -> None:
    hashes = linked(lines)
    first = linked(lines[:cut])
    assert first + linked(lines[cut:], first[-1][1] if first else GENESIS) == hashes
    assert verify(lines, hashes) is None


@given(LINES, st.data())
def test_any_flipped_bit_is_located(lines: list[bytes], data: st.DataObject) -> None:
    hashes = linked(lines)
    index = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[index] or b"\0")
    line[data.draw(st.integers(0, len(line) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert verify([*lines[:index], bytes(line), *lines[index + 1 :]], hashes) == index


@given(LINES, LINES)
def test_any_other_lines_are_located_where_they_begin_to_differ(lines: list[bytes], others: list[bytes]) -> None:
    assert verify(others, linked(lines)) == first_difference(lines, others)


@given(AT_LEAST_TWO, st.data())
def test_a_deleted_line_is_located(lines: list[bytes], data: st.DataObject) -> None:
    hashes, index = linked(lines), data.draw(st.integers(0, len(lines) - 1))
    left = lines[:index] + lines[index + 1 :]
    assert verify(left, hashes) == first_difference(lines, left)
    # Together with its hash as well, unless it was the last: a cut tail shows only against a head kept elsewhere.
    cut_tail = index == len(lines) - 1
    assert verify(left, hashes[:index] + hashes[index + 1 :]) == (None if cut_tail else index)


@given(AT_LEAST_TWO, st.data())
def test_swapped_lines_are_located(lines: list[bytes], data: st.DataObject) -> None:
    hashes = linked(lines)
    one, other = sorted(data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2, unique=True)))
    swapped, swapped_hashes = lines.copy(), hashes.copy()
    swapped[one], swapped[other] = lines[other], lines[one]
    swapped_hashes[one], swapped_hashes[other] = hashes[other], hashes[one]
    assert verify(swapped, hashes) == (one if lines[one] != lines[other] else None)
    assert verify(swapped, swapped_hashes) == one
    assert verify(lines, swapped_hashes) == one


@given(LINES, st.binary(max_size=12), st.data())
def test_an_added_line_is_located(lines: list[bytes], extra: bytes, data: st.DataObject) -> None:
    hashes, index = linked(lines), data.draw(st.integers(0, len(lines)))
    more = [*lines[:index], extra, *lines[index:]]
    assert verify(more, hashes) == first_difference(lines, more)


@given(LINES, st.data())
def test_an_edited_or_missing_hash_is_located(lines: list[bytes], data: st.DataObject) -> None:
    hashes, index = linked(lines), data.draw(st.integers(0, len(lines) - 1))
    assert verify(lines, hashes[:index]) == index
    digest, hash_ = hashes[index]
    wrong = data.draw(st.text(max_size=64).filter(lambda text: text not in (digest, hash_)))
    for link_ in ((digest, wrong), (wrong, hash_)):
        assert verify(lines, [*hashes[:index], link_, *hashes[index + 1 :]]) == index


@given(LINES, st.data())
def test_an_erased_line_leaves_a_chain_that_can_be_verified(lines: list[bytes], data: st.DataObject) -> None:
    links, gone = linked(lines), data.draw(st.sets(st.integers(0, len(lines) - 1)))
    left = [None if index in gone else line for index, line in enumerate(lines)]
    assert verify(left, links) is None
    index = data.draw(st.integers(0, len(lines) - 1))
    links[index] = ("0" * 64, links[index][1])
    assert verify(left, links) == index
