"""Verifying an export of `n` lines, offline: microseconds a line.

The floor decodes each line and takes one SHA-256 of it, which nobody who reads JSON lines and proves them can leave
out. The lines are those of a real conversation, repeated in runs of their own.
"""

import hashlib
import io
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from ..script import require
from ..subjects import Subject

RUN = 20
BODY = (
    '{"v":2,"at":1795405083880,"events":[{"e":"ReplyRecorded","frame":"r","output":[{"type":"function_call",'
    '"call_id":"c%d","name":"pay","arguments":"{\\"to\\":\\"ann\\",\\"amount\\":%d}"}],"proposals":[{"kind":"function",'
    '"name":"pay","label":"c%d","item":0,"tool":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",'
    '"gate":"ask"}],"usage":{"requests":1,"input_tokens":212,"output_tokens":24,"total_tokens":236}},'
    '{"e":"CallScreened","call":"r/1.0","action":"ask","by":"tool","terms":{},"at":1795405083880}]}'
)


def measure(subject: Subject, n: int) -> dict[str, Any]:
    """Microseconds of CPU a line."""
    if subject.name not in ("keyturn", "floor"):
        return {"missing": "it has no record to verify"}
    with tempfile.TemporaryDirectory() as folder:
        data, public = export(Path(folder), n)
        begun = time.process_time()
        if subject.name == "floor":
            require(floor(data) >= n, "lines are missing")
        else:
            from keyturn.audit.service import Audit

            report = Audit.verify_file(io.BytesIO(data), public=public)
            require(report.complete and report.lines == n, str(report))
        return {"us": (time.process_time() - begun) * 1e6 / n}


def floor(data: bytes) -> int:
    """Decode and hash each line."""
    decode = msgspec.json.Decoder().decode
    count = 0
    for raw in io.BytesIO(data):
        row = decode(raw)
        hashlib.sha256(row.get("line", "").encode()).digest()
        count += 1
    return count


def export(folder: Path, n: int) -> tuple[bytes, Path]:
    """An export of `n` lines, signed, and the public keys for it."""
    from base64 import b64encode

    from keyturn.audit.evidence.chain import PublicChain
    from keyturn.audit.evidence.public_keys import LineSignature
    from keyturn.audit.evidence.records import FileStart, LogLine, RunHead, Statement, encode
    from keyturn.audit.evidence.signing import Signer

    signer = Signer.of(folder / "key", 0)
    rows = [encode(FileStart("export", "default"))]
    heads = hashlib.sha256()
    for number in range(n // RUN):
        run = f"{number:032x}"
        chain = PublicChain("default", run)
        for place in range(RUN):
            text, seal = BODY % (place, number, place), "5c3Uia." + "d" * 32
            chain.add(hashlib.sha256(text.encode()).digest(), seal)
            rows.append(encode(LogLine(run, place, chain.head.hex(), seal, text)))
        rows.append(encode(RunHead(run, number, chain.count, chain.head.hex())))
        heads.update(rows[-1] + b"\n")
    rows.append(encode(Statement("export", "default", "", 0, n // RUN, n, heads.hexdigest(), signer.name)))
    rows.append(encode(LineSignature(b64encode(signer.sign(rows[-1])).decode())))
    (folder / "public").write_text(signer.public.text)
    return b"".join(row + b"\n" for row in rows), folder / "public"
