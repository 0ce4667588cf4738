"""No accepted pattern keeps a worker busy: its work is counted from above, and the count is tried."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.errors import UserError
from keyturn.core.predicates.pattern import MOST_STEPS, SHORT, check_pattern, matches, steps
from keyturn.core.predicates.reading import CannotTell
from tests import forked
from tests.effort import some
from tests.table import each


@each(
    "pattern",
    ["(?:(?:(?:(?!b){1000}){1000}){1000})a", "(?:(?:(?:){1000}){1000}){1000}a", "(?:(?:(?:^){2000}){200}){200}a",
     r"(?:(?:(?:\b|x){1000}){1000}){1000}a", "(?:(?:(?=a*){1000}){1000}){1000}", "(?:(?:(?:(?:a?){9}){9}){9}){9}b",
     "(?:(?:(?:(?<!b){1000,}){1000,}){1000,})a", "(?!(?:(?:(?=b)|){99}){99})a"],
)  # fmt: skip
def test_repeating_nothing_is_work_too(pattern: str) -> None:
    """L5: looks ahead and behind, and repeats of what is empty, cost nothing in the count and 15 seconds in fact."""
    assert steps(pattern, 1) > MOST_STEPS or steps(pattern, SHORT) > MOST_STEPS
    with pytest.raises(UserError, match="take too long"):
        check_pattern("x", pattern)
    with pytest.raises(CannotTell):
        matches(pattern, "a" * SHORT)


def test_a_pattern_that_looks_for_a_text_takes_a_long_one() -> None:
    pattern = "(?s).*BEGIN PRIVATE KEY.*"
    assert steps(pattern, 1_000_000) < MOST_STEPS
    assert matches(pattern, "x" * 500_000 + "BEGIN PRIVATE KEY" + "\n" * 500_000)
    assert not matches(pattern, "x" * 1_000_000)


def test_all_readings_of_a_text_share_one_budget() -> None:
    """Each would be within it, and four of them would block a worker four times as long."""
    text = " %41/ä\n" + "a" * 2_500
    assert steps("a*a*x", len(text)) < MOST_STEPS < 3 * steps("a*a*x", len(text))
    with pytest.raises(CannotTell):
        matches("a*a*x", text)


@given(st.text(alphabet="ab|()*?+{}0123,^$\\.!=:<", max_size=30), st.integers(0, 50))
def test_counting_ends_and_grows_with_the_text(pattern: str, length: int) -> None:
    try:
        check_pattern("x", pattern)
    except UserError:
        return
    assert 0 <= steps(pattern, length) <= steps(pattern, length + 1)


# Patterns by the thousand, each on the texts that are worst for it, as long as the count allows. One that hangs is cut
# off from outside, and what was begun last is told.
FUZZ = r"""
import random, re, sys
from keyturn.core.predicates.pattern import MOST_STEPS, SHORT, steps
dice = random.Random(int(sys.argv[1]))
ATOMS = ["a", "b", ".", "[ab]", "[^b]", r"\w", "^", "$", r"\b", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)", "()", "(?:)"]
TIMES = ["*", "+", "?", "*?", "+?", "??", "{2}", "{0,3}", "{1000}", "{30}", "{5,}", "{1,100}", "{0,1000}", "{200,}"]
def part(deep):
    kind = dice.random() if deep else 0
    if kind < 0.25:
        return dice.choice(ATOMS)
    if kind < 0.45:
        return "".join(part(deep - 1) for _ in range(dice.randint(1, 4)))
    if kind < 0.6:
        return "(?:" + "|".join(part(deep - 1) for _ in range(dice.randint(1, 3))) + ")"
    if kind < 0.7:
        return dice.choice(["(?=", "(?!"]) + part(deep - 1) + ")"
    return dice.choice(["(?:", "("]) + part(deep - 1) + ")" + dice.choice(TIMES)
for _ in range(int(sys.argv[2])):
    pattern = part(dice.randint(2, 6)) + dice.choice(["", "x", "!", "b", "a"])
    if steps(pattern, SHORT) > MOST_STEPS:
        continue
    print(pattern, flush=True)
    for length in (1, 8, 32, 100, 1_000, 20_000):
        if steps(pattern, length + 1) <= MOST_STEPS:
            for text in ("a" * length, "a" * length + "!", ("ab" * length)[:length] + "!", "b" * length + "!"):
                re.fullmatch(pattern, text, re.ASCII)
print("done")
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_no_accepted_pattern_hangs_the_matcher(seed: int) -> None:
    try:
        run = forked.run(
            ["-c", FUZZ, str(seed), str(some(500))], capture_output=True, text=True, timeout=120, check=True
        )
    except subprocess.TimeoutExpired as error:
        tried = (error.stdout or b"").decode().splitlines()
        pytest.fail(f"the matcher hangs on {tried[-1:]}")
    tried = run.stdout.splitlines()
    assert tried[-1] == "done"
    assert len(tried) > some(500) * 0.4
