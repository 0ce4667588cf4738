"""The page of `deep_web_approval`, behind a real server on the loopback, asked by a real client."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from html import unescape
from importlib import reload
from typing import Any

import httpx2
import pytest
import uvicorn

from examples import deep_web_approval
from tests.waiting import until_now

SECONDS = 20


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx2.Client]:
    """The example as its own process would serve it, with a run that waits."""
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-these-tests")
    reload(deep_web_approval)
    place = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(deep_web_approval.web, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
    thread.start()
    with httpx2.Client(base_url=f"http://127.0.0.1:{place.getsockname()[1]}", trust_env=False) as client:
        until_now(lambda: server.started, SECONDS)
        until_now(lambda: "<form" in shown(client).text, SECONDS)
        yield client
    server.should_exit = True
    thread.join(SECONDS)
    place.close()


def shown(client: httpx2.Client, token: str | None = None) -> httpx2.Response:
    return client.get("/", params={"token": deep_web_approval.TOKEN if token is None else token})


def form(client: httpx2.Client) -> dict[str, str]:
    """What the form of the page would send."""
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', shown(client).text)
    return {name: unescape(value) for name, value in fields}


def answer_of_the_model() -> str:
    calls: Any = deep_web_approval.MODEL.calls
    until_now(lambda: len(calls) == 2, SECONDS)
    return str(calls[1].input[-1]["output"])


def test_a_button_approves(page: httpx2.Client) -> None:
    first = shown(page).text
    assert "tar -czf /b.tgz &lt;data&gt; &amp;" in first
    assert "<data>" not in first
    done = page.post("/decide", data={**form(page), "say": "approve"}, follow_redirects=True)
    assert (done.status_code, "No pending requests." in done.text) == (200, True)
    assert "backup.sh" in answer_of_the_model()


@pytest.mark.trial
def test_a_button_rejects_with_words(page: httpx2.Client) -> None:
    said = {**form(page), "say": "reject", "message": "Not <that> one."}
    assert page.post("/decide", data=said).status_code == 303
    assert "Not <that> one." in answer_of_the_model()


def test_nobody_else_decides(page: httpx2.Client) -> None:
    good = {**form(page), "say": "approve"}
    for wrong in ({"token": ""}, {"token": "x"}, {"token": "ä"}, {"say": "burn"}):
        assert page.post("/decide", data={**good, **wrong}).status_code == 403
    assert shown(page, "x").status_code == 403
    assert page.get("/decide", params=good).status_code == 405, "a link decides nothing"
    assert page.post("/decide", data=good, headers={"host": "evil.example"}).status_code == 403
    for wrong in ({"digest": "of something else"}, {"id": "no such request"}):
        assert page.post("/decide", data={**good, **wrong}).status_code == 409
    assert len(deep_web_approval.MODEL.calls) == 1
    assert page.post("/decide", data=good).status_code == 303
    assert page.post("/decide", data={**good, "say": "reject"}).status_code == 409, "the first word stands"


@pytest.mark.trial
def test_the_page_loads_and_frames_nothing(page: httpx2.Client) -> None:
    headers = shown(page).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["referrer-policy"] == "no-referrer"
