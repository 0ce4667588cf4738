"""A throwaway PostgreSQL server for tests: in a new directory, on a free port, and gone afterwards.

It runs Debian's binaries or those on the PATH, and needs no package. A server that was there before is never touched:
this one is known by its own data directory only. No schema and no driver is known here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

DEBIAN = Path("/usr/lib/postgresql")
_NEEDED = ("initdb", "pg_ctl", "createdb")
# initdb and the server refuse to run as root; these accounts may.
_ACCOUNTS = ("postgres", "nobody")
# The server must stop although whoever started it was killed: this shell waits until its standard input closes, which
# the kernel does for the dead as well.
_GUARD = 'trap "" HUP INT TERM; read -r _; "$1" -D "$2" -m immediate -w -t 20 -s stop; rm -rf "$3"'
_TRIES = 5


class PostgresMissing(RuntimeError):
    """Raised where there is no PostgreSQL to start here; the text says how to get one."""


@dataclass
class Postgres:
    """Describes a running server.

    `url` leads to its first database; `database()` makes one more.
    """

    url: str
    directory: Path
    _createdb: Sequence[str | Path]
    _names: count[int] = field(default_factory=count)

    def database(self) -> str:
        """Make a new and empty database and return its address."""
        name = f"keyturn_{next(self._names)}"
        _run([*self._createdb, name], self.directory)
        return self.url.rpartition("/")[0] + f"/{name}"

    def crash(self) -> None:
        """Stop the server as a crash does, and start it again; what it did not write to its log is lost."""
        again = ["-D", self.directory / "data", "-m", "immediate", "-w", "-t", "60", "-s", "restart"]
        _run([_binaries() / "pg_ctl", *again, "-l", self.directory / "log"], self.directory, _account())


@contextmanager
def throwaway_postgres(*, durable: bool = False) -> Generator[Postgres]:
    """Start a new server for as long as the block lasts, or this process; `durable` keeps fsync on.

    With pytest: `with throwaway_postgres() as server: yield server.url` in a fixture with scope="session".
    """
    binaries = _binaries()
    account = _account()
    directory = Path(tempfile.mkdtemp(prefix="keyturn-pg-"))
    if account:
        shutil.chown(directory, account["user"])
    data = directory / "data"
    arguments = ["sh", "-c", _GUARD, "guard", binaries / "pg_ctl", data, directory]
    # In a session of its own, so that Ctrl-C in a terminal stops the tests and lets it do its work.
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        start_new_session=True,
        **account,
    ):  # leaving closes its standard input and waits for it
        password = secrets.token_urlsafe(16)
        _make(binaries, data, password, account)
        port = _start(binaries, data, durable, account)
        createdb = [binaries / "createdb", "-h", directory, "-p", str(port), "-U", "postgres"]
        yield Postgres(f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres", directory, createdb)


def _binaries() -> Path:
    places = sorted(DEBIAN.glob("*/bin"), key=lambda place: _version(place.parent.name), reverse=True)
    on_path = shutil.which("pg_ctl")
    if on_path is not None:
        places.append(Path(on_path).resolve().parent)
    for place in places:
        if all((place / name).exists() for name in _NEEDED):
            return place
    raise PostgresMissing(
        f"no PostgreSQL server in {DEBIAN}/*/bin or on the PATH: apt-get install postgresql (it need not be running)"
    )


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".") if part.isdigit())


def _account() -> dict[str, Any]:
    """Return who the server runs as, in the words of `subprocess`; nothing where we are not root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry.pw_gid for entry in pwd.getpwall()}
    for name in _ACCOUNTS:
        if name in known:
            return {"user": name, "group": known[name], "extra_groups": ()}
    raise PostgresMissing("PostgreSQL refuses root, and there is no user 'postgres': apt-get install postgresql")


def _make(binaries: Path, data: Path, password: str, account: dict[str, Any]) -> None:
    directory = data.parent
    words = directory / "password"
    words.touch(mode=0o600)
    words.write_text(_verifier(password))
    if account:
        shutil.chown(words, account["user"])
    # Whoever else is on this machine can reach 127.0.0.1, and a superuser of PostgreSQL may run programs.
    access = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={words}"]
    plain = ["-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync"]
    _run([binaries / "initdb", "-D", data, *plain, *access], directory, account)


def _verifier(password: str) -> str:
    """Return what the server stores of a password: hashed once, since it is random, so that a login costs little."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client, server = (hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key"))
    parts = (base64.b64encode(part).decode() for part in (salt, hashlib.sha256(client).digest(), server))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*parts)


def _start(binaries: Path, data: Path, durable: bool, account: dict[str, Any]) -> int:
    settings = [
        "listen_addresses = '127.0.0.1'",
        f"unix_socket_directories = '{data.parent}'",
        "timezone = 'UTC'",
        *(() if durable else ("fsync = off", "synchronous_commit = off", "full_page_writes = off")),
    ]
    log = data.parent / "log"
    start = [binaries / "pg_ctl", "-D", data, "-l", log, "-w", "-t", "60", "-s", "start"]
    for attempt in range(_TRIES):
        port = _free_port()
        with (data / "postgresql.conf").open("a") as file:
            file.write("\n".join([*settings, f"port = {port}", ""]))
        try:
            _run(start, data.parent, account)
        except RuntimeError as error:
            said = log.read_text(errors="replace") if log.exists() else ""
            # The port was free when we asked; somebody may have been quicker.
            if "Address already in use" not in said or attempt == _TRIES - 1:
                raise RuntimeError(f"{error}\n{said}") from None
            log.unlink()
        else:
            return port
    raise AssertionError("the last try returns or raises")


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return line.getsockname()[1]


def _run(command: Sequence[str | Path], directory: Path, account: dict[str, Any] | None = None) -> None:
    # What PostgreSQL reads from the environment would lead to somebody else's server.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(
        command,
        cwd=directory,
        env={**environment, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **(account or {}),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stdout.strip()}")
