"""Of two lines those words are marked that differ; a run of them that came or went is marked from a word on."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as some

from keyturn.core.preview import Diff, Preview
from keyturn.server.web.blocks import blocks_of

WORDS = some.lists(some.sampled_from(["ann@x", "ben@x", "cy", '"', ",", "a"]), min_size=4, max_size=9)


def sides(before: str, after: str) -> list[list[tuple[bool, str]]]:
    [block] = blocks_of(Preview((Diff(f"{before}\n", f"{after}\n"),)), None)
    [line] = block.pairs
    assert line.before is not None
    assert line.after is not None
    both = line.before.pieces, line.after.pieces
    return [[(changed, html.unescape(str(text))) for changed, text in pieces] for pieces in both]


@given(words=WORDS, at=some.integers(0, 11), gone=some.booleans())
def test_what_is_not_marked_is_the_same_on_both_sides(words: list[str], at: int, gone: bool) -> None:
    long, short = " ".join(words), " ".join(words[: at % len(words)] + words[at % len(words) + 1 :])
    before, after = sides(long, short) if gone else sides(short, long)
    assert ["".join(text for _, text in side) for side in (before, after)] == ([long, short] if gone else [short, long])
    plain = ["".join(text for changed, text in side if not changed) for side in (before, after)]
    assert plain[0] == plain[1] or any(len(side) == 1 for side in (before, after))


def test_an_item_that_was_taken_out_is_marked_with_its_quotes() -> None:
    before, _ = sides('to: ["ann@x.org", "ben@x.org", "cy@x.org"]', 'to: ["ann@x.org", "cy@x.org"]')
    assert [text for changed, text in before if changed] == ['"ben@x.org", ']
