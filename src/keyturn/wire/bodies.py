"""The bodies that a server takes: a field that is unknown, of another type or too long is refused, never ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from ..core.people import Proof
from ..core.preview import Preview
from ..core.priorities import Priority

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Note = Annotated[str, msgspec.Meta(max_length=10_000)]
Digest = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Length = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Names = Annotated[list[Line], msgspec.Meta(max_length=100)]


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all bodies."""


class Part(Said, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The base of the parts of a message."""


class TextPart(Part, frozen=True, kw_only=True, tag="input_text"):
    """A text."""

    text: str


class ImagePart(Part, frozen=True, kw_only=True, tag="input_image"):
    """An image, by its URL or as a file at the provider."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None


class FilePart(Part, frozen=True, kw_only=True, tag="input_file"):
    """A file: its data, its URL or its id at the provider."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class Sound(Said, frozen=True, kw_only=True):
    """A recording, in Base64."""

    data: str
    format: str


class AudioPart(Part, frozen=True, kw_only=True, tag="input_audio"):
    """A recording."""

    input_audio: Sound


class UserMessage(Said, frozen=True, kw_only=True, omit_defaults=True):
    """A message of the requester; what a model, a tool, a developer or an approver writes is no input over HTTP."""

    content: str | list[TextPart | ImagePart | FilePart | AudioPart]
    role: Literal["user"]
    type: Literal["message"] = "message"


_Input = str | list[UserMessage]


def items_of(given: _Input) -> str | list[Any]:
    """Return an input as the items that a model reads.

    >>> items_of([UserMessage(role="user", content="hi")])
    [{'content': 'hi', 'role': 'user'}]
    """
    made: str | list[Any] = msgspec.to_builtins(given)
    return made


class Start(Said, frozen=True, kw_only=True):
    """Starts a run of an agent; `requester` is the person for whom it runs."""

    agent: Id
    input: _Input
    context: Any = None
    session_id: Id | None = None
    max_turns: Count | msgspec.UnsetType | None = msgspec.UNSET
    requester: Id | None = None
    priority: Priority = "normal"


class Message(Said, frozen=True, kw_only=True):
    """Tells a run something, which its model reads at its next turn."""

    message: _Input


class Why(Said, frozen=True, kw_only=True):
    """Says why."""

    why: Note = ""


class Fork(Said, frozen=True, kw_only=True):
    """Starts a new run from the first lines of another."""

    at: Count | None = None


class Resume(Said, frozen=True, kw_only=True):
    """Resumes a run that failed or was set aside."""

    max_turns: Count | None = None


class Shown(Said, frozen=True, kw_only=True):
    """Names what was shown: by its digest, or by how often it was asked; one of the two at least."""

    digest: Digest | None = None
    revision: Count | None = None


class Word(Shown, frozen=True, kw_only=True):
    """Is the base of a decision: a note for the record, and the signature of the person's own key."""

    note: Note | None = None
    proof: Proof | None = None


class GrantSaid(Said, frozen=True, kw_only=True):
    """States a standing approval of later calls."""

    where: dict[str, Any] | None = None
    expires: Length | None = None
    uses: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    scope: Literal["run", "session", "requester", "agent"] = "run"


class Approve(Word, frozen=True, kw_only=True):
    """Approves exactly this call; or with other arguments, or with later ones that a grant covers."""

    edit: dict[str, Any] | str | None = None
    grant: GrantSaid | None = None
    seen: Preview | None = None
    break_glass: bool = False
    undo: Length | None = None


class PreviewEdit(Shown, frozen=True, kw_only=True):
    """Asks what approving a call with other arguments would run."""

    edit: dict[str, Any]


class Reject(Word, frozen=True, kw_only=True):
    """Rejects a call; its model is told the message."""

    message: Note | None = None
    always: bool = False


class AskBack(Word, frozen=True, kw_only=True):
    """Asks the agent a question back."""

    question: Note


class Answer(Word, frozen=True, kw_only=True):
    """Gives the result of a call in its tool's place, or what its tool asked for."""

    output: Any


class Resolve(Word, frozen=True, kw_only=True):
    """Says what became of a call in doubt."""

    outcome: Literal["ran", "did_not_run", "retry"]
    output: Any = None


class Review(Shown, frozen=True, kw_only=True):
    """Says whether a call was right to let run."""

    verdict: Literal["right", "wrong"]
    note: Note | None = None


class Withdraw(Word, frozen=True, kw_only=True):
    """Withdraws a vote or an approval; `run` where a standing decision let the call run unasked."""

    run: Id | None = None


class Until(Shown, frozen=True, kw_only=True):
    """Marks a request until a time, or for so long."""

    until: Moment | None = None
    lasts: Length | None = None


class Signing(Shown, frozen=True, kw_only=True):
    """Asks what somebody signs who decides so, with the very words of the decision."""

    verdict: Literal["approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "withdraw"]
    edit: dict[str, Any] | str | None = None
    seen: Preview | None = None
    output: Any = None
    message: Note | None = None
    note: Note | None = None
    break_glass: bool = False
    asks_back: bool = False
    undo: Length | None = None


class OneOf(Said, frozen=True, kw_only=True):
    """Names one request of several, as it was shown."""

    id: Id
    digest: Digest


_Several = Annotated[list[OneOf], msgspec.Meta(min_length=1, max_length=200)]


class ApproveAll(Said, frozen=True, kw_only=True):
    """Approves several requests, each as it was shown."""

    requests: _Several
    note: Note | None = None
    undo: Length | None = None


class RejectAll(Said, frozen=True, kw_only=True):
    """Rejects several requests, each as it was shown."""

    requests: _Several
    message: Note | None = None
    note: Note | None = None


class AddPerson(Said, frozen=True, kw_only=True):
    """Adds a person, or a machine."""

    person: Line
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    roles: _Names = []
    kind: Literal["person", "machine"] = "person"


class NamePerson(Said, frozen=True, kw_only=True):
    """Names a person."""

    person: Line


class Role(Said, frozen=True, kw_only=True):
    """Names a role, and the person or the group whose it is."""

    role: Line
    person: Line | None = None
    group: Line | None = None


class Membership(Said, frozen=True, kw_only=True):
    """Names a group and a person."""

    group: Line
    person: Line


class Delegate(Said, frozen=True, kw_only=True):
    """Lets another decide in somebody's place for a while."""

    giver: Line
    receiver: Line
    lasts: Length
    roles: _Names = []
    why: Annotated[str, msgspec.Meta(max_length=200)] = ""


class EndDelegation(Said, frozen=True, kw_only=True):
    """Ends a delegation."""

    delegation: Line


class IssueToken(Said, frozen=True, kw_only=True):
    """Issues a token."""

    person: Line
    scopes: _Names = msgspec.field(default_factory=lambda: ["read", "decide"])
    label: Annotated[str, msgspec.Meta(max_length=200)] = ""
    expires: Length | None = None


class RevokeToken(Said, frozen=True, kw_only=True):
    """Revokes a token, by its id."""

    token: Line


class Address(Said, frozen=True, kw_only=True):
    """Says where a person is told of requests; an empty address for not any more."""

    person: Line
    channel: Line
    address: Annotated[str, msgspec.Meta(max_length=1_000)]


class ConfirmAddress(Said, frozen=True, kw_only=True):
    """Confirms a person's address on a channel, with the code that was sent there; administrators name it instead."""

    person: Line
    channel: Line
    code: Annotated[str, msgspec.Meta(max_length=40)] = ""
    address: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class Mute(Said, frozen=True, kw_only=True):
    """Tells a person of nothing for so long; null for as before."""

    person: Line
    lasts: Length | None = None


class Setting(Said, frozen=True, kw_only=True):
    """Changes a setting of a person, or of everybody."""

    name: Line
    value: Any
    person: Line | None = None


class KeyText(Said, frozen=True, kw_only=True):
    """Holds a key that somebody brings: the line of a `.pub` file, or what a browser says of a passkey."""

    scheme: Line
    text: Annotated[str, msgspec.Meta(max_length=20_000)]
    label: Annotated[str, msgspec.Meta(max_length=200)] = ""


class EnrolKey(KeyText, frozen=True, kw_only=True):
    """Enrols one's own key, with a signature by it."""

    proof: Proof


class NameKey(Said, frozen=True, kw_only=True):
    """Names a key."""

    key: Line


class ConfirmKey(NameKey, frozen=True, kw_only=True):
    """Confirms that a key is its owner's, with a signature by a key that counts."""

    proof: Proof | None = None


class Replay(Said, frozen=True, kw_only=True):
    """Asks what a policy would have said of past calls: an operator's file as text, of so long back."""

    policy: Annotated[str, msgspec.Meta(max_length=16_000)]
    since: Length | None = None
    examples: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3


class Export(Said, frozen=True, kw_only=True):
    """Asks for the record as a file."""

    format: Literal["jsonl", "csv"] = "csv"
    secrets: bool = False
    person: Line | None = None
    tool: Line | None = None
    agent: Line | None = None
    run: Id | None = None
    verdict: Line | None = None
    text: Note | None = None
