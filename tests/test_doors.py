"""Every door, every law of a decision, the same answers; the table in the manual is drawn from these classes.

`python -m tests.test_doors` writes docs/doors.md anew.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, ClassVar

from keyturn import Decider, Expired, NotAllowed, NotPending, RunState, UserError
from keyturn.console import Undecided, decide
from keyturn.deferred import DeferredToolResults, ToolApproved, ToolDenied, ToolReturn
from keyturn.deferred.deciding import decide as decide_deferred
from keyturn.deferred.deciding import requests_of
from keyturn.engine.views.items import ToolApprovalItem
from keyturn.testing.suites.doors import Case, DecisionDoorSuite

TABLE = Path(__file__).parent.parent / "docs" / "doors.md"


class TestState(DecisionDoorSuite):
    """A state in hand"""

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        by = words.pop("by", None)
        case.hand = case.hand or await case.state()
        if "message" in words:
            words["rejection_message"] = words.pop("message")
        getattr(case.hand, word)(item, by=by.id if isinstance(by, Decider) else by, **words)


class TestContext(DecisionDoorSuite):
    """The context of a run"""

    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "answer", "grant", "where", "resolve", "note"})

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        state = case.hand or await case.state()
        told = {"rejection_message": words["message"]} if "message" in words else {}
        getattr(state.context, f"{word}_tool")(item, **told)
        again = RunState.at(state.live, state.position, state.get_interruptions())
        if not again.undelivered.decisions:  # it was dropped and logged; the state says why, where it is told the same
            getattr(again, word)(item, **told)
            raise UserError("an item of another asking decided nothing")
        case.hand = again


class TestDeferred(DecisionDoorSuite):
    """Deferred results"""

    cannot: ClassVar[frozenset[str]] = frozenset({"answer", "grant", "where", "always"})

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        case.hand = case.hand or await case.state()
        parts = requests_of(case.hand)
        by = words.get("by")
        said = {"by": by.id if isinstance(by, Decider) else by, "note": words.get("note")}
        waiting = [*parts.approvals, *parts.calls, *parts.in_doubt]
        shown = {
            each.digest: part.tool_call_id for each, part in zip(case.hand.get_interruptions(), waiting, strict=True)
        }
        label = shown.get(item.digest, "of another asking")
        if word == "resolve":
            output = words.get("output")
            outcome = words["outcome"] if output is None else ToolReturn(output)
            decide_deferred(case.hand, DeferredToolResults(in_doubt={label: outcome}))
            return
        message = words.get("message", "not approved")
        approved = ToolApproved(override_args=words.get("edit"), **said)
        made = approved if word == "approve" else ToolDenied(message, **said)
        decide_deferred(case.hand, DeferredToolResults(approvals={label: made}))


class TestInbox(DecisionDoorSuite):
    """The inbox"""

    knows_people: ClassVar[bool] = True

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        await getattr(case.inbox, word)(item, **{"by": "zoe", **words})

    async def shown(self, case: Case) -> str:
        rows = await case.inbox.list()
        return repr(rows) + repr([row.request for row in rows]) + repr(await case.inbox.get(rows[0].id))


class TestConsole(DecisionDoorSuite):
    """The console"""

    cannot: ClassVar[frozenset[str]] = frozenset({"note", "where"})
    keys: ClassVar[dict[str, str]] = {"approve": "a", "reject": "r", "answer": "w"}
    outcomes: ClassVar[dict[str, str]] = {"ran": "d", "did_not_run": "n", "retry": "t"}

    async def say(self, case: Case, word: str, item: ToolApprovalItem, **words: Any) -> None:
        state = case.hand or await case.state()
        typed = iter(self.typed(word, words))
        lines: list[str] = []
        current: list[ToolApprovalItem] = []

        def ask(_prompt: str) -> str:
            waiting = [one for one in state.get_interruptions() if one.call not in state.undelivered.decisions]
            here = [one for one in waiting if one not in current]
            if any(line.strip().startswith(("Invalid", "Unknown key")) for line in lines):  # nobody insists
                raise EOFError
            if not here or here[0].digest != item.digest:  # somebody else's turn: it is left for later
                current.extend(here[:1])
                if here:
                    return "l"
                raise EOFError
            try:
                return next(typed)
            except StopIteration:
                raise EOFError from None

        by = words.get("by")
        try:
            state = decide(
                state, ask=ask, show=lines.append, width=100, by=by.id if isinstance(by, Decider) else by or "zoe"
            )
        except Undecided as undecided:
            state = undecided.state
        said = "\n".join(lines)
        if item.call not in state.undelivered.decisions:
            raise self.refusal(said)
        case.hand = state

    def typed(self, word: str, words: dict[str, Any]) -> list[str]:
        if word == "resolve":
            output = [words["output"]] if words["outcome"] == "ran" else []
            return [self.outcomes[words["outcome"]], *output]
        if "edit" in words:
            return ["e", "\n".join([str(words["edit"]).replace("'", '"')]), "", "a"]
        if "grant" in words:
            return ["g", ""]
        return [
            self.keys[word],
            *{"reject": [words.get("message", "")], "answer": [words.get("output", "")]}.get(word, []),
        ]

    @staticmethod
    def refusal(said: str) -> Exception:
        for words, error in (
            ("has expired", Expired),
            ("cannot be decided by", NotAllowed),
            ("Unknown key", NotPending),
        ):
            if words in said.replace("\n", " "):
                return error(said)
        return UserError(said or "nothing was decided")


NAMES = {"where": "grant for some arguments", "resolve": "decision on a call in doubt"}
DOORS = (TestState, TestContext, TestInbox, TestConsole, TestDeferred)


def laws() -> dict[str, Any]:
    """The laws, in the order in which the suite states them."""
    return {name: law for name, law in vars(DecisionDoorSuite).items() if name.startswith("test_")}


def table() -> str:
    """Each law and each door: kept, or without the word that it is about."""
    heads = [inspect.getdoc(door) or "" for door in DOORS]
    rows = [f"| law | {' | '.join(heads)} |", f"|---{'|---' * len(DOORS)}|"]
    for law in laws().values():
        cells = [_cell(inspect.getsource(law), door) for door in DOORS]
        rows.append(f"| {inspect.getdoc(law)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(source: str, door: type[DecisionDoorSuite]) -> str:
    """What a door does about a law, as its source begins: words that it needs, and whether people must be known."""
    before = source.split("case =")[0]
    needs = {
        word for named in re.findall(r"self\.without\(([^)]*)\)", before) for word in re.findall(r'"(\w+)"', named)
    }
    lacks = sorted(NAMES.get(word, word) for word in needs & door.cannot) if "return" in before else []
    if "not self.knows_people" in before and not door.knows_people:
        return "knows no users"
    return f"has no {' or '.join(lacks)}" if lacks else "kept"


def test_the_table_in_the_manual_is_of_today() -> None:
    assert table() in TABLE.read_text(encoding="utf-8"), "run `python -m tests.test_doors`"


if __name__ == "__main__":
    text = TABLE.read_text(encoding="utf-8")
    TABLE.write_text(re.sub(r"(?s)\| law \|.*?\n(?!\|)", table() + "\n", text), encoding="utf-8")
