"""A preview of changes shows each of them, all of it, and what it was made of."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn import Diff, Text
from keyturn.tools.filesystem.staging import Change, File
from keyturn.tools.patches.change_preview import WHOLE, preview_of
from tests.effort import some
from tests.table import each


def change(before: str | None, after: str | None, path: str = "a.txt") -> Change:
    file = None if before is None else File(path, before.encode())
    return Change(path, file, None if after is None else after.encode())


@each(
    ("made", "blocks", "summary"),
    [
        (change("a\n", "b\n"), (Diff("a\n", "b\n", "a.txt"),), "update 'a.txt'"),
        (change(None, "b\n"), (Diff("", "b\n", "a.txt", "a new file"),), "create 'a.txt'"),
        (change("a\n", None), (Diff("a\n", "", "a.txt", "the file is deleted"),), "delete 'a.txt'"),
        (change(None, ""), (Text("a.txt: no line of it changes", "a new file"),), "create 'a.txt'"),
        (change("", None), (Text("a.txt: no line of it changes", "the file is deleted"),), "delete 'a.txt'"),
        (change("a", "a"), (Text("a.txt: no line of it changes"),), "update 'a.txt'"),
        (change("a\r\n", "a\n"), (Diff("a\r\n", "a\n", "a.txt"),), "update 'a.txt'"),
    ],
)
def test_a_change_is_shown(made: Change, blocks: tuple[Text | Diff, ...], summary: str) -> None:
    preview = preview_of([made])
    assert (preview.blocks, preview.summary) == (blocks, summary)
    before = made.before
    assert preview.basis == {"a.txt": sha256(before.data).hexdigest() if before else ""}


def test_a_move_is_one_change() -> None:
    old = File("a", b"x\n")
    changes = [Change("a", old, None), Change("b", None, b"y\n", 0o644, "a", b"x\n")]
    preview = preview_of(changes)
    assert preview.blocks == (Diff("x\n", "y\n", "b", "moved from a"),)
    assert preview.summary == "move 'a' to 'b'"
    assert list(preview.basis) == ["a", "b"]


def test_what_is_no_text_is_told_by_its_digest() -> None:
    [block] = preview_of([Change("a", File("a", b"\0\1"), b"text")]).blocks
    assert isinstance(block, Text)
    assert sha256(b"\0\1").hexdigest() in block.text
    assert sha256(b"text").hexdigest() in block.text


def test_many_files_are_summed_up_and_all_shown() -> None:
    preview = preview_of([change("a", "b", f"f{number}") for number in range(8)])
    assert len(preview.blocks) == 8
    assert preview.summary.endswith("'f4' and 3 more")


LONG = [f"line {number}" for number in range(1, 20_001)]


def test_of_a_large_file_the_changed_places_are_shown() -> None:
    after = [*LONG[:9], "ten", *LONG[10:15_000], "more", *LONG[15_000:-1]]
    preview = preview_of([change("\n".join(LONG), "\n".join(after))])
    blocks = [block for block in preview.blocks if isinstance(block, Diff)]
    assert [block.label for block in blocks] == [
        "lines 7 to 13 of 20000",
        "lines 14998 to 15003 of 20000",
        "lines 19996 to 20000 of 20000",
    ]
    assert blocks[0].before == "".join(f"line {number}\n" for number in range(7, 14))
    assert "\nten\n" in blocks[0].after
    assert "\nmore\n" in blocks[1].after
    assert blocks[2].before.endswith("line 20000")
    assert sum(len(block.before) for block in blocks) < 500


@settings(max_examples=some(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4000), st.sampled_from(["drop", "new", "other"])), max_size=8), st.booleans())
def test_no_change_is_hidden_in_a_large_file(places: list[tuple[int, str]], ended: bool) -> None:
    """Put back in their places, the parts make the new text of the old one."""
    lines = [f"line {number % 50} {'x' * 20}" for number in range(4000)]
    before = "\n".join(lines) + "\n" * ended
    for place, what in places:
        lines[place : place + (what != "new")] = [] if what == "drop" else [what]
    after = "\n".join(lines) + "\n"
    assert len(before) > WHOLE
    rest = before.split("\n")
    old = [line + "\n" for line in rest[:-1]] + ([rest[-1]] if rest[-1] else [])
    made: list[str] = []
    done = 0
    for block in preview_of([change(before, after)]).blocks:
        if isinstance(block, Text):
            assert before == after
            continue
        words = block.label.split()
        start = int(words[1]) - 1 if words[0] == "lines" else int(words[2])
        count = int(words[3]) - start if words[0] == "lines" else 0
        assert "".join(old[start : start + count]) == block.before
        made += [*old[done:start], block.after]
        done = start + count
    assert "".join([*made, *old[done:]]) == after
