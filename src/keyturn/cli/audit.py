"""The command `keyturn audit` signs checkpoints of a journal, verifies it or an export, searches and exports it.

Exit codes of `verify`: 0 where every line is proven, 1 where something was altered, 2 where it could not be verified,
3 where nothing was found altered and not all of it is proven. Of the others: 0 where it was done, 1 where runs of the
journal are damaged, 2 where it could not be done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import msgspec

from ..audit.decisions.entry import AuditEntry
from ..audit.evidence.report import VerifyReport, moment_of
from ..audit.evidence.signing import Signer, key_file
from ..audit.evidence.write import SignedFile
from ..audit.service import FORMATS, Audit, Terms, own_keys, read_public
from ..core.durations import milliseconds
from ..core.errors import KeyturnError, LogDamaged, UserError
from ..directory.login import By
from ..directory.people import People
from ..directory.read_lines import Read
from ..engine.run.open_run import clock_ms
from ..journal import open_journal
from ..journal.base import Store
from ..presenting.audit_words import decider_words, recorded_words
from ..presenting.clock import here
from ..render.escape import escape, quote
from ..render.plural import plural
from ..support.whole_files import replaced
from .finding import SHORT, SHORTEST, WHOLE, RunList, find_run
from .logging_in import reader_of
from .printing import must_be_there, print_labelled, print_row
from .seats.base import Seat
from .seats.sitting import seated
from .with_journal import describe_journal, describe_json, describe_url, url_of

_URLS = ("sqlite:", "postgresql:", "postgres:", "memory:")
_NAMES: dict[str, LiteralString] = {
    "checkpoint": "keyturn audit checkpoint",
    "verify": "keyturn audit verify",
    "search": "keyturn audit search",
    "reads": "keyturn audit reads",
    "export": "keyturn audit export",
    "keys": "keyturn audit keys",
}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar=" | ".join(_NAMES))
    _describe_checkpoint(what.add_parser("checkpoint", help="write a signed checkpoint, to keep elsewhere"))
    _describe_verify(what.add_parser("verify", help="verify a journal, an export or a checkpoint"))
    _describe_search(what.add_parser("search", help="search decisions: who decided what, and when"))
    _describe_reads(what.add_parser("reads", help="list who viewed the arguments of calls, if that is recorded"))
    _describe_export(what.add_parser("export", help="export the audit log as JSONL, CSV or traces for agentack"))
    _describe_keys(what.add_parser("keys", help="list or rotate signing keys, or write the public ones"))


def _describe_checkpoint(parser: argparse.ArgumentParser) -> None:
    describe_url(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    _common(parser, heads="earlier checkpoints, whose signed content must still be present", key=True)


def _describe_verify(parser: argparse.ArgumentParser) -> None:
    told = "a journal, or the file of an export or a checkpoint"
    parser.add_argument("url", metavar="URL|FILE|-", nargs="?", help=told)
    parser.add_argument("--public", type=Path, metavar="FILE", help="the public keys that you trust")
    parser.add_argument(
        "--trusted-key",
        action="append",
        default=[],
        metavar="ID",
        help="a user's signing key to trust, by its fingerprint (default: the first confirmed one)",
    )
    _common(parser, heads="external checkpoints to compare with", key=True)


def _describe_search(parser: argparse.ArgumentParser) -> None:
    describe_url(parser)
    _terms(parser)
    parser.add_argument(
        "--decisions", action="store_true", help="only decisions, and calls that were allowed without one"
    )
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="the most results (default: %(default)s)")
    parser.add_argument("--after", metavar="KEY", help="continue after the entry with this key")
    _common(parser, reads=True, server=True)


def _describe_reads(parser: argparse.ArgumentParser) -> None:
    describe_url(parser)
    parser.add_argument("--person", metavar="ID", help="only reads by this user")
    parser.add_argument("--request", metavar="ID", help="only reads of this request")
    _common(parser, server=True)


def _describe_export(parser: argparse.ArgumentParser) -> None:
    describe_url(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="PATH", help="the file; for agentack a folder")
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="(default: %(default)s)")
    parser.add_argument("--secrets", action="store_true", help="do not withhold lines that hold marked secrets (jsonl)")
    _terms(parser)
    _common(parser, heads="earlier checkpoints; what they signed must still be present (jsonl)", key=True, reads=True)


def _describe_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "rotate"), default="list", help="(default: list)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the public keys here, for auditors")
    _common(parser, key=True, tenant=False)


def _terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--person", metavar="ID", help="only decisions by this user")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument("--agent", metavar="NAME", help="only calls of this agent")
    parser.add_argument("--run", metavar="RUN", help=f"only this run: its id, or its first {SHORTEST} characters")
    parser.add_argument("--verdict", metavar="WORD", help="approve, edit, reject, answer, expire, allow, ask, deny ...")
    parser.add_argument("--since", metavar="TIME", help="not before: 7d (ago), 2026-11-02, 2026-11-02T09:30:00+01:00")
    parser.add_argument("--until", metavar="TIME", help="not after")
    parser.add_argument("--text", metavar="TEXT", help="only entries that contain this text, in upper or lower case")


def _common(
    parser: argparse.ArgumentParser,
    heads: str = "",
    *,
    key: bool = False,
    tenant: bool = True,
    reads: bool = False,
    server: bool = False,
) -> None:
    if heads:
        parser.add_argument("--heads", "--head", type=Path, action="append", default=[], metavar="FILE", help=heads)
    if key:
        parser.add_argument("--key", type=Path, metavar="FILE", help="the signing key (or KEYTURN_AUDIT_KEY)")
    if tenant:
        describe_journal(parser, people=reads, server=server)
    else:
        describe_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do one of them."""
    doing: dict[str, Callable[[argparse.Namespace], int]] = {
        "checkpoint": _checkpoint,
        "verify": _verify,
        "search": _search,
        "reads": _reads,
        "export": _export,
        "keys": _keys,
    }
    try:
        return doing[arguments.what](arguments)
    except KeyturnError as error:
        print_labelled(_NAMES[arguments.what], str(error))
        return 1 if isinstance(error, LogDamaged) else 2


async def _whole_name(runs: RunList, given: str | None) -> str | None:
    """Return the id of a run that is named by its beginning; one that is short or whole is taken as it is."""
    short = given is not None and SHORTEST <= len(given) < WHOLE
    return (await find_run(runs, given)).run if given is not None and short else given


_Doing = Callable[[Audit, By | None, Store], Coroutine[Any, Any, Any]]


def _with_store(arguments: argparse.Namespace, do: _Doing) -> Any:
    async def done() -> Any:
        url = url_of(arguments)
        must_be_there(url)
        whole: Any = open_journal(url)
        try:
            store = whole.of(arguments.tenant)
            trusted: list[str] = getattr(arguments, "trusted_key", [])
            by = await reader_of(People(store), arguments) if hasattr(arguments, "by") else None
            return await do(Audit(store, key=getattr(arguments, "key", None), trusted_keys=trusted), by, store)
        finally:
            if hasattr(whole, "close"):
                await whole.close()

    return asyncio.run(done())


def _checkpoint(arguments: argparse.Namespace) -> int:
    made = _with_store(arguments, lambda audit, _by, _store: audit.checkpoint(arguments.out, heads=arguments.heads))
    return _told(arguments, made)


def _export(arguments: argparse.Namespace) -> int:
    options: dict[str, Any] = {"format": arguments.format, "secrets": arguments.secrets, "heads": arguments.heads}
    options |= {name: value for name, value in _wanted(arguments).items() if value is not None}

    async def export(audit: Audit, by: By | None, store: Store) -> SignedFile:
        if arguments.run is not None:
            options["run"] = await _whole_name(store, arguments.run)
        return await audit.export(arguments.out, by=by, **options)

    made = _with_store(arguments, export)
    return _told(arguments, made)


def _told(arguments: argparse.Namespace, made: SignedFile) -> int:
    """Say what was written, and which runs are damaged."""
    signed = made.statement
    if arguments.json:
        told = {"ok": made.ok, "what": made.what, "path": str(arguments.out), "damaged": made.damaged}
        counts = {"erased": made.erased, "withheld": made.withheld}
        about = {} if signed is None else {name: getattr(signed, name) for name in ("runs", "lines", "at", "key")}
        print(json.dumps(told | counts | about))
        return 0 if made.ok else 1
    more = ""
    if signed is not None:
        more = f": {plural(signed.runs, 'run')}, {plural(signed.lines, 'line')}, signed by key {signed.key}"
    print_row(f"{made.what} written to {escape(str(arguments.out), keep='')}{more}", sys.stdout)
    if made.withheld:
        print_row(f"withheld: {plural(made.withheld, 'line')} with secrets (--secrets writes them)", sys.stdout)
    for damage in made.damaged:
        print_labelled("damaged", damage)
    return 0 if made.ok else 1


def _verify(arguments: argparse.Namespace) -> int:
    given: str | None = arguments.url
    if given is None or given.startswith(_URLS):
        named = {"heads": arguments.heads, "public": arguments.public}
        report: VerifyReport = _with_store(arguments, lambda audit, _by, _store: audit.verify(**named))
    else:
        report = _verified_file(arguments)
    if arguments.json:
        print(json.dumps(report.data()))
    else:
        for row in str(report).split("\n"):
            print_row(row, sys.stdout)
    return 1 if not report.ok else 0 if report.complete else 3


def _verified_file(arguments: argparse.Namespace) -> VerifyReport:
    from ..audit.evidence.verify import verify_file

    public = own_keys(arguments.key) if arguments.public is None else read_public(arguments.public)
    if arguments.journal is not None:
        raise UserError("a file and a journal are named: omit one")
    given = sys.stdin.buffer if arguments.url == "-" else Path(arguments.url)
    return verify_file(given, public, arguments.heads, arguments.trusted_key)


def _search(arguments: argparse.Namespace) -> int:
    terms = _wanted(arguments)
    options: dict[str, Any] = {"after": arguments.after, "limit": arguments.limit}

    async def search(seat: Seat) -> Sequence[AuditEntry]:
        run = await _whole_name(seat.runs, arguments.run)
        return await seat.record.search(**options, **terms | {"run": run})

    found: Sequence[AuditEntry] = asyncio.run(seated(arguments, search))
    whole = arguments.after is None and len(found) < arguments.limit
    for entry in sorted(found, key=lambda each: each.at) if whole else found:
        if arguments.json:
            print(json.dumps(dict(entry)))
        else:
            print_row(_row(entry, lines=not arguments.decisions), sys.stdout)
    if not found and not arguments.json:
        print("no decisions")
    elif len(found) == arguments.limit and not arguments.json:
        print_row(f"more: --after {escape(found[-1].key, keep='')}", sys.stdout)
    return 1 if any(entry.what == "damage" for entry in found) else 0


def _reads(arguments: argparse.Namespace) -> int:
    named = {"person": arguments.person, "request": arguments.request}
    found: list[Read] = asyncio.run(seated(arguments, lambda seat: seat.record.reads(**named)))
    for read in found:
        if arguments.json:
            print(json.dumps(msgspec.to_builtins(read)))
        else:
            print_row(_read_row(read), sys.stdout)
    if not found and not arguments.json:
        print("no reads are recorded: turn it on with keyturn users set record_reads true")
    return 0


def _read_row(read: Read) -> str:
    by = "the program" if read.by is None else f"{quote(read.by.id)}"
    claimed = " (claimed)" if read.by is not None and read.by.strength == "claimed" else ""
    what = f" {quote(read.what)}" if read.what else ""
    requests = f": {', '.join(escape(each, keep='')[:SHORT] for each in read.requests)}" if read.requests else ""
    return f"{here(read.at)} {read.how}{what} by {by}{claimed}{requests}"


def _row(entry: AuditEntry, *, lines: bool) -> str:
    words = [here(entry.at), escape(recorded_words(entry.what, entry.verdict, lines=lines), keep="")]
    told = {
        "by": decider_words(entry.what, entry.by, entry.via),
        "for": entry.acting_for,
        "via": "" if entry.via in ("person", "clock") else entry.via,
        "of tool": entry.tool,
        "agent": entry.agent,
        "arguments": entry.arguments,
        "edited": entry.edited,
        "answer": entry.answer,
        "granted": entry.granted,
        "message": entry.message,
        "note": entry.note,
    }
    words += [f"{name} {quote(value)}" for name, value in told.items() if value]
    return " ".join([*words, f"run {escape(entry.run, keep='')} line {entry.line + 1}"])


def _wanted(arguments: argparse.Namespace) -> Terms:
    names = ("person", "tool", "agent", "run", "verdict", "text")
    made: Any = {name: getattr(arguments, name) for name in names}
    if getattr(arguments, "decisions", False):
        made["decisions"] = True
    if arguments.since is not None or arguments.until is not None:
        made["between"] = (_time("--since", arguments.since), _time("--until", arguments.until))
    return made


def _time(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        with suppress(UserError, OverflowError):
            return datetime.now(UTC) - timedelta(milliseconds=milliseconds(text))
        raise UserError(f"{name} is a time such as 2026-11-02, 2026-11-02T09:30:00+01:00 or 7d, not {text!r}") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _keys(arguments: argparse.Namespace) -> int:
    file = key_file(arguments.key)
    signer = Signer.of(file, clock_ms())
    if arguments.action == "rotate":
        signer = signer.rotated(file, clock_ms())
    keys = signer.public
    if arguments.out is not None:
        with replaced(arguments.out) as stream:
            stream.write(keys.text.encode())
    names = keys.names()
    if arguments.json:
        print(json.dumps([{"key": name, "since": keys.since(name), "signs": name == keys.newest} for name in names]))
        return 0
    for name in reversed(names):
        what = "signs and verifies" if name == keys.newest else "verifies"
        print(f"{name}  since {moment_of(keys.since(name))}  {what}")
    return 0
