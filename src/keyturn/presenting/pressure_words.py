"""Read the words and phrases by which a text presses its reader, from `pressure_words.toml`; how, says `pressure.py`.

A gap in a phrase is of a few words at most, so that each place of a text costs the same.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class PressureWords(NamedTuple):
    """Holds what a text is searched for."""

    #: What sounds alike and presses nobody.
    calm: re.Pattern[str]
    #: How a phrase presses, and what finds it.
    phrases: tuple[tuple[str, re.Pattern[str]], ...]
    #: A claim of having been asked, and `what` for.
    claims: re.Pattern[str]
    empty: frozenset[str]
    families: dict[str, tuple[str, ...]]
    rules: tuple[tuple[str, tuple[str, ...]], ...]


@cache
def pressure_words() -> PressureWords:
    """Read the words once, when the first text is searched: to compile them takes longer than to import the rest."""
    given: dict[str, Any] = tomllib.loads(Path(__file__).with_name("pressure_words.toml").read_text(encoding="ascii"))
    parts = given["parts"]
    return PressureWords(
        calm=_any(given["calm"], parts),
        phrases=tuple((kind, _any(forms, parts)) for kind, forms in given["phrases"].items()),
        claims=re.compile(_any(given["claims"], parts).pattern + r"(?P<what>(?: \w+){0,24})"),
        empty=frozenset(given["empty"].split()),
        families={name: tuple(words.split()) for name, words in given["families"].items()},
        rules=tuple((kind, tuple(names)) for kind, *names in given["rules"]),
    )


def _any(forms: Iterable[str], parts: Mapping[str, str]) -> re.Pattern[str]:
    """Compile forms of words into one pattern that finds any of them."""
    whole = (re.sub(r"<([a-z]+)>", lambda part: parts[part[1]], form) for form in forms)
    return re.compile(r"\b(?:" + "|".join(form.replace(" ~ ", r" (?:\w+ ){0,3}") for form in whole) + r")\b")
