"""The command `keyturn keys` lists the ids of this process's keys, adds a key that takes over, and retires old ones.

Secrets are never printed: an id says which key sealed a line, and nothing of the key.
"""

from __future__ import annotations

import argparse
import sys

from ..core.errors import KeyturnError
from ..support.keys import add_key, retire_key, ring


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="list | rotate | retire ID")
    what.add_parser("list", help="list the ids, the newest first")
    what.add_parser("rotate", help="add a new key, which signs and encrypts from then on; older keys still verify")
    retire = what.add_parser("retire", help="remove an old key; what it signed or encrypted is refused from then on")
    retire.add_argument("id", metavar="ID", help="the id of the key, as `list` gives it")


def run(arguments: argparse.Namespace) -> int:
    """Change the keys if that is asked for, and list them."""
    try:
        if arguments.what == "rotate":
            add_key()
        elif arguments.what == "retire":
            retire_key(arguments.id)
        keys = ring()
        for place, name in enumerate(keys.ids):
            print(f"{name}  {'verifies' if place else 'seals, signs and verifies'}")
        for name in keys.retired:
            print(f"{name}  retired")
    except KeyturnError as error:
        print(f"keyturn keys: {error}", file=sys.stderr)
        return 1
    return 0
