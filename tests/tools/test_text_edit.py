"""One text in place of another; what a workspace does with it is tested there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyturn.tools.file_problems import EditRefused
from keyturn.tools.text_edit import replaced

TEXT = st.text(st.sampled_from("ab\n"), max_size=30)


@given(TEXT, TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=3), TEXT)
def test_one_place_is_replaced_and_nothing_else(before: str, after: str, old: str, new: str) -> None:
    text = before + old + after
    places = sum(text.startswith(old, at) for at in range(len(text)))
    try:
        made = replaced(text, old, new)
    except EditRefused:
        assert places != 1 or old == new
    else:
        assert made == (before + new + after, 1)
        assert places == 1


@given(TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=3))
def test_every_place_is_replaced(text: str, old: str) -> None:
    if old in text:
        made, count = replaced(text, old, "-", every=True)
        assert (made, count) == (text.replace(old, "-"), text.count(old))
