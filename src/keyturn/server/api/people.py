"""Say who is who, and change it: each change is a word of `People`, with the person in the body and not in the path.

Who may change what is judged there, by the directory; here it takes a token for "people".
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec.structs import replace

from ...core.errors import NotAllowed
from ...directory.events import shown
from ...wire import bodies
from ...wire.people import (
    DelegationSeen,
    DelegationsSeen,
    KeySeen,
    KeysSeen,
    Me,
    Named,
    PeopleLog,
    PeopleSeen,
    PersonSeen,
    Secret,
    SettingsSeen,
    TokenSeen,
    TokensSeen,
)
from ...wire.responses import Done, ToSign
from ..addresses import keep_address
from .paging import Limit, Name, Place
from .routes import ApiContext, Call, Routes, answer, taken

routes = Routes("people")


@routes.add("GET", "/me", scope=("read", "decide", "people", "run", "ask"), gives=Me)
async def get_me(here: ApiContext) -> Any:
    """Say who you are to the server."""
    visitor = here.visitor
    person = PersonSeen.of(visitor.directory, visitor.person, closely=True)
    return answer(Me(person, sorted(visitor.login.scopes), here.app.people.tenant, here.visibility.whole))


@routes.add("GET", "/people", scope=("read", "people"), gives=PeopleSeen)
async def list_people(here: ApiContext, person: Name = None, left: bool = False) -> Any:
    """List people by id, or one of them; with `left`, those who left, too."""
    directory = here.visitor.directory
    found = [each for each in directory.people.values() if (each.here or left) and person in (None, each.id)]
    found.sort(key=lambda each: each.id)
    people = [PersonSeen.of(directory, each, closely=_closely(here, each.id)) for each in found]
    groups = {name: sorted(roles) for name, roles in sorted(directory.groups.items())}
    return answer(PeopleSeen(people, groups, directory.place))


def _closely(here: Call, person: str) -> bool:
    """Return whether somebody sees what is private of a person."""
    return person == here.visitor.id or here.visitor.administers


@routes.add("GET", "/people/log", scope="people", gives=PeopleLog)
async def get_log(here: ApiContext, after: Place = 0, limit: Limit = 200) -> Any:
    """Return the changes there were of who is who, the oldest first, to an administrator."""
    if not here.visitor.administers:
        raise NotAllowed("the log of who is who is for administrators")
    entries = await here.app.people.entries()
    more = after + limit
    return answer(PeopleLog([shown(each) for each in entries[after:more]], more if more < len(entries) else None))


@routes.add("GET", "/tokens", scope="people", gives=TokensSeen)
async def list_tokens(here: ApiContext) -> Any:
    """List tokens: your own, or all of them for an administrator."""
    now = await here.app.inbox.now()
    found = [each for each in here.visitor.directory.tokens.values() if _closely(here, each.person)]
    return answer(TokensSeen([TokenSeen.of(here.visitor.directory, each, now) for each in found]))


@routes.add("GET", "/keys", scope=("read", "people"), gives=KeysSeen)
async def list_keys(here: ApiContext, person: Name = None) -> Any:
    """List the keys that people enrolled."""
    found = here.visitor.directory.keys.values()
    return answer(KeysSeen([KeySeen.of(each) for each in found if person in (None, each.person)]))


@routes.add("GET", "/delegations", scope=("read", "people"), gives=DelegationsSeen)
async def list_delegations(here: ApiContext) -> Any:
    """List who may decide in whose place; why, the two and administrators see."""
    now = await here.app.inbox.now()
    found = here.visitor.directory.delegations.values()
    seen = [
        (DelegationSeen.of(each, now), _closely(here, each.giver) or _closely(here, each.receiver)) for each in found
    ]
    return answer(DelegationsSeen([each if closely else replace(each, why="") for each, closely in seen]))


@routes.add("GET", "/settings", scope="people", gives=SettingsSeen)
async def get_settings(here: ApiContext) -> Any:
    """Return the settings that are everybody's, to an administrator."""
    if not here.visitor.administers:
        raise NotAllowed("the settings are for administrators")
    return answer(SettingsSeen(dict(here.visitor.directory.settings)))


def _changes(word: str, takes: type, gives: type = Done) -> Any:
    return routes.add("POST", f"/people/{word}", scope="people", takes=takes, gives=gives, errors=(409,))


@_changes("add", bodies.AddPerson)
async def add_person(here: ApiContext, body: Annotated[bodies.AddPerson, taken(bodies.AddPerson)]) -> Any:
    """Add a person with roles, or a machine, which never decides."""
    by = here.visitor.login
    await here.people.add(body.person, body.name, by=by, roles=body.roles, kind=body.kind)
    return answer(Done())


@_changes("remove", bodies.NamePerson)
async def remove_person(here: ApiContext, body: Annotated[bodies.NamePerson, taken(bodies.NamePerson)]) -> Any:
    """Remove a person: their tokens, keys, delegations and roles count no more."""
    await here.people.remove(body.person, by=here.visitor.login)
    return answer(Done())


@_changes("give_role", bodies.Role)
async def give_role(here: ApiContext, body: Annotated[bodies.Role, taken(bodies.Role)]) -> Any:
    """Give a role to a person, or to all of a group."""
    by = here.visitor.login
    await here.people.give_role(body.role, to=body.person or "", group=body.group or "", by=by)
    return answer(Done())


@_changes("take_role", bodies.Role)
async def take_role(here: ApiContext, body: Annotated[bodies.Role, taken(bodies.Role)]) -> Any:
    """Take a role from a person or a group."""
    by = here.visitor.login
    await here.people.take_role(body.role, of=body.person or "", group=body.group or "", by=by)
    return answer(Done())


@_changes("join", bodies.Membership)
async def join_group(here: ApiContext, body: Annotated[bodies.Membership, taken(bodies.Membership)]) -> Any:
    """Have a person join a group."""
    await here.people.join(body.group, body.person, by=here.visitor.login)
    return answer(Done())


@_changes("leave", bodies.Membership)
async def leave_group(here: ApiContext, body: Annotated[bodies.Membership, taken(bodies.Membership)]) -> Any:
    """Have a person leave a group."""
    await here.people.leave(body.group, body.person, by=here.visitor.login)
    return answer(Done())


@_changes("delegate", bodies.Delegate, Named)
async def delegate(here: ApiContext, body: Annotated[bodies.Delegate, taken(bodies.Delegate)]) -> Any:
    """Let another decide in somebody's place for a while."""
    by = here.visitor.login
    more: dict[str, Any] = {"lasts": body.lasts, "roles": body.roles, "why": body.why}
    return answer(Named((await here.people.delegate(body.giver, body.receiver, by=by, **more)).id))


@_changes("end_delegation", bodies.EndDelegation)
async def end_delegation(here: ApiContext, body: Annotated[bodies.EndDelegation, taken(bodies.EndDelegation)]) -> Any:
    """End a delegation before its time."""
    await here.people.end_delegation(body.delegation, by=here.visitor.login)
    return answer(Done())


@_changes("issue_token", bodies.IssueToken, Secret)
async def issue_token(here: ApiContext, body: Annotated[bodies.IssueToken, taken(bodies.IssueToken)]) -> Any:
    """Issue a token: it is shown this once."""
    by = here.visitor.login
    more: dict[str, Any] = {"label": body.label, "expires": body.expires}
    return answer(Secret(await here.people.issue_token(body.person, body.scopes, by=by, **more)))


@_changes("revoke_token", bodies.RevokeToken)
async def revoke_token(here: ApiContext, body: Annotated[bodies.RevokeToken, taken(bodies.RevokeToken)]) -> Any:
    """Revoke a token, by its id."""
    await here.people.revoke_token(body.token, by=here.visitor.login)
    return answer(Done())


@_changes("make_link", bodies.NamePerson, Secret)
async def make_link(here: ApiContext, body: Annotated[bodies.NamePerson, taken(bodies.NamePerson)]) -> Any:
    """Make the secret of a link by which somebody enters once, within a day."""
    return answer(Secret(await here.people.make_link(body.person, by=here.visitor.login)))


@_changes("forget_subject", bodies.NamePerson)
async def forget_subject(here: ApiContext, body: Annotated[bodies.NamePerson, taken(bodies.NamePerson)]) -> Any:
    """Release the account of the identity provider that is bound to a person; the sessions of that account end."""
    await here.people.forget_subject(body.person, by=here.visitor.login)
    return answer(Done())


@_changes("set_address", bodies.Address)
async def set_address(here: ApiContext, body: Annotated[bodies.Address, taken(bodies.Address)]) -> Any:
    """Say at which address a person is told of requests over a channel.

    One that a person writes themselves is used for nothing until they repeat the code that is sent there.
    """
    limits = here.request.app.state.limits
    await keep_address(here.app, here.people, limits, here.visitor, body.person, body.channel, body.address)
    return answer(Done())


@_changes("confirm_address", bodies.ConfirmAddress)
async def confirm_address(
    here: ApiContext, body: Annotated[bodies.ConfirmAddress, taken(bodies.ConfirmAddress)]
) -> Any:
    """Confirm an address with the code that was sent there; an administrator names the address instead."""
    await here.people.confirm_address(body.person, body.channel, body.code, address=body.address, by=here.visitor.login)
    return answer(Done())


@_changes("mute", bodies.Mute)
async def mute_person(here: ApiContext, body: Annotated[bodies.Mute, taken(bodies.Mute)]) -> Any:
    """Tell somebody nothing for a while; what waits is told afterwards."""
    await here.people.mute(body.person, body.lasts, by=here.visitor.login)
    return answer(Done())


@_changes("set", bodies.Setting)
async def change_setting(here: ApiContext, body: Annotated[bodies.Setting, taken(bodies.Setting)]) -> Any:
    """Change a setting, of a person or of everybody; null for as it was."""
    await here.people.set(body.name, body.value, person=body.person or "", by=here.visitor.login)
    return answer(Done())


@_changes("key_to_sign", bodies.KeyText, ToSign)
async def key_to_sign(here: ApiContext, body: Annotated[bodies.KeyText, taken(bodies.KeyText)]) -> Any:
    """Return what you sign with a key that you enrol, to show that you have it."""
    people = here.people
    return answer(ToSign(people.to_sign(here.visitor.id, people.read_key(body.scheme, body.text, label=body.label))))


@_changes("enrol_key", bodies.EnrolKey, Named)
async def enrol_key(here: ApiContext, body: Annotated[bodies.EnrolKey, taken(bodies.EnrolKey)]) -> Any:
    """Enrol your own key; it counts when somebody else has confirmed it."""
    people = here.people
    key = people.read_key(body.scheme, body.text, label=body.label)
    made = await people.enrol_key(here.visitor.id, key, body.proof, by=here.visitor.login)
    return answer(Named(made.id))


@_changes("to_confirm", bodies.NameKey, ToSign)
async def key_to_confirm(here: ApiContext, body: Annotated[bodies.NameKey, taken(bodies.NameKey)]) -> Any:
    """Return what somebody signs who confirms that a key is its owner's."""
    return answer(ToSign(await here.people.to_confirm(body.key)))


@_changes("confirm_key", bodies.ConfirmKey)
async def confirm_key(here: ApiContext, body: Annotated[bodies.ConfirmKey, taken(bodies.ConfirmKey)]) -> Any:
    """Confirm that a key is its owner's, with a signature by a key that counts already."""
    await here.people.confirm_key(body.key, by=here.visitor.login, proof=body.proof)
    return answer(Done())


@_changes("revoke_key", bodies.NameKey)
async def revoke_key(here: ApiContext, body: Annotated[bodies.NameKey, taken(bodies.NameKey)]) -> Any:
    """Revoke a key: nothing that it signed runs any more, and what ran stays."""
    await here.people.revoke_key(body.key, by=here.visitor.login)
    return answer(Done())
