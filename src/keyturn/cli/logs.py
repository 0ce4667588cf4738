"""Log settings of commands that go on for long: `--log-level`, and `--log-format json` for whoever collects logs."""

from __future__ import annotations

import argparse
import json
import logging
from datetime import UTC, datetime

from ..render.escape import arrived

LEVELS = ("debug", "info", "warning", "error")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JSONFormatter(logging.Formatter):
    """Writes one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        made = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            made["exception"] = self.formatException(record.exc_info)
        return json.dumps(made)


class TextFormatter(logging.Formatter):
    """Writes a line of text for people at a terminal: what a record quotes acts on none, and begins no line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line, and behind it the lines of its traceback, each indented."""
        return arrived(super().format(record), keep="\n\t").replace("\n", "\n  ")


def describe_logs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what is logged (default: %(default)s)")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="a line of text or of JSON each")


def set_up_logs(arguments: argparse.Namespace) -> None:
    """Log to stderr as the arguments say, unless the app's own module set up logging already."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if arguments.log_format == "json" else TextFormatter(_TEXT))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("keyturn").setLevel(arguments.log_level.upper())
