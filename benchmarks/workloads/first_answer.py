"""From nothing to the first answer: import, one tool, one agent, one turn. What an import puts off is paid here."""

import json
import subprocess
import sys

from ..subjects import Subject

CODE = """\
import time
start = time.perf_counter()
import asyncio
from benchmarks.script import Script
from benchmarks.subjects.{module} import Driver
script = Script([["noop"], []])
asyncio.run(Driver(script).start())
elapsed = time.perf_counter() - start
script.check(models=2, tools=1)
from benchmarks.memory import rss_bytes
print('{{"ms": %f, "mib": %f}}' % (elapsed * 1e3, rss_bytes() / 2**20))
"""


def measure(subject: Subject) -> dict[str, float]:
    """Milliseconds and MiB."""
    code = CODE.format(module=subject.module)
    return dict(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))
