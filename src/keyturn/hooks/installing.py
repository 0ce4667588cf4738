"""Install hooks: the command line that fails closed, the agent's settings, and where the server is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from .hooks_json import BadSettings
from .host import HookHost

#: How many seconds after a decision was due the wrapper ends the hook, and the agent ends the wrapper.
_GRACE, _LATER = 20, 40


class NoPlace(Exception):
    """Raised where no server is known to ask."""


def command_line(host: HookHost, wait: int) -> str:
    """Return the command line of a hook: whatever its program does, without a decision the call does not run.

    Agents let a call run whose hook is missing, crashes, takes too long or says what they do not know; exit code 2 with
    words on stderr is what all of them take for a refusal.
    """
    program = shutil.which("keyturn")
    run = shlex.quote(program) if program else f"{shlex.quote(sys.executable)} -m keyturn"
    bound = f"timeout {wait + _GRACE} " if shutil.which("timeout") else ""
    return f"{bound}{run} hook {host.name} --wait {wait} || {{ echo 'keyturn: no decision was made' >&2; exit 2; }}"


def install(host: HookHost, path: Path, wait: int, must: str) -> None:
    """Write the hook into the agent's settings, in the place of an earlier one."""
    _change(host, path, command_line(host, wait), wait + _LATER, must)


def uninstall(host: HookHost, path: Path) -> None:
    """Take the hook out of the agent's settings."""
    _change(host, path, "", 0, "")


def config_of(host: HookHost, *, project: bool) -> Path:
    """Return the file of an agent's settings: of this account, or of the current directory."""
    return Path.cwd() / (host.project or host.config) if project else Path.home() / host.config


def _change(host: HookHost, path: Path, command: str, seconds: int, must: str) -> None:
    there = path.exists()
    text = settings_of(path)
    if there or command:
        made = host.installed(text, command, seconds, must)
        if not made and not path.is_symlink():
            path.unlink()
        else:
            _written(path, made, path.stat().st_mode & 0o777 if there else 0o600)


def settings_of(path: Path) -> str:
    """Return the text of a settings file; "" where there is none."""
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise BadSettings("it is not UTF-8") from None


def place_file() -> Path:
    """Return the file that says which server hooks ask, with which token."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "keyturn" / "hook.json"


def keep_place(server: str, token: str) -> Path:
    """Keep which server hooks ask; nobody else may read the token."""
    path = place_file()
    _written(path, json.dumps({"server": server, "token": token}) + "\n", 0o600)
    return path


def place() -> tuple[str, str]:
    """Return the server and the token: of the environment, else as they were kept."""
    server, token = os.environ.get("KEYTURN_SERVER"), os.environ.get("KEYTURN_TOKEN")
    if server and token:
        return server, token
    try:
        kept = cast("dict[str, Any]", json.loads(place_file().read_text(encoding="utf-8")))
        return str(kept["server"]), str(kept["token"])
    except (OSError, ValueError, KeyError, TypeError):
        raise NoPlace("no server to ask: run keyturn hook install, or set KEYTURN_SERVER and KEYTURN_TOKEN") from None


def _written(path: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all; a link to it stays a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    there = Path(os.path.realpath(path))
    number, draft = tempfile.mkstemp(prefix=f".{there.name}.", dir=there.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            os.fchmod(number, mode)
            stream.write(text)
        os.replace(draft, there)
    except BaseException:
        os.unlink(draft)
        raise
