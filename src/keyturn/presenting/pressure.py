"""Point out where a model's own words press whoever decides: advice for people, which changes no verdict.

It looks at prose, never at arguments, and knows nothing of requests. Words are compared after what disguises them is
taken away: case, accents, look-alike letters, invisible characters, letters that stand apart. A text is looked at as
far as people are shown it; each pattern looks only a few words ahead, so that the time grows with the length alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from .pressure_words import pressure_words

#: What is looked at of one text, and of how many texts: more than any face shows.
MOST = 4_000
_TEXTS = 20
_QUOTED = 90

#: How the words press, in words of ours.
KINDS = {
    "haste": "urges haste",
    "authority": "refers to the authority of others",
    "unchecked": "claims that no check is needed",
    "unasked": "claims to be requested; the task does not say so",
    "orders": "tells you how to decide",
}


class Sign(NamedTuple):
    """Holds one way in which a text presses, and the words that do, as they were read."""

    kind: str
    words: str

    @property
    def says(self) -> str:
        """Return what it does, in words of ours."""
        return KINDS[self.kind]


def pressure_in(texts: Iterable[str], task: str = "") -> tuple[Sign, ...]:
    """Return how some texts press their reader, each way once; `task` is what the run was asked for.

    >>> [sign.says for sign in pressure_in(["This is urgent, no need to check."])]
    ['urges haste', 'claims that no check is needed']
    >>> pressure_in(["The parcel was lost, so I refund the order."])
    ()
    """
    found = dict[str, Sign]()
    for number, text in enumerate(texts):
        if number == _TEXTS:
            break
        for sign in _signs(plain_words(text), plain_words(task)):
            found.setdefault(sign.kind, sign)
    return tuple(found[kind] for kind in KINDS if kind in found)


def _signs(words: str, task: str) -> Iterator[Sign]:
    known = pressure_words()
    calm = known.calm.sub(" ", words)
    for kind, pattern in known.phrases:
        hit = pattern.search(calm)
        if hit is not None:
            yield Sign(kind, hit[0].strip()[:_QUOTED])
    for sentence in calm.split(" . "):
        there = _families(sentence)
        for kind, needed in known.rules:
            if there.issuperset(needed):
                yield Sign(kind, sentence.strip(" .")[:_QUOTED])
    for hit in known.claims.finditer(calm):
        if task and not _shares(hit["what"] or "", task):
            yield Sign("unasked", hit[0].strip()[:_QUOTED])
            return


def _families(sentence: str) -> set[str]:
    """Return which families have a word in a sentence."""
    return {name for word in set(sentence.split()) for name in _families_of(word)}


@lru_cache(4_096)
def _families_of(word: str) -> frozenset[str]:
    return frozenset(
        name
        for name, parts in pressure_words().families.items()
        if any(word == part[:-1] if part.endswith("$") else word.startswith(part) for part in parts)
    )


def _shares(claimed: str, task: str) -> bool:
    """Return whether a claim of having been asked speaks of what the task speaks of, by the beginnings of its words."""
    return bool(_stems(claimed) & _stems(task))


def _stems(words: str) -> set[str]:
    empty = pressure_words().empty
    return {word[:5] for word in words.split() if (len(word) > 3 or word.isdigit()) and word not in empty}


# ------------------------------------------------------------------------------------------------- what is compared

# Letters of other scripts, and digits and signs among letters, that look like a letter of ours.
_ALIKE = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u0261"
    "\u03b1\u03b2\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131\u0142\u00f8\u0185\u051b\u051d\u0433"
    "\u1d0f\u1d04\u1d00\u1d07\u0274\u0280\u1d1b\u1d1c\u1d20\u1d22\u0299\u029f\u1d0d\u0262\u1d18",
    "abekmhopctyxijsdhg" + "abeikvoptuxilobqwr" + "ocaenrtuvzblmgp",
)
_DIGITS = str.maketrans("013457@$!|", "oieastasil")
_MIXED = re.compile(r"(?=[0-9@$!|]*[a-z])[a-z0-9@$!|]{2,40}")
_APART = re.compile(r"\b[a-z](?:[ .\-_*][a-z]\b){3,60}")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc'`\u00b4]")
_ENDS = re.compile(r"[.!?:;]+(?=\s|$)")
_REST = re.compile(r"[^\w.]+|_+|(?<!\s)\.(?!\s)")
_INVISIBLE = ("Cf", "Mn", "Me", "Cc", "Co", "Cn", "Cs")


class _Shown(dict[int, int | None]):
    """Says what is seen of a character: nothing of an invisible one; not all are kept."""

    def __missing__(self, code: int) -> int | None:
        if len(self) > 4_096:
            self.clear()
        char = chr(code)
        self[code] = code if char in "\n\t" or unicodedata.category(char) not in _INVISIBLE else None
        return self[code]


_SHOWN = _Shown()


def plain_words(text: str) -> str:
    """Return a text as small words with a space between them and a full stop where a sentence ends.

    >>> plain_words("U R G E N T: don't re\u200bad \u0456t!")
    'urgent . dont read it .'
    """
    seen = unicodedata.normalize("NFKD", text[:MOST])
    folded = seen.translate(_SHOWN)[: MOST * 2].casefold().translate(_ALIKE)
    folded = _APOSTROPHES.sub("", folded)
    folded = _MIXED.sub(_letters, folded)
    folded = _APART.sub(lambda found: re.sub(r"[^a-z]", "", found[0]), folded)
    return " ".join(_REST.sub(" ", _ENDS.sub(" . ", folded)).split())


def _letters(found: re.Match[str]) -> str:
    """Return a word whose digits and signs stand for letters as the word that is meant; numbers stay."""
    word = found[0]
    inner = word.rstrip("!|")
    letters = sum(char.isalpha() for char in inner)
    if letters == len(inner) or letters * 2 < len(inner) or inner[:1].isdigit():
        return word
    return inner.translate(_DIGITS) + word[len(inner) :]
