"""What `keyturn doctor` looks at, each a function that returns findings; none of them writes.

What takes long is left to others: `keyturn check` reads every line, `keyturn audit verify` proves it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..application.app import App
from ..core.approval import Approval
from ..core.errors import KeyturnError
from ..core.people import Decider, barred
from ..core.request import Request
from ..directory.people import People
from ..directory.signed import trusted_keys
from ..directory.state import Directory
from ..engine.backlog import DueGroup, due_groups
from ..engine.run.log_cache import log_in
from ..inbox.rule_lint import complaints_of
from ..journal.base import Store
from ..journal.rows import DeliveryQuery, Query
from ..journal.statements import SCHEMA
from ..models.providers import PROVIDERS
from ..models.routing import MEMBERS, chosen_by_environment, model_class, split_name
from ..render.plural import plural
from ..support.keys import OLD_VARIABLE, VARIABLE, ring, state_directory

Level = Literal["ok", "warn", "bad"]
_LOOKED_AT = 500  # rows, of the newest runs and of the oldest open requests
_CLOCK_WARN, _CLOCK_BAD = 2_000, 60_000


class Diagnosis(NamedTuple):
    """Says of one thing how it is, and what to do where it is not well."""

    level: Level
    what: str
    said: str
    remedy: str = ""


def check_machine() -> list[Diagnosis]:
    """Say which Python this is, and whether ssh keys can sign here."""
    version = ".".join(map(str, sys.version_info[:3]))
    made = [Diagnosis("ok", "machine", f"Python {version} on {sys.platform}")]
    if shutil.which("ssh-keygen") is None:
        made.append(Diagnosis("warn", "machine", "there is no ssh-keygen, which --sign needs", "install OpenSSH"))
    return made


def check_keys() -> list[Diagnosis]:
    """Say where the keys of this process come from, and whether nobody else can read them."""
    where = VARIABLE if os.environ.get(VARIABLE) is not None else str(state_directory() / "key")
    try:
        if where != VARIABLE and not os.path.lexists(where) and not os.environ.get(OLD_VARIABLE):
            return [Diagnosis("warn", "keys", f"there are none yet in {where}", "the first journal creates them")]
        keys = ring()
    except KeyturnError as error:
        return [Diagnosis("bad", "keys", str(error), "until then, sealed data cannot be read")]
    return [Diagnosis("ok", "keys", f"{len(keys.ids)} in {where}, and {keys.ids[0]} seals")]


async def check_store(store: Store, roots: Any = ()) -> list[Diagnosis]:
    """Look at a tenant's part of a journal: where it comes from, its clock, rows, people and requests."""
    made = [await _origin(store), *_permissions(store), await _clock(store), *await _rows(store), *await _aside(store)]
    try:
        people = People(store, roots=roots)
        directory = await people.directory()
    except KeyturnError as error:
        return [*made, Diagnosis("bad", "people", str(error), "restore the journal; keyturn audit verify says more")]
    made += _directory(directory, people)
    if directory.people:
        made += await _undecidable(store, directory)
    return made


async def _origin(store: Any) -> Diagnosis:
    if hasattr(store, "looked_at"):
        why = await store.looked_at()
        if why is not None:
            remedy = "keyturn restored URL marks unfinished calls as in doubt"
            return Diagnosis("bad", "journal", f"it {why}", remedy)
    identity = str(getattr(store, "identity", ""))[:8]
    tenant = getattr(store, "tenant", "default")
    return Diagnosis("ok", "journal", f"{type(store).__name__} {identity}, schema {SCHEMA}, tenant {tenant}")


def _permissions(store: object) -> list[Diagnosis]:
    path = getattr(store, "path", None)
    if not isinstance(path, Path) or os.name != "posix":
        return []
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return []
    if mode & 0o077:
        said = f"other accounts can read or write {path} (mode {mode:04o}), which holds conversations"
        return [Diagnosis("warn", "permissions", said, f"chmod 600 {path}*")]
    return [Diagnosis("ok", "permissions", f"only its owner can read {path}")]


async def _aside(store: Store) -> list[Diagnosis]:
    """Name the runs that were set aside: each goes on only once a person resumes it."""
    remedy = "find out why (the log of a worker that died says where), then keyturn resume RUN"
    return [
        Diagnosis("bad", "runs", f"run {row.run} of agent {row.agent} is set aside: {row.error}", remedy)
        for row in await store.runs(Query(state="set_aside", limit=_LOOKED_AT))
    ]


async def _clock(store: Store) -> Diagnosis:
    before = time.time() * 1000
    now = await store.now()
    after = time.time() * 1000
    off = max(before - now, now - after, 0.0)
    said = f"the journal's and this machine's differ by {off / 1000:.1f} s"
    if off < _CLOCK_WARN:
        return Diagnosis("ok", "clock", said)
    remedy = "set both by NTP: requests expire by the journal's, tokens and checkpoints are read by people's"
    return Diagnosis("bad" if off >= _CLOCK_BAD else "warn", "clock", said, remedy)


async def _rows(store: Store) -> list[Diagnosis]:
    """Look at the newest runs and the oldest open requests: seals of rows, and the newest log."""
    runs = await store.runs(Query(limit=_LOOKED_AT, newest=True))
    requests = await store.requests(Query(state="open", limit=_LOOKED_AT))
    counted = Counter(row.status for row in runs)
    damaged = counted["damaged"] + sum(row.state == "damaged" for row in requests)
    made: list[Diagnosis] = []
    if damaged:
        made.append(
            Diagnosis("bad", "rows", f"{damaged} were altered", "keyturn check URL says which, and what is true")
        )
    kept = next((row for row in runs if row.status not in ("erased", "damaged")), None)
    try:
        if kept is not None:
            await log_in(store, kept.run)
    except KeyturnError as error:
        made.append(Diagnosis("bad", "lines", str(error), "keyturn check URL, keyturn audit verify URL"))
    if not made:
        told = ", ".join(f"{number} {status}" for status, number in sorted(counted.items())) or "no runs yet"
        made.append(Diagnosis("ok", "rows", f"{told}; {plural(len(requests), 'open request')}"))
    dead = sum(each.state == "dead" for each in await store.deliveries(DeliveryQuery(limit=_LOOKED_AT)))
    if dead:
        made.append(Diagnosis("warn", "channels", plural(dead, "dead letter"), "keyturn notifications resend URL"))
    return made + await _backlog(store)


async def _backlog(store: Store) -> list[Diagnosis]:
    """Say which runs are due and not executed, by what a worker needs to execute them."""
    found = await due_groups(store)
    return [Diagnosis("warn", "workers", f"{due_words(each)}, executed by no worker", each.remedy) for each in found]


def due_words(group: DueGroup) -> str:
    """Say how many runs of an agent are due.

    >>> due_words(DueGroup("desk", 0, 2, 3.4))
    '2 runs of agent desk due, the first for 3 s'
    """
    return f"{plural(group.runs, 'run')} of agent {group.agent} due, the first for {group.seconds:.0f} s"


def _directory(directory: Directory, people: People) -> list[Diagnosis]:
    if not directory.people:
        return [Diagnosis("warn", "people", "no users: decisions are made under unverified names", "keyturn init")]
    admins = directory.admins()
    made: list[Diagnosis] = []
    if len(admins) < 2:
        said = f"{' and '.join(admins) or 'no user'} is the only administrator"
        made.append(Diagnosis("warn", "people", said, "keyturn users give admin PERSON"))
    else:
        made.append(Diagnosis("ok", "people", f"administrators: {', '.join(admins)}"))
    open_keys = [key for key in directory.keys.values() if key.confirmed_at is None and key.revoked_at is None]
    for key in open_keys:
        remedy = f"keyturn users confirm-key {key.id}"
        made.append(Diagnosis("warn", "signatures", f"the key {key.id} of {key.person} is not confirmed yet", remedy))
    trusted = trusted_keys(directory, people.tenant, people.roots)
    for key in directory.keys.values():
        if key.counts and key.id not in trusted:
            said = f"the key {key.id} of {key.person} was not confirmed with a trusted key"
            made.append(Diagnosis("bad", "signatures", said, "confirm it with --sign-with, or name it in trusted_keys"))
    return made + _schemes(directory)


_NEEDS = {"ssh": (("cryptography",), "ssh"), "passkey": (("cryptography", "webauthn"), "passkeys")}


def _schemes(directory: Directory) -> list[Diagnosis]:
    """Say which extras are missing for the keys that people have."""
    used = {key.scheme for key in directory.keys.values() if key.counts}
    made: list[Diagnosis] = []
    for name in sorted(used):
        packages, extra = _NEEDS.get(name, ((), name))
        if any(find_spec(package) is None for package in packages):
            said = f"users have {name} keys, and the package that verifies them is missing"
            made.append(Diagnosis("bad", "signatures", said, f"pip install 'keyturn[{extra}]'"))
    return made


async def _undecidable(store: Store, directory: Directory) -> list[Diagnosis]:
    """Say which open requests nobody of this directory, or too few, can decide."""
    rows = await store.requests(Query(state="open", limit=_LOOKED_AT))
    made: list[Diagnosis] = []
    for row in rows:
        if row.state == "damaged":
            continue
        request = row.request
        if request.terms is None or not request.terms.limits_deciders:
            continue
        for step in (each for terms in request.terms.in_turn for each in terms.confirmation_steps):
            able = _able(directory, request, step)
            if len(able) < step.quorum:
                who = ", ".join(sorted(able)) or "no user"
                said = f"{row.id[:8]} for {request.tool} requires {step.quorum} approvals, and only {who} can decide it"
                made.append(Diagnosis("bad", "requests", said, "give a role: keyturn users give ROLE PERSON"))
    return made


def _able(directory: Directory, request: Request, terms: Approval) -> set[str]:
    """Return who could decide it if they logged in, and signed where they must."""
    able: set[str] = set()
    bare = terms.unsigned
    for person in directory.people.values():
        signs = any(key.person == person.id and key.counts for key in directory.keys.values())
        if not person.here or person.kind == "machine" or (terms.needs_proof and not signs):
            continue
        who = Decider(person.id, tuple(directory.roles_of(person.id)), "authenticated")
        if not barred(bare, who, request.requester):
            able.add(person.id)
    return able


async def check_app(store: Store, app: App) -> list[Diagnosis]:
    """Say whether the app has what its agents and the open runs need."""
    made = [Diagnosis("ok", "app", f"it has the agents {', '.join(app.agents)}")]
    lost: set[str] = set()
    for status in ("queued", "running", "waiting"):
        lost |= {row.agent for row in await store.runs(Query(state=status, limit=_LOOKED_AT))} - set(app.agents)
    for name in sorted(lost):
        said = f"there are open runs of agent {name}, which the app does not have"
        made.append(Diagnosis("bad", "app", said, "add the agent, or let another app's worker move them"))
    for agent in app.agents.values():
        if isinstance(agent.model, str | None):
            made += _model(agent.name, agent.model or "")
    for each in complaints_of(app.agents, app.policy):
        level: Level = "bad" if each.level == "error" else "warn"
        made.append(Diagnosis(level, "policy", str(each), "correct the rule; keyturn policy check FILE --app APP"))
    return made


def _model(agent: str, name: str) -> list[Diagnosis]:
    """Say whether the provider of a named model can be used here."""
    prefix = split_name(name or chosen_by_environment() or "")[0] or "openai"
    row = PROVIDERS.get(prefix)
    if prefix not in MEMBERS and row is None:
        return []
    try:
        model_class(prefix)
        if row is not None and row.address:
            row.key_in_use()
    except KeyturnError as error:
        said = f"the model of agent {agent} cannot be used"
        return [Diagnosis("bad", "app", said, str(error))]
    return []
