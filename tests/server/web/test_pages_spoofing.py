"""A thousand hostile texts in every field of the pages beside the inbox: none makes an element or an attribute."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from keyturn import Agent, App, Grant, MemoryJournal, Policy, function_tool
from keyturn.channels import ChannelPlan, Recipient
from keyturn.channels.base import Channel, ChannelRefused, Message
from keyturn.core.approval import Approval
from keyturn.journal.rows import DeliveryQuery
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call
from keyturn.policies.rules import ask, deny
from tests.effort import AT_LENGTH
from tests.server.office import peopled
from tests.server.web.payloads import ACTS, payloads
from tests.server.web.test_spoofing import Skeleton, skeleton
from tests.server.web.visiting import Visiting
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("own_key")

EACH = 60


def visible(text: str) -> str:
    """Return a text as a name or a label can hold it: one line, nothing that cannot be seen."""
    return "".join(each for each in text if each.isprintable())[:120]


def named(text: str) -> str:
    """Return a text as a role or a group can be named."""
    kept = "".join(each for each in unicodedata.normalize("NFC", text) if unicodedata.category(each)[0] not in "CZ")
    return kept[:120] or "x"


class Loud(Channel):
    """Refuses each message in words of others."""

    name = "mail"

    def __init__(self, text: str) -> None:
        self._text = text

    async def send(self, message: Message) -> None:
        raise ChannelRefused(self._text)


def hostile_app(texts: Sequence[str]) -> App:
    """Make an app that has these texts in each of its words."""

    @function_tool(
        needs_approval=True, strict_mode=False, risk=texts[1], approval=Approval(role=texts[2], users=(texts[3],))
    )
    def act(given: str) -> str:
        raise RuntimeError(texts[4])

    @function_tool(needs_approval=True)
    def easy(given: str) -> str:
        return texts[5]

    said = [
        assistant_message(texts[6]),
        function_call("act", {"given": texts[7]}),
        function_call("easy", {"given": ""}),
    ]
    inner = Agent(texts[8], model=ScriptedModel([texts[9]]))
    lead = Agent(
        texts[10], model=ScriptedModel([said, texts[11]]), tools=[act, easy], handoffs=[inner], handoff_description="x"
    )
    broken = Agent(texts[12] + "b", model=ScriptedModel([RuntimeError(texts[13])]))
    policy = Policy(
        deny(tool=texts[14], agent=texts[15], reason=texts[16], where={texts[17]: {"one_of": [texts[18]]}}),
        ask(kind=texts[19], risk=texts[20], approval=Approval(role=texts[21], expires="2h")),
    )
    plan = ChannelPlan([Loud(texts[22])], recipients=lambda _request: [Recipient(person=texts[23], channel="mail")])
    with patch("keyturn.inbox.rule_lint.refuse"):  # the lint would refuse rules about what is not there
        return App([lead, broken], MemoryJournal(), policy=policy, channels=plan)


async def filled(app: App, texts: Sequence[str]) -> list[str]:
    """Let these texts be said by everybody; return the runs."""
    lead, broken = app.agents
    runs = [await app.start(name, texts[24], requester=texts[25]) for name in (lead, broken)]
    for run in runs:
        await app.wait(run.id, 20)
    [easy] = [row for row in await app.inbox.list() if row.tool == "easy"]
    await app.inbox.approve(easy, by="ada", note=texts[26], grant=Grant(where={"given": texts[27]}, uses=3))
    await app.inbox.send(runs[0].id, texts[28])
    [waits] = [row for row in await app.inbox.list() if row.tool == "act"]
    await app.inbox.cancel(runs[0].id, by="ada", why=texts[29])
    assert waits.state == "open"
    people = app.people
    await people.add("eve", visible(texts[30]), roles=[named(texts[31])], by="ada")
    await people.give_role(named(texts[32]), group=named(texts[33]), by="ada")
    await people.join(named(texts[33]), "eve", by="ada")
    await people.set_address("eve", named(texts[34]), visible(texts[35]), by="ada")
    await people.set(named(texts[36]), {texts[37]: texts[38]}, by="ada")
    await people.delegate("eve", "ben", lasts="2h", why=visible(texts[39]), by="ada")
    await people.issue_token("eve", ["read"], label=visible(texts[40]), by="ada")
    await until(lambda: app.journal.deliveries(DeliveryQuery(state="dead")))
    return [run.id for run in runs]


async def drawn(texts: Sequence[str]) -> list[tuple[str, Skeleton]]:
    """Return what each page is made of."""
    app = hostile_app(texts)
    async with app:
        tokens = await peopled(app)
        runs = await filled(app, texts)
        ada = Visiting(app, tokens["ada"])
        paths = [f"/runs/{run}" for run in runs]
        paths += ["/grants", "/agents", "/policies", "/insights", "/people", "/people/eve", "/channels", "/settings"]
        echoed: dict[str, Any] = {"status": texts[41], "agent": texts[42], "run": texts[43], "after": texts[44]}
        searched: dict[str, Any] = {"text": texts[45], "person": texts[46], "tool": texts[47], "agent": texts[48]}
        answers = [(path, await ada.see(path)) for path in paths]
        for path, params in (("/runs", {}), ("/runs", echoed), ("/audit", {}), ("/audit", searched)):
            answers.append((f"{path} {len(params)}", await ada.client.get(path, params=params)))
        answers.append(("/audit since", await ada.client.get("/audit", params={"since": texts[49]})))
        mark = (await ada.fields("/policies"))["csrf_token"]
        answers.append(("replay", await ada.send("/policies/replay", {"csrf_token": mark, "toml": texts[50]})))
        for path, answer in answers:
            assert answer.status_code in (200, 422), path
        return [(path, skeleton(answer.text)) for path, answer in answers]


@pytest.mark.sweep
async def test_no_text_makes_an_element_or_an_attribute() -> None:
    every = payloads()[:: 1 if AT_LENGTH else 7]  # pages of a request have them all (`test_spoofing.py`)
    assert all(any(text.endswith(act) for text in every) for act in ACTS)
    plain = [[f"word{number} of a text" for number in range(EACH)], ["w" + str(number) * 100 for number in range(EACH)]]
    wanted = set[tuple[str, tuple[str, ...]]]()
    sources = set[str | None]()
    for texts in plain:
        for _path, made in await drawn(texts):
            wanted |= made.parts
            sources |= made.sources
    for start in range(0, len(every) - EACH, EACH):
        for path, made in await drawn(every[start : start + EACH]):
            assert made.parts <= wanted, (path, made.parts - wanted)
            assert made.sources <= sources, path
