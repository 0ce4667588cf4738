"""Check the defaults of a tool's parameters where the tool is declared, so that a call that leaves one out is valid.

A default is used as an argument of the model is: printed as JSON, and read back. Nothing here reads a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ...core.digest import canonical
from ...core.errors import UserError
from .refusal import complaints

Read = Callable[[str], Any]
Show = Callable[[Any], Any]


def usable_defaults(model: Any, names: Mapping[str, str], ways: Callable[[], tuple[Read, Show]]) -> tuple[Read, Show]:
    """Return how a model is read and printed, once each of its defaults reads back as a value of its type.

    `names` are the parameters' names by the model's keys. A default that Python takes for its type and strict JSON does
    not, as `0` for a bool, is replaced by the value that it means; `UserError` names one that is none.
    """
    read, show = ways()
    if wrong := _wrong(model, names, read, show):
        _convert(model, names, wrong)
        read, show = ways()
        for name, message in _wrong(model, names, read, show).items():
            raise _not_of_its_type(name, message)
    return read, show


def _wrong(model: Any, names: Mapping[str, str], read: Read, show: Show) -> dict[str, str]:
    """Return what is wrong with defaults, by the parameters' names."""
    from pydantic import ValidationError

    try:
        defaults = model.model_construct()
    except Exception:  # a default_factory that works only at a call; the call will tell
        return {}
    try:
        text = canonical(show(defaults))
    except Exception as error:
        given = ", ".join(repr(name) for key, name in names.items() if key in vars(defaults))
        raise UserError(f"a default (one of {given}) cannot be written as JSON: use None or a JSON value") from error
    try:
        read(text)
    except ValidationError as error:
        wrong = [each for each in error.errors() if each["type"] != "missing" or len(each["loc"]) > 1]
        places = [(str(each["loc"][0]) if each["loc"] else "", each["msg"]) for each in wrong]
        return {names.get(place, place): message for place, message in reversed(places)}
    except Exception as error:
        raise UserError(f"a default is refused by the validation of its own type: {complaints(error)}") from error
    return {}


def _convert(model: Any, names: Mapping[str, str], wrong: Mapping[str, str]) -> None:
    """Replace these defaults by what Python's types read them as."""
    from pydantic import ValidationError

    fields = cast("dict[str, Any]", model.model_fields)
    for key, name in names.items():
        if name not in wrong:
            continue
        if fields[key].default_factory is not None:
            raise _not_of_its_type(name, wrong[name])
        try:
            made = model.__pydantic_validator__.validate_assignment(model.model_construct(), key, fields[key].default)
        except ValidationError as error:
            raise _not_of_its_type(name, error.errors()[0]["msg"]) from error
        fields[key].default = vars(made)[key]
    model.model_rebuild(force=True)


def _not_of_its_type(name: str, message: str) -> UserError:
    return UserError(f"the default of parameter {name!r} is not of its type: {message}")
