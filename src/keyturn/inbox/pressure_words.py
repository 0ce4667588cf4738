"""Read the words and phrases by which a text presses its reader, from `pressure_words.toml`; how, says `pressure.py`.

A gap in a phrase is of a few words at most, so that each place of a text costs the same.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_GIVEN: dict[str, Any] = tomllib.loads(Path(__file__).with_name("pressure_words.toml").read_text(encoding="ascii"))
_PARTS: dict[str, str] = _GIVEN["parts"]


def _any(forms: Iterable[str]) -> re.Pattern[str]:
    """Compile forms of words into one pattern that finds any of them."""
    whole = (re.sub(r"<([a-z]+)>", lambda part: _PARTS[part[1]], form) for form in forms)
    return re.compile(r"\b(?:" + "|".join(form.replace(" ~ ", r" (?:\w+ ){0,3}") for form in whole) + r")\b")


#: What sounds alike and presses nobody.
CALM = _any(_GIVEN["calm"])
#: How a phrase presses, and what finds it.
PATTERNS = tuple((kind, _any(forms)) for kind, forms in _GIVEN["phrases"].items())
#: A claim of having been asked, and `what` for.
CLAIMS = re.compile(_any(_GIVEN["claims"]).pattern + r"(?P<what>(?: \w+){0,24})")
EMPTY = frozenset(_GIVEN["empty"].split())
FAMILIES: dict[str, tuple[str, ...]] = {name: tuple(words.split()) for name, words in _GIVEN["families"].items()}
RULES: tuple[tuple[str, tuple[str, ...]], ...] = tuple((kind, tuple(names)) for kind, *names in _GIVEN["rules"])
