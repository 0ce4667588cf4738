"""Webhooks go where they may and nowhere else: forms of addresses, rebinding, redirects, slow and endless answers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from keyturn import UserError
from keyturn.channels.addresses import is_public
from keyturn.channels.base import ChannelBusy, ChannelRefused
from keyturn.channels.https import NotTaken, Poster
from keyturn.channels.webhook import WebhookChannel
from keyturn.testing.loopback.lines import LoopbackListener
from keyturn.testing.loopback.receiver import ReceiverServer
from keyturn.testing.loopback.wire import HttpReply, receive
from tests.table import each
from tests.waiting import turns_of_the_loop

INSIDE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.254"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "198.18.0.1", "192.0.2.1", "168.63.129.16", "::", "::1", "fd00::1"),
    *("fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1"),
    *("2001:0:1::1", "::ffff:0:127.0.0.1", "nonsense", ""),
]


@each("address", INSIDE)
def test_no_address_inside_is_public(address: str) -> None:
    assert not is_public(address)


@each("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1"])
def test_what_is_public_is(address: str) -> None:
    assert is_public(address)


FORMS = [
    *(
        "http://hooks.example/",
        "gopher://x.example/",
        "https://user:pw@x.example/",
        "https://x.example/#f",
        "https:///x",
    ),
    *("https://x.example:0/", "https://x.example:99999/", "https://x.example\\@evil.example/", "https://x.exa mple/"),
    *(
        "https://x.example/\r\nHost: evil",
        "https://ex\u0430mple.com/",
        "https://[::1",
        "file:///etc/passwd",
        "",
        "//x/",
    ),
    "https://x.example/" + "a" * 3_000,
]


async def _nothing(_host: str, _port: int) -> list[str]:
    raise AssertionError("it is refused before anybody is asked")


async def test_an_address_of_a_wrong_form_is_refused_at_both_times() -> None:
    for url in FORMS:
        with pytest.raises(ChannelRefused):
            await Poster(resolver=_nothing).post(url, b"", {})
        with pytest.raises(UserError):
            WebhookChannel(url, secret="whsec_" + "a" * 40)


async def test_every_address_of_a_host_is_checked_and_nothing_is_sent() -> None:
    """Names, and numbers in forms that this machine's resolver understands."""
    async with ReceiverServer() as server:
        port = server.url.rpartition(":")[2]
        hosts = (
            "localhost",
            "localhost.",
            "127.0.0.1",
            "2130706433",
            "0x7f000001",
            "127.1",
            "0",
            "[::1]",
            "017700000001",
        )
        for host in hosts:
            with pytest.raises((ChannelRefused, OSError)):
                await Poster().post(f"https://{host}:{port}/", b"x", {})

        async def mixed(_host: str, _port: int) -> list[str]:
            return ["8.8.8.8", "127.0.0.1"]

        with pytest.raises(ChannelRefused):
            await Poster(resolver=mixed).post(f"https://x.example:{port}/", b"x", {})
        assert server.requests == []


async def test_a_name_that_is_rebound_is_connected_to_as_it_was_checked(tmp_path: Path) -> None:
    """The name is looked up once; over TLS the certificate is the name's, and the Host header says it."""
    asked, server_tls, client_tls = list[str](), *_certificate(tmp_path, "hooks.example")
    hosts, names = list[bytes](), list[str | None]()
    server_tls.sni_callback = lambda _socket, name, _context: names.append(name)

    async def once(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hosts.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server_tls)
    port = server.sockets[0].getsockname()[1]
    poster = Poster(loopback=True, resolver=once, tls=client_tls)
    await poster.post(f"https://hooks.example:{port}/x?y=1", b"{}", {})
    assert (asked, names) == (["hooks.example"], ["hooks.example"])
    assert hosts[0].startswith(b"POST /x?y=1 HTTP/1.1\r\nHost: hooks.example:%d\r\n" % port)
    asked.clear()
    with pytest.raises(ssl.SSLError):
        await poster.post(f"https://other.example:{port}/", b"{}", {})
    server.close()


def _certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(5).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(key.private_bytes(*form) + pem)
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(folder / "both.pem")
    return serves, ssl.create_default_context(cadata=pem.decode())


ANSWERS: list[tuple[HttpReply, type[Exception]]] = [
    (HttpReply(302, {"location": "http://169.254.169.254/"}), ChannelRefused),
    (HttpReply(307, {"location": "/"}), ChannelRefused),
    (HttpReply(410), ChannelRefused),
    (HttpReply(400), ChannelRefused),
    (HttpReply(429, {"retry-after": "7"}), ChannelBusy),
    (HttpReply(429, {"retry-after": "nan"}), NotTaken),
    (HttpReply(503), NotTaken),
    (HttpReply(200, {"x": "y" * 40_000}), NotTaken),
]


@pytest.mark.each
@pytest.mark.parametrize(("reply", "expected"), ANSWERS, ids=lambda each: str(getattr(each, "status", "")))
async def test_each_answer_means_something(reply: HttpReply, expected: type[Exception]) -> None:
    async with ReceiverServer({"takes": reply}) as server:
        with pytest.raises(expected):
            await Poster(loopback=True).post(server.url, b"x", {})
        assert len(server.requests) == 1, "no redirect is followed"


class TwoParts(LoopbackListener):
    """Answers without a length, in two parts, and hangs up."""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        for part in (b"HTTP/1.1 200 OK\r\n\r\n{", b"}"):
            writer.write(part)
            await writer.drain()
            await turns_of_the_loop(20)


async def test_an_answer_without_a_length_is_read_until_its_receiver_hangs_up() -> None:
    async with TwoParts() as server:
        assert await Poster(loopback=True).exchange(server.url, b"x", {}) == (200, b"{}")


async def test_a_slow_or_endless_answer_is_bounded() -> None:
    async with ReceiverServer() as server:
        poster = Poster(loopback=True, seconds=0.5)
        for mood in ("hangs", "trickles"):
            server.mood, begun = mood, time.monotonic()
            with pytest.raises(TimeoutError):
                await poster.post(server.url, b"x", {})
            assert time.monotonic() - begun < 10
        server.mood = "floods"
        await poster.post(server.url, b"x", {})
        assert server.read_at_most < 50_000_000


async def test_a_header_can_not_end_early() -> None:
    async with ReceiverServer() as server:
        for value in ("x\r\nEvil: 1", "\x00", "é"):
            with pytest.raises(ChannelRefused):
                await Poster(loopback=True).post(server.url, b"", {"X": value})


async def test_a_secret_that_is_none_is_refused_and_not_repeated() -> None:
    bad: list[Any] = ["", "whsec_", "whsec_short", "not base64 at all, whatever it is!", [], ["whsec_" + "a" * 40, ""]]
    for secret in bad:
        with pytest.raises(UserError) as raised:
            WebhookChannel("https://x.example/", secret=secret)
        assert "short" not in str(raised.value)


async def test_names_that_take_long_to_look_up_keep_no_thread_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def slow(*_asked: Any, **_more: Any) -> list[Any]:
        ended.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    poster = Poster()
    posts = [asyncio.ensure_future(poster.post("https://slow.example/", b"x", {})) for _ in range(40)]
    try:
        await turns_of_the_loop(3)
        async with asyncio.timeout(20):
            assert await asyncio.to_thread(lambda: 5) == 5
    finally:
        ended.set()
        came = await asyncio.gather(*posts, return_exceptions=True)
    assert {type(each) for each in came} == {NotTaken, TimeoutError}
