"""Every scenario of the catalogue, played in each way, and swept: cut at every commit and resumed."""

from __future__ import annotations

import pytest

from keyturn.testing.crash import Scenario, play, sweep
from tests.scenarios import CATALOGUE

each = pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda scenario: scenario.name)


@each
async def test_plain_streamed_and_saved_runs_end_alike(scenario: Scenario) -> None:
    plain = await play(scenario)
    for streamed, saved in ((True, False), (False, True), (True, True)):
        other = await play(scenario, streamed=streamed, saved=saved)
        assert (other.output, other.effects) == (plain.output, plain.effects)
    assert plain.log.run.status == "finished"


@each
async def test_no_crash_loses_or_doubles_an_effect(scenario: Scenario, streamed: bool) -> None:
    report = await sweep(scenario, streamed=streamed)
    assert not report.violations, "\n".join(report.violations)
    assert report.cuts > 0
