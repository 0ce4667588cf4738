"""Every probe of the list gets the answer that it must, and the manual's page is what the run gives."""

from __future__ import annotations

import pytest

from tests.server.probes import PAGE, Answer, Probe, page


@pytest.mark.trial
@pytest.mark.timeout(400)
def test_every_probe_is_answered_well_and_the_page_says_what_came() -> None:
    made, found = page()
    assert [each for each in found if not each.good] == []
    assert len(found) > 90
    assert PAGE.read_text(encoding="utf-8") == made, "docs/probes.md is stale: run `make probes`"


def test_a_probe_fails_where_the_answer_is_another_one() -> None:
    probe = Probe("g", "w", b"", (403,), (("x-frame-options", "DENY"),), lacks="secret")
    good = b"HTTP/1.1 403 Forbidden\r\nx-frame-options: DENY\r\n\r\nno"
    assert probe.tried(Answer.of(good)) == (True, "403; `x-frame-options: DENY`")
    for bad in (good.replace(b"403", b"200"), good.replace(b"DENY", b"ALLOW"), good + b" Secret", b""):
        assert not probe.tried(Answer.of(bad))[0]
