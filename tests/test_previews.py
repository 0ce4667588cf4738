"""The captures of the manual are what the console shows now; they are readable on narrow screens too."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def previews() -> ModuleType:
    spec = spec_from_file_location("previews", PAGES / "previews.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.trial
def test_the_page_is_what_the_console_shows(previews: ModuleType) -> None:
    assert (PAGES / "previews.md").read_text(encoding="utf-8") == previews.page(), "it is stale: run `make previews`"


@pytest.mark.parametrize("width", [44, 80, 120])
def test_no_row_is_wider_than_the_screen_and_no_key_is_torn_from_its_word(previews: ModuleType, width: int) -> None:
    scenes = [
        scene for name, (_says, scene) in previews.SCENES.items() if name in ("A function", "Custom", "A question")
    ]
    for scene in scenes:
        rows = previews.captured(scene, width).splitlines()
        assert max(map(len, rows)) <= width
        rule, *keys = [row.strip() for row in rows[rows.index("", len(rows) - 6) + 1 :]]
        assert rule.startswith("-- Your decision")
        assert all(len(choice.split(" ", 1)[0]) == 1 and " " in choice for row in keys for choice in row.split("  "))


def test_a_stated_risk_is_shown(previews: ModuleType) -> None:
    assert "  risk, as the tool states it: high" in previews.captured(previews.function).splitlines()
    assert "risk" not in previews.captured(previews.own_preview)


def test_the_models_words_are_never_a_heading_of_ours(previews: ModuleType) -> None:
    shown = previews.captured(previews.question)
    assert shown.count("Which of the two rooms do you want?") == 1
    assert "  | Which of the two rooms do you want?" in shown.splitlines()
    assert "4111" not in previews.captured(previews.function)
