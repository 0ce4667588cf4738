"""The trial of texts finds a function whose time grows with the square of a text, and knows one that does not."""

from __future__ import annotations

import keyturn.presenting
from trials.texts import LONGEST, NO_TEXT, grows, readers, texts


def test_growth_is_read_from_two_lengths() -> None:
    assert not grows(lambda length: length / 1e6, 8_000)
    assert not grows(lambda length: length * length.bit_length() / 1e7, 8_000)
    assert grows(lambda length: length * length / 1e9, 8_000)
    assert grows(lambda length: 0.003 if length == 8_000 else LONGEST, 8_000)


def test_what_takes_no_time_may_grow() -> None:
    assert not grows(lambda length: length * length / 1e14, 8_000)


def test_a_text_has_about_the_length_that_was_asked_for() -> None:
    assert all(0.5 < len(text) / 8_000 < 1.5 for _name, text in texts(8_000))


def test_the_functions_of_texts_are_found_where_they_are() -> None:
    found = {reader.name: reader.annotations for reader in readers(keyturn.presenting)}
    assert found["keyturn.presenting.pressure:plain_words"] == ("str",)
    assert all(set(annotations) - set(NO_TEXT) for annotations in found.values())
