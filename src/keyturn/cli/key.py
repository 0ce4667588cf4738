"""The commands `keyturn key list` and `keyturn key new` list the ids of this process's keys, and add one.

Secrets are never printed: an id says which key sealed a line, and nothing of the key.
"""

from __future__ import annotations

import argparse
import sys

from ..core.errors import KeyturnError
from ..keys import add_key, ring


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("what", choices=["list", "new"], help="list the ids, the newest first; or add a key")


def run(arguments: argparse.Namespace) -> int:
    """List the keys, or add one: from then on it seals and signs, and all others still verify."""
    try:
        if arguments.what == "new":
            add_key()
        for place, name in enumerate(ring().ids):
            print(f"{name}  {'verifies' if place else 'seals, signs and verifies'}")
    except KeyturnError as error:
        print(f"keyturn key: {error}", file=sys.stderr)
        return 1
    return 0
