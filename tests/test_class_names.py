"""A class's name stands in one module, so that a search for it finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.sources import TOGETHER, nodes

# Each file is parsed once, by whichever of them comes first.
pytestmark = pytest.mark.together(TOGETHER)

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "keyturn"
#: Names that programs import, or that the API's schema has, from more than one place.
PUBLIC = """
Agent Answer Approval Audit Call CallView Delegate Event Fork Frame Inbox Insights Message ModelRequest ModelResponse
Once Part People Prompt Resume Review RunResult Secret ServerError Session Span Start TextPart Told Tool Turn Withdraw
"""


def test_a_class_is_the_only_one_of_its_name() -> None:
    places = defaultdict[str, set[str]](set)
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path.relative_to(PACKAGE)))
    listed = set(PUBLIC.split())
    several = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    new = {name: files for name, files in several.items() if name not in listed}
    assert not new, "name it by its subject, or make them one class"
    assert several.keys() == listed, "take out of the list what is unique now"
