"""The command `keyturn doctor` looks for what is wrong with a journal, its directory and this machine.

Each line is ok, warn or bad, and says the remedy. Exit codes: 0 where nothing is bad, 1 where something is. Nothing is
written.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import warnings
from typing import Any

from ..application.app import App
from ..core.errors import KeyturnError, UnsafeStore
from ..journal import open_journal
from ..render.escape import escape
from .doctor_checks import Diagnosis, check_app, check_keys, check_machine, check_store
from .loading import found
from .printing import must_be_there, print_row
from .with_journal import describe_app, describe_journal, print_json, url_of


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    describe_app(parser, "also check its agents and what they require")
    describe_journal(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look at all of it; return 1 where something is bad."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UnsafeStore)
        findings = asyncio.run(_looked(arguments))
    unsafe = (each for each in doubts if issubclass(each.category, UnsafeStore))
    findings += [Diagnosis("warn", "journal", str(each.message), "keep it on a local disk") for each in unsafe]
    if arguments.json:
        print_json([finding._asdict() for finding in findings], indent=2)
    else:
        for finding in findings:
            remedy = f": {escape(finding.remedy, keep='')}" if finding.remedy else ""
            print_row(f"{finding.level:4} {finding.what}: {escape(finding.said, keep='')}{remedy}", sys.stdout)
    return 1 if any(finding.level == "bad" for finding in findings) else 0


async def _looked(arguments: argparse.Namespace) -> list[Diagnosis]:
    findings = [*check_machine(), *check_keys()]
    app: App | None = None
    if arguments.app is not None:
        try:
            app = found(arguments.app)
        except KeyturnError as error:
            findings.append(Diagnosis("bad", "app", str(error)))
    try:
        findings += await _of_journal(arguments, app)
    except KeyturnError as error:
        findings.append(Diagnosis("bad", "journal", str(error)))
    return findings


async def _of_journal(arguments: argparse.Namespace, app: App | None) -> list[Diagnosis]:
    if app is not None and arguments.journal is None:
        whole: Any = app.journal
        store = whole
    else:
        url = url_of(arguments)
        must_be_there(url)
        whole = open_journal(url)
        store = whole.of(arguments.tenant)
    try:
        findings = await check_store(store, () if app is None else app.people.roots)
        return findings if app is None else findings + await check_app(store, app)
    finally:
        if hasattr(whole, "close"):
            await whole.close()
