"""Learn what each word weighs for `inbox/pressure.py`, from the two files that may be learned from. No test is here.

    python -m tests.inbox.pressure_training

A logistic regression by stochastic descent, in an order that is always the same: the file it writes can be made again,
to the byte. The files that are held out are never read here.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path

from keyturn.presenting import pressure
from keyturn.presenting.pressure import marks_of, plain_words

FOLDER = Path(__file__).parent / "pressure"
WEIGHTS = Path(pressure.__file__).with_name("pressure_weights.json")
_ROUNDS, _RATE, _SHRINK, _SLOWER = 60, 0.2, 0.002, 0.95
_AT_LEAST = 2  # texts that have a feature, for it to weigh anything
_SMALLEST = 0.02


def texts(name: str) -> list[str]:
    """Return what models say in a file of the corpus."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(" | ", 1)[1].rpartition(" || ")[2] for line in lines]


def learned(harmless: list[str], pressing: list[str]) -> dict[str, float]:
    """Return what each feature weighs; the one without a name is what is weighed from the beginning."""
    cases = [(set(marks_of(plain_words(text))), 0.0) for text in harmless]
    cases += [(set(marks_of(plain_words(text))), 1.0) for text in pressing]
    often = Counter(mark for marks, _ in cases for mark in marks)
    weights: dict[str, float] = {"": 0.0}
    order, rate = random.Random(1), _RATE
    for _ in range(_ROUNDS):
        order.shuffle(cases)
        for marks, is_pressing in cases:
            known = sorted(mark for mark in marks if often[mark] >= _AT_LEAST)
            score = weights[""] + sum(weights.get(mark, 0.0) for mark in known)
            wrong = rate * (1 / (1 + math.exp(-max(-30.0, min(30.0, score)))) - is_pressing)
            weights[""] -= wrong
            for mark in known:
                weights[mark] = weights.get(mark, 0.0) * (1 - rate * _SHRINK) - wrong
        rate *= _SLOWER
    return weights


def written(weights: dict[str, float]) -> str:
    """Return the file of weights."""
    kept = {mark: round(weight, 2) for mark, weight in sorted(weights.items()) if abs(weight) >= _SMALLEST or not mark}
    return json.dumps(kept, indent=0, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    WEIGHTS.write_text(written(learned(texts("harmless"), texts("pressing"))), encoding="ascii")
