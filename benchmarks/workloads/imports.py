"""What a user's first lines cost: time and memory of the import in an interpreter that has loaded nothing else."""

import json
import subprocess
import sys

from ..sampling import clock
from ..subjects import Subject

CODE = """\
import time
start = time.{clock}()
{imports}
elapsed = time.{clock}() - start
from benchmarks.memory import rss_bytes
print('{{"ms": %f, "mib": %f}}' % (elapsed * 1e3, rss_bytes() / 2**20))
"""


def measure(subject: Subject) -> dict[str, float]:
    """Milliseconds and MiB."""
    code = CODE.format(imports=subject.imports, clock=clock.__name__)
    return dict(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))
