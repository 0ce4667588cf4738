"""`make alike N=1000`: random programs, run by the OpenAI Agents SDK and by Keyturn after an import change.

`python -m trials.alike --there PYTHON [--n N] [--from SEED] [--show N] [--record]`: PYTHON has openai-agents. What both
do is the same, but for what `docs/differences.md` names, which `seen` leaves out. `--record` writes what the SDK did of
the first programs, which `make test` compares with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from .program import Trace

HERE = Path(__file__).parent
RECORDED = HERE.parents[1] / "tests" / "trials" / "alike.json"
RECORDS = 60
#: What is compared in its order; all else is compared as what happened between two of these.
ORDERED = ("model", "result", "usage", "input list", "interruptions", "decided", "session", "events", "raised")
_LIMIT = "MaxTurnsExceeded"


class Ran(NamedTuple):
    """What one program did, plain or streamed."""

    seed: int
    streamed: bool
    trace: Trace


def seen(ran: Ran) -> dict[str, list[str]]:
    """Return what happened, by kind, without what differs on purpose (docs/differences.md).

    Results of calls stand in the order of the calls, or as they came; a pending call has a result in the input list, or
    none; the limit of turns comes before an approved tool, or after it; a failure waits for its siblings, or ends them.
    """
    kinds, between = dict[str, list[str]](), dict[str, list[str]]()

    def flush() -> None:
        for kind, lines in between.items():
            kinds.setdefault(kind, []).append(" ".join(sorted(lines)))
        between.clear()

    for kind, *said in _comparable(ran):
        line = json.dumps([settled(part) for part in said], sort_keys=True)
        if kind in ORDERED:
            flush()
            kinds.setdefault(kind, []).append(line)
        else:
            between.setdefault(kind, []).append(line)
    flush()
    return kinds


def _comparable(ran: Ran) -> Trace:
    """Leave out what came beside a failure, and what follows a decision after which the limit of turns was reached."""
    trace = ran.trace
    decided = _last(trace, "decided")
    if decided and (trace[-1] == ["raised", _LIMIT] or ["handled", _LIMIT] in trace):
        return trace[:decided]
    return trace if trace[-1][0] != "raised" else [*trace[: _last(trace, "model")], trace[-1]]


def _last(trace: Trace, kind: str) -> int:
    """Return how many lines there are up to the last one of a kind."""
    return max((place for place, line in enumerate(trace, 1) if line[0] == kind), default=0)


def settled(value: Any) -> Any:
    """Return a value with the results of calls that stand side by side in one order."""
    if isinstance(value, dict):
        return {key: settled(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    ordered, results = list[Any](), list[Any]()
    for each in map(settled, value):
        if not _is_result(each):
            ordered += [*sorted(results, key=_sorted_by), each]
            results = []
        elif "not executed" not in str(each):
            results.append(each)
    return ordered + sorted(results, key=_sorted_by)


def _sorted_by(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_result(value: Any) -> bool:
    kinds = ("tool_call_output_item", "tool_approval_item", "tool_output")
    if isinstance(value, dict):
        return value.get("type") == "function_call_output"
    return isinstance(value, list) and bool(value) and value[0] in kinds


def digests(ran: Ran) -> dict[str, str]:
    """Return a short digest of each kind of what happened."""
    return {
        kind: hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8] for kind, lines in sorted(seen(ran).items())
    }


def run(python: str, name: str, first: int, count: int) -> list[Ran]:
    """Run the programs of these seeds by a Python."""
    command = [python, str(HERE / "program.py"), name, str(first), str(count)]
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if name == "keyturn":
        env["PYTHONPATH"] = str(HERE.parents[1] / "src")
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=HERE, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    return [Ran(*json.loads(line)) for line in done.stdout.splitlines()]


def compared(theirs: list[Ran], ours: list[Ran], show: int) -> int:
    """Print where the two differ; return how many do."""
    kinds, wrong = Counter[str](), 0
    for there, here in zip(theirs, ours, strict=True):
        one, other = seen(there), seen(here)
        differing = [kind for kind in (*ORDERED, *sorted({*one, *other})) if one.get(kind) != other.get(kind)]
        if not differing:
            continue
        wrong += 1
        kinds[differing[0]] += 1
        if kinds[differing[0]] <= show:
            kind = differing[0]
            print(
                f"seed {there.seed}, {'streamed' if there.streamed else 'plain'}: {', '.join(dict.fromkeys(differing))}"
            )
            pairs = zip(one.get(kind, []) + ["-"] * 99, other.get(kind, []) + ["-"] * 99, strict=False)
            print("  there: {}\n  here:  {}".format(*next(pair for pair in pairs if pair[0] != pair[1])))
    print(f"{len(ours)} runs of {len(ours) // 2} programs, {wrong} differ {dict(kinds) if kinds else ''}")
    return wrong


def main(argv: list[str]) -> int:
    """Compare; return 1 where a program does another thing here."""
    parser = argparse.ArgumentParser(prog="python -m trials.alike")
    parser.add_argument("--there", required=True, metavar="PYTHON")
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--show", type=int, default=2)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args(argv)
    theirs = run(given.there, "agents", given.first, given.n)
    if given.record:
        recorded = [[ran.seed, ran.streamed, digests(ran)] for ran in theirs[: 2 * RECORDS]]
        RECORDED.write_text("[\n" + ",\n".join(map(json.dumps, recorded)) + "\n]\n", "utf-8")
    return 1 if compared(theirs, run(sys.executable, "keyturn", given.first, given.n), given.show) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
