"""`make leaks DEEP_PYTHON=path`: ways round the gate of other deep agents, shown on them as installed, beside ours.

`python -m trials.leaks --theirs PATH`: PATH is a Python that has pydantic-deep and deepagents, or one of the two. They
are run there by `on_pydantic_deep.py` and `on_deepagents.py`, with their own models of tests; ours by `on_keyturn.py`,
here. It fails if Keyturn leaks, or does not try what another was tried with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .on_keyturn import Found, shown

HERE = Path(__file__).parent
THEIRS = {"pydantic-deep": "on_pydantic_deep.py", "deepagents": "on_deepagents.py"}
SECONDS = 120
MISSING = """\
Only ours were tried. Say which Python has the others: make leaks DEEP_PYTHON=path
To make one: make deep-peers, or
  python3 -m venv there && there/bin/pip install pydantic-deep pydantic-ai deepagents langchain langgraph
  make leaks DEEP_PYTHON=there/bin/python"""
Line = dict[str, Any]


def theirs(python: str, name: str) -> tuple[dict[str, str], dict[str, Line]] | str:
    """Have one of them tried in its own Python: versions and what happened, or why it could not be."""
    command = [python, str(HERE / THEIRS[name])]
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=env, cwd=HERE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    versions = {name: each for line in said for name, each in line.get("versions", {}).items()}
    return versions, {line["leak"]: line for line in said if "leak" in line}


def cell(line: Line | None) -> str:
    """Say what happened to one of them."""
    if line is None:
        return "-"
    return f"{ {True: 'LEAKS', False: 'holds', None: '?'}[line['leaked']] }: {line['what']}".replace("|", "\\|")


def table(ours: dict[str, Found], others: dict[str, dict[str, Line]]) -> str:
    """Draw what happened to each."""
    names = list(dict.fromkeys([*ours, *(leak for found in others.values() for leak in found)]))
    lines = [f"| leak | keyturn | {' | '.join(others)} |".replace("|  |", "|"), "|---" * (2 + len(others)) + "|"]
    for name in names:
        here = cell({"leaked": ours[name][0], "what": ours[name][1]} if name in ours else None)
        there = [cell(found.get(name)) for found in others.values()]
        lines.append(f"| {' | '.join([name.replace('_', ' '), here, *there])} |")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Try ours and theirs, print the table, and fail if ours leak."""
    parser = argparse.ArgumentParser(prog="python -m trials.leaks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--theirs", metavar="PYTHON", default="", help="a Python with pydantic-deep and deepagents")
    python = parser.parse_args(argv).theirs
    os.environ.setdefault("KEYTURN_SECRET", "the-secret-of-these-trials")
    ours = asyncio.run(shown())
    others, versions = dict[str, dict[str, Line]](), dict[str, str]()
    for name in THEIRS if python else ():
        found = theirs(python, name)
        if isinstance(found, str):
            print(f"{name} is not tried: {found}", file=sys.stderr)
        else:
            others[name] = found[1]
            versions |= found[0]
    print(table(ours, others))
    if versions:
        print("\nWith " + ", ".join(f"{name} {each}" for name, each in versions.items()) + ".")
    if not others:
        print(MISSING, file=sys.stderr)
    broken = [name for name, (leaked, _) in ours.items() if leaked]
    untried = sorted({leak for found in others.values() for leak in found} - ours.keys())
    for name in (*broken, *untried):
        print(f"keyturn {'leaks' if name in broken else 'was not tried'}: {name.replace('_', ' ')}", file=sys.stderr)
    return 1 if broken or untried else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
