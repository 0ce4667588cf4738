"""One measurement in a process of its own: `python -m benchmarks.one SUBJECT WORKLOAD [name=value ...]`.

Prints one line of JSON: the workload's figures, or `{"missing": why}` if the library is not here.
"""

import json
import sys
from importlib import import_module

from .subjects import SUBJECTS


def main(argv: list[str]) -> None:
    """Measure what the arguments name."""
    subject = SUBJECTS[argv[0]]
    workload = import_module(f"benchmarks.workloads.{argv[1]}")
    params = {name: int(value) for name, _, value in (arg.partition("=") for arg in argv[2:])}
    print(json.dumps(workload.measure(subject, **params)))


if __name__ == "__main__":
    main(sys.argv[1:])
