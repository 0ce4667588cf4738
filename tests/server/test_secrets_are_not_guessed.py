"""No answer of any door tells whether a guess at a secret argument is right.

Each route of the API and of the pages is asked twice, with the secret itself and with another text, as somebody who may
only read, as a machine, as somebody who may decide, and as an administrator: but for the guess, the two answers are the
same. A route that takes something and has no row here fails. `make test` asks each route as some of them, in turn.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
import pytest

from keyturn import Agent, App, Approval, Grant, MemoryJournal, Policy, Secret, UserError, function_tool
from keyturn.core.challenge import decision_challenge
from keyturn.core.digest import canonical
from keyturn.core.records import Decision
from keyturn.core.run import call_digest, call_shape, edit_digest
from keyturn.engine.run.log_cache import log_in
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.server.api.v1 import table
from keyturn.server.web.routes import router
from tests.effort import AT_LENGTH
from tests.server.web.test_sight import routes_of
from tests.server.web.visiting import Visiting

TRUE, GUESS = "S3CRET-41", "S3CRET-42"
MARK = "[redacted]"
Given = dict[str, Any]
Body = Callable[[str], Given]


@function_tool(needs_approval=True, approval=Approval(role="ops"))
def login(user: str, password: Annotated[str, Secret]) -> str:
    """Log in."""
    return "in"


def _says(request: ModelRequest) -> Any:
    return "Done." if tool_outputs(request) else [function_call("login", {"user": "ann", "password": TRUE})]


def _rule(over: str) -> Body:
    def made(guess: str) -> Given:
        where = over.replace("GUESS", guess)
        return {"policy": f'default = "deny"\n[[rules]]\naction = "allow"\n{where}\n', "examples": 3}

    return made


def _grant(where: Body) -> Body:
    return lambda guess: {"digest": "f" * 64, "grant": {"where": where(guess)}}


def _edit(guess: str) -> Given:
    return {"user": "ann", "password": guess}


WHERE: list[Body] = [
    lambda guess: {"password": guess},
    lambda guess: {"password": {"matches": f"{guess}.*"}},
    lambda guess: {"password": {"le": guess}},
    lambda guess: {"password": {"one_of": [guess]}},
    lambda guess: {"Password": guess},
    lambda guess: {"user": "ann", "password.x": guess},
]
NOTHING: list[Body] = []


# What a route of the API takes that is compared with a call: bodies, each made of a guess.
def _chat(guess: str) -> Any:
    payload = {"approved": True, "editedArgs": _edit(guess)}
    return {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": guess, "role": "user", "content": guess}],
        "resume": [{"interruptId": guess, "status": "resolved", "payload": payload}],
    }


BODIES: dict[str, list[Body]] = {
    "POST /runs": [lambda guess: {"agent": guess, "input": guess}],
    "POST /runs/{run}/send": [lambda guess: {"message": guess}],
    "POST /runs/{run}/cancel": NOTHING,
    "POST /runs/{run}/fork": NOTHING,
    "POST /runs/{run}/resume": NOTHING,
    "POST /agui/{agent}": [_chat],
    "POST /requests/{request}/look": [lambda guess: {"digest": guess}],
    "POST /requests/{request}/review": [lambda guess: {"verdict": "right", "digest": "f" * 64, "note": guess}],
    "POST /requests/{request}/take": [lambda guess: {"digest": guess}],
    "POST /requests/{request}/let_go": [lambda guess: {"digest": guess}],
    "POST /requests/{request}/snooze": [lambda guess: {"digest": guess, "lasts": "1h"}],
    "POST /requests/{request}/wake": [lambda guess: {"digest": guess}],
    "POST /requests/{request}/approve": [
        *map(_grant, WHERE),
        lambda guess: {"digest": "f" * 64, "edit": _edit(guess)},
        lambda guess: {"revision": 1, "grant": {"where": {"password": guess}}},
    ],
    "POST /requests/{request}/reject": [lambda guess: {"digest": "f" * 64, "message": guess}],
    "POST /requests/{request}/ask_back": [lambda guess: {"digest": "f" * 64, "question": guess}],
    "POST /requests/{request}/answer": [lambda guess: {"digest": "f" * 64, "output": guess}],
    "POST /requests/{request}/resolve": [lambda guess: {"digest": "f" * 64, "outcome": "ran", "output": guess}],
    "POST /requests/{request}/withdraw": [lambda guess: {"digest": guess}],
    "POST /requests/{request}/preview_edit": [lambda guess: {"revision": 1, "edit": _edit(guess)}],
    "POST /requests/{request}/to_sign": [
        lambda guess: {"digest": "f" * 64, "verdict": "edit", "edit": _edit(guess)},
        lambda guess: {"revision": 1, "verdict": "edit", "edit": _edit(guess)},
    ],
    # An external caller sees its own requests alone, and their arguments are its own.
    "POST /asks": [lambda guess: {"key": guess, "tool": "login", "arguments": json.dumps(_edit(guess))}],
    "POST /asks/{ask}/claim": [lambda guess: {"digest": guess, "name": "n"}],
    "POST /asks/{ask}/hold": NOTHING,
    "POST /asks/{ask}/outcome": [lambda guess: {"name": "n", "outcome": "succeeded", "result": guess}],
    "POST /asks/{ask}/withdraw": NOTHING,
    "POST /approve_all": [lambda guess: {"requests": [{"id": guess, "digest": guess}]}],
    "POST /reject_all": [lambda guess: {"requests": [{"id": guess, "digest": guess}], "message": guess}],
    "POST /runs/{run}/grants/{grant}/revoke": NOTHING,
    "POST /policies/replay": [
        _rule('where = { password = "GUESS" }'),
        _rule('where = { password = { matches = "GUESS.*" } }'),
        _rule('where = { password = { one_of = ["GUESS"] } }'),
        _rule('where = { password = { ge = "GUESS" } }'),
        _rule('where = { user = { matches = "GUESS" } }'),
    ],
    "POST /audit/export": [lambda guess: {"format": "jsonl", "text": guess}, lambda guess: {"tool": guess}],
}
FORMS: dict[str, list[Body]] = {
    "POST /requests/{name}/change": [lambda guess: {"arg.user": "ann", "arg.password": guess}],
    "POST /requests/{name}/edit": [
        lambda guess: {"arg.user": "ann", "arg.password": guess, "looked": "f" * 64},
        lambda guess: {"arg.user": "ann", "arg.password": guess, "digest": "f" * 64},
    ],
    "POST /requests/{name}/grant": [
        (lambda guess, where=where, digest=digest: {"which": "own", "where": json.dumps(where(guess)), **digest})
        for where in WHERE
        for digest in ({}, {"digest": "f" * 64})
    ],
    "POST /requests/{name}/covers": [
        (lambda guess, where=where: {"which": "own", "where": json.dumps(where(guess))}) for where in WHERE
    ],
    "POST /requests/{name}/alike": [lambda guess: {"verdict": "approve", f"is.{guess}": "on"}],
    "POST /requests/{name}/looked": [lambda guess: {"digest": guess}],
    "POST /requests/{name}/decide": [lambda guess: {"verdict": guess}],
    "POST /runs/{name}/message": [lambda guess: {"text": guess}],
    "POST /runs/{name}/fork": [lambda guess: {"line": guess}],
    "POST /runs/{name}/resume": NOTHING,
    "POST /runs/{name}/cancel": NOTHING,
    "POST /grants/revoke": [lambda guess: {"grant": guess}],
    "POST /policies/replay": [lambda guess, make=make: {"toml": make(guess)["policy"], "since": ""}
                              for make in BODIES["POST /policies/replay"]],
    "POST /audit/verify": NOTHING,
    "POST /audit/export": [lambda guess: {"format": "csv", "text": guess}],
    "POST /audit/filters": [lambda guess: {"name": "n", "text": guess}],
    "POST /channels/again": [lambda guess: {"number": guess}],
    # These are about the directory alone, which no argument is in.
    "POST /people": NOTHING,
    "POST /people/{name:path}": NOTHING,
    "POST /secrets/{name:path}": NOTHING,
    "POST /connect": NOTHING,
    "POST /connect/test": NOTHING,
    "POST /settings": NOTHING,
}  # fmt: skip
ASKED = (
    *("text", "tool", "agent", "risk", "run", "after", "state", "person", "verdict", "since", "from", "fork"),
    *("request", "kind", "what", "how", "id", "q", "name"),
)
STREAMS = ("/stream", "/events", "/live")


@asynccontextmanager
async def office() -> AsyncGenerator[tuple[App, dict[str, str], Any]]:
    """Open an app in which one call waits whose password is a secret, and one has run under a grant."""
    app = App([Agent("desk", model=ScriptedModel(_says), tools=[login])], MemoryJournal(lambda: 1_795_000_000_000))
    async with app:
        await app.people.start("ada")
        await app.people.add("ben", roles=["ops"], by="ada")
        await app.people.add("eve", by="ada")
        await app.people.add("bot", kind="machine", by="ada")
        scopes = {"ada": ["read", "decide", "people"], "ben": ["read", "decide"], "eve": ["read", "decide"]}
        tokens = {name: await app.people.issue_token(name, given, by="ada") for name, given in scopes.items()}
        tokens["bot"] = await app.people.issue_token("bot", ["read", "run"], by="ada")
        tokens["reader"] = await app.people.issue_token("eve", ["read"], by="ada")
        for name in ("ada", "ben", "eve"):
            tokens[f"{name}'s page"] = await app.people.begin_session(name, "password", lasts="1d")
        run = await app.start("desk", "Log in.", requester="cyd")
        await app.wait(run.id, 20)
        [row] = await app.inbox.list()
        yield app, tokens, row


def _same(made: Any, guess: str) -> tuple[int, str]:
    text = re.sub(r'"once|name="looked" value="[0-9a-f]+"', "", made.text)
    return made.status_code, text.replace(guess, "GUESSED")


def test_each_route_that_takes_something_has_a_row() -> None:
    api = {f"{route.method} {route.path}" for route in table() if route.method != "GET"}
    assert {each for each in api if not each.startswith("POST /people/")} == set(BODIES)
    assert {each for each in routes_of(router) if not each.startswith("GET ")} == set(FORMS)


def in_turn(whos: Sequence[str], who: str, these: Iterable[Any]) -> Iterator[Any]:
    """Yield each of these for one of who asks, in turn; at length all of them for each."""
    return (each for place, each in enumerate(these) if AT_LENGTH or (place + whos.index(who)) % len(whos) == 0)


API = ("reader", "bot", "eve", "ben", "ada")
PAGES = ("eve", "ben", "ada")


@pytest.mark.sweep
@pytest.mark.parametrize("who", API)
async def test_no_answer_of_the_api_depends_on_whether_a_guess_is_right(who: str) -> None:
    async with office() as (app, tokens, row):
        visit = Visiting(app, tokens[who], program=True)
        for route, bodies in in_turn(API, who, BODIES.items()):
            path = "/v1" + _filled(route.partition(" ")[2], row)
            for body in bodies:
                made = [_same(await visit.client.post(path, json=body(each)), each) for each in (TRUE, GUESS)]
                assert made[0] == made[1], (route, body(TRUE))
                assert made[0][0] < 500, (route, made[0])
        told = (await visit.client.get("/v1/openapi.json")).json()["paths"]
        for given in in_turn(API, who, table()):
            if given.method != "GET" or given.path.endswith((*STREAMS, "/metrics")):
                continue
            path = "/v1" + _filled(given.path, row)
            for name in _texts(told.get(f"/v1{given.path}", told.get(given.path))["get"].get("parameters", [])):
                seen = [_same(await visit.client.get(path, params={name: each}), each) for each in (TRUE, GUESS)]
                assert seen[0] == seen[1], (given.path, name)


def _texts(parameters: list[Given]) -> list[str]:
    """Return the names of the texts that a route takes in its query."""
    return [each["name"] for each in parameters if each["in"] == "query" and '"enum"' not in json.dumps(each)]


def _filled(path: str, row: Any) -> str:
    given = {"{run}": row.run, "{request}": row.id, "{grant}": "g1", "{ask}": row.run, "{agent}": row.agent}
    for name, value in given.items():
        path = path.replace(name, value)
    return path


async def test_a_four_digit_secret_is_not_found_offline_by_all_that_a_reader_fetches() -> None:
    pin = "4711"
    says = [[function_call("login", {"user": "ann", "password": pin}, call_id=name) for name in ("a", "b")], "Done."]
    app = App([Agent("desk", model=ScriptedModel(says), tools=[login])], MemoryJournal(lambda: 1_795_000_000_000))
    async with app:
        await app.people.start("ada")
        await app.people.add("ben", roles=["ops"], by="ada")
        tokens = {who: await app.people.issue_token(who, ["read", "decide"], by="ada") for who in ("ada", "ben")}
        await app.start("desk", "Log in.", requester="cyd")
        await app.wait((await app.runs())[0].run, 20)
        row, other = await app.inbox.list()
        visit, ben = (Visiting(app, token, program=True) for token in tokens.values())
        paths = ["/v1" + _filled(each.path, row) for each in table() if each.method == "GET"]
        paths = [path for path in paths if not path.endswith((*STREAMS, "/metrics"))]
        told = [(await visit.client.get(path)).text for path in paths]
        edit = {"user": "bob", "password": MARK}
        for word, body in {"preview_edit": {}, "to_sign": {"verdict": "edit"}}.items():
            made = await ben.client.post(f"/v1/requests/{row.id}/{word}", json={"revision": 1, "edit": edit, **body})
            assert made.status_code == 200, made.text
            told.append(made.text)
        fetched = "\n".join(told)
        run = (await log_in(app.journal, row.run)).run
    call = run.calls[row.call]
    assert row.digest in fetched
    assert row.shape in fetched
    assert row.shape == other.shape, "equal calls of one run are alike"
    assert len(run.key) == 32
    assert [key for key in (run.key, run.salt) if key in fetched] == []
    bare = msgspec.structs.replace(
        call, proposal=msgspec.structs.replace(call.proposal, key="")
    )  # all but the key is fetched
    changed = canonical({"user": "bob", "password": pin})
    said = decision_challenge("default", row.id, 1, Decision(call.id, "edit", row.digest, args=changed))
    marks = [call_digest(run, bare), call_shape(bare), edit_digest(run, bare, changed, None), b64encode(said).decode()]
    assert [mark for mark in marks if mark in fetched] == [], "one of 10,000 guesses would be confirmed"


async def test_an_edit_that_writes_a_secret_is_signed_by_no_one() -> None:
    async with office() as (app, _tokens, row):
        for password in (TRUE, GUESS):
            with pytest.raises(UserError, match=r"signed with \[redacted\] in the place of each secret"):
                await app.inbox.to_sign(row, "edit", edit=_edit(password))


@pytest.mark.sweep
@pytest.mark.parametrize("who", PAGES)
async def test_no_page_depends_on_whether_a_guess_is_right(who: str) -> None:
    async with office() as (app, tokens, row):
        visit = Visiting(app, tokens[f"{who}'s page"])
        mark = (await visit.fields("/grants"))["csrf_token"]
        own = {"csrf_token": mark, "digest": row.digest, "revision": "1", "run": row.run}
        of = {"requests": row.id, "runs": row.run, "people": "ben", "secrets": "ben"}
        for route in in_turn(PAGES, who, sorted({*routes_of(router)})):
            method, _, path = route.partition(" ")
            path = re.sub(r"\{name(:path)?\}", of.get(path.split("/")[1], ""), path)
            if method == "GET" and not path.endswith(STREAMS):
                for names in (ASKED, ("text",), ("days",)):
                    asks = ["&".join(f"{name}={each}" for name in names) for each in (TRUE, GUESS)]
                    seen = [
                        _same(await visit.see(f"{path}?{ask}"), each)
                        for ask, each in zip(asks, (TRUE, GUESS), strict=True)
                    ]
                    assert seen[0] == seen[1], (route, names)
            for form in FORMS.get(route, []):
                made = [_same(await visit.send(path, {**own, **form(each)}), each) for each in (TRUE, GUESS)]
                assert made[0] == made[1], (route, form(TRUE))


async def test_who_may_not_decide_a_request_is_refused_before_what_they_sent_is_compared() -> None:
    async with office() as (app, tokens, row):
        visit = Visiting(app, tokens["eve"], program=True)
        for word, body in {
            "preview_edit": {"revision": 1, "edit": {"user": 5}},
            "to_sign": {"revision": 1, "verdict": "edit", "edit": {"user": 5}},
            "approve": {"revision": 1, "edit": {"user": 5}},
        }.items():
            made = await visit.client.post(f"/v1/requests/{row.id}/{word}", json=body)
            assert made.status_code == 403, (word, made.text)
        page = Visiting(app, tokens["eve's page"])
        for form in ("change", "edit", "grant"):
            mark = (await page.fields("/grants"))["csrf_token"]
            sent = {"csrf_token": mark, "digest": row.digest, "which": "own", "where": "{", "arg.user": "x"}
            assert (await page.send(f"/requests/{row.id}/{form}", sent)).status_code == 403, form


async def test_a_typed_secret_is_a_change_even_where_it_is_the_same() -> None:
    async with office() as (app, tokens, row):
        ben = Visiting(app, tokens["ben's page"])
        own = {"csrf_token": (await ben.fields("/grants"))["csrf_token"], "digest": row.digest}
        same = await ben.send(f"/requests/{row.id}/change", {**own, "arg.user": "ann", "arg.password": TRUE})
        assert "No changes yet" not in same.text
        assert "password holds a secret that you typed" in same.text
        kept = await ben.send(f"/requests/{row.id}/change", {**own, "arg.user": "ann", "arg.password": ""})
        assert "No changes yet" in kept.text
        drawn = await app.inbox.preview_edit(row, {"user": "bob", "password": TRUE})
        left = await app.inbox.preview_edit(row, {"user": "bob", "password": MARK})
        assert (drawn.runs, bool(left.runs), drawn.arguments) == ("", True, left.arguments)


async def test_a_grant_compares_no_secret_whoever_gives_it() -> None:
    async with office() as (app, _tokens, row):
        for where in ({"password": TRUE}, {"password": {"ne": None}}, {"password.first": "S"}):
            with pytest.raises(UserError, match="is secret or holds a secret"):
                await app.inbox.approve(row, by=await _login(app), grant=Grant(where=where))
        done = await app.inbox.approve(row, by=await _login(app), grant=Grant(where={"user": "ann"}))
        assert done.state == "approve"


async def _login(app: App) -> Any:
    return await app.people.login(await app.people.begin_session("ben", "password", lasts="1d"))


async def test_a_replayed_policy_says_that_it_cannot_tell_of_a_secret_and_the_program_own_policy_can() -> None:
    async with office() as (app, tokens, _row):
        ada = Visiting(app, tokens["ada"], program=True)
        body = {"policy": f'default = "deny"\n[[rules]]\naction = "allow"\nwhere = {{ password = "{TRUE}" }}\n'}
        told = (await ada.client.post("/v1/policies/replay", json=body)).json()
        assert [each["would"] for each in told["counts"]] == ["unknown"]
        assert told["changed"] == 0
        for who in ("reader", "bot", "eve", "ben"):
            made = await Visiting(app, tokens[who], program=True).client.post("/v1/policies/replay", json=body)
            assert made.status_code == 403, who
        ran = App(
            [Agent("desk", model=ScriptedModel(_says), tools=[login])],
            MemoryJournal(),
            policy=Policy.from_toml(body["policy"]),
        )
        async with ran:
            run = await ran.start("desk", "Log in.", requester="cyd")
            assert (await ran.wait(run.id, 20)).status == "finished"
