"""Let the person approve a call and later ones like it: with a predicate that they see, and may narrow.

The grants that are proposed, and their words, are the console's. What is typed is checked as every grant is, and has to
cover the call that it is given with.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from ..core.errors import BadJson, KeyturnError
from ..core.predicates.predicate import holds
from ..core.strict import parse
from ..policies.grants import Grant
from ..presenting.grant_words import covered_words
from ..presenting.proposed_grants import ProposedGrant, grant_for, how_long, proposed_grants
from ..presenting.shown_request import ShownRequest
from ..render.escape import Escaped, visible
from .asking import Dialog, sentence
from .drawing import labelled
from .rows import Rows, content_of

SESSION = "session"


class GrantDialog(Dialog[Grant]):
    """Proposes grants, the narrowest first; the answer is the one that was chosen or typed."""

    def __init__(self, request: ShownRequest, *, session: bool = True) -> None:
        super().__init__()
        self.request = request
        self._session = session
        self._true: Any = request.true_arguments
        self.proposed = proposed_grants(self._true, request.item.request.secrets, complete=request.complete)

    def parts(self) -> ComposeResult:
        """Make the list, the predicate, how long it holds, and what it comes to."""
        yield sentence("title", "Approve and create a grant; the first option is the narrowest")
        yield OptionList(id="proposed", markup=False)
        yield sentence("heading", "Predicate for the arguments; edit it to narrow it. Empty: any arguments.")
        yield Input(_text_of(self.proposed[0]), id="where")
        if self._session:
            yield sentence("heading", "Valid for: session, run, a number of calls, or a duration such as 2h.")
        else:
            yield sentence("heading", "Valid for: run (until it ends), a number of calls, or a duration such as 2h.")
        yield Input(SESSION if self._session else "run", id="terms")
        yield Rows(self._words)
        yield sentence("quiet", "Enter approves and creates the grant; Escape cancels.")

    def on_mount(self) -> None:
        """Begin in the list."""
        self._list()
        self.query_one(OptionList).focus()

    def on_resize(self, event: Resize) -> None:
        """Fold the proposals anew."""
        self._list()

    def _list(self) -> None:
        found = self.query_one(OptionList)
        at, room = found.highlighted or 0, max(found.size.width - 4, 20)
        prompts: list[Content] = [
            content_of(labelled("heading", "grant", f"{number}  {each.words}", room))
            for number, each in enumerate(self.proposed, 1)
        ]
        found.clear_options()
        found.add_options([Option(prompt) for prompt in prompts])
        found.highlighted = at

    @on(OptionList.OptionHighlighted)
    def choose(self, event: OptionList.OptionHighlighted) -> None:
        """Put the predicate of a proposal into the line, where it can be narrowed."""
        self.query_one("#where", Input).value = _text_of(self.proposed[event.option_index])

    @on(Input.Changed)
    def tell(self) -> None:
        """Say what the grant would come to."""
        self.query_one("#wrong", Rows).redraw()
        for rows in self.query(Rows):
            rows.redraw()

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    def take(self) -> None:
        """Give the grant as it stands, if it is one that covers this call."""
        try:
            self.dismiss(self.grant())
        except (KeyturnError, BadJson, ValueError) as error:
            self.refuse("No grant", str(error))

    def grant(self) -> Grant:
        """Return the grant that stands in the fields, or raise what is wrong with it."""
        typed = self.query_one("#where", Input).value.strip()
        terms = self.query_one("#terms", Input).value.strip().lower()
        where: Any = parse(typed) if typed else None
        if where is not None and not isinstance(where, dict):
            raise BadJson("a predicate is a JSON object of argument names")
        made = grant_for(ProposedGrant(where, ""), "run" if terms in ("", SESSION) else terms)
        if not holds(made.where, self._true):
            raise BadJson("the predicate does not cover this call")
        return replace(made, scope=SESSION) if self._session and terms != "run" else made

    def _words(self, width: int) -> Any:
        try:
            made = self.grant()
        except (KeyturnError, BadJson, ValueError) as error:
            return labelled("bad", "invalid grant", str(error), width)
        words = next((each.words for each in self.proposed if each.where == made.where), None)
        told = covered_words(made.where) if words is None else visible(words)
        ends = "in this session" if made.scope == SESSION and how_long(made) == _UNTIL else how_long(made)
        covered = Escaped(f"{told}; {ends}")
        return labelled("note", "It would cover this call, and future calls with", covered, width)


_UNTIL = how_long(Grant())


def _text_of(proposed: ProposedGrant) -> str:
    """Return a predicate as it is typed: JSON in ASCII, so that all of it can be seen."""
    return "" if proposed.where is None else json.dumps(proposed.where)
