"""Parse arguments that are one object: of a user's type (a model, a dataclass, a typed dict), or any at all.

The same two steps as for a function's parameters, and the same machinery: `freeze` from the model's text to
what will run, `value` from that text to the object. Nothing here runs anything.
"""

from __future__ import annotations

from typing import Any, cast, get_origin

from ...core.digest import canonical
from ...core.errors import BadJson, UserError
from ...core.exact_text import is_exact
from ...core.strict import parse
from ..base import InvalidArguments, Prepared
from .bound import CallSchema

_FIELD = "input"
_OBJECTS = "its input type must be a BaseModel, a dataclass or a TypedDict"


class StructuredInput:
    """Validates a type as the whole input of a tool.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Escalation:
    ...     reason: str
    ...     urgent: bool = False
    >>> escalation = StructuredInput("escalate", Escalation)
    >>> escalation.freeze('{"reason": "fraud"}').text
    '{"reason":"fraud","urgent":false}'
    >>> escalation.value('{"reason":"fraud","urgent":false}')
    Escalation(reason='fraud', urgent=False)
    """

    def __init__(self, name: str, of: Any) -> None:
        self.name = name
        self._schema = _schema_of(name, of)
        self.json_schema = _bare(name, self._schema.params_json_schema)
        # A secret inside is not told apart here, so that all of it is hidden: never the other way round.
        self.secrets: tuple[str, ...] = tuple(self.json_schema["properties"]) if self._schema.secrets else ()

    def freeze(self, text: str) -> Prepared:
        """Return what will run for the model's text, or raise `InvalidArguments`."""
        given = any_object(self.name, text)
        # The text is one whole JSON value by now, so that it cannot reach out of the field it is put in.
        params = self._schema.freeze(f'{{"{_FIELD}":{given.text}}}').params[_FIELD]
        frozen = canonical(params)
        return Prepared(given.text if canonical(given.params) == frozen else frozen)

    def value(self, text: str) -> Any:
        """Return the object, for a text that `freeze` returned."""
        return self._schema.bind(f'{{"{_FIELD}":{text}}}')[0][0]


def any_object(name: str, text: str) -> Prepared:
    """Parse any JSON object, as the model wrote it, or raise `InvalidArguments`; an empty text is an empty object.

    A text whose numbers another reader could take for others is replaced by the canonical one.

    >>> any_object("echo", '{"words": 3}').params, any_object("echo", '{"x": 1e-400}').text
    ({'words': 3}, '{"x":0.0}')
    """
    try:
        params = parse(text or "{}")
    except BadJson as error:
        raise InvalidArguments(f"The arguments of {name} are invalid: they are {error}") from None
    if not isinstance(params, dict):
        raise InvalidArguments(f"The arguments of {name} are invalid: they must be a JSON object")
    return Prepared(text or "{}") if is_exact(text) else Prepared(canonical(params))


def _schema_of(name: str, of: object) -> CallSchema:
    from .schema import function_schema  # here for the same reason as in `function`

    if not isinstance(of, type) and get_origin(of) is None:
        raise UserError(f"tool {name!r}: {_OBJECTS}, not {of!r}")

    def take(input: object) -> None: ...

    take.__annotations__ = {_FIELD: of}
    return function_schema(take, name_override=name, use_docstring_info=False)


def _bare(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the one field as a schema of its own."""
    inner = cast("dict[str, Any]", schema["properties"][_FIELD])
    definitions = cast("dict[str, Any]", schema.get("$defs", {}))
    own = definitions.get(str(inner.get("$ref", "")).rpartition("/")[2], inner)
    if own.get("type") != "object":
        raise UserError(f"tool {name!r}: {_OBJECTS}")
    below = {key: each for key, each in definitions.items() if each is not own or _refers(definitions, key)}
    return {**own, "$defs": below} if below else dict(own)


def _refers(definitions: dict[str, Any], name: str) -> bool:
    return f"'#/$defs/{name}'" in str(definitions)
