"""What a deep agent's run has at hand: its files and its todos, saved with the run.

A backend that is kept in memory is saved whole. Of any other one only the place is saved, and the agent must have it at
the resume: a saved text never makes this process open a folder.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from ..core.errors import UserError
from ..tools.backends.backend import Backend
from ..tools.backends.composite import CompositeBackend
from ..tools.backends.state import FileData, StateBackend
from ..tools.filesystem.jail import Parts

_BACKEND, _TODOS = "backend", "todos"
#: The fields that a saved run has in another form, or not at all.
_APART = (_BACKEND, "own")


@dataclass(slots=True)
class Todo:
    """Holds one item of the agent's plan.

    >>> Todo("Write the tests", "in_progress", "Writing the tests").status
    'in_progress'
    """

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    active_form: str = ""


class SavedBackend(Backend):
    """Stands for the backend of a loaded run until the agent, which has the real one, is at work."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.data == other.saved()

    __hash__ = object.__hash__

    @property
    def root(self) -> str:
        """Return that it is not opened yet."""
        return "a saved run"

    def find(self, parts: Parts) -> bytes | None:
        """Refuse to read: only the agent knows where the files are."""
        raise UserError("the files of a loaded run are there once its agent is at work; look at deps.files")

    def put(self, parts: Parts, data: bytes | None) -> None:
        """Refuse to write, as `find` does."""
        raise UserError("the files of a loaded run are changed once its agent is at work")

    def names(self) -> Mapping[str, int]:
        """Return nothing."""
        return {}

    def saved(self) -> Any:
        """Return what the run saved."""
        return self.data


@dataclass(slots=True)
class DeepAgentDeps:
    """Holds what one run has at hand: its backend, and its todos.

    Without a backend the run has the agent's. A subclass that is a dataclass may have more fields; say
    `create_deep_agent(deps_type=...)` then.

    >>> deps = DeepAgentDeps(backend=StateBackend({"/notes.txt": "milk"}))
    >>> deps.files["/notes.txt"]["content"]
    ['milk']
    """

    backend: Backend | None = None
    todos: list[Todo] = field(default_factory=list[Todo])

    # Whether the agent made them, for a run that was given none: then they go along with its messages.
    own: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: object = self.backend
        if given is not None and not isinstance(given, Backend):
            raise UserError(f"backend must be a backend such as StateBackend(), not {given!r}")

    @property
    def files(self) -> dict[str, FileData]:
        """Return the files in memory by path; of other backends none are held here."""
        return _files_of(self.backend)

    def at(self, own: Backend) -> Backend:
        """Return the run's backend; the first time, that is made of the agent's own."""
        if self.backend is None:
            self.backend = own.restored(None)
        elif isinstance(self.backend, SavedBackend):
            self.backend = own.restored(self.backend.data)
        return self.backend

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        """Return it as JSON data."""
        from pydantic_core import to_jsonable_python  # only where a run is saved

        fields = [each.name for each in dataclasses.fields(self) if each.name not in _APART]
        data = {name: to_jsonable_python(getattr(self, name)) for name in fields}
        return {_BACKEND: None if self.backend is None else self.backend.saved(), **data}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls._of)

    @classmethod
    def _of(cls, data: object) -> Self:
        """Make it from what `model_dump` returned, each field of the type that its class gives it."""
        from pydantic import TypeAdapter

        if not isinstance(data, dict):
            raise ValueError("it is no object")
        given, types = cast("dict[str, Any]", data), typing.get_type_hints(cls)
        made = {
            each.name: TypeAdapter(types[each.name]).validate_python(given[each.name])
            for each in dataclasses.fields(cls)
            if each.name in given and each.name not in _APART
        }
        saved = given.get(_BACKEND)
        return cls(backend=None if saved is None else SavedBackend(saved), **made)


def _files_of(backend: Backend | None) -> dict[str, FileData]:
    if isinstance(backend, StateBackend):
        return backend.files
    if isinstance(backend, SavedBackend):
        return _saved_files(backend.data)
    if isinstance(backend, CompositeBackend):
        found = dict(_files_of(backend.default))
        for prefix, one in backend.routes.items():
            found |= {f"/{'/'.join(prefix)}{path}": data for path, data in _files_of(one).items()}
        return found
    return {}


def _saved_files(data: object) -> dict[str, FileData]:
    known: dict[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    found: dict[str, FileData] = dict(known.get("state", {}))
    for prefix, one in known.get("parts", {}).items():
        found |= {f"/{prefix}{path}" if prefix else path: each for path, each in _saved_files(one).items()}
    return found


def deps_of(context: object, own: Backend) -> DeepAgentDeps:
    """Return the deps of a run, with its backend open."""
    deps: object = getattr(context, "context", None)
    if not isinstance(deps, DeepAgentDeps):
        raise UserError(
            f"the deps (context) of a deep agent's run must be DeepAgentDeps or a dataclass that subclasses it, not "
            f"{type(deps).__name__}: pass the deps that the run began with, or none to a run that begins"
        )
    deps.at(own)
    return deps
