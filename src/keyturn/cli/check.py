"""The command `keyturn check` checks whether a journal kept the promises.

Nothing is written, but for the heads that `--keep` asks for.

What is found is printed as a table; what it means is `keyturn.audit.checker`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec

from ..audit.checker import CheckReport, Head, check, heads
from ..core.errors import KeyturnError, UnsafeStore, UserError
from ..journal import open_journal
from .printing import must_be_there, print_labelled, print_row
from .with_journal import describe_journal, describe_url, print_json, url_of


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    describe_url(parser)
    describe_journal(parser)
    parser.add_argument("--strict", action="store_true", help="refuse a journal that may not be safe at its location")
    parser.add_argument("--heads", type=Path, metavar="FILE", help="compare with the heads that --keep wrote")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="if all is well, write the heads of all runs")


def run(arguments: argparse.Namespace) -> int:
    """Check a journal; return 0 where every promise was kept, 1 where one was not, 2 where it could not be checked."""
    with warnings.catch_warnings():
        if arguments.strict:
            warnings.simplefilter("error", UnsafeStore)
        try:
            report = asyncio.run(_checked(arguments))
        except (KeyturnError, UnsafeStore) as error:
            print_labelled("keyturn check", str(error))
            return 2
    if arguments.json:
        print_json(report.data(), indent=2)
    else:
        for row in str(report).split("\n"):
            print_row(row, sys.stdout)
    return 0 if report.ok and not report.moving else 1


async def _checked(arguments: argparse.Namespace) -> CheckReport:
    known = None if arguments.heads is None else _read(arguments.heads)
    url = url_of(arguments)
    must_be_there(url)
    whole: Any = open_journal(url)
    try:
        store = whole.of(arguments.tenant)
        report = await check(store, heads=known)
        if arguments.keep is not None and report.ok:
            _keep(arguments.keep, json.dumps(await heads(store), indent=0))
    finally:
        if hasattr(whole, "close"):
            await whole.close()
    return report


def _keep(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"the heads cannot be kept in {str(path)!r}: {error.strerror}") from None


def _read(path: Path) -> dict[str, Head]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Head])
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{str(path)!r} holds no heads: {type(error).__name__}; name a file that --keep wrote"
        ) from None
