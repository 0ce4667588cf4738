"""Say where a program touches what differs on purpose, and what it imports that is not there.

Each difference is a row: what the program does, and the sentence about it. A program is read and never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from ..openai_agents.absent import said
from .imports import NEW, OLD, Imported, dotted

ASKS = "{0} asks before each call; needs_approval=False lets its calls run, as they did"
UNLISTED = 'with an exemption by "never", a tool that require_approval does not list asks'
CALLABLE = (
    "needs_approval is called with the arguments that will run, defaults filled in; if it raises, or returns neither "
    "True nor False, the call asks"
)
SIGNED = (
    "a saved state is signed, by KEYTURN_SECRET or a key file; one that openai-agents saved is taken over by "
    "RunState.from_openai_agents(agent, data, trust=True), or by `keyturn takeover`"
)
GONE = "a waiting call whose tool is gone raises ToolMissing, and one whose tool has changed asks again"
ONCE = "a state is used once, a stale copy raises Conflict; a finished run that is resumed returns its result"
DECIDED = "a decision on a call that is not pending raises NotPending"
FOR_GOOD = "a decision for good ends when the tool's description or parameters change, and is never for another agent"
LABEL = "call ids are labels: one that a model uses again in a later turn is a new call, which asks for itself"
NAMES = "two tools of one name are an error, and never told apart by their order"
MISSING_TOOL = (
    "a model that calls a tool that is not there is told so, or RunConfig(tool_not_found_behavior=...) decides"
)
TRACES = "nothing is sent to OpenAI's trace view until set_tracing_export_api_key is called"
RETRIES = "without a policy, calls are tried again after overload, limits and dead connections"
SPANS = "there are no spans for turns and tasks: an agent's span has its model calls and tools below it"
OWN_SERVER = (
    "a server of your own has prompts only if it overrides list_prompts; its calls pass the gate, with the terms that "
    "its constructor was given"
)
NEW_ITEMS = "an item of a pending call is not part of the model's input: leave ToolApprovalItem out of new_items"
TYPED = "isinstance(item, {0}) is False of items, which are mappings: compare item.type, or ask raw_item.typed()"
STRING = "a string names {0!r}; change it by hand if it is an import or a patch"

_ASKING = ("ShellTool", "LocalShellTool", "ApplyPatchTool")
_SERVERS = ("MCPServerStdio", "MCPServerSse", "MCPServerStreamableHttp")
_METHODS = {
    "to_json": [SIGNED],
    "to_string": [SIGNED],
    "from_json": [SIGNED, GONE],
    "from_string": [SIGNED, GONE],
    "to_state": [ONCE],
    "approve": [DECIDED],
    "reject": [DECIDED],
    "new_items": [NEW_ITEMS],
}
_KEYWORDS = {
    "always_approve": FOR_GOOD,
    "always_reject": FOR_GOOD,
    "tool_name_collision_policy": NAMES,
}
_BASES = {"MCPServer": OWN_SERVER, "TracingProcessor": SPANS}
_CALLED = {"add_trace_processor": TRACES, "set_trace_processors": TRACES, "trace": TRACES}


class DifferenceNote(NamedTuple):
    """Holds a sentence about a line of a program."""

    line: int
    text: str


def absent(imported: list[Imported]) -> Iterator[DifferenceNote]:
    """Yield what a program imports that is not there, and what to use instead."""
    for each in imported:
        if each.name is None or each.name == "*":
            problem = _no_module(each.path)
        else:
            problem = _no_name(each.path, each.name)
        if problem is not None:
            yield DifferenceNote(each.line, problem)


def _no_module(path: str) -> str | None:
    if not path:
        return None
    try:
        import_module(f"{NEW}.{path}")
    except ModuleNotFoundError as error:
        return said(path) if error.name is None or error.name.startswith(NEW) else None
    except ImportError:
        return None
    return None


def _no_name(path: str, name: str) -> str | None:
    """Say what is absent of a name below a module, which may be an attribute of something that is there."""
    if (problem := _no_module(path)) is not None:
        return problem
    first, *_others = name.split(".")
    below = f"{path}.{first}" if path else first
    try:
        found: object = getattr(import_module(f"{NEW}.{path}" if path else NEW), first)
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            return None  # it is there, and needs a package that is not installed
        if _no_module(below) is not None:
            return said(below)
        found = import_module(f"{NEW}.{below}")
    if isinstance(found, ModuleType) and _others:
        return _no_name(below, ".".join(_others))
    return None


def differences(module: cst.Module, imported: list[Imported]) -> list[DifferenceNote]:
    """Return the notes on a program that imports that SDK, by line."""
    found = _Touched(imported)
    MetadataWrapper(module, unsafe_skip_copy=True).visit(found)
    return sorted({*found.notes, *absent(imported), *absent(found.dotted)})


class _Touched(cst.CSTVisitor):
    """Walks a program and notes what it touches."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, imported: list[Imported]) -> None:
        super().__init__()
        self.notes: set[DifferenceNote] = set()
        self.dotted: list[Imported] = []
        self._openai: set[str] = set()
        self._names = {each.known_as: each.name for each in imported if each.name is not None}
        self._modules = {each.known_as: each.path for each in imported if each.name is None}
        self._plain = OLD in self._modules
        self._modules.pop(OLD, None)

    def _sdk_name(self, node: cst.BaseExpression) -> str | None:
        """Return the name that an expression has in that SDK."""
        path = dotted(node)
        if path in self._names:
            return self._names[path]
        first, _, rest = path.partition(".")
        of_module = (first == OLD and self._plain) or first in self._modules
        return rest.rpartition(".")[2] if of_module and rest else None

    def _note(self, node: cst.CSTNode, text: str) -> None:
        place = self.get_metadata(PositionProvider, node)
        assert isinstance(place, CodeRange)
        self.notes.add(DifferenceNote(place.start.line, text))

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802 - the name is libcst's
        """Note what a call makes, and with what."""
        given = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
        name = self._sdk_name(node.func) or ""
        if isinstance(node.func, cst.Name) and node.func.value == "isinstance" and len(node.args) == 2:
            self._note_types(node.args[1].value)
        for keyword, text in _KEYWORDS.items():
            if keyword in given:
                self._note(node, text)
        if name in _ASKING and "needs_approval" not in given:
            self._note(node, ASKS.format(name))
        if name in _SERVERS and _exempts(given.get("require_approval")):
            self._note(node, UNLISTED)
        if "needs_approval" in given and _is_code(given["needs_approval"]):
            self._note(node, CALLABLE)
        if name == "RunConfig" and "tool_not_found_behavior" in given:
            self._note(node, MISSING_TOOL)
        if name == "ModelRetrySettings" and "policy" not in given:
            self._note(node, RETRIES)
        if name in _CALLED:
            self._note(node, _CALLED[name])

    def _note_types(self, node: cst.BaseExpression) -> None:
        """Note types of OpenAI's SDK that items are compared with."""
        parts = [each.value for each in node.elements] if isinstance(node, cst.Tuple) else [node]
        for name in [dotted(part) for part in parts]:
            if name in self._openai:
                self._note(node, TYPED.format(name))

    def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802 - the name is libcst's
        """Note classes of the program's own that stand in for one of that SDK's."""
        for base in node.bases:
            text = _BASES.get(self._sdk_name(base.value) or "")
            if text is not None:
                self._note(node, text)

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802 - the name is libcst's
        """Note methods of states, labels of calls, and names below the module itself."""
        for text in _METHODS.get(node.attr.value, []):
            self._note(node, text)
        if node.attr.value in ("call_id", "tool_call_id"):
            self._note(node, LABEL)
        path = dotted(node)
        first, _, rest = path.partition(".")
        below = "" if first == OLD and self._plain else self._modules.get(first)
        if not path or below is None:
            return True
        place = self.get_metadata(PositionProvider, node)
        assert isinstance(place, CodeRange)
        self.dotted.append(Imported(below, rest, path, place.start.line))
        return False

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802 - the name is libcst's
        """Leave out what an import names, which is known."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802 - the name is libcst's
        """Leave out what an import names, which is known, and remember the types of OpenAI's SDK."""
        if node.module is not None and dotted(node.module).startswith("openai.types.responses"):
            names = () if isinstance(node.names, cst.ImportStar) else node.names
            self._openai |= {_known_as(each) for each in names}
        return False

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802 - the name is libcst's
        """Note a string that names a module or a name of that SDK, as patches and late imports do."""
        text = node.raw_value
        if text.startswith(f"{OLD}.") and all(part.isidentifier() for part in text.split(".")):
            self._note(node, STRING.format(text))


def _exempts(value: cst.BaseExpression | None) -> bool:
    """Return whether a `require_approval` says "never" of something, beside others."""
    if not isinstance(value, cst.Dict):
        return False
    entries = [element for element in value.elements if isinstance(element, cst.DictElement)]
    return any("never" in (_text(entry.key), _text(entry.value)) for entry in entries)


def _known_as(alias: cst.ImportAlias) -> str:
    return dotted(alias.asname.name if alias.asname is not None else alias.name)


def _text(node: cst.BaseExpression) -> str:
    return node.raw_value if isinstance(node, cst.SimpleString) else ""


def _is_code(value: cst.BaseExpression) -> bool:
    return not (isinstance(value, cst.Name) and value.value in ("True", "False"))
