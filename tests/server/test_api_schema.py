"""The OpenAPI of the API is what it does: schemathesis asks every route, and each answer is one that is described."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from keyturn.server.api.v1 import table
from tests.effort import AT_LENGTH, some
from tests.server.programs import Port, program

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
EXAMPLES = some(8) // 2
ENDLESS = ("/runs/{run}/events", "/requests/stream", "/agui/{agent}")


async def test_the_openapi_names_every_route_and_every_struct() -> None:
    async with program() as at:
        told = (await at.ask("GET", "/openapi.json", "")).json()
        assert told["servers"] == [{"url": "/v1"}]
        routes = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
        assert routes == {(route.method, route.path) for route in table()}
        names = set(told["components"]["schemas"])
        for path in told["paths"].values():
            for operation in path.values():
                assert operation["summary"]
                assert operation["description"]
                refs = [word for word in str(operation).split("'") if word.startswith("#/components/schemas/")]
                assert {ref.rpartition("/")[2] for ref in refs} <= names


async def test_what_is_read_is_as_the_openapi_describes_it() -> None:
    """Every list of the API, as an administrator reads it; the trial below asks every route in every way."""
    async with program() as at:
        await at.waiting()
        told = (await at.ask("GET", "/openapi.json", "")).json()
        read = 0
        for path, operations in told["paths"].items():
            if "get" not in operations or "{" in path or path in ENDLESS:
                continue
            made = await at.ask("GET", path)
            [(kind, described)] = operations["get"]["responses"][str(made.status_code)]["content"].items()
            assert made.headers["content-type"].partition(";")[0] == kind
            if kind == "application/json":
                jsonschema.validate(made.json(), {**described["schema"], "components": told["components"]})
                read += made.status_code == 200
        assert read >= 10


@pytest.mark.trial
@pytest.mark.sweep
@pytest.mark.timeout(400)
def test_each_answer_is_one_that_the_openapi_describes() -> None:
    with Port() as port:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        schema = schemathesis.openapi.from_url(f"{port.url}/v1/openapi.json")
        schema.config.generation.update(max_examples=EXAMPLES)
        failed = list[str]()
        asked = set[str]()
        for place, found in enumerate(schema.get_all_operations()):
            operation: Any = found.ok()
            if operation.path not in ENDLESS and (AT_LENGTH or place % 4 == 0):
                failed += _tried(operation, port)
                asked.add(f"{operation.method.upper()} {operation.path}")
        every = len(table()) - len(ENDLESS)
        assert len(asked) >= (every if AT_LENGTH else every // 4 - 1)
        assert not failed, "\n\n".join(failed[:5])


def _tried(operation: Any, port: Port) -> list[str]:
    tokens = [port.tokens["ada"], port.tokens["only run"]]
    route = next(each for each in table() if (each.method, each.path) == (operation.method.upper(), operation.path))
    token = tokens[1] if route.scopes == ("run",) else tokens[0]

    def asked(case: Any) -> None:
        case.call_and_validate(headers={"authorization": f"Bearer {token}"}, checks=CHECKS, timeout=20)

    try:
        _each(operation, asked)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | pytest.fail.Exception):
            raise
        return [f"{operation.method} {operation.path}: {_words(error)}"]
    return []


def _words(error: BaseException) -> str:
    inner = getattr(error, "exceptions", None) or [error]
    return "\n".join(str(each) for each in inner)


def _each(operation: Any, asked: Any) -> None:
    from hypothesis import HealthCheck, Phase, given, settings

    checks = list(HealthCheck)
    quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=checks, phases=[Phase.generate])
    quick(given(case=operation.as_strategy())(asked))()
