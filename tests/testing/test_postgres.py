"""The throw-away PostgreSQL: it comes up, is nobody else's, and is gone afterwards, however its owner ends."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import pytest

from keyturn.testing import postgres
from keyturn.testing.postgres import Postgres, PostgresMissing, throwaway_postgres
from tests.needs import missing

pytestmark = pytest.mark.skipif(
    not list(postgres.DEBIAN.glob("*/bin")) and shutil.which("initdb") is None, reason=missing("PostgreSQL")
)


def asked(url: str, query: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[arg-type]  # a test's own words
        assert row is not None
        return str(row[0])


@pytest.mark.trial
def test_it_is_new_and_ours_and_gone_afterwards_even_if_the_block_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "/nowhere")  # what the environment says of another server is not heard
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGUSER", "nobody")

    def use(server: Postgres) -> None:
        is_new(server)
        knows_nothing_of_another_database(server)
        lets_no_stranger_in(server)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), throwaway_postgres(durable=True) as server:
        use(server)
    assert not server.directory.exists()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(server.url)


def is_new(server: Postgres) -> None:
    assert asked(server.url, "SHOW data_directory") == str(server.directory / "data")
    assert asked(server.url, "SHOW fsync") == "on"
    assert asked(server.url, "SHOW server_encoding") == "UTF8"
    assert asked(server.url, "SHOW timezone") == "UTC"
    assert server.directory.stat().st_mode & 0o077 == 0


def knows_nothing_of_another_database(server: Postgres) -> None:
    urls = [server.database() for _ in range(2)]
    for url in urls:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE things (name text)")
    assert asked(urls[0], "SELECT count(*) FROM things") == "0"
    assert len({*urls, server.url}) == 3


def lets_no_stranger_in(server: Postgres) -> None:
    password = server.url.partition("postgres:")[2].partition("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.url.replace(f":{password}@", ":guessed@"))


@pytest.mark.trial
def test_it_is_gone_when_its_owner_is_killed() -> None:
    script = (
        f"import sys, time; sys.path[:] = {sys.path!r}\n"
        "from keyturn.testing.postgres import throwaway_postgres\n"
        "with throwaway_postgres() as server:\n"
        "    print(server.directory, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        server = os.pidfd_open(int((directory / "data" / "postmaster.pid").read_text().split()[0]))
        owner.kill()
    ended, _, _ = select.select([server], [], [], 20)
    os.close(server)
    assert ended


def test_a_machine_without_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresMissing, match="apt-get install postgresql"), throwaway_postgres():
        pass


@pytest.mark.trial
def test_a_start_that_fails_shows_what_the_server_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_free_port", lambda: 99999)
    made: list[str] = []
    monkeypatch.setattr(postgres.tempfile, "mkdtemp", lambda prefix: made.append(mkdtemp(prefix=prefix)) or made[-1])
    with pytest.raises(RuntimeError, match="99999"), throwaway_postgres():
        pass
    assert [Path(directory).exists() for directory in made] == [False]
