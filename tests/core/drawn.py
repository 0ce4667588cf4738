"""What the laws are tried with: terms on which calls wait, and people who decide them."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.core.approval import Approval
from tests.core.samples import person

CHAINS = [
    Approval(steps=[Approval(role="ops", expires="90ms"), Approval(users=("cyd", "dan", "eve"), quorum=2)]),
    Approval(
        steps=[
            Approval(quorum=2, deny_quorum=2, min_look="1ms", break_glass="chief"),
            Approval(confirm=True, signed=True, expires="50ms", on_expiry="ask_again", max_asks=2, break_glass="chief"),
            Approval(role="chief", execute_by="50ms", break_glass="chief", expires="90ms", escalate_to=("cyd",),
                     on_expiry="escalate"),
        ]
    ),
]  # fmt: skip
TERMS = st.sampled_from(
    [
        None,
        None,
        None,
        Approval(expires="50ms"),
        Approval(execute_by="50ms"),
        Approval(quorum=2, reason="on_reject"),
        Approval(execute_by="50ms", reason="required"),
        Approval(quorum=2, deny_quorum=2, expires="90ms", execute_by="90ms"),
        Approval(role="ops", expires="90ms", on_expiry="ask_again", max_asks=2),
        Approval(users=("ada", "bob"), not_requester=True),
        Approval(signed=True, quorum=2, expires="50ms", on_expiry="escalate", escalate_to=("cyd", "dan", "role:ops")),
        Approval(expires="90ms", warn_before="30ms", on_expiry="ask_again", max_asks=9),
        Approval(confirm=True, reason="on_reject"),
        Approval(confirm=True, quorum=2, execute_by="50ms", break_glass="ops"),
        Approval(confirm=True, role="ops", signed=True, break_glass="chief"),
        Approval(users=("bob",), not_requester=True, break_glass="ops"),
        Approval(min_look="30ms"),
        Approval(min_look="30ms", quorum=2, break_glass="chief", expires="200ms"),
        Approval(min_look="1ms", confirm=True, role="ops"),
        *CHAINS,
        *CHAINS,
    ]
)
OPS = person("ada", "ops", strength="signed")
PEOPLE = st.sampled_from(
    [
        OPS,
        OPS,
        OPS,
        person("bob", "ops", strength="signed"),
        person("cyd", strength="signed"),
        person("dan"),
        person("eve", strength="signed"),
        person("gus", "chief", strength="signed"),
        person("eve", "ops", strength="signed"),
        person("fay", "ops", requester=True),
        person("ada", "ops", strength="claimed"),
        replace(person("eve", "ops", strength="signed"), acting_for="ada"),
        replace(person("bob", "ops", strength="signed"), acting_for="ada", place=3),
        replace(person("cyd", strength="signed"), acting_for="bob", roles_only=True),
        None,
    ]
)
