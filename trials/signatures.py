"""`python -m trials.signatures --n 200`: forged and moved signatures of every kind of key; all must be refused.

Each attempt first verifies the true signature that it is made of, so that nothing is refused for being broken.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence

from keyturn import ProofRefused
from keyturn.proofs import verify

from .signature_kinds import KINDS, WAYS, Claim, signed


def attempt(seed: str, number: int) -> tuple[str, str]:
    """Play one forgery: its way and kind, and what is wrong; "" where it was refused."""
    dice = random.Random(f"{seed}/signatures/{number}")
    names = sorted(WAYS)
    made: Claim | None = None
    while made is None:  # some ways are not there for every kind of key
        name, kind = names[number % len(names)], dice.choice(KINDS)
        true = signed(dice, kind)
        made = WAYS[name](true)
    what = f"{name}, {kind}"
    verify(true.public, true.said.challenge, true.proof, last_count=1)
    try:
        verify(made.public, made.challenge, made.proof, last_count=made.last_count)
    except ProofRefused:
        return what, ""
    except Exception as error:
        return what, f"untyped error: {type(error).__name__}: {error!s:.200}"
    return what, "accepted"


def main(words: Sequence[str] | None = None) -> int:
    """Play so many, and say how many were refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--case", type=int, help="one attempt alone")
    given = parser.parse_args(words)
    wrong = list[str]()
    ways = Counter[str]()
    numbers = range(given.n) if given.case is None else range(given.case, given.case + 1)
    for number in numbers:
        what, fault = attempt(given.seed, number)
        ways[what.partition(",")[0]] += 1
        if fault:
            wrong.append(f"{fault}: {what}: --seed {given.seed} --case {number}")
    for name, count in sorted(ways.items()):
        print(f"{count:>7}  {name}")
    print(f"{len(numbers) - len(wrong)} of {len(numbers)} forged or moved signatures refused, seed {given.seed}")
    print("\n".join(wrong[:20]), file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
