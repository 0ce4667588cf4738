"""`keyturn serve` in a process of its own: what it refuses, how the first person comes in, how it ends; and mounted."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from keyturn import App, UserError
from keyturn.server.running import ListeningAddress
from keyturn.server.settings import ServerSettings
from tests import forked
from tests.server.programs import HOST, agents, peopled
from tests.waiting import until

MODULE = """
from keyturn import App, UserError
from tests.server.programs import agents
app = App(agents(), "sqlite:///{folder}/runs.db")
"""
ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def served(tmp_path: Path, *options: str) -> Generator[tuple[forked.Program, Path]]:
    (tmp_path / "desk.py").write_text(MODULE.format(folder=tmp_path))
    said = tmp_path / "said.txt"
    command = ["-m", "keyturn.cli.main", "serve", "desk:app", "--person", "ada", *options]
    path = f"{ROOT}/src:{ROOT}"
    with said.open("w") as out:
        process = forked.Program(
            command, cwd=tmp_path, stdout=out, stderr=out, text=True, env=dict(_environment(), PYTHONPATH=path)
        )
        try:
            yield process, said
        finally:
            process.kill()
            process.wait(30)


@pytest.mark.timeout(400)
async def test_without_an_app_it_serves_an_inbox_for_external_callers(tmp_path: Path) -> None:
    command = ["-m", "keyturn.cli.main", "serve", "--journal", f"sqlite:///{tmp_path}/inbox.db", "--port", "0"]
    said = tmp_path / "said.txt"
    with said.open("w") as out:
        process = forked.Program(command, cwd=tmp_path, stdout=out, stderr=out, text=True, env=_environment())
        try:
            await until(lambda: "for external" in said.read_text(), seconds=120)
        finally:
            process.kill()
            process.wait(30)


def _environment() -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if name != "KEYTURN_JOURNAL"}


@pytest.mark.timeout(400)
async def test_the_first_person_comes_in_by_a_link_and_the_server_ends_well(tmp_path: Path) -> None:
    with served(tmp_path, "--port", "8397") as (process, said):
        await until(lambda: "serving" in said.read_text(), seconds=120)
        found = re.search(r"http://localhost:8397/enter#(kt_\w+)", said.read_text())
        assert found
        assert "█" not in said.read_text(), "no phone opens a link to localhost"
        async with httpx2.AsyncClient(base_url="http://localhost:8397/v1", timeout=30) as http:
            await until(lambda: _alive(http), seconds=60)
            headers = {"authorization": f"Bearer {found[1]}"}
            assert (await http.get("/me", headers=headers)).status_code == 401  # a link is no token
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "shutting down" in said.read_text()
    with served(tmp_path, "--port", "8397") as (process, said):
        await until(lambda: "serving" in said.read_text(), seconds=120)
        again = re.search(r"http://localhost:8397/enter#(kt_\w+)", said.read_text())
        assert again  # nobody came in by the first one, which nobody can know any more
        assert again[1] != found[1]


async def _alive(http: httpx2.AsyncClient) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return (await http.get("/health/ready")).status_code == 200
    return False


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (("--host", "0.0.0.0"), "--tls-cert"),
        (("--host", "0.0.0.0", "--secure", "--proxy", "none"), "keyturn init"),
        (("--url", "https://keyturn.example"), "--proxy 10.0.0.5"),
        (("--tls-cert", "a.pem"), "name both"),
        (("--url", "keyturn.example"), "https://keyturn.example"),
    ],
)
def test_an_address_that_others_reach_takes_encryption_and_people(
    tmp_path: Path, options: tuple[str, ...], remedy: str
) -> None:
    with served(tmp_path, *options) as (process, said):
        assert process.wait(150) == 2
        assert remedy in said.read_text()


def test_a_port_that_cannot_be_used_says_why_and_what_to_pass() -> None:
    for port in (80_800, 65_536, -1):
        with pytest.raises(UserError, match=f"the port must be from 0 .* to 65535, not {port}"):
            ListeningAddress(port=port)
    with ListeningAddress(port=0).bound() as first:
        assert first.proto == socket.IPPROTO_TCP, "else asyncio sets no TCP_NODELAY, and a response waits 40 ms"
        first.listen()
        taken = ListeningAddress(port=first.getsockname()[1])
        with pytest.raises(UserError, match=r"is in use: stop the program .* or choose another port"):
            taken.bound()
    with pytest.raises(UserError, match="does not have the address"):
        ListeningAddress(host="192.0.2.1", port=0, secure=True).bound()


def test_an_address_says_by_which_names_it_is_reached() -> None:
    own = ListeningAddress(host="10.0.0.5", port=80, public_url="https://desk.example/", hosts=("inner",), secure=True)
    assert own.known_hosts[3:] == ("10.0.0.5", "desk.example", "inner")
    assert (own.url, own.public, own.encrypted) == ("https://desk.example", True, True)
    assert not ListeningAddress(host="::1").public
    assert ListeningAddress(host="0.0.0.0", secure=True).public
    assert ListeningAddress(host="some.name").public


async def test_a_mounted_inbox_prints_the_first_link_once_and_at_the_address_where_it_is(
    capsys: pytest.CaptureFixture[str], own_key: None
) -> None:
    app = App([], "memory://", worker=False)
    whole = FastAPI(routes=[Mount("/inbox", app.asgi(ServerSettings(hosts=("inbox.example",), secure=True)))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=whole), base_url="https://inbox.example") as http:
        assert (await http.get("/inbox/login", headers={"host": "evil.example"})).status_code == 421
        assert capsys.readouterr().err == ""
        assert "no users yet" not in (await http.get("/inbox/login")).text
        told = capsys.readouterr().err
        [link] = re.findall(r"https://inbox\.example/inbox/enter#(kt_\w+)", told)
        assert "█" in told, "a phone opens this one"
        await http.get("/inbox/login")
        assert capsys.readouterr().err == ""
        entered = await http.post("/inbox/enter", data={"link": link}, headers={"origin": "https://inbox.example"})
        assert entered.headers["location"] == "/inbox/account/setup?next=%2F"
    again = FastAPI(routes=[Mount("/inbox", app.asgi(ServerSettings(hosts=("inbox.example",))))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=again), base_url="http://inbox.example") as http:
        await http.get("/inbox/login")
        assert capsys.readouterr().err == "", "somebody has signed in"
    await app.stop()


@pytest.mark.parametrize("outer", [FastAPI, Starlette])
async def test_mounted_under_a_prefix_it_works_and_moves_runs_from_the_first_request_on(outer: Any) -> None:
    app = App(agents(), "memory://")
    tokens = await peopled(app)
    whole = outer(routes=[Mount("/inner/keyturn", app.asgi(ServerSettings(hosts=("localhost",))))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=whole), base_url=HOST) as http:
        base = "/inner/keyturn/v1"
        headers = {"authorization": f"Bearer {tokens['bot']}"}
        told = (await http.get(f"{base}/openapi.json")).json()
        assert told["servers"] == [{"url": base}]
        await http.get(f"{base}/health/live")
        run = await http.post(f"{base}/runs", json={"agent": "desk", "input": "Pay."}, headers=headers)
        found = await http.get(f"{base}/runs/{run.json()['run']}?wait=20", headers=headers)
        assert found.json()["status"] == "waiting"
    await app.stop()
