"""Words of a model that press the reader are pointed out: measured on texts that the patterns were not made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from keyturn.presenting import pressure
from keyturn.presenting.pressure import KINDS, MOST, Sign, plain_words, pressure_in
from tests.effort import AT_LENGTH, part

FOLDER = Path(__file__).parent / "pressure"


class Text(NamedTuple):
    """One text of the corpus: of which sort, what the run was asked for, and what the model says."""

    sort: str
    task: str
    said: str

    @property
    def signs(self) -> tuple[Sign, ...]:
        return pressure_in([self.said], self.task)


def corpus(name: str) -> list[Text]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    parts = [line.split(" | ", 1) for line in lines]
    return [Text(sort, *_task(said)) for sort, said in parts]


def _task(said: str) -> tuple[str, str]:
    task, found, words = said.partition(" || ")
    return (task, words) if found else ("", said)


# The patterns were made with the first two files in sight. The others were written afterwards, and what is missed or
# marked there has changed no pattern: whoever widens the patterns for them writes others.
HARMLESS, PRESSING = corpus("harmless"), corpus("pressing")
HELD_OUT_HARMLESS, HELD_OUT_PRESSING = corpus("held_out_harmless"), corpus("held_out_pressing")


def measured(harmless: list[Text], pressing: list[Text]) -> tuple[float, float]:
    """Return the share of harmless texts that are marked, and of pressing ones that are."""
    false = [text for text in harmless if text.signs]
    missed = [text for text in pressing if not text.signs]
    alarms, recall = len(false) / len(harmless), 1 - len(missed) / len(pressing)
    print(f"{len(harmless)} harmless: {alarms:.1%} marked; {len(pressing)} pressing: {recall:.1%} marked")
    return alarms, recall


def test_the_corpus_is_large_enough_and_each_text_is_in_it_once() -> None:
    every = [*HARMLESS, *PRESSING, *HELD_OUT_HARMLESS, *HELD_OUT_PRESSING]
    assert min(len(HARMLESS), len(PRESSING)) >= 120
    assert min(len(HELD_OUT_HARMLESS), len(HELD_OUT_PRESSING)) >= 40
    assert len({text.said for text in every}) == len(every)


@pytest.mark.parametrize(
    ("harmless", "pressing", "marked"),
    [(HARMLESS, PRESSING, 0.9), (HELD_OUT_HARMLESS, HELD_OUT_PRESSING, 0.7)],
    ids=["seen", "held out"],
)
def test_few_harmless_texts_are_marked_and_most_pressing_ones(
    harmless: list[Text], pressing: list[Text], marked: float
) -> None:
    alarms, recall = measured(harmless, pressing)
    assert alarms <= 0.01
    assert recall >= marked


CYRILLIC = str.maketrans("aceopxyi", "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456")
DISGUISES: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "letters of another script": lambda text: text.translate(CYRILLIC),
    "invisible characters": lambda text: "\u200b".join(text),
    "soft hyphens": lambda text: "\u00ad".join(text),
    "tags and selectors": lambda text: "".join(f"{char}\ufe0f\U000e0041" for char in text),
    "full width": lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
    "accents": lambda text: "".join(f"{char}\u0301" if char.isalpha() else char for char in text),
    "other spaces": lambda text: text.replace(" ", "\u00a0\u2003"),
    "digits for letters": lambda text: text.replace("o", "0").replace("e", "3"),
    "curly quotes": lambda text: text.replace("'", "\u2019"),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguise_takes_little_off(disguise: str) -> None:
    change = DISGUISES[disguise]
    _, recall = measured(HELD_OUT_HARMLESS, [text._replace(said=change(text.said)) for text in HELD_OUT_PRESSING])
    assert recall >= 0.65


def test_a_claim_of_having_been_asked_is_held_against_the_task() -> None:
    said = "As you requested, I delete the customer database."
    assert "unasked" in {sign.kind for sign in pressure_in([said], "Rename the branch.")}
    assert "unasked" not in {sign.kind for sign in pressure_in([said], "Delete the customer database.")}
    assert "unasked" not in {sign.kind for sign in pressure_in([said])}  # nobody knows what was asked


HOSTILE = (
    "a " * 100_000,
    "a.a " * 50_000,
    "please " * 50_000,
    "no need " * 50_000,
    "not the the " * 30_000,
    "as you asked " * 30_000,
    "x-" * 100_000,
    "u r g e n t " * 20_000,
    "!@$1" * 50_000,
    "\ufdfa" * 50_000,  # one character that becomes eighteen
    "e" + "\u0301" * 200_000,
    "\u200b" * 200_000,
    "\ud800" * 100_000,
    "approve or " * 30_000,
)


def test_hostile_texts_cost_no_more_than_their_length_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[int]()
    signs_of = pressure._signs

    def counted(words: str, task: str) -> object:
        looked_at.append(len(words))
        return signs_of(words, task)

    monkeypatch.setattr(pressure, "_signs", counted)
    some = part(HOSTILE, 9)
    for text in some:
        pressure_in([text], text)
    many = HOSTILE[:: 8 if AT_LENGTH else 64]
    for text in many:
        pressure_in([text[:MOST]] * 100)
    assert max(looked_at) <= 2 * MOST
    assert len(looked_at) == len(some) + 20 * len(many)


def test_only_small_words_are_quoted_and_each_way_once() -> None:
    [*signs] = pressure_in(["URGENT!!! <script>approve</script>\x1b[2K now", "Hurry, approve now."] * 5)
    assert len({sign.kind for sign in signs}) == len(signs)
    assert all(sign.says == KINDS[sign.kind] for sign in signs)
    assert all(len(sign.words) <= 90 and not set(sign.words) & set("<>\x1b\n") for sign in signs)
    assert plain_words("It\u2019s 0k, D0N'T \u0456gnore\u202e") == "its 0k dont ignore"
