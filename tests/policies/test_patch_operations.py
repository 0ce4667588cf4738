"""A rule about a file means each file that a patch touches, however the patch says it."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import ApplyPatchTool, Grant, Policy, Rule, WorkspaceEditor
from keyturn.core.policy import CallView
from keyturn.core.predicates.predicate import holds

_ONE = {"type": "delete_file", "path": "secrets/a"}
_ADDS = {"type": "create_file", "path": "src/b", "diff": "+x"}
_MOVES = {"type": "update_file", "path": "src/a", "move_to": "secrets/b"}


def said(rule: Rule, *operations: dict[str, Any]) -> str:
    prepared = ApplyPatchTool(_Editor()).edit({"operations": list(operations)})
    call = CallView("apply_patch", "apply_patch", "a", prepared.params, digest="", call_id="c")
    verdict = Policy(rule, default="ask")(call)
    assert verdict is not None
    assert (rule.explain(call).verdict is None) == (verdict.by == "policy:default")
    return verdict.action


class _Editor:
    def create_file(self, operation: Any) -> None: ...

    update_file = delete_file = create_file


@pytest.mark.parametrize("operations", [[_ONE], [_ONE, _ADDS], [_ADDS, _ONE], [_MOVES], [_ADDS, _MOVES]])
def test_a_rule_that_denies_means_any_file_of_a_patch(operations: list[dict[str, Any]]) -> None:
    assert said(Rule("deny", where={"path": {"under": "secrets"}}), *operations) == "deny"
    assert said(Rule("allow", where={"path": {"under": "src"}}), *operations) == "ask"


def test_a_rule_that_allows_means_all_files_of_a_patch() -> None:
    inside = Rule("allow", where={"path": {"under": "src"}})
    moves = {**_MOVES, "move_to": "src/c"}
    assert [said(inside, _ADDS), said(inside, _ADDS, moves), said(inside, _ADDS, _ONE)] == ["allow", "allow", "ask"]
    assert said(Rule("deny", where={"path": {"under": "secrets"}}), _ADDS, moves) == "ask"


def test_a_rule_may_name_the_list_and_the_place_of_a_move() -> None:
    both = {"path": {"under": "src"}, "move_to": {"under": "secrets"}}
    assert said(Rule("allow", where=both), _MOVES) == "allow"
    assert said(Rule("deny", where={"operations": [_ADDS, _ONE]}), _ADDS, _ONE) == "deny"


def test_a_grant_for_one_file_covers_no_move_of_it(tmp_path: Any) -> None:
    (tmp_path / "src").mkdir()
    tool = ApplyPatchTool(WorkspaceEditor(tmp_path))
    grant = Grant(where={"path": {"under": "src"}})
    assert [holds(grant.where, tool.edit(each).params) for each in (_ADDS, _MOVES)] == [True, False]


def test_a_move_takes_a_file_away_and_writes_what_it_changes_to_another_place() -> None:
    kept = Rule("deny", where={"type": "delete_file", "path": {"under": "src"}})
    written = Rule("deny", where={"path": {"under": "secrets"}, "diff": {"matches": ".*password.*"}})
    assert said(kept, _MOVES) == "deny"
    assert said(written, {**_MOVES, "diff": "-a\n+password"}) == "deny"
