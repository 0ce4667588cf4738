"""Take a person's letter for a call that waits, ask what goes with it, and hand the decision to the inbox.

Which letters there are for which call is the console's table; what each does here is the table at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import LiteralString, Unpack

from ..core.errors import BadJson, KeyturnError
from ..inbox.personal import Details, Verdict
from ..policies.grants import Grant
from ..presenting.shown_request import ShownRequest
from ..screens.asking import TextDialog
from ..screens.editing import EditDialog
from ..screens.granting import GrantDialog
from ..screens.letters_app import LettersApp
from .conversation import ChatConversation
from .help import help_rows
from .widgets.prompt import Prompt
from .widgets.request_view import ChatRequestView


class ChatDecidingApp(LettersApp[str]):
    """Decides the calls of its conversation, on a screen that has a view of requests."""

    conversation: ChatConversation

    def changed(self) -> None:
        """Have the screen drawn anew."""
        raise NotImplementedError

    def act(self, letter: str, request: ShownRequest) -> Awaitable[None]:
        """Do what a letter says of a call."""
        return LETTERS[letter](self, request)

    async def decide(self, request: ShownRequest, verdict: Verdict, **details: Unpack[Details]) -> None:
        """Record a decision, or show what the gate has against it."""
        try:
            await self.conversation.decide(request.item, verdict, **details)
        except (KeyturnError, BadJson) as error:
            self.query_one(ChatRequestView).say(
                "May have been recorded" if error.uncertain else "Not decided", str(error)
            )
        self.changed()

    async def approve_call(self, request: ShownRequest, grant: Grant | None = None) -> None:
        """Approve exactly what was shown."""
        await self.decide(request, "approve", edit=request.edit, seen=request.seen(), grant=grant)

    async def grant_calls(self, request: ShownRequest) -> None:
        """Approve it with a grant that the person sees."""
        grant = await self.push_screen_wait(GrantDialog(request))
        if grant is not None:
            await self.approve_call(request, grant)

    async def edit_call(self, request: ShownRequest) -> None:
        """Change its arguments; what was changed is shown before it can be approved."""
        if await self.push_screen_wait(EditDialog(request)):
            request.preview()
            self.query_one(ChatRequestView).redraw()

    async def reject_call(self, request: ShownRequest) -> None:
        """Reject it, with a reason for the model."""
        why = await self.line_for(request, "Reject it", "reason, which the model reads; empty: none")
        if why is not None:
            await self.decide(request, "reject", message=why or None)

    async def answer_call(self, request: ShownRequest) -> None:
        """Answer what is asked, or give the call's result."""
        question = request.item.kind == "external"
        words: LiteralString = "the result that the model reads"
        if question:
            words = "a choice, or its number" if request.choices else "your answer; an object or a list in JSON"
        typed = await self.line_for(request, "Answer it" if question else "Write its result", words)
        if typed:
            output = request.answer(typed) if question else typed
            await self.decide(request, "answer", output=output)

    async def call_ran(self, request: ShownRequest) -> None:
        """Say that a call in doubt ran."""
        words: LiteralString = "its result, if you know it; empty: unknown"
        typed = await self.line_for(request, "It ran", words)
        if typed is not None:
            await self.decide(request, "ran", output=typed or None)

    async def call_did_not_run(self, request: ShownRequest) -> None:
        """Say that a call in doubt did not run."""
        await self.decide(request, "did_not_run")

    async def retry_call(self, request: ShownRequest) -> None:
        """Have a call in doubt tried again."""
        await self.decide(request, "retry")

    async def leave_call(self, request: ShownRequest) -> None:
        """Leave it waiting."""
        self.query_one(Prompt).focus()

    async def explain_call(self, request: ShownRequest) -> None:
        """Say what the letters do."""
        await self.push_screen_wait(TextDialog("Keys for this call", partial(help_rows, request=request)))


LETTERS: dict[str, Callable[[ChatDecidingApp, ShownRequest], Awaitable[None]]] = {
    "a": ChatDecidingApp.approve_call,
    "g": ChatDecidingApp.grant_calls,
    "e": ChatDecidingApp.edit_call,
    "r": ChatDecidingApp.reject_call,
    "w": ChatDecidingApp.answer_call,
    "d": ChatDecidingApp.call_ran,
    "n": ChatDecidingApp.call_did_not_run,
    "t": ChatDecidingApp.retry_call,
    "l": ChatDecidingApp.leave_call,
    "?": ChatDecidingApp.explain_call,
}
