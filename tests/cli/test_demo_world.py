"""The demo's world: a file that nobody's change is lost in."""

from __future__ import annotations

import doctest
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from keyturn.cli import demo_agent
from keyturn.cli.demo_agent import AT_FIRST, World


def test_examples() -> None:
    assert doctest.testmod(demo_agent).failed == 0


def test_before_anything_happened_it_is_as_at_first(tmp_path: Path) -> None:
    world = World(tmp_path / "world.json")
    assert world.read() == AT_FIRST
    assert not world.path.exists()


def test_a_change_names_its_process_and_leaves_the_first_world_alone(tmp_path: Path) -> None:
    world = World(tmp_path / "world.json")
    world.change("clear", lambda data: data["backups"].clear())
    assert world.read()["effects"] == [f"clear, by process {os.getpid()}"]
    assert World(world.path).read()["backups"] == []
    assert len(AT_FIRST["backups"]) == 4


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    world = World(tmp_path / "world.json")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: world.change(str(n), lambda data: data["notices"].append(n)), range(40)))
    assert sorted(world.read()["notices"]) == list(range(40))
    assert len(world.read()["effects"]) == 40
