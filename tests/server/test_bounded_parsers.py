"""Reading what somebody sends takes steps in proportion to its length, or it is refused before it is parsed.

Each parser that takes a stranger's text is given the worst 8 KB that is known for it, and twice as much: the steps are
counted, not the seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from starlette.datastructures import QueryParams
from starlette.requests import cookie_parser

from keyturn import Policy
from keyturn.channels.slack_replies import SlackRefused, clicks_in
from keyturn.core.durations import milliseconds
from keyturn.core.errors import BadJson, KeyturnError, UserError
from keyturn.core.predicates.pattern import check_pattern
from keyturn.core.predicates.predicate import check_where, evaluate
from keyturn.core.strict import parse
from keyturn.policies.toml_lines import parsed
from keyturn.proofs import scheme
from keyturn.proofs.base import strict_base64
from keyturn.proofs.ssh import dearmored
from keyturn.server.api.once import key_of
from keyturn.server.api.refusing import Refusal
from keyturn.server.forms import safe_redirect
from keyturn.server.guard import own_cookies
from keyturn.server.web.form import PageForm
from tests.server.programs import program
from tests.steps import calls
from tests.table import each

KB = 1 << 10
Read = Callable[[str], object]


def _toml(text: str) -> object:
    return Policy.from_toml(text + "\n")


def _where(text: str) -> object:
    where: Any = json.loads(text)
    check_where(where)
    return evaluate(where, {f"argument {n}": n for n in range(900)} | {"a": "a" * 100})


def _form(text: str) -> object:
    from starlette.datastructures import FormData

    return PageForm(FormData([("field", text)])).text("field")


def _cookies(text: str) -> object:
    [(_, value)] = own_cookies([(b"cookie", text.encode())])
    return cookie_parser(value.decode())


def _rules(text: str, size: int) -> str:
    return "".join(text.replace("N", str(n)) for n in range(size // len(text)))


def _names(size: int) -> str:
    return json.dumps({f"n{n}": 1 for n in range(size // 10)})


def _listed(size: int) -> str:
    return json.dumps({"a": {"one_of": [f"{n:06}" for n in range(size // 10)]}})


WORST: list[tuple[str, Read, Callable[[int], str]]] = [
    ("JSON: arrays", parse, lambda n: "[" * n),
    ("JSON: objects", parse, lambda n: '{"a":' * (n // 5)),
    ("JSON: digits", parse, lambda n: "9" * n),
    ("JSON: a float", parse, lambda n: "0." + "9" * n),
    ("JSON: escapes", parse, lambda n: '"' + "\\u0041" * (n // 6) + '"'),
    ("JSON: surrogates", parse, lambda n: '"' + "\\ud800\\udc00" * (n // 12) + '"'),
    ("JSON: keys", parse, lambda n: "{" + ",".join(f'"{k}":1' for k in range(n // 10)) + "}"),
    ("JSON: backslashes", parse, lambda n: '"' + "\\" * n),
    ("TOML: a name of many parts", _toml, lambda n: "a." * (n // 2) + "a=1"),
    ("TOML: a table of many parts", _toml, lambda n: "[" + "a." * (n // 2) + "a]"),
    ("TOML: quoted parts", _toml, lambda n: '"a".' * (n // 4) + "a=1"),
    ("TOML: many names of some parts", _toml, lambda n: _rules("a.b.c.d.e.f.g.hN=1\n", n)),
    ("TOML: arrays", _toml, lambda n: "a=" + "[" * n),
    ("TOML: inline tables", _toml, lambda n: "a={b=" * (n // 5)),
    ("TOML: tables in tables", _toml, lambda n: "a=[" + "{b=1}," * (n // 6) + "]"),
    ("TOML: digits", _toml, lambda n: "a=" + "9" * n),
    ("TOML: spaces", _toml, lambda n: "[[rules]]\n" + " " * n + "x=1"),
    ("TOML: quotes", _toml, lambda n: "a='" + '"' * n),
    ("TOML: triple quotes", _toml, lambda n: 'a="""' + '""\\' * (n // 3)),
    ("TOML: comments", _toml, lambda n: "#\n" * (n // 2)),
    ("TOML: rules", _toml, lambda n: _rules('[[rules]]\naction="deny"\ntool="toolN"\n', n)),
    ("TOML: limits", _toml, lambda n: _rules('[[rules]]\naction="deny"\ntool="tN"\nover={calls=N}\n', n // 8)),
    ("TOML: a wrong rule", _toml, lambda n: _rules('[[rules]]\naction="deny"\n', n) + "a=1"),
    ("a predicate: names", _where, _names),
    ("a predicate: a list", _where, _listed),
    ("a predicate: a name of many parts", _where, lambda n: json.dumps({"a." * (n // 2) + "a": 1})),
    ("a pattern: brackets", lambda t: check_pattern("a", t), lambda n: "[" * n),
    ("a pattern: groups", lambda t: check_pattern("a", t), lambda n: "(" * (n // 2) + ")" * (n // 2)),
    ("a pattern: choices", lambda t: check_pattern("a", t), lambda n: "(a|b)" * (n // 5)),
    ("a duration", milliseconds, lambda n: "9" * n),
    ("base64", lambda t: strict_base64(t, "it"), lambda n: "A" * n),
    ("an ssh signature", lambda t: dearmored(t.encode()), lambda n: "-----BEGIN SSH SIGNATURE-----\n" * (n // 30)),
    ("an ssh key", scheme("ssh").enrol, lambda n: "ssh-ed25519 " + "A" * n),
    ("an ssh key of spaces", scheme("ssh").enrol, lambda n: "ssh-ed25519" + " " * n + "A"),
    ("a passkey", scheme("passkey").enrol, lambda n: '{"id":' + "[" * n),
    ("a query", QueryParams, lambda n: "&" * n),
    ("a query of names", QueryParams, lambda n: "a=%41&" * (n // 6)),
    ("a cookie", _cookies, lambda n: ";" * n),
    ("a cookie of quotes", _cookies, lambda n: 'a="' + "\\" * n + '"'),
    ("a path to go on to", safe_redirect, lambda n: "/" + "%25" * (n // 3)),
    ("a click of Slack's", lambda t: clicks_in(t.encode()), lambda n: "payload=" + "%5B" * (n // 3)),
    ("clicks of many fields", lambda t: clicks_in(t.encode()), lambda n: "a=1&" * (n // 4)),
    ("an idempotency key", lambda t: key_of(_headers(t)), lambda n: "a" * n),
    ("a field of a form", _form, lambda n: "\0" * n),
]


def _headers(text: str) -> Any:
    from starlette.datastructures import Headers

    return Headers({"idempotency-key": text})


def _steps(read: Read, text: str) -> int:
    def tried() -> None:
        # What is refused is refused with an error of ours: anything else ends the test.
        with suppress(KeyturnError, BadJson, SlackRefused, Refusal):
            read(text)

    return calls(tried)


@each("what, read, worst", WORST, ids=lambda value: value if isinstance(value, str) else None)
def test_reading_takes_steps_in_proportion_to_the_length(what: str, read: Read, worst: Callable[[int], str]) -> None:
    assert what
    small, large = (_steps(read, worst(size * KB)) for size in (4, 8))
    assert large < 8 * KB * 24
    assert large < 2_000 or large < small * 2.6


def test_a_policy_is_bounded_before_it_is_parsed() -> None:
    for text, why in {
        "a.b.c.d.e.f.g.h.i = 1": "8 parts",
        "a = [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]": "16 deep",
        "a = " + "9" * 5_000: "400 digits",
        "# " + "x" * (1 << 20): "characters at most",
    }.items():
        with pytest.raises(UserError, match=why):
            parsed(text, "")
    words = "a.b.c.d.e.f.g.h.i " + "[" * 20
    quoted = f'[[rules]]\naction = "deny"\nreason = "{words}"  # {words}\n'
    assert Policy.from_toml(quoted).rules[0].reason.startswith("a.b")


def test_a_cookie_that_takes_quadratic_time_to_unquote_is_left_out() -> None:
    """C code takes that time, so that no step is counted."""
    given = [(b"host", b"h"), (b"Cookie", b'a="' + b"\\" * 30_000 + b'"; keyturn=kt_1; b=2')]
    assert own_cookies(given) == [(b"host", b"h"), (b"Cookie", b" keyturn=kt_1; b=2")]
    assert own_cookies(given[:1]) == given[:1]


async def test_a_nested_policy_over_http_is_refused_with_its_place_and_no_traceback(caplog: Any) -> None:
    async with program() as at:
        for policy in ("a=" + "[" * 15_000, "a={b=" * 3_000, "a." * 7_900 + "a=1", "a=" + "9" * 15_000):
            made = await at.ask("POST", "/policies/replay", json={"policy": policy})
            assert made.status_code == 422, made.text[:500]
            assert set(made.json()) == {"error"}
        long = await at.ask("POST", "/policies/replay", json={"policy": "#" * 16_001})
        assert long.status_code == 422
        assert "Traceback" not in caplog.text
