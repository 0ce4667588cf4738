"""`require_approval` in every form: what asks, and what is refused when it is given."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import MCPServerStdio, UserError
from keyturn.mcp.approval import Approvals
from tests.table import each

FORMS: list[tuple[Any, dict[str, bool]]] = [
    (None, {"read": False, "write": False}),
    (True, {"read": True, "write": True}),
    (False, {"read": False, "write": False}),
    ("always", {"read": True, "write": True}),
    ("never", {"read": False, "write": False}),
    ({"always": {"tool_names": ["write"]}}, {"read": False, "write": True}),
    ({"never": {"tool_names": ["read"]}}, {"read": False, "write": True}),
    (
        {"always": {"tool_names": ["write"]}, "never": {"tool_names": ["read"]}},
        {"read": False, "write": True, "other": True},
    ),
    ({"never": {"tool_names": []}}, {"read": True, "write": True}),
    ({"always": {"tool_names": ["write"]}, "never": {"tool_names": []}}, {"read": True, "write": True}),
    ({"always": {"tool_names": []}}, {"read": False, "write": False}),
    ({"write": "always"}, {"read": False, "write": True}),
    ({"read": "never"}, {"read": False, "write": True}),
    ({"write": True, "read": False}, {"read": False, "write": True, "other": True}),
    ({"always": "never", "never": "always"}, {"always": False, "never": True, "other": True}),
]

WRONG: list[Any] = [
    "alway",
    "Always",
    "",
    1,
    0,
    ["write"],
    {"write": "alwyas"},
    {"write": 1},
    {"write": None},
    {"": "always"},
    {3: "always"},
    {"alwyas": {"tool_names": ["write"]}},
    {"always": {"tool_name": ["write"]}},
    {"always": {"tool_names": ["write"], "more": []}},
    {"always": {"tool_names": "write"}},
    {"always": {"tool_names": [3]}},
    {"always": {"tool_names": ["write"]}, "never": "read"},
    {"always": {"tool_names": ["write"]}, "never": {"tool_names": ["write"]}},
    {"always": {"tool_names": ["write"]}, "write": "never"},
    {"always": {}},
    {},
]


@each(("given", "asks"), FORMS, ids=[repr(form[0]) for form in FORMS])
def test_a_form_says_what_asks_also_where_its_list_is_empty(given: Any, asks: dict[str, bool]) -> None:
    approvals = Approvals("files", given)
    assert {tool: approvals.of(tool) for tool in asks} == asks
    assert approvals.policy is None


@each("given", WRONG, ids=repr)
def test_what_cannot_be_read_is_refused_when_it_is_given(given: Any) -> None:
    with pytest.raises(UserError, match="require_approval of MCP server 'files' cannot be read"):
        MCPServerStdio({"command": "never-started"}, name="files", require_approval=given)


def test_a_callable_is_kept_for_each_call() -> None:
    def policy(_context: Any, _agent: Any, _tool: Any) -> bool:
        return True

    assert Approvals("files", policy).policy is policy


def test_a_name_that_is_nearly_a_tool_is_a_slip() -> None:
    with pytest.raises(UserError, match=r"names the tool 'delete_fil', .* it lists 'delete_file'"):
        Approvals("files", {"delete_fil": "always"}).check_names(["delete_file", "read"])
    Approvals("files", {"delete_file": "always"}).check_names(["read"])
    Approvals("files", {"read_file": "never", "read_files": "always"}).check_names(["read_files"])
