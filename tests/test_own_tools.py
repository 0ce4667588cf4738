"""What the tests themselves use does what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from tests import needs, steps, table, waiting

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"


def test_examples() -> None:
    for module in (needs, steps, table, waiting):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0, module


def test_what_make_installs_has_the_name_that_a_skipped_test_tells() -> None:
    found = re.search(r"^SYSTEM *= (.*)$", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    browsers = re.search(r"^BROWSERS *= (.*)$", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert browsers is not None
    pairs = found[1].removesuffix(" $(BROWSERS)").split() + browsers[1].split()
    assert {pair.partition(":")[2] for pair in pairs} <= set(needs.PACKAGES.values())
